//! `declare`: from a configuration to the pyramid block of a manifest.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::args::{DeclareArgs, LeverArgs};
use super::output;
use crate::declare::{Declare, DeclareError, Declared};
use crate::pyramid::{HashVerdict, Lever, Previous};
use crate::report::Ending;
use crate::store::Root;

/// Exit code of a configuration that cannot be used.
const USAGE: u8 = 2;

pub(super) async fn run(args: DeclareArgs) -> ExitCode {
    let config = match read_config(&args.config) {
        Ok(config) => config,
        Err(error) => return output::usage(&error),
    };
    let outcome = declare(&args.root, &config, &args.lever, args.dry_run).await;
    let exit_code = exit_code(&outcome);
    if args.json {
        output::print_json("declare", &document(&args.root, &outcome, exit_code));
    } else if let Ok(declared) = &outcome {
        output::print(summary(declared).trim_end());
    }
    complain(&outcome);
    ExitCode::from(exit_code)
}

/// The text of a configuration.
///
/// # Errors
/// A sentence saying why there is none.
pub(super) fn read_config(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read config `{}`: {error}", path.display()))
}

/// Declares, or plans to.
pub(super) async fn declare(
    root: &str,
    config: &str,
    lever: &LeverArgs,
    dry_run: bool,
) -> Result<Declared, DeclareError> {
    let root = Root::open_with(root, std::env::vars())?;
    let declare = Declare::new(root, config)?
        .lever(self::lever(lever))
        .dry_run(dry_run);
    declare.run().await
}

/// The lever that was typed, if one was.
pub(super) fn lever(lever: &LeverArgs) -> Option<Lever> {
    match lever {
        LeverArgs {
            chunk_order: Some(order),
            ..
        } => Some(Lever::ChunkOrder(*order)),
        LeverArgs { overviews, .. } if !overviews.is_empty() => {
            Some(Lever::Overviews(overviews.clone()))
        }
        LeverArgs { .. } => None,
    }
}

/// The exit code of what came of it.
pub(super) fn exit_code(outcome: &Result<Declared, DeclareError>) -> u8 {
    match outcome {
        Ok(declared) if declared.refusals.is_empty() => 0,
        Ok(_) => Ending::Refused.exit_code(),
        Err(error) if error.is_usage() => USAGE,
        Err(error) => error.ending().exit_code(),
    }
}

/// Says on stderr what refused it.
pub(super) fn complain(outcome: &Result<Declared, DeclareError>) {
    match outcome {
        Ok(declared) => {
            for refusal in &declared.refusals {
                output::complain(refusal);
            }
        }
        Err(error) => output::complain(&error.to_string()),
    }
}

/// What came of it as one document.
pub(super) fn document(
    root: &str,
    outcome: &Result<Declared, DeclareError>,
    exit_code: u8,
) -> Value {
    let (mut document, error) = match outcome {
        Ok(declared) => {
            let error = declared.refusals.first().cloned();
            (serde_json::to_value(declared).unwrap_or_default(), error)
        }
        Err(error) => (json!({"root": root}), Some(error.to_string())),
    };
    document["exit_code"] = json!(exit_code);
    document["error"] = json!(error);
    document
}

/// What came of it in words.
pub(super) fn summary(declared: &Declared) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "declare {}: {}", declared.root, headline(declared));
    for entry in declared.overviews.as_array().into_iter().flatten() {
        let cells = &entry["cells"];
        let _ = writeln!(
            text,
            "  node order {}: cells of order {cells}",
            entry["node"]
        );
    }
    for (name, class) in &declared.fields {
        let _ = writeln!(
            text,
            "  field {name}: {}",
            class.as_str().unwrap_or_default()
        );
    }
    let verdict = match declared.semantic_hash {
        HashVerdict::Match => "match",
        HashVerdict::Legacy if declared.dry_run => "legacy match, will be rewritten",
        HashVerdict::Legacy => "legacy match, rewritten",
        HashVerdict::Mismatch => "mismatch",
        HashVerdict::Absent => "the manifest has none",
    };
    let _ = writeln!(text, "  semantic hash {}: {verdict}", declared.fingerprint);
    let _ = writeln!(text, "  validated: {}", declared.validated);
    for warning in &declared.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    if declared.dry_run {
        for line in &declared.diff {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = writeln!(text, "next: {}", next(declared));
    text
}

fn headline(declared: &Declared) -> &'static str {
    match (declared.dry_run, declared.previous) {
        (true, _) if !declared.refusals.is_empty() => "dry run, would be refused",
        (true, Previous::Identical) if !declared.would_update => {
            "dry run, declared so already, nothing would be written"
        }
        (true, _) => "dry run, nothing written",
        (false, Previous::Identical) if !declared.updated => "declared so already, nothing written",
        (false, Previous::Identical) => "declared so already, its hash rewritten",
        (false, Previous::Absent) => "declared",
        (false, Previous::Replaced) => "declared, in place of another declaration",
    }
}

fn next(declared: &Declared) -> &'static str {
    if !declared.refusals.is_empty() {
        "do what the error says, then declare again"
    } else if declared.would_update {
        "run without --dry-run to declare it"
    } else if declared.overviews.as_array().is_some_and(Vec::is_empty) {
        "the pyramid is declared off; nothing is left to do here"
    } else {
        "`zagg-stream backfill` with the same root writes the columns that are due"
    }
}
