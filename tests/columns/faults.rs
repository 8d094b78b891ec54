//! Faults of leaves and of the store: what is counted, what is tried again, and what
//! stops a pass, once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::compare::compare;
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{LEASE, PROBE, in_memory, run, scripted, settings, start, tree_in};
use crate::common::many::Many;
use crate::common::shard::{Shard, compress};
use crate::common::stores::differences;
use futures::StreamExt;
use zagg_stream::{Ending, Event, FaultKind, Report};

const SHARD: &str = "6/h_tdigest/c/0";

fn reads() -> Rule {
    Rule::on([Op::Get, Op::GetRanges])
}

/// Keys below a leaf's group of cells.
fn of_a_leaf(key: &str) -> bool {
    key.contains(".zarr/6/") && !key.contains(".pyramid.zarr/")
}

/// A pass and every event of it: the first request of a leaf waits until somebody
/// watches.
async fn watched(store: &FaultStore, toml: &str) -> (Report, Vec<Event>) {
    let handle = start(Arc::new(store.clone()), settings(toml)).await;
    let events = handle.events().collect::<Vec<_>>();
    let (report, events) = tokio::join!(handle.join(), events);
    (report.unwrap(), events)
}

/// Gives [`watched`] the time to watch.
fn late_leaves() -> Rule {
    reads()
        .key(|key| key.ends_with(".zarr/zarr.json"))
        .stall(Duration::from_millis(100))
}

fn aborts(events: &[Event]) -> Vec<&str> {
    let mut reasons = Vec::new();
    for event in events {
        if let Event::Aborted { reason } = event {
            reasons.push(reason.as_str());
        }
    }
    reasons
}

#[tokio::test]
async fn of_200_leaves_three_corrupt_and_one_that_panics_the_others_are_written() {
    let mut many = Many::leaves(200);
    let [truncated, checksum, length, panics] =
        [17, 60, 61, 199].map(|nth| many.leaves[nth].clone());
    let shard_of = |leaf: &str| format!("{leaf}/{SHARD}");
    many.tree
        .get_mut(&shard_of(&truncated))
        .unwrap()
        .truncate(9);
    *many
        .tree
        .get_mut(&shard_of(&checksum))
        .unwrap()
        .last_mut()
        .unwrap() ^= 1;
    let object = many.tree.get_mut(&shard_of(&length)).unwrap();
    let mut shard = Shard::parse(object, 4);
    let chunk = shard.chunks.iter_mut().flatten().next().unwrap();
    let mut decoded = zstd::decode_all(chunk.as_slice()).unwrap();
    decoded[4..8].fill(0xff);
    *chunk = compress(&decoded);
    *object = shard.to_bytes();

    let panicking = shard_of(&panics);
    let store = scripted(
        &many.tree,
        [reads().key(move |key| key == panicking).panic()],
    )
    .await;
    let report = run(Arc::new(store.clone()), settings("")).await;
    assert!(store.fired() > 0);
    assert_eq!(report.outcome, Ending::Failed);
    assert_eq!(report.exit_code, 1);
    assert_eq!((report.counts.written, report.counts.failed), (196, 4));

    let failed: BTreeMap<&str, &zagg_stream::FailedLeaf> = report
        .failed_leaves
        .iter()
        .map(|failed| (failed.leaf.as_str(), failed))
        .collect();
    assert_eq!(failed.len(), 4);
    for (leaf, says) in [
        (&truncated, "cut short"),
        (&checksum, "index"),
        (&length, "claims 4294967295 bytes"),
    ] {
        let failure = failed[leaf.as_str()];
        assert_eq!(failure.kind, FaultKind::CorruptLeaf);
        assert_eq!(failure.array.as_deref(), Some("h_tdigest"));
        assert!(failure.error.contains(says), "{}", failure.error);
        assert!(failure.error.contains("restore"), "{}", failure.error);
    }
    assert_eq!(failed[panics.as_str()].kind, FaultKind::Bug);

    let after = tree_in(&*store.unspoilt()).await;
    assert_eq!(
        differences(&many.tree, &after)
            .iter()
            .filter(|line| !line.starts_with("new: "))
            .count(),
        0
    );
    for leaf in &many.leaves {
        let column = Many::column(leaf);
        let written = after.keys().filter(|key| key.starts_with(&column)).count();
        assert_eq!(written > 0, !failed.contains_key(leaf.as_str()), "{leaf}");
    }
    assert!(!after.contains_key(LEASE));
}

