//! What went wrong: with a root as a whole, or with one request under it.

use std::fmt;

use super::credentials::CredentialsError;
use super::fault;
use crate::error::FaultKind;
use crate::store::retry::Fault;

/// Why a root cannot be worked on. Every message ends with what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// There is nothing at a local path.
    #[error("store root `{url}` does not exist; check the path, or mount the disk it is on")]
    Absent {
        /// The root as it was given.
        url: String,
    },
    /// There is a file at a local path.
    #[error(
        "store root `{url}` is a file; give the directory that holds `morton_hive.json` instead"
    )]
    IsAFile {
        /// The root as it was given.
        url: String,
    },
    /// The directory may not be listed.
    #[error(
        "store root `{url}` cannot be listed: {reason}; the run records are found by listing, so run as a \
         user who may read the directory"
    )]
    CannotList {
        /// The root as it was given.
        url: String,
        /// What the system said.
        reason: String,
    },
    /// Something was to be written to an http root.
    #[error(
        "store root `{url}` is read-only, as every http root is; open the store by the s3://, gs:// or \
         az:// URL it is written through"
    )]
    ReadOnly {
        /// The root as it was given.
        url: String,
    },
    /// No store of this kind is known.
    #[error(
        "store root `{url}` has the unsupported scheme `{scheme}`; use a local path, s3://, gs://, az://, \
         abfs://, http:// or https://"
    )]
    UnsupportedScheme {
        /// The root as it was given.
        url: String,
        /// The part before `://`.
        scheme: String,
    },
    /// The root cannot be read as the address it looks like.
    #[error("store root `{url}` cannot be understood: {reason}")]
    Invalid {
        /// The root as it was given.
        url: String,
        /// What is wrong with it, and what to write instead.
        reason: String,
    },
    /// The directory cannot be opened as a store.
    #[error("store root `{url}` cannot be opened: {reason}; check the path")]
    CannotOpen {
        /// The root as it was given.
        url: String,
        /// What the system said.
        reason: String,
    },
    /// The client for this kind of store could not be set up.
    #[error(
        "no client for store root `{url}`: {reason}; check the {settings} variables of the environment"
    )]
    Client {
        /// The root as it was given.
        url: String,
        /// What the client library said.
        reason: String,
        /// How the variables it goes by begin.
        settings: &'static str,
    },
    /// The profile or the container that the keys should come from cannot be used.
    #[error("no credentials for store root `{url}`: {source}")]
    Credentials {
        /// The root as it was given.
        url: String,
        /// Why not, and what to do.
        source: CredentialsError,
    },
}

impl RootError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Absent { .. } | Self::IsAFile { .. } => FaultKind::NotFound,
            Self::ReadOnly { .. } => FaultKind::WriteRefused,
            Self::CannotList { .. }
            | Self::UnsupportedScheme { .. }
            | Self::Invalid { .. }
            | Self::CannotOpen { .. }
            | Self::Client { .. } => FaultKind::Denied,
            Self::Credentials { source, .. } => source.kind(),
        }
    }
}

/// What was asked of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Read an object or ranges of it.
    Read,
    /// Ask for an object's size and age.
    Head,
    /// Write an object.
    Write,
    /// Write an object that must not exist yet.
    Create,
    /// Rewrite an object that must not have changed.
    Replace,
    /// Delete an object.
    Delete,
    /// List objects under a prefix.
    List,
}

impl Op {
    pub(super) fn is_write(self) -> bool {
        matches!(
            self,
            Self::Write | Self::Create | Self::Replace | Self::Delete
        )
    }

    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Head => "look up",
            Self::Write => "write",
            Self::Create => "create",
            Self::Replace => "rewrite",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

/// One request that failed, after every retry it was due.
///
/// The message carries the store's own words, so [`std::error::Error::source`] does not
/// offer them a second time; they stand in [`StoreError::source`] the field, which may hold
/// more than should be shown.
pub struct StoreError {
    /// What was asked.
    pub op: Op,
    /// Of which key, relative to the root; empty for the root itself.
    pub key: String,
    /// Under which root.
    pub root: String,
    /// What the store answered.
    pub source: Box<object_store::Error>,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, root) = (self.op.verb(), &self.root);
        match self.key.as_str() {
            "" => write!(f, "could not {verb} `{root}`: ")?,
            key => write!(f, "could not {verb} `{key}` under `{root}`: ")?,
        }
        f.write_str(&fault::told(&self.source))?;
        match fault::cure(self.op, root, self.kind(), &self.source) {
            Some(cure) => write!(f, "; {cure}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for StoreError {
    // The answer may quote the request, and with it a session token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreError({self})")
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        fault::classify(self.op, &self.source)
    }
}

impl Fault for StoreError {
    fn kind(&self) -> FaultKind {
        StoreError::kind(self)
    }
}

/// Turns the fault that an object is absent into a value.
pub(crate) fn present<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == FaultKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
