//! Rows of many cells into one sorted run.

use super::row::{Row, is_less, key, sentinel};

/// Rows below which distributing them costs more than it gains.
const MIN_DISTRIBUTED: usize = 48;

/// Rows of a bucket above which they are worth a sort of their own.
const MAX_INSERTED: usize = 24;

/// Binary logarithm of the number of buckets per row, at least; more of them leave fewer rows to be
/// moved after rows of their own bucket, and take more memory to be cleared.
const SPARSITY: u32 = 2;

/// Sorts by distributing rows over some times as many buckets as there are rows, and then within buckets.
///
/// The means of neighbouring cells spread over their range well enough for most buckets to hold a row
/// at most. Where they do not, the full buckets are sorted by comparison, as all rows would have been.
#[derive(Debug, Default)]
pub(super) struct Sorter<const N: usize> {
    sorted: Vec<Row<N>>,
    /// For each bucket, where its rows begin; once they are distributed, where they end.
    bounds: Vec<u32>,
}

impl<const N: usize> Sorter<N> {
    /// Sorts rows that stand in the order of their cells, and puts a sentinel behind them.
    ///
    /// `negative_zero` tells whether there is a mean of `-0.0`. If not, rows that are equal are the same
    /// bits, and their order does not show.
    pub(super) fn sort(&mut self, rows: &mut Vec<Row<N>>, negative_zero: bool) {
        if negative_zero {
            self.sort_rows::<true>(rows);
        } else {
            self.sort_rows::<false>(rows);
        }
        rows.push(sentinel());
    }

    fn sort_rows<const SIGNED: bool>(&mut self, rows: &mut Vec<Row<N>>) {
        if rows.len() < MIN_DISTRIBUTED || u32::try_from(rows.len()).is_err() {
            sort_slice::<N, SIGNED>(rows);
            return;
        }
        let bits = rows.len().ilog2() + SPARSITY;
        let lanes = rows.iter().map(|row| key::<N, SIGNED>(row)[0]);
        let (low, high) = lanes.fold((u64::MAX, 0), |(low, high), lane| {
            (low.min(lane), high.max(lane))
        });
        let shift = (64 - bits).saturating_sub((high - low).leading_zeros());
        let bucket = |row: &Row<N>| ((key::<N, SIGNED>(row)[0] - low) >> shift) as usize;

        self.bounds.clear();
        self.bounds.resize(1 << bits, 0);
        for row in rows.iter() {
            self.bounds[bucket(row)] += 1;
        }
        let mut start = 0;
        for bound in &mut self.bounds {
            start += std::mem::replace(bound, start);
        }
        self.sorted.resize(rows.len(), sentinel());
        for row in rows.iter() {
            let place = &mut self.bounds[bucket(row)];
            self.sorted[*place as usize] = *row;
            *place += 1;
        }
        std::mem::swap(rows, &mut self.sorted);
        self.sort_buckets::<SIGNED>(rows);
    }

    /// Sorts rows that are in their buckets, given where each bucket ends.
    fn sort_buckets<const SIGNED: bool>(&self, rows: &mut [Row<N>]) {
        let mut start = 0;
        for &end in &self.bounds {
            let end = end as usize;
            if end - start > MAX_INSERTED {
                sort_slice::<N, SIGNED>(&mut rows[start..end]);
            }
            start = end;
        }
        insert_each::<N, SIGNED>(rows);
    }
}

fn sort_slice<const N: usize, const SIGNED: bool>(rows: &mut [Row<N>]) {
    if SIGNED {
        rows.sort_by_key(key::<N, true>);
    } else {
        rows.sort_unstable();
    }
}

/// Insertion sort, for rows that are nearly in place.
fn insert_each<const N: usize, const SIGNED: bool>(rows: &mut [Row<N>]) {
    for sorted in 1..rows.len() {
        let row = rows[sorted];
        let mut place = sorted;
        while place > 0 && is_less::<N, SIGNED>(&row, &rows[place - 1]) {
            rows[place] = rows[place - 1];
            place -= 1;
        }
        rows[place] = row;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows over some range of means, which may be narrow, and a few far outside of it.
    fn any_rows() -> impl Strategy<Value = Vec<Row<2>>> {
        (0..33_u32, 0..400_usize).prop_flat_map(|(bits, count)| {
            let near = 0x8000_0000_u64..0x8000_0000 + (1 << bits.min(30));
            let mean = prop_oneof![30 => near, 1 => 0..0xff00_0000_u64];
            prop::collection::vec((mean, 0..2_u64, 1..4_u64, 0..3_u64), count).prop_map(|rows| {
                let pack = |(mean, flag, weight, word)| [mean << 32 | flag << 31 | weight, word];
                rows.into_iter().map(pack).collect()
            })
        })
    }

    proptest! {
        #[test]
        fn rows_are_sorted_and_equal_ones_stay_in_order(rows in any_rows()) {
            let mut sorted = rows.clone();
            let mut sorter = Sorter::default();
            sorter.sort(&mut sorted, true);
            let mut expected = rows;
            expected.sort_by_key(|row| [row[0] & !(1 << 31), row[1]]);
            expected.push(sentinel());
            prop_assert_eq!(&sorted, &expected);

            // A second use finds what the first one left.
            for row in &mut expected {
                row[0] &= !(1 << 31);
            }
            let mut again: Vec<Row<2>> = expected.iter().rev().skip(1).copied().collect();
            expected.pop();
            expected.sort_unstable();
            sorter.sort(&mut again, false);
            again.pop();
            prop_assert_eq!(again, expected);
        }
    }

    #[test]
    fn rows_of_one_mean_and_weight_are_sorted_by_their_words() {
        let mut rows: Vec<Row<3>> = (0..500_u64).map(|i| [9, i % 7, i * 31 % 11]).collect();
        let mut expected = rows.clone();
        expected.sort_unstable();
        expected.push(sentinel());
        Sorter::default().sort(&mut rows, false);
        assert_eq!(rows, expected);
    }
}
