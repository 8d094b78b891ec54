//! Leaves that cannot be folded: each way is refused with the leaf, the array and what
//! to do, costs that leaf its column and no other, and is no fault of the program.

use crate::common::leaf::ChangedLeaf;
use crate::common::shard::{claims, compress};
use serde_json::json;
use zagg_stream::FaultKind;

type Change = fn(&mut ChangedLeaf);

/// Changes of a leaf of a case, each of which must be refused, and what the refusal
/// must say.
async fn refused(case: &str, array: &str, kind: FaultKind, changes: &[(&str, Change, &str)]) {
    for (what, change, says) in changes {
        let mut leaf = ChangedLeaf::of(case);
        change(&mut leaf);
        let failed = leaf.refused(what).await;
        assert_eq!(failed.kind, kind, "{what}: {}", failed.error);
        assert_eq!(
            failed.array.as_deref(),
            Some(array),
            "{what}: {}",
            failed.error
        );
        assert!(failed.error.contains(array), "{what}: {}", failed.error);
        assert!(failed.error.contains(says), "{what}: {}", failed.error);
    }
}

#[tokio::test]
async fn a_damaged_shard_is_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "zero bytes",
            |leaf| leaf.object("h_tdigest/c/0").clear(),
            "empty or cut short",
        ),
        (
            "cut to half",
            |leaf| {
                let object = leaf.object("h_tdigest/c/0");
                object.truncate(object.len() / 2);
            },
            "index does not decode",
        ),
        (
            "shorter than its index",
            |leaf| leaf.object("h_tdigest/c/0").truncate(20),
            "empty or cut short",
        ),
        (
            "a bad checksum",
            |leaf| *leaf.object("h_tdigest/c/0").last_mut().unwrap() ^= 1,
            "index does not decode",
        ),
        (
            "an index entry that ends past the object",
            |leaf| entries(leaf, |entries| entries[1].1 = 10_000),
            "the index puts cells 4..",
        ),
        (
            "an index entry whose end overflows",
            |leaf| entries(leaf, |entries| entries[1] = (u64::MAX - 1, 5)),
            "the index puts cells 4..",
        ),
        (
            "an index entry that is absent by half",
            |leaf| entries(leaf, |entries| entries[1].0 = u64::MAX),
            "the index puts cells 4..",
        ),
        (
            "an index entry of no bytes",
            |leaf| entries(leaf, |entries| entries[1].1 = 0),
            "the index puts cells 4..",
        ),
        (
            "an index entry that points into another chunk",
            |leaf| entries(leaf, |entries| entries[1].0 += 1),
            "cells 4..8 of",
        ),
    ];
    refused("plain", "h_tdigest", FaultKind::CorruptLeaf, changes).await;
}

fn entries(leaf: &mut ChangedLeaf, edit: impl FnOnce(&mut Vec<(u64, u64)>)) {
    let shard = leaf.shard("h_tdigest");
    assert!(shard.chunks[1].is_some());
    leaf.put_shard("h_tdigest", shard.with_entries(edit));
}

/// Changes the decoded bytes of the first chunk.
fn decoded(leaf: &mut ChangedLeaf, edit: impl FnOnce(&mut Vec<u8>)) {
    leaf.edit_chunk("h_tdigest", |chunk| {
        let mut decoded = zstd::decode_all(chunk.as_slice()).unwrap();
        edit(&mut decoded);
        *chunk = compress(&decoded);
    });
}

#[tokio::test]
async fn a_damaged_chunk_is_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "a cell length past the chunk",
            |leaf| decoded(leaf, |bytes| bytes[4..8].fill(0xff)),
            "claims 4294967295 bytes",
        ),
        (
            "a cell length one past the chunk",
            |leaf| decoded(leaf, |bytes| bytes.truncate(bytes.len() - 1)),
            "claims 8 bytes and the chunk has 7 left",
        ),
        (
            "another count of cells",
            |leaf| decoded(leaf, |bytes| bytes[0] = 5),
            "5 cells where 4 are due",
        ),
        (
            "a count that no memory holds",
            |leaf| decoded(leaf, |bytes| bytes[..4].fill(0xff)),
            "4294967295 cells where 4 are due",
        ),
        (
            "bytes after the last cell",
            |leaf| decoded(leaf, |bytes| bytes.push(0)),
            "follow",
        ),
        (
            "no decoded bytes",
            |leaf| decoded(leaf, Vec::clear),
            "cells 4..8 of",
        ),
        (
            "no frame at all",
            |leaf| leaf.edit_chunk("h_tdigest", |chunk| chunk.fill(7)),
            "cells 4..8 of",
        ),
        (
            "half a frame",
            |leaf| leaf.edit_chunk("h_tdigest", |chunk| chunk.truncate(chunk.len() / 2)),
            "cells 4..8 of",
        ),
        (
            "a frame that claims a tebibyte",
            |leaf| leaf.edit_chunk("h_tdigest", |chunk| *chunk = claims(1 << 40)),
            "claims 1099511627776 decoded",
        ),
        (
            "a frame that claims all there is",
            |leaf| leaf.edit_chunk("h_tdigest", |chunk| *chunk = claims(u64::MAX - 2)),
            "cells 4..8 of",
        ),
    ];
    refused("plain", "h_tdigest", FaultKind::CorruptLeaf, changes).await;
    let changes: &[(&str, Change, &str)] = &[
        (
            "a dense chunk that is short",
            |leaf| leaf.edit_chunk("count", |chunk| chunk.truncate(chunk.len() - 1)),
            "cells 4..8 of",
        ),
        (
            "a dense chunk that is long",
            |leaf| leaf.edit_chunk("count", |chunk| chunk.push(0)),
            "cells 4..8 of",
        ),
    ];
    refused("plain", "count", FaultKind::CorruptLeaf, changes).await;
}

