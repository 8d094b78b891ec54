//! Decoded cells, as they travel between the codecs and the folds.

use crate::kernels::ragged::RaggedColumn;
use crate::kernels::tdigest::DigestColumn;

/// A run of decoded cells of one array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cells {
    /// Little-endian numbers, one after the other.
    Dense(Vec<u8>),
    /// One byte string per cell.
    Ragged(RaggedColumn),
}

/// The same, borrowed.
#[derive(Debug, Clone, Copy)]
pub enum CellsRef<'a> {
    /// Little-endian numbers, one after the other.
    Dense(&'a [u8]),
    /// One byte string per cell.
    Ragged(&'a RaggedColumn),
}

impl Cells {
    /// The same, borrowed.
    pub fn as_ref(&self) -> CellsRef<'_> {
        match self {
            Self::Dense(bytes) => CellsRef::Dense(bytes),
            Self::Ragged(column) => CellsRef::Ragged(column),
        }
    }

    /// Appends cells of the same kind; cells of the other kind never meet here.
    pub fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::Dense(bytes), Self::Dense(more)) if bytes.is_empty() => *bytes = more,
            (Self::Dense(bytes), Self::Dense(more)) => bytes.extend_from_slice(&more),
            (Self::Ragged(column), Self::Ragged(more)) if column.is_empty() => *column = more,
            (Self::Ragged(column), Self::Ragged(more)) => column.append(&more),
            (Self::Dense(_), Self::Ragged(_)) | (Self::Ragged(_), Self::Dense(_)) => {}
        }
    }

    /// Appends `n_cells` cells that hold `fill`; a ragged cell's fill is no bytes.
    pub fn push_fill(&mut self, fill: &[u8], n_cells: usize) {
        match self {
            Self::Dense(bytes) => bytes.extend(fill.repeat(n_cells)),
            Self::Ragged(column) => (0..n_cells).for_each(|_| column.push(&[])),
        }
    }
}

/// The decoded cells of one declared field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldCells {
    /// Little-endian numbers of an exact or packed field.
    Dense(Vec<u8>),
    /// Digests with their declared companions.
    Digest(DigestColumn),
}

impl FieldCells {
    /// Number of cells, of `width` bytes each where they are numbers.
    pub fn n_cells(&self, width: usize) -> usize {
        match self {
            Self::Dense(bytes) => bytes.len() / width,
            Self::Digest(column) => column.len(),
        }
    }

    /// Appends cells of the same field; cells of the other kind never meet here.
    pub fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::Dense(bytes), Self::Dense(more)) => bytes.extend_from_slice(more),
            (Self::Digest(column), Self::Digest(more)) => column.append(more),
            (Self::Dense(_), Self::Digest(_)) | (Self::Digest(_), Self::Dense(_)) => {}
        }
    }

    /// The cells of the field's arrays: the payload, then the declared companions.
    pub fn arrays(&self) -> impl Iterator<Item = CellsRef<'_>> {
        let (dense, digest) = match self {
            Self::Dense(bytes) => (Some(CellsRef::Dense(bytes)), None),
            Self::Digest(column) => (None, Some(column)),
        };
        let ragged = digest.into_iter().flat_map(|column| {
            std::iter::once(&column.payload)
                .chain(&column.locations)
                .chain(&column.times)
        });
        dense.into_iter().chain(ragged.map(CellsRef::Ragged))
    }
}
