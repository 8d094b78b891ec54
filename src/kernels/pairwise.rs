//! The summation order of every float sum in a store (`format.md` section 6).

use std::ops::{Add, AddAssign};

/// Rows up to this long are summed in one block.
const BLOCK: usize = 128;
const LANES: usize = 8;

/// A float the fold laws sum.
pub trait Float: Copy + Add<Output = Self> + AddAssign {
    /// Where a sequential sum starts: the one value that changes nothing it is added to.
    const NEGATIVE_ZERO: Self;
}

impl Float for f32 {
    const NEGATIVE_ZERO: Self = -0.0;
}

impl Float for f64 {
    const NEGATIVE_ZERO: Self = -0.0;
}

/// Pairwise sum of a row in its own type (`format.md` section 6): below 8 values in sequence from -0.0; up to
/// 128 in eight lanes, joined as a tree, then the tail in order; beyond that the sum of two halves, the first
/// cut down to a multiple of 8.
///
/// Over `4^k >= 256` values this is a balanced tree over the sums of the 256-value pieces:
/// `P(4m) = (P0 + P1) + (P2 + P3)`, which is what lets a fold keep sums in place of values.
#[inline]
pub fn pairwise_sum<F: Float>(values: &[F]) -> F {
    if values.len() <= BLOCK {
        return block_sum(values);
    }
    let half = values.len() / 2;
    let (left, right) = values.split_at(half - half % LANES);
    pairwise_sum(left) + pairwise_sum(right)
}

/// [`pairwise_sum`] of at most 128 values.
#[inline(always)]
fn block_sum<F: Float>(values: &[F]) -> F {
    let (blocks, tail) = values.as_chunks::<LANES>();
    let mut sum = match blocks {
        [] => F::NEGATIVE_ZERO,
        [first, rest @ ..] => {
            let mut r = *first;
            for block in rest {
                for (lane, &value) in r.iter_mut().zip(block) {
                    *lane += value;
                }
            }
            ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
        }
    };
    for &value in tail {
        sum += value;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The law, index by index.
    fn literal(a: &[f64]) -> f64 {
        let n = a.len();
        if n < 8 {
            let mut sum = -0.0;
            for &value in a {
                sum += value;
            }
            sum
        } else if n <= 128 {
            let mut r: Vec<f64> = (0..8).map(|j| a[j]).collect();
            let mut i = 8;
            while i < n - n % 8 {
                for j in 0..8 {
                    r[j] += a[i + j];
                }
                i += 8;
            }
            let mut sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
            while i < n {
                sum += a[i];
                i += 1;
            }
            sum
        } else {
            let mut half = n / 2;
            half -= half % 8;
            literal(&a[..half]) + literal(&a[half..])
        }
    }

    proptest! {
        #[test]
        fn equals_the_literal_law(values in prop::collection::vec(-1e6..1e6f64, 0..1500)) {
            prop_assert_eq!(pairwise_sum(&values).to_bits(), literal(&values).to_bits());
        }
    }

    #[test]
    fn a_sum_of_nothing_or_of_negative_zeros_is_negative_zero() {
        for n in [0, 1, 7, 8, 9, 129, 300] {
            assert_eq!(
                pairwise_sum(&vec![-0.0f64; n]).to_bits(),
                (-0.0f64).to_bits()
            );
            assert_eq!(
                pairwise_sum(&vec![-0.0f32; n]).to_bits(),
                (-0.0f32).to_bits()
            );
        }
    }
}
