//! Objects that no array shows yet, as a push that was cut short leaves them, do not become
//! a part of what somebody else pushes.

use super::pair::{Pair, cube};
use crate::common::cubes::Cubes;
use crate::common::stores::{TestStore, Tree};
use zagg_stream::cube::Rule;

/// A slice of nothing but fill has no such object.
const MASK: &str = "descending/r10m/border_mask/c/0/0/0";

/// A cube of one orbit and a stray object of another, which the copy has whole.
async fn new_orbit(orphan: &str, full: bool) -> Pair {
    let tree = Cubes::load().tree("healthy");
    let mut before: Tree = tree.clone();
    before.retain(|key, _| !key.starts_with("descending/"));
    before.insert(orphan.to_owned(), b"an orphan".to_vec());
    let pair = Pair::of(&before, full).await;
    for (key, bytes) in &tree {
        if key.starts_with("descending/") {
            pair.local.write(key, bytes);
        }
    }
    pair
}

#[tokio::test]
async fn an_orphan_does_not_come_to_life_below_a_new_array() {
    for (orphan, full) in [
        (MASK, false),
        (MASK, true),
        ("descending/r10m/spatial_ref/c", false),
        ("descending/r10m/vv/c/1/0/0", false),
    ] {
        let pair = new_orbit(orphan, full).await;
        if pair.local.has(orphan) {
            pair.local.remove(orphan);
        }
        pair.assert_refused(&[orphan, "would appear", "delete that object by hand"])
            .await;
        pair.remote.remove(orphan);
        pair.push().await;
        assert!(!pair.remote.has(orphan));
    }
}

#[tokio::test]
async fn an_orphan_that_is_the_same_or_past_the_end_lets_a_push_pass() {
    let pair = new_orbit(MASK, false).await;
    pair.remote.write(MASK, pair.local.read(MASK));
    pair.push().await;
    let pair = new_orbit("descending/r10m/border_mask/c/9/0/0", false).await;
    pair.push().await;
}

#[tokio::test]
async fn an_orphan_of_a_new_array_is_written_over_only_when_told_to() {
    for orphan in [MASK, "descending/r10m/x/c/0"] {
        let pair = new_orbit(orphan, false).await;
        pair.assert_refused(&[orphan, "--replace-bulk"]).await;
        pair.remote.remove(orphan);
        pair.push().await;
        assert_eq!(pair.remote.read(orphan), pair.local.read(orphan));

        let pair = new_orbit(orphan, false).await;
        pair.replace_bulk().await.unwrap();
        assert_eq!(pair.remote.read(orphan), pair.local.read(orphan));
        assert_eq!(cube(&pair.remote).check().await.unwrap().ended.exit_code, 0);
    }
}

#[tokio::test]
async fn a_check_finds_objects_whose_array_has_no_document() {
    let mut tree = Cubes::load().tree("healthy");
    tree.retain(|key, _| !key.starts_with("descending/"));
    tree.insert(MASK.to_owned(), b"an orphan".to_vec());
    let store = TestStore::of(&tree);
    let checked = cube(&store).check().await.unwrap();
    assert_eq!(checked.ended.exit_code, 1);
    let found = checked
        .findings
        .iter()
        .find(|finding| finding.message.contains(MASK));
    assert_eq!(found.unwrap().rule, Rule::Orphan);
}
