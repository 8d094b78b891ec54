//! Which shards a demo store has: distinct, spread over the base cells, in pairs of
//! siblings so that the levels above a shard have something to merge.

use super::{DemoConfig, DemoError};
use crate::kernels::words::morton::Cell;

const BASE_CELLS: u64 = 12;

/// Coprime to the number of base cells: a few leaves already lie north and south.
const BASE_STRIDE: u64 = 7;

/// Odd, hence coprime to any power of two: a few leaves already lie far apart.
const PAIR_STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

/// The words of the shards, ascending.
///
/// # Errors
/// When a shard has no word, which the limit on leaves rules out.
pub(super) fn choose(config: &DemoConfig, shard_order: u8) -> Result<Vec<u64>, DemoError> {
    let pairs_per_base = (1u64 << (2 * shard_order)) / 2;
    let mut shards = (0..u64::from(config.leaves))
        .map(|leaf| {
            let (pair, sibling) = (leaf / 2, leaf % 2);
            let offset = config.seed % BASE_CELLS;
            let base = (pair * BASE_STRIDE + offset) % BASE_CELLS;
            // The walk visits each pair of a base cell once before it repeats.
            let step = (pair / BASE_CELLS).wrapping_mul(PAIR_STRIDE);
            let rank = step.wrapping_add(config.seed) % pairs_per_base;
            let nested = base * 2 * pairs_per_base + 2 * rank + sibling;
            Ok(Cell::area(nested, shard_order)?.pack())
        })
        .collect::<Result<Vec<_>, DemoError>>()?;
    shards.sort_unstable();
    Ok(shards)
}
