//! The k-scale: how much weight a centroid may hold at each place of a distribution.

use std::f64::consts::PI;

use super::error::DigestError;

/// Distance, in quantiles, from the computed end of a centroid within which rows are looked at one by one.
///
/// [`Scale::k`] takes quantiles that were rounded, and rounds `2q - 1` by up to 2^-54. Near the ends of
/// the scale, where `asin` is steepest, that moves the angle of a centroid's left edge by up to
/// sqrt(2 * 2^-54), about 1.1e-8, and with it the quantile one step further by up to half as much. All
/// else is in the order of 1e-15, because the angle changes by at least 2 per quantile everywhere. So
/// beyond 1e-7 the comparison of exact edges cannot come out differently.
const MARGIN: f64 = 1e-7;

/// The scale `k(q) = delta * (asin(2q - 1) / pi + 1/2)` (`format.md` section 6).
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    delta: f64,
    /// Sine and cosine of the angle of one step of the scale.
    step_sin: f64,
    step_cos: f64,
}

impl Scale {
    /// The scale of a fold budget, in steps from quantile 0 to quantile 1.
    ///
    /// # Errors
    /// When `delta` is not a positive finite number.
    pub(super) fn new(delta: f64) -> Result<Self, DigestError> {
        if !(delta > 0.0 && delta.is_finite()) {
            return Err(DigestError::Delta { delta });
        }
        // The whole scale is an angle of pi; a step that is longer reaches no further.
        let (step_sin, step_cos) = (PI / delta.max(1.0)).sin_cos();
        Ok(Self {
            delta,
            step_sin,
            step_cos,
        })
    }

    /// Position of quantile `q` on the scale, rounded as numpy rounds it.
    pub(super) fn k(&self, q: f64) -> f64 {
        self.delta * ((2.0 * q.clamp(0.0, 1.0) - 1.0).asin() / PI + 0.5)
    }

    /// The row before which a centroid ends that starts with row `start`, given the running sum of the
    /// weights.
    ///
    /// That is the first row after `start` whose right edge is more than one step right of the
    /// centroid's left edge, or else the number of rows.
    #[inline]
    pub(super) fn centroid_end(&self, cumulative: &[f64], total: f64, start: usize) -> usize {
        let before = start.checked_sub(1).map_or(0.0, |row| cumulative[row]);
        let left = before / total;
        let reach = self.one_step_from(left);
        let mut end = start + 1;
        end += count_below(&cumulative[end..], (reach - MARGIN) * total);
        let certain = (reach + MARGIN) * total;
        match cumulative.get(end) {
            Some(&weight) if weight <= certain => {
                self.first_beyond(cumulative, total, left, end, certain)
            }
            _ => end,
        }
    }

    /// The quantile one step right of quantile `q`, at most 1, to within [`MARGIN`].
    ///
    /// With p = 2q - 1 = sin(a), it is sin(a + step): no `asin` is needed to find it.
    #[inline]
    fn one_step_from(&self, q: f64) -> f64 {
        let p = 2.0 * q - 1.0;
        if p >= self.step_cos {
            return 1.0;
        }
        let cos = 2.0 * (q * (1.0 - q)).sqrt();
        0.5 + 0.5 * (p * self.step_cos + cos * self.step_sin)
    }

    /// The first row at or after `row` that lies more than one step right of quantile `left`, by the
    /// edges as numpy computes them; rows above weight `certain` need no look.
    #[inline(never)]
    fn first_beyond(
        &self,
        cumulative: &[f64],
        total: f64,
        left: f64,
        mut row: usize,
        certain: f64,
    ) -> usize {
        let limit = self.k(left) + 1.0;
        while let Some(&weight) = cumulative.get(row)
            && weight <= certain
            && self.k(weight / total) <= limit
        {
            row += 1;
        }
        row
    }
}

