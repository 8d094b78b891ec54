//! What stands at a node beside what must: artifacts of another declaration or another
//! node, and what is left of an earlier pyramid.

use std::collections::BTreeSet;

use serde_json::Value;

use super::finding::{Check, Finding};
use super::verifier::Verifier;
use crate::store::{METADATA, StoreError, json as text};

/// The specification of the overviews of an earlier pyramid.
const RETIRED_SPEC: &str = "zagg-overview/1";

/// A node and the paths of the artifacts that have a place there.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Decimal id.
    pub id: String,
    /// Directory below the root.
    pub path: String,
    /// Paths of the artifacts below the root.
    pub has_place: BTreeSet<String>,
}

/// Lists a node once, and finds what has no place there. Leaves, also those of no run
/// record, are not looked at.
///
/// # Errors
/// Failed requests.
pub(super) async fn check(verifier: &Verifier, node: &Node) -> Result<(), StoreError> {
    let listed = verifier.ladder.run.root.list_shallow(&node.path).await?;
    for prefix in listed.prefixes {
        let name = prefix.rsplit('/').next().unwrap_or_default();
        let Some(stem) = name.strip_suffix(".zarr") else {
            continue;
        };
        let is_leaf = stem == node.id
            || stem
                .strip_prefix(&node.id)
                .is_some_and(|rest| rest.starts_with('_'));
        if is_leaf || node.has_place.contains(&prefix) {
            continue;
        }
        let finding = stray(verifier, node, &prefix).await?;
        verifier.findings.add(finding);
    }
    Ok(())
}

/// What an artifact without a place is, by its own account.
async fn stray(verifier: &Verifier, node: &Node, path: &str) -> Result<Finding, StoreError> {
    let key = format!("{path}/{METADATA}");
    let bytes = verifier.ladder.run.root.get_if_present(&key).await?;
    let document: Option<Value> = bytes.and_then(|bytes| text::parse(&bytes).ok());
    let document = document.unwrap_or_default();
    let member = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    if member("/attributes/role") == Some("overview")
        && member("/attributes/zagg_overview/spec") == Some(RETIRED_SPEC)
    {
        let what = "is an overview of the earlier pyramid";
        let cure = "run `zagg-stream retire ROOT` when nobody reads it any more";
        return Ok(Finding::new(Check::Retire, path, what, cure).warning());
    }
    let recorded = ["zagg_column", "zagg_overview"]
        .iter()
        .find_map(|record| member(&format!("/attributes/{record}/node")));
    let cure = "see who wrote it, then remove it by hand";
    Ok(match recorded.filter(|recorded| *recorded != node.id) {
        Some(recorded) => {
            let what = "says it is of another node, and was moved or copied here";
            Finding::new(Check::Foreign, path, what, cure)
                .differs(Some(node.id.as_str().into()), Some(recorded.into()))
        }
        None => {
            let what = "has no place at its node in this declaration";
            Finding::new(Check::StrayArtifact, path, what, cure)
        }
    })
}
