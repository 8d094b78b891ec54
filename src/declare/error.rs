//! Why a declaration is refused. Each message names the cure.

use crate::error::{AT_WRONG_ADDRESS, FaultKind, ending_without_records};
use crate::kernels::words::WordError;
use crate::pyramid::{ConfigError, DeclarationError, ScheduleError};
use crate::report::Ending;
use crate::store::{
    ExamineError, LeafError, LeaseError, ManifestError, RecordError, RootError, StoreError,
};

/// Why a declaration is refused, or could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeclareError {
    /// The root cannot be worked on.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No schedule follows from configuration and lever.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The pyramid that follows cannot be built.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// The store was written with another configuration.
    #[error(
        "the store was written with another config: its semantic hash is {stored}, this config's is {config} \
         (or {legacy} by the older rule); give the config the store was written with"
    )]
    OtherConfig {
        /// First digits of the manifest's hash.
        stored: String,
        /// First digits of the configuration's hash.
        config: String,
        /// First digits of the configuration's hash by the older rule.
        legacy: String,
    },
    /// The leaves are not what the declaration says.
    #[error(
        "leaf `{leaf}` is not what the config says: {}; correct the config, or have the workers write the leaves again",
        .drifts.join(", ")
    )]
    Drift {
        /// Path of the leaf below the root.
        leaf: String,
        /// Every difference.
        drifts: Vec<String>,
    },
    /// The first leaf cannot be read.
    #[error(transparent)]
    Leaf(#[from] LeafError),
    /// A key that must not change did, between two looks.
    #[error(
        "the manifest's `{key}` was changed meanwhile from {before} to {after}; find out by whom, then declare again"
    )]
    Frozen {
        /// The key.
        key: &'static str,
        /// Its value as JSON, or `absent`.
        before: String,
        /// Its value now.
        after: String,
    },
    /// The manifest was written by somebody else at the same moment.
    #[error(
        "the manifest of `{root}` was written by somebody else at the same moment; nothing was changed here, declare again"
    )]
    Raced {
        /// The root.
        root: String,
    },
    /// The run records cannot be found.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The store cannot do what a writer needs of it.
    #[error(transparent)]
    Unfit(#[from] ExamineError),
    /// Another run holds the lease.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A request failed.
    #[error("{0}; the declaration was not completed, mend that and declare again")]
    Store(#[from] StoreError),
    /// A word of the run records names no cell.
    #[error("a run record names no shard: {0}; please report this")]
    Words(#[from] WordError),
}

impl DeclareError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Root(error) => error.kind(),
            Self::Manifest(error) => error.kind(),
            Self::Records(error) => error.kind(),
            Self::Unfit(error) => error.kind(),
            Self::Lease(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Leaf(error) => error.kind(),
            Self::Words(_) => FaultKind::Bug,
            _ => FaultKind::Declaration,
        }
    }

    /// Whether what was typed or the configuration is at fault, and not the store.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Config(_) | Self::Schedule(ScheduleError::Config(_))
        )
    }

    /// How a declaration ends that failed for this.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Root(_) => AT_WRONG_ADDRESS,
            Self::Records(error) => ending_without_records(error),
            Self::Unfit(error) => error.ending(),
            _ => self.kind().ending(),
        }
    }
}
