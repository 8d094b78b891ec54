//! A pass killed after any one of its writes leaves a store that the next pass brings to
//! the expected bytes, with the lease as the only thing in its way. What is left of the
//! examination of the store before the first write is in nobody's way.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law};
use crate::common::child::{Child, Task, work};
use crate::common::compare::{
    assert_expected, compare, compare_all, is_record, is_staged, without_sidecars,
};
use crate::common::library::{LEASE, PROBE, settings, start_steps};
use crate::common::stores::TestStore;
use crate::common::times::iso_ago;
use object_store::local::LocalFileSystem;
use serde_json::{Value, json};
use zagg_stream::{Report, Steps};

const CHILD: &str = "crash::a_child_of_these_tests_stops_at_its_nth_write";

/// Walks at once; a point of a walk waits more than it works.
const WALKERS: usize = 4;

/// A walk that stops at every write.
const EVERY_WRITE: u64 = 1;

/// A walk over a store of many artifacts that look alike; prime, so that it stops at all
/// kinds of their objects.
const SOME_WRITES: u64 = 23;

/// Writes begun before the nth are on other threads and take no longer than this.
const OTHERS_LAND: Duration = Duration::from_millis(20);

#[tokio::test]
async fn a_child_of_these_tests_stops_at_its_nth_write() {
    work().await;
}

/// Kills a pass after its nth write; the object it wrote, or none when it ended before.
fn kill_after(store: &TestStore, task: &Task) -> Option<String> {
    let mut child = Child::start(CHILD, &store.root(), task);
    let key = child.parked()?;
    thread::sleep(OTHERS_LAND);
    child.kill();
    // Whose scratch object it is changes from run to run.
    Some(match key.starts_with(PROBE) {
        true => PROBE.to_owned(),
        false => key,
    })
}

/// Whether after a pass that was killed at this write there may be no lease: before it was
/// taken, and once it was given back.
fn is_without_lease(key: &str) -> bool {
    key == LEASE || key == PROBE
}

/// What is left of the scratch object of a killed pass, whole or staged; nobody deletes it
/// and nobody reads it.
fn is_scratch(key: &str) -> bool {
    key.starts_with(PROBE)
}

fn lease_of(store: &TestStore) -> Value {
    serde_json::from_slice(&store.read(LEASE)).unwrap()
}

fn expire(store: &TestStore) {
    store.edit_json(LEASE, |lease| lease["heartbeat_at"] = json!(iso_ago(3_600)));
}

/// The operator removes the lease of a run that is known to be dead.
fn release(store: &TestStore) {
    let run_id = lease_of(store)["run_id"].as_str().unwrap().to_owned();
    Zagg::new("lease")
        .arg("release")
        .arg(store.root())
        .args(&["--run-id", &run_id])
        .run()
        .expect_code(0);
    assert!(!store.has(LEASE));
}

fn backfill(store: &TestStore) -> Zagg {
    Zagg::backfill(&store.root())
}

/// An upgrade of a store on disk, in this process.
fn upgrade(store: &TestStore) -> Report {
    let disk = LocalFileSystem::new_with_prefix(store.root()).unwrap();
    let upgraded = async {
        let handle = start_steps(Arc::new(disk), settings(""), Steps::All).await;
        handle.join().await.unwrap()
    };
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(upgraded)
}

/// What a walk killed at.
#[derive(Default)]
struct Walk {
    keys: Mutex<BTreeSet<String>>,
    /// Points after which the lease was claimed and not released.
    claims: AtomicU64,
}

/// Kills a pass after its first write and every `stride` further ones until it ends by
/// itself. `survives` is one point of the walk; `false` when the pass does not make so
/// many writes.
fn walk(stride: u64, task: &Task, survives: impl Fn(&Task) -> bool + Sync) {
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..WALKERS {
            scope.spawn(|| {
                loop {
                    let nth = 1 + stride * next.fetch_add(1, Ordering::SeqCst);
                    let task = Task {
                        nth,
                        ..task.clone()
                    };
                    if !survives(&task) {
                        break;
                    }
                }
            });
        }
    });
}

/// One point of a walk; `false` when the pass does not make so many writes.
fn survives(case: &Case, task: &Task, store: &TestStore, walk: &Walk) -> bool {
    /// A claim takes two seconds, so only some of the points make one.
    const CLAIM_EVERY: u64 = 8;
    let Some(key) = kill_after(store, task) else {
        return false;
    };
    let mut claims = false;
    if store.has(LEASE) {
        expire(store);
        claims = task.nth % CLAIM_EVERY == 1;
        if !claims {
            release(store);
        }
    } else {
        assert!(is_without_lease(&key), "{key} was written without a lease");
    }
    let expected = case.expected(Law::Boundary);
    let mut left = without_sidecars(&expected, &store.tree());
    let run = backfill(store).run().expect_code(0);
    let (written, current) = (run.number("/counts/written"), run.number("/counts/current"));
    assert_eq!(
        written + current,
        u64::try_from(case.leaves().len()).unwrap()
    );
    if claims && written == 0 {
        // A pass with nothing to write asks for no lease, and an expired one is no
        // obstacle to anybody.
        left.push(format!("unexpected object: {LEASE}"));
    } else {
        walk.claims.fetch_add(u64::from(claims), Ordering::SeqCst);
    }
    // Says that no input object changed, and that no lease is left, too.
    let mut tree = store.tree();
    tree.retain(|key, _| !is_staged(key) && !is_scratch(key));
    assert_eq!(compare(&expected, &tree), left, "killed after {key}");
    walk.keys.lock().unwrap().insert(key);
    true
}

