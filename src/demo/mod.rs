//! A small but real store to try an upgrade on, of any size, the same for the same
//! arguments.
//!
//! It looks as a published store does: leaves with stamps, a run record, a manifest that
//! declares `/2` and no column yet. Other Zarr v3 readers read it. Leaves are made inner
//! chunk by inner chunk, so what is resident is one chunk and the indexes of one leaf,
//! whatever the leaf's size.

mod cells;
mod config;
mod leaf;
mod manifest;
mod members;
mod observe;
mod record;
mod rng;
mod semantics;
mod shard;
mod shards;
mod tree;

use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use serde::Serialize;

pub use config::{DemoConfig, FieldSet};

use crate::kernels::words::WordError;
use crate::kernels::words::decimal;
use crate::kernels::words::toc::TocError;
use crate::pyramid::DeclarationError;
use crate::store::array::EncodeError;
use crate::store::json::python_pretty;
use crate::time::iso;
use leaf::LeafWriter;
use members::Layout;
use tree::Tree;

/// Indentation of the documents at the root.
const ROOT_INDENT: usize = 1;

/// Name of the manifest.
const MANIFEST: &str = "morton_hive.json";

/// Name of the semantic core, written for people.
const SEMANTICS: &str = "aggregation.yaml";

/// Why a demo store was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The directory holds something, or is none.
    #[error("`{path}` is not an empty directory; name one that is empty or does not exist yet")]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// No store can be made of these numbers.
    #[error("{problem}")]
    Config {
        /// Which number, and what it can be.
        problem: String,
    },
    /// A file or directory could not be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The run record could not be encoded.
    #[error("cannot encode run record `{path}`: {source}")]
    Record {
        /// The record.
        path: PathBuf,
        /// What the encoder says.
        source: ParquetError,
    },
    /// An array could not be encoded, which is a fault of the program.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The demo's own declaration was refused, which is a fault of the program.
    #[error("the demo's declaration is refused: {0}")]
    Declaration(#[from] DeclarationError),
    /// A cell has no word, which is a fault of the program.
    #[error("the demo has a cell without a word: {0}")]
    Word(#[from] WordError),
    /// An instant has no word, which is a fault of the program.
    #[error("the demo has an instant without a word: {0}")]
    Toc(#[from] TocError),
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DemoStore {
    /// Root of the store.
    pub root: PathBuf,
    /// Which fields it has.
    pub fields: FieldSet,
    /// Order of its shards.
    pub shard_order: u8,
    /// Order of its cells.
    pub cell_order: u8,
    /// Orders of the groups its columns will have, finest first.
    pub column_orders: Vec<u8>,
    /// Number of leaves.
    pub leaves: u64,
    /// Cells in all leaves.
    pub cells: u64,
    /// Cells in which something was observed.
    pub cells_with_data: u64,
    /// Rows of all digests.
    pub centroids: u64,
    /// Observations those rows stand for.
    pub observations: u64,
    /// Files written.
    pub objects: u64,
    /// Their size.
    pub num_bytes: u64,
    /// Decimal ids of the shards, in the order of their words.
    pub shards: Vec<String>,
}

/// Writes a demo store to `dir`, which must be empty or not exist.
///
/// The manifest is written last: what was interrupted is not taken for a store.
///
/// # Errors
/// When the configuration is impossible, `dir` is occupied, or a file cannot be written.
pub fn write(config: &DemoConfig, dir: &Path) -> Result<DemoStore, DemoError> {
    let shard_order = config.shard_order()?;
    let layout = Layout::new(config, shard_order)?;
    let shards = shards::choose(config, shard_order)?;
    let mut tree = Tree::create(dir)?;

    let mut store = DemoStore {
        root: dir.to_owned(),
        fields: config.fields,
        shard_order,
        cell_order: config.cell_order,
        column_orders: layout.column_orders.clone(),
        leaves: shards.len() as u64,
        cells: layout.n_cells() * shards.len() as u64,
        cells_with_data: 0,
        centroids: 0,
        observations: 0,
        objects: 0,
        num_bytes: 0,
        shards: shards
            .iter()
            .map(|shard| decimal::render(*shard))
            .collect::<Result<_, _>>()?,
    };
    let mut writer = LeafWriter::new(config, &layout);
    for shard in &shards {
        let figures = writer.write(&mut tree, *shard)?;
        store.cells_with_data += figures.cells_with_data;
        store.centroids += figures.centroids;
        store.observations += figures.observations;
    }

    let record = record::file_name(config);
    let path = tree.path(&record);
    let body = record::encode(&shards).map_err(|source| DemoError::Record { path, source })?;
    tree.put(&record, &body)?;
    let core = semantics::core(config);
    tree.put(SEMANTICS, semantics::yaml(&core).as_bytes())?;
    let manifest = manifest::document(config, shard_order, &semantics::hash(&core));
    tree.put(MANIFEST, python_pretty(&manifest, ROOT_INDENT).as_bytes())?;

    store.objects = tree.objects();
    store.num_bytes = tree.num_bytes();
    Ok(store)
}

/// The instant a demo store says it was written at.
fn written_at(config: &DemoConfig) -> String {
    iso(config.written_at)
}

#[cfg(test)]
mod tests;
