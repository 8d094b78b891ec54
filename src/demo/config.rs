//! What can be asked of a demo store.

use serde::Serialize;

use super::DemoError;

/// Order of the shards, as long as they are enough.
const SHARD_ORDER: u8 = 4;
/// Order of the shards of a store of very many leaves.
const DEEPER_SHARD_ORDER: u8 = 5;

/// Orders a leaf's cells can have.
const CELL_ORDERS: std::ops::RangeInclusive<u8> = 6..=16;

/// Mean rows a digest can have: twice as many, and a height step between any two, is what
/// a 24-bit mantissa tells apart.
const MAX_CENTROIDS: u32 = 4096;

/// 2024-06-01T12:00:00Z. Every document says so, which makes the bytes of a store a
/// function of its arguments; and it lies before any upgrade, as a column that looks older
/// than its leaf is written again.
const WRITTEN_AT: i64 = 1_717_243_200;

/// The fields of a demo store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FieldSet {
    /// A count and a digest.
    #[default]
    Plain,
    /// A count, two located digests and a packed composition.
    Strata,
    /// A count, a located digest with times, and a time per cell that does not fold.
    Temporal,
}

impl FieldSet {
    /// Name of the set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Strata => "strata",
            Self::Temporal => "temporal",
        }
    }
}

/// What to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoConfig {
    /// Number of leaves.
    pub leaves: u32,
    /// Order of a leaf's cells.
    pub cell_order: u8,
    /// The fields.
    pub fields: FieldSet,
    /// Seed of the observations and of where the leaves lie.
    pub seed: u64,
    /// Mean number of rows of a digest that is not empty.
    pub centroids: u32,
    /// When the store says it was written, in seconds since 1970.
    pub written_at: i64,
}

impl Default for DemoConfig {
    fn default() -> Self {
        Self {
            leaves: 4,
            cell_order: 9,
            fields: FieldSet::default(),
            seed: 1,
            centroids: 12,
            written_at: WRITTEN_AT,
        }
    }
}

impl DemoConfig {
    /// Order of the shards: 4, or 5 when there are more leaves than shards of order 4.
    ///
    /// # Errors
    /// `Config` when no store can be made of these numbers.
    pub(super) fn shard_order(&self) -> Result<u8, DemoError> {
        let refuse = |problem: String| Err(DemoError::Config { problem });
        if !CELL_ORDERS.contains(&self.cell_order) {
            let (least, most) = CELL_ORDERS.into_inner();
            return refuse(format!(
                "cells can be of order {least} to {most}, not {}",
                self.cell_order
            ));
        }
        if !(1..=MAX_CENTROIDS).contains(&self.centroids) {
            return refuse(format!(
                "a digest can have 1 to {MAX_CENTROIDS} rows on average, not {}",
                self.centroids
            ));
        }
        if (1..=cells_at(SHARD_ORDER)).contains(&self.leaves) {
            return Ok(SHARD_ORDER);
        }
        if !(1..=cells_at(DEEPER_SHARD_ORDER)).contains(&self.leaves) {
            return refuse(format!(
                "a store can have 1 to {} leaves, not {}",
                cells_at(DEEPER_SHARD_ORDER),
                self.leaves
            ));
        }
        // A pyramid needs a level strictly between shards and cells.
        if self.cell_order < DEEPER_SHARD_ORDER + 2 {
            return refuse(format!(
                "more than {} leaves need cells of order {} or finer, not {}",
                cells_at(SHARD_ORDER),
                DEEPER_SHARD_ORDER + 2,
                self.cell_order
            ));
        }
        Ok(DEEPER_SHARD_ORDER)
    }

    /// Compression of a digest: no digest of the store has more rows.
    pub(super) fn delta(&self) -> u32 {
        (2 * self.centroids).max(16)
    }
}

/// Cells of the whole sphere at an order.
fn cells_at(order: u8) -> u32 {
    12 << (2 * order)
}
