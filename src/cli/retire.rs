//! `retire`: what a `/1` pyramid left behind, listed or deleted.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::args::RetireArgs;
use super::{output, signals};
use crate::report::Ending;
use crate::retire::{Extent, Retire, RetireError, Retired, RetiredArtifact, StopRetire};
use crate::store::Root;

/// Artifacts of one kind a summary names; the JSON document has more.
const KEPT_SHOWN: usize = 10;

pub(super) async fn run(args: RetireArgs) -> ExitCode {
    let outcome = retire(&args.root, args.yes).await;
    let exit_code = match &outcome {
        Ok(retired) => retired.exit_code,
        Err(error) => error.ending().exit_code(),
    };
    if args.json {
        output::print_json("retire", &document(&args.root, &outcome, exit_code));
    } else if let Ok(retired) = &outcome {
        output::print(summary(retired).trim_end());
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

async fn retire(root: &str, delete: bool) -> Result<Retired, RetireError> {
    let root = Root::open_with(root, std::env::vars())?;
    let retire = Retire::new(root).delete(delete);
    if !delete {
        return retire.run().await;
    }
    let stop = retire.stop();
    tokio::select! {
        outcome = retire.run() => outcome,
        never = stop_on_signals(stop) => match never {},
    }
}

/// Stops between two deletions on the first signal; a second one ends the process at
/// once, and the lease then stands until it expires.
async fn stop_on_signals(stop: StopRetire) -> std::convert::Infallible {
    let first = signals::signal().await;
    tracing::warn!("{first}: finishing the deletions under way; once more to stop at once");
    stop.stop();
    let second = signals::signal().await;
    output::complain(&format!(
        "{second} again: stopping at once; the lease stays, and the next run is refused until it \
         expires or `zagg-stream lease release` removes it"
    ));
    std::process::exit(i32::from(Ending::Interrupted.exit_code()))
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

fn summary(retired: &Retired) -> String {
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
    let _ = writeln!(text, "next: {}", next(retired));
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
