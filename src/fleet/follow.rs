//! Follows the workers of one array to its end: reads what they report, has lost parts done
//! again, and stops all of them once when the store fails one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};

use super::directory::{ArrayDir, DirectoryError};
use super::engine::{EngineError, Known, Workers};
use super::followed::Followed;
use super::merge::Merged;
use super::plan::Plan;
use super::taken::Taken;
use crate::error::{AbortReason, FaultKind};
use crate::messages::{Event, PartAtWork, Parts};
use crate::run::Run;
use crate::store::root::Entry;
use crate::watch::{Elsewhere, FLEET, Watched};

/// Looks at the reports within a ttl of the lease, at least.
const LOOKS: u32 = 60;

/// The longest time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Looks at the leases of the parts within one of their ttls.
const LOOKS_AT_LEASES: u32 = 4;

/// How long workers that were asked to end may take to finish what they are writing.
const GRACE: Duration = Duration::from_secs(120);

/// How long workers stay whose parts are all over.
const LINGER: Duration = Duration::from_secs(20);

/// How long a scheduler may refuse to have a part done again.
const SCHEDULER_PATIENCE: Duration = Duration::from_secs(300);

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

impl FollowError {
    /// What kind of fault this is.
    pub(super) fn kind(&self) -> FaultKind {
        match self {
            Self::Directory(error) => error.kind(),
            Self::Engine(_) => FaultKind::Bug,
        }
    }
}

/// One array under way.
pub(super) struct Follow<'a> {
    run: &'a Run,
    array: &'a ArrayDir,
    plan: &'a Plan,
    watched: &'a Watched,
    workers: &'a mut Workers,
    parts: Vec<Followed>,
    merged: Merged,
    taken: Taken,
    looked_at_leases: Instant,
    /// Parts that the scheduler has yet to have done again, and since when it refuses to.
    again: Vec<u32>,
    refused_since: Option<Instant>,
}

/// What became of an array.
pub(super) struct Outcome {
    pub merged: Merged,
    /// Whether a worker may still be writing.
    pub may_be_written: bool,
}

impl<'a> Follow<'a> {
    pub(super) fn new(
        run: &'a Run,
        array: &'a ArrayDir,
        plan: &'a Plan,
        watched: &'a Watched,
        workers: &'a mut Workers,
    ) -> Self {
        let mut parts = Vec::new();
        parts.resize_with(plan.parts.len(), Followed::default);
        Self {
            run,
            array,
            plan,
            watched,
            workers,
            parts,
            merged: Merged::default(),
            taken: Taken::default(),
            looked_at_leases: Instant::now(),
            again: Vec::new(),
            refused_since: None,
        }
    }

    /// Has every part worked on; what came of them. Where that fails, the run is stopping.
    pub(super) async fn followed_to_its_end(mut self) -> Outcome {
        if let Err(error) = self.until_all_ended().await {
            self.run.stop_fleet(error.kind(), error.to_string());
            self.workers.kill().await;
        }
        for (part, plan) in self.parts.iter_mut().zip(&self.plan.parts) {
            part.leave(self.run, plan, &mut self.merged);
        }
        Outcome {
            may_be_written: !self.until_quiet().await,
            merged: self.merged,
        }
    }

    /// # Errors
    /// When the scheduler or the run directory fails, and then workers may still be alive.
    async fn until_all_ended(&mut self) -> Result<(), FollowError> {
        let all: Vec<u32> = (0..).take(self.parts.len()).collect();
        self.workers.submit(&all).await?;
        let (mut over_since, mut stopped_since) = (None, None);
        loop {
            // In this order: a worker that has ended has left its last report before.
            let known = self.look(stopped_since.is_some()).await?;
            self.read_reports(&known.ended).await?;
            self.take_over();
            self.judge_ended(known.ended).await;
            self.tell();
            let now = Instant::now();
            if self.parts.iter().all(|part| part.is_over) {
                let lingers = now.duration_since(*over_since.get_or_insert(now));
                if known.alive == 0 {
                    return Ok(());
                }
                if lingers >= LINGER {
                    self.workers.kill().await;
                    return Ok(());
                }
            }
            match stopped_since {
                None if self.run.is_stopping() => {
                    self.workers.stop().await;
                    stopped_since = Some(now);
                }
                None => self.submit_again().await?,
                Some(since) if known.alive == 0 || now.duration_since(since) >= GRACE => {
                    self.workers.kill().await;
                    return Ok(());
                }
                Some(_) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(self.every()) => {}
                () = self.workers.news() => {}
                () = self.run.stopping(), if stopped_since.is_none() => {}
            }
        }
    }

    fn every(&self) -> Duration {
        (self.run.settings.lease_ttl / LOOKS).min(LOOK_EVERY)
    }

