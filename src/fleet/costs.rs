//! What the shards of a pass are reckoned to cost, so that parts come out even.

use std::collections::HashMap;

use futures::TryStreamExt;

use crate::kernels::words::decimal;
use crate::store::{Root, StoreError};
use crate::work::{ShardWork, WorkSet};

/// Leaves up to which the sizes of their objects are listed. A listing has some dozen objects
/// of a leaf to a page of a thousand; from here on it would hold up the first worker for
/// longer than uneven parts could cost, and the counts of the run records have to do.
const LISTED_LEAVES: u64 = 20_000;

/// Bytes of each shard's leaves by one listing of the store, or beyond [`LISTED_LEAVES`] its
/// cells with data as the run records tell them.
///
/// # Errors
/// A failed listing.
pub(super) async fn of_shards(root: &Root, work: &WorkSet) -> Result<Vec<u64>, StoreError> {
    if work.num_leaves() > LISTED_LEAVES {
        return Ok(work.shards().iter().map(ShardWork::reckoned).collect());
    }
    let mut costs = vec![0; work.shards().len()];
    let node =
        |(index, shard): (usize, &ShardWork)| Some((decimal::node_path(shard.shard).ok()?, index));
    let nodes: HashMap<String, usize> = work.shards().iter().enumerate().filter_map(node).collect();
    let mut objects = root.list("");
    while let Some(object) = objects.try_next().await? {
        if let Some(index) = node_of_leaf(&object.key).and_then(|node| nodes.get(node)) {
            costs[*index] += object.size;
        }
    }
    Ok(costs)
}

/// The node of the leaf that an object is of, if it is of one (`format.md` section 1).
fn node_of_leaf(key: &str) -> Option<&str> {
    let end = key.find(".zarr/")?;
    let (node, name) = key[..end].rsplit_once('/')?;
    let id = name.split('_').next().unwrap_or(name);
    // A leaf is called after its node; columns and overviews after windows.
    let is_leaf = id.chars().eq(node.chars().filter(|c| *c != '/'));
    is_leaf.then_some(node)
}

impl ShardWork {
    /// The cost of its leaves by the run records, in cells; 0 when they do not tell.
    fn reckoned(&self) -> u64 {
        self.cells.saturating_mul(self.windows.len().max(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_of_leaves_cost() {
        for (key, node) in [
            ("1/1/2/11.zarr/zarr.json", None),
            ("1/1/2/112.zarr/6/count/c/0", Some("1/1/2")),
            ("-3/1/2/-312_2019.zarr/zarr.json", Some("-3/1/2")),
            ("1/1/2/2019.pyramid.zarr/zarr.json", None),
            ("1/1/all.zarr/6/count/c/0", None),
            ("morton_hive.json", None),
        ] {
            assert_eq!(node_of_leaf(key), node, "{key}");
        }
    }
}
