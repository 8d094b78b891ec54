//! The fold of one leaf into its column: every declared field, slab by slab.
//!
//! Groups at or above the boundary fold from the leaf's cells as they arrive; the
//! digests of coarser groups fold flat from the boundary's own. `format.md` section 6.

use std::ops::Range;

use crate::kernels::cells::FieldCells;
use crate::kernels::composition::{self, CompositionError, CompositionFold};
use crate::kernels::dense::{DenseColumn, DenseError, DenseFold};
use crate::kernels::groups::{FoldGroups, FoldGroupsError};
use crate::kernels::level::cells_with_data;
use crate::kernels::plan::{FoldPlan, cells_between};
use crate::kernels::tdigest::{Channels, DigestError, DigestFold, fold_flat, weight_total};
use crate::pyramid::{Field, FieldClass};

/// Why the cells of a leaf, or of a level, could not be folded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// A digest breaks its law.
    #[error("`{array}`, cell {cell}: {source}")]
    Digest {
        /// The field.
        array: String,
        /// Rank of the cell within the leaf, or among the cells given for the level.
        cell: u64,
        /// What is wrong with it.
        source: DigestError,
    },
    /// A digest column could not be folded further.
    #[error("`{array}`: {source}")]
    Digests {
        /// The field.
        array: String,
        /// What is wrong.
        source: DigestError,
    },
    /// A dense column could not be folded.
    #[error("`{array}`: {source}")]
    Dense {
        /// The field.
        array: String,
        /// What is wrong.
        source: DenseError,
    },
    /// A packed column could not be folded.
    #[error("`{array}`: {source}")]
    Packed {
        /// The field.
        array: String,
        /// What is wrong.
        source: CompositionError,
    },
    /// The plan's orders cannot be folded.
    #[error(transparent)]
    Plan(#[from] FoldGroupsError),
    /// The cells given do not make whole cells of a level.
    #[error("{cells} cells do not make whole cells of {per_target} each")]
    Targets {
        /// Cells given.
        cells: u64,
        /// Source cells of one target cell.
        per_target: usize,
    },
    /// The arrays of a level were given different numbers of cells.
    #[error("`{array}` was given {given} cells where the others have {expected}")]
    Uneven {
        /// The field.
        array: String,
        /// Cells given for one of its arrays.
        given: usize,
        /// Cells given for the arrays before it.
        expected: usize,
    },
    /// The cells given for a field are not of its class.
    #[error("`{array}` was given cells of another class")]
    Class {
        /// The field.
        array: String,
    },
}

impl FoldError {
    /// The field the fault is about, when it is one field's.
    pub fn array(&self) -> Option<&str> {
        match self {
            Self::Digest { array, .. }
            | Self::Digests { array, .. }
            | Self::Dense { array, .. }
            | Self::Packed { array, .. }
            | Self::Uneven { array, .. }
            | Self::Class { array } => Some(array),
            Self::Plan(_) | Self::Targets { .. } => None,
        }
    }
}

/// One folded group of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedGroup {
    /// Order of its cells.
    pub order: u8,
    /// The cells of each declared field.
    pub fields: Vec<FieldCells>,
}

/// The folded groups of a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldedLeaf {
    /// Finest first.
    pub groups: Vec<FoldedGroup>,
    /// Cells of the finest group in which any field holds anything.
    pub cells_with_data: u64,
}

/// Folds one leaf.
#[derive(Debug)]
pub struct ColumnFold<'a> {
    plan: &'a FoldPlan,
    fields: &'a [Field],
    folds: Vec<FieldFold>,
}

#[derive(Debug)]
enum FieldFold {
    Exact(DenseFold),
    Digest { fold: Box<DigestFold>, budget: f64 },
    Packed { fold: CompositionFold, of: usize },
}

