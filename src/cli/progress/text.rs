//! The words of the display.

use std::time::{Duration, Instant};

use super::state::{Lease, PartsState, State, StepState};
use crate::cli::output::bytes;

const SECONDS_PER_MINUTE: u64 = 60;
const MINUTES_PER_HOUR: u64 = 60;

/// What the pieces of a step are called.
fn pieces(step: &str) -> &'static str {
    match step {
        "columns" => "leaves",
        "ladder" | "verify" | "retire" => "artifacts",
        "cube" => "objects",
        _ => "steps",
    }
}

/// How fast and how long yet: `12.3 leaves/s, 3 min 20 s left`.
pub(super) fn pace(step: &StepState) -> String {
    let rate = step.rate(|numbers| numbers.done);
    let left = match step.left() {
        Some(left) => format!("{} left", duration(left)),
        None => "no end in sight yet".to_owned(),
    };
    format!("{rate:.1} {}/s, {left}", pieces(&step.name))
}

/// What moves: `64 in flight (70.0 MiB), 88.0 MiB/s read, 12.0 MiB/s written, memory 120.0 MiB`.
pub(super) fn traffic(step: &StepState) -> String {
    let numbers = &step.now;
    let speed = |rate: f64| bytes(rate as u64);
    let mut text = format!(
        "{} in flight ({}), {}/s read, {}/s written",
        numbers.in_flight,
        bytes(numbers.in_flight_bytes),
        speed(step.rate(|numbers| numbers.bytes_read)),
        speed(step.rate(|numbers| numbers.bytes_written)),
    );
    if let Some(memory) = memory() {
        text.push_str(&format!(", memory {}", bytes(memory)));
    }
    text
}

/// What may need the operator: lease, store, failures, workers.
pub(super) fn standing(state: &State, now: Instant) -> String {
    let mut parts = vec![lease(&state.lease, now)];
    if let Some(max_requests) = state.throttled_to {
        parts.push(format!("throttled: {max_requests} requests at once"));
    }
    if let Some(failed) = state.step.as_ref().map(|step| step.now.failed)
        && failed > 0
    {
        parts.push(format!("{failed} failed"));
    }
    if let Some(fleet) = &state.parts {
        parts.push(workers(fleet));
    }
    parts.join("; ")
}

fn lease(lease: &Lease, now: Instant) -> String {
    match lease {
        Lease::NotTaken => "lease not needed so far".to_owned(),
        Lease::Held { next_beat } => {
            let left = next_beat.saturating_duration_since(now).as_secs();
            format!("lease held, next beat in {left} s")
        }
        Lease::GivenBack => "lease given back".to_owned(),
    }
}

fn workers(parts: &PartsState) -> String {
    let PartsState {
        total,
        ended,
        at_work,
        per_second,
        slowest,
    } = parts;
    let mut text = format!("{ended} of {total} parts ended, {at_work} at work");
    if *at_work > 0 {
        text.push_str(&format!(" at {per_second:.1}/s each"));
    }
    if let Some((part, done, total, pace)) = slowest {
        text.push_str(&format!(
            ", longest to go: part {part}, {done} of {total} at {pace:.1}/s"
        ));
    }
    text
}

/// A length of time for people.
pub(super) fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    let (minutes, seconds) = (seconds / SECONDS_PER_MINUTE, seconds % SECONDS_PER_MINUTE);
    let (hours, minutes) = (minutes / MINUTES_PER_HOUR, minutes % MINUTES_PER_HOUR);
    match (hours, minutes) {
        (0, 0) => format!("{seconds} s"),
        (0, _) => format!("{minutes} min {seconds} s"),
        _ => format!("{hours} h {minutes} min"),
    }
}

/// Resident bytes of this process, where the system tells.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

/// One line that says it all.
pub(super) fn line(state: &State, now: Instant) -> Option<String> {
    let step = state.step.as_ref()?;
    let numbers = &step.now;
    let mut line = format!(
        "{}: {} of {} {}, {}; {}; {}",
        step.name,
        numbers.done,
        numbers.total,
        pieces(&step.name),
        pace(step),
        traffic(step),
        standing(state, now),
    );
    if let Some(warning) = &state.last_warning {
        line.push_str(&format!("; last warning: {}", one_line(warning)));
    }
    Some(line)
}

/// A text without what would move a cursor.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::state::Numbers;
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_what_is_wrong() {
        let now = Instant::now();
        let began = now - Duration::from_secs(10);
        let mut step = StepState::new("columns", 2700, began);
        let numbers = Numbers {
            done: 50,
            total: 2700,
            failed: 1,
            in_flight: 64,
            in_flight_bytes: 70 << 20,
            ..Numbers::default()
        };
        step.note(numbers, now);
        let state = State {
            step: Some(step),
            lease: Lease::Held {
                next_beat: now + Duration::from_secs(41),
            },
            throttled_to: Some(128),
            last_warning: Some("two\nlines".to_owned()),
            ..State::default()
        };
        let line = line(&state, now).unwrap();
        for said in [
            "columns: 50 of 2700 leaves, 5.0 leaves/s, 8 min 50 s left; 64 in flight (70.0 MiB), ",
            "lease held, next beat in 41 s; throttled: 128 requests at once; 1 failed",
            "last warning: two lines",
        ] {
            assert!(line.contains(said), "{line}");
        }
        assert_eq!(super::line(&State::default(), now), None);
    }
}
