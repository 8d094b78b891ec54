//! The harness itself: a comparison or a fault that cannot bite proves nothing.

#![cfg(test)]

mod common;
#[path = "harness/stores.rs"]
mod stores;

use std::fs;

use common::cases::{Case, Expected, LEAF_WRITTEN_AT, Law, MANIFEST, NAMES, data_dir};
use common::compare::compare;
use common::stores::{TestStore, Tree, differences};
use common::times::{is_iso, iso, iso_ago};
use serde_json::Value;

#[test]
fn moments_are_written_as_the_store_writes_them() {
    assert_eq!(iso(0), "1970-01-01T00:00:00+00:00");
    assert_eq!(iso(951_827_696), "2000-02-29T12:34:56+00:00");
    assert_eq!(iso(4_107_542_399), "2100-02-28T23:59:59+00:00");
    assert!(is_iso(&iso_ago(0)));
    assert!(!is_iso("2026-01-01T00:00:00Z"));
    assert!(!is_iso("2026-01-01T00:00:00.5+00:00"));
}

#[test]
fn every_change_of_a_tree_is_seen() {
    let store = TestStore::empty();
    store.write("a/b", "1");
    store.write("a/c", "2");
    let before = store.tree();
    assert_eq!(differences(&before, &store.tree()), Vec::<String>::new());
    store.remove("a/b");
    store.write("a/c", "3");
    store.write("d", "4");
    assert_eq!(
        differences(&before, &store.tree()),
        ["gone: a/b", "changed: a/c", "new: d"]
    );
    fs::write(store.parent().join("beside"), "5").unwrap();
    assert!(store.surroundings().contains_key("beside"));
    assert!(store.surroundings().contains_key("store/a/c"));
}

#[test]
fn every_archive_is_a_case_and_every_case_an_archive() {
    let mut archives: Vec<String> = fs::read_dir(data_dir())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".tar.zst").map(str::to_owned)
        })
        .collect();
    archives.sort_unstable();
    let mut names = NAMES.to_vec();
    names.sort_unstable();
    assert_eq!(archives, names);
}

#[test]
fn a_case_expects_one_column_of_each_committed_leaf() {
    for name in NAMES {
        let case = Case::load(name);
        assert!(case.leaves().len() > 1, "{name}");
        for law in Law::ALL {
            assert_eq!(case.columns(law).len(), case.leaves().len(), "{name} {law}");
            let expected = case.expected(law);
            assert_eq!(
                expected
                    .columns
                    .keys()
                    .filter(|key| key.ends_with(".stats.json"))
                    .count(),
                case.leaves().len(),
                "{name} {law}"
            );
            // The ladder is packed beside the columns and is not the column pass's.
            assert!(
                !expected
                    .columns
                    .keys()
                    .any(|key| key.contains("/all.zarr/"))
            );
            assert!(!expected.columns.contains_key(MANIFEST));
        }
    }
}

#[test]
fn declaring_a_case_changes_its_manifest_and_nothing_else() {
    let case = Case::load("windowed");
    let store = case.declared_store(Law::Boundary);
    assert_eq!(
        differences(&case.published(), &store.tree()),
        [format!("changed: {MANIFEST}")]
    );
    let leaf = store.read(&format!("{}/zarr.json", case.leaves()[0]));
    let leaf: Value = serde_json::from_slice(&leaf).unwrap();
    assert_eq!(
        leaf["attributes"]["morton_hive_commit"]["written_at"],
        LEAF_WRITTEN_AT
    );
}

/// A case, its expectation, and a store in which that expectation is met.
fn met() -> (Case, Expected, Tree) {
    let case = Case::load("strata");
    let expected = case.expected(Law::Boundary);
    let mut tree = expected.input.clone();
    tree.extend(expected.columns.clone());
    (case, expected, tree)
}

#[test]
fn a_store_as_expected_has_no_differences() {
    let (_, expected, tree) = met();
    assert_eq!(compare(&expected, &tree), Vec::<String>::new());
}

