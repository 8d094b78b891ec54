//! `backfill` and `upgrade`: one pass, from flags to summary.

use std::fmt::Write;
use std::process::ExitCode;

use super::args::PassArgs;
use super::output;
use crate::error::Error;
use crate::kernels::words::decimal;
use crate::messages::Reason;
use crate::report::{Ending, Report};
use crate::settings::{MAX_SLOTS, Settings};
use crate::store::Root;
use crate::upgrade::{Stop, Upgrade};

/// Failed leaves a summary names; the JSON document has more.
const FAILURES_SHOWN: usize = 10;

pub(super) async fn run(command: &str, args: PassArgs) -> ExitCode {
    let settings = match settings(&args) {
        Ok(settings) => settings,
        Err(error) => return output::usage(&error),
    };
    let report = match pass(&args.root, settings.clone()).await {
        Ok(report) => report,
        Err(error) => Report::refused(&args.root, &settings, &error),
    };
    if args.json {
        output::print_json(command, &report);
    } else if report.outcome != Ending::Refused {
        output::print(summary(command, &report, args.force).trim_end());
    }
    if let Some(error) = &report.error {
        output::complain(error);
    }
    ExitCode::from(report.exit_code)
}

async fn pass(root: &str, settings: Settings) -> Result<Report, Error> {
    let root = Root::open_with(root, std::env::vars())?;
    let handle = Upgrade::new(root).settings(settings).start().await?;
    let stop = handle.stop();
    tokio::select! {
        report = handle.join() => report,
        never = stop_on_signals(stop) => match never {},
    }
}

/// Stops the pass on the first signal; a second one ends the process at once, and the
/// lease then stands until it expires.
async fn stop_on_signals(stop: Stop) -> std::convert::Infallible {
    let first = signal().await;
    tracing::warn!("{first}: finishing the columns being written; once more to stop at once");
    stop.abort(first);
    let second = signal().await;
    output::complain(&format!(
        "{second} again: stopping at once; the lease stays, and the next run is refused until it \
         expires or `zagg-stream lease release` removes it"
    ));
    std::process::exit(i32::from(Ending::Interrupted.exit_code()))
}

#[cfg(unix)]
pub(super) async fn signal() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = (
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut terminate), Ok(mut hangup)) = kinds else {
        return std::future::pending().await;
    };
    tokio::select! {
        Ok(()) = tokio::signal::ctrl_c() => "Ctrl-C",
        Some(()) = terminate.recv() => "SIGTERM",
        Some(()) = hangup.recv() => "SIGHUP",
    }
}

#[cfg(not(unix))]
pub(super) async fn signal() -> &'static str {
    match tokio::signal::ctrl_c().await {
        Ok(()) => "Ctrl-C",
        Err(_) => std::future::pending().await,
    }
}

/// The settings of a pass: the file's, and what was typed over them.
///
/// # Errors
/// A sentence saying what cannot be used.
pub(super) fn settings(args: &PassArgs) -> Result<Settings, String> {
    let file = match &args.settings {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read settings `{}`: {error}", path.display()))?,
        None => String::new(),
    };
    let mut settings = Settings::from_toml(&file).map_err(|error| match &args.settings {
        Some(path) => format!("settings `{}`: {error}", path.display()),
        None => error.to_string(),
    })?;
    if let Some(law) = args.fold_law {
        settings.fold_law = law;
    }
    if let Some(budget) = args.memory_budget {
        settings.memory_budget = budget;
    }
    if let Some(in_flight) = args.max_in_flight {
        settings.max_in_flight = usize::try_from(in_flight)
            .unwrap_or(MAX_SLOTS)
            .min(MAX_SLOTS);
    }
    for shard in &args.shards {
        decimal::parse(shard).map_err(|error| format!("--shards `{shard}`: {error}"))?;
    }
    settings.force = args.force;
    settings.dry_run = args.dry_run;
    settings.max_leaves = args.max_leaves;
    settings.shards = args.shards.clone();
    Ok(settings)
}

fn summary(command: &str, report: &Report, force: bool) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "{command} {}: {}", report.root, headline(report));
    if report.outcome != Ending::NothingToDo {
        let _ = write!(text, "{}", figures(report));
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    for leaf in report.failed_leaves.iter().take(FAILURES_SHOWN) {
        let _ = writeln!(text, "  failed: {}", leaf.error);
    }
    if report.failed_leaves.len() > FAILURES_SHOWN {
        let more = report.counts.failed - FAILURES_SHOWN as u64;
        let _ = writeln!(text, "  failed: {more} more, see --json");
    }
    let _ = writeln!(text, "next: {}", next(report, force));
    text
}

fn headline(report: &Report) -> &'static str {
    match report.outcome {
        Ending::Done if report.dry_run => "dry run, nothing written",
        Ending::Done if report.counts.not_attempted > 0 => "done as far as asked",
        Ending::Done => "done",
        Ending::NothingToDo => "nothing to do, no run record names a shard",
        Ending::Failed => "some leaves failed",
        Ending::Refused => "refused, nothing written",
        Ending::Aborted => "aborted",
        Ending::Interrupted => "interrupted",
    }
}

fn figures(report: &Report) -> String {
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
    let seconds = report.seconds.max(f64::MIN_POSITIVE);
    let _ = writeln!(
        text,
        "  {} of columns, {} read in {} requests, {:.1} leaves/s, {:.1} s, peak {} in flight",
        output::bytes(report.bytes.written),
        output::bytes(report.bytes.read),
        report.requests.requests(),
        (counts.written + counts.current) as f64 / seconds,
        report.seconds,
        output::bytes(report.peak_in_flight_bytes),
    );
    text
}

fn next(report: &Report, force: bool) -> &'static str {
    match report.outcome {
        Ending::Interrupted | Ending::Done if force && report.counts.not_attempted > 0 => {
            "run again without --force to go on where this run stopped; with it, a run starts over"
        }
        Ending::Done if report.dry_run && report.counts.planned > 0 => {
            "run without --dry-run to write the columns that are due"
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
        Ending::Done => "every leaf has a current column; nothing is left to do here",
        Ending::NothingToDo => {
            "check that the root is the store's and that it holds stats_*.parquet"
        }
        Ending::Failed => {
            "repair the leaves named above, then run the same command again; it skips what is current"
        }
        Ending::Refused | Ending::Aborted => {
            "do what the error says, then run the same command again; what is written is complete"
        }
        Ending::Interrupted => "run the same command again to go on; what is written is complete",
    }
}
