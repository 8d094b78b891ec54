//! What came of a run, in words.

use std::fmt::Write;

use super::output;
use crate::messages::Reason;
use crate::report::{Ending, LadderReport, Report};

/// Failures a summary names; the JSON document has more.
const FAILURES_SHOWN: usize = 10;

/// The account of a run on one screen.
pub(super) fn of(command: &str, report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "{command} {}: {}", report.root, headline(report));
    if report.outcome != Ending::NothingToDo {
        let _ = write!(text, "{}", columns(report));
        if let Some(ladder) = &report.ladder {
            let _ = write!(text, "{}", levels(ladder, report.dry_run));
        }
        let _ = write!(text, "{}", figures(report));
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    let ladder = report.ladder.as_ref();
    let failed = ladder.map_or(&[][..], |ladder| &ladder.failed);
    let num_failed = num_failed(report);
    for failed in report
        .failed_leaves
        .iter()
        .chain(failed)
        .take(FAILURES_SHOWN)
    {
        let _ = writeln!(text, "  failed: {}", failed.error);
    }
    if num_failed > FAILURES_SHOWN as u64 {
        let more = num_failed - FAILURES_SHOWN as u64;
        let _ = writeln!(text, "  failed: {more} more, see --json");
    }
    text
}

fn headline(report: &Report) -> &'static str {
    match report.outcome {
        Ending::Done if report.dry_run => "dry run, nothing written",
        Ending::Done if report.counts.not_attempted > 0 => "done as far as asked",
        Ending::Done => "done",
        Ending::NothingToDo => "nothing to do, no run record names a shard",
        Ending::Failed if num_failed(report) == 0 => "built, and verify has findings",
        Ending::Failed => "some leaves failed",
        Ending::Refused => "refused, nothing written",
        Ending::Aborted => "aborted",
        Ending::Interrupted => "interrupted",
    }
}

fn columns(report: &Report) -> String {
    let counts = &report.counts;
    let mut text = String::new();
    let due = if report.dry_run {
        counts.planned
    } else {
        counts.written
    };
    let verb = if report.dry_run { "due" } else { "written" };
    let _ = write!(
        text,
        "  columns: {due} {verb}, {} current, {} failed",
        counts.current, counts.failed
    );
    for (count, what) in [
        (counts.empty, "without a committed leaf"),
        (counts.not_attempted, "not attempted"),
        (counts.skipped, "record rows skipped"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text.push('\n');
    for reason in Reason::ALL {
        let count = report.verdicts.of(reason);
        if count > 0 {
            let _ = writeln!(text, "  due: {count} {}", reason.as_str());
        }
    }
    text
}

fn levels(ladder: &LadderReport, dry_run: bool) -> String {
    let mut text = String::new();
    let (counts, verb) = (&ladder.counts, if dry_run { "due" } else { "written" });
    let due = counts.written + counts.planned;
    let _ = write!(
        text,
        "  ladder: {due} {verb}, {} current, {} failed",
        counts.current, counts.failed
    );
    for (count, what) in [
        (counts.empty, "without a column below"),
        (counts.not_attempted, "not attempted"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text.push('\n');
    for reason in Reason::ALL {
        let count = ladder.verdicts.of(reason);
        if count > 0 {
            let _ = writeln!(text, "  due: {count} {}", reason.as_str());
        }
    }
    for level in &ladder.levels {
        let _ = writeln!(
            text,
            "  node order {:>2}, cells of order {:>2}: {} written, {} current, from {} columns ({})",
            level.order,
            level.cells,
            level.written,
            level.current,
            level.source_children.folded,
            level.regime.as_str(),
        );
    }
    text
}

fn figures(report: &Report) -> String {
    let mut text = String::new();
    let counts = &report.counts;
    let written = report.bytes.written
        + report
            .ladder
            .as_ref()
            .map_or(0, |ladder| ladder.bytes_written);
    let seconds = report.seconds.max(f64::MIN_POSITIVE);
    let _ = writeln!(
        text,
        "  {} written, {} read in {} requests, {:.1} leaves/s, {:.1} s, peak {} in flight",
        output::bytes(written),
        output::bytes(report.bytes.read),
        report.requests.requests(),
        (counts.written + counts.current) as f64 / seconds,
        report.seconds,
        output::bytes(report.peak_in_flight_bytes),
    );
    let asked = &report.requests;
    if asked.throttled > 0 {
        let _ = write!(text, "  throttled by the store {} times", asked.throttled);
        if let Some(lowest) = asked.lowest_cap {
            let _ = write!(text, ", down to {lowest} requests at once");
        }
        text.push('\n');
    }
    text
}

/// What to do after it.
pub(super) fn next(report: &Report, force: bool) -> String {
    let root = &report.root;
    let text = match report.outcome {
        Ending::Interrupted | Ending::Done if force && report.counts.not_attempted > 0 => {
            "run again without --force to go on where this run stopped; with it, a run starts over"
        }
        Ending::Done if report.dry_run && is_due(report) => {
            "run without --dry-run to write what is due"
        }
        Ending::Done if report.dry_run && report.ladder.is_some() => {
            "everything is current; a run would write nothing"
        }
        Ending::Done if report.counts.not_attempted > 0 => {
            "run again to go on with the leaves that were not attempted"
        }
        Ending::Done if report.counts.empty > 0 => {
            "every committed leaf has a current column; see in the log which leaves are not committed"
        }
        Ending::Done if !report.warnings.is_empty() => {
            "every leaf that was found has a current column; see the warnings for what may be missing"
        }
        Ending::Done if report.ladder.as_ref().is_some_and(|ladder| ladder.finished) => {
            return format!(
                "every leaf has a current column, and the ladder stands; `zagg-stream verify {root}` checks every byte"
            );
        }
        Ending::Done => {
            return format!(
                "every leaf has a current column; `zagg-stream sweep {root}` builds the ladder above them"
            );
        }
        Ending::NothingToDo => {
            "check that the root is the store's and that it holds stats_*.parquet"
        }
        Ending::Failed if num_failed(report) == 0 => {
            "do what the findings say, then run the same command again; it skips what is current"
        }
        Ending::Failed => {
            "repair what is named above, then run the same command again; it skips what is current"
        }
        Ending::Refused | Ending::Aborted => {
            "do what the error says, then run the same command again; what is written is complete"
        }
        Ending::Interrupted => "run the same command again to go on; what is written is complete",
    };
    text.to_owned()
}

/// Leaves and artifacts of the ladder that failed.
fn num_failed(report: &Report) -> u64 {
    let ladder = report.ladder.as_ref();
    report.counts.failed + ladder.map_or(0, |ladder| ladder.counts.failed)
}

fn is_due(report: &Report) -> bool {
    let ladder = report.ladder.as_ref();
    report.counts.planned + ladder.map_or(0, |ladder| ladder.counts.planned) > 0
}
