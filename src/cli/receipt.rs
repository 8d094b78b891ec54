//! `verify --receipt`: a published store held against the receipt of its upgrade.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::json;

use super::output;
use crate::error::Error;
use crate::receipt::{Receipt, ReceiptCheck};
use crate::report::Ending;
use crate::store::Root;

/// Differences a summary names; the JSON document has all.
const DIFFERENCES_SHOWN: usize = 20;

pub(super) async fn check(root: &str, location: &str, json: bool) -> ExitCode {
    let receipt = match read(location).await {
        Ok(receipt) => receipt,
        Err(error) => return output::usage(&format!("receipt `{location}`: {error}")),
    };
    let checked = match Root::open_with(root, std::env::vars()) {
        Ok(root) => receipt.check(&root).await,
        Err(error) => Err(error.into()),
    };
    let ending = ending(&checked);
    match &checked {
        Ok(checked) if !json => output::print(summary(root, location, checked).trim_end()),
        _ if json => {
            let error = checked.as_ref().err().map(ToString::to_string);
            output::print_json(
                "verify",
                &json!({
                    "root": root,
                    "receipt": location,
                    "outcome": ending,
                    "exit_code": ending.exit_code(),
                    "checked": checked.as_ref().ok(),
                    "error": error,
                }),
            );
        }
        _ => {}
    }
    if let Err(error) = &checked {
        output::complain(&error.to_string());
    }
    ExitCode::from(ending.exit_code())
}

/// Reads a receipt from a file, or from a URL of any kind a root may have.
async fn read(location: &str) -> Result<Receipt, String> {
    let bytes = match location.rsplit_once('/') {
        Some((base, key)) if location.contains("://") => {
            let root =
                Root::open_with(base, std::env::vars()).map_err(|error| error.to_string())?;
            let bytes = root.get(key).await.map_err(|error| error.to_string())?;
            bytes.to_vec()
        }
        _ => std::fs::read(location).map_err(|error| error.to_string())?,
    };
    Receipt::parse(&bytes)
}

fn ending(checked: &Result<ReceiptCheck, Error>) -> Ending {
    match checked {
        Ok(checked) if checked.differences.is_empty() => Ending::Done,
        Ok(_) => Ending::Failed,
        Err(error) => error.ending(),
    }
}

fn summary(root: &str, location: &str, checked: &ReceiptCheck) -> String {
    let mut text = String::new();
    let differences = &checked.differences;
    let headline = match differences.len() {
        0 => "as the receipt says".to_owned(),
        count => format!("{count} differences from the receipt"),
    };
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "verify {root} against {location}: {headline}");
    let _ = writeln!(
        text,
        "  {} leaves compared, {} columns and overviews hashed",
        checked.leaves, checked.artifacts
    );
    for difference in differences.iter().take(DIFFERENCES_SHOWN) {
        let _ = writeln!(
            text,
            "  {}: `{}`: expected {}, got {}: {}",
            difference.check,
            difference.path,
            difference.expected,
            difference.got,
            difference.message
        );
    }
    if differences.len() > DIFFERENCES_SHOWN {
        let more = differences.len() - DIFFERENCES_SHOWN;
        let _ = writeln!(text, "  {more} more, see --json");
    }
    text
}