impl<'a> ColumnFold<'a> {
    /// A fold of these fields under this plan.
    ///
    /// # Errors
    /// When the plan's orders or a field's fold budget cannot be folded with.
    pub fn new(plan: &'a FoldPlan, fields: &'a [Field]) -> Result<Self, FoldError> {
        let all = FoldGroups::new(plan.cell_order, plan.shard_order, &plan.groups)?;
        let from_leaf = FoldGroups::new(plan.cell_order, plan.shard_order, plan.from_leaf())?;
        let folds = fields
            .iter()
            .map(|field| match &field.class {
                FieldClass::Exact(exact) => Ok(FieldFold::Exact(DenseFold::new(
                    exact.method,
                    exact.fill,
                    &all,
                ))),
                FieldClass::Approximate(digest) => {
                    let channels = Channels {
                        located: digest.located,
                        temporal: digest.temporal,
                    };
                    DigestFold::new(digest.budget, channels, plan.cell_order, plan.from_leaf())
                        .map(|fold| FieldFold::Digest {
                            fold: Box::new(fold),
                            budget: digest.budget,
                        })
                        .map_err(|source| digests_error(field, source))
                }
                FieldClass::Packed(packed) => fields
                    .iter()
                    .position(|digest| digest.name == packed.of)
                    .map(|of| FieldFold::Packed {
                        fold: CompositionFold::new(&from_leaf),
                        of,
                    })
                    .ok_or_else(|| class_error(field)),
            })
            .collect::<Result<_, FoldError>>()?;
        Ok(Self {
            plan,
            fields,
            folds,
        })
    }

    /// Takes the next cells of every field. `slab` are their ranks within the leaf: a
    /// multiple of 256, or the whole leaf when that is smaller.
    ///
    /// # Errors
    /// When a cell breaks a law; the fold is then of no further use.
    pub fn push(&mut self, slab: Range<u64>, cells: &[FieldCells]) -> Result<(), FoldError> {
        for ((fold, field), column) in self.folds.iter_mut().zip(self.fields).zip(cells) {
            match (fold, column) {
                (FieldFold::Exact(fold), FieldCells::Dense(values)) => {
                    fold.push(values)
                        .map_err(|source| dense_error(field, source))?;
                }
                (FieldFold::Digest { fold, .. }, FieldCells::Digest(digests)) => {
                    for (cell, index) in slab.clone().zip(0..digests.len()) {
                        fold.push_cell(digests.cell(index))
                            .map_err(|source| digest_error(field, cell, source))?;
                    }
                }
                (FieldFold::Packed { fold, of }, FieldCells::Dense(words)) => {
                    let Some(FieldCells::Digest(digests)) = cells.get(*of) else {
                        return Err(class_error(field));
                    };
                    for ((cell, payload), word) in slab
                        .clone()
                        .zip(digests.payload.iter())
                        .zip(words_of(words))
                    {
                        let weight = weight_total(payload)
                            .map_err(|source| digest_error(field, cell, source))?;
                        fold.push_cell(word, weight);
                    }
                }
                _ => return Err(class_error(field)),
            }
        }
        Ok(())
    }

    /// The groups of the column.
    ///
    /// # Errors
    /// When not every cell of the leaf was given.
    pub fn finish(self) -> Result<FoldedLeaf, FoldError> {
        let (plan, fields) = (self.plan, self.fields);
        let mut weighed_by = Vec::new();
        let mut columns: Vec<Vec<FieldCells>> = Vec::with_capacity(fields.len());
        for (index, (fold, field)) in self.folds.into_iter().zip(fields).enumerate() {
            columns.push(match fold {
                FieldFold::Exact(fold) => {
                    let columns = fold.finish().map_err(|source| dense_error(field, source))?;
                    let bytes = columns.into_iter().map(DenseColumn::into_bytes);
                    bytes.map(FieldCells::Dense).collect()
                }
                FieldFold::Digest { fold, budget } => digest_columns(plan, *fold, budget)
                    .map_err(|source| digests_error(field, source))?,
                FieldFold::Packed { fold, of } => {
                    weighed_by.push((index, of));
                    let words = fold
                        .finish()
                        .map_err(|source| packed_error(field, source))?;
                    words.iter().map(|words| packed_cells(words)).collect()
                }
            });
        }
        for (index, of) in weighed_by {
            let coarser =
                packed_below_boundary(plan, &fields[index], &columns[index], &columns[of])?;
            columns[index].extend(coarser);
        }
        Ok(by_group(plan, fields, columns))
    }
}

