//! A row of a digest as integers that sort as the law sorts rows.

use super::cell::{Channel, Channels, DigestCell, DigestColumn, ROW_BYTES};
use super::channel::is_valid;
use super::error::DigestError;

/// A row in `N` lanes: mean and weight in the first, then one companion word each.
///
/// The high half of lane 0 is the mean as an integer of the same order, in which both zeros are one
/// number. Bits 30..0 are those of the weight, which is positive and so sorts as its bits do. Bit 31
/// says that the mean was `-0.0`; it takes no part in comparisons, for numpy calls the zeros equal.
pub(super) type Row<const N: usize> = [u64; N];

/// Bit of lane 0 that says that the mean was `-0.0`.
const NEGATIVE_ZERO: u64 = 1 << 31;

/// Sign bit of an `f32`.
const SIGN: u32 = 1 << 31;

/// Exponent bits of an `f32`, all set in infinities and NaNs.
const EXPONENT: u32 = 0x7f80_0000;

/// A row that is behind every real one: no finite mean has such a lane 0.
pub(super) const fn sentinel<const N: usize>() -> Row<N> {
    [u64::MAX; N]
}

/// The part of a row that decides its place.
///
/// With `SIGNED` false the caller vouches that no row compared has a negative zero.
#[inline(always)]
pub(super) fn key<const N: usize, const SIGNED: bool>(row: &Row<N>) -> Row<N> {
    let mut key = *row;
    if SIGNED {
        key[0] &= !NEGATIVE_ZERO;
    }
    key
}

/// Whether `x` belongs before `y`; rows that are equal keep the order of their cells.
#[inline(always)]
pub(super) fn is_less<const N: usize, const SIGNED: bool>(x: &Row<N>, y: &Row<N>) -> bool {
    let (first, second) = (key::<N, SIGNED>(x)[0], key::<N, SIGNED>(y)[0]);
    if N > 1 && first == second {
        return words_are_less(x, y);
    }
    first < second
}

/// [`is_less`] of rows of equal mean and weight. Out of line, so that the common case stays free of branches
/// on data that no processor can foresee.
#[cold]
#[inline(never)]
fn words_are_less<const N: usize>(x: &Row<N>, y: &Row<N>) -> bool {
    x[1..] < y[1..]
}

#[inline(always)]
fn pack(mean: u32, weight: u32) -> u64 {
    let negative_zero = mean == SIGN;
    let unsigned = if negative_zero { 0 } else { mean };
    let ordinal = if unsigned & SIGN == 0 {
        unsigned | SIGN
    } else {
        !unsigned
    };
    u64::from(ordinal) << 32 | u64::from(negative_zero) << 31 | u64::from(weight)
}

/// Mean and weight of a row, each with the bits it was read with.
#[inline(always)]
pub(super) fn unpack(lane: u64) -> (f32, f32) {
    let ordinal = (lane >> 32) as u32;
    let low = lane as u32;
    let mean = if ordinal & SIGN == 0 {
        !ordinal
    } else {
        ordinal ^ SIGN
    };
    (
        f32::from_bits(mean | (low & SIGN)),
        f32::from_bits(low & !SIGN),
    )
}

/// What [`read_cell`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellRows {
    /// Number of rows.
    pub(super) count: usize,
    /// Whether a mean is `-0.0`.
    pub(super) negative_zero: bool,
}

/// Appends the rows of a digest to `rows`, in the order in which the cell has them.
///
/// # Errors
/// When the payload or a companion is not one that `format.md` section 6 allows; `rows` is then of no use.
#[inline]
pub(super) fn read_cell<const N: usize>(
    cell: DigestCell<'_>,
    channels: Channels,
    rows: &mut Vec<Row<N>>,
) -> Result<CellRows, DigestError> {
    let (payload, rest) = cell.payload.as_chunks::<ROW_BYTES>();
    if !rest.is_empty() {
        return Err(DigestError::PayloadLength {
            num_bytes: cell.payload.len(),
        });
    }
    refuse_undeclared(cell, channels)?;
    let start = rows.len();
    let (mut refused, mut negative_zero) = (false, false);
    rows.extend(payload.iter().map(|&[a, b, c, d, e, f, g, h]| {
        let mean = u32::from_le_bytes([a, b, c, d]);
        let weight = u32::from_le_bytes([e, f, g, h]);
        refused |= !is_finite(mean) | !is_positive(weight);
        negative_zero |= mean == SIGN;
        let mut row = [0; N];
        row[0] = pack(mean, weight);
        row
    }));
    if refused {
        name_refused_row(payload)?;
    }
    for (lane, &channel) in (1..N).zip(channels.declared()) {
        read_words(cell, channel, lane, &mut rows[start..])?;
    }
    Ok(CellRows {
        count: payload.len(),
        negative_zero,
    })
}

