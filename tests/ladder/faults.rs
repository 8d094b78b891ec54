//! Faults of the ladder: columns that move under it, other sweeps, artifacts that fail, and
//! what is left of the lease.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::compare::{COVERAGE, assert_all};
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::ladder::{ladder_of, record_of};
use crate::common::library::{
    LEASE, get_now, in_memory, put_now, run, settings, start_steps, tree_in,
};
use crate::common::stores::Tree;
use crate::common::times::iso_ago;
use futures::StreamExt;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use zagg_stream::{Ending, Event, FaultKind, Report, Steps};

/// A leaf's column whose parent has another child.
const COLUMN: &str = "1/1/2/1/4/all.pyramid.zarr";
/// What reads it.
const OVERVIEW: &str = "1/1/2/1/all.zarr";
const STAGE: &str = "1/1/2/1/all.pyramid.zarr";
/// What reads the stage column, in the next batch.
const NEXT: [&str; 3] = ["1/1/2/all.zarr", "1/1/all.zarr", "1/all.zarr"];

/// A change of a JSON document.
type Edit = fn(&mut Value);

/// One artifact after the other, so that a script knows who asks.
const ONE: &str = "max_in_flight = 1";

/// Case `plain` with its columns and nothing above them.
struct Columns {
    case: Case,
    memory: Arc<InMemory>,
}

impl Columns {
    async fn written() -> Self {
        let case = Case::load("plain");
        let memory = in_memory(&case.declared(Law::Boundary)).await;
        let report = run(memory.clone(), settings("")).await;
        assert_eq!(report.outcome, Ending::Done);
        Self { case, memory }
    }

    /// Once a call fits `rule`, and before it is served, `act` changes the store; the
    /// number is that of the calls that fitted so far, from 1.
    fn when(
        &self,
        rule: Rule,
        fits: impl Fn(&str) -> bool + Send + Sync + 'static,
        act: impl Fn(&InMemory, u64) + Send + Sync + 'static,
    ) -> Rule {
        let (memory, calls) = (self.memory.clone(), AtomicU64::new(0));
        rule.key(move |key| {
            let fits = fits(key);
            if fits {
                act(&memory, calls.fetch_add(1, Ordering::SeqCst) + 1);
            }
            fits
        })
    }

    fn behind(&self, rules: impl IntoIterator<Item = Rule>) -> FaultStore {
        FaultStore::new(self.memory.clone(), rules)
    }

    async fn tree(&self) -> Tree {
        tree_in(&*self.memory).await
    }

    /// A sweep that meets no fault, once the lease is out of its way, leaves the golden
    /// tree.
    async fn heals(&self) {
        let mut tree = self.tree().await;
        tree.remove(LEASE);
        let memory = in_memory(&tree).await;
        let report = sweep(memory.clone(), "").await;
        assert_eq!(report.outcome, Ending::Done, "{report:?}");
        assert_all(&self.case.upgraded(Law::Boundary), &tree_in(&*memory).await);
    }
}

async fn sweep(store: Arc<dyn object_store::ObjectStore>, toml: &str) -> Report {
    let handle = start_steps(store, settings(toml), Steps::Ladder).await;
    handle.join().await.unwrap()
}

fn chunk_of(artifact: &'static str) -> impl Fn(&str) -> bool + Send + Sync {
    move |key| key.starts_with(artifact) && key.contains("/c/")
}

fn root_of(artifact: &str) -> String {
    format!("{artifact}/zarr.json")
}

/// Stamps an artifact anew.
fn restamp(store: &InMemory, artifact: &str, written_at: &str, run_id: Option<&str>) {
    let mut root: Value =
        serde_json::from_slice(&get_now(store, &root_of(artifact)).unwrap()).unwrap();
    let stamp = &mut root["attributes"]["morton_hive_commit"];
    assert!(stamp.is_object(), "{artifact}");
    stamp["written_at"] = json!(written_at);
    if let Some(run_id) = run_id {
        stamp["run_id"] = json!(run_id);
    }
    put_now(
        store,
        &root_of(artifact),
        serde_json::to_vec_pretty(&root).unwrap(),
    );
}

