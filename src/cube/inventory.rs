//! The inventory of a local copy: what the remote cube held when it was pulled, and what
//! of that was fetched. It is all that a push may delete or write over.
//!
//! It lies beside the copy, `LOCAL.pulled.json`, where no writer of the cube looks, and is
//! written before the first object is fetched and once more when all are there.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::CubeError;
use super::tree::Class;
use crate::store::root::{Entry, Op, Version};
use crate::store::{Root, StoreError};

/// What the name of a local copy is followed by.
pub(crate) const SUFFIX: &str = ".pulled.json";

const FORMAT: &str = "zagg-stream-cube-inventory/1";

/// What was pulled, from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inventory {
    format: String,
    /// The remote cube.
    pub remote: String,
    /// Whether everything was fetched.
    pub full: bool,
    /// Whether the pull came to its end.
    pub complete: bool,
    /// Every object of the remote cube, by key.
    pub objects: BTreeMap<String, Pulled>,
}

/// One object of the remote cube.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pulled {
    pub class: Class,
    /// Its bytes.
    pub size: u64,
    /// Its entity tag when it was listed or read. None after a push that was cut short, when
    /// its hash alone tells whether it has been written since.
    pub e_tag: Option<String>,
    /// Seconds since 1970, for stores without entity tags; none where the tag is none.
    pub last_modified: Option<i64>,
    /// Hex SHA-256 of its bytes; only of what was fetched or pushed.
    pub sha256: Option<String>,
}

impl Pulled {
    /// An object that was listed, and not fetched.
    pub(crate) fn listed(entry: &Entry, class: Class) -> Self {
        Self {
            class,
            size: entry.size,
            e_tag: entry.e_tag.clone(),
            last_modified: Some(entry.last_modified),
            sha256: None,
        }
    }

    /// An object that was written.
    pub(crate) fn pushed(bytes: &Bytes, class: Class) -> Self {
        Self {
            class,
            size: bytes.len() as u64,
            e_tag: None,
            last_modified: None,
            sha256: Some(hash(bytes)),
        }
    }

    /// An object that was listed, and the writing of it that was read.
    pub(crate) fn read(entry: &Entry, version: &Version, class: Class, sha256: String) -> Self {
        Self {
            e_tag: version.e_tag.clone(),
            sha256: Some(sha256),
            ..Self::listed(entry, class)
        }
    }

    /// Takes note of which writing a listing shows of what was written just before it.
    pub(crate) fn note(&mut self, entry: &Entry) {
        if self.size == entry.size {
            self.e_tag = entry.e_tag.clone();
            self.last_modified = Some(entry.last_modified);
        }
    }

    /// Whether a listing shows the same writing of the object.
    pub(crate) fn is(&self, entry: &Entry) -> bool {
        let tagged = Version {
            e_tag: self.e_tag.clone(),
            version: None,
        };
        self.size == entry.size
            && match self.e_tag {
                Some(_) => tagged.has_tag(entry.e_tag.as_deref()),
                None => self.last_modified == Some(entry.last_modified),
            }
    }
}

impl Inventory {
    /// An inventory of nothing yet.
    pub(crate) fn new(remote: &Root, full: bool) -> Self {
        Self {
            format: FORMAT.to_owned(),
            remote: identity(remote),
            full,
            complete: false,
            objects: BTreeMap::new(),
        }
    }

    /// The inventory of the copy at `local`; `None` when there is none.
    ///
    /// # Errors
    /// A failed request; one that cannot be used.
    pub(crate) async fn read(local: &Root, remote: &Root) -> Result<Option<Self>, CubeError> {
        let Some(bytes) = place(local)?.get_if_present("").await? else {
            return Ok(None);
        };
        let unusable = |reason: String| CubeError::Inventory {
            local: local.url().to_owned(),
            remote: remote.url().to_owned(),
            reason,
        };
        let read: Self = serde_json::from_slice(&bytes)
            .map_err(|error| unusable(format!("it cannot be read, {error}")))?;
        if read.format != FORMAT {
            return Err(unusable(format!(
                "its format is `{}`, not `{FORMAT}`",
                read.format
            )));
        }
        if read.remote != identity(remote) {
            return Err(unusable(format!("it is of a pull of `{}`", read.remote)));
        }
        Ok(Some(read))
    }

    /// Writes the inventory of the copy at `local`, of which this process is the only
    /// keeper.
    ///
    /// # Errors
    /// A failed request; an inventory that cannot be put down as JSON.
    pub(crate) async fn write(&self, local: &Root) -> Result<(), StoreError> {
        let Some(place) = local.sibling(SUFFIX) else {
            return Ok(());
        };
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| StoreError {
            op: Op::Write,
            key: String::new(),
            root: place.url().to_owned(),
            source: Box::new(object_store::Error::Generic {
                store: "inventory",
                source: error.into(),
            }),
        })?;
        place.put_while("", bytes, || true).await?;
        Ok(())
    }
}

/// Where the inventory of the copy at `local` is.
///
/// # Errors
/// When the copy has nothing beside it.
pub(crate) fn place(local: &Root) -> Result<Root, CubeError> {
    local.sibling(SUFFIX).ok_or_else(|| CubeError::NoSibling {
        local: local.url().to_owned(),
    })
}

/// What a remote cube is called whatever way its address is written.
fn identity(remote: &Root) -> String {
    let url = remote.url().trim_end_matches('/');
    let path = url.strip_prefix("file://").unwrap_or(url);
    match std::fs::canonicalize(path) {
        Ok(path) if !path.to_string_lossy().contains("://") => path.to_string_lossy().into_owned(),
        _ => url.to_owned(),
    }
}

/// Hex SHA-256 of an object.
pub(crate) fn hash(bytes: &Bytes) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
