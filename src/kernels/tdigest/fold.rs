//! The folds others call: streaming over levels, and flat.

use super::cell::{Channels, DigestCell, DigestColumn};
use super::error::DigestError;
use super::level::LevelFold;
use super::scale::Scale;

/// Finest order there is; four to this power still counts cells in a `usize`.
const MAX_ORDER: u8 = 29;

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
    /// When `delta` is not a positive finite number, or when there are no groups, or when they are not below
    /// the source cells or not contiguous, or when the source cells are of no order there is.
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
        let contiguous = groups
            .windows(2)
            .all(|pair| pair[0].checked_sub(1) == Some(pair[1]));
        if finest >= source_order || source_order > MAX_ORDER || !contiguous {
            return Err(refused());
        }
        let per_target = 1 << (2 * (source_order - finest));
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
        with_lanes!(&self.0, fold => fold.columns())
    }

    /// Takes the folded columns: one per group, finest first. The fold is then ready for the cells of
    /// another leaf, and keeps its memory for them.
    ///
    /// # Errors
    /// When the cells that were pushed do not fill the last cell of the coarsest group.
    pub fn finish(&mut self) -> Result<Vec<DigestColumn>, DigestError> {
        with_lanes!(&mut self.0, fold => fold.finish())
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
        assert!(DigestFold::new(20.0, Channels::default(), 30, &[29]).is_err());
        for groups in [
            &[][..],
            &[3],
            &[4],
            &[255],
            &[2, 0],
            &[1, 2],
            &[2, 2],
            &[0, 255],
        ] {
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
    fn a_finished_fold_is_ready_for_another_leaf() {
        let channels = Channels::default();
        let cells = |mean: f32| vec![vec![(mean, 1.0, 0, 0), (mean + 1.0, 2.0, 0, 0)]; 16];
        let mut fold = DigestFold::new(3.0, channels, 2, &[1, 0]).unwrap();
        for leaf in [cells(1.0), cells(-7.0)] {
            let source = reference::column(&leaf, channels);
            for index in 0..source.len() {
                fold.push_cell(source.cell(index)).unwrap();
            }
            let expected = stream(&leaf, channels, 3.0, 2, &[1, 0]);
            assert_eq!(fold.finish(), expected);
        }
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