/// Number of leading values of an ascending slice that are below `bound`.
#[inline]
fn count_below(ascending: &[f64], bound: f64) -> usize {
    const BLOCK: usize = 8;
    let (blocks, _) = ascending.as_chunks::<BLOCK>();
    let whole = blocks
        .iter()
        .take_while(|block| block[BLOCK - 1] < bound)
        .count()
        * BLOCK;
    let rest = &ascending[whole..];
    whole
        + rest[..rest.len().min(BLOCK)]
            .iter()
            .map(|&value| usize::from(value < bound))
            .sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::super::reference::{self, DELTAS};
    use super::*;
    use proptest::prelude::*;

    fn ends(weights: &[f64], delta: f64) -> Vec<usize> {
        let scale = Scale::new(delta).unwrap();
        let cumulative = reference::running_sum(weights);
        let total = *cumulative.last().unwrap();
        let mut ends = vec![0];
        while ends[ends.len() - 1] < weights.len() {
            ends.push(scale.centroid_end(&cumulative, total, ends[ends.len() - 1]));
        }
        ends.remove(0);
        ends
    }

    fn any_weight() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => (1..20_u8).prop_map(f64::from),
            2 => (-145..39_i32, 1.0..9.9_f64).prop_map(|(e, m)| m * 10_f64.powi(e)),
            1 => (-12..0_i32).prop_map(|e| 10_f64.powi(e)),
        ]
        .prop_map(|weight| f64::from((weight as f32).clamp(f32::from_bits(1), f32::MAX)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn centroids_end_where_every_edge_computed_exactly_says(
            weights in prop::collection::vec(any_weight(), 1..200),
            delta in prop_oneof![
                prop::sample::select(DELTAS),
                (0.1..2000.0_f64),
                (-1.0..12.0_f64).prop_map(|e| 10_f64.powf(e)),
            ],
        ) {
            prop_assert_eq!(ends(&weights, delta), reference::centroid_ends(&weights, delta));
        }

        #[test]
        fn one_weight_of_many_may_outweigh_the_others(
            tiny in prop::collection::vec(any_weight(), 2..100),
            at in any::<prop::sample::Index>(),
            magnitude in -20..30_i32,
            delta in prop::sample::select(DELTAS),
        ) {
            let mut weights = tiny;
            let at = at.index(weights.len());
            weights[at] = weights.iter().sum::<f64>() * 10_f64.powi(magnitude);
            prop_assert_eq!(ends(&weights, delta), reference::centroid_ends(&weights, delta));
        }

        #[test]
        fn edges_that_fall_on_a_step_are_compared_exactly(
            steps in 1..30_u32,
            repeat in 1..5_usize,
            scale in -30..30_i32,
        ) {
            // Weights that put an edge on each whole step, as far as rounding lets them.
            let delta = f64::from(steps);
            let q = |k: u32| ((PI * (f64::from(k) / delta - 0.5)).sin() + 1.0) / 2.0;
            let weights: Vec<f64> = (0..steps)
                .flat_map(|k| vec![(q(k + 1) - q(k)) / repeat as f64; repeat])
                .map(|weight| f64::from((weight * 10_f64.powi(scale)) as f32))
                .collect();
            prop_assert_eq!(ends(&weights, delta), reference::centroid_ends(&weights, delta));
        }
    }

    #[test]
    fn equal_weights_meet_the_rational_points_of_the_scale() {
        for delta in DELTAS {
            for n in 1..200 {
                let weights = vec![3.0; n];
                assert_eq!(
                    ends(&weights, *delta),
                    reference::centroid_ends(&weights, *delta)
                );
            }
        }
    }

    #[test]
    fn leading_values_are_counted() {
        let values: Vec<f64> = (0..37).map(f64::from).collect();
        for n in 0..=37 {
            assert_eq!(count_below(&values, n as f64 - 0.5), n);
            assert_eq!(count_below(&values[..n], 100.0), n);
        }
    }
}
