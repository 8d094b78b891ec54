//! The order of the work: which rows are in memory, and when they are merged.

use super::cell::{Channels, DigestCell, DigestColumn};
use super::compress::Compressor;
use super::error::DigestError;
use super::merge::merge;
use super::row::{Row, read_cell, write_rows};
use super::scale::Scale;
use super::sort::sort_run;

/// Cells of one group that make one cell of the next coarser group.
const CHILDREN: usize = 4;

/// Folds source digests, cell by cell in cell order, into every group from the finest to a coarsest one.
///
/// Each group folds from the source cells, not from the group before it (`format.md` section 6, "groups
/// ≥ b"). Rows are sorted once, within a cell of the finest group, and sorted runs are merged on the way
/// up. What is resident are the rows of one cell of the coarsest group; its memory is used again for the
/// next cell.
#[derive(Debug)]
pub struct DigestFold(Lanes);

/// The fold for each number of lanes a row can have.
#[derive(Debug)]
enum Lanes {
    Plain(LevelFold<1>),
    OneWord(LevelFold<2>),
    TwoWords(LevelFold<3>),
}

/// Calls a method of the fold of whichever number of lanes.
macro_rules! with_lanes {
    ($fold:expr, $name:ident => $call:expr) => {
        match $fold {
            Lanes::Plain($name) => $call,
            Lanes::OneWord($name) => $call,
            Lanes::TwoWords($name) => $call,
        }
    };
}

impl DigestFold {
    /// A fold of cells of order `source_order` into `groups`: orders below it, finest first, each one
    /// coarser by one than the order before.
    ///
    /// `delta` is the fold budget in steps of the k-scale; `channels` are the companions every cell has.
    ///
    /// # Errors
    /// When `delta` is not a positive finite number, or when the groups are none, not below the source
    /// cells or not contiguous.
    pub fn new(
        delta: f64,
        channels: Channels,
        source_order: u8,
        groups: &[u8],
    ) -> Result<Self, DigestError> {
        let refused = || DigestError::Groups {
            source_order,
            groups: groups.to_vec(),
        };
        let finest = *groups.first().ok_or_else(refused)?;
        let contiguous = groups.windows(2).all(|pair| pair[1] + 1 == pair[0]);
        if finest >= source_order || !contiguous {
            return Err(refused());
        }
        let per_target = 1_usize
            .checked_shl(2 * u32::from(source_order - finest))
            .ok_or_else(refused)?;
        Self::with_levels(delta, channels, per_target, groups.len() - 1)
    }

    /// A fold of each `per_target` consecutive source cells into one target cell.
    ///
    /// The source cells need not lie in one column, nor be children of the target: the members of many
    /// windows or nodes fold flat too (`format.md` section 9).
    ///
    /// # Errors
    /// When `delta` is not a positive finite number or `per_target` is 0.
    pub fn flat(delta: f64, channels: Channels, per_target: usize) -> Result<Self, DigestError> {
        if per_target == 0 {
            return Err(DigestError::CellCount {
                cells: 0,
                per_target,
            });
        }
        Self::with_levels(delta, channels, per_target, 0)
    }

    fn with_levels(
        delta: f64,
        channels: Channels,
        per_target: usize,
        coarser: usize,
    ) -> Result<Self, DigestError> {
        let scale = Scale::new(delta)?;
        Ok(Self(match channels.declared().len() {
            0 => Lanes::Plain(LevelFold::new(scale, channels, per_target, coarser)),
            1 => Lanes::OneWord(LevelFold::new(scale, channels, per_target, coarser)),
            _ => Lanes::TwoWords(LevelFold::new(scale, channels, per_target, coarser)),
        }))
    }

    /// Takes the digest of the next source cell.
    ///
    /// # Errors
    /// When the digest is refused. The fold has then lost its place and is of no further use.
    #[inline]
    pub fn push_cell(&mut self, cell: DigestCell<'_>) -> Result<(), DigestError> {
        with_lanes!(&mut self.0, fold => fold.push_cell(cell))
    }

    /// What has been folded so far: one column per group, finest first, with the cells that are complete.
    pub fn columns(&self) -> &[DigestColumn] {
        with_lanes!(&self.0, fold => &fold.columns)
    }

