//! The store behind a script.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    RenameOptions, Result, UploadPart,
};

use super::op::Op;
use super::rule::Rule;
use super::script::{Fate, Script};
use super::tally::Tally;

/// A read of an object, or of a range of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Read {
    /// The object.
    pub(crate) key: String,
    /// The range; `None` for the whole object.
    pub(crate) range: Option<GetRange>,
}

#[derive(Default)]
struct Watch {
    script: Script,
    calls: Tally,
    reads: Mutex<Vec<Read>>,
}

impl Watch {
    /// Counts the call and lets befall it what comes before the store hears of it.
    async fn before(&self, op: Op, key: &str) -> Result<Fate> {
        self.calls.call(op, key);
        let fate = self.script.fate(op, key);
        fate.of_the_question().await?;
        Ok(fate)
    }

    /// A panic by script may poison the lock and leaves the list whole.
    fn reads(&self) -> MutexGuard<'_, Vec<Read>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the store says of a write that it forgets.
fn forgotten() -> PutResult {
    PutResult {
        e_tag: Some("forgotten".to_owned()),
        version: None,
        extensions: object_store::Extensions::default(),
    }
}

/// A store behind a script. Clones share the script and its counts.
#[derive(Clone)]
pub(crate) struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    watch: Arc<Watch>,
}

impl FaultStore {
    /// `inner`, behind `rules`, each of which sees every call.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            inner,
            watch: Arc::new(Watch {
                script: Script::new(rules),
                ..Watch::default()
            }),
        }
    }

    /// The store behind the script.
    pub(crate) fn unspoilt(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner)
    }

    /// How many calls of a class were made, failed ones included.
    pub(crate) fn calls(&self, op: Op) -> u64 {
        self.calls_where(op, |_| true)
    }

    /// How many calls of a class were made for one key.
    pub(crate) fn calls_of(&self, op: Op, key: &str) -> u64 {
        self.calls_where(op, |called| called == key)
    }

    /// How many calls of a class were made for keys of which this holds.
    pub(crate) fn calls_where(&self, op: Op, holds: impl Fn(&str) -> bool) -> u64 {
        self.watch.calls.of(op, holds).calls
    }

    /// Every call, by class and key.
    pub(crate) fn tally(&self) -> BTreeMap<(Op, String), u64> {
        let counts = self.watch.calls.counts();
        counts
            .into_iter()
            .map(|(of, count)| (of, count.calls))
            .collect()
    }

    /// Every read of an object, in the order it was asked for.
    pub(crate) fn reads(&self) -> Vec<Read> {
        self.watch.reads().clone()
    }

    /// How often a rule struck.
    pub(crate) fn fired(&self) -> u64 {
        self.watch.script.fired()
    }

    /// A listing that the script may keep from starting, or end with an error.
    fn scripted_list(
        &self,
        prefix: Option<&Path>,
        list: impl FnOnce(&dyn ObjectStore) -> Listing + Send + 'static,
    ) -> Listing {
        let (inner, watch) = (Arc::clone(&self.inner), Arc::clone(&self.watch));
        let prefix = key_of(prefix);
        async move {
            let fate = match watch.before(Op::List, &prefix).await {
                Ok(fate) => fate,
                Err(error) => return stream::iter([Err(error)]).boxed(),
            };
            let listing = fate.listing(list(inner.as_ref())).await;
            let end = async move { fate.of_the_answer().await.err().map(Err) };
            let end = end.into_stream().filter_map(std::future::ready);
            listing.chain(end).boxed()
        }
        .into_stream()
        .flatten()
        .boxed()
    }
}

type Listing = BoxStream<'static, Result<ObjectMeta>>;

fn key_of(prefix: Option<&Path>) -> String {
    prefix
        .map(|prefix| prefix.as_ref().to_owned())
        .unwrap_or_default()
}

impl fmt::Debug for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStore")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for FaultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultStore({})", self.inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for FaultStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        let fate = self.watch.before(Op::Put, location.as_ref()).await?;
        let result = match fate.is_forgotten() {
            true => Ok(forgotten()),
            // That it is refused is an answer like any other.
            false => self.inner.put_opts(location, payload, opts).await,
        };
        fate.of_the_answer().await?;
        result
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let fate = self
            .watch
            .before(Op::PutMultipart, location.as_ref())
            .await?;
        let upload = self.inner.put_multipart_opts(location, opts).await?;
        fate.of_the_answer().await?;
        Ok(Box::new(FaultUpload {
            upload,
            watch: Arc::clone(&self.watch),
            key: location.as_ref().to_owned(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let op = if options.head { Op::Head } else { Op::Get };
        if op == Op::Get {
            self.watch.reads().push(Read {
                key: location.as_ref().to_owned(),
                range: options.range.clone(),
            });
        }
        let fate = self.watch.before(op, location.as_ref()).await?;
        let result = self.inner.get_opts(location, options).await?;
        fate.of_the_answer().await?;
        fate.body(result).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let fate = self.watch.before(Op::GetRanges, location.as_ref()).await?;
        let bodies = self.inner.get_ranges(location, ranges).await?;
        fate.of_the_answer().await?;
        fate.bodies(bodies)
    }

    /// Deletes one by one, so that each object has its own turn.
    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, watch) = (Arc::clone(&self.inner), Arc::clone(&self.watch));
        locations
            .then(move |location| {
                let (inner, watch) = (Arc::clone(&inner), Arc::clone(&watch));
                async move {
                    let location = location?;
                    let fate = watch.before(Op::Delete, location.as_ref()).await?;
                    // That there was nothing to delete is an answer like any other.
                    let deleted = match fate.is_forgotten() {
                        true => Ok(()),
                        false => inner.delete(&location).await,
                    };
                    fate.of_the_answer().await?;
                    deleted.map(|()| location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let below = prefix.cloned();
        self.scripted_list(prefix, move |inner| inner.list(below.as_ref()))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (below, offset) = (prefix.cloned(), offset.clone());
        self.scripted_list(prefix, move |inner| {
            inner.list_with_offset(below.as_ref(), &offset)
        })
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let fate = self
            .watch
            .before(Op::ListWithDelimiter, &key_of(prefix))
            .await?;
        let result = self.inner.list_with_delimiter(prefix).await?;
        fate.of_the_answer().await?;
        Ok(fate.shallow(result))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fate = self.watch.before(Op::Copy, from.as_ref()).await?;
        if !fate.is_forgotten() {
            self.inner.copy_opts(from, to, options).await?;
        }
        fate.of_the_answer().await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let fate = self.watch.before(Op::Rename, from.as_ref()).await?;
        if !fate.is_forgotten() {
            self.inner.rename_opts(from, to, options).await?;
        }
        fate.of_the_answer().await
    }
}

/// An upload whose end the script has a say in.
struct FaultUpload {
    upload: Box<dyn MultipartUpload>,
    watch: Arc<Watch>,
    key: String,
}

impl fmt::Debug for FaultUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultUpload")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fate = self.watch.before(Op::CompleteMultipart, &self.key).await?;
        let result = match fate.is_forgotten() {
            true => forgotten(),
            false => self.upload.complete().await?,
        };
        fate.of_the_answer().await?;
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
