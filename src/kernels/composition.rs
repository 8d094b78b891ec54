//! The packed fold: eight 8-bit lanes in a `u64`, averaged by weight (`format.md` section 6).

use super::groups::FoldGroups;

const LANES: usize = 8;
/// Totals up to this keep every lane sum, at most 255 times it, within an `i64`, whose conversion to a float is
/// one instruction where that of 128 bits is a call.
const SMALL_TOTAL: u128 = i64::MAX as u128 / 255;
/// Adding this to a small positive float rounds it to a whole number, half to even; `round_ties_even` is a call
/// on targets without an instruction for it.
const TO_WHOLE: f64 = (1u64 << 52) as f64;

/// Why a packed fold was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompositionError {
    /// A block was left unfinished, or was given too much.
    #[error("packed fold was given {given} cells where its block has {expected}")]
    CellCount {
        /// Cells given.
        given: u64,
        /// Cells of the block.
        expected: u64,
    },
    /// Words and weights of a flat fold do not pair up, or do not make whole targets.
    #[error("flat packed fold of {words} words and {weights} weights into targets of {per_target}")]
    Shape {
        /// Number of words.
        words: usize,
        /// Number of weight totals.
        weights: usize,
        /// Cells per target.
        per_target: usize,
    },
}

/// Weighted lane sums of the parts of one target cell.
///
/// In integers, so that partial sums join exactly in any grouping, and in 128 bits, so that no number of parts
/// with counts of 64 bits can overflow. Below 2^53 these are the sums the law takes in `f64`.
#[derive(Debug, Clone, Copy, Default)]
struct LaneSums {
    lanes: [u128; LANES],
    total: u128,
}

impl LaneSums {
    /// Adds one part. Its count is the weight total rounded half to even; a count of 0 or less, or none
    /// (NaN), is no part.
    #[inline]
    fn add(&mut self, word: u64, weight_total: f64) {
        // A float cast saturates, and takes what is negative or NaN to 0.
        let count = weight_total.round_ties_even() as u64;
        if count == 0 {
            return;
        }
        for (sum, lane) in self.lanes.iter_mut().zip(word.to_le_bytes()) {
            *sum += u128::from(count) * u128::from(lane);
        }
        self.total += u128::from(count);
    }

    #[inline]
    fn join(&mut self, other: &Self) {
        for (sum, add) in self.lanes.iter_mut().zip(other.lanes) {
            *sum += add;
        }
        self.total += other.total;
    }

    /// The word of the target cell; 0 when it has no part.
    fn word(&self) -> u64 {
        if self.total == 0 {
            return 0;
        }
        let means = if self.total <= SMALL_TOTAL {
            let total = self.total as i64 as f64;
            self.lanes.map(|sum| sum as i64 as f64 / total)
        } else {
            let total = self.total as f64;
            self.lanes.map(|sum| sum as f64 / total)
        };
        let mut lanes = [0; LANES];
        for ((lane, mean), sum) in lanes.iter_mut().zip(means).zip(self.lanes) {
            let rounded = (mean + TO_WHOLE) - TO_WHOLE;
            // A trace must not vanish: only a lane that is 0 in every part may come out as 0.
            *lane = (rounded as u8).max(u8::from(sum != 0));
        }
        u64::from_le_bytes(lanes)
    }
}

/// Folds the cells of one block into every group at once, in one pass and without keeping the cells: the sums of
/// four children are the sums of their parent (`format.md` section 6).
#[derive(Debug)]
pub struct CompositionFold {
    expected: u64,
    given: u64,
    /// Finest first.
    tiers: Vec<Tier>,
}

#[derive(Debug)]
struct Tier {
    /// A target of this tier is complete when the cell count has none of these bits.
    within_target: u64,
    sums: LaneSums,
    words: Vec<u64>,
}

impl CompositionFold {
    /// A fold of one block; holds one output word per target cell and one accumulator per group.
    pub fn new(groups: &FoldGroups) -> Self {
        let tiers = groups.orders().iter().zip(groups.depths());
        let tiers = tiers.map(|(&order, depth)| Tier {
            within_target: (1 << (2 * depth)) - 1,
            sums: LaneSums::default(),
            words: Vec::with_capacity(groups.target_cells(order) as usize),
        });
        Self {
            expected: groups.source_cells(),
            given: 0,
            tiers: tiers.collect(),
        }
    }

    /// Takes the next cell: its packed word, and the sum of the weights of its `of` digest (0 when empty).
    /// A word of value 0 with a positive weight is a part like any other.
    #[inline]
    pub fn push_cell(&mut self, word: u64, weight_total: f64) {
        if let Some(finest) = self.tiers.first_mut() {
            finest.sums.add(word, weight_total);
            self.given += 1;
            if self.given & finest.within_target == 0 {
                self.close_targets();
            }
        }
    }

    /// The words of every group, finest first, each in cell order.
    ///
    /// # Errors
    /// `CellCount` unless exactly the cells of the block were given.
    pub fn finish(self) -> Result<Vec<Vec<u64>>, CompositionError> {
        if self.given != self.expected {
            return Err(CompositionError::CellCount {
                given: self.given,
                expected: self.expected,
            });
        }
        Ok(self.tiers.into_iter().map(|tier| tier.words).collect())
    }

