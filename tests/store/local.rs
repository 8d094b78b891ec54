//! Stores on a local disk: every spelling of a root that an operator may have, and what a
//! killed pass leaves there.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law};
use crate::common::compare::{assert_columns, assert_expected};
use crate::common::stores::{TestStore, tree_of};

/// Names a directory may have.
const ODD_NAMES: [&str; 6] = [
    "two words",
    "Größe 数据 ünï",
    "100%",
    "a%20b",
    "run#1",
    "what?&=[x]~",
];

/// A column pass over the store at `root`, as it is written, which writes every column.
fn upgrade(case: &Case, root: impl AsRef<Path>) {
    let run = Zagg::backfill(root.as_ref()).run().expect_code(0);
    let leaves = u64::try_from(case.leaves().len()).unwrap();
    assert_eq!(run.number("/counts/written"), leaves);
}

/// Moves a store's root to `name` beside it.
fn renamed(store: &TestStore, name: &str) -> PathBuf {
    let path = store.parent().join(name);
    fs::rename(store.root(), &path).unwrap();
    path
}

#[test]
fn a_root_may_have_any_name() {
    let case = Case::load("plain");
    for name in ODD_NAMES {
        let store = case.declared_store(Law::Boundary);
        let root = renamed(&store, name);
        upgrade(&case, &root);
        assert_columns(&case, Law::Boundary, &root);
        let beside: Vec<_> = fs::read_dir(store.parent()).unwrap().collect();
        assert_eq!(beside.len(), 1, "nothing else was made for `{name}`");
    }
}

#[test]
fn a_root_may_end_in_slashes_or_go_roundabout() {
    let case = Case::load("plain");
    for end in ["/", "//", "/.", "/../store"] {
        let store = case.declared_store(Law::Boundary);
        upgrade(&case, format!("{}{end}", store.root().display()));
        assert_columns(&case, Law::Boundary, &store.root());
    }
}

#[test]
fn a_root_may_be_a_url() {
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    let root = renamed(&store, "two words 100%");
    let parent = store.parent().display();
    upgrade(&case, format!("file://{parent}/two%20words%20100%25"));
    assert_columns(&case, Law::Boundary, &root);
}

#[test]
fn a_root_may_be_a_link() {
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    let link = store.parent().join("link");
    symlink(store.root(), &link).unwrap();
    upgrade(&case, &link);
    assert!(link.is_symlink());
    assert_columns(&case, Law::Boundary, &store.root());
}

#[test]
fn a_part_of_a_store_may_lie_elsewhere() {
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    let leaf = &case.leaves()[0];
    let ancestor: PathBuf = Path::new(leaf).iter().take(2).collect();
    let inside = store.root().join(&ancestor);
    let elsewhere = store.parent().join("another disk");
    fs::rename(&inside, &elsewhere).unwrap();
    symlink(&elsewhere, &inside).unwrap();

    upgrade(&case, store.root());
    assert!(inside.is_symlink());
    assert!(!tree_of(&elsewhere).is_empty());
    fs::remove_file(&inside).unwrap();
    fs::rename(&elsewhere, &inside).unwrap();
    assert_columns(&case, Law::Boundary, &store.root());
}

#[test]
fn what_a_killed_pass_left_staged_is_neither_read_nor_kept() {
    let case = Case::load("plain");
    let store = case.declared_store(Law::Boundary);
    let column = &case.columns(Law::Boundary)[0];
    let sidecar = column.replace(".zarr", ".stats.json");
    // A stamp that was never renamed is none.
    let stamped = &case.expected(Law::Boundary).columns[&format!("{column}/zarr.json")];
    store.write(&format!("{column}/zarr.json#1"), stamped);
    store.write(&format!("{column}/9/nobodys/c/0#7"), "half a chu");
    store.write(&format!("{sidecar}#1"), "{");

    upgrade(&case, store.root());
    assert!(!store.path(&format!("{column}/9")).exists());
    assert_expected(&case.expected(Law::Boundary), &store.root());
}
