//! The ladder, through the real program: every golden case is upgraded to the golden tree
//! whatever the steps and the tuple width, and what goes missing comes back alone.

use std::collections::BTreeSet;

use crate::common::cases::{Law, MANIFEST, test_each_case_and_law};
use crate::common::compare::{COVERAGE, assert_all, compare_all, differences_but_when};
use crate::common::ladder::{
    AFTER_THAT_RUN, Ladder, above, artifact_of, changed, ladder_of, node_of, record_of,
};
use crate::common::stores::differences;
use serde_json::{Value, json};

/// A change of a JSON document.
type Edit<'a> = &'a dyn Fn(&mut Value);

/// Widths beside the default of 3.
const WIDTHS: [&str; 3] = ["1", "2", "7"];

fn set(artifacts: &[&str]) -> BTreeSet<String> {
    artifacts
        .iter()
        .map(|&artifact| artifact.to_owned())
        .collect()
}

fn check(name: &str, law: Law) {
    let ladder = Ladder::published(name, law);
    let first = ladder.upgrade(&[]).expect_code(0);
    ladder.assert_golden();
    let n_artifacts = ladder_of(ladder.case(), &ladder.tree()).len() as u64;
    assert_eq!(first.number("/ladder/counts/written"), n_artifacts);
    assert_eq!(first.json()["ladder"]["finished"], true);
    let record = first.text("/ladder/record");
    assert!(record.starts_with("sweep_stats_"), "{record}");
    assert!(ladder.published.store.has(&record));

    let before = ladder.published.store.surroundings();
    let second = ladder.upgrade(&[]).expect_code(0);
    let after = ladder.published.store.surroundings();
    assert_eq!(differences(&before, &after), Vec::<String>::new());
    assert_eq!(second.number("/requests/put"), 0);
    assert_eq!(second.number("/requests/delete"), 0);
    assert_eq!(second.number("/ladder/counts/current"), n_artifacts);
    assert_eq!(second.number("/ladder/counts/written"), 0);
    assert_eq!(second.json()["ladder"]["record"], Value::Null);
}

test_each_case_and_law!(check);

mod step_by_step_in_any_width {
    use super::check_steps_and_widths;
    use crate::common::cases::test_each_case;

    test_each_case!(check_steps_and_widths);
}

fn check_steps_and_widths(name: &str) {
    let ladder = Ladder::with_columns(name, Law::Boundary);
    let columns = ladder.tree();
    ladder.run("sweep", &[]).expect_code(0);
    ladder.assert_golden();
    let built = ladder.tree();
    for width in WIDTHS {
        let ladder = Ladder::of_tree(name, Law::Boundary, &columns);
        let run = ladder.run("sweep", &["--tuple-width", width]);
        run.expect_code(0);
        let lines = differences_but_when(&built, &ladder.tree());
        assert_eq!(lines, Vec::<String>::new(), "width {width}");
    }
}

#[test]
fn a_comparison_of_upgraded_stores_sees_what_it_must() {
    let ladder = Ladder::upgraded("plain");
    let (expected, golden) = (ladder.expected(), ladder.tree());
    let overview = "1/all.zarr/zarr.json";
    let edits: [(&str, Edit); 4] = [
        (overview, &|root| {
            root["attributes"]["zagg_overview"]["source_children"]["folded"] = json!(9);
        }),
        (MANIFEST, &|manifest| {
            manifest["pyramid"]["overviews"][1]["actuals"]["merges_from_raw"] = json!(3);
        }),
        (COVERAGE, &|moc| moc["ranges"] = json!([])),
        ("1/all.stats.json", &|sidecar| {
            sidecar["cells_with_data"] = json!(-1)
        }),
    ];
    for (key, edit) in edits {
        ladder.published.store.edit_json(key, edit);
        let lines = compare_all(&expected, &ladder.tree());
        assert_eq!(lines.len(), 1, "{key}: {lines:?}");
        assert!(lines[0].starts_with(key), "{lines:?}");
        ladder.published.store.write(key, &golden[key]);
    }
    // The same members in another order.
    let text = String::from_utf8(golden[overview].clone()).unwrap();
    let (order, node) = ("\"order\": 0", "\"node\": \"1\"");
    let swapped = text
        .replace(order, "?")
        .replace(node, order)
        .replace('?', node);
    assert_ne!(swapped, text);
    ladder.published.store.write(overview, swapped);
    assert_eq!(compare_all(&expected, &ladder.tree()).len(), 1);
    ladder.published.store.write(overview, text);

    ladder.published.store.write("1/stray", "");
    ladder.published.store.remove("2/all.zarr/1/count/c/0");
    let lines = compare_all(&expected, &ladder.tree());
    assert_eq!(
        lines,
        [
            "missing: 2/all.zarr/1/count/c/0",
            "unexpected object: 1/stray"
        ]
    );
}

