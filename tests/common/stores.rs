//! Store roots in a temporary directory, and what is in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

/// Every file below a directory, by its path with `/` between names.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// A store root of its own, with room for its siblings; gone when dropped.
pub(crate) struct TestStore {
    dir: TempDir,
}

impl TestStore {
    /// A store that holds `tree`.
    pub(crate) fn of(tree: &Tree) -> Self {
        let store = Self {
            dir: TempDir::with_prefix("zagg-stream-test-").unwrap(),
        };
        write_tree(&store.root(), tree);
        store
    }

    /// A root directory with nothing in it.
    pub(crate) fn empty() -> Self {
        Self::of(&Tree::new())
    }

    /// The root.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The directory the root lies in, whose other entries are siblings of the root.
    pub(crate) fn parent(&self) -> &Path {
        self.dir.path()
    }

    /// Where an object lies.
    pub(crate) fn path(&self, key: &str) -> PathBuf {
        self.root().join(key)
    }

    /// Whether there is such an object.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.path(key).is_file()
    }

    /// The bytes of an object.
    pub(crate) fn read(&self, key: &str) -> Vec<u8> {
        fs::read(self.path(key)).unwrap_or_else(|error| panic!("cannot read `{key}`: {error}"))
    }

    /// Writes an object.
    pub(crate) fn write(&self, key: &str, bytes: impl AsRef<[u8]>) {
        write_file(&self.path(key), bytes.as_ref());
    }

    /// Removes an object that is there.
    pub(crate) fn remove(&self, key: &str) {
        fs::remove_file(self.path(key))
            .unwrap_or_else(|error| panic!("cannot remove `{key}`: {error}"));
    }

    /// Changes a JSON document in place.
    pub(crate) fn edit_json(&self, key: &str, edit: impl FnOnce(&mut Value)) {
        let before: Value = serde_json::from_slice(&self.read(key)).unwrap();
        let mut after = before.clone();
        edit(&mut after);
        assert_ne!(before, after, "the edit of `{key}` changed nothing");
        self.write(key, serde_json::to_vec_pretty(&after).unwrap());
    }

    /// Every object of the store.
    pub(crate) fn tree(&self) -> Tree {
        tree_of(&self.root())
    }

    /// Every object of the store and of its siblings.
    pub(crate) fn surroundings(&self) -> Tree {
        tree_of(self.parent())
    }
}

/// Writes every file of `tree` below `dir`, which is made.
pub(crate) fn write_tree(dir: &Path, tree: &Tree) {
    fs::create_dir_all(dir).unwrap();
    for (key, bytes) in tree {
        write_file(&dir.join(key), bytes);
    }
}

fn write_file(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Every file below `dir`.
pub(crate) fn tree_of(dir: &Path) -> Tree {
    let mut tree = Tree::new();
    collect(dir, "", &mut tree);
    tree
}

fn collect(dir: &Path, prefix: &str, tree: &mut Tree) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let key = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), &format!("{key}/"), tree);
        } else {
            tree.insert(key, fs::read(entry.path()).unwrap());
        }
    }
}

/// What changed between two looks at a tree, one line each; empty when nothing did.
pub(crate) fn differences(before: &Tree, after: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, bytes) in before {
        match after.get(key) {
            None => lines.push(format!("gone: {key}")),
            Some(now) if now != bytes => lines.push(format!("changed: {key}")),
            Some(_) => {}
        }
    }
    for key in after.keys().filter(|key| !before.contains_key(*key)) {
        lines.push(format!("new: {key}"));
    }
    lines
}
