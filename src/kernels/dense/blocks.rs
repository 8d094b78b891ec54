//! One pass over the values of a block, group by group.

use super::reduce::{Element, Reduction};
use crate::kernels::groups::FoldGroups;
use std::marker::PhantomData;

/// Orders folded directly from values: up to `4^4 = 256`, the piece from which a pairwise sum is a balanced tree.
const MAX_LEVELS: usize = 4;
const MAX_BLOCK: usize = 1 << (2 * MAX_LEVELS);
const MAX_ROWS: usize = MAX_BLOCK / 4;

/// Cells folded at a time: 256, or all there are.
pub(super) fn block_cells(groups: &FoldGroups) -> usize {
    1 << (2 * groups.block_depth().min(MAX_LEVELS))
}

/// A fold of one element type and method.
pub(super) trait BlockFold: Send {
    /// Takes whole blocks of little-endian values.
    fn push(&mut self, bytes: &[u8]);
    /// Takes blocks in which every value is missing.
    fn push_missing(&mut self, blocks: usize);
    /// Little-endian values per group, finest first.
    fn finish(self: Box<Self>) -> Vec<Vec<u8>>;
}

/// Reduces blocks to every order within them, and their results to the orders above.
///
/// A *level* is a number of orders above the source cells.
pub(super) struct Blocks<T, R> {
    fill: T,
    /// Level of a whole block.
    block_level: usize,
    /// Output by level, from 0 to the whole; `None` where no group is wanted.
    columns: Vec<Option<Vec<u8>>>,
    /// Results waiting for their siblings, by level from that of a block to that below the whole.
    waiting: Vec<Quarters<T>>,
    reduction: PhantomData<R>,
}

/// The results of up to four siblings.
struct Quarters<T> {
    results: [T; 4],
    count: usize,
    any_present: bool,
}

impl<T: Element, R: Reduction<T>> Blocks<T, R> {
    pub(super) fn new(fill: T, groups: &FoldGroups) -> Self {
        let whole = groups.block_depth();
        let block_level = whole.min(MAX_LEVELS);
        let mut columns = vec![None; whole + 1];
        for (level, &order) in groups.depths().zip(groups.orders()) {
            let num_bytes = groups.target_cells(order) as usize * T::WIDTH;
            columns[level] = Some(Vec::with_capacity(num_bytes));
        }
        let waiting = (block_level..whole).map(|_| Quarters {
            results: [R::NEUTRAL; 4],
            count: 0,
            any_present: false,
        });
        Self {
            fill,
            block_level,
            columns,
            waiting: waiting.collect(),
            reduction: PhantomData,
        }
    }

    fn push_block(&mut self, bytes: &[u8]) {
        let mut values = [R::NEUTRAL; MAX_BLOCK];
        let values = &mut values[..bytes.len() / T::WIDTH];
        T::load(bytes, values);
        let mut flags = [true; MAX_BLOCK];
        let num_missing = neutralise::<T, R>(values, self.fill, &mut flags);
        if num_missing == values.len() {
            return self.push_missing_block();
        }
        // Present flags by row; with nothing missing they stay as they are, level after level.
        let mut present = [true; MAX_ROWS];
        let mut reduced = [R::NEUTRAL; MAX_ROWS];
        for level in 1..=self.block_level {
            let rows = values.len() >> (2 * level);
            if num_missing > 0 && level > 1 {
                let below = present;
                any_of_four(&below, &mut present[..rows]);
            } else if num_missing > 0 {
                any_of_four(&flags, &mut present[..rows]);
            }
            if R::BY_PARTS && level > 1 {
                let below = reduced;
                join_rows::<T, R>(&below, &mut reduced[..rows]);
            } else if R::BY_PARTS {
                join_rows::<T, R>(values, &mut reduced[..rows]);
            } else if level == self.block_level || self.columns[level].is_some() {
                match level {
                    1 => reduce_rows::<T, R, 4>(values, &mut reduced),
                    2 => reduce_rows::<T, R, 16>(values, &mut reduced),
                    3 => reduce_rows::<T, R, 64>(values, &mut reduced),
                    _ => reduce_rows::<T, R, MAX_BLOCK>(values, &mut reduced),
                }
            }
            if let Some(column) = &mut self.columns[level] {
                let mut settled = [self.fill; MAX_ROWS];
                let of_rows = reduced.iter().zip(&present).take(rows);
                for (slot, (&result, &is_present)) in settled.iter_mut().zip(of_rows) {
                    *slot = if is_present {
                        R::settle(result, self.fill)
                    } else {
                        self.fill
                    };
                }
                T::store(&settled[..rows], column);
            }
        }
        self.pass_up(reduced[0], true);
    }

