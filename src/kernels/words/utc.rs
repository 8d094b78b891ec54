//! UTC and the toc scale, both ways (`morton.md` section 7.6).
//!
//! A UTC instant is *naive* nanoseconds: since 1850-01-01, days of 86400 s, proleptic Gregorian.

use super::toc::{END_NS, TocError};

const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: u64 = 86_400;
/// 1850-01-01 to 1970-01-01.
const UNIX_EPOCH_DAY: u64 = 43_829;
/// 0000-03-01 to 1850-01-01, where the calendar arithmetic below counts from.
const MARCH_DAY: u64 = 719_468 - UNIX_EPOCH_DAY;
/// 1980-01-06 on the toc scale, which agrees with GPS from there on.
const GPS_EPOCH_NS: u64 = 4_102_790_400_000_000_000;

/// Year and month whose first day starts a new offset, and the offset in seconds (TAI - UTC - 19).
const OFFSETS: [(u64, u64, i64); 28] = [
    (1972, 1, -9),
    (1972, 7, -8),
    (1973, 1, -7),
    (1974, 1, -6),
    (1975, 1, -5),
    (1976, 1, -4),
    (1977, 1, -3),
    (1978, 1, -2),
    (1979, 1, -1),
    (1980, 1, 0),
    (1981, 7, 1),
    (1982, 7, 2),
    (1983, 7, 3),
    (1985, 7, 4),
    (1988, 1, 5),
    (1990, 1, 6),
    (1991, 1, 7),
    (1992, 7, 8),
    (1993, 7, 9),
    (1994, 7, 10),
    (1996, 1, 11),
    (1997, 7, 12),
    (1999, 1, 13),
    (2006, 1, 14),
    (2009, 1, 15),
    (2012, 7, 16),
    (2015, 7, 17),
    (2017, 1, 18),
];

/// Why the text of a UTC instant was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UtcError {
    /// Not `YYYY-MM-DDTHH:MM:SS[.fraction][Z|+00:00]`, or a date or time of day that does not exist.
    #[error("`{text}` is not a UTC instant")]
    Malformed {
        /// The refused text.
        text: String,
    },
    /// Before 1850-01-01 or beyond the end of the toc scale.
    #[error("`{text}` lies outside the toc scale")]
    Domain {
        /// The refused text.
        text: String,
    },
}

/// The toc instant of a UTC instant; both in nanoseconds since 1850-01-01, the argument naive.
///
/// # Errors
/// `Domain` when the result is at or beyond [`END_NS`].
pub fn from_utc(naive_ns: u64) -> Result<u64, TocError> {
    let offset_s = offset_of(|start_ns, _| start_ns <= naive_ns);
    let outside = TocError::Domain { t_ns: naive_ns };
    match naive_ns.checked_add_signed(offset_s * NS_PER_S as i64) {
        Some(t_ns) if t_ns < END_NS => Ok(t_ns),
        _ => Err(outside),
    }
}

/// The naive UTC instant of a toc instant, both in nanoseconds since 1850-01-01. An instant inside an
/// inserted leap second comes out in the second that follows it.
///
/// # Errors
/// `Domain` from [`END_NS`] on.
pub fn to_utc(t_ns: u64) -> Result<u64, TocError> {
    if t_ns >= END_NS {
        return Err(TocError::Domain { t_ns });
    }
    let offset_s = offset_of(|start_ns, offset_s| {
        start_ns.saturating_add_signed(offset_s * NS_PER_S as i64) <= t_ns
    });
    Ok(t_ns.saturating_add_signed(-offset_s * NS_PER_S as i64))
}

/// GPS nanoseconds since 1980-01-06 of a toc instant; negative before it. No leap seconds take part.
pub const fn to_gps(t_ns: u64) -> i64 {
    t_ns.wrapping_sub(GPS_EPOCH_NS) as i64
}

/// Reads `YYYY-MM-DDTHH:MM:SS`, with up to nine decimals and `Z` or `+00:00` allowed behind it, as naive
/// nanoseconds since 1850-01-01.
///
/// # Errors
/// `Malformed` (also a leap second, which a naive instant cannot name), or `Domain`.
pub fn parse(text: &str) -> Result<u64, UtcError> {
    let malformed = || UtcError::Malformed {
        text: text.to_owned(),
    };
    let bare = text
        .strip_suffix('Z')
        .or_else(|| text.strip_suffix("+00:00"))
        .unwrap_or(text);
    let (whole, fraction) = match bare.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (bare, None),
    };
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = whole.len() == shape.len()
        && whole.bytes().zip(shape).all(|(byte, &form)| match form {
            b'd' => byte.is_ascii_digit(),
            form => byte == form,
        });
    if !fits {
        return Err(malformed());
    }
    let number = |from: usize, to: usize| {
        whole.as_bytes()[from..to]
            .iter()
            .fold(0, |value, digit| 10 * value + u64::from(digit - b'0'))
    };
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let (hour, minute, second) = (number(11, 13), number(14, 16), number(17, 19));
    let exists = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !exists {
        return Err(malformed());
    }
    let fraction_ns = match fraction {
        None => 0,
        Some(digits)
            if (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) =>
        {
            format!("{digits:0<9}").parse().map_err(|_| malformed())?
        }
        Some(_) => return Err(malformed()),
    };
    let seconds = day_number(year, month, day)
        .map(|days| days * S_PER_DAY + 3600 * hour + 60 * minute + second);
    seconds
        .and_then(|seconds| seconds.checked_mul(NS_PER_S))
        .and_then(|ns| ns.checked_add(fraction_ns))
        .ok_or_else(|| UtcError::Domain {
            text: text.to_owned(),
        })
}

/// Renders naive nanoseconds since 1850-01-01 as `YYYY-MM-DDTHH:MM:SS.nnnnnnnnn`.
pub fn render(naive_ns: u64) -> String {
    let (seconds, ns) = (naive_ns / NS_PER_S, naive_ns % NS_PER_S);
    let (year, month, day) = calendar(seconds / S_PER_DAY);
    let second = seconds % S_PER_DAY;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ns:09}",
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

/// Offset in seconds of the last row the predicate holds for, given the row's naive start and offset.
fn offset_of(holds: impl Fn(u64, i64) -> bool) -> i64 {
    OFFSETS
        .iter()
        .rev()
        .find(|&&(year, month, offset_s)| {
            day_number(year, month, 1)
                .is_some_and(|days| holds(days * S_PER_DAY * NS_PER_S, offset_s))
        })
        .map_or(0, |&(_, _, offset_s)| offset_s)
}

/// Days from 1850-01-01 to a date; none before it. Counts years from March, so that the leap day is last.
fn day_number(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 {
        year.checked_sub(1)?
    } else {
        year
    };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(MARCH_DAY)
}

/// The date that many days after 1850-01-01.
fn calendar(days: u64) -> (u64, u64, u64) {
    let days = days + MARCH_DAY;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        _ => 31,
    }
}
