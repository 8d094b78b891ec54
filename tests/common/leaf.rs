//! The first leaf of a golden case, to be changed before a pass sees it.

use std::sync::Arc;

use serde_json::Value;
use zagg_stream::{Ending, FailedLeaf, Report};

use crate::common::cases::{Case, Law};
use crate::common::compare::compare;
use crate::common::library::{in_memory, run, settings, tree_in};
use crate::common::shard::Shard;
use crate::common::stores::Tree;

/// Cells of an inner chunk of the cases with cells at order 6.
pub(crate) const PER_CHUNK: usize = 4;

/// Inner chunks of their leaves.
pub(crate) const CHUNKS: usize = 4;

/// What every message about a leaf offers.
const CURES: [&str; 5] = [
    "restore",
    "rebuild",
    "re-declare",
    "rewrite",
    "upgrade this",
];

/// A case whose first leaf is being changed.
pub(crate) struct ChangedLeaf {
    case: Case,
    tree: Tree,
    leaf: String,
}

impl ChangedLeaf {
    /// A case whose cells are of order 6, not changed yet.
    pub(crate) fn of(name: &str) -> Self {
        let case = Case::load(name);
        Self {
            tree: case.declared(Law::Boundary),
            leaf: case.leaves()[0].clone(),
            case,
        }
    }

    /// A key below the leaf's group of cells.
    pub(crate) fn key(&self, below: &str) -> String {
        format!("{}/6/{below}", self.leaf)
    }

    /// The bytes of an object below the leaf's group of cells.
    pub(crate) fn object(&mut self, below: &str) -> &mut Vec<u8> {
        self.tree.entry(self.key(below)).or_default()
    }

    /// Removes every object below the leaf's group of cells that begins so.
    pub(crate) fn remove(&mut self, below: &str) {
        let (prefix, before) = (self.key(below), self.tree.len());
        self.tree.retain(|key, _| !key.starts_with(&prefix));
        assert!(self.tree.len() < before, "there is no {prefix}");
    }

    /// The shard of an array.
    pub(crate) fn shard(&mut self, array: &str) -> Shard {
        Shard::parse(self.object(&format!("{array}/c/0")), CHUNKS)
    }

    /// Replaces the shard of an array.
    pub(crate) fn put_shard(&mut self, array: &str, bytes: Vec<u8>) {
        let object = self.object(&format!("{array}/c/0"));
        assert_ne!(*object, bytes);
        *object = bytes;
    }

    /// Changes the first inner chunk of an array that was written.
    pub(crate) fn edit_chunk(&mut self, array: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut shard = self.shard(array);
        edit(shard.chunks.iter_mut().flatten().next().unwrap());
        self.put_shard(array, shard.to_bytes());
    }

    /// Changes the first cell of a ragged array that is not empty.
    pub(crate) fn edit_cell(&mut self, array: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut cells = self.shard(array).ragged(PER_CHUNK);
        edit(cells.iter_mut().find(|cell| !cell.is_empty()).unwrap());
        let shard = Shard::of_ragged(&cells, PER_CHUNK);
        self.put_shard(array, shard.to_bytes());
    }

    /// Changes the metadata of an array.
    pub(crate) fn edit_metadata(&mut self, array: &str, edit: impl FnOnce(&mut Value)) {
        let document = self.object(&format!("{array}/zarr.json"));
        let before: Value = serde_json::from_slice(document).unwrap();
        let mut after = before.clone();
        edit(&mut after);
        assert_ne!(before, after);
        *document = serde_json::to_vec_pretty(&after).unwrap();
    }

    /// Runs a pass. The report, and what is then in the store.
    pub(crate) async fn run(&self) -> (Report, Tree) {
        let store = in_memory(&self.tree).await;
        let report = run(store.clone(), settings("")).await;
        (report, tree_in(&*Arc::clone(&store)).await)
    }

    /// Runs a pass that refuses this leaf, by name, and writes every other one.
    pub(crate) async fn refused(&self, what: &str) -> FailedLeaf {
        let (report, after) = self.run().await;
        assert_eq!(report.outcome, Ending::Failed, "{what}: {report:?}");
        assert_eq!(report.exit_code, 1, "{what}");
        let others = u64::try_from(self.case.leaves().len()).unwrap() - 1;
        assert_eq!(report.counts.written, others, "{what}");
        let [failed] = report.failed_leaves.as_slice() else {
            panic!("{what}: {report:?}");
        };
        assert_eq!(failed.leaf, self.leaf, "{what}");
        assert!(
            failed.error.contains(&self.leaf),
            "{what}: {}",
            failed.error
        );
        let cured = CURES.iter().any(|cure| failed.error.contains(cure));
        assert!(cured, "{what}: {}", failed.error);
        // Nothing is under the leaf's column, and all else is as if the leaf were good.
        let mut expected = self.case.expected(Law::Boundary);
        let (node, _) = self.leaf.rsplit_once('/').unwrap();
        let column = format!("{node}/all.pyramid.");
        expected.input = self.tree.clone();
        expected.columns.retain(|key, _| !key.starts_with(&column));
        assert_eq!(compare(&expected, &after), Vec::<String>::new(), "{what}");
        failed.clone()
    }

    /// Runs a pass that reads the leaf as what it was before.
    pub(crate) async fn same(&self, what: &str) {
        let (report, after) = self.run().await;
        assert_eq!(report.outcome, Ending::Done, "{what}: {report:?}");
        let mut expected = self.case.expected(Law::Boundary);
        expected.input = self.tree.clone();
        assert_ne!(expected.input, self.case.declared(Law::Boundary), "{what}");
        assert_eq!(compare(&expected, &after), Vec::<String>::new(), "{what}");
    }

    /// The column of the leaf.
    pub(crate) fn column(&self) -> String {
        let (node, _) = self.leaf.rsplit_once('/').unwrap();
        format!("{node}/all.pyramid.zarr")
    }

    /// What an unchanged leaf's column holds.
    pub(crate) fn golden(&self) -> Tree {
        self.case.expected(Law::Boundary).columns
    }
}
