//! Writes and deletes objects, with or without a condition.

use std::io;

use bytes::Bytes;
use futures::stream::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use super::local::Disk;
use super::tally::count;
use super::{Op, Root, StoreError, Version, fault};
use crate::store::retry::RetryPolicy;

/// One S3 bulk delete carries at most this many keys, and one deletion is spread over
/// requests of this size wherever the store has them.
const KEYS_PER_BULK_DELETE: usize = 1000;

/// Outcome of a conditional create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    /// The object is there now and was not before.
    Yes,
    /// An object was there already and still is. It may also be this caller's own, from
    /// an earlier try whose answer was lost.
    Exists,
}

/// Outcome of a conditional rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaced {
    /// The object was rewritten.
    Yes,
    /// The object is gone or is another writing than the one that was read.
    Moved,
}

impl Root {
    /// Writes the object at `key`, over whatever is there, which only tests do: what belongs to a
    /// store or a run is written on a condition or under a lease.
    ///
    /// # Errors
    /// Any failure; on a read-only root without a request.
    #[cfg(test)]
    pub(crate) async fn put(&self, key: &str, bytes: impl Into<Bytes>) -> Result<(), StoreError> {
        self.put_while(key, bytes, || true).await.map(|_| ())
    }

    /// Writes the object at `key`, over whatever is there, asking `may` before every try, so that
    /// a retry does not write what had become forbidden meanwhile. `false` when `may` said no, and then the
    /// last try, if any, is known to have failed.
    ///
    /// # Errors
    /// Any failure; on a read-only root without a request.
    pub(crate) async fn put_while(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
        may: impl Fn() -> bool,
    ) -> Result<bool, StoreError> {
        let bytes = bytes.into();
        let path = self.writable(Op::Write, key)?;
        let (path, bytes, may) = (&path, &bytes, &may);
        self.attempt(Op::Write, key, || async move {
            if !may() {
                return Ok(false);
            }
            self.put_once(path, bytes, PutMode::Overwrite).await?;
            Ok(true)
        })
        .await
    }

    /// Writes the object at `key` only if there is none. Tried once.
    ///
    /// # Errors
    /// Any failure but an existing object. After a transient one the object may be
    /// there all the same: read back to see whose it is.
    pub(crate) async fn create(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<Created, StoreError> {
        let path = self.writable(Op::Create, key)?;
        let bytes = bytes.into();
        let put = self.put_once(&path, &bytes, PutMode::Create);
        match self.request(Op::Create, key, put).await {
            Ok(()) => Ok(Created::Yes),
            // Stores answer 409 or 412, and a 409 may also be a race with another create.
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Ok(Created::Exists),
            Err(error) => Err(self.error(Op::Create, key, error)),
        }
    }

    /// Rewrites the object at `key` only if it is still the writing `version`. Tried once.
    ///
    /// A store without conditional rewrites, such as a local disk, does it in two steps,
    /// a look and a write.
    ///
    /// # Errors
    /// Any failure but an object that moved. After a transient one the write may have
    /// happened all the same.
    pub(crate) async fn replace(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
        version: &Version,
    ) -> Result<Replaced, StoreError> {
        let bytes = bytes.into();
        if let Some(replaced) = self.replace_at_once(key, bytes.clone(), version).await? {
            return Ok(replaced);
        }
        let path = self.writable(Op::Replace, key)?;
        count(&self.0.counters.head, 1);
        let head = self.0.store.head(&path);
        match self.request(Op::Replace, key, head).await {
            Ok(meta) if meta.e_tag != version.e_tag => return Ok(Replaced::Moved),
            Ok(_) => {}
            Err(object_store::Error::NotFound { .. }) => return Ok(Replaced::Moved),
            Err(error) => return Err(self.error(Op::Replace, key, error)),
        }
        let put = self.put_once(&path, &bytes, PutMode::Overwrite);
        self.request(Op::Replace, key, put)
            .await
            .map_err(|error| self.error(Op::Replace, key, error))?;
        Ok(Replaced::Yes)
    }

    /// As [`Root::replace`], in one step; `None` when the store has no conditional rewrites.
    ///
    /// # Errors
    /// As [`Root::replace`].
    pub(crate) async fn replace_at_once(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
        version: &Version,
    ) -> Result<Option<Replaced>, StoreError> {
        let path = self.writable(Op::Replace, key)?;
        let expected = UpdateVersion {
            e_tag: version.e_tag.clone(),
            version: version.version.clone(),
        };
        let bytes = bytes.into();
        let put = self.put_once(&path, &bytes, PutMode::Update(expected));
        match self.request(Op::Replace, key, put).await {
            Ok(()) => Ok(Some(Replaced::Yes)),
            Err(
                object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. },
            ) => Ok(Some(Replaced::Moved)),
            Err(error) if fault::says_unsupported(&error) => Ok(None),
            Err(error) => Err(self.error(Op::Replace, key, error)),
        }
    }

