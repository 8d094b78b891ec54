//! What the inventory of a copy records of a push, and what that spares and allows later.

use std::sync::Arc;

use super::pair::Pair;
use crate::common::cubes::Cubes;
use crate::common::faults::{FaultStore, Op};
use crate::common::library::{scripted, settings};
use crate::common::stores::TestStore;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::{Value, json};
use zagg_stream::Root;
use zagg_stream::cube::{Cube, PushOptions};

#[tokio::test]
async fn a_document_that_says_the_same_in_other_bytes_can_change_later() {
    let pair = Pair::appended().await;
    let key = "descending/r10m/x/zarr.json";
    let says: Value = serde_json::from_slice(&pair.local.read(key)).unwrap();
    let other = serde_json::to_vec(&says).unwrap();
    assert_ne!(other, pair.local.read(key));
    pair.local.write(key, other);
    assert!(!pair.push().await.uploaded.contains(&key.to_owned()));
    pair.local
        .edit_json(key, |x| x["attributes"]["units"] = json!("km"));
    assert_eq!(pair.push().await.uploaded, [key]);
}

fn cube(store: &FaultStore) -> Cube {
    let root = Root::new(Arc::new(store.clone()), "memory://scripted");
    Cube::new(root).settings(settings(""))
}

/// Objects that are read, documents aside.
fn objects_read(store: &FaultStore) -> u64 {
    store.calls_where(Op::Get, |key| !key.ends_with("zarr.json"))
}

#[tokio::test]
async fn an_idle_push_after_an_append_reads_no_object() {
    let cubes = Cubes::load();
    let remote = scripted(&cubes.tree("same_size_append/remote"), []).await;
    let local = TestStore::empty();
    let open = || Root::open(local.root().to_str().unwrap());
    cube(&remote).pull(false, open).await.unwrap();
    for (key, bytes) in cubes.tree("same_size_append/local") {
        local.write(&key, bytes);
    }
    let push = async |store: &FaultStore| {
        let local = Root::open(local.root().to_str().unwrap()).unwrap();
        let options = PushOptions::default();
        cube(store).push(&local, options).await.unwrap()
    };
    assert!(!push(&remote).await.uploaded.is_empty());
    let idle = FaultStore::new(remote.unspoilt(), []);
    assert_eq!(push(&idle).await.uploaded, [""; 0]);
    assert_eq!(objects_read(&idle), 0);

    // Written anew with the same bytes, an object is read once and no more.
    let x = "descending/r10m/x/c/0";
    let bytes = local.read(x);
    remote
        .unspoilt()
        .put(&Path::from(x), bytes.into())
        .await
        .unwrap();
    for reads in [1, 0] {
        let idle = FaultStore::new(remote.unspoilt(), []);
        assert_eq!(push(&idle).await.uploaded, [""; 0]);
        assert_eq!(objects_read(&idle), reads);
    }
}