/// Leaves the size out of the frames and the index of the codecs as it is: such frames
/// are read by another path.
fn unsized_frame(leaf: &mut ChangedLeaf, edit: impl FnOnce(&mut Vec<u8>)) {
    leaf.edit_chunk("h_tdigest", |chunk| {
        let mut decoded = zstd::decode_all(chunk.as_slice()).unwrap();
        edit(&mut decoded);
        *chunk = zstd::encode_all(decoded.as_slice(), 3).unwrap();
        assert!(matches!(
            zstd::zstd_safe::get_frame_content_size(chunk),
            Ok(None)
        ));
    });
}

#[tokio::test]
async fn a_damaged_chunk_in_a_frame_of_no_stated_size_is_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "a cell length past the chunk",
            |leaf| unsized_frame(leaf, |bytes| bytes[4..8].fill(0xff)),
            "claims 4294967295 bytes",
        ),
        (
            "another count of cells",
            |leaf| unsized_frame(leaf, |bytes| bytes[0] = 5),
            "cells where 4 are due",
        ),
        (
            "a chunk of three bytes",
            |leaf| unsized_frame(leaf, |bytes| bytes.truncate(3)),
            "cells 4..8 of",
        ),
    ];
    refused("plain", "h_tdigest", FaultKind::CorruptLeaf, changes).await;
}

#[tokio::test]
async fn a_damaged_chunk_that_is_not_compressed_is_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "a cell length past the chunk",
            |leaf| uncompressed(leaf, |bytes| bytes[4..8].fill(0xff)),
            "claims 4294967295 bytes",
        ),
        (
            "a chunk of no bytes",
            |leaf| uncompressed(leaf, |bytes| bytes.truncate(3)),
            "cells 4..8 of",
        ),
    ];
    refused("plain", "h_tdigest", FaultKind::CorruptLeaf, changes).await;
}

fn uncompressed(leaf: &mut ChangedLeaf, edit: impl FnOnce(&mut Vec<u8>)) {
    leaf.edit_metadata("h_tdigest", |metadata| {
        let codecs = &mut metadata["codecs"][0]["configuration"]["codecs"];
        codecs.as_array_mut().unwrap().truncate(1);
    });
    let mut shard = leaf.shard("h_tdigest");
    for chunk in shard.chunks.iter_mut().flatten() {
        *chunk = zstd::decode_all(chunk.as_slice()).unwrap();
    }
    edit(shard.chunks.iter_mut().flatten().next().unwrap());
    leaf.put_shard("h_tdigest", shard.to_bytes());
}

/// Replaces four bytes of the first digest that is not empty.
fn number(leaf: &mut ChangedLeaf, at: usize, value: f32) {
    leaf.edit_cell("h_tdigest", |cell| {
        cell[at..at + 4].copy_from_slice(&value.to_le_bytes());
    });
}

#[tokio::test]
async fn a_digest_that_breaks_its_law_is_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "half a row",
            |leaf| leaf.edit_cell("h_tdigest", |cell| cell.extend([0; 4])),
            "not a multiple of 8",
        ),
        (
            "a NaN mean",
            |leaf| number(leaf, 0, f32::NAN),
            "mean `NaN` of row `0`",
        ),
        (
            "an infinite mean",
            |leaf| number(leaf, 0, f32::INFINITY),
            "mean `inf`",
        ),
        (
            "a negative infinite mean",
            |leaf| number(leaf, 0, f32::NEG_INFINITY),
            "mean `-inf`",
        ),
        ("a zero weight", |leaf| number(leaf, 4, 0.0), "weight `0`"),
        (
            "a negative weight",
            |leaf| number(leaf, 4, -1.0),
            "weight `-1`",
        ),
        (
            "a NaN weight",
            |leaf| number(leaf, 4, f32::NAN),
            "weight `NaN`",
        ),
        (
            "an infinite weight",
            |leaf| number(leaf, 4, f32::INFINITY),
            "weight `inf`",
        ),
    ];
    for (what, change, says) in changes {
        let mut leaf = ChangedLeaf::of("plain");
        change(&mut leaf);
        let failed = leaf.refused(what).await;
        assert_eq!(failed.kind, FaultKind::CorruptLeaf);
        assert_eq!(
            failed.array.as_deref(),
            Some("h_tdigest"),
            "{what}: {}",
            failed.error
        );
        assert!(failed.error.contains("h_tdigest"), "{}", failed.error);
        assert!(failed.error.contains(says), "{what}: {}", failed.error);
    }
}

