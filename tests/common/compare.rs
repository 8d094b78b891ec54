//! Holds an upgraded store against a golden case, object by object.
//!
//! Chunks, and every `zarr.json` below a column's root, are equal byte for byte. The
//! root document of a column is equal as text once its clocks are blanked. A sidecar is
//! equal in its content fields and in the order of its keys. Nothing that was there
//! before has changed, and nothing is there that nobody expects, a lease included.
//!
//! After a whole upgrade every root document, the manifest and the coverage are equal as
//! JSON, order of the keys included, once what tells only when and by which run is gone;
//! all other objects are equal as above. Records of sweeps may lie at the root.

use std::path::Path;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use crate::common::cases::{Case, Expected, Law, MANIFEST};
use crate::common::stores::{Tree, tree_of};
use crate::common::times::is_iso;

/// Keys whose values are the time of the run.
const CLOCKS: [&str; 2] = ["generated_at", "written_at"];

/// Keys of JSON documents that tell when and by which run, not what.
const PASSING: [&str; 5] = [
    "generated_at",
    "written_at",
    "run_id",
    "run_ids",
    "max_leaf_timestamp",
];

/// A block of the manifest that follows from another, and that not every writer wrote.
const DERIVED: &str = "multiscales";

/// Key of the coverage.
pub(crate) const COVERAGE: &str = "coverage.moc";

/// Begin the keys of the records of sweeps and of the receipts of upgrades.
const RECORDS: [&str; 2] = ["sweep_stats_", "upgrade_"];

/// Whether this is the record of a sweep or the receipt of an upgrade.
pub(crate) fn is_record(key: &str) -> bool {
    RECORDS.iter().any(|record| key.starts_with(record))
}

/// Indentation of documents at the root of the store, and of `zarr.json`.
const ROOT_INDENT: &str = " ";
const ZARR_INDENT: &str = "  ";

/// Fields of a sidecar that say what the column holds.
const SIDECAR_FIELDS: [&str; 7] = [
    "shard_key",
    "window",
    "n_granules",
    "cells_with_data",
    "content_hashes",
    "success",
    "schema_version",
];

/// What sets the store at `root` apart from `case` after a column pass under `law`, one
/// line each.
pub(crate) fn compare_columns(case: &Case, law: Law, root: &Path) -> Vec<String> {
    compare(&case.expected(law), &tree_of(root))
}

/// Fails with every difference.
#[track_caller]
pub(crate) fn assert_columns(case: &Case, law: Law, root: &Path) {
    assert_expected(&case.expected(law), root);
}