#[tokio::test]
async fn when_every_leaf_is_denied_the_pass_stops_once_within_eight_leaves() {
    let many = Many::leaves(200);
    let denied = reads().key(of_a_leaf).fail(Failure::Denied);
    let store = scripted(&many.tree, [late_leaves(), denied]).await;
    let (report, events) = watched(&store, "").await;
    assert_eq!(report.outcome, Ending::Aborted);
    assert_eq!(report.exit_code, 4);
    assert_eq!(report.counts.written, 0);
    assert_eq!(report.counts.failed, 8, "{:?}", report.counts);
    assert_eq!(report.counts.failed + report.counts.not_attempted, 200);
    for failed in &report.failed_leaves {
        assert_eq!(failed.kind, FaultKind::Denied);
    }
    let error = report.error.unwrap();
    assert_eq!(aborts(&events), [error.as_str()]);
    assert!(error.contains("Denied"), "{error}");
    assert!(error.contains("run the same command again"), "{error}");
    // The lease was taken for the first leaf, and given back: shown to be ours, and deleted.
    assert_eq!(store.calls_of(Op::Put, LEASE), 2);
    assert_eq!(store.calls_of(Op::Delete, LEASE), 1);
    assert_eq!(tree_in(&*store.unspoilt()).await, many.tree);
}

#[tokio::test]
async fn when_the_manifest_is_denied_too_the_pass_stops_at_the_first_leaf() {
    let many = Many::leaves(50);
    let is_stamp = |key: &str| key.ends_with(".zarr/zarr.json");
    let store = scripted(
        &many.tree,
        [
            late_leaves(),
            reads().key(is_stamp).fail(Failure::Denied),
            reads()
                .key(|key| key == MANIFEST)
                .from(2)
                .fail(Failure::Denied),
        ],
    )
    .await;
    let (report, events) = watched(&store, "max_in_flight = 1").await;
    assert_eq!(report.exit_code, 4);
    assert_eq!(report.counts.failed, 1, "{:?}", report.counts);
    assert_eq!(report.counts.not_attempted, 49);
    assert_eq!(aborts(&events).len(), 1);
    assert_eq!(
        store.calls_of(Op::Get, MANIFEST),
        2,
        "read, and probed once"
    );
    assert_eq!(store.calls(Op::Put), 0, "no leaf needed the lease");
}

#[tokio::test]
async fn a_denied_leaf_among_others_is_only_that_leafs_failure() {
    let many = Many::leaves(12);
    let denied: Vec<String> = many.leaves.iter().step_by(2).cloned().collect();
    let rule = reads()
        .key(move |key| of_a_leaf(key) && denied.iter().any(|leaf| key.starts_with(leaf.as_str())));
    let store = scripted(&many.tree, [rule.fail(Failure::Denied)]).await;
    let report = run(Arc::new(store.clone()), settings("max_in_flight = 1")).await;
    assert_eq!(report.outcome, Ending::Failed);
    assert_eq!((report.counts.written, report.counts.failed), (6, 6));
}