#[tokio::test]
async fn companion_words_that_do_not_fit_their_digest_are_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "a location of 0",
            |leaf| leaf.edit_cell("h_tdigest_locations", |cell| cell[..8].fill(0)),
            "locations",
        ),
        (
            "a time of 0",
            |leaf| leaf.edit_cell("h_tdigest_times", |cell| cell[..8].fill(0)),
            "times",
        ),
        (
            "a location too few",
            |leaf| leaf.edit_cell("h_tdigest_locations", |cell| cell.truncate(cell.len() - 8)),
            "locations",
        ),
        (
            "a time too many",
            |leaf| leaf.edit_cell("h_tdigest_times", |cell| cell.extend_from_within(..8)),
            "times",
        ),
        (
            "half a time",
            |leaf| leaf.edit_cell("h_tdigest_times", |cell| cell.truncate(4)),
            "times",
        ),
        (
            "no location of any digest",
            |leaf| leaf.remove("h_tdigest_locations/c/0"),
            "locations",
        ),
    ];
    refused("temporal", "h_tdigest", FaultKind::CorruptLeaf, changes).await;
}

#[tokio::test]
async fn a_companion_that_is_not_as_declared_is_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "no locations",
            |leaf| leaf.remove("h_tdigest_locations/"),
            "predate the declaration",
        ),
        (
            "no times",
            |leaf| leaf.remove("h_tdigest_times/"),
            "predate the declaration",
        ),
        (
            "locations that are not bound",
            |leaf| {
                leaf.edit_metadata("h_tdigest", |metadata| {
                    let ragged = metadata["attributes"]["ragged"].as_object_mut().unwrap();
                    ragged.remove("locations");
                });
            },
            "binds none",
        ),
        (
            "other times bound",
            |leaf| {
                leaf.edit_metadata("h_tdigest", |metadata| {
                    metadata["attributes"]["times"] = json!("elsewhere");
                });
            },
            "elsewhere",
        ),
    ];
    refused("temporal", "h_tdigest", FaultKind::Declaration, changes).await;
    let unsaid: &[(&str, Change, &str)] = &[(
        "locations that do not say so",
        |leaf| {
            leaf.edit_metadata("h_tdigest_locations", |metadata| {
                metadata["attributes"]
                    .as_object_mut()
                    .unwrap()
                    .remove("located");
            });
        },
        "located",
    )];
    refused(
        "temporal",
        "h_tdigest_locations",
        FaultKind::Declaration,
        unsaid,
    )
    .await;
    let undeclared: &[(&str, Change, &str)] = &[(
        "locations that nobody declared",
        |leaf| {
            leaf.edit_metadata("h_tdigest", |metadata| {
                metadata["attributes"]["ragged"]["locations"] = json!("h_tdigest_locations");
            });
        },
        "h_tdigest_locations",
    )];
    refused("plain", "h_tdigest", FaultKind::Declaration, undeclared).await;
}

#[tokio::test]
async fn weights_that_differ_from_the_declared_are_refused() {
    let changes: &[(&str, Change, &str)] = &[
        (
            "weights absent",
            |leaf| {
                leaf.edit_metadata("rx_flux", |metadata| {
                    metadata["attributes"]
                        .as_object_mut()
                        .unwrap()
                        .remove("weights");
                });
            },
            "manifest declares \"flux\"",
        ),
        (
            "another gain",
            |leaf| {
                leaf.edit_metadata("rx_flux", |metadata| {
                    metadata["attributes"]["gain"]["version"] = json!("4");
                });
            },
            "\"version\":\"4\"",
        ),
    ];
    refused("flux", "rx_flux", FaultKind::Declaration, changes).await;
    let changes: &[(&str, Change, &str)] = &[(
        "weights present",
        |leaf| {
            leaf.edit_metadata("h_tdigest", |metadata| {
                metadata["attributes"]["weights"] = json!("flux");
            });
        },
        "weights \"flux\"",
    )];
    refused("plain", "h_tdigest", FaultKind::Declaration, changes).await;
}