fn is_stamped(tree: &Tree, artifact: &str) -> bool {
    let root = tree.get(&root_of(artifact));
    root.is_some_and(|root| String::from_utf8_lossy(root).contains("morton_hive_commit"))
}

/// None of the coarser artifacts was so much as begun, and nothing is at the root.
#[track_caller]
fn assert_no_next_batch(tree: &Tree) {
    for artifact in NEXT {
        assert!(!tree.contains_key(&root_of(artifact)), "{artifact}");
    }
    assert!(!tree.contains_key(COVERAGE));
    let manifest = String::from_utf8_lossy(&tree[MANIFEST]);
    assert!(!manifest.contains("actuals"));
}

/// The lease stands, and the report says how it is given back.
#[track_caller]
fn assert_lease_stands(tree: &Tree, report: &Report) {
    let lease: Value = serde_json::from_slice(&tree[LEASE]).unwrap();
    assert_eq!(lease["run_id"], report.run_id.as_str());
    let cure = format!("lease release memory://scripted --run-id {}", report.run_id);
    let told = report
        .warnings
        .iter()
        .any(|warning| warning.contains(&cure));
    assert!(told, "{:?}", report.warnings);
}

#[tokio::test]
async fn a_column_that_is_rewritten_while_it_is_read_is_read_again() {
    let columns = Columns::written().await;
    // What stands there before is another leaf's column, down to the digests.
    let golden = columns.tree().await;
    let below = |key: &str| key.starts_with(COLUMN) && key.contains("/c/");
    let right: Vec<_> = golden.iter().filter(|(key, _)| below(key)).collect();
    let right: Tree = right
        .into_iter()
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for key in right.keys() {
        let other = key.replacen("1/1/2/1/4/", "2/1/2/1/3/", 1);
        put_now(&columns.memory, key, golden[&other].clone());
    }
    let rewrite = columns.when(Rule::on([Op::Get]), chunk_of(COLUMN), move |store, call| {
        if call == 1 {
            for (key, bytes) in &right {
                put_now(store, key, bytes.clone());
            }
            restamp(store, COLUMN, "2021-01-01T00:00:00+00:00", None);
        }
    });
    let store = columns.behind([rewrite]);
    let report = sweep(Arc::new(store.clone()), ONE).await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    // Begun twice, committed once.
    assert_eq!(store.calls_of(Op::Put, &root_of(OVERVIEW)), 2 + 2);
    assert_eq!(store.calls_of(Op::Put, &root_of(STAGE)), 1 + 2);
    assert_all(&columns.case.upgraded(Law::Boundary), &columns.tree().await);
}

#[tokio::test]
async fn a_column_that_is_rewritten_each_time_fails_its_artifact_by_name() {
    let columns = Columns::written().await;
    let rewrite = columns.when(Rule::on([Op::Get]), chunk_of(COLUMN), |store, call| {
        let written_at = format!("2021-01-01T00:{:02}:{:02}+00:00", call / 60, call % 60);
        restamp(store, COLUMN, &written_at, None);
    });
    let store = columns.behind([rewrite]);
    let report = sweep(Arc::new(store.clone()), ONE).await;
    assert_eq!(report.exit_code, 4, "{report:?}");
    let ladder = report.ladder.as_ref().unwrap();
    let [failed] = ladder.failed.as_slice() else {
        panic!("{ladder:?}");
    };
    assert_eq!(failed.leaf, OVERVIEW);
    for part in [OVERVIEW, COLUMN, "rewritten each time", "run again"] {
        assert!(failed.error.contains(part), "{}", failed.error);
    }
    const TRIES: u64 = 3;
    assert_eq!(store.calls_of(Op::Put, &root_of(OVERVIEW)), TRIES);
    let tree = columns.tree().await;
    assert!(!is_stamped(&tree, OVERVIEW));
    assert_no_next_batch(&tree);
    assert_lease_stands(&tree, &report);
    columns.heals().await;
}