    fn push_missing_block(&mut self) {
        let fills = [self.fill; MAX_ROWS];
        for level in 1..=self.block_level {
            if let Some(column) = &mut self.columns[level] {
                let rows = 1 << (2 * (self.block_level - level));
                T::store(&fills[..rows], column);
            }
        }
        self.pass_up(R::NEUTRAL, false);
    }

    /// Hands the result of a block to the levels above, each of which goes on when it has four.
    fn pass_up(&mut self, mut result: T, mut is_present: bool) {
        let above = self.columns.iter_mut().skip(self.block_level + 1);
        for (quarters, column) in self.waiting.iter_mut().zip(above) {
            quarters.results[quarters.count] = result;
            quarters.any_present |= is_present;
            quarters.count += 1;
            if quarters.count < 4 {
                return;
            }
            result = R::join(&quarters.results);
            is_present = quarters.any_present;
            quarters.count = 0;
            quarters.any_present = false;
            if let Some(column) = column {
                let settled = if is_present {
                    R::settle(result, self.fill)
                } else {
                    self.fill
                };
                T::store(&[settled], column);
            }
        }
    }
}

impl<T: Element, R: Reduction<T>> BlockFold for Blocks<T, R> {
    fn push(&mut self, bytes: &[u8]) {
        let block_bytes = T::WIDTH << (2 * self.block_level);
        for block in bytes.chunks_exact(block_bytes) {
            self.push_block(block);
        }
    }

    fn push_missing(&mut self, blocks: usize) {
        for _ in 0..blocks {
            self.push_missing_block();
        }
    }

    fn finish(self: Box<Self>) -> Vec<Vec<u8>> {
        self.columns.into_iter().flatten().collect()
    }
}

/// Folds rows of any length, each in one piece.
pub(super) fn fold_rows<T: Element, R: Reduction<T>>(
    fill: T,
    bytes: &[u8],
    per_target: usize,
) -> Vec<u8> {
    let mut folded = Vec::with_capacity(bytes.len() / per_target);
    let mut row = vec![R::NEUTRAL; per_target];
    let mut present = vec![true; per_target];
    for row_bytes in bytes.chunks_exact(per_target * T::WIDTH) {
        T::load(row_bytes, &mut row);
        let all_missing = neutralise::<T, R>(&mut row, fill, &mut present) == per_target;
        let value = if all_missing {
            fill
        } else {
            R::settle(R::row(&row), fill)
        };
        T::store(&[value], &mut folded);
    }
    folded
}

/// Puts the neutral value in place of every missing one and flags the others as present; returns how many are
/// missing.
#[inline(always)]
fn neutralise<T: Element, R: Reduction<T>>(
    values: &mut [T],
    fill: T,
    present: &mut [bool],
) -> usize {
    let mut num_missing = 0;
    for (value, is_present) in values.iter_mut().zip(present) {
        let is_missing = value.is_missing(fill);
        num_missing += usize::from(is_missing);
        *is_present = !is_missing;
        *value = if is_missing { R::NEUTRAL } else { *value };
    }
    num_missing
}

#[inline(always)]
fn reduce_rows<T: Element, R: Reduction<T>, const N: usize>(values: &[T], reduced: &mut [T]) {
    for (slot, row) in reduced.iter_mut().zip(values.as_chunks::<N>().0) {
        *slot = R::row(row);
    }
}

#[inline(always)]
fn join_rows<T: Element, R: Reduction<T>>(quarters: &[T], reduced: &mut [T]) {
    for (slot, four) in reduced.iter_mut().zip(quarters.as_chunks::<4>().0) {
        *slot = R::join(four);
    }
}

#[inline(always)]
fn any_of_four(flags: &[bool], any: &mut [bool]) {
    for (slot, &[a, b, c, d]) in any.iter_mut().zip(flags.as_chunks::<4>().0) {
        *slot = a | b | c | d;
    }
}
