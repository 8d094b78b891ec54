//! Digests as a ragged array holds them.

use std::fmt;

use super::error::DigestError;
use crate::kernels::pairwise::pairwise_sum;
use crate::kernels::ragged::RaggedColumn;

/// Bytes of one payload row, and of one companion word.
pub(super) const ROW_BYTES: usize = 8;

/// A companion of a digest: one word per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Morton words, the `{field}_locations` array.
    Locations,
    /// Toc words, the `{field}_times` array.
    Times,
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locations => "locations",
            Self::Times => "times",
        })
    }
}

/// Which companions a digest field declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Whether each row has a morton word.
    pub located: bool,
    /// Whether each row has a toc word.
    pub temporal: bool,
}

impl Channels {
    /// The declared companions, in the order in which they decide ties (`format.md` section 6).
    pub fn declared(self) -> &'static [Channel] {
        match (self.located, self.temporal) {
            (false, false) => &[],
            (true, false) => &[Channel::Locations],
            (false, true) => &[Channel::Times],
            (true, true) => &[Channel::Locations, Channel::Times],
        }
    }
}

/// One digest: `k` rows and, where declared, `k` words per companion; all empty when nothing was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestCell<'a> {
    /// Little-endian `f32` pairs (mean, weight), 8 bytes per row.
    pub payload: &'a [u8],
    /// Little-endian morton words, 8 bytes per row.
    pub locations: Option<&'a [u8]>,
    /// Little-endian toc words, 8 bytes per row.
    pub times: Option<&'a [u8]>,
}

impl<'a> DigestCell<'a> {
    /// The words of one companion.
    pub fn companion(&self, channel: Channel) -> Option<&'a [u8]> {
        match channel {
            Channel::Locations => self.locations,
            Channel::Times => self.times,
        }
    }
}

/// The digests of the cells of a group, in cell order: the payload array and its companions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestColumn {
    /// Little-endian `f32` pairs (mean, weight), 8 bytes per row.
    pub payload: RaggedColumn,
    /// Little-endian morton words, 8 bytes per row, for as many cells as the payload.
    pub locations: Option<RaggedColumn>,
    /// Little-endian toc words, 8 bytes per row, for as many cells as the payload.
    pub times: Option<RaggedColumn>,
}

impl DigestColumn {
    /// A column without cells, with these companions.
    pub fn new(channels: Channels) -> Self {
        Self {
            payload: RaggedColumn::new(),
            locations: channels.located.then(RaggedColumn::new),
            times: channels.temporal.then(RaggedColumn::new),
        }
    }

    /// Which companions the column has.
    pub fn channels(&self) -> Channels {
        Channels {
            located: self.locations.is_some(),
            temporal: self.times.is_some(),
        }
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Whether the column has no cells at all.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// The digest of cell `index`.
    ///
    /// # Panics
    /// As slices do, when `index` is not below the number of cells of the payload or of a companion.
    pub fn cell(&self, index: usize) -> DigestCell<'_> {
        DigestCell {
            payload: self.payload.cell(index),
            locations: self.locations.as_ref().map(|words| words.cell(index)),
            times: self.times.as_ref().map(|words| words.cell(index)),
        }
    }

    /// Adds a digest; a companion the column does not have is left out, one the digest does not have
    /// becomes empty.
    pub fn push(&mut self, cell: DigestCell<'_>) {
        self.payload.push(cell.payload);
        if let Some(locations) = &mut self.locations {
            locations.push(cell.locations.unwrap_or_default());
        }
        if let Some(times) = &mut self.times {
            times.push(cell.times.unwrap_or_default());
        }
    }

    /// Adds the digests of `other` behind those of this column, with companions as
    /// [`push`](Self::push) has them.
    pub fn append(&mut self, other: &Self) {
        self.payload.append(&other.payload);
        for (words, more) in [
            (&mut self.locations, &other.locations),
            (&mut self.times, &other.times),
        ] {
            match (words, more) {
                (Some(words), Some(more)) => words.append(more),
                (Some(words), None) => (0..other.len()).for_each(|_| words.push(&[])),
                (None, _) => {}
            }
        }
    }

    /// The companion arrays, in the order of [`Channels::declared`].
    pub(super) fn companions_mut(&mut self) -> impl Iterator<Item = &mut RaggedColumn> {
        self.locations.iter_mut().chain(self.times.iter_mut())
    }

    /// Ends the cell whose rows were written to the payload and the companions.
    pub(super) fn close_cell(&mut self) {
        self.payload.close_cell();
        self.companions_mut().for_each(RaggedColumn::close_cell);
    }
}

/// Sum of the weights of a digest payload, as numpy sums them in `f64` (`format.md` section 6); 0 for
/// an empty payload.
///
/// # Errors
/// When the payload is not made of whole rows of 8 bytes.
pub fn weight_total(payload: &[u8]) -> Result<f64, DigestError> {
    let (rows, rest) = payload.as_chunks::<ROW_BYTES>();
    if !rest.is_empty() {
        return Err(DigestError::PayloadLength {
            num_bytes: payload.len(),
        });
    }
    let weights: Vec<f64> = rows
        .iter()
        .map(|&[_, _, _, _, a, b, c, d]| f64::from(f32::from_le_bytes([a, b, c, d])))
        .collect();
    Ok(0.0 + pairwise_sum(&weights))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_added_in_double_precision() {
        let rows = [(1.0_f32, 16_777_216.0_f32), (2.0, 1.0), (3.0, 1.0)];
        let payload: Vec<u8> = rows
            .iter()
            .flat_map(|(mean, weight)| [mean.to_le_bytes(), weight.to_le_bytes()])
            .flatten()
            .collect();
        assert_eq!(weight_total(&payload), Ok(16_777_218.0));
        assert_eq!(weight_total(&[]).map(f64::to_bits), Ok(0));
        assert_eq!(
            weight_total(&payload[..12]),
            Err(DigestError::PayloadLength { num_bytes: 12 })
        );
    }

    #[test]
    fn a_column_gives_back_its_cells() {
        for (located, temporal) in [(false, false), (true, false), (false, true), (true, true)] {
            let channels = Channels { located, temporal };
            let mut column = DigestColumn::new(channels);
            let cell = DigestCell {
                payload: &[1; 8],
                locations: located.then_some(&[2; 8]),
                times: temporal.then_some(&[3; 8]),
            };
            column.push(DigestCell::default());
            column.push(cell);
            assert_eq!(column.channels(), channels);
            assert_eq!(column.cell(1), cell);

            let mut twice = column.clone();
            twice.append(&column);
            assert_eq!((twice.len(), twice.cell(1)), (4, twice.cell(3)));
            assert_eq!((twice.cell(2), twice.cell(3)), (column.cell(0), cell));
            twice.append(&DigestColumn {
                payload: [[7; 8].as_slice()].into_iter().collect(),
                ..DigestColumn::default()
            });
            assert_eq!(twice.cell(4).payload, [7; 8]);
            assert!(twice.companions_mut().all(|words| words.is_empty_cell(4)));
            assert!(
                column
                    .companions_mut()
                    .all(|words| words.is_empty_cell(0) && words.len() == 2)
            );
        }
    }
}