#[tokio::test]
async fn a_sweep_that_meets_the_stamp_of_another_one_stops_once_and_stamps_nothing_more() {
    const NEVER_YET: &str = "2099-01-01T00:00:00+00:00";
    // Before the next batch is judged; and while an artifact of it is.
    let sidecar = STAGE.replace(".zarr", ".stats.json");
    for (op, key) in [(Op::Put, sidecar), (Op::Get, root_of(NEXT[0]))] {
        let columns = Columns::written().await;
        let at = key.clone();
        let other = columns.when(
            Rule::on([op]),
            move |key| key == at,
            |store, call| {
                if call == 1 {
                    restamp(store, STAGE, NEVER_YET, Some("stage-another"));
                }
            },
        );
        let slow = Rule::on([Op::Put]).stall(Duration::from_millis(2));
        let store = columns.behind([other, slow]);
        let handle = start_steps(Arc::new(store), settings(ONE), Steps::Ladder).await;
        let events = handle.events().collect::<Vec<_>>();
        let (report, events) = tokio::join!(handle.join(), events);
        let report = report.unwrap();
        assert_eq!(report.exit_code, 4, "{key}: {report:?}");
        let error = report.error.as_ref().unwrap();
        for part in [STAGE, "stage-another", "run again"] {
            assert!(error.contains(part), "{error}");
        }
        let is_abort = |event: &&Event| matches!(event, Event::Aborted { .. });
        assert_eq!(events.iter().filter(is_abort).count(), 1);
        let counts = report.ladder.as_ref().unwrap().counts;
        assert_eq!((counts.failed, counts.written), (0, 6), "{key}");
        let tree = columns.tree().await;
        for artifact in NEXT {
            assert!(!is_stamped(&tree, artifact), "{key}: {artifact}");
        }
        assert!(!tree.contains_key(COVERAGE));
        assert_lease_stands(&tree, &report);
    }
}

#[tokio::test]
async fn an_artifact_that_fails_holds_up_what_is_coarser_and_the_lease() {
    let rules: [(FaultKind, fn() -> Rule); 3] = [
        (FaultKind::CorruptLeaf, || Rule::on([Op::Get]).garble()),
        (FaultKind::Denied, || {
            Rule::on([Op::Get]).fail(Failure::Denied)
        }),
        (FaultKind::Bug, || Rule::on([Op::Get]).panic()),
    ];
    for (kind, rule) in rules {
        let columns = Columns::written().await;
        let below = |key: &str| key.starts_with(COLUMN) && key.contains("h_tdigest/c/");
        // Of the two artifacts that read the column, one.
        let store = columns.behind([rule().key(below).nth(1)]);
        let report = sweep(Arc::new(store.clone()), ONE).await;
        assert_eq!(store.fired(), 1, "{kind}");
        assert_eq!(report.outcome, Ending::Failed, "{kind}: {report:?}");
        assert_eq!(report.exit_code, 1);
        let ladder = report.ladder.as_ref().unwrap();
        let failed: Vec<_> = ladder
            .failed
            .iter()
            .map(|f| (f.leaf.as_str(), f.kind))
            .collect();
        assert_eq!(failed, [(OVERVIEW, kind)]);
        // The others of the batch are finished, and the coarser ones not begun.
        let due = ladder_of(&columns.case, &columns.case.upgraded(Law::Boundary).columns);
        let due = due.len() as u64;
        assert_eq!(
            (ladder.counts.written, ladder.counts.failed),
            (5, 1),
            "{kind}"
        );
        assert_eq!(ladder.counts.not_attempted, due - 6, "{kind}");
        assert!(!ladder.finished);
        let tree = columns.tree().await;
        assert!(!is_stamped(&tree, OVERVIEW));
        assert_no_next_batch(&tree);
        assert_lease_stands(&tree, &report);
        columns.heals().await;
    }
}

