//! Reads the library's events into the state of the display.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use super::state::{Lease, Numbers, PartsState, StepState};
use super::{Screen, Shared, json};
use crate::watch::{FLEET, LEASE, PROGRESS, REQUESTS};

/// Takes part in tracing for the display.
#[derive(Debug)]
pub(in crate::cli) struct Layer {
    shared: Shared,
    /// Where events are told as they come, if they are.
    told: Option<Screen>,
}

/// What the display wants to hear of: progress at any level, and what is warned of.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct Heard;

impl Heard {
    fn hears(metadata: &Metadata<'_>) -> bool {
        let is_told = [PROGRESS, LEASE, REQUESTS, FLEET].contains(&metadata.target());
        metadata.is_event() && (is_told || *metadata.level() <= Level::WARN)
    }
}

impl<S> Filter<S> for Heard {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        Self::hears(metadata)
    }

    /// Decided once for each place in the program, so that what nobody hears costs nothing.
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match Self::hears(metadata) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

impl Layer {
    pub(super) fn quiet(shared: Shared) -> Self {
        Self { shared, told: None }
    }

    pub(super) fn telling(shared: Shared, screen: Screen) -> Self {
        Self {
            shared,
            told: Some(screen),
        }
    }

    fn take(&self, target: &str, level: Level, fields: &Fields) {
        let now = Instant::now();
        let mut state = self.shared.state();
        match (target, fields.message.as_str()) {
            (PROGRESS, "step started") => {
                let total = fields.number("total");
                state.step = Some(StepState::new(&fields.text("step"), total, now));
                state.parts = None;
            }
            (PROGRESS, "progress") => {
                let name = fields.text("step");
                if let Some(step) = state.step.as_mut().filter(|step| step.name == name) {
                    step.note(fields.numbers(), now);
                }
            }
            (PROGRESS, "step ended") => state.step = None,
            (FLEET, "parts") => state.parts = Some(fields.parts()),
            (LEASE, "lease given back") => state.lease = Lease::GivenBack,
            (LEASE, _) => {
                let next_beat = now + Duration::from_secs(fields.number("next_beat_s"));
                state.lease = Lease::Held { next_beat };
            }
            (REQUESTS, _) => {
                state.throttled_to = (level == Level::WARN).then(|| fields.number("max_requests"));
            }
            _ => state.last_warning = Some(fields.sentence()),
        }
    }
}

impl<S: Subscriber> tracing_subscriber::Layer<S> for Layer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        self.take(metadata.target(), *metadata.level(), &fields);
        if let Some(screen) = &self.told {
            screen.line(&json::line(metadata, &fields));
        }
    }
}

/// The fields of one event.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub message: String,
    pub others: Map<String, Value>,
}

impl Fields {
    fn number(&self, name: &str) -> u64 {
        self.others.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    fn text(&self, name: &str) -> String {
        let text = self.others.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    }

    fn numbers(&self) -> Numbers {
        Numbers {
            done: self.number("done"),
            total: self.number("total"),
            failed: self.number("failed"),
            in_flight: self.number("in_flight"),
            in_flight_bytes: self.number("in_flight_bytes"),
            bytes_read: self.number("bytes_read"),
            bytes_written: self.number("bytes_written"),
        }
    }

    fn parts(&self) -> PartsState {
        let slowest = self.others.get("slowest").and_then(Value::as_u64);
        let pace = |name: &str| self.others.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        PartsState {
            total: self.number("parts"),
            ended: self.number("ended"),
            at_work: self.number("at_work"),
            per_second: pace("per_second"),
            slowest: slowest.map(|part| {
                let (done, total) = (self.number("slowest_done"), self.number("slowest_total"));
                (part, done, total, pace("slowest_per_second"))
            }),
        }
    }

    /// What a warning says, with the place and the reason that are its fields.
    fn sentence(&self) -> String {
        let mut sentence = self.message.clone();
        for name in ["path", "leaf", "reason", "error"] {
            if let Some(value) = self.others.get(name) {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                sentence = format!("{sentence}: {value}");
            }
        }
        sentence
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.others.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.others.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.others.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.others.insert(field.name().to_owned(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.others.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            name => drop(self.others.insert(name.to_owned(), text.into())),
        }
    }
}