#[test]
fn a_sweep_is_refused_while_a_column_is_missing_or_stale() {
    let ladder = Ladder::with_columns("plain", Law::Boundary);
    let whole = ladder.tree();
    let column = &ladder.case().columns(Law::Boundary)[1];
    let leaf = format!("{}/zarr.json", ladder.case().leaves()[1]);
    let store = &ladder.published.store;
    let refused = |why: &str| {
        let before = store.surroundings();
        let run = ladder.run("sweep", &[]).expect_code(3);
        assert_eq!(
            differences(&before, &store.surroundings()),
            Vec::<String>::new()
        );
        assert_eq!(run.number("/requests/put"), 0, "{why}");
        let error = run.text("/error");
        for part in [
            "1 of the committed leaves",
            "zagg-stream backfill",
            "--allow-gaps",
        ] {
            assert!(error.contains(part), "{why}: {error}");
        }
        assert_eq!(run.text("/outcome"), "refused");
        assert_eq!(run.number(&format!("/verdicts/{why}")), 1);
    };
    ladder.remove(column);
    refused("absent-or-unstamped");

    for (key, bytes) in &whole {
        store.write(key, bytes);
    }
    ladder.set_back();
    let published = store.read(&leaf);
    store.edit_json(&leaf, |root| {
        root["attributes"]["morton_hive_commit"]["written_at"] = json!(AFTER_THAT_RUN);
    });
    refused("stale");

    store.write(&leaf, &published);
    ladder.run("sweep", &[]).expect_code(0);
    ladder.assert_golden();
}

#[test]
fn a_ladder_with_a_gap_says_so_and_is_whole_once_the_gap_is_healed() {
    // A leaf with a sibling, and one that is alone under its node.
    for (shard, folded, alone) in [("11214", 1, false), ("11223", 0, true)] {
        let ladder = Ladder::with_columns("plain", Law::Boundary);
        let columns = ladder.case().columns(Law::Boundary);
        let digits: Vec<String> = shard.chars().map(String::from).collect();
        let node = digits.join("/");
        let column = columns
            .iter()
            .find(|column| node_of(column) == node)
            .unwrap();
        ladder.remove(column);
        let run = ladder.run("sweep", &["--allow-gaps"]).expect_code(0);
        assert_eq!(
            run.number("/ladder/levels/0/source_children/missing"),
            u64::from(!alone)
        );

        let tree = ladder.tree();
        let parent = format!("{}/all.zarr", node_of(&node));
        assert_eq!(tree.contains_key(&format!("{parent}/zarr.json")), !alone);
        if alone {
            let above = record_of(&tree, "1/1/2/all.zarr");
            let children = json!({"folded": 1, "missing": 1, "unreadable": 0});
            assert_eq!(above["source_children"], children);
        } else {
            let children = json!({"folded": folded, "missing": 1, "unreadable": 0});
            assert_eq!(record_of(&tree, &parent)["source_children"], children);
        }
        let manifest = ladder.published.manifest();
        let entries = manifest["pyramid"]["overviews"].as_array().unwrap();
        let missing = |entry: &Value| entry["actuals"]["source_children"]["missing"].as_u64();
        assert!(entries.iter().any(|entry| missing(entry) > Some(0)));

        ladder.run("backfill", &[]).expect_code(0);
        let ladder_artifacts = ladder_of(ladder.case(), &ladder.expected().columns);
        let mut due = above(&ladder_artifacts, column);
        due.insert(MANIFEST.to_owned());
        assert_eq!(ladder.wrote("sweep", &[]), due, "{shard}");
        ladder.assert_golden();
    }
}

