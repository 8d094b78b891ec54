//! The order in which numpy adds floats, so that sums agree to the bit (`format.md` section 6).

use std::ops::Add;

/// Longest slice that is added as one block; longer ones are halved first.
const BLOCK: usize = 128;

/// Number of accumulators of one block.
const LANES: usize = 8;

/// The floats numpy adds pairwise.
pub trait PairwiseFloat: Copy + Add<Output = Self> {
    /// The identity of addition that keeps the sign of a negative zero.
    const NEGATIVE_ZERO: Self;
}

impl PairwiseFloat for f32 {
    const NEGATIVE_ZERO: Self = -0.0;
}

impl PairwiseFloat for f64 {
    const NEGATIVE_ZERO: Self = -0.0;
}

/// Sums `values` (any length) in numpy's order; the sum of nothing is `-0.0`.
///
/// A numpy sum over a whole row is `0.0 + pairwise_sum(row)`; a segment of `numpy.add.reduceat` is
/// `segment[0] + pairwise_sum(&segment[1..])` (`format.md` section 6).
#[inline]
pub fn pairwise_sum<T: PairwiseFloat>(values: &[T]) -> T {
    if values.len() < LANES {
        values
            .iter()
            .fold(T::NEGATIVE_ZERO, |sum, &value| sum + value)
    } else if values.len() <= BLOCK {
        block_sum(values)
    } else {
        halved_sum(values)
    }
}

fn block_sum<T: PairwiseFloat>(values: &[T]) -> T {
    let (blocks, tail) = values.as_chunks::<LANES>();
    let Some((first, blocks)) = blocks.split_first() else {
        return pairwise_sum(tail);
    };
    let mut r = *first;
    for block in blocks {
        for (sum, &value) in r.iter_mut().zip(block) {
            *sum = *sum + value;
        }
    }
    let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    tail.iter().fold(sum, |sum, &value| sum + value)
}

fn halved_sum<T: PairwiseFloat>(values: &[T]) -> T {
    let half = values.len() / 2;
    let (left, right) = values.split_at(half - half % LANES);
    pairwise_sum(left) + pairwise_sum(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The law as it is written, index by index.
    fn written_out(values: &[f64]) -> f64 {
        let n = values.len();
        if n < 8 {
            let mut sum = -0.0;
            for value in values {
                sum += value;
            }
            return sum;
        }
        if n <= 128 {
            let mut r: Vec<f64> = values[..8].to_vec();
            let mut i = 8;
            while i < n - n % 8 {
                for lane in 0..8 {
                    r[lane] += values[i + lane];
                }
                i += 8;
            }
            let mut sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
            while i < n {
                sum += values[i];
                i += 1;
            }
            return sum;
        }
        let mut half = n / 2;
        half -= half % 8;
        written_out(&values[..half]) + written_out(&values[half..])
    }

    #[test]
    fn the_sum_of_nothing_is_negative_zero() {
        assert!(pairwise_sum::<f64>(&[]).is_sign_negative());
        assert!(pairwise_sum::<f32>(&[-0.0]).is_sign_negative());
        assert!(pairwise_sum(&[-0.0, 0.0_f32]).is_sign_positive());
    }

    #[test]
    fn single_precision_is_added_in_single_precision() {
        // numpy.full(1000, 0.1, dtype=float32).sum() and the same of float64.
        assert_eq!(0.0 + pairwise_sum(&[0.1_f32; 1000]), 100.000015_f32);
        assert_eq!(0.0 + pairwise_sum(&[0.1_f64; 1000]), 100.00000000000001);
    }

    proptest! {
        #[test]
        fn the_order_of_additions_is_the_written_one(
            values in prop::collection::vec(-1e9..1e9f64, 0..700)
        ) {
            prop_assert_eq!(
                pairwise_sum(&values).to_bits(),
                written_out(&values).to_bits()
            );
        }
    }
}
