//! What others write while a command is at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::pair::{Pair, SHARD, cube, root};
use crate::common::cubes::Cubes;
use crate::common::faults::{FaultStore, Op, Rule};
use crate::common::library::{in_memory, put_now, settings, tree_in};
use crate::common::stores::{TestStore, Tree};
use object_store::memory::InMemory;
use zagg_stream::Root;
use zagg_stream::cube::{Cube, PushOptions, Pushed};

/// Does `act` right before the first call of this class to a key with this in it.
fn once(op: Op, part: &'static str, act: impl Fn() + Send + Sync + 'static) -> Rule {
    let done = AtomicBool::new(false);
    Rule::on([op]).key(move |key| {
        if key.contains(part) && !done.swap(true, Ordering::SeqCst) {
            act();
        }
        false
    })
}

fn scripted_cube(store: &FaultStore) -> Cube {
    Cube::new(Root::new(Arc::new(store.clone()), "memory://scripted")).settings(settings(""))
}

/// A copy with a third slice that lacks `absent`, of a remote cube in memory.
struct Append {
    remote: Arc<InMemory>,
    local: TestStore,
}

impl Append {
    async fn new(absent: &str) -> Self {
        let cubes = Cubes::load();
        let mut before = cubes.tree("same_size_append/remote");
        before.insert("notes/of/others".to_owned(), b"old".to_vec());
        let append = Self {
            remote: in_memory(&before).await,
            local: TestStore::empty(),
        };
        let store = FaultStore::new(append.remote.clone(), []);
        let open = || Ok(root(&append.local));
        let pulled = scripted_cube(&store).pull(false, open).await.unwrap();
        assert_eq!(pulled.ended.exit_code, 0);
        for (key, bytes) in cubes.tree("same_size_append/local") {
            if key != absent {
                append.local.write(&key, bytes);
            }
        }
        append
    }

    /// Pushes, while `key` is written by somebody else right before the first call of the
    /// class to a key with `part` in it.
    async fn push_while(&self, op: Op, part: &'static str, key: &'static str) -> Pushed {
        let remote = self.remote.clone();
        let rule = once(op, part, move || put_now(&remote, key, "somebody else's"));
        let store = FaultStore::new(self.remote.clone(), [rule]);
        let (local, options) = (root(&self.local), PushOptions::default());
        scripted_cube(&store).push(&local, options).await.unwrap()
    }

    async fn tree(&self) -> Tree {
        tree_in(&*self.remote).await
    }
}

#[tokio::test]
async fn an_object_that_appears_in_the_new_slice_keeps_it_from_being_published() {
    for key in [SHARD, "descending/r20m/x/c/0"] {
        let append = Append::new(SHARD).await;
        let before = append.tree().await;
        let pushed = append.push_while(Op::Put, "/vv/c/2/", key).await;
        assert_eq!(pushed.ended.exit_code, 3, "{key}");
        let error = pushed.ended.error.unwrap();
        assert!(error.contains(key), "{error}");
        let after = append.tree().await;
        for (key, bytes) in &before {
            if key.ends_with("zarr.json") {
                assert_eq!(after.get(key), Some(bytes), "{key}");
            }
        }
    }
}

#[tokio::test]
async fn an_object_that_appears_after_the_documents_is_told() {
    let append = Append::new(SHARD).await;
    let pushed = append
        .push_while(Op::Put, "r10m/time/zarr.json", SHARD)
        .await;
    assert_eq!(pushed.ended.exit_code, 3);
    let error = pushed.ended.error.unwrap();
    assert!(
        error.contains(SHARD) && error.contains("cube check"),
        "{error}"
    );
}

#[tokio::test]
async fn what_appears_elsewhere_lets_a_push_pass() {
    for key in ["notes/of/others", "another/zarr.json"] {
        let append = Append::new("").await;
        let pushed = append.push_while(Op::Put, "/vv/c/2/", key).await;
        assert_eq!(pushed.ended.exit_code, 0, "{key}: {:?}", pushed.ended.error);
    }
}

#[tokio::test]
async fn what_moved_in_the_copy_is_named_in_the_copy() {
    let tree = Cubes::load().tree("healthy");
    let local = Arc::new(TestStore::empty());
    let (key, copy) = ("ascending/r10m/x/c/0", local.clone());
    let write = move || copy.write(key, "mine");
    let store = FaultStore::new(in_memory(&tree).await, [once(Op::Get, key, write)]);
    let open = || Ok(root(&local));
    let pulled = scripted_cube(&store).pull(false, open).await.unwrap();
    assert_eq!(pulled.ended.exit_code, 3);
    let error = pulled.ended.error.unwrap();
    let place = format!("`{key}` under `{}` was written", local.root().display());
    assert!(error.contains(&place), "{error}");
}

#[tokio::test]
async fn what_was_deleted_meanwhile_is_told_so() {
    let append = Append::new("").await;
    let (remote, key) = (append.remote.clone(), "descending/r10m/time/c/0");
    let delete = move || {
        let path = object_store::path::Path::from(key);
        let deleted = object_store::ObjectStoreExt::delete(&*remote, &path);
        futures::FutureExt::now_or_never(deleted).unwrap().unwrap();
    };
    let rule = once(Op::Put, "r10m/time/c/0", delete);
    let store = FaultStore::new(append.remote.clone(), [rule]);
    let (local, options) = (root(&append.local), PushOptions::default());
    let pushed = scripted_cube(&store).push(&local, options).await.unwrap();
    assert_eq!(pushed.ended.exit_code, 3);
    let error = pushed.ended.error.unwrap();
    assert!(
        error.contains(&format!("`{key}`")) && error.contains("was deleted"),
        "{error}"
    );
}

#[tokio::test]
async fn a_push_that_is_told_to_stop_reads_no_objects() {
    let append = Append::new("").await;
    let store = FaultStore::new(append.remote.clone(), []);
    let stopped = scripted_cube(&store);
    stopped.stop().stop();
    let (local, options) = (root(&append.local), PushOptions::default());
    let error = stopped.push(&local, options).await.unwrap_err();
    assert_eq!(error.ending().exit_code(), 130, "{error}");
    assert!(error.to_string().contains("run the same command again"));
    let objects = store.calls_where(Op::Get, |key| !key.ends_with("zarr.json"));
    assert_eq!(objects, 0);
}

#[tokio::test]
async fn a_cube_that_was_ragged_when_it_was_pulled_is_to_be_looked_at_there() {
    let pair = Pair::golden("ragged_append").await;
    let mut keys = pair.local.tree().into_keys();
    let x = keys.find(|key| key.ends_with("r10m/x/c/0")).unwrap();
    pair.local.write(&x, "other");
    let check = format!("zagg-stream cube check {}", pair.remote.root().display());
    pair.assert_refused(&["in the remote cube, too,", &check])
        .await;
    assert_eq!(cube(&pair.remote).check().await.unwrap().ended.exit_code, 1);
}
