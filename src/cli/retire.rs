//! `retire`: what a `/1` pyramid left behind, listed or deleted.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::args::RetireArgs;
use super::{output, pass, signals, verify};
use crate::report::Ending;
use crate::retire::{Extent, Retire, RetireError, Retired, RetiredArtifact};
use crate::settings::Settings;
use crate::store::Root;
use crate::verify::Verify;

/// Artifacts of one kind a summary names; the JSON document has more.
const KEPT_SHOWN: usize = 10;

pub(super) async fn run(args: RetireArgs) -> ExitCode {
    let settings = match pass::settings_file(args.settings.as_deref()) {
        Ok(mut settings) => {
            settings.fold_law = args.fold_law.unwrap_or(settings.fold_law);
            settings
        }
        Err(error) => return output::usage(&error),
    };
    let outcome = retire(&args.root, args.yes, settings).await;
    let exit_code = match &outcome {
        Ok(retired) => retired.exit_code,
        Err(error) => error.ending().exit_code(),
    };
    if args.json {
        output::print_json("retire", &document(&args.root, &outcome, exit_code));
    } else if let Ok(retired) = &outcome {
        output::print(&format!("{}next: {}", summary(retired), next(retired)));
    }
    match &outcome {
        Ok(retired) if retired.refusals.is_empty() => {
            if let Some(error) = &retired.error {
                output::complain(error);
            }
        }
        Ok(retired) => {
            for refusal in &retired.refusals {
                output::complain(refusal);
            }
        }
        Err(error) => output::complain(&error.to_string()),
    }
    ExitCode::from(exit_code)
}

/// Lists what may go. What refuses a deletion is found out before the store is verified,
/// which takes longer.
async fn retire(root: &str, delete: bool, settings: Settings) -> Result<Retired, RetireError> {
    let root = Root::open_with(root, std::env::vars())?;
    let retire = || {
        Retire::new(root.clone())
            .settings(settings.clone())
            .delete(delete)
    };
    match retire().run().await {
        Err(RetireError::Unverified { .. }) => {}
        done => return done,
    }
    let verify = Verify::new(root.clone()).settings(settings.clone());
    let verification = verify.run().await?;
    let mut retire = retire();
    match verification.proof() {
        Some(proof) => retire = retire.verified(proof),
        None => output::complain(verify::table(&verification).trim_end()),
    }
    let stop = retire.stop();
    tokio::select! {
        outcome = retire.run() => outcome,
        never = signals::stop_on_signals(|_| stop.stop()) => match never {},
    }
}

fn document(root: &str, outcome: &Result<Retired, RetireError>, exit_code: u8) -> Value {
    match outcome {
        Ok(retired) => serde_json::to_value(retired).unwrap_or_default(),
        Err(error) => json!({
            "root": root,
            "outcome": error.ending(),
            "exit_code": exit_code,
            "error": error.to_string(),
        }),
    }
}

/// What came of it, for people.
pub(super) fn summary(retired: &Retired) -> String {
    let mut text = String::new();
    // Writing to a String does not fail, here and below.
    let _ = writeln!(text, "retire {}: {}", retired.root, headline(retired));
    for artifact in &retired.artifacts {
        let _ = writeln!(text, "  {}", line(artifact));
    }
    let listed = &retired.listed;
    let _ = writeln!(
        text,
        "  to go: {} artifacts, {}; {} nodes looked at",
        listed.artifacts,
        size(listed.extent),
        retired.nodes
    );
    if retired.deletion {
        let deleted = &retired.deleted;
        let _ = writeln!(
            text,
            "  deleted, by a listing afterwards: {} artifacts, {}",
            deleted.artifacts,
            size(deleted.extent)
        );
    }
    let kept: Vec<String> = retired
        .kept
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.as_str()))
        .collect();
    if !kept.is_empty() {
        let _ = writeln!(text, "  kept: {}", kept.join(", "));
    }
    for kept in retired.kept_artifacts.iter().take(KEPT_SHOWN) {
        let _ = writeln!(text, "  kept: {}: {}", kept.path, kept.why);
    }
    if retired.kept_artifacts.len() > KEPT_SHOWN {
        let more = retired.kept_artifacts.len() - KEPT_SHOWN;
        let _ = writeln!(text, "  kept: {more} more, see --json");
    }
    for warning in &retired.warnings {
        let _ = writeln!(text, "  warning: {warning}");
    }
    text
}

fn line(artifact: &RetiredArtifact) -> String {
    let sidecar = if artifact.sidecar {
        " with its sidecar"
    } else {
        ""
    };
    let left = match artifact.left {
        Some(left) if left.objects > 0 => format!(" ({} still there)", size(left)),
        _ => String::new(),
    };
    let size = size(artifact.found);
    format!("{}: {size}{sidecar}{left}: {}", artifact.path, artifact.why)
}

fn size(extent: Extent) -> String {
    format!(
        "{} objects, {}",
        extent.objects,
        output::bytes(extent.bytes)
    )
}

fn headline(retired: &Retired) -> &'static str {
    match retired.outcome {
        Ending::NothingToDo => "nothing is left of a /1 pyramid",
        Ending::Refused => "listed, the deletion would be refused",
        Ending::Done if retired.deletion => "done",
        Ending::Done => "listed, nothing deleted",
        Ending::Failed => "something is left of what was deleted",
        Ending::Aborted => "aborted",
        Ending::Interrupted => "interrupted",
    }
}

fn next(retired: &Retired) -> String {
    let command = format!("`zagg-stream retire {} --yes`", retired.root);
    match retired.outcome {
        Ending::Done if !retired.deletion => format!("{command} deletes what is listed"),
        Ending::Done | Ending::NothingToDo => "nothing is left to do here".to_owned(),
        Ending::Interrupted => format!("{command} again to go on"),
        Ending::Refused | Ending::Failed | Ending::Aborted => {
            format!("do what the error says, then {command}")
        }
    }
}
