//! `upgrade`: the whole runbook, from flags to a one-screen account.

use std::process::ExitCode;

use super::args::UpgradeArgs;
use super::{declare, output, pass, retire, signals, summary, verify};
use crate::report::{Ending, Report};
use crate::runbook::{Account, Runbook, RunbookError};
use crate::settings::Settings;
use crate::store::Root;
use crate::verify::Verification;

pub(super) async fn run(args: UpgradeArgs) -> ExitCode {
    let lever = declare::lever(&args.lever);
    if args.config.is_none() && lever.is_some() {
        return output::usage("--overviews and --chunk-order need --config FILE");
    }
    let mut settings = match pass::settings(&args.run) {
        Ok(settings) => settings,
        Err(error) => return output::usage(&error),
    };
    settings.max_leaves = args.max_leaves;
    settings.tuple_width = args.ladder.tuple_width.unwrap_or(settings.tuple_width);
    let root = match Root::open_with(&args.run.root, std::env::vars()) {
        Ok(root) => root,
        Err(error) => {
            let error = RunbookError::Run(error.into());
            return refuse(&args, &settings, &error);
        }
    };
    let mut runbook = Runbook::new(root)
        .settings(settings.clone())
        .retire(args.retire)
        .receipt(args.receipt);
    match args.fleet.fleet() {
        Ok(Some(fleet)) => runbook = runbook.fleet(fleet),
        Ok(None) => {}
        Err(error) => return output::usage(&error),
    }
    if let Some(path) = &args.config {
        let config = match declare::read_config(path) {
            Ok(config) => config,
            Err(error) => return output::usage(&error),
        };
        runbook = match runbook.declare(&config, lever) {
            Ok(runbook) => runbook,
            Err(error) => return output::usage(&error.to_string()),
        };
    }
    let stopper = runbook.stopper();
    let account = tokio::select! {
        account = runbook.run() => account,
        never = signals::stop_on_signals(|by| stopper.stop(by)) => match never {},
    };
    match account {
        Ok(account) => show(&args, &account),
        Err(error) => refuse(&args, &settings, &error),
    }
}

fn refuse(args: &UpgradeArgs, settings: &Settings, error: &RunbookError) -> ExitCode {
    let report = Report::refused(&args.run.root, settings, error.ending(), error);
    if args.run.json {
        output::print_json("upgrade", &report);
    }
    output::complain(&error.to_string());
    match error {
        RunbookError::Declare(error) if error.is_usage() => ExitCode::from(output::USAGE),
        _ => ExitCode::from(report.exit_code),
    }
}

fn show(args: &UpgradeArgs, account: &Account) -> ExitCode {
    let report = &account.report;
    if args.run.json {
        output::print_json("upgrade", account);
    } else {
        output::print(text(args, account).trim_end());
    }
    if let Some(error) = &report.error {
        output::complain(error);
    }
    ExitCode::from(report.exit_code)
}

/// The account, step by step, and what to do next.
fn text(args: &UpgradeArgs, account: &Account) -> String {
    let report = &account.report;
    let mut text = String::new();
    if let Some(declared) = &account.declared {
        text.push_str(&declare::summary(declared));
    }
    let only_declared = account.steps.iter().all(|step| step.step == "declare");
    if !only_declared && report.outcome != Ending::Refused {
        text.push_str(&summary::of("upgrade", report));
    }
    if let Some(verification) = &account.verified {
        text.push_str(&verify::table(verification));
    }
    if let Some(retired) = &account.retired {
        text.push_str(&retire::summary(retired));
    }
    if let Some(receipt) = &account.receipt {
        text.push_str(&format!("receipt: {receipt}\n"));
    }
    let clean = account
        .verified
        .as_ref()
        .is_some_and(Verification::is_clean);
    text.push_str("next: ");
    text.push_str(&match &account.declared {
        Some(declared) if only_declared => declare::next(declared).to_owned(),
        _ if clean && report.outcome == Ending::Done => {
            "the store is upgraded and verified; nothing is left to do here".to_owned()
        }
        _ => summary::next(report, args.run.force),
    });
    text
}
