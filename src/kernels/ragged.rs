//! A column whose cells are byte strings of different lengths, as a ragged array holds them.

use std::ops::Range;

/// Cells of bytes, one behind the other (`format.md` section 3, "Ragged array").
///
/// The bytes of cell `i` end where those of cell `i + 1` begin; an empty cell is one without bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RaggedColumn {
    bytes: Vec<u8>,
    /// For each cell, where its bytes end.
    ends: Vec<usize>,
}

impl std::fmt::Debug for RaggedColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RaggedColumn")
            .field("cells", &self.len())
            .field("num_bytes", &self.num_bytes())
            .finish()
    }
}

impl RaggedColumn {
    /// A column without cells.
    pub fn new() -> Self {
        Self::default()
    }

    /// A column without cells, with room for `cells` cells of `num_bytes` bytes in total.
    pub fn with_capacity(cells: usize, num_bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(num_bytes),
            ends: Vec::with_capacity(cells),
        }
    }

    /// A column of cells that lie one behind the other: cell `i` is
    /// `bytes[offsets[i]..offsets[i + 1]]`, the first at 0.
    pub fn from_offsets(bytes: Vec<u8>, offsets: &[usize]) -> Self {
        Self {
            bytes,
            ends: offsets.get(1..).unwrap_or_default().to_vec(),
        }
    }

    /// Where each cell begins, and where the last one ends: one number more than cells.
    pub fn offsets(&self) -> Vec<usize> {
        std::iter::once(0)
            .chain(self.ends.iter().copied())
            .collect()
    }

    /// The bytes of all cells, one behind the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Keeps the first `cells` cells.
    pub fn truncate(&mut self, cells: usize) {
        self.ends.truncate(cells);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the column has no cells at all.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Number of bytes of all cells together.
    pub fn num_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of cells that have bytes.
    pub fn num_filled(&self) -> usize {
        self.iter().filter(|cell| !cell.is_empty()).count()
    }

    /// The bytes of cell `index`.
    ///
    /// # Panics
    /// As slices do, when `index` is not below [`len`](Self::len).
    pub fn cell(&self, index: usize) -> &[u8] {
        &self.bytes[self.range(index)]
    }

    /// Whether cell `index` has no bytes.
    ///
    /// # Panics
    /// As slices do, when `index` is not below [`len`](Self::len).
    pub fn is_empty_cell(&self, index: usize) -> bool {
        self.range(index).is_empty()
    }

    /// The cells in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + '_ {
        (0..self.len()).map(|index| self.cell(index))
    }

    /// Adds a cell with these bytes.
    pub fn push(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.close_cell();
    }

    /// Adds the cells of `other` behind those of this column.
    pub fn append(&mut self, other: &Self) {
        let offset = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| offset + end));
    }

    /// Removes all cells and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Writes a piece of the cell that the next [`close_cell`](Self::close_cell) ends.
    pub(crate) fn write(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// Ends the cell that was written piece by piece.
    pub(crate) fn close_cell(&mut self) {
        self.ends.push(self.bytes.len());
    }

    fn range(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[index]
    }
}

impl<'a> FromIterator<&'a [u8]> for RaggedColumn {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(cells: I) -> Self {
        let mut column = Self::new();
        for cell in cells {
            column.push(cell);
        }
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_were_pushed() {
        let cells: [&[u8]; 4] = [b"one", b"", b"three", b""];
        let column: RaggedColumn = cells.into_iter().collect();
        assert_eq!(column.len(), 4);
        assert_eq!(column.num_bytes(), 8);
        assert_eq!(column.num_filled(), 2);
        assert!(column.iter().eq(cells));
        assert!(column.is_empty_cell(1) && !column.is_empty_cell(2));
    }

    #[test]
    fn a_cell_written_in_pieces_is_one_cell() {
        let mut column = RaggedColumn::with_capacity(2, 8);
        column.write(b"ab");
        column.write(b"cd");
        column.close_cell();
        column.close_cell();
        assert!(column.iter().eq([b"abcd".as_slice(), b""]));
    }

    #[test]
    fn appended_cells_keep_their_bounds() {
        let mut column: RaggedColumn = [b"a".as_slice(), b""].into_iter().collect();
        let other: RaggedColumn = [b"bc".as_slice(), b"d"].into_iter().collect();
        column.append(&other);
        column.push(b"d");
        assert!(column.iter().eq([b"a".as_slice(), b"", b"bc", b"d", b"d"]));
        column.clear();
        assert!(column.is_empty());
    }
}