#[test]
fn a_clock_may_differ_and_nothing_else_of_a_root_document() {
    let (case, expected, tree) = met();
    let root = format!("{}/zarr.json", case.columns(Law::Boundary)[0]);
    let with = |from: &str, to: &str| {
        let text = String::from_utf8(tree[&root].clone()).unwrap();
        assert!(text.contains(from), "`{from}` in {text}");
        let mut tree = tree.clone();
        tree.insert(root.clone(), text.replace(from, to).into_bytes());
        compare(&expected, &tree)
    };
    let day = "\": \"2026-11-30T";
    assert_eq!(with(day, "\": \"2031-01-02T"), Vec::<String>::new());
    assert_eq!(with(day, "\": \"31-01-02T").len(), 1, "a malformed clock");
    assert_eq!(
        with("\n      \"order\"", "\n    \"order\"").len(),
        1,
        "indentation"
    );
    assert_eq!(with("\"order\": 4", "\"order\": 5").len(), 1, "a value");
    assert_eq!(
        with("\"generated_at\"", "\"created_at\"").len(),
        1,
        "the name of a clock"
    );
    assert_eq!(
        with(
            "\"zarr_format\": 3,\n  \"node_type\": \"group\"",
            "\"node_type\": \"group\",\n  \"zarr_format\": 3"
        )
        .len(),
        1,
        "the order of keys"
    );
    assert_eq!(
        with("\"group\"\n}", "\"group\"\n}\n").len(),
        1,
        "a newline at the end"
    );
}

#[test]
fn a_sidecar_must_keep_its_content_and_its_order_of_keys() {
    let (case, expected, tree) = met();
    let key = case.columns(Law::Boundary)[0].replace(".zarr", ".stats.json");
    let sidecar: Value = serde_json::from_slice(&tree[&key]).unwrap();
    let with = |edit: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let mut sidecar = sidecar.as_object().unwrap().clone();
        edit(&mut sidecar);
        let mut tree = tree.clone();
        tree.insert(key.clone(), serde_json::to_vec(&sidecar).unwrap());
        compare(&expected, &tree).len()
    };
    assert_eq!(
        with(&|sidecar| sidecar["zagg_version"] = "zagg-stream 1".into()),
        0
    );
    assert_eq!(with(&|sidecar| sidecar["timestamp"] = "later".into()), 0);
    assert_eq!(with(&|sidecar| sidecar["shard_key"] = 7.into()), 1);
    assert_eq!(
        with(&|sidecar| sidecar["content_hashes"]["combined"] = "0".into()),
        1
    );
    assert_eq!(
        with(&|sidecar| {
            let first = sidecar.shift_remove("schema_version").unwrap();
            sidecar.insert("schema_version".to_owned(), first);
        }),
        1
    );
    let mut broken = tree.clone();
    broken.insert(key.clone(), b"{".to_vec());
    assert_eq!(compare(&expected, &broken).len(), 1);
}

#[test]
fn every_other_difference_is_reported_by_name() {
    let (case, expected, tree) = met();
    let column = &case.columns(Law::Boundary)[0];
    let chunk = format!("{column}/5/h_tdigest_signal/c/0");
    let leaf = format!("{}/zarr.json", case.leaves()[0]);
    let lines = |edit: &dyn Fn(&mut Tree)| {
        let mut tree = tree.clone();
        edit(&mut tree);
        compare(&expected, &tree)
    };
    let lines_of_a_flip = lines(&|tree| *tree.get_mut(&chunk).unwrap().last_mut().unwrap() ^= 1);
    assert_eq!(lines_of_a_flip.len(), 1);
    assert!(lines_of_a_flip[0].starts_with(&format!("{chunk}: bytes differ")));
    assert_eq!(
        lines(&|tree| drop(tree.remove(&chunk))),
        [format!("missing: {chunk}")]
    );
    assert_eq!(
        lines(&|tree| tree.get_mut(&leaf).unwrap().push(b' ')),
        [format!("input object changed: {leaf}")]
    );
    assert_eq!(
        lines(&|tree| drop(tree.remove(&leaf))),
        [format!("input object gone: {leaf}")]
    );
    assert_eq!(
        lines(&|tree| tree.get_mut(MANIFEST).unwrap().push(b'\n')),
        [format!("input object changed: {MANIFEST}")]
    );
    assert_eq!(
        lines(&|tree| drop(tree.insert("sweep.lease.json".to_owned(), Vec::new()))),
        ["unexpected object: sweep.lease.json"]
    );
    let metadata = format!("{column}/5/count/zarr.json");
    assert_eq!(
        lines(&|tree| tree.get_mut(&metadata).unwrap().push(b'\n')).len(),
        1
    );
}
