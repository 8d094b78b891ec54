//! A store that asks for fewer requests gets fewer, and gets as many as before once it
//! keeps up again; nothing is lost on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::cases::{Case, Law};
use crate::common::compare::assert_all;
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{LEASE, scripted, start_steps, tree_in};
use futures::StreamExt;
use zagg_stream::{Account, Ending, Event, Report, Root, Runbook, Settings, Steps};

/// Tries without a pause, and enough of them that one in three may fail.
const PATIENT: &str = "[retry]\nmax_attempts = 20\ninitial_delay_ms = 0\nmax_delay_ms = 0";

/// Calls of a store that is overloaded, of a hundred.
const REFUSED: u64 = 30;

/// Calls after which it keeps up again.
const OVERLOADED_FOR: u64 = 400;

const SLOW_DOWN: Failure = Failure::Status(503);

fn settings(toml: &str) -> Settings {
    Settings::from_toml(&format!("{toml}\n{PATIENT}")).unwrap()
}

/// Refuses three of ten calls of these classes.
fn overloaded(ops: impl IntoIterator<Item = Op>, seed: u64) -> Rule {
    Rule::on(ops).percent(REFUSED, seed).fail(SLOW_DOWN)
}

/// The classes of calls that a run makes.
const CLASSES: [Op; 5] = [
    Op::Get,
    Op::Put,
    Op::Delete,
    Op::List,
    Op::ListWithDelimiter,
];

async fn upgrade_and_retire(store: &FaultStore) -> (Account, Vec<Event>) {
    let root = Root::new(Arc::new(store.clone()), "memory://overloaded");
    let runbook = Runbook::new(root).settings(settings("")).retire(true);
    let events = runbook.events().collect::<Vec<_>>();
    let (events, account) = tokio::join!(events, runbook.run());
    (account.unwrap(), events)
}

#[tokio::test]
async fn an_overloaded_store_is_upgraded_and_retired_all_the_same() {
    for (name, seed) in [("deep", 1), ("windowed", 2)] {
        let case = Case::load(name);
        let rules = CLASSES.map(|op| overloaded([op], seed));
        let struck = rules.each_ref().map(Rule::struck);
        let store = scripted(&case.declared(Law::Boundary), rules).await;
        let (account, events) = upgrade_and_retire(&store).await;
        for (op, struck) in CLASSES.iter().zip(struck) {
            assert!(struck.load(Ordering::Relaxed) > 0, "{name}: {op:?}");
        }
        let report = &account.report;
        assert_eq!(report.outcome, Ending::Done, "{name}: {report:?}");
        assert!(account.retired.is_some(), "{name}");
        assert!(
            report.requests.throttled > 100,
            "{name}: {:?}",
            report.requests
        );
        assert!(report.requests.lowest_cap.is_some(), "{name}");
        assert!(
            events
                .iter()
                .any(|event| matches!(event, Event::Throttled { .. })),
            "{name}"
        );
        let mut tree = tree_in(&*store.unspoilt()).await;
        assert!(!tree.contains_key(LEASE), "{name}");
        tree.retain(|key, _| !key.starts_with("upgrade_"));
        assert_all(&case.upgraded(Law::Boundary), &tree);
    }
}

async fn watched(store: &FaultStore, toml: &str) -> (Report, Vec<Event>) {
    let handle = start_steps(Arc::new(store.clone()), settings(toml), Steps::All).await;
    let events = handle.events().collect::<Vec<_>>();
    let (report, events) = tokio::join!(handle.join(), events);
    (report.unwrap(), events)
}

#[tokio::test]
async fn fewer_requests_are_made_while_it_is_overloaded_and_as_many_as_before_after() {
    const FULL: usize = 8;
    let case = Case::load("windowed");
    let calls = AtomicU64::new(0);
    let early = move |_: &str| calls.fetch_add(1, Ordering::Relaxed) < OVERLOADED_FOR;
    let rule = overloaded(CLASSES, 3).key(early);
    let store = scripted(&case.declared(Law::Boundary), [rule]).await;
    let (report, events) = watched(&store, "max_requests = 8").await;
    assert!(store.fired() > 50, "{}", store.fired());
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    let paces = events.iter().filter_map(|event| match event {
        Event::Throttled { max_requests, .. } | Event::Eased { max_requests } => {
            Some(*max_requests)
        }
        _ => None,
    });
    let paces: Vec<usize> = paces.collect();
    let lowest = *paces.iter().min().unwrap();
    assert!(lowest < FULL, "{paces:?}");
    assert_eq!(paces.last(), Some(&FULL), "{paces:?}");
    assert_eq!(report.requests.lowest_cap, Some(lowest as u64));
}

#[tokio::test]
async fn one_object_that_is_throttled_holds_up_nothing_else() {
    let case = Case::load("deep");
    let leaves = case.leaves();
    let rule = Rule::on([Op::Get])
        .key_contains(&format!("{}/zarr.json", leaves[0]))
        .first(5)
        .fail(SLOW_DOWN);
    let store = scripted(&case.declared(Law::Boundary), [rule]).await;
    let (report, events) = watched(&store, "").await;
    assert_eq!(store.fired(), 5);
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert_eq!(report.requests.throttled, 5);
    assert_eq!(report.requests.lowest_cap, None);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Event::Throttled { .. }))
    );
}
