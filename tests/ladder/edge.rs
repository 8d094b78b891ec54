//! Ladders at the edges: what cannot be read, few leaves, windows that few leaves have,
//! shards of order 0, and groups wider than an object.

use std::collections::BTreeSet;

use crate::common::array::Array;
use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::ladder::{Ladder, above, artifact_of, ladder_of, node_of, record_of};
use crate::common::library::{in_memory, settings, start_steps, tree_in};
use crate::common::many::{Many, record};
use crate::common::stores::{TestStore, Tree, tree_of};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zagg_stream::demo::{DemoConfig, FieldSet};
use zagg_stream::kernels::words::decimal;
use zagg_stream::{Ending, Report, Settings, Steps};

async fn run(tree: &Tree, settings: Settings, steps: Steps) -> (Report, Tree) {
    let store = in_memory(tree).await;
    let handle = start_steps(store.clone(), settings, steps).await;
    let report = handle.join().await.unwrap();
    (report, tree_in(&*store).await)
}

async fn upgraded(tree: &Tree) -> Tree {
    let (report, tree) = run(tree, settings(""), Steps::All).await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    tree
}

/// Observations in the finest group of an artifact.
fn observations(tree: &Tree, artifact: &str) -> i64 {
    let group = |key: &String| {
        let below = key.strip_prefix(&format!("{artifact}/"))?;
        below.strip_suffix("/count/zarr.json")?.parse::<u8>().ok()
    };
    let finest = tree.keys().filter_map(group).max().unwrap();
    Array::read(tree, &format!("{artifact}/{finest}/count")).sum()
}

/// Artifacts with this name at nodes of an order.
fn at_order(tree: &Tree, order: usize, name: &str) -> BTreeSet<String> {
    let artifacts = tree.keys().map(|key| artifact_of(key));
    artifacts
        .filter(|artifact| artifact.ends_with(&format!("/{name}.zarr")))
        .filter(|artifact| node_of(artifact).matches('/').count() == order)
        .collect()
}

fn observations_at(tree: &Tree, order: usize, name: &str) -> i64 {
    let artifacts = at_order(tree, order, name);
    artifacts
        .iter()
        .map(|artifact| observations(tree, artifact))
        .sum()
}

fn children(folded: u64, missing: u64, unreadable: u64) -> Value {
    json!({"folded": folded, "missing": missing, "unreadable": unreadable})
}

/// A store of the demo, declared and without columns.
fn demo(config: &DemoConfig) -> Tree {
    let dir = tempfile::tempdir().unwrap();
    zagg_stream::demo::write(config, &dir.path().join("demo")).unwrap();
    tree_of(&dir.path().join("demo"))
}

#[test]
fn a_child_without_its_companion_is_counted_and_warned_of_and_healed() {
    let ladder = Ladder::with_columns("strata", Law::Boundary);
    let column = "1/1/2/1/3/all.pyramid.zarr";
    let companion = format!("{column}/4/h_tdigest_signal_locations/");
    let mut removed = ladder.tree();
    removed.retain(|key, _| key.starts_with(&companion));
    assert!(removed.len() > 1);
    for key in removed.keys() {
        ladder.published.store.remove(key);
    }
    ladder.run("sweep", &[]).expect_code(3);
    for _ in 0..2 {
        let run = ladder.run("sweep", &["--allow-gaps"]).expect_code(0);
        assert_eq!(run.number("/ladder/levels/0/source_children/unreadable"), 1);
        for part in ["not folded", column, "h_tdigest_signal_locations"] {
            assert!(run.stderr.contains(part), "{}", run.stderr);
        }
        for artifact in ["1/1/2/1/all.zarr", "1/1/2/1/all.pyramid.zarr"] {
            let record = record_of(&ladder.tree(), artifact);
            assert_eq!(record["source_children"], children(1, 0, 1), "{artifact}");
            assert_eq!(record["generation"]["n_leaves"], 1);
        }
    }
    for (key, bytes) in &removed {
        ladder.published.store.write(key, bytes);
    }
    let mut due = above(&ladder_of(ladder.case(), &ladder.tree()), column);
    due.insert(MANIFEST.to_owned());
    assert_eq!(ladder.wrote("sweep", &[]), due);
    ladder.assert_golden();
}

