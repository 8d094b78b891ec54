//! The whole column pass over a demo store, and where its time goes.
//!
//! `cargo bench --bench pass` makes the stores it needs. With `ZAGG_BENCH_STORE=PATH` it
//! measures a copy of that store instead, which must declare `/2`.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zagg_stream::kernels::column::ColumnFold;
use zagg_stream::pyramid::Declaration;
use zagg_stream::store::Manifest;
use zagg_stream::store::column::EncodedColumn;
use zagg_stream::store::leaf::OpenLeaf;
use zagg_stream::store::records::Records;
use zagg_stream::store::template::ColumnTemplate;
use zagg_stream::{LeafRef, Root, Settings, Upgrade};

/// Passes of which the fastest counts.
const PASSES: usize = 7;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    for (name, store) in stores(dir.path()) {
        println!("{name}");
        runtime.block_on(pass(&store));
        runtime.block_on(stages(&store));
    }
}

fn stores(dir: &Path) -> Vec<(String, PathBuf)> {
    let given = std::env::var("ZAGG_BENCH_STORE").expect("a store");
    let copy = dir.join("store");
    copy_tree(Path::new(&given), &copy);
    vec![(given, copy)]
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a listing") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// The pass as a user runs it, all threads.
async fn pass(store: &Path) {
    let mut best = Duration::MAX;
    let mut report = None;
    for _ in 0..PASSES {
        let root = Root::open(&store.to_string_lossy()).expect("a root");
        let mut settings = Settings::default();
        settings.force = true;
        let started = Instant::now();
        let handle = Upgrade::new(root)
            .settings(settings)
            .start()
            .await
            .expect("admission");
        let ended = handle.join().await.expect("a report");
        best = best.min(started.elapsed());
        assert_eq!(ended.counts.failed, 0, "{:?}", ended.failed_leaves);
        report = Some(ended);
    }
    let report = report.expect("a report");
    println!(
        "  pass: {} leaves in {:.1} ms, {:.1} leaves/s, {:.1} MB/s read",
        report.counts.written,
        best.as_secs_f64() * 1e3,
        report.counts.written as f64 / best.as_secs_f64(),
        report.bytes.read as f64 / best.as_secs_f64() / 1e6,
    );
}

/// The stages of a pass on one thread, one after the other, so that their shares add up.
async fn stages(store: &Path) {
    let root = Root::open(&store.to_string_lossy()).expect("a root");
    let manifest = Manifest::read(&root).await.expect("a manifest");
    let declaration = Declaration::parse(
        manifest.pyramid(),
        manifest.shard_order(),
        manifest.cell_order(),
    )
    .expect("a declaration");
    let law = Settings::default().fold_law;
    let template = Arc::new(
        ColumnTemplate::new(declaration, law, manifest.is_windowed()).expect("a template"),
    );
    let records = Records::read(&root, &manifest).await.expect("records");
    let mut best: Option<[Duration; 4]> = None;
    for _ in 0..PASSES {
        let mut total = [Duration::ZERO; 4];
        for item in &records.items {
            let leaf = LeafRef::new(item.shard, item.window.clone()).expect("a shard");
            let times = leaf_stages(&root, &template, leaf).await;
            for (total, time) in total.iter_mut().zip(times) {
                *total += time;
            }
        }
        let sum = |times: &[Duration; 4]| times.iter().sum::<Duration>();
        if best.as_ref().is_none_or(|best| sum(&total) < sum(best)) {
            best = Some(total);
        }
    }
    let best = best.expect("a pass");
    let sum: Duration = best.iter().sum();
    for (name, time) in ["read", "decode", "fold", "encode and hash"]
        .iter()
        .zip(best)
    {
        println!(
            "  {name}: {:.1} ms, {:.0} %",
            time.as_secs_f64() * 1e3,
            100.0 * time.as_secs_f64() / sum.as_secs_f64(),
        );
    }
}

async fn leaf_stages(root: &Root, template: &Arc<ColumnTemplate>, leaf: LeafRef) -> [Duration; 4] {
    let mut times = [Duration::ZERO; 4];
    let mut clock = Instant::now();
    let mut lap = |stage: usize| {
        times[stage] += clock.elapsed();
        clock = Instant::now();
    };
    let open = OpenLeaf::open(root, template.clone(), leaf.clone())
        .await
        .expect("a leaf");
    let mut fold = ColumnFold::new(&template.plan, &template.declaration.fields).expect("a fold");
    for cells in open.windows(Settings::default().read_window) {
        let window = open.fetch(root, cells).await.expect("a window");
        lap(0);
        for slab in open.slabs(window) {
            let (cells, fields) = slab.expect("a slab");
            lap(1);
            fold.push(cells, &fields).expect("cells");
            drop(fields);
            lap(2);
        }
    }
    let folded = fold.finish().expect("groups");
    lap(2);
    let column = EncodedColumn::encode(template, &leaf, &open.group_attributes, &folded);
    black_box(column.expect("a column").num_bytes());
    lap(3);
    times
}
