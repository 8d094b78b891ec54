//! Writes and deletions that leave alone what somebody else has written, tried again until
//! it is known what stands.
//!
//! A try whose answer was lost may have landed. So whenever the condition does not hold the
//! object is read back, and one with the same bytes counts as written.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use object_store::{ObjectStoreExt, PutMode};

use super::tally::count;
use super::write::{Created, Replaced};
use super::{Entry, Op, Root, StoreError, Version, fault};

/// What must stand at a key for a write to go ahead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Nothing.
    Absent,
    /// This writing of the object.
    Writing(Version),
}

/// What came of such a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// The object has these bytes, by this write.
    Written,
    /// It had them already.
    Stood,
    /// Something else stands there; it was left alone.
    Moved,
}

/// What came of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    /// The object is gone, by this deletion.
    Yes,
    /// It was gone already.
    Before,
    /// Another writing of it stands there; it was left alone.
    Moved,
}

impl Root {
    /// Writes the object at `key` only over what is expected there.
    ///
    /// A store without such conditions is looked at right before the write instead.
    ///
    /// # Errors
    /// Any failure, after every retry; on a read-only root without a request.
    pub(crate) async fn settle(
        &self,
        key: &str,
        bytes: &Bytes,
        expected: &Expected,
    ) -> Result<Settled, StoreError> {
        let tried = AtomicBool::new(false);
        self.repeat(key, || async {
            let first = !tried.swap(true, Ordering::Relaxed);
            if self.write_expecting(key, bytes, expected).await? {
                return Ok(Settled::Written);
            }
            Ok(match self.get_if_present(key).await? {
                Some(found) if found == *bytes && first => Settled::Stood,
                Some(found) if found == *bytes => Settled::Written,
                _ => Settled::Moved,
            })
        })
        .await
    }

    /// One try; `false` when something else was found there.
    async fn write_expecting(
        &self,
        key: &str,
        bytes: &Bytes,
        expected: &Expected,
    ) -> Result<bool, StoreError> {
        match expected {
            Expected::Writing(version) => {
                let replaced = self.replace(key, bytes.clone(), version).await?;
                Ok(replaced == Replaced::Yes)
            }
            Expected::Absent => match self.create(key, bytes.clone()).await {
                Ok(created) => Ok(created == Created::Yes),
                Err(error) if fault::says_unsupported(&error.source) => {
                    self.create_after_a_look(key, bytes).await
                }
                Err(error) => Err(error),
            },
        }
    }

    async fn create_after_a_look(&self, key: &str, bytes: &Bytes) -> Result<bool, StoreError> {
        let path = self.writable(Op::Create, key)?;
        count(&self.0.counters.head, 1);
        let head = self.0.store.head(&path);
        match self.request(Op::Head, key, head).await {
            Err(object_store::Error::NotFound { .. }) => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(self.error(Op::Head, key, error)),
        }
        let put = self.put_once(&path, bytes, PutMode::Overwrite);
        self.request(Op::Create, key, put)
            .await
            .map_err(|error| self.error(Op::Create, key, error))?;
        Ok(true)
    }

    /// Deletes the object at `key` only while it is this writing of it. No store has such a
    /// condition, so it is looked at right before every try.
    ///
    /// # Errors
    /// Any failure, after every retry; on a read-only root without a request.
    pub(crate) async fn remove(&self, key: &str, version: &Version) -> Result<Removed, StoreError> {
        let path = self.writable(Op::Delete, key)?;
        let tried = AtomicBool::new(false);
        self.repeat(key, || async {
            let first = !tried.swap(true, Ordering::Relaxed);
            count(&self.0.counters.head, 1);
            let head = self.0.store.head(&path);
            match self.request(Op::Head, key, head).await {
                Err(object_store::Error::NotFound { .. }) if first => Ok(Removed::Before),
                Err(object_store::Error::NotFound { .. }) => Ok(Removed::Yes),
                Err(error) => Err(self.error(Op::Head, key, error)),
                Ok(meta) if !version.has_tag(meta.e_tag.as_deref()) => Ok(Removed::Moved),
                Ok(_) => {
                    self.delete_once(key).await?;
                    Ok(Removed::Yes)
                }
            }
        })
        .await
    }
}

impl From<&Entry> for Version {
    fn from(entry: &Entry) -> Self {
        Self {
            e_tag: entry.e_tag.clone(),
            version: None,
        }
    }
}

impl Version {
    /// Whether this is the writing with this entity tag. Some stores list a tag without the
    /// quotes it is answered with.
    pub(crate) fn has_tag(&self, e_tag: Option<&str>) -> bool {
        let plain = |tag: &str| tag.trim_matches('"').to_owned();
        self.e_tag.as_deref().map(plain) == e_tag.map(plain)
    }
}
