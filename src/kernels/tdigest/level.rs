//! The order of the work: which rows are in memory, and when they are merged.

use super::cell::{Channels, DigestCell, DigestColumn};
use super::compress::Compressor;
use super::error::DigestError;
use super::merge::merge;
use super::row::{Row, read_cell, write_rows};
use super::scale::Scale;
use super::sort::Sorter;

/// Cells of one group that make one cell of the next coarser group.
const CHILDREN: usize = 4;

/// Rows that belong to one cell, sorted and followed by a sentinel once all are there.
#[derive(Debug, Default)]
struct Run<const N: usize> {
    rows: Vec<Row<N>>,
    /// Number of source cells the rows come from.
    sources: usize,
    negative_zero: bool,
}

impl<const N: usize> Run<N> {
    fn clear(&mut self) {
        self.rows.clear();
        self.sources = 0;
        self.negative_zero = false;
    }

    /// The rows of a run that has its sentinel.
    fn sorted(&self) -> &[Row<N>] {
        self.rows.split_last().map_or(&[], |(_, rows)| rows)
    }

    /// Makes this run the merge of two sorted ones, of equal rows those of `a` first.
    fn merge(&mut self, a: &Self, b: &Self) {
        self.sources = a.sources + b.sources;
        self.negative_zero = a.negative_zero || b.negative_zero;
        if self.negative_zero {
            merge::<N, true>(&a.rows, &b.rows, &mut self.rows);
        } else {
            merge::<N, false>(&a.rows, &b.rows, &mut self.rows);
        }
    }
}

/// A cell of a group that waits for the runs of its children.
#[derive(Debug, Default)]
struct Level<const N: usize> {
    children: [Run<N>; CHILDREN],
    filled: usize,
}

/// [`DigestFold`](super::DigestFold) for rows of `N` lanes.
#[derive(Debug)]
pub(super) struct LevelFold<const N: usize> {
    scale: Scale,
    channels: Channels,
    /// Source cells of one cell of the finest group.
    per_target: usize,
    /// Source cells pushed in total.
    pushed: usize,
    /// The run at hand: first the rows of a finest cell as they come, then what goes up the levels.
    current: Run<N>,
    /// The groups but the finest, finest first.
    levels: Vec<Level<N>>,
    halves: [Run<N>; 2],
    sorter: Sorter<N>,
    compressor: Compressor,
    columns: Vec<DigestColumn>,
}

impl<const N: usize> LevelFold<N> {
    /// A fold of each `per_target` source cells into a cell of the finest group, and on into `coarser`
    /// groups above it.
    pub(super) fn new(scale: Scale, channels: Channels, per_target: usize, coarser: usize) -> Self {
        Self {
            scale,
            channels,
            per_target,
            pushed: 0,
            current: Run::default(),
            levels: (0..coarser).map(|_| Level::default()).collect(),
            halves: Default::default(),
            sorter: Sorter::default(),
            compressor: Compressor::default(),
            columns: vec![DigestColumn::new(channels); coarser + 1],
        }
    }

    /// See [`DigestFold::push_cell`](super::DigestFold::push_cell).
    pub(super) fn push_cell(&mut self, cell: DigestCell<'_>) -> Result<(), DigestError> {
        let read = read_cell(cell, self.channels, &mut self.current.rows)?;
        self.current.sources += usize::from(read.count > 0);
        self.current.negative_zero |= read.negative_zero;
        self.pushed += 1;
        if self.pushed.is_multiple_of(self.per_target) {
            self.close_finest()?;
            self.carry_up()?;
        }
        Ok(())
    }

    /// Sorts the gathered rows and folds them into the next cell of the finest group.
    fn close_finest(&mut self) -> Result<(), DigestError> {
        let column = &mut self.columns[0];
        let run = &mut self.current;
        if run.sources < 2 {
            // The rows still stand as the one source cell has them, if there is one.
            write_rows(&run.rows, column);
        }
        self.sorter.sort(&mut run.rows, run.negative_zero);
        if run.sources < 2 {
            return Ok(());
        }
        self.compressor
            .compress(run.sorted(), self.channels, &self.scale, column)
    }

    /// Hands the run to the next coarser group, and on to the one after as often as four are complete.
    fn carry_up(&mut self) -> Result<(), DigestError> {
        for (index, level) in self.levels.iter_mut().enumerate() {
            std::mem::swap(&mut self.current, &mut level.children[level.filled]);
            level.filled += 1;
            if level.filled < CHILDREN {
                break;
            }
            level.filled = 0;
            let [a, b, c, d] = &level.children;
            let [left, right] = &mut self.halves;
            left.merge(a, b);
            right.merge(c, d);
            self.current.merge(left, right);
            let (finer, coarser) = self.columns.split_at_mut(index + 1);
            let column = &mut coarser[0];
            if self.current.sources < 2 {
                copy_only_child(&finer[index], column);
            } else {
                self.compressor.compress(
                    self.current.sorted(),
                    self.channels,
                    &self.scale,
                    column,
                )?;
            }
        }
        self.current.clear();
        Ok(())
    }

    /// What has been folded so far, finest group first.
    pub(super) fn columns(&self) -> &[DigestColumn] {
        &self.columns
    }

    /// See [`DigestFold::finish`](super::DigestFold::finish).
    pub(super) fn finish(&mut self) -> Result<Vec<DigestColumn>, DigestError> {
        let per_target = self.per_target << (2 * self.levels.len());
        if !self.pushed.is_multiple_of(per_target) {
            return Err(DigestError::CellCount {
                cells: self.pushed,
                per_target,
            });
        }
        self.pushed = 0;
        let next = vec![DigestColumn::new(self.channels); self.columns.len()];
        Ok(std::mem::replace(&mut self.columns, next))
    }
}

/// Appends a cell that is the only non-empty one of the last four of `finer`, or empty.
fn copy_only_child(finer: &DigestColumn, column: &mut DigestColumn) {
    let children = finer.len() - CHILDREN..finer.len();
    let only = children
        .clone()
        .find(|&index| !finer.payload.is_empty_cell(index))
        .unwrap_or(children.start);
    column.push(finer.cell(only));
}
