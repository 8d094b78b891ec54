//! The metadata of a leaf's arrays: what the format leaves a writer free to do is read
//! and gives the same column; what this program cannot read is refused by name.

use crate::common::leaf::{ChangedLeaf, PER_CHUNK};
use crate::common::shard::{Shard, compress, ragged_chunk};
use serde_json::{Value, json};
use zagg_stream::{Ending, FaultKind};

const DIGEST: &str = "h_tdigest";
const CELLS: usize = 16;

/// Stores an array without shards, in chunks of `cells` cells. `chunk` encodes one, or
/// leaves it out.
fn unshard(
    leaf: &mut ChangedLeaf,
    array: &str,
    cells: usize,
    chunk: impl Fn(&mut ChangedLeaf, usize) -> Option<Vec<u8>>,
) {
    let chunks: Vec<_> = (0..CELLS / cells).map(|nth| chunk(leaf, nth)).collect();
    leaf.edit_metadata(array, |metadata| {
        metadata["chunk_grid"]["configuration"]["chunk_shape"] = json!([cells]);
        metadata["codecs"] = metadata["codecs"][0]["configuration"]["codecs"].take();
    });
    leaf.remove(&format!("{array}/c/"));
    for (nth, chunk) in chunks.into_iter().enumerate() {
        if let Some(chunk) = chunk {
            *leaf.object(&format!("{array}/c/{nth}")) = chunk;
        }
    }
}

#[tokio::test]
async fn arrays_without_shards_give_the_same_column() {
    for cells in [CELLS, 8, PER_CHUNK, 2, 1] {
        let mut leaf = ChangedLeaf::of("plain");
        unshard(&mut leaf, DIGEST, cells, |leaf, nth| {
            let all = leaf.shard(DIGEST).ragged(PER_CHUNK);
            let cells = &all[nth * cells..(nth + 1) * cells];
            let written = cells.iter().any(|cell| !cell.is_empty());
            written.then(|| compress(&ragged_chunk(cells)))
        });
        unshard(&mut leaf, "count", cells, |leaf, nth| {
            let all = leaf.shard("count").dense(PER_CHUNK, &[0; 4]);
            let bytes = &all[nth * cells * 4..(nth + 1) * cells * 4];
            bytes.iter().any(|byte| *byte != 0).then(|| bytes.to_vec())
        });
        leaf.same(&format!("chunks of {cells}")).await;
    }
}

#[tokio::test]
async fn the_sizes_of_objects_without_an_index_are_asked_for_once_and_count() {
    let mut leaf = ChangedLeaf::of("plain");
    let (sharded, _) = leaf.run().await;
    // As it lies in the shard, but for what the frames of several chunks share.
    unshard(&mut leaf, DIGEST, CELLS, |leaf, _| {
        let all = leaf.shard(DIGEST).ragged(PER_CHUNK);
        let frame = compress(&ragged_chunk(&all));
        // What is skipped takes no memory but its own.
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 0, 0, 4, 0][..], &[0; 4 << 16]].concat();
        Some([frame, skipped].concat())
    });
    let (unsharded, _) = leaf.run().await;
    assert_eq!(unsharded.requests.list, sharded.requests.list + 1);
    let (before, after) = (sharded.peak_in_flight_bytes, unsharded.peak_in_flight_bytes);
    assert!(after > 4 << 16 && before < 4 << 16, "{before}, {after}");
}

#[tokio::test]
async fn several_shards_give_the_same_column() {
    let mut leaf = ChangedLeaf::of("plain");
    for array in [DIGEST, "count"] {
        let shard = leaf.shard(array);
        leaf.edit_metadata(array, |metadata| {
            metadata["chunk_grid"]["configuration"]["chunk_shape"] = json!([8]);
        });
        leaf.remove(&format!("{array}/c/"));
        for (nth, chunks) in shard.chunks.chunks(2).enumerate() {
            let chunks = chunks.to_vec();
            if chunks.iter().any(Option::is_some) {
                *leaf.object(&format!("{array}/c/{nth}")) = Shard { chunks }.to_bytes();
            }
        }
    }
    leaf.same("shards of 8").await;
}

#[tokio::test]
async fn an_index_at_the_start_gives_the_same_column() {
    let mut leaf = ChangedLeaf::of("plain");
    for array in [DIGEST, "count"] {
        let shard = leaf.shard(array);
        leaf.edit_metadata(array, |metadata| {
            metadata["codecs"][0]["configuration"]["index_location"] = json!("start");
        });
        leaf.put_shard(array, shard.to_bytes_index_first());
    }
    leaf.same("index at the start").await;
}

#[tokio::test]
async fn a_shard_of_no_bytes_with_its_index_at_the_start_is_refused() {
    let mut leaf = ChangedLeaf::of("plain");
    leaf.edit_metadata(DIGEST, |metadata| {
        metadata["codecs"][0]["configuration"]["index_location"] = json!("start");
    });
    leaf.object("h_tdigest/c/0").clear();
    let failed = leaf.refused("empty").await;
    assert_eq!(failed.kind, FaultKind::CorruptLeaf, "{}", failed.error);
    assert_eq!(failed.array.as_deref(), Some(DIGEST));
}

