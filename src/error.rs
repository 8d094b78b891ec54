//! What can go wrong, and the one place that says what a fault means for the pass.
//!
//! Every error names the object it was about. Its [`FaultKind`] decides, here and
//! nowhere else, whether a request is tried again, a leaf is counted as failed, or
//! the pass is stopped.

use crate::store::lease::LeaseError;
use crate::store::manifest::ManifestError;
use crate::store::records::RecordError;
use crate::store::root::{RootError, StoreError};

/// What kind of fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The store refused these credentials.
    Denied,
    /// The credentials were good once and are no longer.
    ExpiredCredentials,
    /// An object that must exist does not.
    NotFound,
    /// The store asked for fewer requests, also after every retry.
    Throttled,
    /// The store could not be reached or answered with a fault of its own.
    Unavailable,
    /// The bytes of one leaf are not what the format says.
    CorruptLeaf,
    /// The leaf, the manifest and the declaration do not agree.
    Declaration,
    /// The store refused a write that should have been possible.
    WriteRefused,
    /// The sweep lease is no longer ours.
    LeaseLost,
    /// The work was stopped before it was done.
    Cancelled,
    /// A fault of this program.
    Bug,
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
                | Self::Throttled
                | Self::Unavailable
                | Self::WriteRefused
        )
    }

    /// Whether one such fault, confirmed by a probe read of the manifest, stops the pass.
    pub fn is_confirmed_by_probe(self) -> bool {
        matches!(self, Self::Denied | Self::ExpiredCredentials)
    }
}

/// Anything that can end a pass, or one of its steps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The root cannot be worked on.
    #[error(transparent)]
    Root(#[from] RootError),
    /// One request failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The manifest is missing or not one this program can work from.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The run records could not be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The sweep lease was refused or lost.
    #[error(transparent)]
    Lease(#[from] LeaseError),
}

impl Error {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Root(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Manifest(error) => error.kind(),
            Self::Records(error) => error.kind(),
            Self::Lease(error) => error.kind(),
        }
    }
}
