//! Lists what stands under a prefix.

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;

use super::tally::count;
use super::{Op, Root, StoreError};
use crate::error::FaultKind;

/// One listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Key relative to the root.
    pub key: String,
    /// Its bytes.
    pub size: u64,
    /// Whole seconds since 1970, by the store's clock.
    pub last_modified: i64,
    /// Its entity tag, where the store lists it.
    pub e_tag: Option<String>,
}

impl Entry {
    /// The last part of the key.
    pub(crate) fn name(&self) -> &str {
        file_name(&self.key)
    }
}

/// What stands directly under a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shallow {
    /// The objects.
    pub objects: Vec<Entry>,
    /// The next deeper prefixes, as keys without a trailing slash.
    pub prefixes: Vec<String>,
}

type Listing = BoxStream<'static, Result<ObjectMeta, object_store::Error>>;

impl Root {
    /// Every object under `prefix`, at any depth; `prefix` ends at a slash even when it
    /// is written without.
    ///
    /// A listing that breaks off goes on after the last key, on the stores that list in
    /// key order; elsewhere it is tried again only while it has given nothing.
    pub(crate) fn list(&self, prefix: &str) -> BoxStream<'static, Result<Entry, StoreError>> {
        let root = self.clone();
        let prefix = prefix.to_owned();
        async_stream::try_stream! {
            let path = root.path(Op::List, &prefix)?;
            let mut last: Option<Path> = None;
            loop {
                // Each opening is a retry of its own, so a long listing is not held to
                // the time of one request.
                let (mut page, first) = root.open_listing(&prefix, &path, last.as_ref()).await?;
                let mut next = first;
                let broken = loop {
                    match next {
                        None => break None,
                        Some(Ok(meta)) => {
                            last = Some(meta.location.clone());
                            yield root.entry(meta);
                        }
                        Some(Err(error)) => break Some(error),
                    }
                    next = page.next().await;
                };
                let Some(error) = broken else { break };
                let error = root.error(Op::List, &prefix, error);
                if !(root.0.origin.lists_in_order() && error.kind().is_transient()) {
                    Err(error)?;
                } else {
                    root.0.counters.on_retry(error.kind());
                    if error.kind() == FaultKind::Throttled {
                        root.0.pacing.turn().await.throttled(&prefix);
                    }
                    tracing::warn!(key = prefix, error = %error, "listing broke off, going on");
                }
            }
        }
        .boxed()
    }

    /// Starts a listing and waits for its first object, trying again until that worked.
    async fn open_listing(
        &self,
        key: &str,
        path: &Path,
        after: Option<&Path>,
    ) -> Result<(Listing, Option<Result<ObjectMeta, object_store::Error>>), StoreError> {
        let prefix = (!path.is_root()).then_some(path);
        self.attempt(Op::List, key, || async move {
            count(&self.0.counters.list, 1);
            let mut listing = match after {
                Some(after) => self.0.store.list_with_offset(prefix, after),
                None => self.0.store.list(prefix),
            };
            let first = listing.next().await.transpose()?;
            Ok((listing, first.map(Ok)))
        })
        .await
    }

    /// Every key under `prefix`, for small subtrees.
    ///
    /// # Errors
    /// Any failure of the listing.
    pub(crate) async fn list_keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.list(prefix)
            .map_ok(|entry| entry.key)
            .try_collect()
            .await
    }

    /// What stands directly under `prefix`, sorted by key. A prefix that is not there
    /// is empty.
    ///
    /// # Errors
    /// Any failure; an http server that cannot list is one.
    pub(crate) async fn list_shallow(&self, prefix: &str) -> Result<Shallow, StoreError> {
        let path = self.path(Op::List, prefix)?;
        let path = (!path.is_root()).then_some(&path);
        let listed = self
            .attempt(Op::List, prefix, || async move {
                count(&self.0.counters.list, 1);
                self.0.store.list_with_delimiter(path).await
            })
            .await?;
        let mut shallow = Shallow {
            objects: listed
                .objects
                .into_iter()
                .map(|meta| self.entry(meta))
                .collect(),
            prefixes: listed
                .common_prefixes
                .iter()
                .map(|path| self.relative(path))
                .collect(),
        };
        shallow.objects.sort_by(|a, b| a.key.cmp(&b.key));
        shallow.prefixes.sort();
        Ok(shallow)
    }

    fn entry(&self, meta: ObjectMeta) -> Entry {
        Entry {
            key: self.relative(&meta.location),
            size: meta.size,
            last_modified: meta.last_modified.timestamp(),
            e_tag: meta.e_tag,
        }
    }
}

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