    /// Emits every target the last cell completed and hands its sums on to the next coarser group.
    fn close_targets(&mut self) {
        let mut from_children = LaneSums::default();
        for tier in &mut self.tiers {
            tier.sums.join(&from_children);
            if self.given & tier.within_target != 0 {
                return;
            }
            tier.words.push(tier.sums.word());
            from_children = std::mem::take(&mut tier.sums);
        }
    }
}

/// Folds each `per_target` consecutive cells into one word, for groups made from the cells of another group:
/// packed words and weight totals of their `of` digests, one of each per cell (`format.md` section 6).
///
/// # Errors
/// `Shape` unless there are as many weights as words and they make whole targets.
pub fn fold_flat(
    words: &[u64],
    weights: &[f64],
    per_target: usize,
) -> Result<Vec<u64>, CompositionError> {
    if words.len() != weights.len() || per_target == 0 || !words.len().is_multiple_of(per_target) {
        return Err(CompositionError::Shape {
            words: words.len(),
            weights: weights.len(),
            per_target,
        });
    }
    let rows = words
        .chunks_exact(per_target)
        .zip(weights.chunks_exact(per_target));
    Ok(rows
        .map(|(words, weights)| {
            let mut sums = LaneSums::default();
            for (&word, &weight_total) in words.iter().zip(weights) {
                sums.add(word, weight_total);
            }
            sums.word()
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The law as written, in `f64` throughout.
    fn literal(parts: &[(u64, f64)]) -> u64 {
        let parts: Vec<(u64, f64)> = parts
            .iter()
            .map(|&(word, total)| (word, total.round_ties_even()))
            .filter(|&(_, n)| n > 0.0)
            .collect();
        let n: f64 = parts.iter().map(|part| part.1).sum();
        let mut word = 0;
        for lane in (0..8).filter(|_| !parts.is_empty()) {
            let of = |word: u64| (word >> (8 * lane)) & 255;
            let mean: f64 = parts.iter().map(|&(w, n)| n * of(w) as f64).sum::<f64>() / n;
            let mut value = mean.round_ties_even().clamp(0.0, 255.0) as u64;
            if parts.iter().any(|&(w, _)| of(w) != 0) {
                value = value.max(1);
            }
            word |= value << (8 * lane);
        }
        word
    }

    fn a_word() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(0),
            any::<u64>(),
            any::<[bool; 8]>().prop_map(|lanes| u64::from_le_bytes(lanes.map(u8::from))),
        ]
    }

    fn a_weight() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(0.0),
            Just(0.5),
            Just(1.5),
            Just(-3.0),
            (0u32..9).prop_map(f64::from),
            0.0..1e9f64,
        ]
    }

    proptest! {
        #[test]
        fn streaming_equals_the_literal_law_per_group(
            cells in prop::collection::vec((a_word(), a_weight()), 256),
        ) {
            let groups = FoldGroups::new(8, 4, &[7, 6, 4]).unwrap();
            let mut fold = CompositionFold::new(&groups);
            for &(word, total) in &cells {
                fold.push_cell(word, total);
            }
            let made = fold.finish().unwrap();
            let (words, weights): (Vec<u64>, Vec<f64>) = cells.iter().copied().unzip();
            for (group, per_target) in made.iter().zip([4, 16, 256]) {
                let expected: Vec<u64> = cells.chunks(per_target).map(literal).collect();
                prop_assert_eq!(group, &expected);
                prop_assert_eq!(&fold_flat(&words, &weights, per_target).unwrap(), &expected);
            }
        }
    }

    #[test]
    fn an_empty_word_with_weight_is_a_part() {
        assert_eq!(fold_flat(&[200, 0], &[1.0, 1.0], 2).unwrap(), [100]);
        assert_eq!(fold_flat(&[200, 0], &[1.0, 0.0], 2).unwrap(), [200]);
    }

    #[test]
    fn a_trace_survives_and_a_weightless_part_leaves_none() {
        assert_eq!(fold_flat(&[1, 0], &[1.0, 1e6], 2).unwrap(), [1]);
        assert_eq!(fold_flat(&[255, 0], &[0.5, 3.0], 2).unwrap(), [0]);
        assert_eq!(fold_flat(&[255, 255], &[f64::NAN, -1.0], 2).unwrap(), [0]);
    }

    #[test]
    fn halves_round_to_even() {
        assert_eq!(fold_flat(&[2, 3], &[1.0, 1.0], 2).unwrap(), [2]);
        assert_eq!(fold_flat(&[3, 4], &[1.0, 1.0], 2).unwrap(), [4]);
    }

    #[test]
    fn counts_beyond_any_float_do_not_overflow() {
        let words = [u64::MAX; 4];
        assert_eq!(fold_flat(&words, &[f64::MAX; 4], 4).unwrap(), [u64::MAX]);
    }

    #[test]
    fn a_wrong_number_of_cells_is_refused() {
        let groups = FoldGroups::new(2, 1, &[1]).unwrap();
        for given in [0, 3, 8] {
            let mut fold = CompositionFold::new(&groups);
            for _ in 0..given {
                fold.push_cell(1, 1.0);
            }
            let refused = CompositionError::CellCount { given, expected: 4 };
            assert_eq!(fold.finish(), Err(refused));
        }
        assert!(fold_flat(&[1, 2, 3], &[1.0; 3], 2).is_err());
        assert!(fold_flat(&[1, 2], &[1.0; 3], 2).is_err());
        assert!(fold_flat(&[], &[], 0).is_err());
    }
}