#[tokio::test]
async fn a_child_that_one_group_cannot_be_read_of_is_in_no_group_of_the_stage() {
    let config = DemoConfig {
        leaves: 2,
        fields: FieldSet::Strata,
        ..DemoConfig::default()
    };
    let (_, columns) = run(&demo(&config), settings(""), Steps::Columns).await;
    let first = at_order(&columns, 4, "all.pyramid").pop_first().unwrap();
    let stage = at_order(&upgraded(&columns).await, 3, "all.pyramid")
        .pop_first()
        .unwrap();
    assert_eq!(node_of(&first).rsplit_once('/').unwrap().0, node_of(&stage));
    let mut gaps = settings("");
    gaps.allow_gaps = true;
    let mut built = Vec::new();
    for gone in ["", "/5/h_tdigest_noise_locations"] {
        let mut tree = columns.clone();
        tree.retain(|key, _| !key.starts_with(&format!("{first}{gone}/")));
        let (report, mut tree) = run(&tree, gaps.clone(), Steps::Ladder).await;
        assert_eq!(report.outcome, Ending::Done, "{report:?}");
        let record = record_of(&tree, &stage);
        let is_absent = u64::from(gone.is_empty());
        assert_eq!(
            record["source_children"],
            children(1, is_absent, 1 - is_absent)
        );
        let root = format!("{stage}/zarr.json");
        tree.retain(|key, _| key.starts_with(&format!("{stage}/")) && *key != root);
        assert!(tree.len() > 3);
        built.push(tree);
    }
    assert_eq!(built[0], built[1]);
}

#[tokio::test]
async fn a_single_leaf_has_one_node_at_every_order() {
    let many = Many::leaves(1);
    let tree = upgraded(&many.tree).await;
    let column = Many::column(&many.leaves[0]);
    let total = observations(&tree, &column);
    assert!(total > 0);
    for order in 0..4 {
        let overviews = at_order(&tree, order, "all");
        assert_eq!(overviews.len(), 1);
        for overview in overviews {
            assert_eq!(observations(&tree, &overview), total, "{overview}");
            let record = record_of(&tree, &overview);
            assert_eq!(record["source_children"], children(1, 0, 0));
            assert_eq!(record["generation"]["n_leaves"], 1);
        }
    }
}

#[tokio::test]
async fn a_window_that_one_leaf_has_is_in_the_overviews_of_that_window_and_of_all() {
    let case = Case::load("windowed_all");
    let mut tree = case.declared(Law::Boundary);
    // Leaves the records still name, as when a shard was taken back.
    let gone = ["1122_2020", "-3114_2020"];
    tree.retain(|key, _| {
        !gone
            .iter()
            .any(|leaf| key.contains(&format!("/{leaf}.zarr/")))
    });
    let tree = upgraded(&tree).await;
    let per_window = |label| observations_at(&tree, 3, &format!("{label}.pyramid"));
    let (a, b) = (per_window("2019"), per_window("2020"));
    assert!(a > b && b > 0);
    for order in 0..3 {
        assert_eq!(observations_at(&tree, order, "2019"), a, "{order}");
        assert_eq!(observations_at(&tree, order, "2020"), b, "{order}");
        assert_eq!(observations_at(&tree, order, "all"), a + b, "{order}");
        assert_eq!(at_order(&tree, order, "2019"), {
            let all = at_order(&tree, order, "all");
            all.iter()
                .map(|all| all.replace("/all.", "/2019."))
                .collect()
        });
    }
    assert_eq!(
        at_order(&tree, 2, "2020"),
        ["1/1/2/2020.zarr".to_owned()].into()
    );
    let record = record_of(&tree, "1/1/2/2020.zarr");
    assert_eq!(record["source_children"], children(1, 1, 0));
    // A node counts as missing only when it has no column of any of the windows.
    let record = record_of(&tree, "1/1/2/all.zarr");
    assert_eq!(record["source_children"], children(2, 0, 0));
    assert_eq!(record["generation"]["n_leaves"], 3);
    assert_eq!(record["regime"], "stage-merge");
}

