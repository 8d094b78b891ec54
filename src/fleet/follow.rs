//! Follows the workers of one array to its end: reads what they report, has lost parts done
//! again, and stops all of them once when the store fails one.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};

use super::directory::{ArrayDir, DirectoryError};
use super::engine::{EngineError, Workers};
use super::merge::{Carried, Merged, Told};
use super::part_report::{PartEnded, PartReport};
use super::plan::Part;
use crate::error::{AbortReason, FaultKind};
use crate::messages::{Event, PartAtWork, Parts};
use crate::run::Run;
use crate::store::root::Entry;
use crate::watch::{Elsewhere, FLEET, Watched};

/// How long workers that were asked to end may take to finish what they are writing.
const GRACE: Duration = Duration::from_secs(120);

/// Reports read at once.
const READ_AT_ONCE: usize = 16;

/// Parts at work that are told of, the ones that have the longest to go.
const TOLD: usize = 4;

/// Why an array cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FollowError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// One array under way.
pub(super) struct Follow<'a> {
    pub run: &'a Run,
    pub array: &'a ArrayDir,
    pub parts: &'a [Part],
    pub watched: &'a Watched,
    pub workers: &'a mut Workers,
    /// Time between two looks.
    pub every: Duration,
}

/// What is known of one part.
#[derive(Debug, Default)]
struct Followed {
    /// The writing of its report that was read last.
    seen: Option<Entry>,
    last: Option<PartReport>,
    /// Tries that ended without getting on.
    lost: u32,
    /// Pieces that were done when a try ended last.
    done_before: u64,
    carried: Carried,
    is_over: bool,
}

impl Followed {
    fn ended(&self) -> Option<&PartEnded> {
        self.last.as_ref()?.ended.as_ref()
    }

    fn told(&self) -> Told<'_> {
        Told {
            last: self.last.as_ref(),
            carried: &self.carried,
        }
    }

    fn is_at_work(&self) -> bool {
        self.last.is_some() && self.ended().is_none() && !self.is_over
    }
}

impl FollowError {
    /// What kind of fault this is.
    pub(super) fn kind(&self) -> FaultKind {
        match self {
            Self::Directory(error) => error.kind(),
            Self::Engine(_) => FaultKind::Bug,
        }
    }
}

