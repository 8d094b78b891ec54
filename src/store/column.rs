//! A column artifact: encoding its arrays, and writing it so that a stamp is never
//! true before everything under it is. `format.md` section 7.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};

use crate::error::LeafFault;
use crate::kernels::cells::CellsRef;
use crate::kernels::column::FoldedLeaf;
use crate::kernels::words::morton;
use crate::messages::LeafRef;
use crate::store::array::ArrayTemplate;
use crate::store::stamp::{Stamp, column_root_document, group_document};
use crate::store::template::{ColumnTemplate, GroupTemplate};
use crate::store::{Held, LeaseError, METADATA, Root, hash, json};

/// Objects of one column written at once.
const WRITES_AT_ONCE: usize = 16;

/// A column, ready to be written.
#[derive(Debug)]
pub(crate) struct EncodedColumn {
    /// Keys below the column and their metadata documents.
    documents: Vec<(String, Bytes)>,
    /// Keys below the column and their chunks.
    chunks: Vec<(String, Bytes)>,
    /// Hashes of the decoded arrays.
    content_hashes: Value,
    /// Cells of the finest group that hold anything.
    cells_with_data: u64,
}

impl EncodedColumn {
    /// Encodes and hashes the folded groups of a leaf (CPU work, no I/O).
    ///
    /// # Errors
    /// Only on faults of the program: its own values do not fit its own template.
    pub(crate) fn encode(
        template: &ColumnTemplate,
        leaf: &LeafRef,
        leaf_attributes: &Map<String, Value>,
        folded: &FoldedLeaf,
    ) -> Result<Self, LeafFault> {
        let mut column = Self {
            documents: Vec::new(),
            chunks: Vec::new(),
            content_hashes: Value::Null,
            cells_with_data: folded.cells_with_data,
        };
        let mut hashes = Vec::new();
        for (group, folded) in template.groups.iter().zip(&folded.groups) {
            column.push_group(group, leaf_attributes);
            let words = cell_words(leaf, group)?;
            column.push_array(group, &group.morton, CellsRef::Dense(&words), &mut hashes)?;
            for (members, cells) in group.fields.iter().zip(&folded.fields) {
                for (array, cells) in members.arrays().zip(cells.arrays()) {
                    column.push_array(group, array, cells, &mut hashes)?;
                }
            }
        }
        column.content_hashes = hash::document(hashes);
        Ok(column)
    }

