//! What a coordinator knows of one part: its latest report, and the tries that came before.

use super::merge::{Carried, Merged, Told};
use super::part_report::{PartEnded, PartReport};
use super::plan::Part;
use crate::messages::PartAtWork;
use crate::run::Run;
use crate::store::root::Entry;
use crate::watch::Elsewhere;

/// One part, as it is followed.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The writing of its report that was read last.
    pub seen: Option<Entry>,
    /// Its latest report.
    last: Option<PartReport>,
    /// Whose try ended last; what it told has been taken.
    gone: Option<String>,
    /// Tries that ended without getting on.
    lost: u32,
    /// Pieces that were done when a try ended last.
    done_before: u64,
    carried: Carried,
    /// Whether its outcome is known.
    pub is_over: bool,
    /// Whether its outcome is that of a report, after which its worker writes no more.
    pub is_final: bool,
}

impl Followed {
    pub(super) fn ended(&self) -> Option<&PartEnded> {
        self.last.as_ref()?.ended.as_ref()
    }

    fn told(&self) -> Told<'_> {
        Told {
            last: self.last.as_ref(),
            carried: &self.carried,
        }
    }

    /// Its latest report, if it is of one who is at work.
    pub(super) fn at_work(&self) -> Option<&PartReport> {
        let last = self.last.as_ref()?;
        let is_at_work = !self.is_over && last.ended.is_none() && !self.is_gone(last);
        is_at_work.then_some(last)
    }

    /// How far it is.
    pub(super) fn so_far(&self) -> Elsewhere {
        let so_far = self.told().so_far();
        match self.at_work() {
            Some(_) => so_far,
            None => Elsewhere {
                in_flight: 0,
                in_flight_bytes: 0,
                ..so_far
            },
        }
    }

    fn is_gone(&self, report: &PartReport) -> bool {
        self.gone.as_ref() == Some(&report.worker)
    }

    /// Takes a report that was read, unless it is of a try that has ended.
    pub(super) fn hear(&mut self, report: PartReport) {
        if !self.is_gone(&report) {
            self.last = Some(report);
        }
    }

    /// Takes the account of a part that has come to its end, if it has.
    pub(super) fn take_over(&mut self, run: &Run, merged: &mut Merged) {
        let Some(ended) = self.last.as_mut().and_then(|last| last.ended.as_mut()) else {
            return;
        };
        if !ended.is_final() {
            return;
        }
        self.carried.leave_out(&mut ended.report);
        merged.add(&ended.report);
        merged.add_verified(ended.verified.take());
        note(run, ended);
        self.is_over = true;
        self.is_final = true;
    }

    /// Takes note of a try that ended early, and of the last `words` about it. Whether the part
    /// is to be done again: else it is given up for good.
    pub(super) fn end_try(
        &mut self,
        run: &Run,
        (index, part): (u32, &Part),
        words: String,
        merged: &mut Merged,
    ) -> bool {
        let why = match self.ended().and_then(|ended| ended.report.error.clone()) {
            Some(error) => error,
            None => words,
        };
        let done = self.last.as_ref().map_or(0, |last| last.so_far.done);
        // One that was asked to end, as at its time limit, and got on is no loss.
        self.lost += u32::from(done <= self.done_before);
        self.done_before = self.done_before.max(done);
        self.carry(run, index, merged);
        if self.lost >= super::MAX_TRIES {
            tracing::error!(part = index, why, "part lost for good");
            merged.lose(index, part, self.told(), &why);
            self.is_over = true;
            return false;
        }
        tracing::warn!(part = index, why, "part ended early, it is done again");
        self.gone = self.last.as_ref().map(|last| last.worker.clone());
        true
    }

    /// Takes the account of a try that ended early, as far as something was written.
    fn carry(&mut self, run: &Run, index: u32, merged: &mut Merged) {
        let Some(last) = self.last.as_mut() else {
            return;
        };
        let is_news = self.gone.as_ref() != Some(&last.worker);
        let Some(mut ended) = last.ended.take() else {
            let written = last.so_far.written;
            if written > 0 && is_news {
                merged.tally.warnings.push(format!(
                    "a worker of part {index} died without a last word: some of the {written} or more pieces it wrote are counted as current, and its objects are missing where a receipt lists them"
                ));
            }
            return;
        };
        self.carried.note(&mut ended.report);
        merged.add(&ended.report);
        note(run, &mut ended);
        last.so_far.done -= last.so_far.written.min(last.so_far.done);
        last.so_far.written = 0;
    }

    /// Takes what is known of a part that is not done, because the run is stopping.
    pub(super) fn leave(&mut self, run: &Run, part: &Part, merged: &mut Merged) {
        if self.is_over {
            return;
        }
        merged.leave(part, self.told());
        if let Some(ended) = self.last.as_mut().and_then(|last| last.ended.as_mut()) {
            note(run, ended);
        }
    }
}

/// Takes note of what a worker did to the store.
fn note(run: &Run, ended: &mut PartEnded) {
    for (leaf, stamp) in std::mem::take(&mut ended.stamps) {
        run.note_stamp(leaf, stamp);
    }
    run.root.note(std::mem::take(&mut ended.touched));
}

impl PartAtWork {
    pub(super) fn of(part: u32, report: &PartReport) -> Self {
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
    pub(super) fn seconds_left(&self) -> f64 {
        self.total.saturating_sub(self.done) as f64 / self.per_second
    }
}