#[test]
fn what_goes_missing_comes_back_and_nothing_else_is_written() {
    let ladder = Ladder::upgraded("plain");
    let store = &ladder.published.store;
    let overview = "1/1/2/1/all.zarr";
    let heals = |what: &str, due: BTreeSet<String>| {
        let healed = ladder.tree();
        assert_eq!(ladder.wrote("sweep", &[]), due, "{what}");
        assert_ne!(healed, ladder.tree(), "{what}");
        ladder.assert_golden();
    };
    ladder.remove(overview);
    heals("an overview", set(&[overview]));
    store.remove(&format!("{overview}/zarr.json"));
    heals("the root document of an overview", set(&[overview]));
    store.write(&format!("{overview}/zarr.json"), "{\"attributes\": {");
    heals("a root document that is cut off", set(&[overview]));
    ladder.remove("1/all.zarr");
    heals("an overview at order 0", set(&["1/all.zarr"]));
    store.remove(COVERAGE);
    heals("the coverage", set(&[COVERAGE]));
    store.edit_json(COVERAGE, |moc| {
        moc["ranges"] = json!([]);
        moc["time_range"] = json!(["2019-01-01T00:00:00+00:00", "2020-01-01T00:00:00+00:00"]);
    });
    assert_eq!(ladder.wrote("sweep", &[]), set(&[COVERAGE]));
    let moc: Value = serde_json::from_slice(&store.read(COVERAGE)).unwrap();
    assert_ne!(moc["ranges"], json!([]));
    assert!(moc["time_range"].is_array(), "{moc}");
    store.remove(COVERAGE);
    heals("the coverage", set(&[COVERAGE]));
    store.edit_json(MANIFEST, |manifest| {
        for entry in manifest["pyramid"]["overviews"].as_array_mut().unwrap() {
            entry.as_object_mut().unwrap().remove("actuals").unwrap();
        }
    });
    heals("the actuals", set(&[MANIFEST]));

    // What reads a stage column says which run wrote it, and is written again.
    let stage = "1/1/2/2/all.pyramid.zarr";
    ladder.remove(stage);
    let artifacts = ladder_of(ladder.case(), &ladder.tree());
    let mut due = above(&artifacts, stage);
    due.insert(stage.to_owned());
    assert_eq!(due.len(), 4);
    heals("a stage column", due);
}

#[test]
fn every_verdict_that_is_due_is_told() {
    let ladder = Ladder::upgraded("fine");
    let store = &ladder.published.store;
    let overview = "-2/all.zarr";
    let due = |verdict: &str| {
        let before = ladder.tree();
        let planned = ladder.run("sweep", &["--dry-run"]).expect_code(0);
        assert_eq!(differences(&before, &ladder.tree()), Vec::<String>::new());
        assert_eq!(planned.number("/ladder/counts/planned"), 1, "{verdict}");
        let run = ladder.run("sweep", &[]).expect_code(0);
        for run in [planned, run] {
            assert_eq!(run.number(&format!("/ladder/verdicts/{verdict}")), 1);
        }
        ladder.assert_golden();
    };
    let edit = |pointer: &str, value: Value| {
        store.edit_json(&format!("{overview}/zarr.json"), |root| {
            let record = &mut root["attributes"]["zagg_overview"];
            *record.pointer_mut(pointer).unwrap() = value;
        });
    };
    ladder.remove(overview);
    due("absent-or-unstamped");
    for (pointer, value) in [
        ("/regime", json!("stage-merge")),
        ("/cell_order", json!(2)),
        ("/fields/count/method", json!("max")),
        ("/generation", json!({"n_leaves": 1})),
    ] {
        edit(pointer, value);
        due("declaration-drift");
    }
    for (pointer, value) in [
        ("/generation/n_leaves", json!(2)),
        ("/generation/run_ids", json!(["another"])),
        ("/generation/max_leaf_timestamp", json!(AFTER_THAT_RUN)),
        ("/source_children/unreadable", json!(1)),
    ] {
        edit(pointer, value);
        due("stale");
    }
}

