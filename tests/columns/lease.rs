//! The sweep lease under load, over a stop of the process, and taken from a run that is
//! still there: it is kept while anything works and writes nothing once it is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::binary::{Running, Zagg};
use crate::common::cases::{Case, Law};
use crate::common::compare::assert_columns;
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{LEASE, run, scripted, settings, start, tree_in};
use crate::common::many::Many;
use crate::common::stores::{TestStore, Tree, differences};
use crate::common::times::iso_ago;
use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use serde_json::{Value, json};
use zagg_stream::{Ending, Event, Report};

const TTL: Duration = Duration::from_secs(2);

/// A test that waits longer than this waits in vain.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The lease as it stands. It is replaced whole, so it is never read half written.
fn lease_of(store: &TestStore) -> Option<Value> {
    let bytes = std::fs::read(store.path(LEASE)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn text(lease: &Value, key: &str) -> String {
    lease[key].as_str().unwrap_or_default().to_owned()
}

fn lease_by(run_id: &str, heartbeat_ago: u64) -> Vec<u8> {
    let lease = json!({
        "spec": "zagg-sweep-lease/1",
        "run_id": run_id,
        "scope": null,
        "acquired_at": iso_ago(heartbeat_ago + 60),
        "heartbeat_at": iso_ago(heartbeat_ago),
        "ttl_s": 900,
    });
    serde_json::to_vec_pretty(&lease).unwrap()
}

/// Computes for nothing until this holds.
fn spin_until(over: impl Fn() -> bool) {
    while !over() {
        std::hint::spin_loop();
    }
}

#[tokio::test]
async fn a_pass_that_blocks_every_cpu_longer_than_the_ttl_loses_no_beat() {
    const BLOCKED: Duration = Duration::from_millis(6_500);
    assert!(BLOCKED > 3 * TTL);
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    // Every read of a shard holds the thread it is made on, which are all the threads of
    // the pass's requests, and never gives it back before the time is over.
    let until: Arc<OnceLock<Instant>> = Arc::default();
    let blocked = Arc::new(AtomicU64::new(0));
    let block = {
        let (until, blocked) = (until.clone(), blocked.clone());
        Rule::on([Op::Get]).key(move |key| {
            if !key.ends_with("/c/0") {
                return false;
            }
            let until = *until.get_or_init(|| Instant::now() + BLOCKED);
            blocked.fetch_add(1, Ordering::SeqCst);
            spin_until(|| Instant::now() >= until);
            false
        })
    };
    let disk = LocalFileSystem::new_with_prefix(store.root()).unwrap();
    let scripted = FaultStore::new(Arc::new(disk.with_automatic_cleanup(true)), [block]);
    // And as much again for every processor.
    let over = Arc::new(AtomicBool::new(false));
    let cpus = thread::available_parallelism().unwrap().get();
    let burners: Vec<_> = (0..cpus)
        .map(|_| {
            let over = over.clone();
            thread::spawn(move || spin_until(|| over.load(Ordering::Relaxed)))
        })
        .collect();

    let handle = start(Arc::new(scripted), settings("lease_ttl_s = 2")).await;
    wait_for(|| until.get());
    let mut beats = Vec::new();
    while Instant::now() < *until.get().unwrap() {
        let lease = lease_of(&store).unwrap();
        let beat = (text(&lease, "run_id"), text(&lease, "heartbeat_at"));
        let live = (0..=TTL.as_secs()).any(|ago| iso_ago(ago) == beat.1);
        assert!(live, "{beat:?} at {}", iso_ago(0));
        if beats.last() != Some(&beat) {
            beats.push(beat);
        }
        thread::sleep(Duration::from_millis(50));
    }
    over.store(true, Ordering::Relaxed);
    for burner in burners {
        burner.join().unwrap();
    }
    let report = handle.join().await.unwrap();
    assert!(blocked.load(Ordering::SeqCst) >= cpus as u64);
    // A beat is due every 0.67 s and says whole seconds.
    assert!(beats.len() >= 4, "{beats:?}");
    assert!(beats.iter().all(|(run_id, _)| *run_id == report.run_id));
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert_columns(&case, Law::Boundary, &store.root());
}

/// What is being written to a disk has such a name until it is whole.
const UNFINISHED: char = '#';

/// A run over a store of many leaves, stopped in the middle of a column: its root
/// document is there and says nothing yet.
fn stopped_in_a_column(store: &TestStore, many: &Many) -> Running {
    let toml = store.parent().join("settings.toml");
    std::fs::write(&toml, format!("lease_ttl_s = {}", TTL.as_secs())).unwrap();
    let mut running = Zagg::backfill(&store.root())
        .arg("--settings")
        .arg(&toml)
        .args(&["--max-in-flight", "1"])
        .start();
    wait_for(|| lease_of(store));
    wait_for(|| {
        assert!(!running.has_ended());
        running.signal("STOP");
        // Stopping takes a moment of its own.
        thread::sleep(Duration::from_millis(10));
        let last = many
            .leaves
            .iter()
            .filter_map(|leaf| {
                let root = store.path(&format!("{}/zarr.json", Many::column(leaf)));
                std::fs::read_to_string(root).ok()
            })
            .next_back();
        // A write that the disk has in hand comes to its end whatever the process does.
        let in_hand = store.tree().keys().any(|key| key.contains(UNFINISHED));
        if !in_hand && last.is_some_and(|root| !root.contains("zagg_column")) {
            return Some(());
        }
        running.signal("CONT");
        None
    });
    running
}

/// The root documents of the columns, which have the stamps.
fn column_roots(store: &TestStore) -> Tree {
    let mut tree = store.tree();
    tree.retain(|key, _| key.ends_with(".pyramid.zarr/zarr.json"));
    tree
}

fn live_no_more(store: &TestStore) -> Option<()> {
    let heartbeat = text(&lease_of(store).unwrap(), "heartbeat_at");
    let live = (0..=TTL.as_secs()).any(|ago| iso_ago(ago) == heartbeat);
    (!live).then_some(())
}

#[test]
fn a_process_stopped_past_its_ttl_stamps_nothing_beside_the_lease_of_another() {
    let many = Many::leaves(200);
    let store = TestStore::of(&many.tree);
    let running = stopped_in_a_column(&store, &many);
    wait_for(|| live_no_more(&store));
    let other = lease_by("other-run-7", 0);
    store.write(LEASE, &other);
    let before = column_roots(&store);
    running.signal("CONT");
    let run = running.wait().expect_code(4);
    assert_eq!(run.text("/outcome"), "aborted");
    assert!(run.text("/error").contains("lease"), "{:#}", run.json());
    assert!(run.number("/counts/not_attempted") > 0);
    assert_eq!(
        differences(&before, &column_roots(&store)),
        Vec::<String>::new(),
        "no root document, and so no stamp, is written after the stop"
    );
    assert_eq!(store.read(LEASE), other, "the other's lease is untouched");
}

#[test]
fn a_process_stopped_past_its_ttl_changes_nothing_that_another_run_finished() {
    let many = Many::leaves(200);
    let store = TestStore::of(&many.tree);
    let running = stopped_in_a_column(&store, &many);
    let lost = text(&lease_of(&store).unwrap(), "run_id");
    wait_for(|| live_no_more(&store));
    let other = Zagg::backfill(&store.root()).run().expect_code(0);
    let (written, current) = (
        other.number("/counts/written"),
        other.number("/counts/current"),
    );
    assert_eq!(written + current, 200);
    assert!(written > 0);
    let finished = || {
        let mut tree = store.tree();
        tree.retain(|key, _| !key.contains(UNFINISHED));
        tree
    };
    let before = finished();
    assert!(!before.contains_key(LEASE));
    running.signal("CONT");
    let run = running.wait().expect_code(4);
    assert_eq!(run.text("/run_id"), lost);
    assert_eq!(differences(&before, &finished()), Vec::<String>::new());
    assert_eq!(run.number("/counts/written"), current);
    assert!(run.number("/counts/failed") <= 1, "{:#}", run.json());
}

#[test]
fn a_claimed_lease_says_whose_it_was_until_it_is_given_back() {
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    store.write(LEASE, lease_by("dead-run-3", 3_600));
    let running = Zagg::backfill(&store.root()).start();
    let claimed =
        wait_for(|| lease_of(&store).filter(|lease| text(lease, "run_id") != "dead-run-3"));
    assert_eq!(text(&claimed, "claimed_from"), "dead-run-3");
    assert_eq!(
        text(&claimed, "acquired_at"),
        text(&claimed, "heartbeat_at")
    );
    let run = running.wait().expect_code(0);
    assert_eq!(text(&claimed, "run_id"), run.text("/run_id"));
    assert_columns(&case, Law::Boundary, &store.root());
}

#[tokio::test]
async fn a_lease_taken_away_stops_the_pass_and_is_left_to_its_taker() {
    let many = Many::leaves(60);
    let slow = Rule::on([Op::Put])
        .key_contains(".pyramid.zarr/")
        .stall(Duration::from_millis(20));
    let store = scripted(&many.tree, [slow]).await;
    let toml = format!("lease_ttl_s = 2\nmax_in_flight = {IN_FLIGHT}");
    let handle = start(Arc::new(store.clone()), settings(&toml)).await;
    let mut events = Box::pin(handle.events());
    let written = |event: &Event| matches!(event, Event::Written { .. });
    while !events.next().await.is_some_and(|event| written(&event)) {}
    let other = lease_by("other-run-7", 0);
    let inner = store.unspoilt();
    inner
        .put(&Path::from(LEASE), other.clone().into())
        .await
        .unwrap();
    let (report, events) = tokio::join!(handle.join(), events.collect::<Vec<_>>());
    let report = report.unwrap();
    let reasons = events.iter().filter_map(|event| match event {
        Event::Aborted { reason } => Some(reason),
        _ => None,
    });
    let reasons: Vec<_> = reasons.collect();
    assert!(
        matches!(&reasons[..], [one] if one.contains("other-run-7")),
        "{reasons:?}"
    );
    assert_eq!(report.outcome, Ending::Aborted, "{report:?}");
    assert_eq!(report.exit_code, 4);
    assert_only_what_was_under_way_is_written(&events);
    assert!(report.counts.written >= 1);
    assert!(report.counts.not_attempted > 0);
    let tree = tree_in(&*inner).await;
    assert_eq!(tree[LEASE], other);
    let stamped = tree
        .iter()
        .filter(|(key, _)| key.ends_with(".pyramid.zarr/zarr.json"))
        .filter(|(_, root)| String::from_utf8_lossy(root).contains("morton_hive_commit"))
        .count();
    assert_eq!(stamped as u64, report.counts.written);
}

/// Leaves in flight where a run loses its lease.
const IN_FLIGHT: usize = 2;

/// Fails if a column was written after the abort whose stamp was not under way by then: one
/// request of each leaf in flight may still land.
#[track_caller]
fn assert_only_what_was_under_way_is_written(events: &[Event]) {
    let aborted = |event: &Event| matches!(event, Event::Aborted { .. });
    let after = events.iter().skip_while(|event| !aborted(event));
    let written: Vec<_> = after
        .filter(|event| matches!(event, Event::Written { .. }))
        .collect();
    assert!(written.len() <= IN_FLIGHT, "{written:?}");
}

/// When the lease in this tree may be claimed, as a report says it.
fn claimable_at(tree: &Tree) -> String {
    let lease: Value = serde_json::from_slice(&tree[LEASE]).unwrap();
    let beat = zagg_stream::time::parse_iso(&text(&lease, "heartbeat_at")).unwrap();
    let ttl_s = i64::try_from(lease["ttl_s"].as_u64().unwrap()).unwrap();
    zagg_stream::time::iso(beat + ttl_s + 1)
}

/// The one warning that tells of a lease that stands.
#[track_caller]
fn told_of_the_lease(report: &Report) -> &str {
    let told: Vec<&String> = report
        .warnings
        .iter()
        .filter(|warning| warning.contains("lease release"))
        .collect();
    assert_eq!(told.len(), 1, "{:?}", report.warnings);
    told[0]
}

#[tokio::test]
async fn a_lease_that_cannot_be_given_back_is_told_with_its_end_and_its_cure() {
    // The credentials are withdrawn before the release, or the store goes away for good.
    for (op, failure, nth) in [
        (Op::Put, Failure::Denied, 2),
        (Op::Delete, Failure::Denied, 1),
        (Op::Put, Failure::Status(503), 2),
    ] {
        let case = Case::load("plain");
        let lease = Rule::on([op]).key(|key| key == LEASE).from(nth);
        let tree = case.declared(Law::Boundary);
        let store = scripted(&tree, [lease.fail(failure)]).await;
        let report = run(Arc::new(store.clone()), settings("")).await;
        assert!(store.fired() > 0);
        assert_eq!(report.outcome, Ending::Done, "{report:?}");
        let tree = tree_in(&*store.unspoilt()).await;
        let told = told_of_the_lease(&report);
        for part in [
            format!("can be claimed from {} on", claimable_at(&tree)),
            format!("lease release memory://scripted --run-id {}", report.run_id),
            "could not be given back".to_owned(),
        ] {
            assert!(told.contains(&part), "{told} lacks {part}");
        }
    }
}

#[tokio::test]
async fn a_store_that_goes_away_leaves_a_lease_that_the_report_tells_of() {
    let many = Many::leaves(40);
    let gone = Arc::new(AtomicBool::new(false));
    let (goes, is_gone) = (gone.clone(), gone.clone());
    let first = Rule::on([Op::Put]).key(move |key| {
        if key.ends_with(".pyramid.stats.json") {
            goes.store(true, Ordering::SeqCst);
        }
        false
    });
    let away = Rule::on(Op::ALL).key(move |_| is_gone.load(Ordering::SeqCst));
    let store = scripted(&many.tree, [first, away.fail(Failure::Status(503))]).await;
    let report = run(Arc::new(store.clone()), settings("max_in_flight = 1")).await;
    assert!(gone.load(Ordering::SeqCst) && store.fired() > 0);
    assert_eq!(report.exit_code, 4, "{report:?}");
    let tree = tree_in(&*store.unspoilt()).await;
    let claimable = claimable_at(&tree);
    let told = told_of_the_lease(&report);
    assert!(told.contains(&claimable), "{told} lacks {claimable}");
}

#[tokio::test]
async fn when_no_beat_lands_the_run_ends_with_its_lease_and_stamps_nothing_more() {
    let many = Many::leaves(60);
    let slow = Rule::on([Op::Put])
        .key_contains(".pyramid.zarr/")
        .stall(Duration::from_millis(20));
    let beats = Rule::on([Op::Put]).key(|key| key == LEASE).from(2);
    let store = scripted(&many.tree, [slow, beats.fail(Failure::Status(503))]).await;
    let toml = format!("lease_ttl_s = 2\nmax_in_flight = {IN_FLIGHT}");
    let handle = start(Arc::new(store.clone()), settings(&toml)).await;
    let events = handle.events().collect::<Vec<_>>();
    let (report, events) = tokio::join!(handle.join(), events);
    let report = report.unwrap();
    assert_eq!(report.exit_code, 4, "{report:?}");
    let error = report.error.as_ref().unwrap();
    assert!(error.contains("could not confirm the lease"), "{error}");
    let failed = |event: &&Event| matches!(event, Event::LeaseBeatFailed { .. });
    assert!(events.iter().filter(failed).count() >= 2);
    assert_only_what_was_under_way_is_written(&events);
    let tree = tree_in(&*store.unspoilt()).await;
    let stamped = tree
        .iter()
        .filter(|(key, _)| key.ends_with(".pyramid.zarr/zarr.json"))
        .filter(|(_, root)| String::from_utf8_lossy(root).contains("morton_hive_commit"));
    assert_eq!(stamped.count() as u64, report.counts.written);
    assert!(report.counts.written > 0 && report.counts.not_attempted > 0);
    // It could not be given back either, and is free by now.
    assert!(told_of_the_lease(&report).contains(&claimable_at(&tree)));
}
