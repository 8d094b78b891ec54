//! Content hashes of an artifact's decoded values (`format.md` section 7).

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kernels::cells::CellsRef;

/// Hashes the decoded cells of one array, as they come.
///
/// Dense: the little-endian values. Ragged: per cell its length in bytes as u64, then
/// the bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArrayHash(Sha256);

impl ArrayHash {
    /// Takes the next cells.
    pub(crate) fn update(&mut self, cells: CellsRef<'_>) {
        match cells {
            CellsRef::Dense(bytes) => self.0.update(bytes),
            CellsRef::Ragged(column) => {
                for cell in column.iter() {
                    self.0.update((cell.len() as u64).to_le_bytes());
                    self.0.update(cell);
                }
            }
        }
    }

    /// The hash in hex.
    pub(crate) fn finish(self) -> String {
        hex(self.0)
    }
}

/// Hex SHA-256 of the decoded cells of one array.
pub(crate) fn of_cells(cells: CellsRef<'_>) -> String {
    let mut hash = ArrayHash::default();
    hash.update(cells);
    hash.finish()
}

/// The `content_hash` of an overview: its address, then the arrays of every field in name
/// order, each its name and its cells; the cell words are not in it (`format.md`
/// section 9).
///
/// Dense: the little-endian values. Ragged: per cell its length in bytes as u32, then
/// the bytes.
#[derive(Debug)]
pub(crate) struct OverviewHash(Sha256);

impl OverviewHash {
    /// Begins the hash of the overview of node `id`, of `order`, with cells of order
    /// `cells`.
    pub(crate) fn new(id: &str, order: u8, cells: u8) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(format!("zagg-overview/1:{id}:{order}:{cells}"));
        Self(hasher)
    }

    /// Begins the next array.
    pub(crate) fn array(&mut self, name: &str) {
        self.0.update(name);
    }

    /// Takes the next cells of the array.
    pub(crate) fn update(&mut self, cells: CellsRef<'_>) {
        match cells {
            CellsRef::Dense(bytes) => self.0.update(bytes),
            CellsRef::Ragged(column) => {
                for cell in column.iter() {
                    self.0.update((cell.len() as u32).to_le_bytes());
                    self.0.update(cell);
                }
            }
        }
    }

    /// The hash in hex.
    pub(crate) fn finish(self) -> String {
        hex(self.0)
    }
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
