//! Pulls of cubes with odd objects in them, and stores that want more than an entity tag.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::generations::Generations;
use super::pair::{cube, root};
use crate::common::binary::Zagg;
use crate::common::cubes::Cubes;
use crate::common::faults::{FaultStore, Op, Rule};
use crate::common::library::{in_memory, put_now, settings, tree_in};
use crate::common::s3::S3Server;
use crate::common::stores::{TestStore, differences};
use serde_json::json;
use zagg_stream::Root;
use zagg_stream::cube::{Cube, PushOptions};

/// What consoles leave where somebody made a folder, and names that no file can have.
#[test]
fn what_cannot_be_a_file_is_left_where_it_is() {
    let server = S3Server::start();
    let whole = Cubes::load().tree("healthy");
    let mut tree = whole.clone();
    let long = format!("notes/{}", "n".repeat(300));
    for key in [
        "",
        "ascending/",
        "ascending/r10m/x/c/",
        "ascending/r10m/vv/c/0/",
        "a#1",
        &long,
    ] {
        tree.insert(key.to_owned(), Vec::new());
    }
    let bucket = server.bucket("odd", &tree);
    for full in [true, false] {
        let local = TestStore::empty();
        let pull = bucket
            .environment(Zagg::new("cube"))
            .arg("pull")
            .arg("--json");
        let pull = pull.arg(bucket.url()).arg(local.root());
        let pull = if full { pull.arg("--full") } else { pull };
        let pulled = pull.run().expect_code(0);
        if full {
            assert_eq!(differences(&whole, &local.tree()), [""; 0]);
            let warnings = pulled.warnings().join(" ");
            for key in ["`a#1`", "`ascending`", "no file can have"] {
                assert!(warnings.contains(key), "{key} is not in {warnings}");
            }
        }
        let push = bucket
            .environment(Zagg::new("cube"))
            .arg("push")
            .arg("--json");
        let pushed = push
            .arg(local.root())
            .arg(bucket.url())
            .run()
            .expect_code(0);
        assert_eq!(pushed.text("/outcome"), "nothing-to-do");
    }
}

#[tokio::test]
async fn what_others_note_beside_a_cube_does_not_refuse_a_pull() {
    let inner = in_memory(&Cubes::load().tree("foreign_and_nested")).await;
    let beside = inner.clone();
    let note = move |key: &str| {
        if key.ends_with("/x/c/0") {
            put_now(&beside, "README.txt", key);
            put_now(&beside, "logs/today", key);
        }
        false
    };
    let store = FaultStore::new(inner, [Rule::on([Op::Get]).key(note)]);
    let local = TestStore::empty();
    let remote = Root::new(Arc::new(store), "memory://scripted");
    let remote = Cube::new(remote).settings(settings(""));
    let pulled = remote.pull(false, || Ok(root(&local))).await.unwrap();
    assert_eq!(pulled.ended.exit_code, 0, "{:?}", pulled.ended.error);
}

#[test]
fn a_length_that_cannot_be_is_found_at_once() {
    let store = TestStore::of(&Cubes::load().tree("healthy"));
    store.edit_json("ascending/r10m/time/zarr.json", |time| {
        time["shape"] = json!([1_000_000_000_000_u64]);
        time["chunk_grid"]["configuration"]["chunk_shape"] = json!([1]);
    });
    let (told, hears) = mpsc::channel();
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all();
        let checked = runtime.build().unwrap().block_on(cube(&store).check());
        told.send(checked.unwrap().ended.exit_code).unwrap();
    });
    let code = hears.recv_timeout(Duration::from_secs(30));
    assert_eq!(code, Ok(1));
}

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
