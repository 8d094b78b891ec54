//! The content hashes of an artifact, recomputed from what the store holds of it.

use std::sync::Arc;

use serde_json::Value;

use crate::store::Root;
use crate::store::artifact::Artifact;
use crate::store::group::OpenGroup;
use crate::store::hash::{self, ArrayHash};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::{ColumnTemplate, GroupTemplate};

/// Cells of an array read at once, or one chunk when that is more.
const READ_CELLS: u64 = 4u64.pow(5);

/// Reads every array of an artifact, a block at a time, and hashes what it decodes to
/// (`format.md` section 7, "content_hashes").
///
/// # Errors
/// Failed requests, arrays that are absent, and chunks that do not decode.
pub(crate) async fn content_hashes(
    root: &Root,
    template: Arc<ColumnTemplate>,
    groups: &[GroupTemplate],
    artifact: &Artifact,
) -> Result<Value, LeafError> {
    let path = artifact.path();
    let mut hashes = Vec::new();
    for group in groups {
        let (order, n_cells) = (group.order, group.n_cells);
        let open = OpenGroup::open(root, template.clone(), path.clone(), order, n_cells).await?;
        let open = open.with_words(root, order).await?;
        if let Some(array) = open.absent_array() {
            return Err(LeafError::of_array(&path, array, LeafProblem::Absent));
        }
        let slab = open.slab_cells(READ_CELLS.min(n_cells));
        for array in group.arrays() {
            let mut hash = ArrayHash::default();
            let mut start = 0;
            while start < n_cells {
                let cells = start..(start + slab).min(n_cells);
                start = cells.end;
                hash.update(open.read_array(root, &array.name, cells).await?.as_ref());
            }
            hashes.push((format!("{order}/{}", array.name), hash.finish()));
        }
    }
    Ok(hash::document(hashes))
}
