//! `backfill`, `sweep` and `upgrade`: one run, from flags to summary.

use std::path::Path;
use std::process::ExitCode;

use super::args::{BackfillArgs, RunArgs, SweepArgs};
use super::signals::stop_on_signals;
use super::{output, summary};
use crate::error::Error;
use crate::kernels::words::decimal;
use crate::report::{Ending, Report};
use crate::settings::{MAX_SLOTS, Settings};
use crate::store::Root;
use crate::upgrade::{Steps, Upgrade};

pub(super) async fn backfill(args: BackfillArgs) -> ExitCode {
    match settings(&args.run) {
        Ok(mut settings) => {
            settings.max_leaves = args.max_leaves;
            run("backfill", Steps::Columns, &args.run, settings).await
        }
        Err(error) => output::usage(&error),
    }
}

pub(super) async fn sweep(args: SweepArgs) -> ExitCode {
    match settings(&args.run) {
        Ok(mut settings) => {
            settings.allow_gaps = args.allow_gaps;
            settings.tuple_width = args.ladder.tuple_width.unwrap_or(settings.tuple_width);
            run("sweep", Steps::Ladder, &args.run, settings).await
        }
        Err(error) => output::usage(&error),
    }
}

/// Takes the steps, and prints what came of them.
async fn run(command: &str, steps: Steps, args: &RunArgs, settings: Settings) -> ExitCode {
    let report = match pass(&args.root, steps, settings.clone()).await {
        Ok(report) => report,
        Err(error) => Report::refused(&args.root, &settings, error.ending(), &error),
    };
    if args.json {
        output::print_json(command, &report);
    } else if report.outcome != Ending::Refused {
        let next = summary::next(&report, args.force);
        output::print(&format!("{}next: {next}", summary::of(command, &report)));
    }
    if let Some(error) = &report.error {
        output::complain(error);
    }
    ExitCode::from(report.exit_code)
}

async fn pass(root: &str, steps: Steps, settings: Settings) -> Result<Report, Error> {
    let root = Root::open_with(root, std::env::vars())?;
    let handle = Upgrade::new(root)
        .settings(settings)
        .steps(steps)
        .start()
        .await?;
    let stop = handle.stop();
    tokio::select! {
        report = handle.join() => report,
        never = stop_on_signals(|by| stop.abort(by)) => match never {},
    }
}

/// The settings of a run: the file's, and what was typed over them.
///
/// # Errors
/// A sentence saying what cannot be used.
pub(super) fn settings(args: &RunArgs) -> Result<Settings, String> {
    let mut settings = settings_file(args.settings.as_deref())?;
    settings.fold_law = args.fold_law.unwrap_or(settings.fold_law);
    bound(&mut settings, args.memory_budget, args.max_in_flight);
    for shard in &args.shards {
        decimal::parse(shard).map_err(|error| format!("--shards `{shard}`: {error}"))?;
    }
    settings.force = args.force;
    settings.dry_run = args.dry_run;
    settings.shards = args.shards.clone();
    Ok(settings)
}

/// The settings of a file, or the defaults.
///
/// # Errors
/// A sentence saying what cannot be used.
pub(super) fn settings_file(path: Option<&Path>) -> Result<Settings, String> {
    let Some(path) = path else {
        return Ok(Settings::default());
    };
    let file = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read settings `{}`: {error}", path.display()))?;
    Settings::from_toml(&file).map_err(|error| format!("settings `{}`: {error}", path.display()))
}

/// Takes the bounds that were typed.
pub(super) fn bound(settings: &mut Settings, budget: Option<u64>, in_flight: Option<u64>) {
    if let Some(budget) = budget {
        settings.memory_budget = budget;
    }
    if let Some(in_flight) = in_flight {
        let in_flight = usize::try_from(in_flight).unwrap_or(MAX_SLOTS);
        settings.max_in_flight = in_flight.min(MAX_SLOTS);
    }
}