/// A declared store of one leaf at order 0, whose cells are those of a golden leaf.
fn order_0() -> Tree {
    let case = Case::load("fine");
    let from = "1/1/11.zarr/7/";
    let mut tree = Tree::new();
    for (key, bytes) in case.declared(Law::Boundary) {
        if let Some(below) = key.strip_prefix(from) {
            tree.insert(format!("1/1.zarr/6/{below}"), bytes);
        } else if key == "1/1/11.zarr/zarr.json" {
            tree.insert("1/1.zarr/zarr.json".to_owned(), bytes);
        } else if key == MANIFEST {
            let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
            manifest["cell_order"] = json!(6);
            manifest["shard_order"] = json!(0);
            manifest["split_schedule"] = json!([]);
            manifest["pyramid"]["overviews"] = json!([{"node": 0, "cells": [5, 4, 3, 2, 1]}]);
            tree.insert(key, serde_json::to_vec_pretty(&manifest).unwrap());
        }
    }
    let words = [decimal::parse("1").unwrap()];
    tree.insert(
        "stats_20260825T101500Z_one.parquet".to_owned(),
        record(&words),
    );
    tree
}

#[test]
fn shards_of_order_0_have_columns_and_no_ladder() {
    let store = TestStore::of(&order_0());
    let upgrade = || {
        let upgrade = Zagg::new("upgrade").arg(store.root()).arg("--json");
        upgrade.run().expect_code(0)
    };
    let run = upgrade();
    assert_eq!(run.number("/counts/written"), 1);
    assert_eq!(run.number("/ladder/counts/written"), 0);
    assert_eq!(run.json()["ladder"]["finished"], true);
    let tree = store.tree();
    assert!(observations(&tree, "1/all.pyramid.zarr") > 0);
    let moc: Value = serde_json::from_slice(&tree["coverage.moc"]).unwrap();
    assert_eq!(moc["ranges"], json!([["1", "1"]]));
    let manifest: Value = serde_json::from_slice(&tree[MANIFEST]).unwrap();
    let entries = &manifest["pyramid"]["overviews"];
    assert_eq!(entries[0]["actuals"]["regime"], "leaf-column");
    assert_eq!(upgrade().number("/requests/put"), 0);
}

/// Cells of an object of a group that is wider.
const BLOCK: usize = 4usize.pow(5);

