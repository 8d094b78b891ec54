//! What a heal and a push refuse, and what they let pass beside it.

use super::pair::{Pair, SHARD, cube};
use crate::common::binary::Zagg;
use crate::common::cubes::{Cubes, bulk_keys};
use crate::common::stores::{TestStore, Tree, differences};
use serde_json::{Value, json};

#[tokio::test]
async fn what_moved_in_the_same_orbit_refuses_a_push() {
    let pair = Pair::appended().await;
    pair.remote.write("descending/r20m/x/c/0", "moved");
    pair.assert_refused(&[
        "has changed since the pull",
        "`descending/r20m/x/c/0`",
        "pull into another",
    ])
    .await;

    let pair = Pair::appended().await;
    pair.remote.write("descending/r20m/vv/c/0/0/0", "a slice");
    pair.assert_refused(&["`descending/r20m/vv/c/0/0/0`"]).await;

    let pair = Pair::appended().await;
    pair.remote.write(SHARD, "somebody else's");
    pair.assert_refused(&["`descending/r10m/vv/c/2/0/0` is new here and was written there"])
        .await;
}

#[tokio::test]
async fn what_moved_in_another_orbit_lets_a_push_pass() {
    let pair = Pair::golden("healthy").await;
    pair.remote.write("descending/r10m/x/c/0", "moved");
    pair.local.write("ascending/r10m/x/c/0", "changed");
    let pushed = pair.push().await;
    assert_eq!(pushed.uploaded, ["ascending/r10m/x/c/0"]);
    assert!(
        pushed.warnings[0].contains("`descending/r10m/x/c/0`"),
        "{:?}",
        pushed.warnings
    );
    pair.local.write("descending/r10m/y/c/0", "changed");
    pair.assert_refused(&["`descending/r10m/x/c/0`"]).await;

    // The root repeats what has moved below it.
    let pair = Pair::golden("consolidated").await;
    pair.remote.write("ascending/r10m/x/c/0", "moved");
    pair.local.edit_json("zarr.json", |root| {
        root["attributes"] = json!({"title": "a tile"})
    });
    pair.assert_refused(&["`ascending/r10m/x/c/0`"]).await;
}

#[tokio::test]
async fn the_same_bytes_written_anew_have_not_moved() {
    let pair = Pair::appended().await;
    let coordinate = "descending/r10m/x/c/0";
    pair.remote.remove(coordinate);
    pair.remote.write(coordinate, pair.local.read(coordinate));
    assert!(!pair.push().await.uploaded.is_empty());
}

#[tokio::test]
async fn an_object_that_was_not_fetched_is_not_written_over() {
    let pair = Pair::golden("healthy").await;
    let key = "ascending/conditions/lia_030/c/0/0";
    pair.local.write(key, "rewritten");
    pair.assert_refused(&[key, "was not fetched", "--full"])
        .await;
    let error = pair.replace_bulk().await.unwrap_err();
    assert!(error.to_string().contains("was not fetched"));
    pair.local.write(key, pair.remote.read(key));
    assert_eq!(pair.push().await.uploaded, [""; 0]);
}

#[tokio::test]
async fn a_full_copy_may_replace_what_it_has_fetched_when_told_to() {
    let tree = Cubes::load().tree("unsafe_shards");
    let pair = Pair::of(&tree, true).await;
    assert_eq!(differences(&tree, &pair.local.tree()), [""; 0]);
    let key = "ascending/r60m/vv/c/0/0/0";
    pair.local.write(key, "both slices");
    pair.assert_refused(&[key, "--replace-bulk"]).await;
    let pushed = pair.replace_bulk().await.unwrap();
    assert_eq!(pushed.uploaded, [key]);
    assert_eq!(pair.remote.read(key), b"both slices");

    pair.local.remove(key);
    let pushed = pair.push().await;
    assert!(
        pushed.warnings[0].contains("is kept there"),
        "{:?}",
        pushed.warnings
    );
    assert!(pair.remote.has(key));
}

