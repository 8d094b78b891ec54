//! What a push deletes of coordinates, and what it keeps because readers need it.

use super::pair::{Pair, cube};
use crate::common::stores::TestStore;
use serde_json::Value;

fn remove_below(store: &TestStore, path: &str) {
    let below = |key: &String| key.starts_with(&format!("{path}/"));
    let keys: Vec<String> = store.tree().into_keys().filter(below).collect();
    assert!(!keys.is_empty(), "there is nothing below {path}");
    keys.iter().for_each(|key| store.remove(key));
}

#[tokio::test]
async fn the_time_of_a_level_with_slices_is_not_deleted() {
    let cures = [
        ("ascending/r20m", "cube heal"),
        ("ascending/r10m", "restore it"),
    ];
    for (level, cure) in cures {
        let pair = Pair::golden("healthy").await;
        let time = format!("{level}/time");
        remove_below(&pair.local, &time);
        pair.assert_refused(&[&format!("level `{level}`"), &time, cure])
            .await;
    }
    let pair = Pair::golden("healthy").await;
    pair.local.remove("ascending/r20m/time/c/0");
    pair.assert_refused(&["ascending/r20m/time/c/0", "cube heal"])
        .await;
}

#[tokio::test]
async fn a_healed_time_is_pushed_in_place_of_the_one_that_was_deleted() {
    let pair = Pair::golden("healthy").await;
    remove_below(&pair.local, "ascending/r20m/time");
    let healed = cube(&pair.local).heal(false).await.unwrap();
    assert_eq!(healed.healed, ["ascending/r20m"]);
    assert_eq!(pair.push().await.deleted, [""; 0]);
}

#[tokio::test]
async fn a_coordinate_is_not_deleted_while_a_block_names_it() {
    let pair = Pair::golden("consolidated").await;
    let platform = "ascending/r10m/platform";
    remove_below(&pair.local, platform);
    pair.assert_refused(&[
        "`ascending/r10m/platform/zarr.json`",
        "`ascending/zarr.json`",
        "zarr.consolidate_metadata",
    ])
    .await;
    for key in ["zarr.json", "ascending/zarr.json"] {
        pair.local.edit_json(key, |group| {
            let members: &mut serde_json::Map<String, Value> = group.as_object_mut().unwrap();
            members.remove("consolidated_metadata").unwrap();
        });
    }
    let pushed = pair.push().await;
    assert_eq!(pushed.deleted.len(), 2);
    assert!(!pair.remote.has("ascending/r10m/platform/zarr.json"));
    assert_eq!(cube(&pair.remote).check().await.unwrap().ended.exit_code, 0);
}
