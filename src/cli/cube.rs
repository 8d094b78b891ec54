//! `cube`: what is wrong with a cube, and its way to a local disk and back.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::{
    CubeCheckArgs, CubeCommand, CubeCommonArgs, CubeHealArgs, CubePullArgs, CubePushArgs,
};
use super::{output, pass, signals};
use crate::cube::{
    Checked, Cube, CubeError, Extent, Finding, Heal, Healed, Level, Outcome, Pulled, PushOptions,
    Pushed, Severity,
};
use crate::report::Ending;
use crate::store::{Root, RootError};

/// Keys of one kind a summary names; the JSON document has more.
const KEYS_SHOWN: usize = 10;

/// What a process leaves that is made to stop at once.
const LEFT: &str = "what was written is complete, run the same command again to go on";

pub(super) async fn run(command: CubeCommand) -> ExitCode {
    match command {
        CubeCommand::Check(args) => check(args).await,
        CubeCommand::Heal(args) => heal(args).await,
        CubeCommand::Pull(args) => pull(args).await,
        CubeCommand::Push(args) => push(args).await,
    }
}

async fn check(args: CubeCheckArgs) -> ExitCode {
    let work = async |cube: Cube| cube.check().await;
    carry_out(
        "check",
        &args.root,
        &args.common,
        work,
        |checked: &Checked| (&checked.ended, table(checked)),
    )
    .await
}

async fn heal(args: CubeHealArgs) -> ExitCode {
    let work = async |cube: Cube| cube.heal(args.dry_run).await;
    carry_out("heal", &args.root, &args.common, work, |healed: &Healed| {
        (&healed.ended, of_heal(healed))
    })
    .await
}

async fn pull(args: CubePullArgs) -> ExitCode {
    let local = match local_path(&args.local) {
        Ok(local) => local,
        Err(error) => return output::usage(&error),
    };
    let work = async |cube: Cube| cube.pull(args.full, || made(&local)).await;
    carry_out(
        "pull",
        &args.remote,
        &args.common,
        work,
        |pulled: &Pulled| (&pulled.ended, of_pull(pulled)),
    )
    .await
}

async fn push(args: CubePushArgs) -> ExitCode {
    let local = match local_path(&args.local) {
        Ok(local) => local,
        Err(error) => return output::usage(&error),
    };
    let options = PushOptions {
        dry_run: args.dry_run,
        replace_bulk: args.replace_bulk,
    };
    let work = async |cube: Cube| cube.push(&Root::open(&local)?, options).await;
    carry_out(
        "push",
        &args.remote,
        &args.common,
        work,
        |pushed: &Pushed| (&pushed.ended, of_push(pushed)),
    )
    .await
}

/// Does the work, prints what came of it, and says how it ended.
async fn carry_out<Report: Serialize>(
    command: &str,
    root: &str,
    common: &CubeCommonArgs,
    work: impl AsyncFnOnce(Cube) -> Result<Report, CubeError>,
    summary: impl Fn(&Report) -> (&Outcome, String),
) -> ExitCode {
    let settings = match pass::settings_file(common.settings.as_deref()) {
        Ok(settings) => settings,
        Err(error) => return output::usage(&error),
    };
    let worked = async {
        let cube = Cube::new(Root::open_with(root, std::env::vars())?).settings(settings);
        let stop = cube.stop();
        tokio::select! {
            outcome = work(cube) => outcome,
            never = signals::stop_or_exit(|_| stop.stop(), LEFT) => match never {},
        }
    };
    let (document, text, error, exit_code) = match worked.await {
        Ok(report) => {
            let (ended, text) = summary(&report);
            let document = serde_json::to_value(&report).unwrap_or_default();
            (document, Some(text), ended.error.clone(), ended.exit_code)
        }
        Err(error) => (
            refusal(root, &error),
            None,
            Some(error.to_string()),
            error.ending().exit_code(),
        ),
    };
    if common.json {
        output::print_json(&format!("cube {command}"), &document);
    } else if let Some(text) = text {
        output::print(text.trim_end());
    }
    if let Some(error) = error {
        output::complain(&error);
    }
    ExitCode::from(exit_code)
}

fn refusal(root: &str, error: &CubeError) -> Value {
    let mut document = json!({
        "root": root,
        "outcome": error.ending(),
        "exit_code": error.ending().exit_code(),
        "error": error.to_string(),
    });
    match error {
        CubeError::Unsafe { offending, .. } => document["offending"] = json!(offending),
        CubeError::Push { reasons, .. } | CubeError::Malformed { reasons, .. } => {
            document["reasons"] = json!(reasons);
        }
        _ => {}
    }
    document
}

/// A local copy is a directory of this machine.
fn local_path(path: &Path) -> Result<String, String> {
    match path.to_str() {
        Some(text) if !text.contains("://") => Ok(text.to_owned()),
        Some(text) => Err(format!(
            "LOCAL `{text}` is a URL; give a directory of this machine"
        )),
        None => Err("LOCAL is not UTF-8; give another directory".to_owned()),
    }
}

/// The directory of a local copy, made if need be.
fn made(local: &str) -> Result<Root, RootError> {
    if !Path::new(local).exists() {
        std::fs::create_dir_all(local).map_err(|error| RootError::Invalid {
            url: local.to_owned(),
            reason: format!("it cannot be made, {error}; choose another directory"),
        })?;
    }
    Root::open(local)
}