    /// The folded columns: one per group, finest first.
    ///
    /// # Errors
    /// When the cells that were pushed do not fill the last cell of the coarsest group.
    pub fn finish(self) -> Result<Vec<DigestColumn>, DigestError> {
        with_lanes!(self.0, fold => fold.finish())
    }
}

/// Folds each `per_target` consecutive cells of `source` into one cell, in one merge
/// (`format.md` section 6, "groups below b").
///
/// `delta` is the fold budget in steps of the k-scale. The result has the companions of the source.
///
/// # Errors
/// When a digest is refused, when `delta` is not a positive finite number, or when the number of source
/// cells is not a multiple of `per_target`.
pub fn fold_flat(
    source: &DigestColumn,
    per_target: usize,
    delta: f64,
) -> Result<DigestColumn, DigestError> {
    let channels = source.channels();
    let mut fold = DigestFold::flat(delta, channels, per_target)?;
    for index in 0..source.len() {
        fold.push_cell(source.cell(index))?;
    }
    let mut columns = fold.finish()?;
    Ok(columns.pop().unwrap_or_else(|| DigestColumn::new(channels)))
}

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
#[derive(Debug)]
struct Level<const N: usize> {
    children: [Run<N>; CHILDREN],
    filled: usize,
}

/// [`DigestFold`] for rows of `N` lanes.
#[derive(Debug)]
struct LevelFold<const N: usize> {
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
    compressor: Compressor,
    columns: Vec<DigestColumn>,
}

fn empty_run<const N: usize>() -> Run<N> {
    Run {
        rows: Vec::new(),
        sources: 0,
        negative_zero: false,
    }
}

impl<const N: usize> LevelFold<N> {
    fn new(scale: Scale, channels: Channels, per_target: usize, coarser: usize) -> Self {
        let level = |_| Level {
            children: std::array::from_fn(|_| empty_run()),
            filled: 0,
        };
        Self {
            scale,
            channels,
            per_target,
            pushed: 0,
            current: empty_run(),
            levels: (0..coarser).map(level).collect(),
            halves: std::array::from_fn(|_| empty_run()),
            compressor: Compressor::default(),
            columns: vec![DigestColumn::new(channels); coarser + 1],
        }
    }

