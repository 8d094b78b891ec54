//! Holds an upgraded store against a golden case, object by object.
//!
//! Chunks, and every `zarr.json` below a column's root, are equal byte for byte. The
//! root document of a column is equal as text once its clocks are blanked. A sidecar is
//! equal in its content fields and in the order of its keys. Nothing that was there
//! before has changed, and nothing is there that nobody expects, a lease included.

use std::path::Path;

use serde_json::Value;

use crate::common::cases::{Case, Expected, Law};
use crate::common::stores::{Tree, tree_of};
use crate::common::times::is_iso;

/// Keys whose values are the time of the run.
const CLOCKS: [&str; 2] = ["generated_at", "written_at"];

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
