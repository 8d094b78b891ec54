//! Pulls of cubes with odd objects in them, and stores that want more than an entity tag.

use std::sync::Arc;

use super::generations::Generations;
use super::pair::root;
use crate::common::cubes::Cubes;
use crate::common::library::{in_memory, settings, tree_in};
use crate::common::stores::TestStore;
use zagg_stream::Root;
use zagg_stream::cube::{Cube, PushOptions};

#[tokio::test]
async fn bulk_objects_are_replaced_on_a_store_that_wants_a_generation() {
    let tree = Cubes::load().tree("healthy");
    let inner = in_memory(&tree).await;
    let remote = Root::new(
        Arc::new(Generations::of(inner.clone())),
        "memory://generations",
    );
    let remote = Cube::new(remote).settings(settings(""));
    let local = TestStore::empty();
    remote.pull(true, || Ok(root(&local))).await.unwrap();
    let key = "ascending/r10m/vv/c/0/0/0";
    local.write(key, "replaced");
    let options = PushOptions {
        replace_bulk: true,
        ..PushOptions::default()
    };
    let pushed = remote.push(&root(&local), options).await.unwrap();
    assert_eq!(pushed.ended.exit_code, 0, "{:?}", pushed.ended.error);
    assert_eq!(pushed.uploaded, [key]);
    assert_eq!(tree_in(&*inner).await[key], b"replaced");
}
