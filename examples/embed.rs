//! An upgrade as a part of another program: it watches, may stop it, and reads the report.
//!
//! ```text
//! cargo run --example embed                  # a small store made for the occasion
//! cargo run --example embed -- /data/product
//! ```
//! Ctrl-C stops it as a host would: what is being written is finished, the lease is given
//! back, and the report says so.

use std::error::Error;
use std::io::Write;

use futures::StreamExt;
use zagg_stream::demo::{self, DemoConfig};
use zagg_stream::{Event, Report, Root, Settings, Upgrade};

/// What the host allows an upgrade, in the words of `config/default.toml`.
const SETTINGS: &str = r#"
max_in_flight = 16
memory_budget = "128 MiB"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // Kept until the end, when it takes the store made for the occasion with it.
    let made = tempfile::tempdir()?;
    let root = match std::env::args().nth(1) {
        Some(root) => root,
        None => {
            let store = made.path().join("store");
            demo::write(&DemoConfig::default(), &store)?;
            store.to_string_lossy().into_owned()
        }
    };
    // The library reads no environment; credentials are in what the host hands in.
    let root = Root::open_with(&root, std::env::vars())?;
    let upgrade = Upgrade::new(root).settings(Settings::from_toml(SETTINGS)?);
    // Whatever refuses the store does so here, before anything is written.
    let handle = upgrade.start().await?;
    let (mut events, stop) = (Box::pin(handle.events()), handle.stop());
    let watching = async {
        while let Some(event) = events.next().await {
            show(&event)?;
        }
        Ok::<_, std::io::Error>(())
    };
    let stopping = async {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.abort("the operator of the host");
        }
        std::future::pending::<()>().await
    };
    let (watched, report) = tokio::select! {
        done = futures::future::join(watching, handle.join()) => done,
        () = stopping => return Ok(()),
    };
    watched?;
    show_report(&report?)?;
    Ok(())
}

fn show(event: &Event) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match event {
        Event::StepStarted { step, total } => writeln!(out, "{step}: {total} to do"),
        Event::Progress(progress) => writeln!(
            out,
            "{}: {} of {}, {} bytes read",
            progress.step, progress.done, progress.total, progress.bytes_read
        ),
        Event::Written { path, reason } => writeln!(out, "written ({reason:?}): {path}"),
        Event::Failed { path, error } => writeln!(out, "failed: {path}: {error}"),
        Event::Aborted { reason } => writeln!(out, "stopping: {reason}"),
        // There are more, and there may be more to come.
        _ => Ok(()),
    }
}

fn show_report(report: &Report) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:?}: {} written, {} current, {} failed in {:.1} s",
        report.outcome,
        report.counts.written,
        report.counts.current,
        report.counts.failed,
        report.seconds,
    )?;
    for failed in &report.failed_leaves {
        writeln!(out, "  {}: {}", failed.leaf, failed.error)?;
    }
    Ok(())
}
