//! What becomes of the companion words of rows that are merged.

use super::cell::Channel;
use super::error::DigestError;
use crate::kernels::words::{morton, toc};

/// Whether a word may stand in a companion: 0 means that nothing was observed, and a morton word
/// names one of twelve base cells.
#[inline(always)]
pub(super) fn is_valid(channel: Channel, word: u64) -> bool {
    match channel {
        Channel::Locations => morton::is_valid(word),
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
        (_, Channel::Locations) => {
            morton::common_ancestor(words).map_err(|_| no_common_ancestor(words))
        }
        (_, Channel::Times) => toc::merge_all(words).map_err(|_| no_common_ancestor(words)),
    }
}

#[cold]
fn no_common_ancestor(words: &[u64]) -> DigestError {
    let first = words.first().copied().unwrap_or_default();
    let elsewhere = |word: &&u64| **word >> 60 != first >> 60;
    let other = words.iter().find(elsewhere).copied().unwrap_or(first);
    DigestError::NoCommonAncestor { first, other }
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
    }

    #[test]
    fn a_single_word_is_kept_and_equal_points_become_an_area() {
        let point = ROOT | (48 + 7);
        let cell = ROOT | (29 + 5 + 3);
        assert_eq!(join(Channel::Locations, &[point]), Ok(point));
        assert_eq!(join(Channel::Locations, &[point, point]), Ok(cell));
        let time = 0x9326_10ca_e981_3400;
        assert_eq!(join(Channel::Times, &[time]), Ok(time));
        assert_eq!(join(Channel::Times, &[time, time]), Ok(time));
    }

    #[test]
    fn locations_in_two_base_cells_have_no_common_ancestor() {
        assert_eq!(
            join(Channel::Locations, &[ROOT, 5 << 60]),
            Err(DigestError::NoCommonAncestor {
                first: ROOT,
                other: 5 << 60
            })
        );
    }

    #[test]
    fn words_that_mean_nothing_are_known() {
        assert!(!is_valid(Channel::Times, 0) && is_valid(Channel::Times, 1));
        assert!(!is_valid(Channel::Locations, 0) && !is_valid(Channel::Locations, 13 << 60));
        assert!(is_valid(Channel::Locations, 1 << 60) && is_valid(Channel::Locations, 12 << 60));
    }
}
