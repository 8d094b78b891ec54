//! Clocks as the store writes them: ISO 8601, whole seconds, `+00:00`.

use std::time::{SystemTime, UNIX_EPOCH};

/// The moment `seconds_ago` before now.
pub(crate) fn iso_ago(seconds_ago: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    iso(now.as_secs() - seconds_ago)
}

/// A moment given in seconds since 1970.
pub(crate) fn iso(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    // Days since 0000-03-01, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
}

/// Whether `text` has the shape of a clock.
pub(crate) fn is_iso(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    shape == "0000-00-00T00:00:00+00:00"
}