/// Fails with every difference.
#[track_caller]
pub(crate) fn assert_expected(expected: &Expected, root: &Path) {
    let lines = compare(expected, &tree_of(root));
    assert!(
        lines.is_empty(),
        "{} differences:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

/// What sets `got` apart from `expected`, one line each.
pub(crate) fn compare(expected: &Expected, got: &Tree) -> Vec<String> {
    compare_with(expected, got, compare_object)
}

/// What sets `got` apart from what a whole upgrade must leave behind, one line each.
pub(crate) fn compare_all(expected: &Expected, got: &Tree) -> Vec<String> {
    let mut got = got.clone();
    got.retain(|key, _| !is_record(key));
    compare_with(expected, &got, compare_upgraded)
}

/// Fails with every difference.
#[track_caller]
pub(crate) fn assert_all(expected: &Expected, got: &Tree) {
    let lines = compare_all(expected, got);
    assert!(
        lines.is_empty(),
        "{} differences:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

/// What sets two stores apart but when and by which run they were written.
pub(crate) fn differences_but_when(before: &Tree, after: &Tree) -> Vec<String> {
    let mut columns = before.clone();
    columns.retain(|key, _| !is_record(key));
    let expected = Expected {
        input: Tree::new(),
        columns,
    };
    compare_all(&expected, after)
}

/// What sets a store apart for good whose run was stopped between the stamp of an artifact
/// and its sidecar: the artifact is complete, and the sidecar is only a cache.
pub(crate) fn without_sidecars(expected: &Expected, got: &Tree) -> Vec<String> {
    let is_stamped = |artifact: &&str| {
        let root = got.get(&format!("{artifact}.zarr/zarr.json"));
        root.is_some_and(|root| {
            let root: Value = serde_json::from_slice(root).unwrap();
            root["attributes"]["morton_hive_commit"].is_object()
        })
    };
    let artifacts = expected.columns.keys();
    artifacts
        .filter_map(|key| key.strip_suffix(".zarr/zarr.json"))
        .filter(is_stamped)
        .map(|artifact| format!("{artifact}.stats.json"))
        .filter(|sidecar| !got.contains_key(sidecar))
        .map(|sidecar| format!("missing: {sidecar}"))
        .collect()
}

/// Whether this is what a disk keeps of a write that was under way: the client writes
/// `name#1` and renames it when it is whole. It is no object, and no listing shows it. The
/// next run deletes those of what it writes anew, but a column that is complete, and what
/// is no part of one, it leaves as it is.
pub(crate) fn is_staged(key: &str) -> bool {
    let of_a_column = |key: &str| key.contains(".pyramid.zarr/");
    key.rsplit_once('#')
        .is_some_and(|(object, number)| number.parse::<u64>().is_ok() && !of_a_column(object))
}

fn compare_with(
    expected: &Expected,
    got: &Tree,
    compare_object: impl Fn(&str, &[u8], &[u8]) -> Option<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, bytes) in &expected.input {
        match got.get(key) {
            None => lines.push(format!("input object gone: {key}")),
            Some(now) if now != bytes => lines.push(format!("input object changed: {key}")),
            Some(_) => {}
        }
    }
    for (key, bytes) in &expected.columns {
        match got.get(key) {
            None => lines.push(format!("missing: {key}")),
            Some(now) => lines.extend(compare_object(key, bytes, now)),
        }
    }
    let known =
        |key: &String| expected.input.contains_key(key) || expected.columns.contains_key(key);
    for key in got.keys().filter(|key| !known(key)) {
        lines.push(format!("unexpected object: {key}"));
    }
    lines
}

fn compare_object(key: &str, want: &[u8], got: &[u8]) -> Option<String> {
    let difference = if key.ends_with(".stats.json") {
        compare_sidecar(want, got)
    } else if key.ends_with(".zarr/zarr.json") {
        compare_root(want, got)
    } else {
        (want != got).then(|| format!("bytes differ ({} vs {})", want.len(), got.len()))
    };
    difference.map(|difference| format!("{key}: {difference}"))
}

fn compare_upgraded(key: &str, want: &[u8], got: &[u8]) -> Option<String> {
    let difference = if key == MANIFEST || key == COVERAGE {
        compare_json(want, got, ROOT_INDENT)
    } else if key.ends_with(".zarr/zarr.json") {
        compare_json(want, got, ZARR_INDENT)
    } else {
        return compare_object(key, want, got);
    };
    difference.map(|difference| format!("{key}: {difference}"))
}

fn compare_json(want: &[u8], got: &[u8], indent: &str) -> Option<String> {
    let parse = |bytes| serde_json::from_slice::<Value>(bytes);
    let (want, got_document) = match (parse(want), parse(got)) {
        (Ok(want), Ok(got)) => (want, got),
        (_, Err(error)) | (Err(error), _) => return Some(format!("not JSON: {error}")),
    };
    if pretty(&got_document, indent) != got {
        return Some(format!("not indented by {}", indent.len()));
    }
    // As text, because documents are equal whatever the order of their keys.
    let [want, got] = [want, got_document].map(|document| lasting(&document).to_string());
    (want != got).then(|| format!("is {got}, not {want}"))
}

fn pretty(document: &Value, indent: &str) -> Vec<u8> {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(indent.as_bytes());
    let mut serializer = Serializer::with_formatter(&mut text, formatter);
    document.serialize(&mut serializer).unwrap();
    text
}

/// A document without what passes.
fn lasting(document: &Value) -> Value {
    match document {
        Value::Object(members) => {
            let members = members.iter().filter(|(key, _)| {
                let key = key.as_str();
                !PASSING.contains(&key) && key != DERIVED
            });
            let members = members.map(|(key, value)| (key.clone(), lasting(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(lasting).collect()),
        other => other.clone(),
    }
}

fn compare_sidecar(want: &[u8], got: &[u8]) -> Option<String> {
    let want: Value = serde_json::from_slice(want).unwrap();
    let got: Value = match serde_json::from_slice(got) {
        Ok(got) => got,
        Err(error) => return Some(format!("sidecar is not JSON: {error}")),
    };
    for field in SIDECAR_FIELDS {
        if want.get(field) != got.get(field) {
            return Some(format!(
                "sidecar field {field} is {:?}, not {:?}",
                got.get(field),
                want.get(field)
            ));
        }
    }
    let keys = |value: &Value| -> Vec<String> {
        value
            .as_object()
            .map(|object| object.keys().cloned().collect())
            .unwrap_or_default()
    };
    (keys(&want) != keys(&got))
        .then(|| format!("sidecar keys are {:?}, not {:?}", keys(&got), keys(&want)))
}

fn compare_root(want: &[u8], got: &[u8]) -> Option<String> {
    let (want, got) = (text(want), text(got));
    let (want, got): (Vec<&str>, Vec<&str>) =
        (want.split('\n').collect(), got.split('\n').collect());
    if want.len() != got.len() {
        return Some(format!("root has {} lines, not {}", got.len(), want.len()));
    }
    want.iter()
        .zip(&got)
        .enumerate()
        .find_map(|(index, (want, got))| {
            let equal = match (blank_clock(want), blank_clock(got)) {
                (Some(want), Some(got)) => want == got,
                _ => want == got,
            };
            (!equal).then(|| format!("root line {} is `{got}`, not `{want}`", index + 1))
        })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The line without its clock, when it is a line that holds one in good form.
fn blank_clock(line: &str) -> Option<String> {
    let key = line.trim_start().strip_prefix('"')?.split('"').next()?;
    let (before, after) = line.split_once("\": \"")?;
    let (clock, after) = after.split_once('"')?;
    (CLOCKS.contains(&key) && is_iso(clock)).then(|| format!("{before}\": \"\"{after}"))
}
