//! Stores with their whole pyramid, and which artifacts a run wrote in them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::binary::{Output, Zagg};
use crate::common::cases::{Case, Expected, Law};
use crate::common::compare::{assert_all, is_record};
use crate::common::published::Published;
use crate::common::stores::{TestStore, Tree, differences};

/// Later than every leaf's stamp, earlier than any run of a test.
pub(crate) const EARLIER_RUN: &str = "2021-01-01T00:00:00+00:00";
/// A second after that.
pub(crate) const AFTER_THAT_RUN: &str = "2021-01-01T00:00:01+00:00";

/// Keys of root documents that hold a time of the run.
const CLOCKS: [&str; 3] = ["generated_at", "written_at", "max_leaf_timestamp"];

/// A golden case under a law, on its way from published to upgraded.
pub(crate) struct Ladder {
    /// The store and its config.
    pub(crate) published: Published,
    /// The law.
    pub(crate) law: Law,
}

impl Ladder {
    /// A case as published.
    pub(crate) fn published(name: &str, law: Law) -> Self {
        Self {
            published: Published::load(name),
            law,
        }
    }

    /// A case, declared, and its columns written.
    pub(crate) fn with_columns(name: &str, law: Law) -> Self {
        let ladder = Self::published(name, law);
        ladder.published.declare_as_published().run().expect_code(0);
        ladder.run("backfill", &[]).expect_code(0);
        ladder
    }

    /// A case in the state of `tree`.
    pub(crate) fn of_tree(name: &str, law: Law, tree: &Tree) -> Self {
        let mut ladder = Self::published(name, law);
        // The directory of the store that is replaced goes, and the config with it.
        ladder.published.store = TestStore::of(tree);
        ladder.published.write_config();
        ladder
    }

    /// A case with everything an upgrade leaves, which is the golden tree.
    pub(crate) fn upgraded(name: &str) -> Self {
        let ladder = Self::published(name, Law::Boundary);
        ladder.upgrade(&[]).expect_code(0);
        ladder.assert_golden();
        ladder
    }

    /// The case.
    pub(crate) fn case(&self) -> &Case {
        &self.published.case
    }

    /// What an upgrade must leave behind.
    pub(crate) fn expected(&self) -> Expected {
        self.case().upgraded(self.law)
    }

    /// Every object of the store.
    pub(crate) fn tree(&self) -> Tree {
        self.published.store.tree()
    }

    /// `upgrade ROOT --json --config FILE --overviews N` and `args`.
    pub(crate) fn upgrade(&self, args: &[&str]) -> Output {
        let upgrade = self.published.command("upgrade");
        upgrade
            .args(&["--overviews", &self.published.overviews()])
            .args(&["--fold-law", self.law.name()])
            .args(args)
            .run()
    }

    /// A command with the root, `--json`, the law and `args`.
    pub(crate) fn run(&self, command: &str, args: &[&str]) -> Output {
        Zagg::new(command)
            .arg(self.published.store.root())
            .args(&["--json", "--fold-law", self.law.name()])
            .args(args)
            .run()
    }

    /// Fails unless the store is the golden tree.
    #[track_caller]
    pub(crate) fn assert_golden(&self) {
        assert_all(&self.expected(), &self.tree());
    }

    /// Runs a command that must succeed; the artifacts and root objects that changed.
    #[track_caller]
    pub(crate) fn wrote(&self, command: &str, args: &[&str]) -> BTreeSet<String> {
        let before = self.tree();
        self.run(command, args).expect_code(0);
        changed(&before, &self.tree())
    }

    /// Removes every object of an artifact, its sidecar included.
    pub(crate) fn remove(&self, artifact: &str) {
        let keys = self.tree().into_keys();
        let keys: Vec<String> = keys.filter(|key| artifact_of(key) == artifact).collect();
        assert!(keys.len() > 1, "there is no {artifact}");
        for key in keys {
            self.published.store.remove(&key);
        }
    }

    /// Has every artifact say that it was written by an earlier run.
    pub(crate) fn set_back(&self) {
        let input = self.expected().input;
        for (key, bytes) in self.tree() {
            if key.ends_with(".zarr/zarr.json") && !input.contains_key(&key) {
                let text = String::from_utf8(bytes).unwrap();
                self.published
                    .store
                    .write(&key, with_clocks_set_back(&text));
            }
        }
    }
}

fn with_clocks_set_back(text: &str) -> String {
    let set_back = |line: &str| {
        let key = line.trim_start().trim_start_matches('"').split('"').next();
        match line.split_once("\": \"") {
            Some((before, after)) if key.is_some_and(|key| CLOCKS.contains(&key)) => {
                let (_, after) = after.split_once('"').unwrap();
                format!("{before}\": \"{EARLIER_RUN}\"{after}")
            }
            _ => line.to_owned(),
        }
    };
    text.lines().map(set_back).collect::<Vec<_>>().join("\n")
}

/// The artifact an object belongs to, or the object itself.
pub(crate) fn artifact_of(key: &str) -> String {
    match (key.strip_suffix(".stats.json"), key.split_once(".zarr/")) {
        (Some(stem), _) | (None, Some((stem, _))) => format!("{stem}.zarr"),
        (None, None) => key.to_owned(),
    }
}

/// The artifacts and root objects that two looks at a store differ in; records of sweeps
/// aside.
pub(crate) fn changed(before: &Tree, after: &Tree) -> BTreeSet<String> {
    let lines = differences(before, after);
    let keys = lines.iter().filter_map(|line| line.split_once(": "));
    keys.filter(|(_, key)| !is_record(key))
        .map(|(_, key)| artifact_of(key))
        .collect()
}

/// The artifacts of the ladder in a tree: all but leaves and their columns.
pub(crate) fn ladder_of(case: &Case, tree: &Tree) -> BTreeSet<String> {
    let below: BTreeSet<String> = case.columns(Law::Boundary).into_iter().collect();
    let leaves: BTreeSet<String> = case.leaves().into_iter().collect();
    let artifacts = tree.keys().map(|key| artifact_of(key));
    artifacts
        .filter(|artifact| artifact.ends_with(".zarr"))
        .filter(|artifact| !below.contains(artifact) && !leaves.contains(artifact))
        .collect()
}

/// Of these artifacts, those above the node of another artifact.
pub(crate) fn above(artifacts: &BTreeSet<String>, other: &str) -> BTreeSet<String> {
    let node = node_of(other);
    let is_above = |artifact: &&String| node.starts_with(&format!("{}/", node_of(artifact)));
    artifacts.iter().filter(is_above).cloned().collect()
}

/// The node an artifact stands at.
pub(crate) fn node_of(artifact: &str) -> &str {
    artifact.rsplit_once('/').unwrap().0
}

/// The record of an artifact of the ladder.
pub(crate) fn record_of(tree: &Tree, artifact: &str) -> Value {
    let root: Value = serde_json::from_slice(&tree[&format!("{artifact}/zarr.json")]).unwrap();
    let attributes = &root["attributes"];
    assert!(attributes["morton_hive_commit"].is_object(), "{artifact}");
    let key = format!("zagg_{}", attributes["role"].as_str().unwrap());
    attributes[&key].clone()
}
