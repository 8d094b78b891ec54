//! Faults of the store, whatever they hit: what cannot be read is not taken for fill, a
//! lost answer is not taken for a lost write, and nothing alive is ever deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Expected, Law, MANIFEST};
use crate::common::compare::{assert_all, compare_all};
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::ladder::{above, artifact_of, changed, ladder_of};
use crate::common::library::{LEASE, PROBE, in_memory, scripted, settings, start_steps, tree_in};
use crate::common::s3::S3Server;
use crate::common::stores::{TestStore, Tree};
use object_store::ObjectStore;
use serde_json::Value;
use zagg_stream::{Ending, Report, Steps, Upgrade};

/// A whole upgrade.
async fn upgrade(store: Arc<dyn ObjectStore>, toml: &str) -> Report {
    let handle = start_steps(store, settings(toml), Steps::All).await;
    handle.join().await.unwrap()
}

/// Whether a key is of some kind.
type IsKind = fn(&str) -> bool;

/// Chunks, of leaves and of columns.
fn is_chunk(key: &str) -> bool {
    key.contains("/c/")
}

/// The documents that say how chunks are read.
fn is_metadata(key: &str) -> bool {
    key.ends_with("/zarr.json") && !key.ends_with(".zarr/zarr.json")
}

fn reads() -> Rule {
    Rule::on(Op::READS)
}

/// What sets a store apart from the golden one, but artifacts that are not there for any
/// reader, the manifest as it was declared, and the lease.
fn wrong(expected: &Expected, tree: &Tree) -> Vec<String> {
    let is_unstamped = |line: &&String| {
        let key = line.split(": ").next().unwrap();
        let root = format!("{}/zarr.json", artifact_of(key));
        let root = tree.get(&root).map(|root| String::from_utf8_lossy(root));
        !root.is_some_and(|root| root.contains("morton_hive_commit"))
    };
    let lines = compare_all(expected, tree);
    let lines = lines.iter().filter(|line| !line.starts_with("missing: "));
    let lines = lines.filter(|line| !line.starts_with(MANIFEST) && !line.contains(LEASE));
    let lines = lines.filter(|line| !line.contains(PROBE));
    lines.filter(|line| !is_unstamped(line)).cloned().collect()
}

/// Once nothing fails any more and the lease is out of the way, one run makes it golden.
async fn heals(case: &Case, law: Law, store: &FaultStore) {
    let mut tree = tree_in(&*store.unspoilt()).await;
    tree.remove(LEASE);
    let memory = in_memory(&tree).await;
    let report = upgrade(memory.clone(), &format!("fold_law = \"{law}\"")).await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert_all(&case.upgraded(law), &tree_in(&*memory).await);
}

