//! Clocks, and the one way a time is written in a store: ISO 8601, whole seconds, `+00:00`.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, NaiveDateTime};

/// An instant on both clocks a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Wall clock: time since 1970-01-01T00:00:00Z. Can be set forward and back.
    pub wall: Duration,
    /// Monotonic clock: time since some fixed instant of this process. Never goes
    /// back, but on most systems stands still while the machine is suspended.
    pub monotonic: Duration,
}

impl Moment {
    /// Whole seconds since 1970, as written in a store.
    pub fn unix_seconds(self) -> i64 {
        i64::try_from(self.wall.as_secs()).unwrap_or(i64::MAX)
    }

    /// Time from `earlier` to here, on whichever clock says more.
    ///
    /// The wall clock sees a suspended machine, the monotonic clock sees through a
    /// wall clock that was set back: a lease must expire under both.
    pub fn since(self, earlier: Moment) -> Duration {
        let wall = self.wall.saturating_sub(earlier.wall);
        wall.max(self.monotonic.saturating_sub(earlier.monotonic))
    }
}

/// Where the time comes from; tests script it.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present, on both clocks.
    fn now(&self) -> Moment;
}

/// The clocks of this machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic side counts from now.
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment {
            // A clock before 1970 reads as 1970: nothing here needs to tell them apart.
            wall: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            monotonic: self.started.elapsed(),
        }
    }
}

/// `seconds` since 1970 as `2026-08-09T00:00:00+00:00`. Seconds outside the years
/// chrono can name give 1970.
pub fn iso(seconds: i64) -> String {
    DateTime::from_timestamp(seconds, 0)
        .unwrap_or_default()
        .format("%Y-%m-%dT%H:%M:%S+00:00")
        .to_string()
}

/// The same moment as `20260809T000000Z`, as names have it.
pub fn compact(seconds: i64) -> String {
    DateTime::from_timestamp(seconds, 0)
        .unwrap_or_default()
        .format("%Y%m%dT%H%M%SZ")
        .to_string()
}

/// Whole seconds since 1970 of an ISO time with an offset, `Z` or, read as UTC, neither.
/// Fractions are cut off. `None` when it is no such time.
pub fn parse_iso(text: &str) -> Option<i64> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.timestamp());
    }
    NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f")
        .ok()
        .map(|time| time.and_utc().timestamp())
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::Mutex;

    use super::*;

    /// A clock that stands still until told.
    #[derive(Debug)]
    pub(crate) struct ScriptedClock(Mutex<Moment>);

    impl ScriptedClock {
        pub(crate) fn at(unix_seconds: u64) -> Self {
            Self(Mutex::new(Moment {
                wall: Duration::from_secs(unix_seconds),
                monotonic: Duration::from_secs(1_000),
            }))
        }

        /// Both clocks go on: the process ran, or was stopped by a signal.
        pub(crate) fn advance(&self, seconds: u64) {
            let mut now = self.0.lock().unwrap();
            now.wall += Duration::from_secs(seconds);
            now.monotonic += Duration::from_secs(seconds);
        }

        /// Only the wall clock goes on: the machine was suspended.
        pub(crate) fn suspend(&self, seconds: u64) {
            self.0.lock().unwrap().wall += Duration::from_secs(seconds);
        }

        /// The wall clock is set back while the process runs.
        pub(crate) fn set_back(&self, seconds: u64) {
            self.0.lock().unwrap().wall -= Duration::from_secs(seconds);
        }
    }

    impl Clock for ScriptedClock {
        fn now(&self) -> Moment {
            *self.0.lock().unwrap()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::ScriptedClock;
    use super::*;

    #[test]
    fn iso_times_read_back() {
        assert_eq!(iso(0), "1970-01-01T00:00:00+00:00");
        assert_eq!(iso(1_786_233_600), "2026-08-09T00:00:00+00:00");
        for seconds in [0, 951_827_696, 1_786_233_600, 4_102_444_799] {
            assert_eq!(parse_iso(&iso(seconds)), Some(seconds));
        }
    }

    #[test]
    fn other_spellings_of_a_time_are_read() {
        let seconds = Some(1_786_233_600);
        assert_eq!(parse_iso("2026-08-09T00:00:00Z"), seconds);
        assert_eq!(parse_iso("2026-08-09T02:00:00+02:00"), seconds);
        assert_eq!(parse_iso("2026-08-09T00:00:00"), seconds);
        assert_eq!(parse_iso("2026-08-09T00:00:00.750000+00:00"), seconds);
        assert_eq!(parse_iso("yesterday"), None);
        assert_eq!(parse_iso(""), None);
    }

    #[test]
    fn elapsed_time_is_the_stricter_of_two_clocks() {
        let clock = ScriptedClock::at(10_000);
        let start = clock.now();
        clock.suspend(60);
        assert_eq!(clock.now().since(start), Duration::from_secs(60));
        clock.set_back(5_000);
        clock.advance(10);
        assert_eq!(clock.now().since(start), Duration::from_secs(10));
    }
}
