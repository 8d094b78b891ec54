//! Discovery → StampReader: a leaf of the work set.

use std::fmt;

use actix::Message;

use crate::kernels::words::{WordError, decimal};
use crate::messages::Ticket;
use crate::store::artifact::{ALL, Artifact};

/// A leaf of the store: a shard and, on a windowed store, a window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeafRef {
    /// Packed morton word of the shard.
    pub shard: u64,
    /// Decimal id of the shard.
    pub id: String,
    /// Directory of the shard below the root.
    pub node: String,
    /// Window label, on a windowed store.
    pub window: Option<String>,
}

impl LeafRef {
    /// The leaf of a shard, and of a window on a windowed store.
    ///
    /// # Errors
    /// When the word names no shard.
    pub fn new(shard: u64, window: Option<String>) -> Result<Self, WordError> {
        Ok(Self {
            shard,
            id: decimal::render(shard)?,
            node: decimal::node_path(shard)?,
            window,
        })
    }

    /// Path of the leaf below the root (`format.md` section 1).
    pub fn path(&self) -> String {
        match &self.window {
            Some(window) => format!("{}/{}_{window}.zarr", self.node, self.id),
            None => format!("{}/{}.zarr", self.node, self.id),
        }
    }

    /// The window as columns name it: `all` for none.
    pub fn window_label(&self) -> &str {
        self.window.as_deref().unwrap_or(ALL)
    }

    /// Path of the leaf's column below the root.
    pub fn column_path(&self) -> String {
        Artifact::column_of(self).path()
    }

    /// Path of the column's sidecar below the root.
    pub fn sidecar_path(&self) -> String {
        Artifact::column_of(self).sidecar_path()
    }
}

impl fmt::Display for LeafRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// A leaf that entered the pipeline.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct FoundLeaf {
    pub ticket: Ticket<LeafRef>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_from_shard_and_window() {
        let mut leaf = LeafRef {
            shard: 0x1120_0000_0000_0004,
            id: "11213".to_owned(),
            node: "1/1/2/1/3".to_owned(),
            window: None,
        };
        assert_eq!(leaf.path(), "1/1/2/1/3/11213.zarr");
        assert_eq!(leaf.column_path(), "1/1/2/1/3/all.pyramid.zarr");
        leaf.window = Some("2019".to_owned());
        assert_eq!(leaf.path(), "1/1/2/1/3/11213_2019.zarr");
        assert_eq!(leaf.sidecar_path(), "1/1/2/1/3/2019.pyramid.stats.json");
    }
}
