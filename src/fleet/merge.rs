//! One account of many parts.

use std::collections::BTreeMap;

use super::part_report::PartReport;
use super::plan::Part;
use crate::error::FaultKind;
use crate::ladder::generation::SourceChildren;
use crate::report::{Counts, FailedLeaf, LevelReport, Report, Tally};
use crate::store::Tally as Requests;
use crate::verify::PartVerified;
use crate::watch::Elsewhere;

/// What tries of a part wrote that ended early. The next try finds it current.
#[derive(Debug, Default)]
pub(super) struct Carried {
    written: u64,
    /// By the order of the level.
    levels: BTreeMap<u8, u64>,
}

impl Carried {
    /// Takes note of a try that ended early, of whose account only what was written is left.
    pub(super) fn note(&mut self, report: &mut Report) {
        self.written += report.counts.written;
        report.counts = written_of(report.counts);
        report.failed_leaves.clear();
        let Some(ladder) = &mut report.ladder else {
            return;
        };
        self.written += ladder.counts.written;
        ladder.counts = written_of(ladder.counts);
        ladder.failed.clear();
        for level in &mut ladder.levels {
            *self.levels.entry(level.order).or_default() += level.written;
            level.current = 0;
            level.source_children = SourceChildren::default();
        }
    }

    /// Leaves out of the account of the last try what it found current of earlier ones.
    pub(super) fn leave_out(&self, report: &mut Report) {
        let counts = match &mut report.ladder {
            Some(ladder) => &mut ladder.counts,
            None => &mut report.counts,
        };
        counts.current = counts.current.saturating_sub(self.written);
        let levels = report
            .ladder
            .iter_mut()
            .flat_map(|ladder| &mut ladder.levels);
        for level in levels {
            let carried = self.levels.get(&level.order).copied().unwrap_or(0);
            level.current = level.current.saturating_sub(carried);
        }
    }
}

fn written_of(counts: Counts) -> Counts {
    Counts {
        written: counts.written,
        ..Counts::default()
    }
}

/// The parts of an array together.
#[derive(Debug, Default)]
pub(super) struct Merged {
    pub tally: Tally,
    pub levels: Vec<LevelReport>,
    pub requests: Requests,
    pub bytes_read: u64,
    pub peak_in_flight_bytes: u64,
    pub verified: Option<PartVerified>,
}

impl Merged {
    /// Adds what a part found that verified.
    pub(super) fn add_verified(&mut self, part: Option<PartVerified>) {
        match (&mut self.verified, part) {
            (Some(all), Some(part)) => all.add(part),
            (all, part) => *all = all.take().or(part),
        }
    }

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
    pub(super) fn add(&mut self, report: &Report) {
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
    pub(super) fn lose(&mut self, index: u32, part: &Part, told: Told<'_>, why: &str) {
        let so_far = told.so_far();
        let rest = told.left_of(part).max(1);
        self.tally.counts += Counts {
            failed: so_far.failed + rest - 1,
            ..told.counts()
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
    pub(super) fn leave(&mut self, part: &Part, told: Told<'_>) {
        self.tally.counts += Counts {
            not_attempted: told.left_of(part),
            ..told.counts()
        };
    }
}

/// What is known of a part without a last word.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    /// The report of its latest try.
    pub last: Option<&'a PartReport>,
    /// What was taken from that and earlier ones already.
    pub carried: &'a Carried,
}

impl Told<'_> {
    pub(super) fn so_far(&self) -> Elsewhere {
        self.last.map(|report| report.so_far).unwrap_or_default()
    }

    fn counts(&self) -> Counts {
        let so_far = self.so_far();
        Counts {
            written: so_far.written,
            current: (so_far.done).saturating_sub(so_far.written + so_far.failed),
            failed: so_far.failed,
            ..Counts::default()
        }
    }

    fn left_of(&self, part: &Part) -> u64 {
        let ended = self.so_far().done + self.carried.written;
        part.pieces.saturating_sub(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Ending, LadderReport};
    use crate::settings::Settings;

    fn report(counts: Counts) -> Report {
        Report {
            counts,
            outcome: Ending::Done,
            ..Report::blank("memory://", &Settings::default())
        }
    }

    fn of_ladder(counts: Counts, level: LevelReport) -> Report {
        let ladder = LadderReport {
            counts,
            levels: vec![level],
            ..LadderReport::default()
        };
        Report {
            ladder: Some(ladder),
            ..report(Counts::default())
        }
    }

    fn level(written: u64, current: u64, folded: u64) -> LevelReport {
        let level = serde_json::json!({
            "order": 3, "cells": 5, "regime": "stage-gather", "bytes_written": 10 * written,
            "written": written, "current": current,
            "source_children": {"folded": folded, "missing": 0, "unreadable": 0},
        });
        serde_json::from_value(level).unwrap()
    }

    fn counts(written: u64, current: u64, not_attempted: u64) -> Counts {
        Counts {
            written,
            current,
            not_attempted,
            ..Counts::default()
        }
    }

    #[test]
    fn a_part_in_several_tries_counts_as_one_that_went_through() {
        let (mut merged, mut carried) = (Merged::default(), Carried::default());
        for mut early in [report(counts(3, 1, 6)), report(counts(2, 4, 4))] {
            carried.note(&mut early);
            merged.add(&early);
        }
        let mut last = report(counts(4, 6, 0));
        carried.leave_out(&mut last);
        merged.add(&last);
        assert_eq!(merged.tally.counts, counts(9, 1, 0));
    }

    #[test]
    fn levels_in_several_tries_count_as_once() {
        let (mut merged, mut carried) = (Merged::default(), Carried::default());
        let mut early = of_ladder(counts(2, 1, 1), level(2, 1, 12));
        carried.note(&mut early);
        merged.add(&early);
        let mut last = of_ladder(counts(1, 3, 0), level(1, 3, 16));
        carried.leave_out(&mut last);
        merged.add(&last);
        assert_eq!(merged.tally.counts, counts(3, 1, 0));
        assert_eq!(merged.levels, [level(3, 1, 16)]);
    }

    #[test]
    fn every_piece_of_a_lost_part_has_an_outcome() {
        let part = Part {
            first: "11".to_owned(),
            last: "14".to_owned(),
            pieces: 10,
            cost: 0,
        };
        let last = PartReport {
            run_id: String::new(),
            part: 7,
            worker: String::new(),
            so_far: Elsewhere {
                done: 4,
                written: 2,
                failed: 1,
                ..Elsewhere::default()
            },
            total: 10,
            seconds: 1.0,
            ended: None,
        };
        let carried = Carried {
            written: 3,
            ..Carried::default()
        };
        let told = Told {
            last: Some(&last),
            carried: &carried,
        };
        let mut lost = Merged::default();
        lost.lose(7, &part, told, "gone");
        let sum =
            |counts: Counts| counts.written + counts.current + counts.failed + counts.not_attempted;
        assert_eq!(sum(lost.tally.counts) + carried.written, part.pieces);
        assert_eq!(lost.tally.counts.failed, 1 + 3);
        assert!(lost.tally.failed_leaves[0].error.contains("11 to 14"));
        let mut left = Merged::default();
        left.leave(&part, told);
        assert_eq!(sum(left.tally.counts) + carried.written, part.pieces);
        assert_eq!(left.tally.counts.not_attempted, 3);
    }
}
