//! The fold of one level of a ladder: the members of many columns, one behind the other,
//! into the cells of the level (`format.md` section 9, "stage-merge").

use std::ops::Range;

use crate::kernels::cells::{CellsRef, FieldCells};
use crate::kernels::column::{
    FoldError, class_error, dense_error, digest_error, digests_error, packed_cells, packed_error,
    words_of,
};
use crate::kernels::composition;
use crate::kernels::dense::{self, DenseError};
use crate::kernels::tdigest::{Channels, DigestColumn, DigestFold, weight_total};
use crate::pyramid::{Field, FieldClass};

/// Folds every `per_target` consecutive source cells of all fields into one target cell,
/// by the laws of `format.md` section 6.
///
/// Resident are the source cells of one target, of a push what is at hand, and the targets
/// that were not taken.
#[derive(Debug)]
pub struct LevelFold<'a> {
    fields: &'a [Field],
    per_target: usize,
    /// Source cells of the target at hand.
    waiting: usize,
    /// Source cells of all targets.
    pushed: u64,
    folds: Vec<FieldFold>,
    /// The targets that were not taken.
    done: Vec<FieldCells>,
    n_done: usize,
}

/// The source cells of the target at hand.
#[derive(Debug)]
enum FieldFold {
    Exact {
        values: Vec<u8>,
    },
    Digest(Box<DigestFold>),
    Packed {
        words: Vec<u64>,
        weights: Vec<f64>,
        of: usize,
    },
}

impl<'a> LevelFold<'a> {
    /// A fold of these fields.
    ///
    /// # Errors
    /// When `per_target` is 0, when a field's fold budget cannot be folded with, or when the
    /// digest that weighs a packed field is not among the fields.
    pub fn new(fields: &'a [Field], per_target: usize) -> Result<Self, FoldError> {
        if per_target == 0 {
            return Err(FoldError::Targets {
                cells: 0,
                per_target,
            });
        }
        let folds = fields
            .iter()
            .map(|field| FieldFold::new(fields, field, per_target))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            fields,
            per_target,
            waiting: 0,
            pushed: 0,
            folds,
            done: no_cells(fields),
            n_done: 0,
        })
    }

    /// Takes the next source cells of every field, any number of them.
    ///
    /// # Errors
    /// When the fields are not of as many cells each, or when a cell breaks a law; the fold
    /// is then of no further use.
    pub fn push(&mut self, cells: &[FieldCells]) -> Result<(), FoldError> {
        let n_cells = count(self.fields, cells)?;
        let complete = (self.waiting + n_cells) / self.per_target;
        let open = (complete * self.per_target).saturating_sub(self.waiting);
        self.gather(cells, 0..open)?;
        if complete > 0 {
            self.close(complete)?;
        }
        self.gather(cells, open..n_cells)
    }

    /// Takes the targets that are complete so far, per field, and forgets them; their
    /// number.
    pub fn take(&mut self) -> (usize, Vec<FieldCells>) {
        let n_done = std::mem::take(&mut self.n_done);
        let done = std::mem::replace(&mut self.done, no_cells(self.fields));
        (n_done, done)
    }

    /// Ends the fold, with the targets that were not taken.
    ///
    /// # Errors
    /// `Targets` when the last target is incomplete.
    pub fn finish(self) -> Result<(usize, Vec<FieldCells>), FoldError> {
        if self.waiting > 0 {
            return Err(FoldError::Targets {
                cells: self.pushed,
                per_target: self.per_target,
            });
        }
        Ok((self.n_done, self.done))
    }

    fn gather(&mut self, cells: &[FieldCells], range: Range<usize>) -> Result<(), FoldError> {
        for ((fold, field), column) in self.folds.iter_mut().zip(self.fields).zip(cells) {
            fold.gather(field, column, cells, range.clone(), self.pushed)?;
        }
        self.waiting += range.len();
        self.pushed += range.len() as u64;
        Ok(())
    }

    /// Folds what was gathered, which makes `complete` whole targets.
    fn close(&mut self, complete: usize) -> Result<(), FoldError> {
        for ((fold, field), done) in self.folds.iter_mut().zip(self.fields).zip(&mut self.done) {
            done.append(&fold.close(field, self.per_target)?);
        }
        self.waiting = 0;
        self.n_done += complete;
        Ok(())
    }
}

impl FieldFold {
    fn new(fields: &[Field], field: &Field, per_target: usize) -> Result<Self, FoldError> {
        match &field.class {
            FieldClass::Exact(_) => Ok(Self::Exact { values: Vec::new() }),
            FieldClass::Approximate(digest) => {
                DigestFold::flat(digest.budget, channels_of(field), per_target)
                    .map(|fold| Self::Digest(Box::new(fold)))
                    .map_err(|source| digests_error(field, source))
            }
            FieldClass::Packed(packed) => fields
                .iter()
                .position(|digest| digest.name == packed.of)
                .map(|of| Self::Packed {
                    words: Vec::new(),
                    weights: Vec::new(),
                    of,
                })
                .ok_or_else(|| class_error(field)),
        }
    }

