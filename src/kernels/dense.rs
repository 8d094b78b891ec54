//! The exact folds: sum, min and max of dense arrays, in the array's own type (`format.md` section 6).
//!
//! What is missing (NaN, or equal to the fill value) takes no part; a target with nothing present is the fill.

mod blocks;
mod column;
mod fill;
mod reduce;

pub use column::DenseColumn;
pub use fill::{DenseType, FillValue};

use super::groups::FoldGroups;
use blocks::{BlockFold, Blocks, fold_rows};
use reduce::{Element, Max, Min, Sum};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How an exact field folds, as a manifest names it (`format.md` section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExactMethod {
    /// Sum; integers wrap.
    Sum,
    /// Least value, the first of equal ones.
    Min,
    /// Greatest value, the first of equal ones.
    Max,
}

/// Why a dense fold, a fill value or a column was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DenseError {
    /// Not a dtype of a dense field.
    #[error("`{name}` is not a dense data type")]
    DataType {
        /// The refused name.
        name: String,
    },
    /// The fill value is none of this type, or does not fit it.
    #[error("`{value}` is not a fill value of `{}`", dtype.name())]
    Fill {
        /// The type of the array.
        dtype: DenseType,
        /// The refused value.
        value: serde_json::Value,
    },
    /// The bytes are not whole values, whole blocks or whole targets.
    #[error("{num_bytes} bytes do not divide into pieces of {piece_bytes} bytes")]
    Length {
        /// Bytes given.
        num_bytes: usize,
        /// What their number must be a multiple of; 0 when nothing can be.
        piece_bytes: usize,
    },
    /// The block was left unfinished, or was given too much.
    #[error("dense fold was given {given} cells where its block has {expected}")]
    CellCount {
        /// Cells given.
        given: u64,
        /// Cells of the block.
        expected: u64,
    },
}

/// Runs `$body` with `$T` bound to the Rust type of a [`DenseType`].
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_type!(@ $dtype, $T, $body, Int8 i8, Int16 i16, Int32 i32, Int64 i64, Uint8 u8,
            Uint16 u16, Uint32 u32, Uint64 u64, Float32 f32, Float64 f64)
    };
    (@ $dtype:expr, $T:ident, $body:expr, $($variant:ident $native:ty),+) => {
        match $dtype {
            $($crate::kernels::dense::DenseType::$variant => {
                type $T = $native;
                $body
            })+
        }
    };
}
use with_type;

/// Folds the cells of one block, for example a leaf, into every group at once, in one pass.
///
/// Equal bit for bit to folding each target's row of `4^k` values in one piece, and holds only the output and
/// four partial results per order: rows of up to 256 values are folded whole, and everything above is a balanced
/// tree over those (see [`super::pairwise::pairwise_sum`]).
pub struct DenseFold {
    blocks: Box<dyn BlockFold>,
    fill: FillValue,
    piece_cells: usize,
    given: u64,
    expected: u64,
}

impl DenseFold {
    /// A fold of one block of an array with this fill value, and so of its type.
    pub fn new(method: ExactMethod, fill: FillValue, groups: &FoldGroups) -> Self {
        let blocks: Box<dyn BlockFold> = with_type!(fill.dtype(), T => {
            let native = T::from_pattern(fill.bits());
            match method {
                ExactMethod::Sum => Box::new(Blocks::<T, Sum>::new(native, groups)),
                ExactMethod::Min => Box::new(Blocks::<T, Min>::new(native, groups)),
                ExactMethod::Max => Box::new(Blocks::<T, Max>::new(native, groups)),
            }
        });
        Self {
            blocks,
            fill,
            piece_cells: blocks::block_cells(groups),
            given: 0,
            expected: groups.source_cells(),
        }
    }

    /// Takes the little-endian values of the next cells: any multiple of 256 cells, or of the whole block when
    /// that is smaller.
    ///
    /// # Errors
    /// `Length` for any other number of bytes, `CellCount` when the block overflows; nothing is taken then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), DenseError> {
        let width = self.fill.dtype().width();
        let piece_bytes = self.piece_cells * width;
        if !bytes.len().is_multiple_of(piece_bytes) {
            return Err(DenseError::Length {
                num_bytes: bytes.len(),
                piece_bytes,
            });
        }
        let given = self.given + (bytes.len() / width) as u64;
        if given > self.expected {
            return Err(self.wrong_count(given));
        }
        self.given = given;
        self.blocks.push(bytes);
        Ok(())
    }

    /// Takes that many cells of which none was ever written, so all fill.
    ///
    /// # Errors
    /// As [`DenseFold::push`], with `Length` in bytes.
    pub fn push_fill(&mut self, cells: usize) -> Result<(), DenseError> {
        let width = self.fill.dtype().width();
        if !cells.is_multiple_of(self.piece_cells) {
            return Err(DenseError::Length {
                num_bytes: cells * width,
                piece_bytes: self.piece_cells * width,
            });
        }
        let given = self.given + cells as u64;
        if given > self.expected {
            return Err(self.wrong_count(given));
        }
        self.given = given;
        self.blocks.push_missing(cells / self.piece_cells);
        Ok(())
    }

    /// One column per group, finest first.
    ///
    /// # Errors
    /// `CellCount` unless exactly the cells of the block were given.
    pub fn finish(self) -> Result<Vec<DenseColumn>, DenseError> {
        if self.given != self.expected {
            return Err(self.wrong_count(self.given));
        }
        let columns = self.blocks.finish().into_iter();
        columns
            .map(|bytes| DenseColumn::new(self.fill, bytes))
            .collect()
    }

    fn wrong_count(&self, given: u64) -> DenseError {
        DenseError::CellCount {
            given,
            expected: self.expected,
        }
    }
}

impl fmt::Debug for DenseFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenseFold")
            .field("fill", &self.fill)
            .field("given", &self.given)
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}

/// Folds each `per_target` consecutive cells, of any number, into one: little-endian values of an array with
/// this fill value in, one value per target out.
///
/// # Errors
/// `Length` unless the bytes are whole targets.
pub fn fold_flat(
    method: ExactMethod,
    fill: FillValue,
    bytes: &[u8],
    per_target: usize,
) -> Result<DenseColumn, DenseError> {
    let piece_bytes = per_target.saturating_mul(fill.dtype().width());
    if per_target == 0 || !bytes.len().is_multiple_of(piece_bytes) {
        return Err(DenseError::Length {
            num_bytes: bytes.len(),
            piece_bytes,
        });
    }
    let folded = with_type!(fill.dtype(), T => {
        let native = T::from_pattern(fill.bits());
        match method {
            ExactMethod::Sum => fold_rows::<T, Sum>(native, bytes, per_target),
            ExactMethod::Min => fold_rows::<T, Min>(native, bytes, per_target),
            ExactMethod::Max => fold_rows::<T, Max>(native, bytes, per_target),
        }
    });
    DenseColumn::new(fill, folded)
}

#[cfg(test)]
mod tests;