/// Writes rows as a payload and companions, bit for bit as they were read.
pub(super) fn write_rows<const N: usize>(rows: &[Row<N>], column: &mut DigestColumn) {
    for row in rows {
        let (mean, weight) = unpack(row[0]);
        column.payload.write(&row_bytes(mean, weight));
    }
    for (lane, words) in (1..N).zip(column.companions_mut()) {
        for row in rows {
            words.write(&row[lane].to_le_bytes());
        }
    }
    column.close_cell();
}

/// A payload row.
#[inline(always)]
pub(super) fn row_bytes(mean: f32, weight: f32) -> [u8; ROW_BYTES] {
    let bits = u64::from(weight.to_bits()) << 32 | u64::from(mean.to_bits());
    bits.to_le_bytes()
}

#[inline(always)]
fn is_finite(mean: u32) -> bool {
    mean & EXPONENT != EXPONENT
}

#[inline(always)]
fn is_positive(weight: u32) -> bool {
    weight.wrapping_sub(1) < EXPONENT - 1
}

fn refuse_undeclared(cell: DigestCell<'_>, channels: Channels) -> Result<(), DigestError> {
    for (channel, declared) in [
        (Channel::Locations, channels.located),
        (Channel::Times, channels.temporal),
    ] {
        if cell.companion(channel).is_some() != declared {
            return Err(DigestError::Companion { channel, declared });
        }
    }
    Ok(())
}

#[inline]
fn read_words<const N: usize>(
    cell: DigestCell<'_>,
    channel: Channel,
    lane: usize,
    rows: &mut [Row<N>],
) -> Result<(), DigestError> {
    let bytes = cell.companion(channel).unwrap_or_default();
    let (words, rest) = bytes.as_chunks::<ROW_BYTES>();
    if !rest.is_empty() {
        return Err(DigestError::CompanionLength {
            channel,
            num_bytes: bytes.len(),
        });
    }
    if words.len() != rows.len() {
        return Err(DigestError::RowCount {
            channel,
            rows: rows.len(),
            words: words.len(),
        });
    }
    let mut refused = false;
    for (row, word) in rows.iter_mut().zip(words) {
        row[lane] = u64::from_le_bytes(*word);
        refused |= !is_valid(channel, row[lane]);
    }
    if refused {
        name_refused_word(channel, words)?;
    }
    Ok(())
}

/// Names the first row for which [`read_cell`] refuses a payload.
#[cold]
fn name_refused_row(payload: &[[u8; ROW_BYTES]]) -> Result<(), DigestError> {
    for (row, &[a, b, c, d, e, f, g, h]) in payload.iter().enumerate() {
        let mean = f32::from_le_bytes([a, b, c, d]);
        let weight = f32::from_le_bytes([e, f, g, h]);
        if !mean.is_finite() {
            return Err(DigestError::Mean { row, mean });
        }
        if !is_positive(weight.to_bits()) {
            return Err(DigestError::Weight { row, weight });
        }
    }
    Ok(())
}

