//! Why nothing is retired. Each message names the cure.

use crate::error::{AT_WRONG_ADDRESS, Error, FaultKind, ending_without_records};
use crate::kernels::words::WordError;
use crate::pyramid::DeclarationError;
use crate::report::Ending;
use crate::store::{ExamineError, LeaseError, ManifestError, RecordError, RootError, StoreError};

/// Why nothing is retired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetireError {
    /// The root cannot be worked on.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The store declares no `/2` pyramid, so no ladder owns anything.
    #[error("{0}; only what a /2 ladder has replaced is retired")]
    Declaration(#[from] DeclarationError),
    /// The run records cannot be found.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// A run record cannot be read.
    #[error(
        "the leaves of `{root}` are not all known, because these run records cannot be read: {}; restore \
         them from a copy, or move them out of the store when they are known to name nothing, then run again",
        .names.join(", ")
    )]
    UnreadableRecords {
        /// The root.
        root: String,
        /// Names of the records.
        names: Vec<String>,
    },
    /// The ladder has not overwritten what it owns.
    #[error(
        "`{first}` still says zagg-overview/1 where the /2 ladder writes ({count} in all), so the sweep has \
         not run; run sweep first: `zagg-stream sweep {root}`"
    )]
    NotSwept {
        /// The root.
        root: String,
        /// Path of the first such overview below the root.
        first: String,
        /// How many there are.
        count: u64,
    },
    /// Nobody has shown that the `/2` pyramid is whole.
    #[error(
        "nothing is deleted from `{root}` before a clean verify of it; verify first: `zagg-stream verify {root}`"
    )]
    Unverified {
        /// The root.
        root: String,
    },
    /// The store cannot do what a deletion needs of it.
    #[error(transparent)]
    Unfit(#[from] ExamineError),
    /// Another run holds the lease.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A word of the run records names no cell.
    #[error("a run record names no shard: {0}; please report this")]
    Words(#[from] WordError),
    /// The store could not be verified.
    #[error(transparent)]
    Verify(#[from] Error),
    /// A request failed.
    #[error("{0}; nothing was deleted, mend that and run again")]
    Store(#[from] StoreError),
}

impl RetireError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Root(error) => error.kind(),
            Self::Manifest(error) => error.kind(),
            Self::Records(error) => error.kind(),
            Self::Unfit(error) => error.kind(),
            Self::Lease(error) => error.kind(),
            Self::Verify(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Words(_) => FaultKind::Bug,
            Self::Declaration(_)
            | Self::UnreadableRecords { .. }
            | Self::NotSwept { .. }
            | Self::Unverified { .. } => FaultKind::Declaration,
        }
    }

    /// How a retirement ends that failed for this.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Root(_) => AT_WRONG_ADDRESS,
            Self::Records(error) => ending_without_records(error),
            Self::Unfit(error) => error.ending(),
            Self::Verify(error) => error.ending(),
            _ => self.kind().ending(),
        }
    }
}
