//! Why a leaf could not be folded, with the leaf, the array and the cure in the message.

use crate::error::FaultKind;
use crate::kernels::column::FoldError;
use crate::store::root::StoreError;

/// A fault of one leaf, or of a column that is read. The pass counts it and goes on.
#[derive(Debug, thiserror::Error)]
#[error("{} `{leaf}`{}: {problem}{}", kind_of(.leaf), named(.array), remedy(.leaf))]
pub struct LeafError {
    /// Path of the leaf or the column below the root.
    pub leaf: String,
    /// Path of the array below the leaf, when the fault is one array's.
    pub array: Option<String>,
    /// What is wrong, and what to do about it.
    #[source]
    pub problem: Box<LeafProblem>,
}

/// Columns are read, too: by the ladder, and to be verified.
fn is_column(path: &str) -> bool {
    path.ends_with(".pyramid.zarr")
}

fn kind_of(path: &str) -> &'static str {
    if is_column(path) { "column" } else { "leaf" }
}

fn remedy(path: &str) -> &'static str {
    if is_column(path) {
        "; or write the column anew: --force, with `backfill` at the shards and `sweep` above them"
    } else {
        ""
    }
}

fn named(array: &Option<String>) -> String {
    array
        .as_ref()
        .map_or(String::new(), |array| format!(", array `{array}`"))
}

impl LeafError {
    /// A fault of the leaf as a whole.
    pub fn of_leaf(leaf: &str, problem: impl Into<LeafProblem>) -> Self {
        Self {
            leaf: leaf.to_owned(),
            array: None,
            problem: Box::new(problem.into()),
        }
    }

    /// A fault of one array of the leaf.
    pub fn of_array(leaf: &str, array: &str, problem: impl Into<LeafProblem>) -> Self {
        Self {
            leaf: leaf.to_owned(),
            array: Some(array.to_owned()),
            problem: Box::new(problem.into()),
        }
    }

    /// The fold of an artifact ended in a panic, or was given up.
    pub(crate) fn panicked(leaf: &str, error: tokio::task::JoinError) -> Self {
        let message = match error.try_into_panic() {
            Ok(panic) => panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned()),
            Err(error) => error.to_string(),
        };
        Self::of_leaf(leaf, LeafProblem::Panicked(message))
    }

    /// The array the fault is about, when it is one array's.
    pub fn array(&self) -> Option<&str> {
        match (&self.array, &*self.problem) {
            (Some(array), _) => Some(array),
            (None, LeafProblem::Fold(error)) => error.array(),
            _ => None,
        }
    }

    /// What the fault means for the pass.
    pub fn kind(&self) -> FaultKind {
        match &*self.problem {
            LeafProblem::Store(error) => error.kind(),
            LeafProblem::CompanionAbsent { .. }
            | LeafProblem::CompanionUnbound { .. }
            | LeafProblem::WeightsDiffer { .. }
            | LeafProblem::DataTypeDiffers { .. } => FaultKind::Declaration,
            LeafProblem::Panicked(_) => FaultKind::Bug,
            LeafProblem::Rewritten => FaultKind::Rewritten,
            _ => FaultKind::CorruptLeaf,
        }
    }
}

/// What can be wrong with a leaf (`format.md` section 6, "Leaf read refusals", and
/// section 3).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeafProblem {
    /// A request failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its stamp is no longer the one its column was begun under.
    #[error(
        "was rewritten while its column was made, which therefore has no stamp; run again when the leaf's run has ended"
    )]
    Rewritten,
    /// A metadata document is not JSON, or not the JSON of a Zarr v3 node.
    #[error("`zarr.json` is not a Zarr v3 document ({0}); restore it from the leaf's worker")]
    Metadata(String),
    /// Only Zarr v2 metadata stands there.
    #[error(
        "holds Zarr v2 metadata (`{0}`), and only v3 is read; rebuild the leaf with a v3 writer"
    )]
    ZarrV2(&'static str),
    /// The group of cells is absent.
    #[error("has no group `{0}`; the stamp says complete, so the leaf lost objects: rebuild it")]
    NoCellGroup(String),
    /// An array of a column or an overview is not there.
    #[error("is absent; write the artifact anew with --force")]
    Absent,
    /// No declared array and no `morton` array tell how many cells there are.
    #[error("holds neither `morton` nor any declared array in group `{0}`; rebuild the leaf")]
    NoArrays(String),
    /// The array covers another number of cells than the leaf.
    #[error("has shape {found:?} where one of {expected} cells is due; rebuild the leaf")]
    WrongShape {
        /// The shape in the metadata.
        found: Vec<u64>,
        /// `4^(cell_order - shard_order)`.
        expected: u64,
    },
    /// The layout is one this program does not read.
    #[error(
        "has a layout this program does not read ({0}); rewrite the array with the store's own writer"
    )]
    Layout(String),
    /// A companion the manifest declares is absent.
    #[error(
        "lacks its companion `{companion}`: these leaves predate the declaration; re-declare the field without it or rebuild the leaves"
    )]
    CompanionAbsent {
        /// Name of the companion array.
        companion: String,
    },
    /// The payload does not name the companion, or the companion does not say what it holds.
    #[error(
        "does not declare its companion `{companion}` as the manifest does ({detail}); re-declare the field or rebuild the leaves"
    )]
    CompanionUnbound {
        /// Name of the companion array.
        companion: String,
        /// What was found instead.
        detail: String,
    },
    /// `weights` differs from the manifest's.
    #[error(
        "has weights {found} where the manifest declares {declared}; re-declare the field or rebuild the leaf"
    )]
    WeightsDiffer {
        /// From the array's attributes.
        found: String,
        /// From the manifest.
        declared: String,
    },
    /// The data type differs from the manifest's.
    #[error(
        "has data type {found} where the manifest declares {declared}; re-declare the field or rebuild the leaf"
    )]
    DataTypeDiffers {
        /// From the array's metadata.
        found: String,
        /// From the manifest.
        declared: String,
    },
    /// The ragged convention is not one this program knows.
    #[error(
        "has the ragged specification {0}, and only `zagg-ragged/1` is known; upgrade this program or rebuild the leaf"
    )]
    RaggedSpec(String),
    /// The index of a shard cannot be used.
    #[error("shard `{object}`: {detail}; restore the object from a copy or rebuild the leaf")]
    ShardIndex {
        /// Key of the shard below the root.
        object: String,
        /// What is wrong with the index.
        detail: String,
    },
    /// A chunk cannot be decoded.
    #[error(
        "cells {first_cell}..{end_cell} of `{object}`: {detail}; restore the object from a copy or rebuild the leaf"
    )]
    Chunk {
        /// Key of the object below the root.
        object: String,
        /// First cell of the chunk, as its rank in the leaf.
        first_cell: u64,
        /// One past the last cell.
        end_cell: u64,
        /// What is wrong with the bytes.
        detail: String,
    },
    /// A cell's content breaks a fold law.
    #[error("{0}; restore the array from a copy or rebuild the leaf")]
    Fold(#[from] FoldError),
    /// The fold of this leaf panicked.
    #[error("the fold panicked: {0}; please report this with the leaf")]
    Panicked(String),
}
