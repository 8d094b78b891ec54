//! `upgrade`: the declaration, when a config is given, then the columns and the ladder.

use std::process::ExitCode;

use super::args::UpgradeArgs;
use super::{declare, output, pass};
use crate::upgrade::Steps;

pub(super) async fn run(args: UpgradeArgs) -> ExitCode {
    let Some(path) = &args.config else {
        if args.lever.chunk_order.is_some() || !args.lever.overviews.is_empty() {
            return output::usage("--overviews and --chunk-order need --config FILE");
        }
        return run_steps(&args).await;
    };
    // What the pass would not take must not be found out after the manifest is written.
    if let Err(error) = pass::settings(&args.run) {
        return output::usage(&error);
    }
    let config = match declare::read_config(path) {
        Ok(config) => config,
        Err(error) => return output::usage(&error),
    };
    let (root, dry_run) = (&args.run.root, args.run.dry_run);
    let outcome = declare::declare(root, &config, &args.lever, dry_run).await;
    let exit_code = declare::exit_code(&outcome);
    // A pass follows what is declared, so one that is only planned cannot be tried.
    let goes_on = exit_code == 0
        && outcome
            .as_ref()
            .is_ok_and(|declared| !declared.would_update);
    match &outcome {
        Ok(declared) if args.run.json => {
            for warning in &declared.warnings {
                tracing::warn!("{warning}");
            }
        }
        Ok(declared) => output::print(declare::summary(declared).trim_end()),
        Err(_) => {}
    }
    declare::complain(&outcome);
    if goes_on {
        return run_steps(&args).await;
    }
    if args.run.json {
        output::print_json("upgrade", &declare::document(root, &outcome, exit_code));
    }
    ExitCode::from(exit_code)
}

async fn run_steps(args: &UpgradeArgs) -> ExitCode {
    match pass::settings(&args.run) {
        Ok(mut settings) => {
            settings.max_leaves = args.max_leaves;
            settings.tuple_width = args.ladder.tuple_width.unwrap_or(settings.tuple_width);
            pass::run("upgrade", Steps::All, &args.run, settings).await
        }
        Err(error) => output::usage(&error),
    }
}