#[tokio::test]
async fn an_abort_in_the_ladder_gives_the_lease_back() {
    let columns = Columns::written().await;
    let slow = Rule::on([Op::Put]).stall(Duration::from_millis(5));
    let store = columns.behind([slow]);
    let handle = start_steps(Arc::new(store), settings(ONE), Steps::Ladder).await;
    let mut events = Box::pin(handle.events());
    let written = |event: &Event| matches!(event, Event::Written { .. });
    while !events.next().await.is_some_and(|event| written(&event)) {}
    handle.abort("the test");
    let report = handle.join().await.unwrap();
    assert_eq!(report.outcome, Ending::Interrupted);
    let counts = report.ladder.as_ref().unwrap().counts;
    assert!(
        counts.written >= 1 && counts.not_attempted >= 1,
        "{counts:?}"
    );
    let tree = columns.tree().await;
    assert!(!tree.contains_key(LEASE));
    assert!(!tree.contains_key(COVERAGE));
    columns.heals().await;
}

#[tokio::test]
async fn a_store_that_asks_for_fewer_requests_gets_its_whole_pyramid() {
    let case = Case::load("windowed_all");
    let memory = in_memory(&case.declared(Law::Boundary)).await;
    // The first two requests for every object, whether it is read or written.
    let turns: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let busy = Rule::on([Op::Get, Op::Put, Op::Delete]).key(move |key| {
        let mut turns = turns.lock().unwrap();
        let turn = turns.entry(key.to_owned()).or_default();
        *turn += 1;
        *turn <= 2
    });
    let store = FaultStore::new(memory.clone(), [busy.fail(Failure::Status(503))]);
    let handle = start_steps(Arc::new(store.clone()), settings(""), Steps::All).await;
    let report = handle.join().await.unwrap();
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert!(store.fired() > 100);
    assert_eq!(report.requests.throttled, store.fired());
    assert_all(&case.upgraded(Law::Boundary), &tree_in(&*memory).await);
}

