//! Leaves that are rewritten while their columns are made: no column is stamped over them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::cases::{Case, Law};
use crate::common::compare::compare;
use crate::common::faults::{FaultStore, Op, Rule};
use crate::common::library::{get_now, in_memory, put_now, run, settings, tree_in};
use object_store::memory::InMemory;
use serde_json::{Value, json};
use zagg_stream::{Ending, FaultKind, Report};

/// Later than every leaf's stamp, and earlier than any column a test writes: a gate that
/// compares times alone takes the column for current.
const REWRITTEN_AT: &str = "2021-01-01T00:00:00+00:00";

/// A change of a leaf's root document.
type Edit = fn(&mut Value);

struct Moving {
    case: Case,
    memory: Arc<InMemory>,
    /// The leaf that moves.
    leaf: String,
}

impl Moving {
    async fn of(name: &str) -> Self {
        let case = Case::load(name);
        let memory = in_memory(&case.declared(Law::Boundary)).await;
        let leaf = case.leaves()[0].clone();
        Self { case, memory, leaf }
    }

    fn root(&self) -> String {
        format!("{}/zarr.json", self.leaf)
    }

    fn column(&self) -> String {
        self.case.columns(Law::Boundary)[0].clone()
    }

    /// A pass during which `edit` befalls the leaf, once: when the first call of this class
    /// comes for a key below `below`.
    async fn pass(&self, op: Op, below: &str, edit: Edit) -> Report {
        let (memory, root, below) = (self.memory.clone(), self.root(), below.to_owned());
        let moved = AtomicBool::new(false);
        let mover = Rule::on([op]).key(move |key| {
            if key.starts_with(&below) && key.contains("/c/") && !moved.swap(true, Ordering::SeqCst)
            {
                let mut document: Value =
                    serde_json::from_slice(&get_now(&memory, &root).unwrap()).unwrap();
                edit(&mut document);
                put_now(&memory, &root, document.to_string());
            }
            false
        });
        let store = FaultStore::new(self.memory.clone(), [mover]);
        run(Arc::new(store), settings("")).await
    }

    /// Only the leaf that moved failed, by name, and its column has no stamp.
    async fn assert_failed(&self, report: &Report) {
        let others = self.case.leaves().len() as u64 - 1;
        assert_eq!(report.outcome, Ending::Failed, "{report:?}");
        assert_eq!((report.counts.written, report.counts.failed), (others, 1));
        let failed = &report.failed_leaves[0];
        assert_eq!(failed.leaf, self.leaf);
        assert_eq!(failed.kind, FaultKind::Rewritten);
        for says in [self.leaf.as_str(), "was rewritten", "run again"] {
            assert!(failed.error.contains(says), "{}", failed.error);
        }
        let root = get_now(&self.memory, &format!("{}/zarr.json", self.column())).unwrap();
        let root: Value = serde_json::from_slice(&root).unwrap();
        assert!(root["attributes"].get("morton_hive_commit").is_none());
    }

    /// The next pass writes the column of the leaf as it now is.
    async fn assert_healed(&self) {
        let report = run(self.memory.clone(), settings("")).await;
        assert_eq!(report.outcome, Ending::Done, "{report:?}");
        assert_eq!(report.counts.written, 1, "{report:?}");
        let tree = tree_in(&*self.memory).await;
        let mut expected = self.case.expected(Law::Boundary);
        expected
            .input
            .insert(self.root(), tree[&self.root()].clone());
        assert_eq!(compare(&expected, &tree), Vec::<String>::new());
    }
}

fn stamped_later(root: &mut Value) {
    root["attributes"]["morton_hive_commit"]["written_at"] = json!(REWRITTEN_AT);
}

fn stamped_by_another_run(root: &mut Value) {
    root["attributes"]["morton_hive_commit"]["run_id"] = json!("another");
}

fn unstamped(root: &mut Value) {
    let attributes = root["attributes"].as_object_mut().unwrap();
    attributes.shift_remove("morton_hive_commit").unwrap();
}

#[tokio::test]
async fn a_leaf_rewritten_while_it_is_folded_fails_and_the_next_pass_writes_it() {
    for name in ["strata", "fine"] {
        for edit in [stamped_later as Edit, stamped_by_another_run] {
            let moving = Moving::of(name).await;
            let report = moving.pass(Op::Get, &moving.leaf, edit).await;
            moving.assert_failed(&report).await;
            moving.assert_healed().await;
        }
    }
}

#[tokio::test]
async fn a_leaf_rewritten_while_its_column_is_written_fails_and_the_next_pass_writes_it() {
    let moving = Moving::of("fine").await;
    let column = moving.column();
    let report = moving.pass(Op::Put, &column, stamped_later).await;
    moving.assert_failed(&report).await;
    moving.assert_healed().await;
}

#[tokio::test]
async fn a_leaf_that_is_being_rewritten_has_no_column_until_it_is_stamped() {
    let moving = Moving::of("strata").await;
    let before = get_now(&moving.memory, &moving.root()).unwrap();
    let report = moving.pass(Op::Get, &moving.leaf, unstamped).await;
    moving.assert_failed(&report).await;
    let report = run(moving.memory.clone(), settings("")).await;
    assert_eq!((report.counts.empty, report.counts.written), (1, 0));
    put_now(&moving.memory, &moving.root(), before);
    moving.assert_healed().await;
}

#[tokio::test]
async fn a_leaf_is_looked_at_once_more_for_each_column_and_not_when_it_is_current() {
    let moving = Moving::of("strata").await;
    for reads in [2, 1] {
        let store = FaultStore::new(moving.memory.clone(), []);
        run(Arc::new(store.clone()), settings("")).await;
        let asked: BTreeMap<String, u64> = moving
            .case
            .leaves()
            .iter()
            .map(|leaf| format!("{leaf}/zarr.json"))
            .map(|root| (root.clone(), store.calls_of(Op::Get, &root)))
            .collect();
        assert!(asked.values().all(|calls| *calls == reads), "{asked:?}");
    }
}
