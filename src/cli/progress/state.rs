//! What is known of a run, from the events so far.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What the rates are taken over.
const WINDOW: Duration = Duration::from_secs(30);

/// Everything a display may want to say.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The step under way.
    pub step: Option<StepState>,
    /// The lease, once it was asked for.
    pub lease: Lease,
    /// Requests at once, while the store asks for fewer.
    pub throttled_to: Option<u64>,
    /// The workers of a fleet.
    pub parts: Option<PartsState>,
    /// The last thing that was warned of.
    pub last_warning: Option<String>,
}

/// The step under way.
#[derive(Debug)]
pub(super) struct StepState {
    pub name: String,
    pub began: Instant,
    pub now: Numbers,
    /// Earlier numbers, the oldest first.
    samples: VecDeque<(Instant, Numbers)>,
}

/// How far a step is, as it was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub done: u64,
    pub total: u64,
    pub failed: u64,
    pub in_flight: u64,
    pub in_flight_bytes: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// What is known of the lease.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Lease {
    /// It was not needed yet.
    #[default]
    NotTaken,
    /// It is held, and confirmed next at this moment.
    Held { next_beat: Instant },
    /// It was given back.
    GivenBack,
}

/// How far the workers of a fleet are.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PartsState {
    pub total: u64,
    pub ended: u64,
    pub at_work: u64,
    /// Pieces that each worker ends in a second, on average.
    pub per_second: f64,
    /// The part with the longest to go: its number, its pieces done and in all, and its pace.
    pub slowest: Option<(u64, u64, u64, f64)>,
}

impl StepState {
    pub(super) fn new(name: &str, total: u64, now: Instant) -> Self {
        let numbers = Numbers {
            total,
            ..Numbers::default()
        };
        Self {
            name: name.to_owned(),
            began: now,
            now: numbers,
            samples: VecDeque::new(),
        }
    }

    /// Takes the numbers of this moment.
    pub(super) fn note(&mut self, numbers: Numbers, now: Instant) {
        if self.samples.is_empty() {
            // Bytes are those of the whole run, so the step's begin with its first numbers.
            let before = Numbers { done: 0, ..numbers };
            self.samples.push_back((self.began, before));
        }
        while let Some((at, _)) = self.samples.get(1)
            && now.duration_since(*at) >= WINDOW
        {
            self.samples.pop_front();
        }
        self.samples.push_back((now, numbers));
        self.now = numbers;
    }

    /// Change of a number in a second, lately.
    pub(super) fn rate(&self, of: impl Fn(&Numbers) -> u64) -> f64 {
        let (Some((from, before)), Some((to, after))) = (self.samples.front(), self.samples.back())
        else {
            return 0.0;
        };
        let seconds = to.duration_since(*from).as_secs_f64();
        let change = of(after).saturating_sub(of(before)) as f64;
        if seconds > 0.0 { change / seconds } else { 0.0 }
    }

    /// How long the rest takes at the rate of late; `None` while that cannot be told.
    pub(super) fn left(&self) -> Option<Duration> {
        let rest = self.now.total.checked_sub(self.now.done)? as f64;
        let seconds = rest / self.rate(|numbers| numbers.done);
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(done: u64, bytes_read: u64) -> Numbers {
        Numbers {
            done,
            total: 100,
            bytes_read,
            ..Numbers::default()
        }
    }

    #[test]
    fn rates_are_those_of_late_and_tell_how_long_it_takes() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut step = StepState::new("columns", 100, began);
        assert_eq!(step.left(), None);
        step.note(numbers(10, 5000), at(10));
        assert_eq!(step.rate(|numbers| numbers.done), 1.0);
        assert_eq!(
            step.rate(|numbers| numbers.bytes_read),
            0.0,
            "the run's so far"
        );
        assert_eq!(step.left(), Some(Duration::from_secs(90)));
        for second in 11..=60 {
            step.note(
                numbers(10 + (second - 10) / 5, 5000 + 100 * second),
                at(second),
            );
        }
        assert_eq!(step.rate(|numbers| numbers.done), 0.2);
        assert_eq!(step.rate(|numbers| numbers.bytes_read), 100.0);
        assert_eq!(step.left(), Some(Duration::from_secs(400)));
    }

    #[test]
    fn a_step_that_stands_still_has_no_end_to_tell() {
        let began = Instant::now();
        let mut step = StepState::new("columns", 100, began);
        for second in 1..=60 {
            step.note(numbers(10, 0), began + Duration::from_secs(second));
        }
        assert_eq!(step.left(), None);
    }
}
