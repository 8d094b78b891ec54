//! What is planted into an upgraded store is found by `verify`, by the right check, at the
//! right artifact and nowhere else.

use std::collections::BTreeSet;

use crate::common::cases::{Case, Law};
use crate::common::library::{LEASE, in_memory, settings};
use crate::common::stores::Tree;
use crate::common::times::iso_ago;
use crate::common::verified::{
    ARTIFACTS, LEAF_COLUMN, OVERVIEW, STAGE_COLUMN, at, copy_below, edit_json, found, plain_store,
    remove_below, verify,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zagg_stream::{Check, Finding, Root, Verify};

/// The path of the artifact that an object belongs to.
fn artifact_of(key: &str) -> String {
    let end = key.find(".zarr/").unwrap() + ".zarr".len();
    key[..end].to_owned()
}

/// Flips one bit in the middle of every chunk of every artifact, one at a time.
async fn flip_every_chunk(name: &str, law: Law) {
    let case = Case::load(name);
    let (upgraded, declared) = (case.upgraded_tree(law), case.declared(law));
    let is_chunk = |key: &&String| !declared.contains_key(*key) && key.contains("/c/");
    let chunks: Vec<&String> = upgraded.keys().filter(is_chunk).collect();
    assert!(chunks.len() > 20, "{name} has {} chunks", chunks.len());
    for key in chunks {
        let mut tree = upgraded.clone();
        let bytes = tree.get_mut(key).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let found = found(&verify(&tree, law).await);
        let at: BTreeSet<String> = found.iter().map(|(_, path)| path.clone()).collect();
        assert_eq!(at, BTreeSet::from([artifact_of(key)]), "{key}: {found:?}");
        let by_content = [Check::Chunk, Check::ContentHash];
        assert!(
            found.iter().any(|(check, _)| by_content.contains(check)),
            "{key}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_flipped_bit_in_any_chunk_is_found() {
    flip_every_chunk("plain", Law::Boundary).await;
}

#[tokio::test]
async fn a_flipped_bit_is_found_by_the_sidecar_where_stamps_have_no_hashes() {
    flip_every_chunk("plain", Law::Raw).await;
}

#[tokio::test]
async fn a_flipped_bit_in_a_windowed_store_is_found() {
    flip_every_chunk("windowed_all", Law::Boundary).await;
}

#[tokio::test]
async fn a_chunk_that_is_gone_is_found() {
    for (artifact, group) in ARTIFACTS.iter().zip([5, 4, 3]) {
        let mut tree = plain_store();
        remove_below(&mut tree, &format!("{artifact}/{group}/h_tdigest/c/0"));
        let found = found(&verify(&tree, Law::Boundary).await);
        assert!(
            found.contains(&at(Check::ContentHash, artifact)),
            "{found:?}"
        );
        assert!(found.iter().all(|(_, path)| path == artifact), "{found:?}");
    }
}

#[tokio::test]
async fn a_deleted_group_is_found() {
    for (artifact, group) in ARTIFACTS.iter().zip([5, 4, 3]) {
        let mut tree = plain_store();
        remove_below(&mut tree, &format!("{artifact}/{group}/"));
        let verification = verify(&tree, Law::Boundary).await;
        assert_eq!(
            found(&verification),
            BTreeSet::from([at(Check::StructureDrift, artifact)])
        );
        let finding = &verification.findings[0];
        assert_eq!(finding.key, Some(format!("{artifact}/{group}")));
        assert!(finding.message.contains("zagg-stream"), "{finding:?}");
    }
}

#[tokio::test]
async fn another_metadata_document_is_found() {
    for (artifact, group) in ARTIFACTS.iter().zip([5, 4, 3]) {
        for below in ["zarr.json", "count/zarr.json", "morton/zarr.json"] {
            let mut tree = plain_store();
            let key = format!("{artifact}/{group}/{below}");
            edit_json(&mut tree, &key, |document| {
                document["attributes"]["mine"] = json!(1);
            });
            let verification = verify(&tree, Law::Boundary).await;
            assert_eq!(
                found(&verification),
                BTreeSet::from([at(Check::StructureDrift, artifact)])
            );
            assert_eq!(verification.findings[0].key, Some(key));
        }
    }
}

#[tokio::test]
async fn a_column_older_than_its_leaf_is_found() {
    let mut tree = plain_store();
    edit_json(&mut tree, "1/1/2/1/3/11213.zarr/zarr.json", |root| {
        root["attributes"]["morton_hive_commit"]["written_at"] = json!("2098-01-01T00:00:00Z");
    });
    let verification = verify(&tree, Law::Boundary).await;
    assert_eq!(
        found(&verification),
        BTreeSet::from([at(Check::Stale, LEAF_COLUMN)])
    );
    let finding = &verification.findings[0];
    assert_eq!(finding.leaf.as_deref(), Some("1/1/2/1/3/11213.zarr"));
    assert_eq!(finding.expected, Some(json!("2098-01-01T00:00:00Z")));
    assert!(
        finding.message.contains("--shards=11213 --force"),
        "{finding:?}"
    );
    assert!(verification.unjudged > 0);
}

#[tokio::test]
async fn what_was_made_from_a_column_that_is_another_now_is_found() {
    let mut tree = plain_store();
    edit_json(&mut tree, &format!("{LEAF_COLUMN}/zarr.json"), |root| {
        root["attributes"]["morton_hive_commit"]["written_at"] = json!("2098-01-01T00:00:00Z");
    });
    // What stands further up stands on a column that is itself due.
    assert_eq!(
        found(&verify(&tree, Law::Boundary).await),
        BTreeSet::from([
            at(Check::Stale, STAGE_COLUMN),
            at(Check::Stale, "1/1/2/1/all.zarr"),
        ])
    );
    let mut tree = plain_store();
    edit_json(&mut tree, &format!("{OVERVIEW}/zarr.json"), |root| {
        root["attributes"]["zagg_overview"]["source_children"]["folded"] = json!(1);
    });
    assert_eq!(
        found(&verify(&tree, Law::Boundary).await),
        BTreeSet::from([at(Check::Stale, OVERVIEW)])
    );
}

#[tokio::test]
async fn a_wrong_hash_in_a_stamp_is_found() {
    for (artifact, array) in ARTIFACTS.iter().zip(["5/count", "4/count", "3/count"]) {
        for pointer in [
            format!("arrays/{}", array.replace('/', "~1")),
            "combined".to_owned(),
        ] {
            let mut tree = plain_store();
            edit_json(&mut tree, &format!("{artifact}/zarr.json"), |root| {
                let pointer = format!("/attributes/morton_hive_commit/content_hashes/{pointer}");
                *root.pointer_mut(&pointer).unwrap() = json!("0".repeat(64));
            });
            assert_eq!(
                found(&verify(&tree, Law::Boundary).await),
                BTreeSet::from([
                    at(Check::ContentHash, artifact),
                    at(Check::Sidecar, artifact)
                ])
            );
        }
        let mut tree = plain_store();
        edit_json(&mut tree, &format!("{artifact}/zarr.json"), |root| {
            let stamp = &mut root["attributes"]["morton_hive_commit"];
            stamp.as_object_mut().unwrap().remove("content_hashes");
        });
        assert_eq!(
            found(&verify(&tree, Law::Boundary).await),
            BTreeSet::from([at(Check::ContentHash, artifact)])
        );
    }
    let mut tree = plain_store();
    edit_json(&mut tree, &format!("{OVERVIEW}/zarr.json"), |root| {
        root["attributes"]["zagg_overview"]["content_hash"] = json!("0".repeat(64));
    });
    assert_eq!(
        found(&verify(&tree, Law::Boundary).await),
        BTreeSet::from([at(Check::OverviewHash, OVERVIEW)])
    );
}

#[tokio::test]
async fn another_count_in_a_stamp_is_found() {
    for artifact in ARTIFACTS {
        for member in ["granule_count", "cells_with_data"] {
            let check = match (artifact, member) {
                (LEAF_COLUMN, "granule_count") => Check::GranuleDrift,
                _ => Check::Stamp,
            };
            let mut tree = plain_store();
            edit_json(&mut tree, &format!("{artifact}/zarr.json"), |root| {
                let count = &mut root["attributes"]["morton_hive_commit"][member];
                *count = json!(count.as_u64().unwrap() + 1);
            });
            let found = found(&verify(&tree, Law::Boundary).await);
            assert!(found.contains(&at(check, artifact)), "{found:?}");
            assert!(found.iter().all(|(_, path)| path == artifact), "{found:?}");
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Makes stamp and sidecar of an artifact agree with an array that was changed.
fn forge(tree: &mut Tree, artifact: &str, array: &str, hash: &str) {
    let edit = |hashes: &mut Value| {
        hashes["arrays"][array] = json!(hash);
        let arrays = hashes["arrays"].as_object().unwrap().values();
        let mut digests: Vec<&str> = arrays.map(|digest| digest.as_str().unwrap()).collect();
        digests.sort_unstable();
        hashes["combined"] = json!(sha256(digests.join("\n").as_bytes()));
    };
    edit_json(tree, &format!("{artifact}/zarr.json"), |root| {
        edit(&mut root["attributes"]["morton_hive_commit"]["content_hashes"]);
    });
    let stem = artifact.strip_suffix(".zarr").unwrap();
    edit_json(tree, &format!("{stem}.stats.json"), |sidecar| {
        edit(&mut sidecar["content_hashes"]);
    });
}

#[tokio::test]
async fn a_count_off_by_one_is_found_although_every_hash_agrees() {
    for (artifact, group) in ARTIFACTS.iter().zip([4, 4, 3]) {
        let mut tree = plain_store();
        let array = format!("{group}/count");
        let bytes = tree.get_mut(&format!("{artifact}/{array}/c/0")).unwrap();
        let counts = bytes.chunks_exact_mut(4);
        let count = counts.into_iter().find(|count| **count != [0; 4]).unwrap();
        let more = i32::from_le_bytes((&*count).try_into().unwrap()) + 1;
        count.copy_from_slice(&more.to_le_bytes());
        let hash = sha256(bytes);
        forge(&mut tree, artifact, &array, &hash);
        let verification = verify(&tree, Law::Boundary).await;
        let found = found(&verification);
        assert!(
            found.contains(&at(Check::Conservation, artifact)),
            "{found:?}"
        );
        assert!(found.contains(&at(Check::Refold, artifact)), "{found:?}");
        assert!(found.iter().all(|(_, path)| path == artifact), "{found:?}");
        let kept = verification
            .findings
            .iter()
            .find(|finding| finding.check == Check::Conservation)
            .unwrap();
        assert_eq!(kept.array, Some(array));
        let number = |value: &Option<Value>| value.as_ref().unwrap().as_u64().unwrap();
        assert_eq!(number(&kept.got), number(&kept.expected) + 1);
    }
}

/// Doubles the mean (0) or the weight (4) of the first centroid of an array of digests,
/// and makes every hash agree with it.
fn forge_centroid(tree: &mut Tree, artifact: &str, array: &str, offset: usize) {
    let object = tree.get_mut(&format!("{artifact}/{array}/c/0")).unwrap();
    let mut bytes = zstd::decode_all(object.as_slice()).unwrap();
    let (mut at_byte, mut values, mut is_changed) = (4, Vec::new(), false);
    while at_byte < bytes.len() {
        let size: [u8; 4] = bytes[at_byte..at_byte + 4].try_into().unwrap();
        let size = u32::from_le_bytes(size) as usize;
        let cell = &mut bytes[at_byte + 4..at_byte + 4 + size];
        if !is_changed && size > 0 {
            let number = &mut cell[offset..offset + 4];
            let double = f32::from_le_bytes((&*number).try_into().unwrap()) * 2.0;
            number.copy_from_slice(&double.to_le_bytes());
            is_changed = true;
        }
        values.extend((size as u64).to_le_bytes());
        values.extend_from_slice(cell);
        at_byte += 4 + size;
    }
    assert!(is_changed);
    *object = zstd::bulk::compress(&bytes, 3).unwrap();
    forge(tree, artifact, array, &sha256(&values));
}

#[tokio::test]
async fn a_weight_that_is_too_large_is_found_although_every_hash_agrees() {
    for (artifact, group) in ARTIFACTS.iter().zip([4, 4, 3]) {
        let mut tree = plain_store();
        forge_centroid(&mut tree, artifact, &format!("{group}/h_tdigest"), 4);
        let verification = verify(&tree, Law::Boundary).await;
        let found = found(&verification);
        assert!(found.contains(&at(Check::Weights, artifact)), "{found:?}");
        assert!(found.contains(&at(Check::Refold, artifact)), "{found:?}");
        assert!(found.iter().all(|(_, path)| path == artifact), "{found:?}");
        let stated = |finding: &&Finding| finding.message.contains("float32");
        assert!(verification.findings.iter().any(|finding| stated(&finding)));
    }
}

#[tokio::test]
async fn a_group_coarser_than_the_boundary_is_folded_anew_without_its_leaf() {
    const COLUMN: &str = "1/1/1/all.pyramid.zarr";
    let upgraded = Case::load("deep_strata").upgraded_tree(Law::Boundary);
    let mut moved = upgraded.clone();
    forge_centroid(&mut moved, COLUMN, "2/h_tdigest_signal", 0);
    let mut packed = upgraded;
    let words = packed
        .get_mut(&format!("{COLUMN}/3/composition/c/0"))
        .unwrap();
    let share = words.iter_mut().find(|share| **share > 1).unwrap();
    *share -= 1;
    let hash = sha256(words);
    forge(&mut packed, COLUMN, "3/composition", &hash);
    for (tree, array) in [(moved, "2/h_tdigest_signal"), (packed, "3/composition")] {
        let root = Root::new(in_memory(&tree).await, "memory://verified");
        let verify = Verify::new(root).settings(settings("")).sample(0);
        let verification = verify.run().await.unwrap();
        assert_eq!(
            found(&verification),
            BTreeSet::from([at(Check::Refold, COLUMN)])
        );
        assert_eq!(verification.findings[0].array.as_deref(), Some(array));
    }
}

#[tokio::test]
async fn an_artifact_of_another_node_is_found() {
    for (from, to) in [
        (LEAF_COLUMN, "1/1/2/1/4/all.pyramid.zarr"),
        (STAGE_COLUMN, "1/1/2/2/all.pyramid.zarr"),
        (OVERVIEW, "2/1/2/all.zarr"),
        // No column stands at this order.
        (STAGE_COLUMN, "1/1/all.pyramid.zarr"),
        (LEAF_COLUMN, "1/1/2/all.pyramid.zarr"),
        (OVERVIEW, "1/1/2/1/3/all.zarr"),
    ] {
        let mut tree = plain_store();
        copy_below(&mut tree, &format!("{from}/"), &format!("{to}/"));
        let verification = verify(&tree, Law::Boundary).await;
        assert_eq!(
            found(&verification),
            BTreeSet::from([at(Check::Foreign, to)]),
            "{from} at {to}"
        );
        let message = &verification.findings[0].message;
        assert!(message.contains("another node"), "{message}");
    }
}

#[tokio::test]
async fn an_artifact_without_a_place_is_found() {
    let mut tree = plain_store();
    copy_below(&mut tree, "1/1/2/all.zarr/", "1/1/2/2019.zarr/");
    assert_eq!(
        found(&verify(&tree, Law::Boundary).await),
        BTreeSet::from([at(Check::StrayArtifact, "1/1/2/2019.zarr")])
    );
}

#[tokio::test]
async fn an_object_without_a_place_is_found() {
    for artifact in ARTIFACTS {
        for below in ["9/zarr.json", "4/count/c/1", "4/other/zarr.json", "c/0"] {
            let mut tree = plain_store();
            let key = format!("{artifact}/{below}");
            tree.insert(key.clone(), b"{}".to_vec());
            let verification = verify(&tree, Law::Boundary).await;
            assert_eq!(
                found(&verification),
                BTreeSet::from([at(Check::StrayObject, artifact)])
            );
            assert_eq!(verification.findings[0].key, Some(key));
        }
    }
}

#[tokio::test]
async fn a_missing_rung_is_found() {
    for artifact in ARTIFACTS {
        for below in ["", "zarr.json"] {
            let mut tree = plain_store();
            remove_below(&mut tree, &format!("{artifact}/{below}"));
            let verification = verify(&tree, Law::Boundary).await;
            assert_eq!(
                found(&verification),
                BTreeSet::from([at(Check::Missing, artifact)])
            );
        }
    }
    let mut tree = Case::load("windowed_all").upgraded_tree(Law::Raw);
    remove_below(&mut tree, "1/1/all.zarr/");
    assert_eq!(
        found(&verify(&tree, Law::Raw).await),
        BTreeSet::from([at(Check::Missing, "1/1/all.zarr")])
    );
}

#[tokio::test]
async fn a_sidecar_that_says_something_else_is_found_and_an_absent_one_is_told() {
    for artifact in ARTIFACTS {
        let sidecar = format!("{}.stats.json", artifact.strip_suffix(".zarr").unwrap());
        let mut tree = plain_store();
        edit_json(&mut tree, &sidecar, |sidecar| {
            sidecar["n_granules"] = json!(99);
        });
        assert_eq!(
            found(&verify(&tree, Law::Boundary).await),
            BTreeSet::from([at(Check::Sidecar, artifact)])
        );
        tree.remove(&sidecar);
        let verification = verify(&tree, Law::Boundary).await;
        assert!(verification.is_clean());
        assert!(
            verification
                .warnings
                .iter()
                .any(|warning| warning.check == Check::Sidecar && warning.path == artifact)
        );
    }
}

#[tokio::test]
async fn what_is_left_of_the_earlier_pyramid_is_told() {
    let mut tree = plain_store();
    let root = json!({"attributes": {"role": "overview", "zagg_overview": {"spec": "zagg-overview/1", "node": "11"}}});
    let key = "1/1/1999.zarr/zarr.json".to_owned();
    tree.insert(key, serde_json::to_vec(&root).unwrap());
    let verification = verify(&tree, Law::Boundary).await;
    assert!(verification.is_clean());
    let warnings = verification.warnings.iter();
    let told: Vec<_> = warnings
        .filter(|warning| warning.check == Check::Retire)
        .map(|warning| warning.path.as_str())
        .collect();
    assert_eq!(told, ["1/1/1999.zarr"]);
}

#[tokio::test]
async fn a_leaf_that_is_not_committed_is_told_and_its_column_is_found() {
    let mut tree = plain_store();
    edit_json(&mut tree, "1/1/2/1/3/11213.zarr/zarr.json", |root| {
        root["attributes"] = json!({});
    });
    let verification = verify(&tree, Law::Boundary).await;
    assert_eq!(verification.uncommitted, 1);
    assert_eq!(
        found(&verification),
        BTreeSet::from([at(Check::StrayArtifact, LEAF_COLUMN)])
    );
    let uncommitted = |warning: &Finding| warning.check == Check::Uncommitted;
    assert!(verification.warnings.iter().any(uncommitted));
}

#[tokio::test]
async fn a_live_lease_is_told() {
    let mut tree = plain_store();
    let lease = json!({
        "spec": "zagg-sweep-lease/1",
        "run_id": "elsewhere",
        "scope": null,
        "acquired_at": iso_ago(60),
        "heartbeat_at": iso_ago(5),
        "ttl_s": 900,
    });
    tree.insert(LEASE.to_owned(), serde_json::to_vec(&lease).unwrap());
    let verification = verify(&tree, Law::Boundary).await;
    assert!(verification.is_clean());
    let told =
        |warning: &Finding| warning.check == Check::Lease && warning.message.contains("elsewhere");
    assert!(verification.warnings.iter().any(told));
}