    /// Bytes of all objects but the root document.
    pub(crate) fn num_bytes(&self) -> u64 {
        let objects = self.documents.iter().chain(&self.chunks);
        objects.map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// A column's groups say what the leaf's own group says, at their own order.
    fn push_group(&mut self, group: &GroupTemplate, leaf_attributes: &Map<String, Value>) {
        let mut attributes = leaf_attributes.clone();
        if let Some(Value::Object(dggs)) = attributes.get_mut("dggs") {
            dggs.insert("refinement_level".to_owned(), json!(group.order));
        }
        let document = json::python_pretty(&group_document(attributes), json::ZARR_INDENT);
        self.documents
            .push((format!("{}/{METADATA}", group.order), document.into()));
    }

    fn push_array(
        &mut self,
        group: &GroupTemplate,
        array: &ArrayTemplate,
        cells: CellsRef<'_>,
        hashes: &mut Vec<(String, String)>,
    ) -> Result<(), LeafFault> {
        let path = format!("{}/{}", group.order, array.name);
        let document = json::python_pretty(&array.document, json::ZARR_INDENT);
        self.documents
            .push((format!("{path}/{METADATA}"), document.into()));
        if let Some((key, bytes)) = array.encode(cells)? {
            self.chunks.push((format!("{path}/{key}"), bytes));
        }
        hashes.push((path, hash::of_cells(cells)));
        Ok(())
    }

    /// Writes the column of a leaf with this stamp; its own stamp comes last, and only
    /// while the lease is ours.
    ///
    /// # Errors
    /// Failed requests, and a lease that is no longer ours.
    pub(crate) async fn write(
        &self,
        root: &Root,
        template: &ColumnTemplate,
        leaf: &LeafRef,
        leaf_stamp: &Stamp,
        held: &Held,
        now: impl Fn() -> String,
    ) -> Result<(), LeafFault> {
        let column = leaf.column_path();
        clear(root, leaf, held).await?;
        let put_root = |document: Value| {
            let key = format!("{column}/{METADATA}");
            let bytes = json::python_pretty(&document, json::ZARR_INDENT);
            async move { held.put(root, &key, bytes).await }
        };
        put_root(column_root_document(None, None)).await?;
        put_all(root, &column, &self.documents, held).await?;
        put_all(root, &column, &self.chunks, held).await?;
        let node = &leaf.id;
        let record = template.column_record(node, leaf.window_label(), &now());
        put_root(column_root_document(Some(&record), None)).await?;
        let hashes = template.stamps_hashes().then_some(&self.content_hashes);
        let written_at = now();
        let stamp = leaf_stamp.of_column(template, leaf, self.cells_with_data, hashes, &written_at);
        put_root(column_root_document(Some(&record), Some(&stamp))).await?;
        self.write_sidecar(root, leaf, leaf_stamp, held, &written_at)
            .await;
        Ok(())
    }

    /// The sidecar is a cache: a column without it is complete.
    async fn write_sidecar(
        &self,
        root: &Root,
        leaf: &LeafRef,
        stamp: &Stamp,
        held: &Held,
        timestamp: &str,
    ) {
        let record = self.sidecar(leaf, stamp, timestamp);
        let key = leaf.sidecar_path();
        if let Err(error) = held.put(root, &key, json::python_compact(&record)).await {
            tracing::warn!(leaf = %leaf, %error, "column sidecar not written, the column is complete");
        }
    }

    fn sidecar(&self, leaf: &LeafRef, stamp: &Stamp, timestamp: &str) -> Value {
        json!({
            "schema_version": 1,
            "shard_key": leaf.shard,
            "window": leaf.window,
            "run_id": null,
            "semantic_hash": null,
            "zagg_version": crate::VERSION,
            "n_shards": 1,
            "n_granules": stamp.granule_count(),
            "granules_sha256": null,
            "content_hashes": self.content_hashes,
            "n_obs": 0,
            "n_obs_read": null,
            "cells_with_data": self.cells_with_data,
            "phase_timings": {},
            "duration_s": 0.0,
            "spill_bytes": null,
            "spill_blocks_closed": null,
            "raster_bytes_read": null,
            "raster_px_decoded": null,
            "raster_px_sampled": null,
            "leaf_column": null,
            "gb_seconds": null,
            "est_cost_usd": null,
            "max_memory_mb": null,
            "container_hwm_mb": null,
            "lambda": null,
            "timestamp": timestamp,
            "success": true,
            "error": null,
            "invoked_by": null,
        })
    }
}

/// Deletes whatever an earlier declaration or an interrupted pass left of the column.
/// The root document goes first, so that no reader takes the rest for complete.
async fn clear(root: &Root, leaf: &LeafRef, held: &Held) -> Result<(), LeafFault> {
    let column = leaf.column_path();
    let keys = root.list_keys(&column).await?;
    let root_document = format!("{column}/{METADATA}");
    if keys.contains(&root_document) {
        held.ensure_fresh()?;
        root.delete(&root_document).await?;
    }
    held.ensure_fresh()?;
    root.delete(&leaf.sidecar_path()).await?;
    let rest: Vec<String> = keys
        .into_iter()
        .filter(|key| *key != root_document)
        .collect();
    // In small parts, because a pass that was stopped in between may no longer delete.
    for keys in rest.chunks(WRITES_AT_ONCE) {
        held.ensure_fresh()?;
        root.delete_all(keys.to_vec()).await?;
    }
    Ok(())
}

async fn put_all(
    root: &Root,
    column: &str,
    objects: &[(String, Bytes)],
    held: &Held,
) -> Result<(), LeaseError> {
    let puts: Vec<_> = objects
        .iter()
        .map(|(key, bytes)| {
            let key = format!("{column}/{key}");
            async move { held.put(root, &key, bytes.clone()).await }
        })
        .collect();
    stream::iter(puts)
        .buffer_unordered(WRITES_AT_ONCE)
        .try_collect()
        .await
}

/// Words of a group's cells, which are a function of the leaf's id.
fn cell_words(leaf: &LeafRef, group: &GroupTemplate) -> Result<Vec<u8>, LeafFault> {
    let words = morton::children(leaf.shard, group.order)?;
    Ok(words.flat_map(u64::to_le_bytes).collect())
}
