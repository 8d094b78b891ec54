//! The cells of an array as a tree of objects holds them, by slow and obvious code.

use serde_json::Value;

use crate::common::shard::{Shard, ragged_cells};
use crate::common::stores::Tree;

/// An array, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Array {
    /// Its cells: the bytes of a number, or a payload.
    pub(crate) cells: Vec<Vec<u8>>,
    /// Cells of an object.
    pub(crate) per_object: usize,
    /// Whether its cells are payloads.
    pub(crate) is_ragged: bool,
}

impl Array {
    /// The array at a path, whose fill is zero or nothing.
    pub(crate) fn read(tree: &Tree, path: &str) -> Self {
        let metadata: Value = serde_json::from_slice(&tree[&format!("{path}/zarr.json")]).unwrap();
        let number = |value: &Value| usize::try_from(value[0].as_u64().unwrap()).unwrap();
        let n_cells = number(&metadata["shape"]);
        let per_object = number(&metadata["chunk_grid"]["configuration"]["chunk_shape"]);
        let width = match metadata["data_type"].as_str().unwrap() {
            "int32" => Some(4),
            "int64" | "uint64" => Some(8),
            other => {
                assert_eq!(other, "variable_length_bytes");
                None
            }
        };
        let codec = &metadata["codecs"][0];
        let inner = match codec["name"] == "sharding_indexed" {
            true => number(&codec["configuration"]["chunk_shape"]),
            false => per_object,
        };
        let mut cells = Vec::new();
        for index in 0..n_cells / per_object {
            let object = tree.get(&format!("{path}/c/{index}")).cloned();
            let chunks = match object {
                Some(bytes) if inner < per_object => {
                    Shard::parse(&bytes, per_object / inner).chunks
                }
                whole => vec![whole; per_object / inner],
            };
            for chunk in chunks {
                cells.extend(decode(chunk, inner, width));
            }
        }
        Self {
            cells,
            per_object,
            is_ragged: width.is_none(),
        }
    }

    /// The sum of its whole numbers.
    pub(crate) fn sum(&self) -> i64 {
        let number = |cell: &Vec<u8>| match cell.len() {
            4 => i64::from(i32::from_le_bytes(cell[..].try_into().unwrap())),
            _ => i64::from_le_bytes(cell[..].try_into().unwrap()),
        };
        self.cells.iter().map(number).sum()
    }
}

fn decode(chunk: Option<Vec<u8>>, n_cells: usize, width: Option<usize>) -> Vec<Vec<u8>> {
    match (chunk, width) {
        (Some(chunk), Some(width)) => chunk.chunks(width).map(<[u8]>::to_vec).collect(),
        (Some(chunk), None) => ragged_cells(&zstd::decode_all(chunk.as_slice()).unwrap()),
        (None, width) => vec![vec![0; width.unwrap_or(0)]; n_cells],
    }
}