/// A fault of a read that passes.
type PassingFault = (&'static str, fn(Rule) -> Rule);

const PASSING: [PassingFault; 7] = [
    ("busy", |rule| rule.fail(Failure::Status(503))),
    ("broken", |rule| rule.fail(Failure::Status(500))),
    ("hung up", |rule| rule.fail(Failure::HangUp)),
    ("torn at once", |rule| rule.tear(0)),
    ("torn", |rule| rule.tear(30)),
    ("cut to nothing", |rule| rule.truncate(0)),
    ("cut short", |rule| rule.truncate(30)),
];

#[tokio::test]
async fn what_could_not_be_read_at_first_is_never_fill() {
    let kinds: [IsKind; 2] = [is_chunk, is_metadata];
    for law in Law::ALL {
        let case = Case::load("strata");
        let (declared, expected) = (case.declared(law), case.upgraded(law));
        let toml = format!("fold_law = \"{law}\"");
        for ((name, fault), kind) in PASSING.iter().flat_map(|f| kinds.map(|k| (f, k))) {
            let rule = fault(reads().key(kind).first_of_each(1));
            let store = scripted(&declared, [rule]).await;
            let report = upgrade(Arc::new(store.clone()), &toml).await;
            let tree = tree_in(&*store.unspoilt()).await;
            assert!(store.fired() > 50, "{name}: {}", store.fired());
            assert_eq!(report.outcome, Ending::Done, "{name} {law}: {report:?}");
            assert_all(&expected, &tree);
        }
    }
}

#[tokio::test]
async fn a_column_that_could_not_be_read_at_first_is_never_fill_in_the_ladder() {
    let case = Case::load("windowed_all");
    let columns = in_memory(&case.declared(Law::Boundary)).await;
    let handle = start_steps(columns.clone(), settings(""), Steps::Columns).await;
    assert_eq!(handle.join().await.unwrap().outcome, Ending::Done);
    let (columns, expected) = (tree_in(&*columns).await, case.upgraded(Law::Boundary));
    for (name, fault) in PASSING {
        let rule = fault(reads().key(is_chunk).first_of_each(1));
        let store = scripted(&columns, [rule]).await;
        let handle = start_steps(Arc::new(store.clone()), settings(""), Steps::Ladder).await;
        let report = handle.join().await.unwrap();
        assert!(store.fired() > 0, "{name}");
        let tree = tree_in(&*store.unspoilt()).await;
        assert_eq!(report.outcome, Ending::Done, "{name}: {report:?}");
        assert_all(&expected, &tree);
    }
}

#[tokio::test]
async fn one_answer_of_each_class_for_each_object_may_be_a_fault_that_passes() {
    let case = Case::load("windowed");
    let (declared, expected) = (case.declared(Law::Boundary), case.upgraded(Law::Boundary));
    // Tried once: a fault there ends the run, which says how to go on.
    let spared = |key: &str| key == MANIFEST || key == LEASE || key.starts_with(PROBE);
    let classes: [(&str, &[Op]); 4] = [
        ("reads", &[Op::Get, Op::GetRanges, Op::Head]),
        ("writes", &[Op::Put]),
        ("deletions", &[Op::Delete]),
        ("listings", &[Op::List, Op::ListWithDelimiter]),
    ];
    for (class, ops) in classes {
        for status in [409, 429, 500, 502, 503, 504] {
            let rule = Rule::on(ops.iter().copied()).first_of_each(1);
            let rule = rule.key(move |key| !spared(key)).fail(Failure::of(status));
            let store = scripted(&declared, [rule]).await;
            let report = upgrade(Arc::new(store.clone()), "").await;
            assert!(store.fired() > 0, "{class} {status}");
            assert_eq!(report.outcome, Ending::Done, "{class} {status}: {report:?}");
            assert_all(&expected, &tree_in(&*store.unspoilt()).await);
        }
    }
}

#[tokio::test]
async fn a_fault_of_a_request_with_a_condition_passes_too() {
    let case = Case::load("plain");
    for (key, op) in [(MANIFEST, Op::Put), (LEASE, Op::Put), (LEASE, Op::Delete)] {
        for status in [409, 429, 500, 503] {
            for lands in [false, true] {
                let rule = Rule::on([op]).key(move |asked| asked == key).first(1);
                let rule = if lands { rule.lands() } else { rule };
                let rule = rule.fail(Failure::of(status));
                let store = scripted(&case.declared(Law::Boundary), [rule]).await;
                let report = upgrade(Arc::new(store.clone()), "").await;
                assert_eq!(store.fired(), 1, "{op:?} {key} {status}");
                let tree = tree_in(&*store.unspoilt()).await;
                assert_eq!(
                    report.outcome,
                    Ending::Done,
                    "{op:?} {key} {status} {lands}: {report:?}"
                );
                assert!(!tree.contains_key(LEASE), "{op:?} {key} {status} {lands}");
                let wrong = wrong(&case.upgraded(Law::Boundary), &tree);
                assert_eq!(wrong, Vec::<String>::new(), "{op:?} {key} {status}");
                heals(&case, Law::Boundary, &store).await;
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_lost_hides_no_write_and_makes_no_second_one() {
    let case = Case::load("flux");
    let kinds: [(&str, IsKind, u64); 4] = [
        ("the lease", |key| key == LEASE, 1),
        ("a root document", |key| key.ends_with(".zarr/zarr.json"), 6),
        ("a chunk", is_chunk, 6),
        ("a sidecar", |key| key.ends_with(".stats.json"), 2),
    ];
    for (name, kind, at_least) in kinds {
        for failure in [Failure::HangUp, Failure::Status(500)] {
            let rule = Rule::on([Op::Put]).key(kind).first_of_each(1).lands();
            let store = scripted(&case.declared(Law::Boundary), [rule.fail(failure)]).await;
            let report = upgrade(Arc::new(store.clone()), "").await;
            assert!(store.fired() >= at_least, "{name}: {}", store.fired());
            assert_eq!(report.outcome, Ending::Done, "{name}: {report:?}");
            let tree = tree_in(&*store.unspoilt()).await;
            assert_all(&case.upgraded(Law::Boundary), &tree);
        }
    }
}

#[tokio::test]
async fn an_answer_to_a_beat_that_is_lost_loses_no_lease() {
    let case = Case::load("plain");
    let server = S3Server::start();
    let bucket = server.bucket("beats", &case.declared(Law::Boundary));
    // The lease is created, and then confirmed every third of its ttl.
    let beats = || Rule::on([Op::Put]).key_ends_with(LEASE);
    let lost = beats().nth(2).lands().fail(Failure::HangUp);
    let (struck, slow) = (
        lost.struck(),
        Rule::on([Op::Put]).key_contains("/h_tdigest/c/"),
    );
    let all = beats();
    let beaten = all.struck();
    server.follow([all, lost, slow.stall(Duration::from_millis(150))]);
    let toml = "lease_ttl_s = 3\nmax_in_flight = 1\nmax_writers = 1";
    let handle = Upgrade::new(bucket.root()).settings(settings(toml));
    let report = handle.start().await.unwrap().join().await.unwrap();
    assert_eq!(struck.load(Ordering::SeqCst), 1);
    assert!(beaten.load(Ordering::SeqCst) > 2);
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert!(!server.tree(&bucket).contains_key(LEASE));
}

/// A leaf's column in case `plain`, whose parent has another child.
const COLUMN: &str = "1/1/2/1/4/all.pyramid.zarr";

/// An upgrade of case `plain` whose first write of `key` is acknowledged and not done.
async fn forgetful(key: &str) -> TestStore {
    let forgotten = key.to_owned();
    let rule = Rule::on([Op::Put])
        .key(move |asked| asked == forgotten)
        .first(1);
    let declared = Case::load("plain").declared(Law::Boundary);
    let store = scripted(&declared, [rule.forget()]).await;
    let report = upgrade(Arc::new(store.clone()), "").await;
    assert_eq!(store.fired(), 1, "{key}");
    assert_eq!(report.outcome, Ending::Done, "nobody noticed: {report:?}");
    TestStore::of(&tree_in(&*store.unspoilt()).await)
}

/// The commands a finding says to run, as arguments.
fn cure_of(finding: &Value, store: &TestStore) -> Vec<Vec<String>> {
    let root = store.root().display().to_string();
    let message = finding["message"].as_str().unwrap();
    let quoted = message.split('`').skip(1).step_by(2);
    let commands = quoted.filter_map(|quoted| quoted.strip_prefix("zagg-stream "));
    let words = |command: &str| -> Vec<String> {
        let command = command.replace("ROOT", &root);
        command.split(' ').map(str::to_owned).collect()
    };
    commands.map(words).collect()
}

/// Verifies; the findings.
fn findings(store: &TestStore, code: i32) -> Vec<Value> {
    let verify = Zagg::new("verify")
        .arg(store.root())
        .args(&["--json", "--full"]);
    let findings = verify.run().expect_code(code).json()["findings"].clone();
    findings.as_array().unwrap().clone()
}

/// Runs the cures of what `verify` finds, each once; the artifacts that were written.
fn mend(store: &TestStore, found: &[Value]) -> BTreeSet<String> {
    // A stamp has whole seconds, and what stands above goes by them.
    thread::sleep(Duration::from_millis(1_100));
    let before = store.tree();
    let mut cures: Vec<Vec<String>> = Vec::new();
    for cure in found.iter().flat_map(|finding| cure_of(finding, store)) {
        if !cures.contains(&cure) {
            cures.push(cure);
        }
    }
    assert!(!cures.is_empty(), "{found:#?}");
    for cure in cures {
        let arguments: Vec<&str> = cure.iter().map(String::as_str).collect();
        Zagg::bare().args(&arguments).run().expect_code(0);
    }
    changed(&before, &store.tree())
}

#[tokio::test]
async fn a_forgotten_write_of_a_column_is_found_and_mended_alone() {
    let case = Case::load("plain");
    let golden = case.upgraded_tree(Law::Boundary);
    let ladder = ladder_of(&case, &golden);
    let mut due = above(&ladder, COLUMN);
    due.insert(COLUMN.to_owned());
    for key in [
        "1/1/2/1/4/all.pyramid.zarr/5/h_tdigest/c/0",
        "1/1/2/1/4/all.pyramid.zarr/4/count/c/0",
        "1/1/2/1/4/all.pyramid.zarr/5/count/zarr.json",
    ] {
        let store = forgetful(key).await;
        let found = findings(&store, 1);
        let named = found.iter().filter(|finding| finding["path"] == COLUMN);
        let named: Vec<_> = named.collect();
        assert!(!named.is_empty(), "{key}: {found:#?}");
        for finding in &named {
            assert_eq!(finding["leaf"], "1/1/2/1/4/11214.zarr", "{key}");
            let message = finding["message"].as_str().unwrap();
            assert!(message.contains("--shards=11214 --force"), "{message}");
        }
        let told = format!("{found:?}");
        let array = key.strip_prefix(COLUMN).map_or(key, |below| &below[1..]);
        let array = array.split("/c/").next().unwrap();
        assert!(told.contains(array), "{array}: {told}");
        let wrote = mend(&store, &found);
        let beyond: Vec<_> = wrote
            .difference(&due)
            .filter(|key| *key != MANIFEST)
            .collect();
        assert_eq!(beyond, Vec::<&String>::new(), "{key}");
        assert!(wrote.contains(COLUMN), "{key}");
        assert_eq!(findings(&store, 0), Vec::<Value>::new(), "{key}");
        assert_all(&case.upgraded(Law::Boundary), &store.tree());
    }
}

#[tokio::test]
async fn a_forgotten_write_of_the_ladder_is_found_and_no_column_of_a_leaf_is_written_for_it() {
    let case = Case::load("plain");
    let golden = case.upgraded_tree(Law::Boundary);
    let ladder = ladder_of(&case, &golden);
    for artifact in ["1/1/2/all.zarr", "1/1/2/1/all.pyramid.zarr"] {
        let chunk = |key: &&String| key.starts_with(&format!("{artifact}/")) && is_chunk(key);
        let key = golden.keys().find(chunk).unwrap();
        let store = forgetful(key).await;
        let found = findings(&store, 1);
        let named = found.iter().any(|finding| finding["path"] == artifact);
        assert!(named, "{key}: {found:#?}");
        let wrote = mend(&store, &found);
        assert!(wrote.contains(artifact), "{key}: {wrote:?}");
        let beyond: Vec<_> = wrote
            .difference(&ladder)
            .filter(|key| *key != MANIFEST)
            .collect();
        assert_eq!(beyond, Vec::<&String>::new(), "{key}");
        assert_eq!(findings(&store, 0), Vec::<Value>::new(), "{key}");
        assert_all(&case.upgraded(Law::Boundary), &store.tree());
    }
}
