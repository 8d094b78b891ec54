//! `verify`: a store held against its own laws.

use std::fmt::Write;
use std::process::ExitCode;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::VerifyArgs;
use super::{output, pass, receipt};
use crate::error::Error;
use crate::report::Ending;
use crate::settings::Settings;
use crate::store::Root;
use crate::verify::{Finding, Verification, Verify};

/// Findings, and as many warnings, that a table shows; the JSON document has more.
const SHOWN: usize = 20;

pub(super) async fn run(args: VerifyArgs) -> ExitCode {
    if let Some(receipt) = &args.receipt {
        return receipt::check(&args.root, receipt, args.json).await;
    }
    let settings = match settings_of(&args) {
        Ok(settings) => settings,
        Err(error) => return output::usage(&error),
    };
    match verify(&args, settings).await {
        Ok(verification) => {
            if args.json {
                output::print_json("verify", &verification);
            } else {
                output::print(table(&verification).trim_end());
            }
            if let Some(error) = &verification.error {
                output::complain(error);
            }
            ExitCode::from(verification.exit_code)
        }
        Err(error) => {
            let ending = error.ending();
            if args.json {
                let document = json!({
                    "outcome": ending,
                    "exit_code": ending.exit_code(),
                    "root": args.root,
                    "error": error.to_string(),
                });
                output::print_json("verify", &document);
            }
            output::complain(&error.to_string());
            ExitCode::from(ending.exit_code())
        }
    }
}

async fn verify(args: &VerifyArgs, settings: Settings) -> Result<Verification, Error> {
    let root = Root::open_with(&args.root, std::env::vars())?;
    let verify = Verify::new(root).settings(settings).seed(args.seed);
    let verify = if args.full {
        verify.full()
    } else {
        verify.sample(args.sample)
    };
    verify.run().await
}

fn settings_of(args: &VerifyArgs) -> Result<Settings, String> {
    let mut settings = pass::settings_file(args.settings.as_deref())?;
    settings.fold_law = args.fold_law.unwrap_or(settings.fold_law);
    pass::bound(&mut settings, args.memory_budget, args.max_in_flight);
    Ok(settings)
}

/// What came of it, for people.
pub(super) fn table(verification: &Verification) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(
        text,
        "verify {}: {}",
        verification.root,
        headline(verification)
    );
    let (artifacts, refolded) = (&verification.artifacts, &verification.refolded);
    for (what, checked, folded) in [
        (
            "leaf columns",
            artifacts.leaf_columns,
            refolded.leaf_columns,
        ),
        (
            "stage columns and overviews",
            artifacts.stage_columns + artifacts.overviews,
            refolded.ladder,
        ),
    ] {
        let _ = writeln!(
            text,
            "  {what:<28} {checked:>8} checked {folded:>8} folded anew"
        );
    }
    for (count, what) in [
        (verification.uncommitted, "leaves are not committed"),
        (
            verification.unjudged,
            "artifacts were not judged, because columns below them have findings",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(text, "  {count} {what}");
        }
    }
    let _ = writeln!(
        text,
        "  {} read in {} requests, {:.1} s",
        output::bytes(verification.bytes_read),
        verification.requests.requests(),
        verification.seconds
    );
    named(&mut text, &verification.findings, verification.n_findings);
    named(&mut text, &verification.warnings, verification.n_warnings);
    text
}

fn headline(verification: &Verification) -> String {
    match verification.outcome {
        Ending::Done => "clean".to_owned(),
        Ending::NothingToDo => "nothing to verify, no run record names a shard".to_owned(),
        Ending::Failed => format!("{} findings", verification.n_findings),
        _ => "not verified to the end".to_owned(),
    }
}

fn named(text: &mut String, findings: &[Finding], count: u64) {
    for finding in findings.iter().take(SHOWN) {
        let _ = writeln!(text, "  {}", line(finding));
    }
    let shown = findings.len().min(SHOWN) as u64;
    if count > shown {
        let _ = writeln!(text, "  {} more, see --json", count - shown);
    }
}

fn line(finding: &Finding) -> String {
    let (severity, check) = (name(&finding.severity), name(&finding.check));
    format!("{severity} {check:<18} {}", finding.message)
}

/// A name as the JSON document has it.
fn name(of: &impl Serialize) -> String {
    match serde_json::to_value(of) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
