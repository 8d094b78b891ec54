//! Columns and overviews as artifacts: where one stands, and the order it is written in,
//! so that a stamp is never true before everything under it is. `format.md` sections 1
//! and 7.

use bytes::Bytes;
use futures::future::join;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};

use crate::error::LeafFault;
use crate::kernels::words::{WordError, decimal};
use crate::messages::LeafRef;
use crate::store::stamp::{STAMP, group_document};
use crate::store::{Held, LeaseError, METADATA, Root, json};

/// Objects of one artifact written at once.
pub(crate) const WRITES_AT_ONCE: usize = 32;

/// Stands for "no window" and for "all windows" in names.
pub(crate) const ALL: &str = "all";

/// What an artifact is to its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tier {
    /// A column: of a leaf at the shard order, of a stage above.
    Column,
    /// A level of the ladder.
    Overview,
}

impl Tier {
    /// As the root document says it.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::Column => "column",
            Self::Overview => "overview",
        }
    }

    /// Key of the record in the root document.
    pub(crate) fn record_key(self) -> &'static str {
        match self {
            Self::Column => "zagg_column",
            Self::Overview => "zagg_overview",
        }
    }

    fn infix(self) -> &'static str {
        match self {
            Self::Column => ".pyramid",
            Self::Overview => "",
        }
    }
}

/// A column or an overview of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Artifact {
    /// Packed morton word of the node.
    pub word: u64,
    /// Decimal id of the node.
    pub id: String,
    /// Directory of the node below the root.
    pub node: String,
    /// Window label on a windowed store; [`ALL`] for what spans the windows.
    pub window: Option<String>,
    /// What it is.
    pub tier: Tier,
}

impl Artifact {
    /// The artifact of this tier at a node.
    ///
    /// # Errors
    /// When the word names no cell.
    pub(crate) fn new(tier: Tier, word: u64, window: Option<String>) -> Result<Self, WordError> {
        Ok(Self {
            word,
            id: decimal::render(word)?,
            node: decimal::node_path(word)?,
            window,
            tier,
        })
    }

    /// The column of a leaf.
    pub(crate) fn column_of(leaf: &LeafRef) -> Self {
        Self {
            word: leaf.shard,
            id: leaf.id.clone(),
            node: leaf.node.clone(),
            window: leaf.window.clone(),
            tier: Tier::Column,
        }
    }

    /// The window as names and records have it.
    pub(crate) fn label(&self) -> &str {
        self.window.as_deref().unwrap_or(ALL)
    }

    /// Path below the root.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}{}.zarr", self.node, self.label(), self.tier.infix())
    }

    /// Path of the sidecar below the root.
    pub(crate) fn sidecar_path(&self) -> String {
        let infix = self.tier.infix();
        format!("{}/{}{infix}.stats.json", self.node, self.label())
    }

    /// Key of the root document.
    pub(crate) fn root_key(&self) -> String {
        format!("{}/{METADATA}", self.path())
    }
}

impl std::fmt::Display for Artifact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path())
    }
}

/// What a sidecar says, beside what it says of every artifact.
#[derive(Debug)]
pub(crate) struct Sidecar<'a> {
    /// Granules, as the stamp has them.
    pub granule_count: u64,
    /// Hashes of the decoded arrays.
    pub content_hashes: &'a Value,
    /// Cells of the finest group that hold anything.
    pub cells_with_data: u64,
    /// When it was written.
    pub timestamp: &'a str,
}

/// Writes one artifact under the lease: [`begin`](Self::begin), objects in any order,
/// [`commit`](Self::commit).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArtifactWriter<'a> {
    /// The store.
    pub root: &'a Root,
    /// Proof of the lease, which is asked before every request.
    pub held: &'a Held,
    /// What is written.
    pub artifact: &'a Artifact,
}

