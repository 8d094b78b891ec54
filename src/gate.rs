//! The skip gate: is a leaf's column current? `format.md` section 7.
//!
//! Cheapest reads first: the two root documents the caller already has, then the
//! metadata of the column's arrays, and that only when nothing else speaks against it.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};

use crate::error::LeafFault;
use crate::messages::{LeafRef, Reason};
use crate::store::document::Document;
use crate::store::root::Entry;
use crate::store::stamp::{ArtifactRoot, Stamp};
use crate::store::template::ColumnTemplate;
use crate::store::{METADATA, Root, StoreError};

/// Metadata documents of one column read at once.
const DOCUMENTS_AT_ONCE: usize = 16;

/// What the gate says of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The column is what this pass would write.
    Current,
    /// It must be written.
    Due(Reason),
}

/// Judges one leaf.
///
/// # Errors
/// Failed requests: what cannot be read is never taken for absent.
pub(crate) async fn judge(
    root: &Root,
    template: &ColumnTemplate,
    leaf: &LeafRef,
    stamp: &Stamp,
    column: Option<&ArtifactRoot>,
) -> Result<Verdict, LeafFault> {
    if let Some(reason) = judge_roots(template, stamp, column) {
        return Ok(Verdict::Due(reason));
    }
    if structure_drifted(root, template, leaf).await? {
        return Ok(Verdict::Due(Reason::StructureDrift));
    }
    Ok(Verdict::Current)
}

/// What the root documents of a leaf and its column say against the column.
pub(crate) fn judge_roots(
    template: &ColumnTemplate,
    stamp: &Stamp,
    column: Option<&ArtifactRoot>,
) -> Option<Reason> {
    let Some((record, column_stamp)) = column.and_then(ArtifactRoot::stamped) else {
        return Some(Reason::AbsentOrUnstamped);
    };
    if !template.matches_record(record) {
        return Some(Reason::DeclarationDrift);
    }
    if column_stamp.is_older_than(stamp) {
        return Some(Reason::Stale);
    }
    (column_stamp.granule_count() != stamp.granule_count()).then_some(Reason::GranuleDrift)
}

/// Whether any group's members, or any member's metadata, differ from the template. One
/// listing tells the members of every group, and on the stores that list a hash of the
/// content, what their metadata says; what it does not tell is read.
async fn structure_drifted(
    root: &Root,
    template: &ColumnTemplate,
    leaf: &LeafRef,
) -> Result<bool, StoreError> {
    let column = leaf.column_path();
    let due: BTreeMap<String, &Document> = template
        .groups
        .iter()
        .flat_map(|group| group.arrays().map(move |array| (group.order, array)))
        .map(|(order, array)| {
            let key = format!("{column}/{order}/{}/{METADATA}", array.name);
            (key, &array.document)
        })
        .collect();
    let stored = array_documents(root, &column).await?;
    if !stored.keys().eq(due.keys()) {
        return Ok(true);
    }
    let checks: Vec<_> = due
        .into_iter()
        .zip(stored.values())
        .filter(|((_, document), entry)| !document.is_shown_by(entry))
        .map(|((key, document), _)| async move {
            let found = root.get_if_present(&key).await?;
            Ok::<_, StoreError>(!found.is_some_and(|bytes| document.is_said_by(&bytes)))
        })
        .collect();
    let mut drifts = stream::iter(checks).buffer_unordered(DOCUMENTS_AT_ONCE);
    while let Some(drifted) = drifts.next().await {
        if drifted? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The metadata documents of every array in every group of a column, by key.
async fn array_documents(root: &Root, column: &str) -> Result<BTreeMap<String, Entry>, StoreError> {
    let below_column = column.len() + 1;
    root.list(column)
        .try_filter(|object| {
            let below = object.key.get(below_column..).unwrap_or_default();
            let parts: Vec<&str> = below.split('/').collect();
            let is_document = matches!(parts[..], [_, _, METADATA]);
            async move { is_document }
        })
        .map_ok(|object| (object.key.clone(), object))
        .try_collect()
        .await
}
