//! Numbers for Prometheus, in its text format.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::runs::Runs;
use crate::messages::Event;

/// What is counted since the service started.
#[derive(Debug, Default)]
pub(super) struct Counters {
    written: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    throttled: AtomicU64,
    aborted: AtomicU64,
    /// Followers that are connected.
    pub(super) followers: AtomicI64,
    /// Events that followers were too slow for.
    pub(super) missed: AtomicU64,
}

impl Counters {
    pub(super) fn note(&self, event: &Event) {
        let counter = match event {
            Event::Written { .. } => &self.written,
            Event::Skipped { .. } => &self.skipped,
            Event::Failed { .. } => &self.failed,
            Event::Throttled { .. } => &self.throttled,
            Event::Aborted { .. } => &self.aborted,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// All of it.
pub(super) fn text(runs: &Runs) -> String {
    let (tally, counters) = (runs.tally(), runs.counters());
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed).to_string();
    let mut text = Text::default();
    text.metric("zagg_runs", "gauge", "Runs that are known, by state.");
    for (state, number) in [
        ("queued", tally.queued),
        ("running", tally.running),
        ("ended", tally.ended),
        ("interrupted", tally.interrupted),
    ] {
        text.value(&format!("{{state=\"{state}\"}}"), &number.to_string());
    }
    text.metric(
        "zagg_artifacts_total",
        "counter",
        "Columns and artifacts of the ladder, by outcome.",
    );
    for (outcome, counter) in [
        ("written", &counters.written),
        ("skipped", &counters.skipped),
        ("failed", &counters.failed),
    ] {
        text.value(&format!("{{outcome=\"{outcome}\"}}"), &count(counter));
    }
    text.metric(
        "zagg_throttled_total",
        "counter",
        "Times that a store asked for fewer requests.",
    );
    text.value("", &count(&counters.throttled));
    text.metric(
        "zagg_aborted_total",
        "counter",
        "Runs that were stopped early.",
    );
    text.value("", &count(&counters.aborted));
    text.metric(
        "zagg_followers",
        "gauge",
        "Followers of events that are connected.",
    );
    text.value("", &counters.followers.load(Ordering::Relaxed).to_string());
    text.metric(
        "zagg_missed_events_total",
        "counter",
        "Events that followers were too slow for.",
    );
    text.value("", &count(&counters.missed));
    text.metric("zagg_draining", "gauge", "Whether the service is stopping.");
    text.value("", &u8::from(runs.is_draining()).to_string());
    text.text
}

#[derive(Default)]
struct Text {
    text: String,
    name: String,
}

impl Text {
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // Writing into a string cannot fail, here and below.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        name.clone_into(&mut self.name);
    }

    fn value(&mut self, labels: &str, value: &str) {
        let _ = writeln!(self.text, "{}{labels} {value}", self.name);
    }
}