#[test]
fn a_first_pass_killed_after_any_write_is_finished_by_the_next() {
    let case = Case::load("plain");
    // One leaf after the other, so that every run makes the same nth write.
    let task = Task {
        settings: "max_in_flight = 1".to_owned(),
        ..Task::default()
    };
    let made = Walk::default();
    walk(EVERY_WRITE, &task, |task| {
        survives(&case, task, &case.declared_store(Law::Boundary), &made)
    });
    let keys = made.keys.into_inner().unwrap();
    // The walk stopped at every object a pass writes, and at nothing else.
    let columns = case.expected(Law::Boundary).columns;
    let mut written: BTreeSet<String> = columns.into_keys().collect();
    written.extend([LEASE, PROBE].map(str::to_owned));
    assert_eq!(keys, written);
    assert!(made.claims.into_inner() > 5);
}

#[test]
fn a_pass_over_written_columns_killed_after_any_write_is_finished_by_the_next() {
    let case = Case::load("flux");
    let written = case.declared_store(Law::Boundary);
    backfill(&written).run().expect_code(0);
    let written = written.tree();
    let column = &case.columns(Law::Boundary)[0];
    let leaf = &case.leaves()[0];
    let (_, shard) = leaf.trim_end_matches(".zarr").rsplit_once('/').unwrap();
    let task = Task {
        force: true,
        shard: shard.to_owned(),
        ..Task::default()
    };
    let made = Walk::default();
    walk(EVERY_WRITE, &task, |task| {
        survives(&case, task, &TestStore::of(&written), &made)
    });
    let keys = made.keys.into_inner().unwrap();
    let node = column.trim_end_matches("all.pyramid.zarr");
    let mut due: BTreeSet<String> = written
        .into_keys()
        .filter(|key| key.starts_with(&format!("{node}all.pyramid.")))
        .collect();
    due.extend([LEASE, PROBE].map(str::to_owned));
    assert_eq!(keys, due);
}

#[test]
fn the_lease_of_a_killed_pass_is_all_that_stops_the_next_one() {
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    let task = Task {
        nth: 30,
        // In the middle of the second column.
        settings: "lease_ttl_s = 5\nmax_in_flight = 1".to_owned(),
        ..Task::default()
    };
    kill_after(&store, &task).unwrap();
    let lease = lease_of(&store);
    let refused = backfill(&store).run().expect_code(3);
    let error = refused.text("/error");
    assert!(error.contains(lease["run_id"].as_str().unwrap()), "{error}");
    assert_eq!(lease_of(&store), lease, "a refused run leaves it alone");

    let claimed = loop {
        let run = backfill(&store).run();
        match run.code {
            Some(3) => thread::sleep(Duration::from_millis(100)),
            _ => break run.expect_code(0),
        }
    };
    assert_eq!(
        claimed.number("/counts/written") + claimed.number("/counts/current"),
        u64::try_from(case.leaves().len()).unwrap()
    );
    assert_expected(&case.expected(Law::Boundary), &store.root());
}

/// One point of a walk over a whole upgrade; `false` when it does not make so many
/// writes.
fn upgrade_survives(case: &Case, task: &Task, keys: &Mutex<BTreeSet<String>>) -> bool {
    let store = case.declared_store(Law::Boundary);
    let Some(key) = kill_after(&store, task) else {
        return false;
    };
    // What `lease release` does, at which another walk looks.
    if store.has(LEASE) {
        store.remove(LEASE);
    } else {
        assert!(is_without_lease(&key), "{key} was written without a lease");
    }
    let expected = case.upgraded(Law::Boundary);
    let left = without_sidecars(&expected, &store.tree());
    let report = upgrade(&store);
    assert!(report.ladder.is_some_and(|ladder| ladder.finished));
    let mut tree = store.tree();
    tree.retain(|key, _| !is_staged(key) && !is_scratch(key));
    assert_eq!(compare_all(&expected, &tree), left, "killed after {key}");
    keys.lock().unwrap().insert(key);
    true
}

#[test]
fn an_upgrade_killed_after_any_write_is_finished_by_the_next() {
    let task = Task {
        settings: "max_in_flight = 1".to_owned(),
        ladder: true,
        ..Task::default()
    };
    for (name, stride) in [("flux", EVERY_WRITE), ("windowed_all", SOME_WRITES)] {
        let case = Case::load(name);
        let keys = Mutex::default();
        walk(stride, &task, |task| upgrade_survives(&case, task, &keys));
        let keys = keys.into_inner().unwrap();
        let (records, mut keys): (BTreeSet<_>, BTreeSet<_>) =
            keys.into_iter().partition(|key| is_record(key));
        let mut written: BTreeSet<String> =
            case.upgraded(Law::Boundary).columns.into_keys().collect();
        written.extend([LEASE, PROBE].map(str::to_owned));
        if stride == EVERY_WRITE {
            assert_eq!(keys, written, "{name}");
            assert!(!records.is_empty());
        } else {
            // At leaf columns, overviews of a window and of all of them.
            assert!(keys.len() > 10);
            keys.retain(|key| !written.contains(key));
            assert_eq!(keys, BTreeSet::new(), "{name}");
        }
    }
}
