//! What can go wrong, and the one place that says what a fault means for the pass.
//!
//! Every error names the object it was about. Its [`FaultKind`] decides, here and
//! nowhere else, whether a request is tried again, a leaf is counted as failed, or
//! the pass is stopped.

use std::sync::Arc;

use crate::kernels::words::WordError;
use crate::ladder::TemplateError;
use crate::ladder::children::ChildColumn;
use crate::pyramid::DeclarationError;
use crate::report::{Ending, SoFar};
use crate::store::array::EncodeError;
use crate::store::leaf_error::LeafError;
use crate::store::{ExamineError, LeaseError, ManifestError, RecordError, RootError, StoreError};
use crate::work::UnknownShard;

/// What kind of fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The store refused these credentials.
    Denied,
    /// The credentials were good once and are no longer.
    ExpiredCredentials,
    /// An object that must exist does not.
    NotFound,
    /// There is no bucket or container of the name in the address.
    NoBucket,
    /// The store asked for fewer requests, also after every retry.
    Throttled,
    /// The store could not be reached or answered with a fault of its own.
    Unavailable,
    /// The bytes of one leaf are not what the format says.
    CorruptLeaf,
    /// A leaf was rewritten while its column was made.
    Rewritten,
    /// The leaf, the manifest and the declaration do not agree.
    Declaration,
    /// The store refused a write that should have been possible.
    WriteRefused,
    /// Another run holds the sweep lease.
    LeaseRefused,
    /// The sweep lease is no longer ours.
    LeaseLost,
    /// The work was stopped before it was done.
    Cancelled,
    /// A fault of this program.
    Bug,
}

impl std::fmt::Display for FaultKind {
    /// The name as in a report.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Denied => "denied",
            Self::ExpiredCredentials => "expired-credentials",
            Self::NotFound => "not-found",
            Self::NoBucket => "no-bucket",
            Self::Throttled => "throttled",
            Self::Unavailable => "unavailable",
            Self::CorruptLeaf => "corrupt-leaf",
            Self::Rewritten => "rewritten",
            Self::Declaration => "declaration",
            Self::WriteRefused => "write-refused",
            Self::LeaseRefused => "lease-refused",
            Self::LeaseLost => "lease-lost",
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
        })
    }
}

impl FaultKind {
    /// Whether the same request may succeed a moment later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Throttled | Self::Unavailable)
    }

    /// Whether the fault is about the store as a whole and not about one leaf, so
    /// that a run of them is a reason to stop.
    pub fn is_store_wide(self) -> bool {
        matches!(
            self,
            Self::Denied
                | Self::ExpiredCredentials
                | Self::NoBucket
                | Self::Throttled
                | Self::Unavailable
                | Self::WriteRefused
        )
    }

    /// Whether one such fault, confirmed by a probe read of the manifest, stops the pass.
    pub fn is_confirmed_by_probe(self) -> bool {
        matches!(
            self,
            Self::Denied | Self::ExpiredCredentials | Self::NoBucket
        )
    }

    /// How a command ends that could not begin for this: refused, unless the store itself
    /// or this program is at fault. A bucket that is not there is the address's fault, and
    /// the address is the caller's to change.
    pub fn ending(self) -> Ending {
        match self {
            Self::NoBucket => AT_WRONG_ADDRESS,
            Self::Bug => Ending::Aborted,
            kind if kind.is_store_wide() => Ending::Aborted,
            _ => Ending::Refused,
        }
    }
}

/// How a command ends whose address cannot be worked on, whatever kind of fault the store
/// has made of it.
pub(crate) const AT_WRONG_ADDRESS: Ending = Ending::Refused;

/// How a command ends that cannot find the run records: a store that cannot be listed at
/// all is the wrong address.
pub(crate) fn ending_without_records(error: &RecordError) -> Ending {
    match error {
        RecordError::NotListable(_) => AT_WRONG_ADDRESS,
        _ => error.kind().ending(),
    }
}

/// Why a pass was not admitted, or ended without a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The root cannot be worked on.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The declared pyramid cannot be built.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// The run records cannot be found.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// A shard that was asked for does not exist.
    #[error(transparent)]
    UnknownShard(#[from] UnknownShard),
    /// Another run holds the lease.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A request outside of any leaf failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A leaf or an artifact cannot be read.
    #[error(transparent)]
    Artifact(#[from] LeafFault),
    /// A word of the run records names no cell.
    #[error("a run record names no shard: {0}")]
    Words(#[from] WordError),
    /// The columns of this declaration cannot be encoded.
    #[error("{0}; please report this with the manifest")]
    Encode(#[from] EncodeError),
    /// The threads of the pass cannot be started.
    #[error("the threads of the pass cannot be started: {0}")]
    Thread(std::io::Error),
    /// The pass ended without saying how.
    #[error("the pass ended in a panic, see the log; please report this")]
    PassVanished,
}

impl From<TemplateError> for Error {
    fn from(error: TemplateError) -> Self {
        match error {
            TemplateError::Declaration(error) => Self::Declaration(error),
            TemplateError::Encode(error) => Self::Encode(error),
        }
    }
}

impl Error {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Root(error) => error.kind(),
            Self::Manifest(error) => error.kind(),
            Self::Records(error) => error.kind(),
            Self::Lease(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Artifact(error) => error.kind(),
            Self::Declaration(_) | Self::UnknownShard(_) => FaultKind::Declaration,
            Self::Words(_) | Self::Encode(_) | Self::Thread(_) | Self::PassVanished => {
                FaultKind::Bug
            }
        }
    }

    /// How a pass ends that was not admitted for this.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Root(_) => AT_WRONG_ADDRESS,
            Self::Records(error) => ending_without_records(error),
            _ => self.kind().ending(),
        }
    }
}

