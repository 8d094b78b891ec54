//! Reads objects, whole or in ranges.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    GetRange, GetResult, GetResultPayload, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta,
    ObjectStoreExt, coalesce_ranges,
};

use super::body::Body;
use super::error::present;
use super::tally::count;
use super::{Op, Root, StoreError, fault};

/// Which writing of an object this is, as far as the store tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// The entity tag.
    pub e_tag: Option<String>,
    /// The generation or version id.
    pub version: Option<String>,
}

/// An object's bytes and which writing of it they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Versioned {
    /// All its bytes.
    pub bytes: Bytes,
    /// Which writing of it.
    pub version: Version,
}

impl Root {
    /// The whole object at `key`.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub(crate) async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        Ok(self.get_with_version(key).await?.bytes)
    }

    /// The whole object at `key`, or `None` when the store says it is not there, and
    /// only then.
    ///
    /// # Errors
    /// Any failure but an absent object.
    pub(crate) async fn get_if_present(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        present(self.get(key).await)
    }

    /// The whole object at `key` and which writing of it that is.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub(crate) async fn get_with_version(&self, key: &str) -> Result<Versioned, StoreError> {
        let (meta, bytes) = self.fetch(key, None).await?;
        Ok(Versioned {
            bytes,
            version: Version {
                e_tag: meta.e_tag,
                version: meta.version,
            },
        })
    }

    /// `ranges` of the object at `key`, in the order asked for. Neighbours less than
    /// 1 MiB apart are read in one request; ten requests run at once.
    ///
    /// # Errors
    /// Any failure. A range that ends past the object is one, too.
    pub(crate) async fn get_ranges(
        &self,
        key: &str,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, StoreError> {
        let fetched = coalesce_ranges(
            ranges,
            |range| async move {
                let (_, bytes) = self.fetch(key, Some(GetRange::Bounded(range))).await?;
                Ok::<_, StoreError>(bytes)
            },
            OBJECT_STORE_COALESCE_DEFAULT,
        )
        .await;
        let parts = match fetched {
            Err(error) if is_unsupported(&error) => {
                // A plain file server may know no ranges at all.
                let whole = self.get(key).await?;
                ranges.iter().map(|range| slice(&whole, range)).collect()
            }
            fetched => fetched?,
        };
        for (part, range) in parts.iter().zip(ranges) {
            if part.len() as u64 != range.end.saturating_sub(range.start) {
                let reason = format!("bytes {}..{} reach past its end", range.start, range.end);
                return Err(self.error(Op::Read, key, generic(reason)));
            }
        }
        Ok(parts)
    }

    /// The last `n` bytes of the object at `key`, all of it when it is shorter, and its
    /// whole size.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub(crate) async fn get_suffix(&self, key: &str, n: u64) -> Result<(Bytes, u64), StoreError> {
        if n == 0 {
            return Ok((Bytes::new(), self.size(key).await?));
        }
        match self.fetch(key, Some(GetRange::Suffix(n))).await {
            Ok((meta, bytes)) => return Ok((bytes, meta.size)),
            Err(error) if is_unsupported(&error) => {}
            Err(error) => return Err(error),
        }
        // Azure takes ranges only from the front, a plain file server none at all.
        let size = self.size(key).await?;
        let start = size.saturating_sub(n);
        if size == 0 {
            return Ok((Bytes::new(), 0));
        }
        let tail = start..size;
        let mut parts = self.get_ranges(key, std::slice::from_ref(&tail)).await?;
        Ok((parts.pop().unwrap_or_default(), size))
    }

    /// The first `n` bytes of the object at `key`, all of it when it is shorter, and its
    /// whole size.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub(crate) async fn get_prefix(&self, key: &str, n: u64) -> Result<(Bytes, u64), StoreError> {
        let size = self.size(key).await?;
        if size == 0 {
            return Ok((Bytes::new(), 0));
        }
        let head = 0..n.min(size);
        let mut parts = self.get_ranges(key, std::slice::from_ref(&head)).await?;
        Ok((parts.pop().unwrap_or_default(), size))
    }

    /// How many bytes the object at `key` has.
    async fn size(&self, key: &str) -> Result<u64, StoreError> {
        Ok(self.meta(key).await?.size)
    }

    /// When the object at `key` was written, by the store's clock, in whole seconds since
    /// 1970.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub(crate) async fn last_modified(&self, key: &str) -> Result<i64, StoreError> {
        Ok(self.meta(key).await?.last_modified.timestamp())
    }

    async fn meta(&self, key: &str) -> Result<ObjectMeta, StoreError> {
        let path = self.path(Op::Head, key)?;
        let (store, path) = (&self.0.store, &path);
        self.attempt(Op::Head, key, || async move {
            count(&self.0.counters.head, 1);
            store.head(path).await
        })
        .await
    }

    /// The metadata and the bytes of an object or a range of it. A body that breaks off is
    /// gone on with where it broke, as long as the object is the same writing.
    async fn fetch(
        &self,
        key: &str,
        range: Option<GetRange>,
    ) -> Result<(ObjectMeta, Bytes), StoreError> {
        let path = self.path(Op::Read, key)?;
        let arrived = Mutex::new(Body::new(range));
        let (path, arrived) = (&path, &arrived);
        self.attempt(Op::Read, key, || async move {
            let lock = || arrived.lock().unwrap_or_else(PoisonError::into_inner);
            let mut body = lock().take();
            let read = self.go_on(path, &mut body).await;
            match read {
                Ok(meta) => Ok((meta, body.join())),
                Err(error) => {
                    *lock() = body;
                    Err(error)
                }
            }
        })
        .await
    }

    /// Reads what is missing of a body.
    async fn go_on(&self, path: &Path, body: &mut Body) -> Result<ObjectMeta, object_store::Error> {
        count(&self.0.counters.get, 1);
        let found = match self.0.store.get_opts(path, body.options()).await {
            Err(object_store::Error::Precondition { .. }) if body.has_begun() => {
                // Another writing: nothing that arrived is of any use.
                body.start_over();
                count(&self.0.counters.get, 1);
                self.0.store.get_opts(path, body.options()).await?
            }
            found => found?,
        };
        let meta = found.meta.clone();
        body.expect(&found)?;
        let read = self.read_into(body, found).await;
        match body.check() {
            // Whatever befell the connection after the last byte.
            Ok(()) => Ok(meta),
            Err(incomplete) => Err(read.err().unwrap_or(incomplete)),
        }
    }

    async fn read_into(
        &self,
        body: &mut Body,
        found: GetResult,
    ) -> Result<(), object_store::Error> {
        let is_stream = matches!(found.payload, GetResultPayload::Stream(_));
        // A file is read at once, and is there or not.
        let mut parts = match is_stream {
            true => found.into_stream(),
            false => stream::once(found.bytes()).boxed(),
        };
        while let Some(part) = parts.try_next().await? {
            count(&self.0.counters.bytes_read, part.len());
            body.push(part);
        }
        Ok(())
    }
}

fn is_unsupported(error: &StoreError) -> bool {
    fault::says_unsupported(&error.source)
}

fn slice(whole: &Bytes, range: &Range<u64>) -> Bytes {
    let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(whole.len());
    let (start, end) = (clamp(range.start), clamp(range.end));
    whole.slice(start..end.max(start))
}

fn generic(reason: String) -> object_store::Error {
    object_store::Error::Generic {
        store: "object",
        source: reason.into(),
    }
}
