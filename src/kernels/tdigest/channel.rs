//! What becomes of the companion words of rows that are merged.

use super::cell::Channel;
use super::error::DigestError;

/// Whether a word may stand in a companion: 0 means that nothing was observed, and a morton word
/// names one of twelve base cells.
#[inline(always)]
pub(super) fn is_valid(channel: Channel, word: u64) -> bool {
    match channel {
        Channel::Locations => (word >> 60).wrapping_sub(1) < 12,
        Channel::Times => word != 0,
    }
}

/// The word of a centroid made of rows with these valid words, in row order.
///
/// One word stays as it is; more give their deepest common ancestor, or the join of their times
/// (`format.md` section 6).
///
/// # Errors
/// When locations have no common ancestor.
#[inline]
pub(super) fn join(channel: Channel, words: &[u64]) -> Result<u64, DigestError> {
    match (words, channel) {
        ([word], _) => Ok(*word),
        (_, Channel::Locations) => common_ancestor(words),
        (_, Channel::Times) => Ok(join_times(words)),
    }
}

/// Order of a morton word from its low six bits.
fn order(word: u64) -> u32 {
    match (word & 63) as u32 {
        suffix @ 0..28 => suffix,
        suffix @ 28..48 if (suffix - 28).is_multiple_of(5) => 28,
        _ => 29,
    }
}

/// The tuples of orders 1 to 29 of a morton word, order 1 on top of 58 bits, base cell prefix above.
fn path(word: u64) -> u64 {
    let tail = match word & 63 {
        0..28 => 0,
        suffix @ 28..48 => match ((suffix - 28) / 5, (suffix - 28) % 5) {
            (a, 0) => a << 2,
            (a, b) => a << 2 | (b - 1),
        },
        suffix => suffix - 48,
    };
    (word >> 6) << 4 | tail
}

/// The deepest cell that holds all of two or more words, always an area.
///
/// The body of a word has two bits per order from the top, so the first bit in which words differ
/// tells how many orders they share. Bits that a coarse word has below its own order cannot matter,
/// for the result is no finer than the coarsest word. Only words that agree in all 27 orders of the
/// body need a look at the orders kept in the suffix.
fn common_ancestor(words: &[u64]) -> Result<u64, DigestError> {
    let first = words.first().copied().unwrap_or_default();
    let (mut differing, mut coarsest) = (0, 63);
    for &word in words {
        differing |= word ^ first;
        coarsest = coarsest.min(word & 63);
    }
    if differing >> 60 != 0 {
        return Err(no_common_ancestor(first, words));
    }
    let shared = (differing & !63).leading_zeros().saturating_sub(4) / 2;
    if coarsest < 28 {
        Ok(area(first, shared.min(coarsest as u32)))
    } else if shared < 27 {
        Ok(area(first, shared))
    } else {
        Ok(fine_common_ancestor(first, words))
    }
}

/// [`common_ancestor`] of words of orders 28 and 29 that agree in the 27 orders of the body.
fn fine_common_ancestor(first: u64, words: &[u64]) -> u64 {
    let (mut differing, mut coarsest) = (0, 29);
    for &word in words {
        differing |= path(word) ^ path(first);
        coarsest = coarsest.min(order(word));
    }
    let shared = (differing.leading_zeros() - 6) / 2;
    area(first, shared.min(coarsest))
}

/// The area word of the ancestor of `word` at `order`, which is not finer than the word.
fn area(word: u64, order: u32) -> u64 {
    let path = path(word);
    match order {
        0..28 => (word >> (60 - 2 * order) << (60 - 2 * order)) | u64::from(order),
        28 => (word & !63) | (28 + 5 * (path >> 2 & 3)),
        _ => (word & !63) | (29 + 5 * (path >> 2 & 3) + (path & 3)),
    }
}

#[cold]
fn no_common_ancestor(first: u64, words: &[u64]) -> DigestError {
    let other = words
        .iter()
        .copied()
        .find(|word| word >> 60 != first >> 60)
        .unwrap_or(first);
    DigestError::NoCommonAncestor { first, other }
}

/// Bit of a toc word that tells an exact time from a range.
const EXACT: u64 = 1 << 31;

