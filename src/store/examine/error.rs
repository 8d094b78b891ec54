//! Why a run may not begin on a store.

use super::found::apart;
use crate::error::FaultKind;
use crate::report::Ending;
use crate::store::{RootError, StoreError};

/// Why a run may not begin on a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExamineError {
    /// No write can be sent there.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The root cannot be listed.
    #[error("{0}; the run records are found by listing: {cure}", cure = cure(.0, "the right to list"))]
    List(StoreError),
    /// An object cannot be read.
    #[error("{0}; {cure}", cure = cure(.0, "the right to read"))]
    Read(StoreError),
    /// An object cannot be created.
    #[error("{0}; a run takes the lease and writes columns: {cure}", cure = cure(.0, "the right to write"))]
    Create(StoreError),
    /// An object that was never written exists.
    #[error(
        "the store of `{root}` says that `{key}` exists, which nobody has written, so it cannot say whether \
         a lease is free; use an endpoint that honours `If-None-Match`"
    )]
    Exists {
        /// The root.
        root: String,
        /// The scratch object.
        key: String,
    },
    /// An object is created where there is one.
    #[error(
        "the store of `{root}` created an object that was there already, so two runs could both think they \
         hold the lease and spoil each other's columns; use an endpoint that honours `If-None-Match`"
    )]
    NotExclusive {
        /// The root.
        root: String,
    },
    /// An object cannot be rewritten.
    #[error("{0}; a lease is kept by rewriting it: {cure}", cure = cure(.0, "the right to overwrite"))]
    Rewrite(StoreError),
    /// An object that nobody else touched was not rewritten.
    #[error(
        "the store of `{root}` did not rewrite an object that was as it had been read, so a lease could not be \
         kept past its ttl; use an endpoint that honours `If-Match`"
    )]
    NotRewritten {
        /// The root.
        root: String,
    },
    /// An object cannot be deleted.
    #[error(
        "{0}; a column is deleted before it is written anew, and the lease when the run ends: {cure}; \
         the object is a scratch object of this run and may be deleted at any time",
        cure = cure(.0, "the right to delete")
    )]
    Delete(StoreError),
    /// The clocks differ by too much.
    #[error(
        "the clock of the store of `{root}` is {} this machine's, too far for a lease of {ttl_s} s: \
         another run could take it for expired while it is held, or wait for it in vain; set this \
         machine's clock, as with `chronyc makestep`, or raise `lease_ttl_s`",
        apart(*.skew_s)
    )]
    Skew {
        /// The root.
        root: String,
        /// Seconds by which the store is ahead.
        skew_s: i64,
        /// Seconds a beat of the lease is good for.
        ttl_s: u64,
    },
}

impl ExamineError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Root(error) => error.kind(),
            Self::List(error)
            | Self::Read(error)
            | Self::Create(error)
            | Self::Rewrite(error)
            | Self::Delete(error) => error.kind(),
            Self::Exists { .. } | Self::NotExclusive { .. } | Self::NotRewritten { .. } => {
                FaultKind::WriteRefused
            }
            Self::Skew { .. } => FaultKind::LeaseRefused,
        }
    }

    /// How a command ends that may not begin for this: refused, for nothing was written,
    /// unless the same store may do what is needed a moment later or for the same user with
    /// new credentials.
    pub fn ending(&self) -> Ending {
        match self.kind() {
            kind if kind.is_transient() => Ending::Aborted,
            FaultKind::ExpiredCredentials => Ending::Aborted,
            _ => Ending::Refused,
        }
    }
}

fn cure(error: &StoreError, right: &str) -> String {
    match error.kind() {
        kind if kind.is_transient() => "run it again when the store answers".to_owned(),
        FaultKind::ExpiredCredentials => "renew the credentials and run it again".to_owned(),
        FaultKind::Denied => format!("give these credentials, or this user, {right}"),
        _ => "see that the store takes such requests, and that no quota or retention rule is in the way".to_owned(),
    }
}
