//! The column of a leaf: encoding its arrays, and writing it. `format.md` section 7.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::error::LeafFault;
use crate::kernels::cells::CellsRef;
use crate::kernels::column::FoldedLeaf;
use crate::kernels::words::morton;
use crate::messages::LeafRef;
use crate::store::array::ArrayTemplate;
use crate::store::artifact::{Artifact, ArtifactWriter, Sidecar};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::stamp::{NewStamp, Stamp};
use crate::store::template::{ColumnTemplate, GroupTemplate};
use crate::store::{Held, Root, hash};

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
            column.documents.extend(group.documents(leaf_attributes));
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

    fn push_array(
        &mut self,
        group: &GroupTemplate,
        array: &ArrayTemplate,
        cells: CellsRef<'_>,
        hashes: &mut Vec<(String, String)>,
    ) -> Result<(), LeafFault> {
        let path = format!("{}/{}", group.order, array.name);
        if let Some((key, bytes)) = array.encode(0, cells)? {
            self.chunks.push((format!("{path}/{key}"), bytes));
        }
        hashes.push((path, hash::of_cells(cells)));
        Ok(())
    }

    /// Writes the column of a leaf with this stamp; its own stamp comes last, and only
    /// while the lease is ours and the leaf is still what it was.
    ///
    /// # Errors
    /// Failed requests, a leaf that was rewritten, and a lease that is no longer ours.
    pub(crate) async fn write(
        &self,
        root: &Root,
        template: &ColumnTemplate,
        leaf: &LeafRef,
        leaf_stamp: &Stamp,
        held: &Held,
        now: impl Fn() -> String,
    ) -> Result<(), LeafFault> {
        let artifact = Artifact::column_of(leaf);
        let writer = ArtifactWriter {
            root,
            held,
            artifact: &artifact,
        };
        writer.begin().await?;
        writer.put_all(&self.documents).await?;
        writer.put_all(&self.chunks).await?;
        let record = template.column_record(&leaf.id, leaf.window_label(), &now());
        // Before the last look: a leaf that is stamped after it makes the column stale.
        let written_at = now();
        let stamp = NewStamp {
            spec: template.stamp_spec(),
            cells_with_data: self.cells_with_data,
            granule_count: leaf_stamp.granule_count(),
            content_hashes: template.stamps_hashes().then_some(&self.content_hashes),
            written_at: &written_at,
            window: template.windowed.then(|| leaf.window_label()),
            time_range: leaf_stamp.time_range(),
            run_id: None,
        };
        let sidecar = Sidecar {
            granule_count: leaf_stamp.granule_count(),
            content_hashes: &self.content_hashes,
            cells_with_data: self.cells_with_data,
            timestamp: &written_at,
        };
        let last_look = leaf_stands(root, leaf, leaf_stamp);
        writer
            .commit(record, stamp.to_json(), &sidecar, last_look)
            .await
    }
}

/// Looks whether the leaf is still stamped as it was when its column was begun.
///
/// # Errors
/// `Rewritten` when it is not, and failed requests.
async fn leaf_stands(root: &Root, leaf: &LeafRef, stamp: &Stamp) -> Result<(), LeafFault> {
    if Stamp::read_leaf(root, leaf).await?.as_ref() == Some(stamp) {
        return Ok(());
    }
    Err(LeafError::of_leaf(&leaf.path(), LeafProblem::Rewritten).into())
}

/// Words of a group's cells, which are a function of the leaf's id.
fn cell_words(leaf: &LeafRef, group: &GroupTemplate) -> Result<Vec<u8>, LeafFault> {
    let words = morton::children(leaf.shard, group.order)?;
    Ok(words.flat_map(u64::to_le_bytes).collect())
}
