//! One leaf: its documents, its arrays inner chunk by inner chunk, its stamp last
//! (`format.md` section 3).

use serde_json::json;

use super::cells::{ChunkCells, Figures};
use super::members::Layout;
use super::shard::ShardWriter;
use super::tree::Tree;
use super::{DemoConfig, DemoError, written_at};
use crate::kernels::words::decimal;
use crate::store::json::python_pretty;

const DOCUMENT: &str = "zarr.json";

/// Indentation of a `zarr.json`.
const DOCUMENT_INDENT: usize = 2;

/// Writes the leaves of a store, one after the other.
#[derive(Debug)]
pub(super) struct LeafWriter<'a> {
    layout: &'a Layout,
    cells: ChunkCells,
    group: String,
    written_at: String,
}

impl<'a> LeafWriter<'a> {
    /// A writer of leaves of this layout.
    pub(super) fn new(config: &DemoConfig, layout: &'a Layout) -> Self {
        Self {
            layout,
            cells: ChunkCells::new(config, layout),
            group: config.cell_order.to_string(),
            written_at: written_at(config),
        }
    }

    /// Writes one leaf and says what it has.
    ///
    /// # Errors
    /// `Write`; the others are faults of the program.
    pub(super) fn write(&mut self, tree: &mut Tree, shard: u64) -> Result<Figures, DemoError> {
        let leaf = decimal::leaf_path(shard, None)?;
        let group = format!("{leaf}/{}", self.group);
        tree.put(
            &format!("{group}/{DOCUMENT}"),
            self.layout.group_document.as_bytes(),
        )?;
        for member in &self.layout.members {
            let key = format!("{group}/{}/{DOCUMENT}", member.name);
            tree.put(&key, member.document.as_bytes())?;
        }
        let figures = self.write_arrays(tree, &group, shard)?;
        let stamp = self.stamp(figures);
        tree.put(&format!("{leaf}/{DOCUMENT}"), stamp.as_bytes())?;
        Ok(figures)
    }

    fn write_arrays(
        &mut self,
        tree: &mut Tree,
        group: &str,
        shard: u64,
    ) -> Result<Figures, DemoError> {
        let members = &self.layout.members;
        let mut shards: Vec<ShardWriter> = members
            .iter()
            .map(|member| ShardWriter::new(tree.path(&format!("{group}/{}/c/0", member.name))))
            .collect();
        let n_chunks = self.layout.n_chunks();
        let mut figures = Figures::default();
        for chunk in 0..n_chunks {
            let is_gap = self.cells.is_gap(shard, chunk, n_chunks);
            if !is_gap {
                figures += self.cells.fill(shard, chunk)?;
            }
            for (member, shard) in members.iter().zip(&mut shards) {
                let encoded = if is_gap {
                    None
                } else {
                    member.inner.encode(0, self.cells.of(member.source))?
                };
                shard.push(encoded.as_ref().map(|(_, bytes)| bytes.as_ref()))?;
            }
        }
        for shard in shards {
            shard.finish(tree)?;
        }
        Ok(figures)
    }

    fn stamp(&self, figures: Figures) -> String {
        let document = json!({
            "attributes": {
                "morton_hive_commit": {
                    "spec": "morton-hive/1",
                    "complete": true,
                    "cells_with_data": figures.cells_with_data,
                    "granule_count": 1,
                    "written_at": self.written_at,
                },
            },
            "zarr_format": 3,
            "node_type": "group",
        });
        python_pretty(&document, DOCUMENT_INDENT)
    }
}