#[tokio::test]
async fn a_store_that_asks_for_fewer_requests_and_then_serves_them_is_upgraded() {
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    // The first two requests for every object, whether it is read or written.
    let turns: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let throttled = Rule::on([Op::Get, Op::Put]).key(move |key| {
        let mut turns = turns.lock().unwrap();
        let turn = turns.entry(key.to_owned()).or_default();
        *turn += 1;
        *turn <= 2
    });
    let store = scripted(&tree, [throttled.fail(Failure::Status(503))]).await;
    let report = run(Arc::new(store.clone()), settings("")).await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert!(store.fired() > 100);
    assert_eq!(report.requests.retried, store.fired());
    assert_eq!(report.requests.throttled, store.fired());
    let lines = compare(
        &case.expected(Law::Boundary),
        &tree_in(&*store.unspoilt()).await,
    );
    assert_eq!(lines, Vec::<String>::new());
}

#[tokio::test]
async fn a_store_that_stays_busy_stops_the_pass_after_eight_leaves_in_a_row() {
    for (status, kind) in [(503, FaultKind::Throttled), (500, FaultKind::Unavailable)] {
        let many = Many::leaves(40);
        let busy = reads().key(of_a_leaf).fail(Failure::Status(status));
        let store = scripted(&many.tree, [late_leaves(), busy]).await;
        let (report, events) = watched(&store, "max_in_flight = 1").await;
        assert_eq!(report.exit_code, 4);
        assert_eq!(report.counts.failed, 8);
        assert_eq!(report.counts.not_attempted, 32);
        assert!(
            report
                .failed_leaves
                .iter()
                .all(|failed| failed.kind == kind)
        );
        assert_eq!(aborts(&events).len(), 1);
        assert!(report.requests.retried > 0);
        assert_eq!(tree_in(&*store.unspoilt()).await, many.tree);
    }
}

#[tokio::test]
async fn a_store_that_refuses_writes_stops_the_pass_and_nothing_is_written() {
    // What refuses every write is found out before the first one that counts.
    for (op, key, outcome) in [
        (Op::Put, "", Ending::Refused),
        (Op::Delete, "", Ending::Refused),
        (Op::Put, ".pyramid.zarr/", Ending::Aborted),
        (Op::Delete, ".pyramid.", Ending::Aborted),
    ] {
        let many = Many::leaves(30);
        let refused = Rule::on([op]).key_contains(key).fail(Failure::Denied);
        let store = scripted(&many.tree, [late_leaves(), refused]).await;
        let (report, events) = watched(&store, "").await;
        assert_eq!(report.outcome, outcome, "{op:?} {key}: {report:?}");
        assert_eq!(report.counts.written, 0);
        assert!(report.counts.failed <= 8, "{:?}", report.counts);
        assert_eq!(aborts(&events).len(), 1);
        assert!(store.fired() > 0);
        let mut left = tree_in(&*store.unspoilt()).await;
        if (op, outcome) == (Op::Delete, Ending::Refused) {
            // What cannot be deleted stays, and is no part of the store.
            left.retain(|key, _| !key.starts_with(PROBE));
        }
        assert_eq!(left, many.tree, "no lease is left either");
    }
}

#[tokio::test]
async fn a_sidecar_that_cannot_be_written_leaves_its_column_complete() {
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let sidecar = Rule::on([Op::Put]).key_ends_with(".pyramid.stats.json");
    let store = scripted(&tree, [sidecar.fail(Failure::Denied)]).await;
    let report = run(Arc::new(store.clone()), settings("")).await;
    assert_eq!(store.fired(), 4);
    assert_eq!(report.outcome, Ending::Done);
    assert_eq!((report.counts.written, report.counts.failed), (4, 0));
    let mut expected = case.expected(Law::Boundary);
    expected
        .columns
        .retain(|key, _| !key.ends_with(".stats.json"));
    let after = tree_in(&*store.unspoilt()).await;
    assert_eq!(compare(&expected, &after), Vec::<String>::new());
}

