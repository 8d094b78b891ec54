//! What a tracing subscriber of a host sees of a run: one span each for the run, its steps,
//! its leaves and its objects, one inside the other, and the counters of every step.

#![cfg(test)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use common::cases::{Case, Law};
use common::library::{in_memory, settings};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use zagg_stream::{Ending, Root, Runbook};

type Fields = BTreeMap<String, String>;

/// A span as it was seen.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: &'static str,
    /// Names of the spans around it, the outermost first.
    inside: Vec<&'static str>,
    fields: Fields,
    closed: bool,
}

#[derive(Debug, Default)]
struct Recorded {
    spans: BTreeMap<u64, Seen>,
    progress: Vec<Fields>,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Recorded>>);

struct Collect<'a>(&'a mut Fields);

impl Visit for Collect<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !attributes.metadata().target().starts_with("zagg_stream") {
            return;
        }
        let mut seen = Seen {
            name: attributes.metadata().name(),
            ..Seen::default()
        };
        attributes.record(&mut Collect(&mut seen.fields));
        let scope = context
            .span_scope(id)
            .into_iter()
            .flat_map(|scope| scope.from_root());
        seen.inside = scope.map(|span| span.name()).collect();
        seen.inside.pop();
        // An id is used again once its span is closed.
        let mut recorded = self.0.lock().unwrap();
        let key = id.into_u64();
        if let Some(closed) = recorded.spans.remove(&key) {
            assert!(closed.closed, "{closed:?}");
            let kept = u64::MAX - recorded.spans.len() as u64;
            recorded.spans.insert(kept, closed);
        }
        recorded.spans.insert(key, seen);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(seen) = self.0.lock().unwrap().spans.get_mut(&id.into_u64()) {
            values.record(&mut Collect(&mut seen.fields));
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        if let Some(seen) = self.0.lock().unwrap().spans.get_mut(&id.into_u64()) {
            seen.closed = true;
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "zagg_stream::progress" {
            let mut fields = Fields::new();
            event.record(&mut Collect(&mut fields));
            self.0.lock().unwrap().progress.push(fields);
        }
    }
}

impl Recorded {
    fn named(&self, name: &str) -> Vec<&Seen> {
        self.spans
            .values()
            .filter(|seen| seen.name == name)
            .collect()
    }
}

// One test, because a subscriber for all threads is one for the whole process.
#[tokio::test]
async fn spans_nest_and_every_step_moves_its_counters() {
    let recorder = Recorder::default();
    let subscriber = tracing_subscriber::registry().with(recorder.clone());
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let case = Case::load("deep");
    let store = in_memory(&case.declared(Law::Boundary)).await;
    let root = Root::new(store, "memory://spans");
    let account = Runbook::new(root)
        .settings(settings(""))
        .run()
        .await
        .unwrap();
    assert_eq!(account.report.outcome, Ending::Done, "{account:?}");

    let recorded = recorder.0.lock().unwrap();
    let [run] = recorded.named("run")[..] else {
        panic!("{:?}", recorded.named("run"));
    };
    assert_eq!(run.fields["root"], "memory://spans");
    assert_eq!(run.fields["run_id"], account.report.run_id);
    assert!(run.inside.is_empty() && run.closed, "{run:?}");

    let steps = recorded.named("step");
    let names: BTreeSet<&str> = steps.iter().map(|step| &*step.fields["name"]).collect();
    let expected = [
        "listing", "columns", "ladder", "finisher", "verify", "receipt",
    ];
    assert_eq!(names, BTreeSet::from(expected));
    assert_eq!(steps.len(), expected.len());
    for step in steps {
        assert!(step.inside == ["run"] && step.closed, "{step:?}");
    }

    let leaves = recorded.named("leaf");
    let n_artifacts = account.report.ladder.as_ref().unwrap().counts.written;
    assert_eq!(
        leaves.len() as u64,
        account.report.counts.written + n_artifacts
    );
    for leaf in leaves {
        assert!(leaf.inside == ["run", "step"] && leaf.closed, "{leaf:?}");
        assert!(leaf.fields["path"].ends_with(".zarr"), "{leaf:?}");
    }

    let objects = recorded.named("object");
    assert!(
        objects.len() as u64 >= account.report.requests.put,
        "{}",
        objects.len()
    );
    for object in &objects {
        assert!(
            object.inside.first() == Some(&"run") && object.closed,
            "{object:?}"
        );
        assert!(object.fields.contains_key("key") && object.fields.contains_key("op"));
    }
    let of_leaves = objects
        .iter()
        .filter(|object| object.inside == ["run", "step", "leaf"]);
    let written = of_leaves
        .filter(|object| object.fields["op"] == "write")
        .count() as u64;
    assert!(written > account.report.counts.written, "{written}");

    for step in expected {
        let of_step = |fields: &&Fields| fields["step"] == step;
        let told: Vec<_> = recorded.progress.iter().filter(of_step).collect();
        let message = |fields: &Fields| fields["message"].clone();
        assert_eq!(message(told[0]), "step started");
        assert_eq!(message(told[told.len() - 1]), "step ended");
        let progress = told[told.len() - 2];
        assert_eq!(message(progress), "progress");
        assert_eq!(progress["done"], progress["total"], "{step}");
    }
}
