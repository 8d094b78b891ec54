//! Toc words: one instant or one envelope of time in a `u64` (`morton.md` section 7).
//!
//! An instant is `t`, nanoseconds since 1850-01-01 on a uniform scale that ticks with GPS.

/// First instant no word can hold, in nanoseconds since 1850-01-01 (`morton.md` section 7.1).
pub const END_NS: u64 = (1 << 63) - (1 << 32);

const TIMESTAMP_FLAG: u64 = 1 << 31;
const LOW_31: u64 = TIMESTAMP_FLAG - 1;

/// Why an instant, an interval or a list of toc words was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TocError {
    /// The instant lies outside the scale.
    #[error("instant {t_ns} ns is beyond the end of the toc scale")]
    Domain {
        /// Nanoseconds since 1850-01-01.
        t_ns: u64,
    },
    /// The interval ends before it starts.
    #[error("interval starts at {start_ns} ns, after its end at {end_ns} ns")]
    Inverted {
        /// Start in nanoseconds since 1850-01-01.
        start_ns: u64,
        /// End in nanoseconds since 1850-01-01.
        end_ns: u64,
    },
    /// There is no identity word, so nothing merges to nothing.
    #[error("an empty list of toc words has no merge")]
    Empty,
}

/// True for a timestamp word, false for a range word (`morton.md` section 7.2).
#[inline]
pub const fn is_timestamp(word: u64) -> bool {
    word & TIMESTAMP_FLAG != 0
}

/// The word of one exact instant, in nanoseconds since 1850-01-01 (`morton.md` section 7.2).
///
/// # Errors
/// `Domain` from [`END_NS`] on.
pub const fn timestamp(t_ns: u64) -> Result<u64, TocError> {
    if t_ns >= END_NS {
        return Err(TocError::Domain { t_ns });
    }
    Ok(((t_ns >> 31) << 32) | TIMESTAMP_FLAG | (t_ns & LOW_31))
}

/// The word of a closed interval, in nanoseconds since 1850-01-01; a range word also when both ends are
/// equal (`morton.md` section 7.2).
///
/// # Errors
/// `Inverted` (tested first), or `Domain` when the end is at or beyond [`END_NS`].
pub const fn range(start_ns: u64, end_ns: u64) -> Result<u64, TocError> {
    if start_ns > end_ns {
        return Err(TocError::Inverted { start_ns, end_ns });
    }
    if end_ns >= END_NS {
        return Err(TocError::Domain { t_ns: end_ns });
    }
    Ok(((start_ns >> 31) << 32) | ((end_ns >> 32) + 1))
}

/// Bounds of a word in nanoseconds since 1850-01-01: the instant twice for a timestamp, `[start, end)`
/// for a range (`morton.md` section 7.2).
pub const fn decode(word: u64) -> (u64, u64) {
    let (high, low) = (word >> 32, word & LOW_31);
    if is_timestamp(word) {
        let t_ns = (high << 31) | low;
        (t_ns, t_ns)
    } else {
        (high << 31, low << 32)
    }
}

/// The join of two words: the word itself when they are equal, else the range that covers both
/// (`morton.md` section 7.4).
///
/// 0 is the filler of a store, not an identity: it would drag the start back to 1850, and a caller skips
/// or refuses it first.
#[inline]
pub const fn merge(x: u64, y: u64) -> u64 {
    if x == y {
        return x;
    }
    let start = if x >> 32 < y >> 32 { x >> 32 } else { y >> 32 };
    let (end_x, end_y) = (end_code(x), end_code(y));
    (start << 32) | if end_x > end_y { end_x } else { end_y }
}

/// The join of a list, left to right (`morton.md` section 7.4).
///
/// # Errors
/// `Empty`.
pub fn merge_all(words: &[u64]) -> Result<u64, TocError> {
    let Some(&first) = words.first() else {
        return Err(TocError::Empty);
    };
    let (mut differing, mut start, mut end) = (0, u32::MAX, 0);
    for &word in words {
        differing |= word ^ first;
        start = start.min((word >> 32) as u32);
        end = end.max(end_code(word) as u32);
    }
    if differing == 0 {
        return Ok(first);
    }
    // No encoder gives it, but an end code in the flag's bit makes the fold depend on its order.
    if u64::from(end) >= TIMESTAMP_FLAG {
        return Ok(words
            .iter()
            .skip(1)
            .fold(first, |all, &word| merge(all, word)));
    }
    Ok((u64::from(start) << 32) | u64::from(end))
}

/// End code of either kind; up to 2^31, though only 2^31 - 1 fits a word.
#[inline]
const fn end_code(word: u64) -> u64 {
    if is_timestamp(word) {
        (word >> 33) + 1
    } else {
        word & LOW_31
    }
}