impl Follow<'_> {
    /// Has every part worked on; what came of them.
    ///
    /// # Errors
    /// When the scheduler or the run directory fails, and then workers may still be alive.
    pub(super) async fn until_all_ended(&mut self) -> Result<Merged, FollowError> {
        let mut parts: Vec<Followed> = Vec::new();
        parts.resize_with(self.parts.len(), Followed::default);
        let all: Vec<u32> = (0..).take(self.parts.len()).collect();
        self.workers.submit(&all).await?;
        let mut merged = Merged::default();
        let mut stopped = None;
        loop {
            // In this order: a worker that has ended has left its last report before.
            let known = self.workers.look().await?;
            self.read_reports(&mut parts).await?;
            self.take_over(&mut parts, &mut merged);
            let again = self.judge_ended(&mut parts, known.ended, &mut merged);
            self.tell(&parts);
            let is_over = parts.iter().all(|part| part.is_over);
            if is_over && known.alive == 0 {
                return Ok(merged);
            }
            match stopped {
                None if self.run.is_stopping() => {
                    self.workers.stop().await;
                    stopped = Some(Instant::now());
                }
                None => {
                    self.free(&again).await;
                    self.workers.submit(&again).await?;
                }
                Some(since) if known.alive == 0 || since.elapsed() >= GRACE => {
                    self.workers.kill().await;
                    self.leave_rest(&mut parts, &mut merged);
                    return Ok(merged);
                }
                Some(_) => {}
            }
            let pause = tokio::time::sleep(self.every);
            tokio::select! {
                () = pause => {}
                () = self.workers.news() => {}
                () = self.run.stopping(), if stopped.is_none() => {}
            }
        }
    }

    async fn read_reports(&self, parts: &mut [Followed]) -> Result<(), DirectoryError> {
        let is_news = |(index, entry): &(u32, Entry)| {
            let part = parts.get(*index as usize);
            part.is_some_and(|part| !part.is_over && part.seen.as_ref() != Some(entry))
        };
        let reports = self.array.reports().await?;
        let news: Vec<(u32, Entry)> = reports.into_iter().filter(is_news).collect();
        let read = stream::iter(news)
            .map(|(index, entry)| async move {
                let report = self.array.report(index, &self.run.run_id).await?;
                Ok::<_, DirectoryError>((index, entry, report))
            })
            .buffer_unordered(READ_AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        for (index, entry, report) in read {
            let part = &mut parts[index as usize];
            part.last = report.or(part.last.take());
            part.seen = Some(entry);
        }
        Ok(())
    }

    /// Takes the accounts of parts that are done, and stops all for a fault of the store.
    fn take_over(&self, parts: &mut [Followed], merged: &mut Merged) {
        for part in parts.iter_mut().filter(|part| !part.is_over) {
            let Some(ended) = part.last.as_mut().and_then(|last| last.ended.as_mut()) else {
                continue;
            };
            if let Some(fault) = &ended.store_wide {
                // Only the first one of all workers is told.
                self.run.stop(AbortReason::StoreWide {
                    kind: fault.kind,
                    error: fault.error.clone(),
                    credentials_end: fault.credentials_end.clone(),
                    so_far: None,
                });
            }
            if ended.is_final() {
                part.carried.leave_out(&mut ended.report);
                merged.add(&ended.report);
                merged.add_verified(ended.verified.take());
                self.note(ended);
                part.is_over = true;
            }
        }
    }

    /// Which parts are to be done again, of those whose worker has ended.
    fn judge_ended(
        &self,
        parts: &mut [Followed],
        ended: std::collections::BTreeMap<u32, String>,
        merged: &mut Merged,
    ) -> Vec<u32> {
        let mut again = Vec::new();
        for (index, words) in ended {
            let Some(part) = parts.get_mut(index as usize) else {
                continue;
            };
            if part.is_over {
                continue;
            }
            let why = match part.ended().and_then(|ended| ended.report.error.clone()) {
                Some(error) => error,
                None => words,
            };
            let done = part.last.as_ref().map_or(0, |last| last.so_far.done);
            // One that was asked to end, as at its time limit, and got on is no loss.
            part.lost += u32::from(done <= part.done_before);
            part.done_before = part.done_before.max(done);
            self.carry(part, merged);
            if part.lost >= super::MAX_TRIES {
                tracing::error!(part = index, why, "part lost for good");
                merged.lose(index, &self.parts[index as usize], part.told(), &why);
                part.is_over = true;
            } else {
                tracing::warn!(part = index, why, "part ended early, it is done again");
                again.push(index);
            }
        }
        again
    }

    /// Takes the account of a try that ended early, as far as something was written.
    fn carry(&self, part: &mut Followed, merged: &mut Merged) {
        let Some(last) = part.last.as_mut() else {
            return;
        };
        let Some(ended) = last.ended.as_mut() else {
            return;
        };
        part.carried.note(&mut ended.report);
        merged.add(&ended.report);
        self.note(ended);
        last.so_far.done -= last.so_far.written.min(last.so_far.done);
        last.so_far.written = 0;
    }

    /// Gives back the parts whose workers are known to be gone, so that the next ones need
    /// not wait for their ttl.
    async fn free(&self, parts: &[u32]) {
        for part in parts {
            if let Err(error) = self.array.free(*part).await {
                tracing::warn!(part, %error, "the part is free only once its ttl is over");
            }
        }
    }

    fn leave_rest(&self, parts: &mut [Followed], merged: &mut Merged) {
        for (part, plan) in parts.iter_mut().zip(self.parts) {
            if part.is_over {
                continue;
            }
            merged.leave(plan, part.told());
            if let Some(ended) = part.last.as_mut().and_then(|last| last.ended.as_mut()) {
                self.note(ended);
            }
        }
    }

    /// Takes note of what a worker did to the store.
    fn note(&self, ended: &mut PartEnded) {
        for (leaf, stamp) in std::mem::take(&mut ended.stamps) {
            self.run.note_stamp(leaf, stamp);
        }
        self.run.root.note(std::mem::take(&mut ended.touched));
    }

    /// Says how far all of them are, and who has the longest to go.
    fn tell(&self, parts: &[Followed]) {
        let mut elsewhere = Elsewhere::default();
        let mut at_work = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let Some(last) = &part.last else { continue };
            elsewhere += match part.is_at_work() {
                true => last.so_far,
                false => Elsewhere {
                    in_flight: 0,
                    in_flight_bytes: 0,
                    ..last.so_far
                },
            };
            if part.is_at_work() {
                at_work.push(PartAtWork::of(index as u32, last));
            }
        }
        self.watched.note_elsewhere(elsewhere);
        let n_at_work = at_work.len() as u64;
        let pace = at_work.iter().fold(0.0, |sum, part| sum + part.per_second);
        let per_second = pace / n_at_work.max(1) as f64;
        at_work.sort_by(|a, b| b.seconds_left().total_cmp(&a.seconds_left()));
        at_work.truncate(TOLD);
        let ended = parts.iter().filter(|part| part.is_over).count() as u64;
        let slowest = at_work.first();
        tracing::debug!(
            target: FLEET,
            parts = parts.len(),
            ended,
            at_work = n_at_work,
            per_second,
            slowest = slowest.map(|part| part.part),
            slowest_done = slowest.map(|part| part.done),
            slowest_total = slowest.map(|part| part.total),
            slowest_per_second = slowest.map(|part| part.per_second),
            "parts"
        );
        self.run.announce(Event::Parts(Parts {
            total: parts.len() as u64,
            ended,
            at_work: n_at_work,
            per_second,
            slowest: at_work,
        }));
    }
}

impl PartAtWork {
    fn of(part: u32, report: &PartReport) -> Self {
        let done = report.so_far.done;
        Self {
            part,
            worker: report.worker.clone(),
            done,
            total: report.total,
            per_second: done as f64 / report.seconds.max(f64::MIN_POSITIVE),
        }
    }

    /// How long it takes yet at its rate so far.
    fn seconds_left(&self) -> f64 {
        self.total.saturating_sub(self.done) as f64 / self.per_second
    }
}
