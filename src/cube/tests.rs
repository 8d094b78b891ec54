//! Whatever is done to a local copy, a push harms no slice that is stored.

use std::sync::Arc;

use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::*;
use crate::common::cubes::{Cubes, bulk_keys};
use crate::common::library::{in_memory, settings, tree_in};
use crate::common::stores::Tree;

/// Something that somebody does to a copy, or to the remote cube.
#[derive(Debug, Clone)]
enum Edit {
    Remove(Index),
    /// Everything in the directory of a key.
    RemoveAround(Index),
    Overwrite(Index, u8),
    /// An object of a bulk array, fetched or not.
    WriteBulk(Index, u8),
    /// The object of one more slice.
    Append(Index, u64),
    /// The document of a node, where another's was.
    Exchange(Index, Index),
    /// One member of a document.
    Change(Index, Change),
    /// A node where there was none.
    Grow(Index, Index),
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Longer,
    Shorter,
    Flatter,
    Coarser,
    Nameless,
    Attributes,
    Bare,
    OfAnotherType,
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let change = prop::sample::select(vec![
        Change::Longer,
        Change::Shorter,
        Change::Flatter,
        Change::Coarser,
        Change::Nameless,
        Change::Attributes,
        Change::Bare,
        Change::OfAnotherType,
    ]);
    let key = any::<Index>;
    let edit = prop_oneof![
        2 => key().prop_map(Edit::Remove),
        1 => key().prop_map(Edit::RemoveAround),
        2 => (key(), any::<u8>()).prop_map(|(key, byte)| Edit::Overwrite(key, byte)),
        1 => (key(), any::<u8>()).prop_map(|(key, byte)| Edit::WriteBulk(key, byte)),
        2 => (key(), 0..5_u64).prop_map(|(key, slice)| Edit::Append(key, slice)),
        1 => (key(), key()).prop_map(|(from, to)| Edit::Exchange(from, to)),
        4 => (key(), change).prop_map(|(key, change)| Edit::Change(key, change)),
        1 => (key(), key()).prop_map(|(from, to)| Edit::Grow(from, to)),
    ];
    prop::collection::vec(edit, 1..4)
}

fn pick<'a>(index: &Index, keys: &[&'a str]) -> &'a str {
    keys[index.index(keys.len())]
}

/// Applies an edit to the objects of `store` below `base`.
async fn apply(store: &InMemory, base: &str, bulk: &[String], edit: &Edit) {
    let all = tree_in(store).await;
    let prefix = format!("{base}/");
    let below = |key: &String| Some(key.strip_prefix(&prefix)?.to_owned());
    let tree: Tree = all
        .iter()
        .filter_map(|(key, bytes)| Some((below(key)?, bytes.clone())))
        .collect();
    let keys: Vec<&str> = tree.keys().map(String::as_str).collect();
    let bulk: Vec<&str> = bulk.iter().map(String::as_str).collect();
    let documents: Vec<&str> = keys
        .iter()
        .filter(|key| layout::node_of(key).is_some())
        .copied()
        .collect();
    if keys.is_empty() || documents.is_empty() {
        return;
    }
    let path = |key: &str| Path::from(format!("{base}/{key}"));
    let write =
        async |key: &str, bytes: Vec<u8>| store.put(&path(key), bytes.into()).await.unwrap();
    match edit {
        Edit::Remove(key) => store.delete(&path(pick(key, &keys))).await.unwrap(),
        Edit::RemoveAround(key) => {
            let around = layout::split(pick(key, &keys)).unwrap().0;
            for key in keys
                .iter()
                .filter(|key| layout::below(key, around).is_some())
            {
                store.delete(&path(key)).await.unwrap();
            }
        }
        Edit::Overwrite(key, byte) => drop(write(pick(key, &keys), vec![*byte; 7]).await),
        Edit::WriteBulk(key, byte) => drop(write(pick(key, &bulk), vec![*byte; 7]).await),
        Edit::Append(key, slice) => {
            let (array, _) = pick(key, &bulk).split_once("/c/").unwrap();
            write(&format!("{array}/c/{slice}/0/0"), vec![1; 5]).await;
        }
        Edit::Exchange(from, to) => {
            write(pick(to, &documents), tree[pick(from, &documents)].clone()).await;
        }
        Edit::Change(key, change) => {
            let key = pick(key, &documents);
            if let Ok(mut document) = serde_json::from_slice(&tree[key]) {
                change.apply(&mut document);
                write(key, serde_json::to_vec(&document).unwrap()).await;
            }
        }
        Edit::Grow(from, above) => {
            let (above, _) = layout::split(pick(above, &keys)).unwrap();
            let bytes = tree[pick(from, &documents)].clone();
            write(&layout::document_of(&layout::join(above, "grown")), bytes).await;
        }
    }
}