impl ArtifactWriter<'_> {
    /// Deletes whatever stood there, and puts a root document without a record.
    ///
    /// # Errors
    /// Failed requests, and a lease that is no longer ours.
    pub(crate) async fn begin(&self) -> Result<(), LeafFault> {
        self.clear().await?;
        self.put_root(Map::new()).await?;
        Ok(())
    }

    /// Puts objects, by their keys below the artifact.
    ///
    /// # Errors
    /// Failed requests, and a lease that is no longer ours.
    pub(crate) async fn put_all(&self, objects: &[(String, Bytes)]) -> Result<(), LeaseError> {
        let path = self.artifact.path();
        let puts: Vec<_> = objects
            .iter()
            .map(|(key, bytes)| {
                let key = format!("{path}/{key}");
                async move { self.held.put(self.root, &key, bytes.clone()).await }
            })
            .collect();
        stream::iter(puts)
            .buffer_unordered(WRITES_AT_ONCE)
            .try_collect()
            .await
    }

    /// Puts the record and then, last of all and only if the `last_look` at the sources
    /// finds nothing, the stamp. The look is as old as the record at most. The sidecar
    /// follows; it is a cache, and an artifact without it is complete.
    ///
    /// # Errors
    /// Failed requests, what the last look found, and a lease that is no longer ours.
    pub(crate) async fn commit(
        &self,
        record: Value,
        stamp: Value,
        sidecar: &Sidecar<'_>,
        last_look: impl Future<Output = Result<(), LeafFault>>,
    ) -> Result<(), LeafFault> {
        let tier = self.artifact.tier;
        let mut attributes = Map::new();
        attributes.insert("role".to_owned(), json!(tier.role()));
        attributes.insert(tier.record_key().to_owned(), record);
        // Both to their end: a write that was given up could still land later.
        let (recorded, looked) = join(self.put_root(attributes.clone()), last_look).await;
        recorded?;
        looked?;
        attributes.insert(STAMP.to_owned(), stamp);
        self.put_root(attributes).await?;
        self.put_sidecar(sidecar).await;
        Ok(())
    }

    async fn put_root(&self, attributes: Map<String, Value>) -> Result<(), LeaseError> {
        let document = group_document(attributes);
        let bytes = json::python_pretty(&document, json::ZARR_INDENT);
        let key = self.artifact.root_key();
        self.held.put(self.root, &key, bytes).await
    }

    async fn put_sidecar(&self, sidecar: &Sidecar<'_>) {
        let record = json::python_compact(&sidecar.document(self.artifact));
        let key = self.artifact.sidecar_path();
        if let Err(error) = self.held.put(self.root, &key, record).await {
            tracing::warn!(artifact = %self.artifact, %error, "sidecar not written, the artifact is complete");
        }
    }

    /// Deletes whatever an earlier declaration or an interrupted pass left. The root
    /// document goes first, so that no reader takes the rest for complete.
    async fn clear(&self) -> Result<(), LeafFault> {
        let mut keys = self.root.list_keys(&self.artifact.path()).await?;
        let root_document = self.artifact.root_key();
        if let Some(index) = keys.iter().position(|key| *key == root_document) {
            self.delete(&keys.swap_remove(index)).await?;
        }
        self.delete(&self.artifact.sidecar_path()).await?;
        // In small parts, because a pass that was stopped in between may no longer delete.
        for keys in keys.chunks(WRITES_AT_ONCE) {
            self.held.ensure_fresh()?;
            self.root.delete_all(keys.to_vec()).await?;
        }
        for key in [self.artifact.path(), self.artifact.sidecar_path()] {
            self.held.ensure_fresh()?;
            self.root.delete_staged(&key).await?;
        }
        Ok(())
    }

    async fn delete(&self, key: &str) -> Result<(), LeafFault> {
        self.held.ensure_fresh()?;
        self.root.delete(key).await?;
        Ok(())
    }
}

impl Sidecar<'_> {
    fn document(&self, artifact: &Artifact) -> Value {
        json!({
            "schema_version": 1,
            "shard_key": artifact.word,
            "window": artifact.window,
            "run_id": null,
            "semantic_hash": null,
            "zagg_version": crate::VERSION,
            "n_shards": 1,
            "n_granules": self.granule_count,
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
            "timestamp": self.timestamp,
            "success": true,
            "error": null,
            "invoked_by": null,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_from_node_window_and_tier() {
        let word = decimal::parse("1121").unwrap();
        let at = |tier, window: Option<&str>| {
            Artifact::new(tier, word, window.map(str::to_owned)).unwrap()
        };
        let column = at(Tier::Column, None);
        assert_eq!(column.path(), "1/1/2/1/all.pyramid.zarr");
        assert_eq!(column.sidecar_path(), "1/1/2/1/all.pyramid.stats.json");
        let overview = at(Tier::Overview, Some("2019"));
        assert_eq!(overview.path(), "1/1/2/1/2019.zarr");
        assert_eq!(overview.sidecar_path(), "1/1/2/1/2019.stats.json");
        assert_eq!(overview.root_key(), "1/1/2/1/2019.zarr/zarr.json");
    }
}
