//! Rows of many cells into one sorted run.

use super::row::{Row, key, sentinel};

/// Sorts rows that stand in the order of their cells, and puts a sentinel behind them.
///
/// Without negative zeros, rows that are equal are the same bits, and a sort need not be stable.
pub(super) fn sort_run<const N: usize>(rows: &mut Vec<Row<N>>, negative_zero: bool) {
    if negative_zero {
        rows.sort_by_key(key::<N, true>);
    } else {
        rows.sort_unstable();
    }
    rows.push(sentinel());
}
