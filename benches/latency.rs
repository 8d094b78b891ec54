//! How busy a run keeps a store that takes its time: 64 leaves behind 25 ms of latency
//! on every request, all at once against one leaf at a time.
//!
//! `cargo bench --bench latency`

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use zagg_stream::demo::{self, DemoConfig};
use zagg_stream::{Ending, Report, Root, Settings, Steps, Upgrade};

/// Of every request.
const LATENCY: Duration = Duration::from_millis(25);

const LEAVES: u32 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let dir = tempfile::tempdir()?;
    let store = dir.path().join("store");
    let config = DemoConfig {
        leaves: LEAVES,
        cell_order: 8,
        centroids: 20,
        ..DemoConfig::default()
    };
    demo::write(&config, &store)?;
    let mut out = std::io::stdout().lock();
    for (name, steps) in [
        ("columns", Steps::Columns),
        ("columns and ladder", Steps::All),
    ] {
        let all = runtime.block_on(run(&store, Settings::default(), steps))?;
        let one = runtime.block_on(run(&store, one_at_a_time(), steps))?;
        writeln!(
            out,
            "{name} of {LEAVES} leaves, {} ms a request\n  \
             {} requests in {:.2} s; one leaf at a time {:.2} s: {:.1} times as fast, {:.0} requests in flight on average",
            LATENCY.as_millis(),
            all.requests.requests(),
            all.seconds,
            one.seconds,
            one.seconds / all.seconds,
            all.requests.requests() as f64 * LATENCY.as_secs_f64() / all.seconds,
        )?;
    }
    Ok(())
}

fn one_at_a_time() -> Settings {
    let mut settings = Settings::default();
    settings.max_in_flight = 1;
    settings
}

async fn run(store: &Path, settings: Settings, steps: Steps) -> Result<Report, Box<dyn Error>> {
    let slow = ThrottledStore::new(in_memory(store).await?, latency());
    let root = Root::new(Arc::new(slow), "memory://latency");
    let upgrade = Upgrade::new(root).settings(settings).steps(steps);
    let report = upgrade.start().await?.join().await?;
    if report.outcome != Ending::Done {
        return Err(format!("the run ended early: {report:?}").into());
    }
    Ok(report)
}

fn latency() -> ThrottleConfig {
    ThrottleConfig {
        wait_delete_per_call: LATENCY,
        wait_get_per_call: LATENCY,
        wait_list_per_call: LATENCY,
        wait_list_with_delimiter_per_call: LATENCY,
        wait_put_per_call: LATENCY,
        ..ThrottleConfig::default()
    }
}

/// A copy of the store at `path`.
async fn in_memory(path: &Path) -> Result<InMemory, Box<dyn Error>> {
    let store = InMemory::new();
    let mut left = vec![path.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir)? {
            let file = entry?.path();
            if file.is_dir() {
                left.push(file);
                continue;
            }
            let key = file.strip_prefix(path)?.to_string_lossy().into_owned();
            store.put(&key.into(), std::fs::read(&file)?.into()).await?;
        }
    }
    Ok(store)
}