    /// What is known of the workers: by their engine, and by the leases of their parts.
    async fn look(&mut self, is_urgent: bool) -> Result<Known, FollowError> {
        let mut known = self.workers.look().await?;
        let part_ttl = self.plan.part_ttl();
        if is_urgent || self.looked_at_leases.elapsed() >= part_ttl / LOOKS_AT_LEASES {
            self.looked_at_leases = Instant::now();
            self.taken.look(self.array).await?;
        }
        if self.workers.are_known() {
            // A token that was stale once is so for good, so nothing is lost with its worker.
            for part in self.taken.fallen_silent(self.run.settings.lease_ttl) {
                let followed = self.parts.get(part as usize);
                if followed.is_some_and(|followed| !followed.is_over) {
                    tracing::warn!(
                        part,
                        "its worker has been silent for the ttl of the lease, ending it"
                    );
                    self.workers.end(part).await;
                }
            }
            return Ok(known);
        }
        for part in self.taken.fallen_silent(part_ttl) {
            known
                .ended
                .insert(part, "its worker fell silent".to_owned());
        }
        for (index, part) in (0..).zip(&self.parts) {
            if part.ended().is_some() {
                known.ended.insert(index, "it is through".to_owned());
            }
            known.alive += usize::from(self.may_be_written(index));
        }
        self.workers.note_alive(known.alive);
        Ok(known)
    }

    /// Whether a part may have a worker that writes.
    fn may_be_written(&self, index: u32) -> bool {
        let is_final = self.parts[index as usize].is_final;
        !is_final && self.taken.may_have_worker(index, self.plan.part_ttl())
    }

    async fn read_reports(&mut self, ended: &BTreeMap<u32, String>) -> Result<(), DirectoryError> {
        // A listing may lag behind, so whoever has ended is asked by name.
        let mut news: BTreeMap<u32, Option<Entry>> =
            ended.keys().map(|part| (*part, None)).collect();
        for (index, entry) in self.array.reports().await? {
            let part = self.parts.get(index as usize);
            if part.is_some_and(|part| part.seen.as_ref() != Some(&entry)) {
                news.insert(index, Some(entry));
            }
        }
        news.retain(|index, _| {
            let part = self.parts.get(*index as usize);
            part.is_some_and(|part| !part.is_over)
        });
        let (array, run_id) = (self.array, &self.run.run_id);
        let read = stream::iter(news)
            .map(|(index, entry)| async move {
                let report = array.report(index, run_id).await?;
                Ok::<_, DirectoryError>((index, entry, report))
            })
            .buffer_unordered(READ_AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        for (index, entry, report) in read {
            let part = &mut self.parts[index as usize];
            part.seen = entry.or(part.seen.take());
            if let Some(report) = report {
                part.hear(report);
            }
        }
        Ok(())
    }

    /// Takes the accounts of parts that are done, and stops all for a fault of the store.
    fn take_over(&mut self) {
        for part in self.parts.iter_mut().filter(|part| !part.is_over) {
            if let Some(fault) = part.ended().and_then(|ended| ended.store_wide.as_ref()) {
                // Only the first one of all workers is told.
                self.run.stop(AbortReason::StoreWide {
                    kind: fault.kind,
                    error: fault.error.clone(),
                    credentials_end: fault.credentials_end.clone(),
                    so_far: None,
                });
            }
            part.take_over(self.run, &mut self.merged);
        }
    }

    /// Takes note of the parts to be done again, of those whose worker has ended.
    async fn judge_ended(&mut self, ended: BTreeMap<u32, String>) {
        let ended = ended.into_iter();
        for (index, words) in ended {
            let Some(part) = self
                .parts
                .get_mut(index as usize)
                .filter(|part| !part.is_over)
            else {
                continue;
            };
            let plan = (index, &self.plan.parts[index as usize]);
            if !part.end_try(self.run, plan, words, &mut self.merged) {
                continue;
            }
            // The next worker need not wait for the ttl of one that is known to be gone.
            if self.workers.are_children()
                && let Err(error) = self.array.free(index).await
            {
                tracing::warn!(part = index, %error, "the part is free only once its ttl is over");
            }
            self.again.push(index);
        }
    }

    /// # Errors
    /// When the scheduler has refused for too long.
    async fn submit_again(&mut self) -> Result<(), EngineError> {
        if self.again.is_empty() {
            return Ok(());
        }
        match self.workers.submit(&self.again).await {
            Ok(()) => {
                self.again.clear();
                self.refused_since = None;
                Ok(())
            }
            Err(error) => {
                let since = *self.refused_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= SCHEDULER_PATIENCE {
                    return Err(error);
                }
                tracing::warn!(%error, "not submitted, trying again");
                Ok(())
            }
        }
    }

    /// Waits until no worker may write any more; whether that is so in the end. It goes by the
    /// leases of the parts, without which nobody writes.
    async fn until_quiet(&mut self) -> bool {
        let is_left = self.parts.iter().any(|part| !part.is_final);
        if !is_left || self.workers.are_children() {
            return true;
        }
        self.workers.stop().await;
        let heard_within = self.workers.hear_within();
        let patience = GRACE + self.plan.part_ttl();
        let asked = Instant::now();
        loop {
            let looked = self.taken.look(self.array).await;
            if let Err(error) = &looked {
                tracing::warn!(%error, "whether a worker still writes cannot be seen");
            }
            let mut parts = (0..).take(self.parts.len());
            let is_quiet = looked.is_ok() && !parts.any(|part| self.may_be_written(part));
            let waited = asked.elapsed();
            if (is_quiet && waited >= heard_within) || waited >= patience {
                return is_quiet;
            }
            tokio::time::sleep(self.every()).await;
        }
    }

    /// Says how far all of them are, and who has the longest to go.
    fn tell(&self) {
        let mut elsewhere = Elsewhere::default();
        let (parts, mut at_work) = (&self.parts, Vec::new());
        for (index, part) in (0..).zip(parts) {
            elsewhere += part.so_far();
            at_work.extend(part.at_work().map(|report| PartAtWork::of(index, report)));
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