/// What a push leaves whose copy is lost before it ends.
async fn with_an_orphan(key: &str) -> Pair {
    let cubes = Cubes::load();
    let mut tree = cubes.tree("same_size_append/remote");
    tree.insert(key.to_owned(), b"an orphan".to_vec());
    let pair = Pair::of(&tree, false).await;
    let checked = cube(&pair.remote).check().await.unwrap();
    assert_eq!(checked.ended.exit_code, 1);
    assert!(
        checked
            .findings
            .iter()
            .any(|finding| finding.message.contains(key))
    );
    for (key, bytes) in cubes.tree("same_size_append/local") {
        pair.local.write(&key, bytes);
    }
    pair
}

#[tokio::test]
async fn objects_past_the_end_of_an_array_do_not_become_a_slice() {
    let pair = with_an_orphan(SHARD).await;
    pair.assert_refused(&[SHARD, "past the end", "--replace-bulk"])
        .await;
    assert_eq!(pair.replace_bulk().await.unwrap().ended.exit_code, 0);
    assert_eq!(pair.remote.read(SHARD), pair.local.read(SHARD));
    assert_eq!(cube(&pair.remote).check().await.unwrap().ended.exit_code, 0);

    // The new slice has no object of its own there.
    let pair = with_an_orphan(SHARD).await;
    pair.local.remove(SHARD);
    pair.assert_refused(&[SHARD, "would appear", "delete that object by hand"])
        .await;
    let error = pair.replace_bulk().await.unwrap_err();
    assert!(error.to_string().contains("would appear"));
}

#[tokio::test]
async fn half_an_append_is_not_published() {
    let pair = Pair::appended().await;
    pair.local
        .edit_json("descending/r20m/time/zarr.json", |time| {
            time["shape"] = json!([2])
        });
    pair.assert_refused(&["in the local copy", "`descending/r20m/time` has 2 slices"])
        .await;
}

#[tokio::test]
async fn a_document_under_which_slices_would_be_lost_is_refused() {
    for (pointer, value) in [
        ("/shape/0", json!(1)),
        ("/shape/1", json!(24)),
        ("/chunk_grid/configuration/chunk_shape/1", json!(6)),
        ("/fill_value", json!(0)),
        ("/data_type", json!("float64")),
        ("/dimension_names/0", json!("t")),
    ] {
        let pair = Pair::golden("healthy").await;
        pair.local.edit_json("ascending/r10m/vv/zarr.json", |vv| {
            *vv.pointer_mut(pointer).unwrap() = value.clone();
        });
        pair.assert_refused(&["`ascending/r10m/vv/zarr.json` would make stored slices unreadable"])
            .await;
    }
    let pair = Pair::golden("healthy").await;
    pair.local.edit_json("ascending/r10m/vv/zarr.json", |vv| {
        vv["attributes"]["units"] = json!("dB")
    });
    assert_eq!(pair.push().await.uploaded, ["ascending/r10m/vv/zarr.json"]);
    pair.local.remove("ascending/zarr.json");
    pair.assert_refused(&["`ascending/zarr.json` is gone here"])
        .await;
}

#[tokio::test]
async fn a_block_goes_only_with_a_change_below_it() {
    let bare = |pair: &Pair| {
        for key in ["zarr.json", "ascending/zarr.json"] {
            pair.local.edit_json(key, |group| {
                group
                    .as_object_mut()
                    .unwrap()
                    .remove("consolidated_metadata")
                    .unwrap();
            });
        }
    };
    let pair = Pair::golden("consolidated").await;
    bare(&pair);
    let before = pair.remote.tree();
    let pushed = pair.push().await;
    assert_eq!(
        (pushed.uploaded, pushed.ended.requests.put),
        (Vec::new(), 0)
    );
    assert_eq!(differences(&before, &pair.remote.tree()), [""; 0]);
    pair.local.write("ascending/r10m/x/c/0", "changed");
    let uploaded = pair.push().await.uploaded;
    assert_eq!(
        uploaded,
        ["ascending/r10m/x/c/0", "ascending/zarr.json", "zarr.json"]
    );
}

