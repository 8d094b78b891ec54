//! `lease show` and `lease release`: the sweep lease, for the operator who must decide.

use std::process::ExitCode;

use serde_json::json;

use super::args::{LeaseArgs, LeaseCommand, ReleaseArgs};
use super::output;
use crate::error::Error;
use crate::report::Ending;
use crate::store::lease::{self, Released, Standing};
use crate::store::{LeaseRecord, Manifest, Root};
use crate::time::{Clock, SystemClock};

pub(super) async fn run(command: LeaseCommand) -> ExitCode {
    let (name, json, outcome) = match command {
        LeaseCommand::Show(args) => ("lease show", args.json, show(args).await),
        LeaseCommand::Release(args) => ("lease release", args.lease.json, release(args).await),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            let code = error.ending().exit_code();
            if json {
                let document = json!({"exit_code": code, "error": error.to_string()});
                output::print_json(name, &document);
            }
            output::complain(&error.to_string());
            ExitCode::from(code)
        }
    }
}

async fn show(args: LeaseArgs) -> Result<ExitCode, Error> {
    let root = open(&args.root).await?;
    let standing = lease::show(&root).await?;
    if args.json {
        output::print_json("lease show", &standing_json(&standing));
    } else {
        output::print(&standing_text(&standing));
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens a root that holds a store: of any other place "no lease" would be a false comfort.
async fn open(root: &str) -> Result<Root, Error> {
    let root = Root::open_with(root, std::env::vars())?;
    Manifest::read(&root).await?;
    Ok(root)
}

async fn release(args: ReleaseArgs) -> Result<ExitCode, Error> {
    let root = open(&args.lease.root).await?;
    root.ensure_writable()?;
    let run_id = match (args.run_id, lease::show(&root).await?) {
        (Some(run_id), _) => run_id,
        (None, Standing::Lease(record)) if !is_live(&record) => record.run_id().to_owned(),
        (None, Standing::Free) => return Ok(answer(args.lease.json, Released::Absent, "")),
        (None, standing) => {
            let advice = match &standing {
                Standing::Lease(record) => format!(
                    "; if that run is known to be dead: zagg-stream lease release {root} --run-id {}",
                    record.run_id()
                ),
                _ => String::new(),
            };
            output::complain(&format!("{}{advice}", standing_text(&standing)));
            return Ok(ExitCode::from(Ending::Refused.exit_code()));
        }
    };
    let released = lease::release(&root, &run_id, &SystemClock::new()).await?;
    Ok(answer(args.lease.json, released, &run_id))
}

fn answer(json: bool, released: Released, run_id: &str) -> ExitCode {
    let (code, text) = match &released {
        Released::Yes => (0, format!("the lease of run `{run_id}` is removed")),
        Released::Absent => (0, "no lease: nobody is writing to the store".to_owned()),
        Released::NotOurs(holder) => {
            let holder = holder.as_deref().unwrap_or("something that is no lease");
            let text = format!("the lease is held by `{holder}`, not by `{run_id}`; it stays");
            (Ending::Refused.exit_code(), text)
        }
    };
    if json {
        let removed = released == Released::Yes;
        output::print_json(
            "lease release",
            &json!({"removed": removed, "message": text}),
        );
    } else {
        output::print(&text);
    }
    ExitCode::from(code)
}

fn standing_json(standing: &Standing) -> serde_json::Value {
    match standing {
        Standing::Free => json!({"state": "free"}),
        Standing::Debris => json!({"state": "debris"}),
        Standing::Foreign(spec) => json!({"state": "unknown-spec", "spec": spec}),
        Standing::Lease(record) => json!({
            "state": if is_live(record) { "live" } else { "expired" },
            "run_id": record.run_id(),
            "acquired_at": record.acquired_at(),
            "heartbeat_at": record.heartbeat_at(),
            "ttl_s": record.ttl_s(),
            "claimed_from": record.claimed_from(),
        }),
    }
}

fn standing_text(standing: &Standing) -> String {
    match standing {
        Standing::Free => "no lease: nobody is writing to the store".to_owned(),
        Standing::Debris => {
            "no lease but an unreadable object in its place; the next pass claims it".to_owned()
        }
        Standing::Foreign(spec) => {
            format!("held under spec {spec}, which this version does not know")
        }
        Standing::Lease(record) => format!(
            "{} by run `{}`, acquired {}, last heartbeat {}, good for {} s",
            if is_live(record) {
                "held"
            } else {
                "expired, free to claim, last held"
            },
            record.run_id(),
            record.acquired_at(),
            record.heartbeat_at(),
            record.ttl_s(),
        ),
    }
}

fn is_live(record: &LeaseRecord) -> bool {
    record.is_live(SystemClock::new().now().unix_seconds())
}
