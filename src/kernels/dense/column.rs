//! The dense values of one group.

use super::{DenseError, FillValue};
use std::ops::Range;

/// The values of one dense array over one group of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DenseColumn {
    fill: FillValue,
    bytes: Vec<u8>,
}

impl DenseColumn {
    /// A column of little-endian values of the fill value's type.
    ///
    /// # Errors
    /// `Length` unless the bytes are whole values.
    pub fn new(fill: FillValue, bytes: Vec<u8>) -> Result<Self, DenseError> {
        let piece_bytes = fill.dtype().width();
        if !bytes.len().is_multiple_of(piece_bytes) {
            return Err(DenseError::Length {
                num_bytes: bytes.len(),
                piece_bytes,
            });
        }
        Ok(Self { fill, bytes })
    }

    /// Fill value, and with it the type.
    pub const fn fill(&self) -> FillValue {
        self.fill
    }

    /// Little-endian values in cell order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Little-endian values in cell order.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Number of cells.
    pub fn n_cells(&self) -> usize {
        self.bytes.len() / self.fill.dtype().width()
    }

    /// Whether leaving this cell unwritten would lose nothing: its value has the bits of the fill, or both are
    /// NaN. False beyond the last cell.
    pub fn is_fill(&self, cell: usize) -> bool {
        self.bits(cell).is_some_and(|bits| self.fill.is(bits))
    }

    /// Whether every one of these cells is fill, so that their chunk need not be written (`format.md` section 7).
    pub fn all_fill(&self, mut cells: Range<usize>) -> bool {
        cells.all(|cell| self.is_fill(cell))
    }

    /// Whether a fold would pass over this cell: NaN, or equal to the fill (`format.md` section 6). True beyond
    /// the last cell.
    pub fn is_missing(&self, cell: usize) -> bool {
        self.bits(cell)
            .is_none_or(|bits| self.fill.is_missing(bits))
    }

    /// Number of cells that hold a value, missing ones left out.
    pub fn count_present(&self) -> usize {
        let cells = 0..self.n_cells();
        cells.filter(|&cell| !self.is_missing(cell)).count()
    }

    fn bits(&self, cell: usize) -> Option<u64> {
        let width = self.fill.dtype().width();
        let value = self.bytes.chunks_exact(width).nth(cell)?;
        let mut bits = [0; 8];
        bits[..width].copy_from_slice(value);
        Some(u64::from_le_bytes(bits))
    }
}