fn table(checked: &Checked) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let headline = match checked.ended.outcome {
        Ending::Done => "nothing is wrong",
        _ => "something is wrong",
    };
    let _ = writeln!(text, "cube check {}: {headline}", checked.ended.root);
    for orbit in &checked.orbits {
        let slices = match orbit.slices {
            Some(slices) => format!("{slices} slices"),
            None => "no times".to_owned(),
        };
        let span = match (&orbit.first, &orbit.last) {
            (Some(first), Some(last)) => format!(", {first} to {last}"),
            _ => String::new(),
        };
        let _ = writeln!(text, "  {}: {slices}{span}", orbit.path);
        for level in &orbit.levels {
            let _ = writeln!(text, "    {}", line(level));
        }
    }
    let _ = writeln!(text, "  {}", size(checked.total));
    let fetch = match checked.minimal_fetch_is_safe {
        true => "a minimal fetch is safe",
        false => "a minimal fetch is not safe",
    };
    let _ = writeln!(text, "  {fetch}");
    for finding in &checked.findings {
        let _ = writeln!(text, "  {}", of_finding(finding));
    }
    let mends = checked
        .findings
        .iter()
        .any(|finding| finding.heal == Heal::Mends);
    let refused = checked
        .findings
        .iter()
        .any(|finding| finding.heal == Heal::Refused);
    let next = match (mends, refused) {
        (_, true) => "mend by hand what a heal refuses, see docs/cube.md".to_owned(),
        (true, false) => format!("`zagg-stream cube heal {}`", checked.ended.root),
        (false, false) if checked.ended.outcome == Ending::Done => {
            "nothing is left to do here".to_owned()
        }
        (false, false) => "docs/cube.md says of every finding what to do".to_owned(),
    };
    let _ = writeln!(text, "next: {next}");
    text
}

fn line(level: &Level) -> String {
    let time = match level.time {
        Some(length) => format!("time {length}"),
        None => "no time".to_owned(),
    };
    let arrays: Vec<String> = level
        .arrays
        .iter()
        .filter(|array| array.name != "time")
        .map(|array| format!("{} {}", array.name, array.slices))
        .collect();
    format!("{:<24} {time:<10} {}", level.path, arrays.join(", "))
}

fn of_finding(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Finding => "finding",
        Severity::Warning => "warning",
    };
    let heal = match finding.heal {
        Heal::Mends => " (a heal mends it)",
        Heal::Refused => " (a heal refuses it)",
        Heal::Unaffected => "",
    };
    format!("{severity}: {}{heal}", finding.message)
}

fn of_heal(healed: &Healed) -> String {
    let mut text = String::new();
    let headline = match healed.ended.outcome {
        Ending::NothingToDo => "nothing to heal",
        Ending::Done if healed.dry_run => "planned, nothing written",
        Ending::Done => "done",
        Ending::Interrupted => "interrupted",
        Ending::Aborted => "aborted",
        Ending::Refused | Ending::Failed => "refused",
    };
    let _ = writeln!(text, "cube heal {}: {headline}", healed.ended.root);
    let would = would(healed.dry_run);
    keys(&mut text, &format!("levels {would}healed"), &healed.healed);
    keys(&mut text, &format!("objects {would}added"), &healed.added);
    keys(
        &mut text,
        &format!("groups {would}rewritten"),
        &healed.rewritten,
    );
    for refusal in &healed.refusals {
        let _ = writeln!(text, "  refused: {}", refusal.message);
    }
    warnings(&mut text, &healed.warnings);
    text
}

fn of_pull(pulled: &Pulled) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "cube pull {} to {}: {}",
        pulled.ended.root,
        pulled.local,
        pulled.ended.outcome.as_str()
    );
    let _ = writeln!(text, "  fetched: {}", size(pulled.fetched));
    let _ = writeln!(text, "  left there: {}", size(pulled.skipped));
    let _ = writeln!(text, "  inventory: {}", pulled.inventory);
    warnings(&mut text, &pulled.warnings);
    if pulled.ended.error.is_none() {
        let (local, root) = (&pulled.local, &pulled.ended.root);
        let _ = writeln!(
            text,
            "next: append to it, then `zagg-stream cube push {local} {root}`"
        );
    }
    text
}

fn of_push(pushed: &Pushed) -> String {
    let mut text = String::new();
    let headline = match pushed.ended.outcome {
        Ending::Done if pushed.dry_run => "planned, nothing written",
        Ending::NothingToDo => "nothing has changed",
        ending => ending.as_str(),
    };
    let (local, root) = (&pushed.local, &pushed.ended.root);
    let _ = writeln!(text, "cube push {local} to {root}: {headline}");
    let would = would(pushed.dry_run);
    let _ = writeln!(text, "  {would}sent: {}", size(pushed.sent));
    keys(
        &mut text,
        &format!("objects {would}uploaded"),
        &pushed.uploaded,
    );
    keys(
        &mut text,
        &format!("objects {would}deleted"),
        &pushed.deleted,
    );
    warnings(&mut text, &pushed.warnings);
    text
}

fn would(dry_run: bool) -> &'static str {
    if dry_run { "to be " } else { "" }
}

fn keys(text: &mut String, what: &str, keys: &[String]) {
    if keys.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {what}: {}", keys.len());
    for key in keys.iter().take(KEYS_SHOWN) {
        let _ = writeln!(text, "    {key}");
    }
    if keys.len() > KEYS_SHOWN {
        let _ = writeln!(text, "    {} more, see --json", keys.len() - KEYS_SHOWN);
    }
}

fn warnings(text: &mut String, warnings: &[String]) {
    for warning in warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
}

fn size(extent: Extent) -> String {
    format!(
        "{} objects, {}",
        extent.objects,
        output::bytes(extent.bytes)
    )
}