#[tokio::test]
async fn only_what_was_pulled_from_a_cube_is_pushed_to_it() {
    let pair = Pair::golden("healthy").await;
    let other = TestStore::of(&Cubes::load().tree("healthy"));
    let elsewhere = Pair {
        remote: other,
        local: pair.local,
    };
    elsewhere
        .assert_refused(&["it is of a pull of", pair.remote.root().to_str().unwrap()])
        .await;
    let never = Pair {
        remote: pair.remote,
        local: TestStore::empty(),
    };
    never.assert_refused(&["there is none", "cube pull"]).await;
}

#[tokio::test]
async fn a_cube_that_is_not_there_yet_is_pushed_whole() {
    let tree = Cubes::load().tree("healthy");
    let pair = Pair::of(&Tree::new(), false).await;
    for (key, bytes) in &tree {
        pair.local.write(key, bytes);
    }
    pair.local.write(
        "ascending/r10m/vv/c/0/0/0.partial",
        "of a writer that was killed",
    );
    pair.local.write("notes.txt", "mine");
    let pushed = pair.push().await;
    assert_eq!(pushed.uploaded.len(), tree.len());
    assert_eq!(pushed.uploaded.last().unwrap(), "zarr.json");
    assert!(
        pushed.warnings[0].contains("`notes.txt`"),
        "{:?}",
        pushed.warnings
    );
    assert_eq!(differences(&tree, &pair.remote.tree()), [""; 0]);
}

#[tokio::test]
async fn a_cube_beyond_mending_is_refused_by_name() {
    let golden = Cubes::load().tree("missing_two_levels");
    type Spoil = fn(&TestStore);
    let cases: [(&str, Spoil); 8] = [
        (
            "`ascending/r10m/time` cannot be copied from: its data type",
            |store| {
                store.edit_json("ascending/r10m/time/zarr.json", |time| {
                    time["data_type"] = json!("int32")
                });
            },
        ),
        (
            "`ascending/r10m/vv` has 3 slices, `ascending/r10m/time` has 4",
            |store| {
                store.edit_json("ascending/r10m/time/zarr.json", |time| {
                    time["shape"] = json!([4])
                });
            },
        ),
        ("`ascending/r10m/time/c/0`", |store| {
            store.write("ascending/r10m/time/c/0", "no frame")
        }),
        (
            "the document of `ascending/r20m/vv` cannot be used: it is not JSON",
            |store| {
                store.write("ascending/r20m/vv/zarr.json", "{");
            },
        ),
        ("`ascending/r20m/vv` cannot be used: its `shape`", |store| {
            store.edit_json("ascending/r20m/vv/zarr.json", |vv| drop(vv["shape"].take()));
        }),
        (
            "`ascending/r360m` is a level of the layout and is not there",
            |store| {
                store.edit_json("ascending/zarr.json", |orbit| {
                    let layout = orbit.pointer_mut("/attributes/multiscales/layout").unwrap();
                    layout
                        .as_array_mut()
                        .unwrap()
                        .push(json!({"asset": "r360m"}));
                });
            },
        ),
        ("`ascending/r20m/time` is a group", |store| {
            store.write(
                "ascending/r20m/time/zarr.json",
                store.read("ascending/conditions/zarr.json"),
            );
        }),
        ("`ascending/r10m` is not there", |store| {
            let below = store
                .tree()
                .into_keys()
                .filter(|key| key.starts_with("ascending/r10m/"));
            below.for_each(|key| store.remove(&key));
        }),
    ];
    for (words, spoil) in cases {
        let store = TestStore::of(&golden);
        spoil(&store);
        // The other orbit lacks a level's `time`, too, and is healed whatever becomes of
        // this one.
        store.remove("descending/r20m/time/zarr.json");
        let before = store.tree();
        let healed = cube(&store).heal(false).await.unwrap();
        assert_eq!(healed.ended.exit_code, 3, "{words}");
        let refused = healed
            .refusals
            .iter()
            .any(|finding| finding.message.contains(words));
        assert!(refused, "`{words}` is not in {:#?}", healed.refusals);
        assert_eq!(healed.healed, ["descending/r20m"], "{words}");
        let changed = differences(&before, &store.tree());
        assert_eq!(changed, ["new: descending/r20m/time/zarr.json"], "{words}");
        assert_eq!(
            cube(&store).check().await.unwrap().ended.exit_code,
            1,
            "{words}"
        );
    }
}