    /// Takes these of the field's cells, the first of which is cell `pushed` of the fold.
    fn gather(
        &mut self,
        field: &Field,
        column: &FieldCells,
        cells: &[FieldCells],
        range: Range<usize>,
        pushed: u64,
    ) -> Result<(), FoldError> {
        let ranked = (pushed..).zip(range.clone());
        match (self, column) {
            (Self::Exact { values }, FieldCells::Dense(bytes)) => {
                let width = field.dense_fill().dtype().width();
                values.extend_from_slice(&bytes[range.start * width..range.end * width]);
            }
            (Self::Digest(fold), FieldCells::Digest(digests)) => {
                for (rank, index) in ranked {
                    fold.push_cell(digests.cell(index))
                        .map_err(|source| digest_error(field, rank, source))?;
                }
            }
            (Self::Packed { words, weights, of }, FieldCells::Dense(bytes)) => {
                let Some(FieldCells::Digest(digests)) = cells.get(*of) else {
                    return Err(class_error(field));
                };
                words.extend(words_of(bytes).take(range.end).skip(range.start));
                for (rank, index) in ranked {
                    let weight = weight_total(digests.payload.cell(index))
                        .map_err(|source| digest_error(field, rank, source))?;
                    weights.push(weight);
                }
            }
            _ => return Err(class_error(field)),
        }
        Ok(())
    }

    /// The targets of the cells gathered since the last call, which are whole targets.
    fn close(&mut self, field: &Field, per_target: usize) -> Result<FieldCells, FoldError> {
        match (self, &field.class) {
            (Self::Exact { values }, FieldClass::Exact(exact)) => {
                let folded = dense::fold_flat(exact.method, exact.fill, values, per_target)
                    .map_err(|source| dense_error(field, source))?;
                values.clear();
                Ok(FieldCells::Dense(folded.into_bytes()))
            }
            (Self::Digest(fold), _) => {
                let folded = fold
                    .finish()
                    .map_err(|source| digests_error(field, source))?
                    .pop();
                let folded = folded.unwrap_or_else(|| DigestColumn::new(channels_of(field)));
                Ok(FieldCells::Digest(folded))
            }
            (Self::Packed { words, weights, .. }, _) => {
                let folded = composition::fold_flat(words, weights, per_target)
                    .map_err(|source| packed_error(field, source))?;
                words.clear();
                weights.clear();
                Ok(packed_cells(&folded))
            }
            (Self::Exact { .. }, _) => Err(class_error(field)),
        }
    }
}

/// How many cells of a group hold anything (`format.md` section 7, `cells_with_data`):
/// the group's `n_cells` cells of these fields, of which a cell counts once. What is
/// missing to a fold is nothing here, too, whatever the bits of its NaN.
pub fn cells_with_data(fields: &[Field], cells: &[FieldCells], n_cells: usize) -> u64 {
    let mut seen = vec![false; n_cells];
    for (field, cells) in fields.iter().zip(cells) {
        match cells {
            FieldCells::Digest(digests) => {
                for (seen, cell) in seen.iter_mut().zip(digests.payload.iter()) {
                    *seen |= !cell.is_empty();
                }
            }
            FieldCells::Dense(bytes) => {
                let missing = field.dense_fill().missing_of(bytes);
                for (seen, is_missing) in seen.iter_mut().zip(missing) {
                    *seen |= !is_missing;
                }
            }
        }
    }
    seen.into_iter().filter(|seen| *seen).count() as u64
}

/// The number of cells, which every array of every field must have.
fn count(fields: &[Field], cells: &[FieldCells]) -> Result<usize, FoldError> {
    let mut expected = None;
    for (index, field) in fields.iter().enumerate() {
        let column = cells.get(index).ok_or_else(|| class_error(field))?;
        let is_digest = matches!(field.class, FieldClass::Approximate(_));
        if is_digest != matches!(column, FieldCells::Digest(_)) {
            return Err(class_error(field));
        }
        for array in column.arrays() {
            let given = match array {
                CellsRef::Dense(bytes) => whole_values(field, bytes)?,
                CellsRef::Ragged(column) => column.len(),
            };
            let expected = *expected.get_or_insert(given);
            if given != expected {
                return Err(FoldError::Uneven {
                    array: field.name.clone(),
                    given,
                    expected,
                });
            }
        }
    }
    Ok(expected.unwrap_or(0))
}

fn whole_values(field: &Field, bytes: &[u8]) -> Result<usize, FoldError> {
    let width = field.dense_fill().dtype().width();
    if bytes.len().is_multiple_of(width) {
        return Ok(bytes.len() / width);
    }
    let source = DenseError::Length {
        num_bytes: bytes.len(),
        piece_bytes: width,
    };
    Err(dense_error(field, source))
}

fn channels_of(field: &Field) -> Channels {
    let (located, temporal) = field.channels();
    Channels { located, temporal }
}

fn no_cells(fields: &[Field]) -> Vec<FieldCells> {
    fields.iter().map(|field| field.fill_cells(0)).collect()
}

#[cfg(test)]
pub(crate) mod tests;