#[test]
fn an_overview_of_the_older_pyramid_is_overwritten() {
    let ladder = Ladder::with_columns("plain", Law::Boundary);
    let store = &ladder.published.store;
    let old = json!({
        "attributes": {
            "role": "overview",
            "zagg_overview": {"spec": "zagg-overview/1", "node": "112", "order": 2},
            "morton_hive_commit": {"complete": true, "written_at": AFTER_THAT_RUN},
        },
        "zarr_format": 3,
        "node_type": "group",
    });
    store.write("1/1/2/all.zarr/zarr.json", old.to_string());
    store.write("1/1/2/all.zarr/4/old/c/0", "old");
    store.write("1/1/2/all.stats.json", "{}");
    ladder.run("sweep", &[]).expect_code(0);
    ladder.assert_golden();
}

#[test]
fn a_sweep_above_some_shards_writes_only_there() {
    let ladder = Ladder::with_columns("plain", Law::Boundary);
    let artifacts = ladder_of(ladder.case(), &ladder.expected().columns);
    let column = "2/1/2/1/3/all.pyramid.zarr";
    let run = || ladder.wrote("sweep", &["--shards", "21213"]);
    assert_eq!(run(), above(&artifacts, column));
    let untouched = |key: &str| ladder.tree().get(key).cloned();
    assert_eq!(untouched(COVERAGE), None);
    let manifest = ladder.published.manifest();
    assert!(manifest["pyramid"]["overviews"][0].get("actuals").is_none());
    assert_eq!(run(), set(&[]));

    let mut rest = &artifacts - &above(&artifacts, column);
    rest.extend([COVERAGE, MANIFEST].map(str::to_owned));
    assert_eq!(ladder.wrote("sweep", &[]), rest);
    ladder.assert_golden();

    ladder.remove("2/1/all.zarr");
    ladder.remove("1/1/all.zarr");
    assert_eq!(run(), set(&["2/1/all.zarr"]));
    let unknown = ladder.run("sweep", &["--shards", "21214"]).expect_code(3);
    assert!(unknown.text("/error").contains("21214"));
}

#[test]
fn a_leaf_written_anew_renews_its_column_and_what_lies_above() {
    for name in ["plain", "windowed_all"] {
        let ladder = Ladder::upgraded(name);
        ladder.set_back();
        let store = &ladder.published.store;
        assert_eq!(ladder.wrote("upgrade", &[]), set(&[]), "{name}");
        let leaf = ladder.case().leaves()[0].clone();
        let root = format!("{leaf}/zarr.json");
        store.edit_json(&root, |root| {
            root["attributes"]["morton_hive_commit"]["written_at"] = json!(AFTER_THAT_RUN);
        });
        let stem = leaf.trim_end_matches(".zarr");
        let window = stem.rsplit_once('_').map_or("all", |(_, window)| window);
        let column = format!("{}/{window}.pyramid.zarr", node_of(&leaf));
        let artifacts = ladder_of(ladder.case(), &ladder.tree());
        let mut due = above(&artifacts, &column);
        // Of this window, and of all windows together.
        let of_the_window = [window, "all"].map(|label| format!("/{label}."));
        due.retain(|artifact| of_the_window.iter().any(|label| artifact.contains(label)));
        due.insert(column);
        assert_eq!(ladder.wrote("upgrade", &[]), due, "{name}");
        assert_eq!(ladder.wrote("upgrade", &[]), set(&[]), "{name}");
        let mut expected = ladder.expected();
        expected.input.insert(root.clone(), store.read(&root));
        assert_all(&expected, &ladder.tree());
    }
}

#[test]
fn force_writes_the_whole_ladder_again() {
    let ladder = Ladder::upgraded("fine");
    let artifacts = ladder_of(ladder.case(), &ladder.tree());
    let before = ladder.tree();
    let run = ladder.run("sweep", &["--force"]).expect_code(0);
    let n_artifacts = artifacts.len() as u64;
    assert_eq!(run.number("/ladder/verdicts/forced"), n_artifacts);
    assert_eq!(changed(&before, &ladder.tree()), artifacts);
    assert_eq!(artifact_of("1/all.stats.json"), "1/all.zarr");
    ladder.assert_golden();
}
