//! Content hashes of an artifact's decoded values (`format.md` section 7).

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kernels::cells::CellsRef;

/// Hex SHA-256 of the decoded cells of one array.
///
/// Dense: the little-endian values. Ragged: per cell its length in bytes as u64, then
/// the bytes.
pub(crate) fn of_cells(cells: CellsRef<'_>) -> String {
    let mut hasher = Sha256::new();
    match cells {
        CellsRef::Dense(bytes) => hasher.update(bytes),
        CellsRef::Ragged(column) => {
            for cell in column.iter() {
                hasher.update((cell.len() as u64).to_le_bytes());
                hasher.update(cell);
            }
        }
    }
    hex(hasher)
}

/// The `content_hashes` document of an artifact: hashes by array path, in path order,
/// and the hash of all of them.
pub(crate) fn document(mut arrays: Vec<(String, String)>) -> Value {
    arrays.sort_unstable();
    let mut digests: Vec<&str> = arrays.iter().map(|(_, digest)| digest.as_str()).collect();
    digests.sort_unstable();
    let mut hasher = Sha256::new();
    hasher.update(digests.join("\n"));
    let combined = hex(hasher);
    let arrays: Map<String, Value> = arrays
        .into_iter()
        .map(|(path, digest)| (path, Value::String(digest)))
        .collect();
    json!({"arrays": arrays, "combined": combined})
}

fn hex(hasher: Sha256) -> String {
    format!("{:x}", hasher.finalize())
}