#[tokio::test]
async fn an_abort_drains_and_the_next_pass_goes_on_from_there() {
    let case = Case::load("deep");
    let tree = case.declared(Law::Boundary);
    let inner = in_memory(&tree).await;
    let slow = Rule::on([Op::Put])
        .key_contains(".pyramid.zarr/")
        .stall(Duration::from_millis(5));
    let store = FaultStore::new(inner.clone(), [slow]);
    let handle = start(Arc::new(store.clone()), settings("max_in_flight = 1")).await;
    let mut events = Box::pin(handle.events());
    let written = |event: &Event| matches!(event, Event::Written { .. });
    while !events.next().await.is_some_and(|event| written(&event)) {}
    handle.abort("the test");
    let report = handle.join().await.unwrap();
    assert_eq!(report.outcome, Ending::Interrupted);
    assert_eq!(report.exit_code, 130);
    assert!(report.counts.written >= 1 && report.counts.not_attempted >= 1);
    assert_eq!(report.counts.failed, 0);
    assert!(report.error.unwrap().contains("stopped by the test"));
    let stopped = tree_in(&*store.unspoilt()).await;
    assert!(!stopped.contains_key(LEASE));
    // What was begun is whole: every column that is there has its stamp.
    for column in case.columns(Law::Boundary) {
        let objects = stopped.keys().filter(|key| key.starts_with(&column));
        if objects.count() > 0 {
            let root = &stopped[&format!("{column}/zarr.json")];
            assert!(String::from_utf8_lossy(root).contains("morton_hive_commit"));
        }
    }

    let resumed = run(inner.clone(), settings("")).await;
    assert_eq!(resumed.outcome, Ending::Done);
    assert_eq!(resumed.counts.current, report.counts.written);
    let lines = compare(&case.expected(Law::Boundary), &tree_in(&*inner).await);
    assert_eq!(lines, Vec::<String>::new());
}

#[tokio::test]
async fn an_abort_does_not_wait_for_a_store_that_answers_no_read() {
    const STALL: Duration = Duration::from_secs(3600);
    for key in ["/zarr.json", "/h_tdigest/c/0"] {
        let case = Case::load("plain");
        let stuck = Rule::on([Op::Get])
            .key(move |asked| asked.contains(".zarr/") && asked.ends_with(key))
            .stall(STALL);
        let store = scripted(&case.declared(Law::Boundary), [stuck]).await;
        let handle = start(Arc::new(store.clone()), settings("")).await;
        while store.fired() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        handle.abort("the test");
        let report = handle.join().await.unwrap();
        assert_eq!(report.outcome, Ending::Interrupted, "{key}");
        assert_eq!(report.counts.not_attempted, case.leaves().len() as u64);
        let left = tree_in(&*store.unspoilt()).await;
        assert!(!left.contains_key(LEASE), "{key}");
    }
}

#[tokio::test]
async fn the_events_of_a_pass_end_with_it() {
    let case = Case::load("plain");
    // Slow enough that nobody is written before somebody watches.
    let slow = Rule::on([Op::Put]).stall(Duration::from_millis(50));
    let store = scripted(&case.declared(Law::Boundary), [slow]).await;
    let handle = start(Arc::new(store), settings("")).await;
    let events: Vec<Event> = handle.events().collect().await;
    let written = |event: &&Event| matches!(event, Event::Written { .. });
    let report = handle.join().await.unwrap();
    assert_eq!(
        events.iter().filter(written).count() as u64,
        report.counts.written
    );
}

#[tokio::test]
async fn a_leaf_whose_root_document_cannot_be_parsed_is_not_taken_for_absent() {
    for broken in [
        "",
        "{\"attributes\": {\"morton_hive",
        "{\"attributes\": {\"x\": NaN}}",
    ] {
        let case = Case::load("plain");
        let mut tree = case.declared(Law::Boundary);
        let leaf = case.leaves()[0].clone();
        tree.insert(format!("{leaf}/zarr.json"), broken.into());
        let report = run(in_memory(&tree).await, settings("")).await;
        assert_eq!(
            (report.counts.empty, report.counts.failed),
            (0, 1),
            "{broken}"
        );
        let failed = &report.failed_leaves[0];
        assert_eq!((&failed.leaf, failed.kind), (&leaf, FaultKind::CorruptLeaf));
    }
}
