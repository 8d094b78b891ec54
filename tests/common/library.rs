//! The library, run in this process over a store in memory that a script may spoil.

use std::sync::Arc;

use futures::{FutureExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use zagg_stream::{Report, Root, Settings, Steps, Upgrade, UpgradeHandle};

use crate::common::faults::{FaultStore, Rule};
use crate::common::stores::Tree;

/// Key of the lease.
pub(crate) const LEASE: &str = "sweep.lease.json";

/// Begins the keys of the scratch objects that a store is examined with before the first
/// write.
pub(crate) const PROBE: &str = ".zagg-stream/probe-";

/// Settings under which a failed request is tried again at once.
pub(crate) fn settings(toml: &str) -> Settings {
    let retry = "[retry]\nmax_attempts = 4\ninitial_delay_ms = 0\nmax_delay_ms = 0";
    Settings::from_toml(&format!("{toml}\n{retry}")).unwrap()
}

/// A store in memory that holds `tree`.
pub(crate) async fn in_memory(tree: &Tree) -> Arc<InMemory> {
    let store = InMemory::new();
    for (key, bytes) in tree {
        store
            .put(&Path::from(key.as_str()), bytes.clone().into())
            .await
            .unwrap();
    }
    Arc::new(store)
}

/// As [`in_memory`], behind a script.
pub(crate) async fn scripted(tree: &Tree, rules: impl IntoIterator<Item = Rule>) -> FaultStore {
    FaultStore::new(in_memory(tree).await, rules)
}

/// Every object of a store.
pub(crate) async fn tree_in(store: &dyn ObjectStore) -> Tree {
    let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
    let mut tree = Tree::new();
    for object in listed {
        let body = store.get(&object.location).await.unwrap();
        let bytes = body.bytes().await.unwrap().to_vec();
        tree.insert(object.location.to_string(), bytes);
    }
    tree
}

/// Writes an object at once, from whoever cannot wait: a store in memory never makes
/// anybody wait.
pub(crate) fn put_now(store: &InMemory, key: &str, bytes: impl Into<Vec<u8>>) {
    let (path, bytes) = (Path::from(key), bytes.into());
    store
        .put(&path, bytes.into())
        .now_or_never()
        .unwrap()
        .unwrap();
}

/// Reads an object at once, see [`put_now`]; `None` when there is none.
pub(crate) fn get_now(store: &InMemory, key: &str) -> Option<Vec<u8>> {
    let path = Path::from(key);
    let body = store.get(&path).now_or_never().unwrap().ok()?;
    Some(body.bytes().now_or_never().unwrap().unwrap().to_vec())
}

/// Starts these steps over a store.
pub(crate) async fn start_steps(
    store: Arc<dyn ObjectStore>,
    settings: Settings,
    steps: Steps,
) -> UpgradeHandle {
    let root = Root::new(store, "memory://scripted");
    let upgrade = Upgrade::new(root).settings(settings).steps(steps);
    upgrade.start().await.unwrap()
}

/// Starts a column pass over a store.
pub(crate) async fn start(store: Arc<dyn ObjectStore>, settings: Settings) -> UpgradeHandle {
    start_steps(store, settings, Steps::Columns).await
}

/// A whole column pass over a store.
pub(crate) async fn run(store: Arc<dyn ObjectStore>, settings: Settings) -> Report {
    start(store, settings).await.join().await.unwrap()
}
