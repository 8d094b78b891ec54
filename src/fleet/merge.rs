//! One account of many parts.

use super::part_report::{PartEnded, PartReport};
use super::plan::Part;
use crate::error::FaultKind;
use crate::report::{Counts, FailedLeaf, LevelReport, Tally};
use crate::store::Tally as Requests;

/// The parts of an array together.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub tally: Tally,
    pub levels: Vec<LevelReport>,
    pub requests: Requests,
    pub bytes_read: u64,
    pub peak_in_flight_bytes: u64,
}

impl Merged {
    /// Pieces of work whose turn did not come.
    pub(super) fn not_attempted(pieces: u64) -> Self {
        let mut merged = Self::default();
        merged.tally.counts.not_attempted = pieces;
        merged
    }

    /// Adds another array.
    pub(super) fn absorb(&mut self, other: Self) {
        self.add_tally(&other.tally.counts, &other.tally.failed_leaves);
        let tally = &mut self.tally;
        tally.reasons.add(&other.tally.reasons);
        tally.bytes_of_columns += other.tally.bytes_of_columns;
        tally.stages += other.tally.stages;
        tally.warnings.extend(other.tally.warnings);
        self.add_levels(&other.levels);
    }

    fn add_tally(&mut self, counts: &Counts, failed: &[FailedLeaf]) {
        let unnamed = counts.failed.saturating_sub(failed.len() as u64);
        self.tally.counts += Counts {
            failed: unnamed,
            ..*counts
        };
        for failure in failed {
            self.tally.push_failure(failure.clone());
        }
    }

    fn add_levels(&mut self, levels: &[LevelReport]) {
        for level in levels {
            match self
                .levels
                .iter_mut()
                .find(|known| known.order == level.order)
            {
                Some(known) => known.add(level),
                None => self.levels.push(level.clone()),
            }
        }
    }

    /// Adds a part that ended with an account of its own.
    pub(super) fn add(&mut self, ended: &PartEnded) {
        let report = &ended.report;
        let (counts, verdicts, failed, bytes, stages) = match &report.ladder {
            Some(ladder) => (
                &ladder.counts,
                &ladder.verdicts,
                &ladder.failed,
                ladder.bytes_written,
                ladder.stage_seconds,
            ),
            None => (
                &report.counts,
                &report.verdicts,
                &report.failed_leaves,
                report.bytes.written,
                report.stage_seconds,
            ),
        };
        self.add_tally(counts, failed);
        let tally = &mut self.tally;
        tally.reasons.add(verdicts);
        tally.bytes_of_columns += bytes;
        tally.stages += stages;
        tally.warnings.extend(report.warnings.iter().cloned());
        let ladder = report.ladder.as_ref();
        self.add_levels(ladder.map_or(&[], |ladder| &ladder.levels));
        self.requests += report.requests;
        self.bytes_read += report.bytes.read;
        self.peak_in_flight_bytes = self.peak_in_flight_bytes.max(report.peak_in_flight_bytes);
    }

    /// Counts a part whose tries are used up: what its last report tells, and the rest as
    /// failed.
    pub(super) fn lose(&mut self, index: u32, part: &Part, last: Option<&PartReport>, why: &str) {
        let so_far = last.map(|report| report.so_far).unwrap_or_default();
        let rest = part.pieces.saturating_sub(so_far.done).max(1);
        self.tally.counts += Counts {
            written: so_far.written,
            current: (so_far.done).saturating_sub(so_far.written + so_far.failed),
            failed: so_far.failed + rest - 1,
            ..Counts::default()
        };
        let (first, last) = (&part.first, &part.last);
        self.tally.push_failure(FailedLeaf {
            leaf: format!("part {index}"),
            array: None,
            kind: FaultKind::Bug,
            error: format!(
                "the part of shards {first} to {last} was lost {} times, with {rest} of its pieces left; its last worker: {why}; run the same command again once that is cured",
                super::MAX_TRIES
            ),
        });
    }

    /// Counts a part that was not finished because the run is stopping.
    pub(super) fn leave(&mut self, part: &Part, last: Option<&PartReport>) {
        let so_far = last.map(|report| report.so_far).unwrap_or_default();
        self.tally.counts += Counts {
            written: so_far.written,
            current: (so_far.done).saturating_sub(so_far.written + so_far.failed),
            failed: so_far.failed,
            not_attempted: part.pieces.saturating_sub(so_far.done),
            ..Counts::default()
        };
    }
}
