//! What a pass may hold at once and what it may ask for: leaves, bytes, requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::compare::compare;
use crate::common::faults::{FaultStore, Op, Rule};
use crate::common::library::{in_memory, run, scripted, settings, tree_in};
use crate::common::many::Many;
use crate::common::shard::Shard;
use crate::common::stores::{Tree, tree_of};
use object_store::GetRange;
use serde_json::Value;
use zagg_stream::Ending;
use zagg_stream::demo::DemoConfig;

/// A count and the most it ever was.
#[derive(Default)]
struct Level {
    now: AtomicU64,
    most: AtomicU64,
    ups: AtomicU64,
}

impl Level {
    fn up(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.ups.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn down(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }

    fn most(&self) -> u64 {
        self.most.load(Ordering::SeqCst)
    }
}

fn is_leaf_root(key: &str) -> bool {
    key.ends_with(".zarr/zarr.json") && !key.ends_with(".pyramid.zarr/zarr.json")
}

/// Watches leaves come and go: a leaf is under way from the first read of its root document
/// to the write of its sidecar.
fn watch(leaves: &Arc<Level>) -> Rule {
    let (leaves, seen) = (leaves.clone(), Mutex::new(BTreeSet::new()));
    Rule::on([Op::Get, Op::Put]).key(move |key| {
        if is_leaf_root(key) {
            // It is read once more before its column is stamped.
            if seen.lock().unwrap().insert(key.to_owned()) {
                leaves.up();
            }
        } else if key.ends_with(".pyramid.stats.json") {
            leaves.down();
        }
        false
    })
}

#[tokio::test]
async fn a_slow_writer_stalls_the_reading() {
    const NUM_LEAVES: u64 = 40;
    for (toml, most) in [
        ("max_in_flight = 4", 4),
        ("max_in_flight = 4\nmax_writers = 1\nmax_folds = 1", 4),
        ("max_in_flight = 1", 1),
    ] {
        let leaves = Arc::new(Level::default());
        let slow = Rule::on([Op::Put])
            .key_contains(".pyramid.zarr/")
            .stall(Duration::from_millis(3));
        let many = Many::leaves(40);
        let store = scripted(&many.tree, [watch(&leaves), slow]).await;
        let report = run(Arc::new(store.clone()), settings(toml)).await;
        assert_eq!(report.counts.written, NUM_LEAVES, "{report:?}");
        assert!(store.fired() > NUM_LEAVES);
        assert_eq!(leaves.ups.load(Ordering::SeqCst), NUM_LEAVES);
        // No more than that, and as many as that.
        assert_eq!(leaves.most(), most, "{toml}");
    }
}

#[tokio::test]
async fn a_slow_reader_holds_no_more_leaves_than_it_may_either() {
    let leaves = Arc::new(Level::default());
    let slow = Rule::on([Op::Get])
        .key_contains(".zarr/6/")
        .stall(Duration::from_millis(2));
    let many = Many::leaves(40);
    let store = scripted(&many.tree, [watch(&leaves), slow]).await;
    let report = run(Arc::new(store.clone()), settings("max_in_flight = 6")).await;
    assert_eq!(report.counts.written, 40);
    assert_eq!(leaves.most(), 6);
}

/// The most bytes one block of the leaves of a case can take: what is fetched of it,
/// and what it takes decoded and as rows. A block is the cells of one boundary cell,
/// and never less than is decoded at once.
fn block_bytes(tree: &Tree, manifest: &Value) -> u64 {
    const LEAST_CELLS: u64 = 256;
    /// As the fold reckons a decoded byte.
    const RESIDENT: u64 = 12;
    let order = |key: &str| u32::try_from(manifest[key].as_u64().unwrap()).unwrap();
    let cell_order = order("cell_order");
    let boundary = order("shard_order") + 2;
    let block = 4u64
        .pow(cell_order.saturating_sub(boundary))
        .max(LEAST_CELLS);
    let group = format!(".zarr/{cell_order}/");
    let mut blocks: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for (key, bytes) in tree {
        let Some((leaf, array)) = key.split_once(&group) else {
            continue;
        };
        let Some(array) = array.strip_suffix("/c/0") else {
            continue;
        };
        let Some(field) = manifest["pyramid"]["overview"]["fields"].get(array) else {
            continue;
        };
        if field["class"] == "none" {
            continue;
        }
        let metadata = &tree[&format!("{leaf}{group}{array}/zarr.json")];
        let metadata: Value = serde_json::from_slice(metadata).unwrap();
        let inner = &metadata["codecs"][0]["configuration"]["chunk_shape"][0];
        let (cells, inner) = (
            metadata["shape"][0].as_u64().unwrap(),
            inner.as_u64().unwrap(),
        );
        let chunks = Shard::parse(bytes, usize::try_from(cells / inner).unwrap()).chunks;
        for (chunk, first) in chunks
            .iter()
            .zip((0..).step_by(usize::try_from(inner).unwrap()))
        {
            let encoded = chunk.as_deref().unwrap_or_default();
            let decoded = if field["class"] == "approximate" && !encoded.is_empty() {
                zstd::decode_all(encoded).unwrap().len()
            } else {
                encoded.len()
            };
            *blocks.entry((leaf, first / block)).or_default() +=
                encoded.len() as u64 + RESIDENT * decoded as u64;
        }
    }
    *blocks.values().max().unwrap()
}

#[tokio::test]
async fn a_tiny_budget_gives_the_same_bytes_and_bounds_what_is_held() {
    const BUDGET: u64 = 64 << 10;
    for (name, window) in [
        ("deep", ""),
        ("fine", ""),
        ("fine", "read_window = \"1 B\""),
    ] {
        let case = Case::load(name);
        let tree = case.declared(Law::Boundary);
        let store = in_memory(&tree).await;
        let toml = format!("memory_budget = \"64 KiB\"\n{window}");
        let report = run(store.clone(), settings(&toml)).await;
        assert_eq!(report.outcome, Ending::Done, "{name}: {report:?}");
        let lines = compare(&case.expected(Law::Boundary), &tree_in(&*store).await);
        assert_eq!(lines, Vec::<String>::new(), "{name}");
        let manifest = serde_json::from_slice(&tree[MANIFEST]).unwrap();
        let (peak, block) = (report.peak_in_flight_bytes, block_bytes(&tree, &manifest));
        assert!(
            block <= peak && peak <= BUDGET + block,
            "{name}: {block} <= {peak} <= {BUDGET} + {block}"
        );
    }
}

/// Windows, blocks and budget meet in every way: none of them may wait for the other.
#[tokio::test]
async fn every_budget_ends_and_gives_the_same_columns() {
    let dir = tempfile::tempdir().unwrap();
    let config = DemoConfig {
        leaves: 3,
        cell_order: 10,
        ..DemoConfig::default()
    };
    zagg_stream::demo::write(&config, &dir.path().join("demo")).unwrap();
    let tree = tree_of(&dir.path().join("demo"));
    let columns = |mut tree: Tree| {
        tree.retain(|key, _| key.contains(".pyramid.zarr/") && key.contains("/c/"));
        tree
    };
    let roomy = in_memory(&tree).await;
    run(roomy.clone(), settings("")).await;
    let expected = columns(tree_in(&*roomy).await);
    assert!(!expected.is_empty());
    for budget in [
        "1 B", "2 KiB", "16 KiB", "50 KiB", "90 KiB", "200 KiB", "1 MiB", "3 MiB",
    ] {
        let store = in_memory(&tree).await;
        let report = run(
            store.clone(),
            settings(&format!("memory_budget = \"{budget}\"")),
        )
        .await;
        assert_eq!(report.outcome, Ending::Done, "{budget}: {report:?}");
        assert_eq!(columns(tree_in(&*store).await), expected, "{budget}");
    }
}

/// The fold takes no second window of a leaf it has refused, and gives nothing of the
/// first one back: the reader must not wait for it.
#[tokio::test]
async fn a_leaf_refused_in_its_first_block_does_not_hold_up_a_full_budget() {
    let case = Case::load("fine");
    let mut tree = case.declared(Law::Boundary);
    let leaves = case.leaves();
    for leaf in &leaves {
        let shard = tree.get_mut(&format!("{leaf}/7/h_tdigest/c/0")).unwrap();
        // The first bytes of the first written chunk: no zstd frame begins like this.
        shard[..4].fill(0);
    }
    let store = in_memory(&tree).await;
    let toml = "memory_budget = \"1 B\"\nread_window = \"1 B\"";
    let report = run(store, settings(toml)).await;
    assert_eq!(report.counts.failed, leaves.len() as u64, "{report:?}");
}

#[tokio::test]
async fn a_second_pass_reads_documents_of_each_leaf_and_writes_nothing() {
    for name in ["strata", "fine", "windowed"] {
        let case = Case::load(name);
        let inner = in_memory(&case.declared(Law::Boundary)).await;
        run(inner.clone(), settings("")).await;
        let store = FaultStore::new(inner, []);
        let report = run(Arc::new(store.clone()), settings("")).await;
        let leaves = case.leaves();
        assert_eq!(report.counts.current, leaves.len() as u64);

        for op in Op::WRITES {
            assert_eq!(store.calls(op), 0, "{name}: {op:?}");
        }
        assert_eq!(store.calls_where(Op::Get, |key| key.contains("/c/")), 0);
        let columns = case.columns(Law::Boundary);
        let read: BTreeMap<String, u64> = store
            .tally()
            .into_iter()
            .filter(|((op, key), _)| *op == Op::Get && key.contains(".zarr/"))
            .map(|((_, key), calls)| (key, calls))
            .collect();
        let mut may: BTreeSet<String> = leaves
            .iter()
            .chain(&columns)
            .map(|node| format!("{node}/zarr.json"))
            .collect();
        for (key, calls) in &read {
            assert_eq!(*calls, 1, "{name}: {key} is read once");
        }
        assert!(may.iter().all(|key| read.contains_key(key)), "{read:?}");
        may.extend(case.expected(Law::Boundary).columns.into_keys());
        may.retain(|key| key.ends_with("/zarr.json"));
        let read: BTreeSet<String> = read.into_keys().collect();
        let beyond: Vec<_> = read.difference(&may).collect();
        assert!(beyond.is_empty(), "{name}: {beyond:?}");
    }
}

#[tokio::test]
async fn a_first_pass_reads_each_index_once_and_never_a_whole_shard() {
    for name in ["temporal", "fine"] {
        let case = Case::load(name);
        let tree = case.declared(Law::Boundary);
        let store = scripted(&tree, []).await;
        let report = run(Arc::new(store.clone()), settings("")).await;
        assert_eq!(report.outcome, Ending::Done);
        let mut indexes: BTreeMap<String, u64> = BTreeMap::new();
        let mut chunks: BTreeMap<String, u64> = BTreeMap::new();
        for read in store.reads() {
            if !read.key.contains("/c/") {
                continue;
            }
            assert!(!read.key.contains("/morton/"), "words are not read");
            let size = tree[&read.key].len() as u64;
            match read.range {
                Some(GetRange::Suffix(bytes)) => {
                    assert!(bytes < size, "{}: {bytes} of {size}", read.key);
                    *indexes.entry(read.key).or_default() += 1;
                }
                Some(GetRange::Bounded(range)) => {
                    assert!(range.end - range.start < size, "{}: {range:?}", read.key);
                    *chunks.entry(read.key).or_default() += 1;
                }
                other => panic!("{}: read {other:?}", read.key),
            }
        }
        let arrays: Vec<&String> = indexes.keys().collect();
        assert_eq!(chunks.keys().collect::<Vec<_>>(), arrays, "{name}");
        // Every leaf's count and digest at the least.
        assert!(arrays.len() >= 2 * case.leaves().len());
        assert!(indexes.values().all(|reads| *reads == 1), "{indexes:?}");
        // Neighbouring chunks of these small leaves are one request.
        assert!(chunks.values().all(|reads| *reads == 1), "{chunks:?}");
    }
}