/// Every group of a digest: those folded from the leaf, and those that fold flat from
/// the last of them, the boundary's.
fn digest_columns(
    plan: &FoldPlan,
    mut fold: DigestFold,
    budget: f64,
) -> Result<Vec<FieldCells>, DigestError> {
    let mut columns = fold.finish()?;
    let n_from_leaf = columns.len();
    for group in plan.from_boundary() {
        let per_target = cells_between(plan.block_order(), *group) as usize;
        columns.push(fold_flat(&columns[n_from_leaf - 1], per_target, budget)?);
    }
    Ok(columns.into_iter().map(FieldCells::Digest).collect())
}

/// The groups of a packed field that fold from the boundary's words, weighed by the
/// boundary's digests.
fn packed_below_boundary(
    plan: &FoldPlan,
    field: &Field,
    words: &[FieldCells],
    digests: &[FieldCells],
) -> Result<Vec<FieldCells>, FoldError> {
    let boundary = plan.from_leaf().len() - 1;
    let (Some(FieldCells::Dense(words)), Some(FieldCells::Digest(digests))) =
        (words.get(boundary), digests.get(boundary))
    else {
        return Err(class_error(field));
    };
    let words: Vec<u64> = words_of(words).collect();
    let weights: Vec<f64> = digests
        .payload
        .iter()
        .map(weight_total)
        .collect::<Result<_, _>>()
        .map_err(|source| digests_error(field, source))?;
    plan.from_boundary()
        .iter()
        .map(|group| {
            let per_target = cells_between(plan.block_order(), *group) as usize;
            composition::fold_flat(&words, &weights, per_target)
                .map(|words| packed_cells(&words))
                .map_err(|source| packed_error(field, source))
        })
        .collect()
}

/// Turns the columns of each field into the fields of each group.
fn by_group(plan: &FoldPlan, fields: &[Field], columns: Vec<Vec<FieldCells>>) -> FoldedLeaf {
    let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
    let groups: Vec<FoldedGroup> = plan
        .groups
        .iter()
        .map(|order| FoldedGroup {
            order: *order,
            fields: columns.iter_mut().filter_map(Iterator::next).collect(),
        })
        .collect();
    let cells_with_data = groups.first().map_or(0, |finest| {
        let n_cells = cells_between(finest.order, plan.shard_order) as usize;
        cells_with_data(fields, &finest.fields, n_cells)
    });
    FoldedLeaf {
        groups,
        cells_with_data,
    }
}

pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
}

pub(super) fn packed_cells(words: &[u64]) -> FieldCells {
    FieldCells::Dense(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}

pub(super) fn digest_error(field: &Field, cell: u64, source: DigestError) -> FoldError {
    FoldError::Digest {
        array: field.name.clone(),
        cell,
        source,
    }
}

pub(super) fn digests_error(field: &Field, source: DigestError) -> FoldError {
    FoldError::Digests {
        array: field.name.clone(),
        source,
    }
}

pub(super) fn dense_error(field: &Field, source: DenseError) -> FoldError {
    FoldError::Dense {
        array: field.name.clone(),
        source,
    }
}

pub(super) fn packed_error(field: &Field, source: CompositionError) -> FoldError {
    FoldError::Packed {
        array: field.name.clone(),
        source,
    }
}

pub(super) fn class_error(field: &Field) -> FoldError {
    FoldError::Class {
        array: field.name.clone(),
    }
}