#[tokio::test]
async fn a_manifest_that_is_rewritten_meanwhile_is_kept_or_the_sweep_says_so() {
    let edits: [(&str, Edit); 2] = [
        ("was re-declared", |manifest| {
            manifest["pyramid"]["overview"]["fields"]["h_tdigest"]["delta"] = json!(4);
        }),
        ("", |manifest| manifest["note"] = json!("kept")),
    ];
    for (says, edit) in edits {
        let columns = Columns::written().await;
        let last = root_of("2/all.zarr");
        let edited = columns.when(
            Rule::on([Op::Put]),
            move |key| key == last,
            move |store, _| {
                let manifest = get_now(store, MANIFEST).unwrap();
                let mut manifest: Value = serde_json::from_slice(&manifest).unwrap();
                edit(&mut manifest);
                put_now(store, MANIFEST, manifest.to_string());
            },
        );
        let report = sweep(Arc::new(columns.behind([edited])), "").await;
        let tree = columns.tree().await;
        let manifest: Value = serde_json::from_slice(&tree[MANIFEST]).unwrap();
        let has_actuals = manifest["pyramid"]["overviews"][0].get("actuals").is_some();
        if says.is_empty() {
            assert_eq!(report.outcome, Ending::Done, "{report:?}");
            assert_eq!((&manifest["note"], has_actuals), (&json!("kept"), true));
            continue;
        }
        assert_eq!(report.exit_code, 4, "{report:?}");
        let error = report.error.as_ref().unwrap();
        for part in [says, MANIFEST, "every artifact of the ladder stands"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(!has_actuals);
        assert!(!report.ladder.as_ref().unwrap().finished);
        assert_lease_stands(&tree, &report);
    }
}

#[tokio::test]
async fn a_manifest_that_others_rewrite_again_and_again_is_left_to_them() {
    let columns = Columns::written().await;
    let moved = Rule::on([Op::Put]).key(|key| key == MANIFEST);
    let store = columns.behind([moved.fail(Failure::Precondition)]);
    let report = sweep(Arc::new(store.clone()), "").await;
    assert_eq!(report.exit_code, 4, "{report:?}");
    assert!(report.error.as_ref().unwrap().contains("again and again"));
    assert_eq!(store.fired(), 3);
    let tree = columns.tree().await;
    assert!(tree.contains_key(COVERAGE));
    assert_lease_stands(&tree, &report);
    columns.heals().await;
}

#[tokio::test]
async fn a_sweep_that_loses_its_lease_stamps_nothing_more() {
    let columns = Columns::written().await;
    let lease = json!({
        "spec": "zagg-sweep-lease/1",
        "run_id": "stage-another",
        "scope": null,
        "acquired_at": iso_ago(0),
        "heartbeat_at": iso_ago(0),
        "ttl_s": 900,
    });
    let theirs = lease.to_string().into_bytes();
    let taken = {
        let theirs = theirs.clone();
        let first = root_of(OVERVIEW);
        columns.when(
            Rule::on([Op::Put]),
            move |key| key == first,
            move |store, call| {
                if call == 1 {
                    put_now(store, LEASE, theirs.clone());
                }
            },
        )
    };
    // Longer than a beat takes to come.
    let slow = Rule::on([Op::Put]).key(chunk_of(OVERVIEW)).nth(1);
    let slow = slow.stall(Duration::from_millis(1_500));
    let store = columns.behind([taken, slow]);
    let report = sweep(
        Arc::new(store.clone()),
        "max_in_flight = 1\nlease_ttl_s = 3",
    )
    .await;
    assert_eq!(report.exit_code, 4, "{report:?}");
    assert!(report.error.as_ref().unwrap().contains("stage-another"));
    let tree = columns.tree().await;
    assert_eq!(tree[LEASE], theirs);
    let stamped = ladder_of(&columns.case, &tree);
    let stamped: Vec<_> = stamped.iter().filter(|a| is_stamped(&tree, a)).collect();
    assert_eq!(stamped, Vec::<&String>::new());
    assert_no_next_batch(&tree);
    // It is not ours to give back.
    let told = report
        .warnings
        .iter()
        .any(|told| told.contains("lease release"));
    assert!(!told, "{:?}", report.warnings);
    columns.heals().await;
}

#[tokio::test]
async fn a_record_of_the_sweep_says_what_every_level_came_to() {
    let columns = Columns::written().await;
    let report = sweep(columns.memory.clone(), "").await;
    let tree = columns.tree().await;
    let ladder = report.ladder.unwrap();
    let record: Value = serde_json::from_slice(&tree[&ladder.record.unwrap()]).unwrap();
    assert_eq!(record["run_id"], report.run_id.as_str());
    assert_eq!(
        record["levels"],
        serde_json::to_value(&ladder.levels).unwrap()
    );
    // Of each level, what the records of its overviews add up to.
    for level in &ladder.levels {
        let digits = usize::from(level.order) + 1;
        let of_the_level = |artifact: &String| {
            artifact.ends_with("/all.zarr") && artifact.matches('/').count() == digits
        };
        let overviews = ladder_of(&columns.case, &tree);
        let overviews: Vec<_> = overviews.into_iter().filter(of_the_level).collect();
        let folded: u64 = overviews
            .iter()
            .map(|overview| {
                record_of(&tree, overview)["source_children"]["folded"]
                    .as_u64()
                    .unwrap()
            })
            .sum();
        assert_eq!(level.source_children.folded, folded);
        assert!(level.written >= overviews.len() as u64);
    }
}