/// Names the first word for which [`read_cell`] refuses a companion.
#[cold]
fn name_refused_word(channel: Channel, words: &[[u8; ROW_BYTES]]) -> Result<(), DigestError> {
    for (row, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        if !is_valid(channel, word) {
            return Err(DigestError::Word { channel, row, word });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    const BOTH: Channels = Channels {
        located: true,
        temporal: true,
    };

    fn payload(rows: &[(f32, f32)]) -> Vec<u8> {
        rows.iter()
            .flat_map(|&(mean, weight)| row_bytes(mean, weight))
            .collect()
    }

    fn read(rows: &[(f32, f32)]) -> Result<CellRows, DigestError> {
        let cell = DigestCell {
            payload: &payload(rows),
            ..DigestCell::default()
        };
        read_cell::<1>(cell, Channels::default(), &mut Vec::new())
    }

    fn read_words(
        payload_rows: usize,
        locations: &[u64],
        times: &[u8],
    ) -> Result<CellRows, DigestError> {
        let locations: Vec<u8> = locations
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let cell = DigestCell {
            payload: &payload(&vec![(1.0, 1.0); payload_rows]),
            locations: Some(&locations),
            times: Some(times),
        };
        read_cell::<3>(cell, BOTH, &mut Vec::new())
    }

    proptest! {
        #[test]
        fn rows_come_back_bit_for_bit_and_sort_as_the_law_says(
            rows in prop::collection::vec(reference::any_row(), 1..40)
        ) {
            let column = reference::column(std::slice::from_ref(&rows), BOTH);
            let mut packed = Vec::new();
            let read = read_cell::<3>(column.cell(0), BOTH, &mut packed).unwrap();
            prop_assert_eq!(read.count, rows.len());
            let negative_zero = rows.iter().any(|row| row.0.to_bits() == SIGN);
            prop_assert_eq!(read.negative_zero, negative_zero);

            let mut written = DigestColumn::new(BOTH);
            write_rows(&packed, &mut written);
            prop_assert_eq!(written, column);

            for (x, a) in packed.iter().zip(&rows) {
                prop_assert!(is_less::<3, false>(x, &sentinel()));
                prop_assert!(is_less::<3, true>(x, &sentinel()));
                for (y, b) in packed.iter().zip(&rows) {
                    let less = reference::compare(a, b) == Ordering::Less;
                    prop_assert_eq!(is_less::<3, true>(x, y), less);
                    prop_assert_eq!(key::<3, true>(x) < key::<3, true>(y), less);
                }
            }
        }
    }

    #[test]
    fn means_that_are_not_finite_are_refused() {
        for mean in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let refused = read(&[(f32::MAX, 1.0), (mean, 1.0), (f32::NAN, 1.0)]);
            assert!(
                matches!(refused, Err(DigestError::Mean { row: 1, .. })),
                "{mean}"
            );
        }
    }

    #[test]
    fn weights_that_are_not_positive_and_finite_are_refused() {
        for weight in [0.0, -0.0, -1.0, f32::NAN, -f32::NAN, f32::INFINITY] {
            let refused = read(&[(1.0, f32::MAX), (1.0, f32::from_bits(1)), (1.0, weight)]);
            assert!(
                matches!(refused, Err(DigestError::Weight { row: 2, .. })),
                "{weight}"
            );
        }
    }

    #[test]
    fn payloads_and_companions_of_odd_lengths_are_refused() {
        let cell = DigestCell {
            payload: &[0; 12],
            ..DigestCell::default()
        };
        assert_eq!(
            read_cell::<1>(cell, Channels::default(), &mut Vec::new()),
            Err(DigestError::PayloadLength { num_bytes: 12 })
        );
        assert_eq!(
            read_words(1, &[1 << 60], &[1; 7]),
            Err(DigestError::CompanionLength {
                channel: Channel::Times,
                num_bytes: 7
            })
        );
    }

    #[test]
    fn row_counts_have_to_agree() {
        assert_eq!(
            read_words(2, &[1 << 60], &[1; 16]),
            Err(DigestError::RowCount {
                channel: Channel::Locations,
                rows: 2,
                words: 1
            })
        );
        assert!(read_words(0, &[1 << 60], &[]).is_err());
    }

    #[test]
    fn words_that_name_nothing_are_refused() {
        for word in [0, 27, 13 << 60, u64::MAX] {
            assert_eq!(
                read_words(2, &[1 << 60, word], &[1; 16]),
                Err(DigestError::Word {
                    channel: Channel::Locations,
                    row: 1,
                    word
                })
            );
        }
        assert_eq!(
            read_words(1, &[12 << 60], &[0; 8]),
            Err(DigestError::Word {
                channel: Channel::Times,
                row: 0,
                word: 0
            })
        );
    }

    #[test]
    fn companions_are_given_exactly_when_they_are_declared() {
        let located = DigestCell {
            locations: Some(&[]),
            ..DigestCell::default()
        };
        for (cell, channels) in [(located, Channels::default()), (located, BOTH)] {
            assert!(matches!(
                read_cell::<3>(cell, channels, &mut Vec::new()),
                Err(DigestError::Companion { .. })
            ));
        }
    }
}
