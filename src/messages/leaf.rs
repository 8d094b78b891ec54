//! Discovery → StampReader: a leaf of the work set, and the ticket that reports how
//! its work ended.

use std::fmt;

use actix::{Addr, Message};
use tokio::sync::OwnedSemaphorePermit;

use crate::actors::Supervisor;
use crate::kernels::words::{WordError, decimal};
use crate::messages::outcome::{LeafEnded, LeafOutcome};

/// Stands for "no window" in the names of columns.
const ALL: &str = "all";

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
        format!("{}/{}.pyramid.zarr", self.node, self.window_label())
    }

    /// Path of the column's sidecar below the root.
    pub fn sidecar_path(&self) -> String {
        format!("{}/{}.pyramid.stats.json", self.node, self.window_label())
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
    pub ticket: LeafTicket,
}

/// The right to work on one leaf: one of the pass's places in flight, and the duty to
/// report exactly one outcome. A ticket that is dropped without one, as by a panic,
/// reports that.
pub(crate) struct LeafTicket {
    leaf: LeafRef,
    supervisor: Option<Addr<Supervisor>>,
    _place: OwnedSemaphorePermit,
}

impl fmt::Debug for LeafTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeafTicket").field(&self.leaf).finish()
    }
}

impl LeafTicket {
    pub(crate) fn new(
        leaf: LeafRef,
        supervisor: Addr<Supervisor>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            leaf,
            supervisor: Some(supervisor),
            _place: place,
        }
    }

    pub(crate) fn leaf(&self) -> &LeafRef {
        &self.leaf
    }

    /// Reports how the work on the leaf ended.
    pub(crate) fn finish(mut self, outcome: LeafOutcome) {
        self.report(outcome);
    }

    /// `do_send` escapes the mailbox's capacity, but there are never more tickets than
    /// places in flight.
    fn report(&mut self, outcome: LeafOutcome) {
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.do_send(LeafEnded {
                leaf: self.leaf.clone(),
                outcome,
            });
        }
    }
}

impl Drop for LeafTicket {
    fn drop(&mut self) {
        let leaf = self.leaf.clone();
        self.report(LeafOutcome::dropped(&leaf));
    }
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