/// The content hash of an overview, over the cells it holds.
fn slow_hash(tree: &Tree, overview: &str, id: &str, order: u8, cells: u8) -> String {
    let group = format!("{overview}/{cells}/");
    let name = |key: &String| {
        let name = key.strip_prefix(&group)?.strip_suffix("/zarr.json")?;
        (name != "morton").then(|| name.to_owned())
    };
    let names: BTreeSet<String> = tree.keys().filter_map(name).collect();
    assert!(names.len() > 3, "{names:?}");
    let mut hash = Sha256::new();
    hash.update(format!("zagg-overview/1:{id}:{order}:{cells}"));
    for name in names {
        let array = Array::read(tree, &format!("{group}{name}"));
        hash.update(&name);
        for cell in &array.cells {
            if array.is_ragged {
                hash.update(u32::try_from(cell.len()).unwrap().to_le_bytes());
            }
            hash.update(cell);
        }
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A demo store of two sibling leaves, whose overviews are up to 16 objects wide.
fn wide() -> Tree {
    let mut tree = demo(&DemoConfig {
        leaves: 2,
        cell_order: 10,
        fields: FieldSet::Strata,
        centroids: 4,
        ..DemoConfig::default()
    });
    let mut manifest: Value = serde_json::from_slice(&tree[MANIFEST]).unwrap();
    manifest["pyramid"]["overviews"] = json!([
        {"node": 4, "cells": [9, 8, 7, 6, 5]},
        {"node": 3, "cells": [9]},
        {"node": 2, "cells": [9]},
        {"node": 1, "cells": [7]},
        {"node": 0, "cells": [6]},
    ]);
    let manifest = serde_json::to_vec_pretty(&manifest).unwrap();
    tree.insert(MANIFEST.to_owned(), manifest);
    tree
}

#[tokio::test]
async fn a_group_wider_than_an_object_is_cut_hashed_whole_and_held_in_parts() {
    let (_, columns) = run(&wide(), settings(""), Steps::Columns).await;
    let (roomy, tree) = run(&columns, settings(""), Steps::Ladder).await;
    assert_eq!(roomy.outcome, Ending::Done, "{roomy:?}");
    for (order, cells) in [(3u8, 9u8), (2, 9), (1, 7), (0, 6)] {
        let overview = at_order(&tree, order.into(), "all").pop_first().unwrap();
        let id: String = node_of(&overview).split('/').collect();
        let group = format!("{overview}/{cells}");
        let n_cells = 4usize.pow(u32::from(cells - order));
        for name in ["morton", "count", "composition", "h_tdigest_noise"] {
            let array = Array::read(&tree, &format!("{group}/{name}"));
            assert_eq!(
                (array.cells.len(), array.per_object),
                (n_cells, BLOCK),
                "{group}"
            );
        }
        let words = Array::read(&tree, &format!("{group}/morton")).cells;
        let word = |cell: &Vec<u8>| u64::from_le_bytes(cell[..].try_into().unwrap());
        assert!(words.iter().map(word).is_sorted());
        let first = decimal::render(word(&words[0])).unwrap();
        assert_eq!(first, format!("{id}{}", "1".repeat((cells - order).into())));

        let record = record_of(&tree, &overview);
        let hash = slow_hash(&tree, &overview, &id, order, cells);
        assert_eq!(record["content_hash"], hash, "{overview}");
    }
    // The cells of the leaves, one behind the other, and fill where there is none.
    for name in ["count", "h_tdigest_signal", "h_tdigest_signal_locations"] {
        let overview = at_order(&tree, 3, "all").pop_first().unwrap();
        let all = Array::read(&tree, &format!("{overview}/9/{name}"));
        for (nth, cells) in (1..).zip(all.cells.chunks(BLOCK)) {
            let leaf = format!("{}/{nth}/all.pyramid.zarr/9/{name}", node_of(&overview));
            match tree.contains_key(&format!("{leaf}/zarr.json")) {
                true => assert_eq!(cells, Array::read(&tree, &leaf).cells, "{leaf}"),
                false => assert!(cells.iter().flatten().all(|byte| *byte == 0)),
            }
        }
    }

    const BUDGET: u64 = 16 << 10;
    let tight = settings("memory_budget = \"16 KiB\"");
    let (report, tight) = run(&columns, tight, Steps::Ladder).await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    let chunks = |tree: &Tree| -> Tree {
        let chunks = tree.iter().filter(|(key, _)| key.contains("/c/"));
        chunks
            .map(|(key, bytes)| (key.clone(), bytes.clone()))
            .collect()
    };
    assert!(
        chunks(&tight) == chunks(&tree),
        "other cells within less memory"
    );
    let block = block_bytes(&columns);
    let (peak, most) = (report.peak_in_flight_bytes, BUDGET + block);
    assert!(peak <= most, "{peak} of {BUDGET} + {block}");
    assert!(peak > BUDGET && roomy.peak_in_flight_bytes > most);
}

/// The most bytes one block of the columns can take: what is fetched of it, and what it
/// is reckoned to take decoded.
fn block_bytes(tree: &Tree) -> u64 {
    const GATHERED: u64 = 2;
    let group = |column: &String| {
        let path = |name: &str| format!("{column}/9/{name}");
        let arrays = [
            "count",
            "composition",
            "h_tdigest_signal",
            "h_tdigest_signal_locations",
            "h_tdigest_noise",
            "h_tdigest_noise_locations",
        ];
        let bytes = arrays.map(|name| {
            let encoded = tree.get(&format!("{}/c/0", path(name))).map_or(0, Vec::len);
            let array = Array::read(tree, &path(name));
            assert_eq!(array.cells.len(), BLOCK);
            let lengths = array.cells.iter().map(|cell| cell.len() + 4);
            encoded as u64 + GATHERED * lengths.sum::<usize>() as u64
        });
        bytes.iter().sum::<u64>()
    };
    let columns = at_order(tree, 4, "all.pyramid");
    columns.iter().map(group).max().unwrap()
}