    fn push_cell(&mut self, cell: DigestCell<'_>) -> Result<(), DigestError> {
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
        sort_run(&mut run.rows, run.negative_zero);
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

    fn finish(self) -> Result<Vec<DigestColumn>, DigestError> {
        let per_target = self.per_target << (2 * self.levels.len());
        if !self.pushed.is_multiple_of(per_target) {
            return Err(DigestError::CellCount {
                cells: self.pushed,
                per_target,
            });
        }
        Ok(self.columns)
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

#[cfg(test)]
mod tests {
    use super::super::reference::{self, DELTAS, RefCell};
    use super::*;
    use proptest::prelude::*;

    fn stream(
        cells: &[RefCell],
        channels: Channels,
        delta: f64,
        source_order: u8,
        groups: &[u8],
    ) -> Result<Vec<DigestColumn>, DigestError> {
        let source = reference::column(cells, channels);
        let mut fold = DigestFold::new(delta, channels, source_order, groups)?;
        for index in 0..source.len() {
            fold.push_cell(source.cell(index))?;
        }
        fold.finish()
    }

    fn assert_streams_like_the_law(cells: &[RefCell], channels: Channels, delta: f64, finest: u8) {
        let groups: Vec<u8> = (1..=finest).rev().collect();
        let columns = stream(cells, channels, delta, 4, &groups).unwrap();
        assert_eq!(columns.len(), groups.len());
        for (group, column) in groups.iter().zip(&columns) {
            let expected = reference::fold(cells, 1 << (2 * (4 - group)), delta, channels);
            assert_eq!(reference::cells(column), expected, "group {group}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn every_group_is_the_fold_of_the_source_cells(
            cells in reference::any_cells(256),
            located: bool,
            temporal: bool,
            delta in prop::sample::select(DELTAS),
            finest in 1..4_u8,
        ) {
            let channels = Channels { located, temporal };
            assert_streams_like_the_law(&cells, channels, delta, finest);
        }

        #[test]
        fn a_flat_fold_is_the_fold_of_its_source(
            cells in reference::any_cells(48),
            located: bool,
            temporal: bool,
            delta in prop::sample::select(DELTAS),
            per_target in prop::sample::select(&[1_usize, 2, 3, 4, 16, 48][..]),
        ) {
            let channels = Channels { located, temporal };
            let folded = fold_flat(&reference::column(&cells, channels), per_target, delta).unwrap();
            let expected = reference::fold(&cells, per_target, delta, channels);
            prop_assert_eq!(reference::cells(&folded), expected);
        }
    }

    #[test]
    fn long_runs_fold_like_short_ones() {
        let cells: Vec<RefCell> = (0..256_u32)
            .map(|cell| {
                let row = |row: u32| {
                    let hash = (cell * 97 + row).wrapping_mul(2_654_435_761);
                    ((hash >> 8) as f32 / 1e3 - 5e3, (hash % 7 + 1) as f32, 0, 0)
                };
                (0..cell % 61).map(row).collect()
            })
            .collect();
        for finest in 1..4 {
            assert_streams_like_the_law(&cells, Channels::default(), 100.0, finest);
        }
    }

    #[test]
    fn one_source_cell_passes_unchanged_through_all_levels() {
        // Rows out of order, which a merge would sort.
        let only: RefCell = vec![(2.0, 1.0, 0, 0), (-0.0, 3.0, 0, 0), (0.0, 3.0, 0, 0)];
        let mut cells = vec![RefCell::new(); 64];
        cells[37] = only.clone();
        let columns = stream(&cells, Channels::default(), 20.0, 3, &[2, 1, 0]).unwrap();
        for column in columns {
            let filled: Vec<_> = reference::cells(&column)
                .into_iter()
                .filter(|cell| !cell.is_empty())
                .collect();
            assert_eq!(filled, [reference::bits(&only)]);
        }
    }

    #[test]
    fn negative_zeros_keep_the_order_of_their_cells() {
        let cells = [
            vec![(0.0, 1.0, 0, 0)],
            vec![(-0.0, 1.0, 0, 0)],
            vec![(0.0, 1.0, 0, 0)],
            vec![(-0.0, 1.0, 0, 0)],
        ];
        let columns = stream(&cells, Channels::default(), 1e3, 1, &[0]).unwrap();
        let merged = cells.concat();
        assert_eq!(reference::cells(&columns[0]), [reference::bits(&merged)]);
    }

    #[test]
    fn groups_that_do_not_descend_by_one_are_refused() {
        for groups in [&[][..], &[3], &[4], &[2, 0], &[1, 2], &[2, 2]] {
            let fold = DigestFold::new(20.0, Channels::default(), 3, groups);
            assert!(
                matches!(fold, Err(DigestError::Groups { .. })),
                "{groups:?}"
            );
        }
    }

    #[test]
    fn budgets_that_are_no_scale_are_refused() {
        for delta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let fold = DigestFold::new(delta, Channels::default(), 3, &[2]);
            assert!(matches!(fold, Err(DigestError::Delta { .. })), "{delta}");
        }
    }

    #[test]
    fn an_unfinished_target_cell_is_refused() {
        let cells = vec![RefCell::new(); 6];
        let finished = stream(&cells, Channels::default(), 20.0, 2, &[1]);
        let expected = DigestError::CellCount {
            cells: 6,
            per_target: 4,
        };
        assert_eq!(finished, Err(expected.clone()));
        let column = reference::column(&cells, Channels::default());
        assert_eq!(fold_flat(&column, 4, 20.0), Err(expected));
        assert!(fold_flat(&column, 0, 20.0).is_err());
    }

    #[test]
    fn completed_cells_can_be_seen_before_the_end() {
        let mut fold = DigestFold::new(20.0, Channels::default(), 2, &[1, 0]).unwrap();
        for _ in 0..5 {
            fold.push_cell(DigestCell::default()).unwrap();
        }
        let lengths: Vec<usize> = fold.columns().iter().map(DigestColumn::len).collect();
        assert_eq!(lengths, [1, 0]);
    }

    #[test]
    fn merged_rows_of_two_base_cells_are_refused() {
        let cells = [
            vec![(1.0, 1.0, reference::area(0, 3), 0)],
            vec![(1.0, 1.0, reference::area(64, 3), 0)],
        ];
        let channels = Channels {
            located: true,
            temporal: false,
        };
        let column = reference::column(&cells, channels);
        assert!(matches!(
            fold_flat(&column, 2, 1.0),
            Err(DigestError::NoCommonAncestor { .. })
        ));
        assert_eq!(fold_flat(&column, 1, 1.0), Ok(column));
    }
}
