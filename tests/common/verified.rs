//! Upgraded stores that something is planted into, and what a verification says of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use object_store::ObjectStore;
use serde_json::Value;
use zagg_stream::{Check, Root, Verification, Verify};

use crate::common::cases::{Case, Law};
use crate::common::library::{in_memory, settings};
use crate::common::stores::Tree;

/// Verifies a store, every leaf of it.
pub(crate) async fn verify_store(store: Arc<dyn ObjectStore>, law: Law) -> Verification {
    let root = Root::new(store, "memory://verified");
    let settings = settings(&format!("fold_law = \"{law}\""));
    let verify = Verify::new(root).settings(settings).full();
    verify.run().await.unwrap()
}

/// Verifies a store in memory.
pub(crate) async fn verify(tree: &Tree, law: Law) -> Verification {
    verify_store(in_memory(tree).await, law).await
}

/// The checks that found something, with where.
pub(crate) fn found(verification: &Verification) -> BTreeSet<(Check, String)> {
    let findings = verification.findings.iter();
    findings
        .map(|finding| (finding.check, finding.path.clone()))
        .collect()
}

/// A check and where.
pub(crate) fn at(check: Check, path: &str) -> (Check, String) {
    (check, path.to_owned())
}

/// Changes a JSON document of a tree.
pub(crate) fn edit_json(tree: &mut Tree, key: &str, edit: impl FnOnce(&mut Value)) {
    let bytes = tree.get_mut(key).unwrap_or_else(|| panic!("no `{key}`"));
    let before: Value = serde_json::from_slice(bytes).unwrap();
    let mut after = before.clone();
    edit(&mut after);
    assert_ne!(before, after, "the edit of `{key}` changed nothing");
    *bytes = serde_json::to_vec_pretty(&after).unwrap();
}

/// Removes every object whose key begins so.
pub(crate) fn remove_below(tree: &mut Tree, prefix: &str) {
    let before = tree.len();
    tree.retain(|key, _| !key.starts_with(prefix));
    assert!(tree.len() < before, "nothing below `{prefix}`");
}

/// Copies every object whose key begins so.
pub(crate) fn copy_below(tree: &mut Tree, from: &str, to: &str) {
    let copies: Vec<_> = tree
        .iter()
        .filter_map(|(key, bytes)| {
            Some((format!("{to}{}", key.strip_prefix(from)?), bytes.clone()))
        })
        .collect();
    assert!(!copies.is_empty(), "nothing below `{from}`");
    tree.extend(copies);
}

/// A column of a leaf in the case `plain`.
pub(crate) const LEAF_COLUMN: &str = "1/1/2/1/3/all.pyramid.zarr";
/// A column of a stage.
pub(crate) const STAGE_COLUMN: &str = "1/1/2/1/all.pyramid.zarr";
/// An overview.
pub(crate) const OVERVIEW: &str = "1/1/2/all.zarr";
/// One of each.
pub(crate) const ARTIFACTS: [&str; 3] = [LEAF_COLUMN, STAGE_COLUMN, OVERVIEW];

/// The case `plain`, upgraded.
pub(crate) fn plain_store() -> Tree {
    Case::load("plain").upgraded_tree(Law::Boundary)
}
