//! `upgrade`: the declaration, when a config is given, and then the column pass.

use std::process::ExitCode;

use super::args::UpgradeArgs;
use super::{declare, output, pass};

pub(super) async fn run(args: UpgradeArgs) -> ExitCode {
    let Some(path) = &args.config else {
        if args.lever.chunk_order.is_some() || !args.lever.overviews.is_empty() {
            return output::usage("--overviews and --chunk-order need --config FILE");
        }
        return pass::run("upgrade", args.pass).await;
    };
    // What the pass would not take must not be found out after the manifest is written.
    if let Err(error) = pass::settings(&args.pass) {
        return output::usage(&error);
    }
    let config = match declare::read_config(path) {
        Ok(config) => config,
        Err(error) => return output::usage(&error),
    };
    let (root, dry_run) = (&args.pass.root, args.pass.dry_run);
    let outcome = declare::declare(root, &config, &args.lever, dry_run).await;
    let exit_code = declare::exit_code(&outcome);
    // A pass follows what is declared, so one that is only planned cannot be tried.
    let goes_on = exit_code == 0
        && outcome
            .as_ref()
            .is_ok_and(|declared| !declared.would_update);
    match &outcome {
        Ok(declared) if args.pass.json => {
            for warning in &declared.warnings {
                tracing::warn!("{warning}");
            }
        }
        Ok(declared) => output::print(declare::summary(declared).trim_end()),
        Err(_) => {}
    }
    declare::complain(&outcome);
    if goes_on {
        return pass::run("upgrade", args.pass).await;
    }
    if args.pass.json {
        output::print_json("upgrade", &declare::document(root, &outcome, exit_code));
    }
    ExitCode::from(exit_code)
}