    pub(super) async fn put_once(
        &self,
        path: &Path,
        bytes: &Bytes,
        mode: PutMode,
    ) -> Result<(), object_store::Error> {
        count(&self.0.counters.put, 1);
        let payload = PutPayload::from_bytes(bytes.clone());
        let options = PutOptions::from(mode);
        self.0.store.put_opts(path, payload, options).await?;
        count(&self.0.counters.bytes_written, bytes.len());
        if let Some(journal) = &self.0.journal {
            journal.on_write(self.relative(path));
        }
        Ok(())
    }

    /// Deletes the object at `key`; an absent one is fine.
    ///
    /// # Errors
    /// Any failure; on a read-only root without a request.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.delete_all(vec![key.to_owned()]).await
    }

    fn note_deletion(&self, path: &Path) {
        if let Some(journal) = &self.0.journal {
            journal.on_delete(self.relative(path));
        }
    }

    /// As [`Root::delete`], tried once: a repeated delete may hit what somebody else has
    /// created since.
    ///
    /// # Errors
    /// Any failure; after a transient one the object may be gone all the same.
    pub(crate) async fn delete_once(&self, key: &str) -> Result<(), StoreError> {
        self.with_retry(RetryPolicy::never()).delete(key).await
    }

    /// Deletes the objects at `keys`, in bulk where the store can; absent ones are fine.
    ///
    /// # Errors
    /// The first failure, after every other deletion has been tried.
    pub(crate) async fn delete_all(&self, keys: Vec<String>) -> Result<(), StoreError> {
        for keys in keys.chunks(KEYS_PER_BULK_DELETE) {
            let first = keys.first().map_or("", String::as_str);
            let paths = keys
                .iter()
                .map(|key| self.writable(Op::Delete, key))
                .collect::<Result<Vec<_>, _>>()?;
            let (store, paths) = (&self.0.store, &paths);
            self.attempt(Op::Delete, first, || async move {
                count(&self.0.counters.delete, paths.len());
                let keys = futures::stream::iter(paths.clone()).map(Ok).boxed();
                let mut deleted = store.delete_stream(keys);
                let mut failed = None;
                while let Some(result) = deleted.next().await {
                    match result {
                        Ok(path) => self.note_deletion(&path),
                        Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                failed.map_or(Ok(()), Err)?;
                // Also for what was gone already: whoever deleted it may have been killed
                // before this.
                let paths = paths.clone();
                self.on_disk(move |disk| disk.sync_deleted(&paths)).await
            })
            .await?;
        }
        Ok(())
    }

    /// Deletes what a killed process left of writes of the object at `key` or below it.
    /// Only a local disk has such, and no listing shows it. Nothing may be writing there.
    ///
    /// # Errors
    /// Any failure; on a read-only root without a request.
    pub(crate) async fn delete_staged(&self, key: &str) -> Result<(), StoreError> {
        let path = self.writable(Op::Delete, key)?;
        self.attempt(Op::Delete, key, || {
            let path = path.clone();
            self.on_disk(move |disk| disk.delete_staged(&path))
        })
        .await
    }

    /// Does `work` when the root is on a local disk, off the threads that wait.
    async fn on_disk(
        &self,
        work: impl FnOnce(&Disk) -> io::Result<()> + Send + 'static,
    ) -> Result<(), object_store::Error> {
        let Some(disk) = self.0.origin.disk().cloned() else {
            return Ok(());
        };
        let done = tokio::task::spawn_blocking(move || work(&disk)).await;
        done?.map_err(|source| object_store::Error::Generic {
            store: "local disk",
            source: source.into(),
        })
    }
}