#[tokio::test]
async fn big_endian_numbers_are_read_right() {
    let mut leaf = ChangedLeaf::of("plain");
    leaf.edit_metadata("count", |metadata| {
        let codecs = &mut metadata["codecs"][0]["configuration"]["codecs"];
        codecs[0]["configuration"]["endian"] = json!("big");
    });
    let mut shard = leaf.shard("count");
    for chunk in shard.chunks.iter_mut().flatten() {
        chunk.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
    leaf.put_shard("count", shard.to_bytes());
    leaf.same("big-endian").await;
}

#[tokio::test]
async fn other_codecs_of_a_digest_give_the_same_column() {
    let mut leaf = ChangedLeaf::of("plain");
    leaf.edit_metadata(DIGEST, |metadata| metadata["data_type"] = json!("bytes"));
    leaf.same("the data type `bytes`").await;

    let mut leaf = ChangedLeaf::of("plain");
    recode(&mut leaf, &json!([{"name": "vlen-bytes"}]), <[u8]>::to_vec);
    leaf.same("not compressed").await;

    let mut leaf = ChangedLeaf::of("plain");
    let zstd = json!({"name": "zstd", "configuration": {"level": 19, "checksum": true}});
    let codecs = json!([{"name": "vlen-bytes"}, zstd]);
    recode(&mut leaf, &codecs, |bytes| {
        let chunk = zstd::encode_all(bytes, 19).unwrap();
        assert!(matches!(
            zstd::zstd_safe::get_frame_content_size(&chunk),
            Ok(None)
        ));
        chunk
    });
    leaf.same("a frame of no stated size").await;

    let mut leaf = ChangedLeaf::of("plain");
    recode(
        &mut leaf,
        &json!([{"name": "vlen-bytes"}, zstd, zstd]),
        |bytes| compress(&compress(bytes)),
    );
    leaf.same("compressed twice").await;
}

/// Stores the inner chunks of the digest under other codecs.
fn recode(leaf: &mut ChangedLeaf, codecs: &Value, encode: fn(&[u8]) -> Vec<u8>) {
    let mut shard = leaf.shard(DIGEST);
    for chunk in shard.chunks.iter_mut().flatten() {
        *chunk = encode(&zstd::decode_all(chunk.as_slice()).unwrap());
    }
    leaf.edit_metadata(DIGEST, |metadata| {
        metadata["codecs"][0]["configuration"]["codecs"] = codecs.clone();
    });
    leaf.put_shard(DIGEST, shard.to_bytes());
}

#[tokio::test]
async fn a_leaf_without_its_words_is_read_by_its_id() {
    let mut leaf = ChangedLeaf::of("plain");
    leaf.remove("morton/");
    leaf.same("no morton array").await;
}

#[tokio::test]
async fn a_declared_array_that_is_absent_folds_as_fill() {
    let mut leaf = ChangedLeaf::of("plain");
    leaf.remove("count/");
    let (report, after) = leaf.run().await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    let (column, golden) = (leaf.column(), leaf.golden());
    for group in [4, 5] {
        let count = format!("{column}/{group}/count");
        assert!(golden.contains_key(&format!("{count}/c/0")));
        assert!(!after.contains_key(&format!("{count}/c/0")), "all fill");
        let document = format!("{count}/zarr.json");
        assert_eq!(after[&document], golden[&document]);
        let digest = format!("{column}/{group}/h_tdigest/c/0");
        assert_eq!(after[&digest], golden[&digest]);
    }
    let root: Value = serde_json::from_slice(&after[&format!("{column}/zarr.json")]).unwrap();
    assert!(root["attributes"]["morton_hive_commit"].is_object());
}

#[tokio::test]
async fn a_leaf_without_any_array_is_refused() {
    let mut leaf = ChangedLeaf::of("plain");
    for array in ["morton/", "count/", "h_tdigest/"] {
        leaf.remove(array);
    }
    let failed = leaf.refused("no arrays").await;
    assert_eq!(failed.kind, FaultKind::CorruptLeaf);
    assert!(
        failed.error.contains("neither `morton`"),
        "{}",
        failed.error
    );

    let mut leaf = ChangedLeaf::of("plain");
    leaf.remove("");
    let failed = leaf.refused("no group").await;
    assert_eq!(failed.kind, FaultKind::CorruptLeaf);
    assert!(failed.error.contains("no group `6`"), "{}", failed.error);
}

type Change = fn(&mut Value);

#[tokio::test]
async fn metadata_that_cannot_be_followed_is_refused_by_array() {
    use FaultKind::{CorruptLeaf, Declaration};
    let changes: &[(&str, FaultKind, Change, &str)] = &[
        (
            "morton",
            CorruptLeaf,
            |m| m["shape"] = json!([64]),
            "[64] where one of 16",
        ),
        (
            "count",
            CorruptLeaf,
            |m| m["shape"] = json!([4, 4]),
            "[4, 4]",
        ),
        (
            "count",
            Declaration,
            |m| m["data_type"] = json!("int64"),
            "int64",
        ),
        (
            "count",
            CorruptLeaf,
            |m| m["data_type"] = json!("complex64"),
            "complex64",
        ),
        (
            "count",
            CorruptLeaf,
            |m| m["data_type"] = json!("no such"),
            "no such",
        ),
        (
            "count",
            Declaration,
            |m| {
                m["data_type"] = json!("variable_length_bytes");
                m["fill_value"] = json!("");
                let codecs = &mut m["codecs"][0]["configuration"]["codecs"];
                *codecs = json!([{"name": "vlen-bytes"}]);
            },
            "variable_length_bytes",
        ),
        (
            DIGEST,
            Declaration,
            |m| m["attributes"]["ragged"]["element"]["dtype"] = json!("float64"),
            "float64",
        ),
        (
            DIGEST,
            Declaration,
            |m| m["attributes"]["ragged"]["element"]["shape"] = json!([-1, 3]),
            "[-1,3]",
        ),
        (
            DIGEST,
            CorruptLeaf,
            |m| m["attributes"]["ragged"]["spec"] = json!("zagg-ragged/2"),
            "zagg-ragged/2",
        ),
        (
            DIGEST,
            CorruptLeaf,
            |m| drop(m["attributes"].as_object_mut().unwrap().remove("ragged")),
            "ragged specification null",
        ),
        (
            DIGEST,
            CorruptLeaf,
            |m| m["codecs"][0]["configuration"]["codecs"][1]["name"] = json!("brotli"),
            "brotli",
        ),
        (
            DIGEST,
            CorruptLeaf,
            |m| m["codecs"][0]["configuration"]["chunk_shape"] = json!([3]),
            "3",
        ),
        (
            DIGEST,
            CorruptLeaf,
            |m| m["codecs"][0]["configuration"]["chunk_shape"] = json!([0]),
            "layout",
        ),
        (
            DIGEST,
            CorruptLeaf,
            |m| {
                let zstd =
                    json!({"name": "zstd", "configuration": {"level": 3, "checksum": false}});
                m["codecs"].as_array_mut().unwrap().push(zstd);
            },
            "around `sharding_indexed`",
        ),
        (
            "count",
            CorruptLeaf,
            |m| m["zarr_format"] = json!(2),
            "not a Zarr v3 document",
        ),
        (
            "count",
            CorruptLeaf,
            |m| m["node_type"] = json!("group"),
            "not a Zarr v3 document",
        ),
    ];
    for (array, kind, change, says) in changes {
        let mut leaf = ChangedLeaf::of("plain");
        leaf.edit_metadata(array, change);
        let failed = leaf.refused(says).await;
        assert_eq!(failed.kind, *kind, "{}", failed.error);
        assert_eq!(failed.array.as_deref(), Some(*array), "{}", failed.error);
        assert!(failed.error.contains(says), "{says}: {}", failed.error);
    }
}

#[tokio::test]
async fn metadata_that_is_not_json_is_refused_by_array() {
    for array in ["morton", "count", DIGEST] {
        for bytes in ["", "{", "[]", "null"] {
            let mut leaf = ChangedLeaf::of("plain");
            *leaf.object(&format!("{array}/zarr.json")) = bytes.into();
            let failed = leaf.refused(bytes).await;
            assert_eq!(failed.kind, FaultKind::CorruptLeaf, "{}", failed.error);
            assert_eq!(failed.array.as_deref(), Some(array), "{}", failed.error);
        }
    }
}

#[tokio::test]
async fn an_array_of_zarr_v2_is_refused_by_array() {
    for array in ["morton", "count", DIGEST] {
        let mut leaf = ChangedLeaf::of("plain");
        leaf.remove(&format!("{array}/"));
        *leaf.object(&format!("{array}/.zarray")) = b"{\"zarr_format\": 2}".into();
        let failed = leaf.refused(array).await;
        assert_eq!(failed.kind, FaultKind::CorruptLeaf, "{}", failed.error);
        assert_eq!(failed.array.as_deref(), Some(array), "{}", failed.error);
        assert!(failed.error.contains("v2"), "{}", failed.error);
    }
    let mut leaf = ChangedLeaf::of("plain");
    leaf.remove("");
    *leaf.object(".zgroup") = b"{\"zarr_format\": 2}".into();
    let failed = leaf.refused("a group of v2").await;
    assert!(failed.error.contains(".zgroup"), "{}", failed.error);
}

#[tokio::test]
async fn an_unknown_member_that_must_be_understood_is_refused() {
    for (member, refused) in [
        (json!({"must_understand": true}), true),
        (json!("x"), true),
        (json!({"must_understand": false}), false),
    ] {
        let mut leaf = ChangedLeaf::of("plain");
        leaf.edit_metadata("count", |document| document["novel"] = member.clone());
        if refused {
            let failed = leaf.refused("an unknown member").await;
            assert!(failed.error.contains("`novel`"), "{}", failed.error);
        } else {
            leaf.same("a member to be passed over").await;
        }
    }
}
