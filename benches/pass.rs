//! The whole column pass over demo stores, and where its time goes.
//!
//! `cargo bench --bench pass` makes the stores it needs. With `ZAGG_BENCH_STORE=PATH` it
//! measures a copy of that store instead, which must declare `/2`.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use zagg_stream::demo::{self, DemoConfig, FieldSet};
use zagg_stream::{Report, Root, Settings, Steps, Upgrade};

/// Passes over a store, of which the fastest counts.
const PASSES: usize = 7;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let dir = tempfile::tempdir()?;
    let mut out = std::io::stdout().lock();
    for (name, store) in stores(dir.path())? {
        let report = runtime.block_on(fastest_pass(&store))?;
        write!(out, "{name}\n{}", figures(&report))?;
    }
    Ok(())
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

async fn fastest_pass(store: &Path) -> Result<Report, Box<dyn Error>> {
    let mut fastest: Option<Report> = None;
    for _ in 0..PASSES {
        let mut settings = Settings::default();
        settings.force = true;
        let root = Root::open(&store.to_string_lossy())?;
        let handle = Upgrade::new(root)
            .settings(settings)
            .steps(Steps::Columns)
            .start()
            .await?;
        let report = handle.join().await?;
        if report.counts.failed > 0 {
            return Err(format!("leaves failed: {:?}", report.failed_leaves).into());
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