#[tokio::test]
async fn orbits_and_levels_are_known_by_what_they_hold() {
    let golden = Cubes::load().tree("missing_r20m_time");
    let renamed = golden.iter().map(|(key, bytes)| {
        let text = String::from_utf8_lossy(bytes);
        let bytes = match key.ends_with("zarr.json") {
            true => text.replace("\"r20m\"", "\"coarse\"").into_bytes(),
            false => bytes.clone(),
        };
        (
            key.replace("ascending", "track_30")
                .replace("r20m", "coarse"),
            bytes,
        )
    });
    let store = TestStore::of(&renamed.collect());
    let healed = cube(&store).heal(false).await.unwrap();
    assert_eq!(
        (healed.ended.exit_code, healed.healed),
        (0, vec!["track_30/coarse".to_owned()])
    );
    assert_eq!(
        store.read("track_30/coarse/time/c/0"),
        store.read("track_30/r10m/time/c/0")
    );
}

#[tokio::test]
async fn what_a_heal_leaves_alone_is_found_by_a_check() {
    let golden = Cubes::load().tree("consolidated");
    type Spoil = fn(&TestStore);
    let cases: [(&str, Spoil); 3] = [
        ("consolidated metadata of `ascending` disagrees", |store| {
            store.edit_json("ascending/r10m/vv/zarr.json", |vv| {
                vv["attributes"] = json!({})
            });
        }),
        ("`ascending/r20m/time` has other attributes", |store| {
            store.edit_json("ascending/r20m/time/zarr.json", |time| {
                time["attributes"] = json!({})
            });
        }),
        ("`ascending/r20m/time` has other values", |store| {
            store.remove("ascending/r20m/time/c/0")
        }),
    ];
    for (words, spoil) in cases {
        let store = TestStore::of(&golden);
        spoil(&store);
        let before = store.tree();
        let checked = cube(&store).check().await.unwrap();
        assert_eq!(checked.ended.exit_code, 1, "{words}");
        assert!(
            checked
                .findings
                .iter()
                .any(|finding| finding.message.contains(words)),
            "{words}"
        );
        let healed = cube(&store).heal(false).await.unwrap();
        assert_eq!(
            (healed.ended.exit_code, healed.ended.requests.put),
            (0, 0),
            "{words}"
        );
        assert_eq!(differences(&before, &store.tree()), [""; 0]);
    }
}

#[tokio::test]
async fn what_was_told_to_stop_writes_no_more() {
    let store = TestStore::of(&Cubes::load().tree("missing_two_levels"));
    let before = store.tree();
    let stopped = cube(&store);
    stopped.stop().stop();
    let healed = stopped.heal(false).await.unwrap();
    assert_eq!((healed.ended.exit_code, healed.healed), (130, Vec::new()));
    assert_eq!(differences(&before, &store.tree()), [""; 0]);
}

#[test]
fn exit_codes_tell_what_was_wrong_with_the_command() {
    let cube = |args: &[&str]| Zagg::new("cube").args(args).run();
    let store = TestStore::of(&Cubes::load().tree("healthy"));
    let (path, absent) = (store.root(), store.parent().join("absent"));
    let (path, absent) = (path.to_str().unwrap(), absent.to_str().unwrap());
    cube(&["check", path]).expect_code(0);
    cube(&["check", absent]).expect_code(3);
    cube(&["pull", absent, path]).expect_code(3);
    cube(&["pull", path, "s3://bucket/copy"]).expect_code(2);
    cube(&["pull", path]).expect_code(2);
    let plain = cube(&["pull", path, absent]).expect_code(0);
    assert!(
        plain.stdout.contains("left there: 47 objects"),
        "{}",
        plain.stdout
    );
    cube(&["push", absent, path]).expect_code(0);
    assert_eq!(bulk_keys(&store.tree()).len(), 47);
    let empty = TestStore::empty();
    let empty = empty.root();
    let nothing = cube(&["check", empty.to_str().unwrap(), "--json"]).expect_code(1);
    let first: Value = nothing.json()["findings"][0].clone();
    assert_eq!(first["rule"], "cube");
    cube(&["heal", empty.to_str().unwrap()]).expect_code(0);
}