/// End code of a toc word, in units of 2^32 ns.
fn end_code(word: u64) -> u64 {
    if word & EXACT == 0 {
        word & (EXACT - 1)
    } else {
        (word >> 33) + 1
    }
}

/// The range from the earliest start to the latest end, or the one time that all words are.
///
/// The same as merging one after the other, as long as no end code reaches the bit of exact times.
fn join_times(words: &[u64]) -> u64 {
    let first = words.first().copied().unwrap_or_default();
    let (mut differing, mut start, mut end) = (0, u64::MAX, 0);
    for &word in words {
        differing |= word ^ first;
        start = start.min(word >> 32);
        end = end.max(end_code(word));
    }
    if differing == 0 {
        first
    } else if end < EXACT {
        start << 32 | end
    } else {
        words.iter().copied().fold(first, merge_times)
    }
}

/// The join of two toc words.
fn merge_times(x: u64, y: u64) -> u64 {
    if x == y {
        return x;
    }
    let start = (x >> 32).min(y >> 32);
    start << 32 | end_code(x).max(end_code(y))
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use proptest::prelude::*;

    const ROOT: u64 = 4 << 60;

    proptest! {
        #[test]
        fn locations_meet_in_the_longest_path_they_share(
            words in reference::any_locations()
        ) {
            prop_assert_eq!(
                join(Channel::Locations, &words),
                Ok(reference::common_ancestor(&words))
            );
        }

        #[test]
        fn bits_below_the_order_of_a_word_mean_nothing(
            clean in reference::any_locations(),
            noise: u64,
        ) {
            prop_assume!(clean.len() > 1);
            let stray = |&word: &u64| {
                let below = (1 << (60 - 2 * order(word).min(27))) - 1;
                word | (noise & below & !63)
            };
            let dirty: Vec<u64> = clean.iter().map(stray).collect();
            prop_assert_eq!(
                join(Channel::Locations, &dirty),
                join(Channel::Locations, &clean)
            );
        }

        #[test]
        fn times_join_as_if_merged_one_by_one(
            words in prop::collection::vec(reference::any_time(), 1..12),
            odd in prop::collection::vec(prop_oneof![1..u64::MAX, 0xffff_fffe_8000_0000..u64::MAX], 1..6)
        ) {
            for words in [words, odd] {
                let merged = words.iter().copied().reduce(merge_times).unwrap();
                prop_assert_eq!(join(Channel::Times, &words), Ok(merged));
            }
        }
    }

    #[test]
    fn points_are_kept_alone_and_become_areas_together() {
        let point = ROOT | (48 + 7);
        let cell = ROOT | (29 + 5 + 3);
        assert_eq!(join(Channel::Locations, &[point]), Ok(point));
        assert_eq!(join(Channel::Locations, &[point, point]), Ok(cell));
        assert_eq!(join(Channel::Locations, &[cell, point]), Ok(cell));
        assert_eq!(
            join(Channel::Locations, &[point, ROOT | (48 + 6)]),
            Ok(ROOT | (28 + 5))
        );
        assert_eq!(join(Channel::Locations, &[point, ROOT | 48]), Ok(ROOT | 27));
    }

    #[test]
    fn equal_times_stay_exact_and_others_become_a_range() {
        let (x, y) = (0x9326_10ca_e981_3400, 0x9326_10ca_e981_3401);
        assert_eq!(join(Channel::Times, &[x, x]), Ok(x));
        assert_eq!(join(Channel::Times, &[x, y]), Ok(0x9326_10ca_4993_0866));
        assert_eq!(
            join(
                Channel::Times,
                &[0x0000_0005_0000_0004, 0x0000_000d_0000_0008]
            ),
            Ok(0x0000_0005_0000_0008)
        );
    }

    #[test]
    fn words_that_mean_nothing_are_known() {
        assert!(!is_valid(Channel::Times, 0) && is_valid(Channel::Times, 1));
        assert!(!is_valid(Channel::Locations, 0) && !is_valid(Channel::Locations, 13 << 60));
        assert!(is_valid(Channel::Locations, 1 << 60) && is_valid(Channel::Locations, 12 << 60));
    }
}
