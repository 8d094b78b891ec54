//! A sorted run of rows into one digest.

use super::cell::{Channels, DigestColumn};
use super::channel::join;
use super::error::DigestError;
use super::row::{Row, row_bytes, unpack};
use super::scale::Scale;
use crate::kernels::pairwise::pairwise_sum;

/// Rows of a run spread into one array per quantity; kept from run to run for its memory.
#[derive(Debug, Default)]
pub(super) struct Compressor {
    /// mean * weight
    products: Vec<f64>,
    weights: Vec<f64>,
    /// Sum of the weights up to and with each row.
    cumulative: Vec<f64>,
    /// Companion words, in the order of the lanes.
    words: [Vec<u64>; 2],
}

impl Compressor {
    /// Appends the digest of two or more sorted rows to `column` as one cell (`format.md` section 6).
    ///
    /// # Errors
    /// When the locations of rows of one centroid have no common ancestor.
    pub(super) fn compress<const N: usize>(
        &mut self,
        rows: &[Row<N>],
        channels: Channels,
        scale: &Scale,
        column: &mut DigestColumn,
    ) -> Result<(), DigestError> {
        let total = self.spread(rows);
        let cumulative = &self.cumulative[..rows.len()];
        let mut start = 0;
        while start < rows.len() {
            let end = scale.centroid_end(cumulative, total, start);
            let weight = segment_sum(&self.weights[start..end]);
            let mean = segment_sum(&self.products[start..end]) / weight;
            column.payload.write(&row_bytes(mean as f32, weight as f32));
            for ((words, &channel), joined) in self
                .words
                .iter()
                .zip(channels.declared())
                .zip(column.companions_mut())
            {
                joined.write(&join(channel, &words[start..end])?.to_le_bytes());
            }
            start = end;
        }
        column.close_cell();
        Ok(())
    }

    /// Fills the arrays and returns the total weight.
    fn spread<const N: usize>(&mut self, rows: &[Row<N>]) -> f64 {
        for quantity in [&mut self.products, &mut self.weights, &mut self.cumulative] {
            // Never shortened, so that a long run after a short one has nothing to clear.
            quantity.resize(quantity.len().max(rows.len()), 0.0);
        }
        let mut total = 0.0;
        for (((row, product), weight), sum) in rows
            .iter()
            .zip(&mut self.products)
            .zip(&mut self.weights)
            .zip(&mut self.cumulative)
        {
            let (m, w) = unpack(row[0]);
            let (m, w) = (f64::from(m), f64::from(w));
            total += w;
            (*product, *weight, *sum) = (m * w, w, total);
        }
        for (lane, words) in (1..N).zip(&mut self.words) {
            words.clear();
            words.extend(rows.iter().map(|row| row[lane]));
        }
        total
    }
}

/// Sum of a segment as `numpy.add.reduceat` adds it; the segment is not empty.
#[inline]
fn segment_sum(values: &[f64]) -> f64 {
    match values {
        [only] => *only,
        [first, rest @ ..] => first + pairwise_sum(rest),
        [] => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::{self, DELTAS};
    use super::super::row::read_cell;
    use super::super::sort::Sorter;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sorted_run_becomes_the_digest_of_the_law(
            rows in prop::collection::vec(reference::any_row(), 2..300),
            delta in prop::sample::select(DELTAS),
        ) {
            let channels = Channels { located: true, temporal: true };
            let cells: Vec<_> = rows.iter().map(|row| vec![*row]).collect();
            let source = reference::column(&cells, channels);
            let mut run = Vec::new();
            for index in 0..source.len() {
                read_cell::<3>(source.cell(index), channels, &mut run).unwrap();
            }
            Sorter::default().sort(&mut run, true);
            run.pop();

            let mut column = DigestColumn::new(channels);
            let scale = Scale::new(delta).unwrap();
            let mut compressor = Compressor::default();
            compressor.compress(&run, channels, &scale, &mut column).unwrap();
            let expected = reference::fold(&cells, cells.len(), delta, channels);
            prop_assert_eq!(reference::cells(&column), expected);
        }
    }

    #[test]
    fn memory_of_a_longer_run_does_not_show_in_a_shorter_one() {
        let scale = Scale::new(20.0).unwrap();
        let run: Vec<Row<1>> = (1..100_u64)
            .map(|i| [(i + 64) << 56 >> 1 | 0x3f80_0000])
            .collect();
        let (mut used, mut fresh) = (Compressor::default(), Compressor::default());
        let mut column = DigestColumn::default();
        used.compress(&run, Channels::default(), &scale, &mut column)
            .unwrap();
        used.compress(&run[..9], Channels::default(), &scale, &mut column)
            .unwrap();
        fresh
            .compress(&run[..9], Channels::default(), &scale, &mut column)
            .unwrap();
        assert_eq!(column.cell(1), column.cell(2));
    }
}