/// Why one leaf failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeafFault {
    /// The leaf cannot be read or folded.
    #[error(transparent)]
    Leaf(#[from] LeafError),
    /// A request for its root documents or its column failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sweep lease is no longer ours.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// Its column cannot be encoded.
    #[error("{0}; please report this with the leaf")]
    Encode(#[from] EncodeError),
    /// Its shard has no cells of the declared order.
    #[error("the words of the column cannot be made: {0}; please report this with the leaf")]
    Words(#[from] WordError),
    /// A column was rewritten each time it was read.
    #[error(
        "`{artifact}` was not written: `{column}` was rewritten each time it was read, so somebody else writes to this store; find out who (`zagg-stream lease show ROOT`) and run again"
    )]
    Moved {
        /// Path of the artifact below the root.
        artifact: String,
        /// Path of the column below the root.
        column: String,
    },
    /// A stage ended without saying how, as when it panics.
    #[error(
        "the work on `{path}` ended in a panic, see the log; please report this with the store's manifest"
    )]
    Dropped {
        /// Path below the root of the leaf or the artifact.
        path: String,
    },
}

impl LeafFault {
    /// What the fault means for the pass.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Leaf(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Lease(error) => error.kind(),
            Self::Moved { .. } => FaultKind::LeaseLost,
            Self::Encode(_) | Self::Words(_) | Self::Dropped { .. } => FaultKind::Bug,
        }
    }

    /// The array the fault is about, when it is one array's.
    pub fn array(&self) -> Option<&str> {
        match self {
            Self::Leaf(error) => error.array(),
            _ => None,
        }
    }
}

/// Why a pass stops before its end. What was written stays, and running the same
/// command again goes on from there.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AbortReason {
    /// The same fault of the store, again and again.
    #[error("{}: {error}; {}{RESUME}", heading(*kind, credentials_end.as_deref()), clause(*so_far))]
    StoreWide {
        /// The fault.
        kind: FaultKind,
        /// The last of its errors.
        error: String,
        /// When the credentials in use end, as far as that is written down.
        credentials_end: Option<String>,
        /// How far the step had come that met it.
        so_far: Option<SoFar>,
    },
    /// Leaves failed, and nothing was written or found current.
    #[error(
        "no leaf was written or current, so this may be the store's fault and not its leaves'; the last error: {error}; {RESUME}"
    )]
    NothingWorked {
        /// The last error.
        error: String,
    },
    /// The store cannot do what a run needs of it.
    #[error("{0}")]
    Unfit(Arc<ExamineError>),
    /// The lease cannot be had.
    #[error("{0}")]
    LeaseRefused(Arc<LeaseError>),
    /// The lease went to somebody else, or went stale.
    #[error("{0}; nothing was stamped since; {RESUME}")]
    LeaseLost(String),
    /// Another sweep stamps columns of this store.
    #[error(
        "column `{column}` was stamped by sweep `{run_id}` while this one was under way; let that one end, or stop it, then run again"
    )]
    ForeignSweep {
        /// Path of the column below the root.
        column: String,
        /// The other sweep.
        run_id: String,
    },
    /// The objects at the root could not be written.
    #[error(
        "every artifact of the ladder stands, but the objects at the root do not: {0}; {RESUME}"
    )]
    Unfinished(String),
    /// The workers of a fleet cannot be had or followed.
    #[error("{0}; {RESUME}")]
    Fleet(String),
    /// The operator, or the program this one is part of, said so.
    #[error("stopped by {0}; {RESUME}")]
    Operator(String),
}

const RESUME: &str = "what is written is complete, run the same command again to go on";

fn heading(kind: FaultKind, credentials_end: Option<&str>) -> String {
    match (kind, credentials_end) {
        (FaultKind::ExpiredCredentials, Some(end)) => {
            format!("stopped because the credentials expired, which were good until {end}")
        }
        (FaultKind::ExpiredCredentials, None) => {
            "stopped because the credentials expired".to_owned()
        }
        _ => format!("stopped on a store-wide fault ({kind})"),
    }
}

fn clause(so_far: Option<SoFar>) -> String {
    so_far.map_or(String::new(), |so_far| format!("{so_far}; "))
}

impl AbortReason {
    /// The reason of having found this column.
    pub(crate) fn foreign(column: &ChildColumn) -> Self {
        Self::ForeignSweep {
            column: column.artifact.path(),
            run_id: column.stamp.run_id().unwrap_or_default().to_owned(),
        }
    }

    /// How a pass ends that was stopped for this.
    pub fn ending(&self) -> Ending {
        match self {
            Self::StoreWide { .. }
            | Self::NothingWorked { .. }
            | Self::LeaseLost(_)
            | Self::ForeignSweep { .. }
            | Self::Fleet(_)
            | Self::Unfinished(_) => Ending::Aborted,
            Self::Unfit(error) => error.ending(),
            Self::LeaseRefused(error) => error.kind().ending(),
            Self::Operator(_) => Ending::Interrupted,
        }
    }
}

#[cfg(test)]
mod tests;
