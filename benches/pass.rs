//! The whole column pass over demo stores, and where its time goes; and the ladder above
//! a store of many small leaves.
//!
//! `cargo bench --bench pass` makes the stores it needs. With `ZAGG_BENCH_STORE=PATH` it
//! measures a copy of that store instead, which must declare `/2`.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use zagg_stream::demo::{self, DemoConfig, FieldSet};
use zagg_stream::{Ending, Report, Root, Settings, Steps, Upgrade};

/// Passes over a store, of which the fastest counts.
const PASSES: usize = 7;

/// Leaves of the store whose ladder is built: enough that every level has nodes of
/// several children.
const LADDER_LEAVES: u32 = 192;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let dir = tempfile::tempdir()?;
    let mut out = std::io::stdout().lock();
    for (name, store) in stores(dir.path())? {
        let report = runtime.block_on(fastest_pass(&store, Steps::Columns))?;
        write!(out, "{name}\n{}", figures(&report))?;
    }
    let (name, store) = ladder_store(dir.path())?;
    let report = runtime.block_on(fastest_pass(&store, Steps::All))?;
    write!(out, "{name}\n{}", ladder_figures(&report)?)?;
    Ok(())
}

/// The store whose ladder is built: the one that was given, or many leaves.
fn ladder_store(dir: &Path) -> Result<(String, PathBuf), Box<dyn Error>> {
    let given = dir.join("store");
    if given.exists() {
        return Ok(("the same, with its ladder".to_owned(), given));
    }
    let config = DemoConfig {
        leaves: LADDER_LEAVES,
        cell_order: 8,
        centroids: 20,
        ..DemoConfig::default()
    };
    let store = dir.join("ladder");
    demo::write(&config, &store)?;
    let name = format!("plain, {LADDER_LEAVES} leaves of 256 cells, with their ladder");
    Ok((name, store))
}

fn stores(dir: &Path) -> Result<Vec<(String, PathBuf)>, Box<dyn Error>> {
    if let Some(given) = std::env::var_os("ZAGG_BENCH_STORE") {
        let copy = dir.join("store");
        copy_tree(Path::new(&given), &copy)?;
        return Ok(vec![(given.to_string_lossy().into_owned(), copy)]);
    }
    [
        (FieldSet::Plain, 12, "plain, 65,536 cells a leaf"),
        (FieldSet::Strata, 11, "strata, 16,384 cells a leaf"),
        (
            FieldSet::Temporal,
            11,
            "located and temporal, 16,384 cells a leaf",
        ),
    ]
    .into_iter()
    .map(|(fields, cell_order, name)| {
        let config = DemoConfig {
            leaves: 6,
            cell_order,
            fields,
            centroids: 20,
            ..DemoConfig::default()
        };
        let store = dir.join(format!("{fields:?}"));
        demo::write(&config, &store)?;
        Ok((name.to_owned(), store))
    })
    .collect()
}

fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

async fn fastest_pass(store: &Path, steps: Steps) -> Result<Report, Box<dyn Error>> {
    let mut fastest: Option<Report> = None;
    for _ in 0..PASSES {
        let mut settings = Settings::default();
        settings.force = true;
        let root = Root::open(&store.to_string_lossy())?;
        let handle = Upgrade::new(root)
            .settings(settings)
            .steps(steps)
            .start()
            .await?;
        let report = handle.join().await?;
        if report.outcome != Ending::Done {
            return Err(format!("the pass ended early: {report:?}").into());
        }
        if fastest
            .as_ref()
            .is_none_or(|fastest| report.seconds < fastest.seconds)
        {
            fastest = Some(report);
        }
    }
    fastest.ok_or_else(|| "no pass was made".into())
}

fn figures(report: &Report) -> String {
    let stages = report.stage_seconds;
    let stages = [
        ("read", stages.read),
        ("decode", stages.decode),
        ("fold", stages.fold),
        ("encode and hash", stages.encode),
        ("write", stages.write),
    ];
    let sum: f64 = stages.iter().map(|(_, seconds)| seconds).sum();
    let shares: Vec<String> = stages
        .iter()
        .map(|(name, seconds)| format!("{name} {:.0} %", 100.0 * seconds / sum))
        .collect();
    format!(
        "  {} leaves in {:.1} ms: {:.1} leaves/s, {:.1} MB/s read\n  {}\n",
        report.counts.written,
        report.seconds * 1e3,
        report.counts.written as f64 / report.seconds,
        report.bytes.read as f64 / report.seconds / 1e6,
        shares.join(", "),
    )
}

fn ladder_figures(report: &Report) -> Result<String, Box<dyn Error>> {
    let ladder = report.ladder.as_ref().ok_or("no ladder was built")?;
    Ok(format!(
        "  {} artifacts in {:.1} ms: {:.1} artifacts/s, {:.0} % of a run that also wrote {} columns\n",
        ladder.counts.written,
        ladder.seconds * 1e3,
        ladder.counts.written as f64 / ladder.seconds,
        100.0 * ladder.seconds / report.seconds,
        report.counts.written,
    ))
}