impl Change {
    fn apply(self, document: &mut Value) {
        let set = |document: &mut Value, pointer: &str, value: Value| {
            if let Some(member) = document.pointer_mut(pointer) {
                *member = value;
            }
        };
        let length = document
            .pointer("/shape/0")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        match self {
            Self::Longer => set(document, "/shape/0", json!(length + 1)),
            Self::Shorter => set(document, "/shape/0", json!(length.saturating_sub(1))),
            Self::Flatter => set(document, "/shape", json!([length])),
            Self::Coarser => set(
                document,
                "/chunk_grid/configuration/chunk_shape/0",
                json!(2),
            ),
            Self::Nameless => set(document, "/dimension_names", Value::Null),
            Self::Attributes => set(document, "/attributes", json!({"title": "another"})),
            Self::Bare => *document = layout::bare(document),
            Self::OfAnotherType => set(document, "/node_type", json!("group")),
        }
    }
}

/// Pulls, edits both sides, and pushes twice.
async fn edited_copy_harms_nothing(
    here: Vec<Edit>,
    there: Vec<Edit>,
    options: PushOptions,
) -> Result<(), TestCaseError> {
    let cube_tree = Cubes::load().tree("consolidated");
    let bulk = bulk_keys(&cube_tree);
    let below_base = cube_tree
        .iter()
        .map(|(key, bytes)| (format!("cube/{key}"), bytes.clone()));
    let (remote, local) = (
        in_memory(&below_base.collect()).await,
        Arc::new(InMemory::new()),
    );
    let root = Root::with_base(remote.clone(), "cube", "memory://cube").unwrap();
    let copy = Root::with_base(local.clone(), "copy", "memory://copy").unwrap();
    let cube = Cube::new(root.clone()).settings(settings(""));
    cube.pull(false, || Ok(copy.clone())).await.unwrap();
    for edit in &here {
        apply(&local, "copy", &bulk, edit).await;
    }
    for edit in &there {
        apply(&remote, "cube", &bulk, edit).await;
    }
    let before = tree_in(&*remote).await;
    let pushed = cube.push(&copy, options).await;
    let after = tree_in(&*remote).await;
    let gone: Vec<&String> = before
        .keys()
        .filter(|key| !after.contains_key(*key))
        .collect();
    for key in &bulk {
        let key = format!("cube/{key}");
        prop_assert_eq!(before.get(&key), after.get(&key), "{} was harmed", key);
    }
    for key in &gone {
        let is_document = key.ends_with("/zarr.json");
        let document = before.get(*key).filter(|_| is_document);
        let says: Option<Value> = document.and_then(|bytes| serde_json::from_slice(bytes).ok());
        let coordinate = says.is_some_and(|says| {
            says["shape"]
                .as_array()
                .is_some_and(|shape| shape.len() < 2)
        });
        prop_assert!(!is_document || coordinate, "{} was deleted", key);
    }
    match pushed {
        Err(_) => prop_assert_eq!(before, after),
        Ok(pushed) => {
            prop_assert_eq!(pushed.ended.exit_code, 0, "{:?}", pushed.ended.error);
            prop_assert_eq!(pushed.deleted.len(), gone.len());
            let again = cube.push(&copy, options).await.unwrap();
            prop_assert_eq!((again.uploaded, again.deleted), (Vec::new(), Vec::new()));
            prop_assert_eq!(after, tree_in(&*remote).await);
        }
    }
    Ok(())
}

fn run(work: impl Future<Output = Result<(), TestCaseError>>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_edit_of_a_copy_harms_a_stored_slice(here in edits(), replace_bulk in any::<bool>()) {
        let options = PushOptions { replace_bulk, ..PushOptions::default() };
        run(edited_copy_harms_nothing(here, Vec::new(), options))?;
    }

    #[test]
    fn nor_does_it_when_somebody_else_writes(here in edits(), there in edits()) {
        run(edited_copy_harms_nothing(here, there, PushOptions::default()))?;
    }
}

/// The property says something only if most pushes of one edit go through.
#[tokio::test]
async fn a_coordinate_that_has_changed_is_pushed() {
    let cubes = Cubes::load();
    let remote = in_memory(&cubes.tree("healthy")).await;
    let copy = Root::with_base(Arc::new(InMemory::new()), "copy", "memory://copy").unwrap();
    let cube = Cube::new(Root::new(remote.clone(), "memory://cube")).settings(settings(""));
    cube.pull(false, || Ok(copy.clone())).await.unwrap();
    copy.put("ascending/r10m/x/c/0", "other").await.unwrap();
    let pushed = cube.push(&copy, PushOptions::default()).await.unwrap();
    assert_eq!(pushed.uploaded, ["ascending/r10m/x/c/0"]);
    assert_eq!(tree_in(&*remote).await["ascending/r10m/x/c/0"], b"other");
}
