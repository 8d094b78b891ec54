//! An object store that fails, stalls or panics when its script says so.
//!
//! ```ignore
//! // The second stamp is refused, and nothing else.
//! let stamp = Rule::on([Op::Put]).key_ends_with(".pyramid.zarr/zarr.json").nth(2);
//! let store = FaultStore::new(inner, [stamp.fail(Failure::Denied)]);
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

/// A class of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Op {
    /// A whole object is written.
    Put,
    /// A multipart upload begins.
    PutMultipart,
    /// A multipart upload becomes an object.
    CompleteMultipart,
    /// An object, or one range of it, is read.
    Get,
    /// The metadata of an object is read.
    Head,
    /// Several ranges of an object are read.
    GetRanges,
    /// One object is deleted.
    Delete,
    /// A prefix is listed to the bottom.
    List,
    /// A prefix is listed one level deep.
    ListWithDelimiter,
    /// An object is copied; the key is the source's.
    Copy,
    /// An object is renamed; the key is the source's.
    Rename,
}

impl Op {
    /// Every class.
    pub(crate) const ALL: [Self; 11] = [
        Self::Put,
        Self::PutMultipart,
        Self::CompleteMultipart,
        Self::Get,
        Self::Head,
        Self::GetRanges,
        Self::Delete,
        Self::List,
        Self::ListWithDelimiter,
        Self::Copy,
        Self::Rename,
    ];

    /// The classes that change a store.
    pub(crate) const WRITES: [Self; 6] = [
        Self::Put,
        Self::PutMultipart,
        Self::CompleteMultipart,
        Self::Delete,
        Self::Copy,
        Self::Rename,
    ];

    fn has_a_body(self) -> bool {
        matches!(self, Self::Get | Self::GetRanges)
    }
}

/// What a call fails with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// 403.
    Denied,
    /// 401: credentials that are missing or have expired.
    Unauthenticated,
    /// 404.
    NotFound,
    /// 412.
    Precondition,
    /// A conditional create that came too late.
    AlreadyExists,
    /// Any other status, worded as object_store words it once its own tries are spent.
    Status(u16),
}

impl Failure {
    fn error(self, key: &str) -> Error {
        let (path, source) = (key.to_owned(), format!("{self:?} by script").into());
        match self {
            Self::Denied => Error::PermissionDenied { path, source },
            Self::Unauthenticated => Error::Unauthenticated { path, source },
            Self::NotFound => Error::NotFound { path, source },
            Self::Precondition => Error::Precondition { path, source },
            Self::AlreadyExists => Error::AlreadyExists { path, source },
            Self::Status(status) => Error::Generic {
                store: "FaultStore",
                source: format!(
                    "Server returned non-2xx status code: {status} {}: ",
                    reason(status)
                )
                .into(),
            },
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "by script",
    }
}

#[derive(Debug, Clone, Copy)]
enum Effect {
    Nothing,
    Fail(Failure),
    Stall(Duration),
    Panic,
    Truncate(usize),
    Park(&'static str),
}

#[derive(Debug, Clone, Copy)]
enum Turns {
    Every,
    Nth(u64),
    First(u64),
    From(u64),
}

impl Turns {
    fn include(self, turn: u64) -> bool {
        match self {
            Self::Every => true,
            Self::Nth(nth) => turn == nth,
            Self::First(last) => turn <= last,
            Self::From(first) => turn >= first,
        }
    }
}

/// One line of a script: which calls, which of them in turn, and what befalls them.
pub(crate) struct Rule {
    ops: Vec<Op>,
    key: Box<dyn Fn(&str) -> bool + Send + Sync>,
    turns: Turns,
    lands: bool,
    effect: Effect,
    matched: AtomicU64,
}

impl Rule {
    /// A rule for calls of these classes, whatever the key, every time.
    pub(crate) fn on(ops: impl IntoIterator<Item = Op>) -> Self {
        Self {
            ops: ops.into_iter().collect(),
            key: Box::new(|_| true),
            turns: Turns::Every,
            lands: false,
            effect: Effect::Nothing,
            matched: AtomicU64::new(0),
        }
    }

    /// Only keys of which this holds.
    pub(crate) fn key(mut self, holds: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.key = Box::new(holds);
        self
    }

    /// Only keys with this in them.
    pub(crate) fn key_contains(self, part: &str) -> Self {
        let part = part.to_owned();
        self.key(move |key| key.contains(&part))
    }

    /// Only keys with this end.
    pub(crate) fn key_ends_with(self, end: &str) -> Self {
        let end = end.to_owned();
        self.key(move |key| key.ends_with(&end))
    }

    /// Only the `nth` call that fits, the first being 1.
    pub(crate) fn nth(mut self, nth: u64) -> Self {
        self.turns = Turns::Nth(nth);
        self
    }

    /// Only the first `calls` calls that fit.
    pub(crate) fn first(mut self, calls: u64) -> Self {
        self.turns = Turns::First(calls);
        self
    }

    /// Only the `nth` call that fits and all later ones.
    pub(crate) fn from(mut self, nth: u64) -> Self {
        self.turns = Turns::From(nth);
        self
    }

    /// The store does what it is asked; what befalls the call befalls its answer.
    pub(crate) fn lands(mut self) -> Self {
        self.lands = true;
        self
    }

    /// The call fails.
    pub(crate) fn fail(self, failure: Failure) -> Self {
        self.effect(Effect::Fail(failure))
    }

    /// The call takes this much longer.
    pub(crate) fn stall(self, delay: Duration) -> Self {
        self.effect(Effect::Stall(delay))
    }

    /// The call panics.
    pub(crate) fn panic(self) -> Self {
        self.effect(Effect::Panic)
    }

    /// A body, and each of several ranges, ends after `num_bytes`.
    pub(crate) fn truncate(self, num_bytes: usize) -> Self {
        self.effect(Effect::Truncate(num_bytes))
    }

    /// The call prints `marker` on a line of stdout and never returns, so that whoever
    /// reads the line can kill the process at a known place.
    pub(crate) fn park(self, marker: &'static str) -> Self {
        self.effect(Effect::Park(marker))
    }

    fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// What befalls this call, if anything.
    fn strikes(&self, op: Op, key: &str) -> Option<Effect> {
        if !self.ops.contains(&op) || !(self.key)(key) {
            return None;
        }
        if matches!(self.effect, Effect::Truncate(_)) && !op.has_a_body() {
            return None;
        }
        let turn = self.matched.fetch_add(1, Ordering::SeqCst) + 1;
        self.turns.include(turn).then_some(self.effect)
    }
}

/// What befalls the answer of a call.
#[derive(Default)]
struct Fate {
    effects: Vec<Effect>,
    key: String,
}

impl Fate {
    async fn of_the_answer(&self) -> Result<()> {
        for effect in &self.effects {
            suffer(*effect, &self.key).await?;
        }
        Ok(())
    }

    fn cut(&self, bytes: Bytes) -> Bytes {
        self.limit()
            .map_or(bytes.clone(), |limit| bytes.slice(..bytes.len().min(limit)))
    }

    fn limit(&self) -> Option<usize> {
        self.effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Truncate(num_bytes) => Some(*num_bytes),
                _ => None,
            })
            .min()
    }
}

async fn suffer(effect: Effect, key: &str) -> Result<()> {
    match effect {
        Effect::Nothing | Effect::Truncate(_) => Ok(()),
        Effect::Fail(failure) => Err(failure.error(key)),
        Effect::Stall(delay) => {
            tokio::time::sleep(delay).await;
            Ok(())
        }
        Effect::Panic => panic!("panic by script at `{key}`"),
        Effect::Park(marker) => {
            let mut stdout = std::io::stdout();
            writeln!(stdout, "{marker} {key}").unwrap();
            stdout.flush().unwrap();
            std::future::pending().await
        }
    }
}

/// A read of an object, or of a range of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Read {
    /// The object.
    pub(crate) key: String,
    /// The range; `None` for the whole object.
    pub(crate) range: Option<GetRange>,
}

#[derive(Default)]
struct Script {
    rules: Vec<Rule>,
    reads: Mutex<Vec<Read>>,
    calls: Mutex<BTreeMap<(Op, String), u64>>,
    fired: AtomicU64,
}

impl Script {
    /// Counts the call and lets befall it what comes before the store hears of it.
    async fn before(&self, op: Op, key: &str) -> Result<Fate> {
        *self.tally().entry((op, key.to_owned())).or_default() += 1;
        let mut fate = Fate {
            key: key.to_owned(),
            ..Fate::default()
        };
        for rule in &self.rules {
            let Some(effect) = rule.strikes(op, key) else {
                continue;
            };
            self.fired.fetch_add(1, Ordering::SeqCst);
            if rule.lands || matches!(effect, Effect::Truncate(_)) {
                fate.effects.push(effect);
            } else {
                suffer(effect, key).await?;
            }
        }
        Ok(fate)
    }

    /// As with [`Script::tally`].
    fn reads(&self) -> MutexGuard<'_, Vec<Read>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A panic by script may poison the lock and leaves the counts right.
    fn tally(&self) -> MutexGuard<'_, BTreeMap<(Op, String), u64>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store behind a script. Clones share the script and its counts.
#[derive(Clone)]
pub(crate) struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    script: Arc<Script>,
}

impl FaultStore {
    /// `inner`, behind `rules`, each of which sees every call.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            inner,
            script: Arc::new(Script {
                rules: rules.into_iter().collect(),
                ..Script::default()
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
        self.script
            .tally()
            .iter()
            .filter(|((called, key), _)| *called == op && holds(key))
            .map(|(_, calls)| calls)
            .sum()
    }

    /// Every call, by class and key.
    pub(crate) fn tally(&self) -> BTreeMap<(Op, String), u64> {
        self.script.tally().clone()
    }

    /// Every read of an object, in the order it was asked for.
    pub(crate) fn reads(&self) -> Vec<Read> {
        self.script.reads().clone()
    }

    /// How often a rule struck.
    pub(crate) fn fired(&self) -> u64 {
        self.script.fired.load(Ordering::SeqCst)
    }

    /// A listing that the script may keep from starting, or end with an error.
    fn scripted_list<T: Send + 'static>(
        &self,
        prefix: Option<&Path>,
        list: impl FnOnce(&dyn ObjectStore) -> BoxStream<'static, Result<T>> + Send + 'static,
    ) -> BoxStream<'static, Result<T>> {
        let (inner, script) = (Arc::clone(&self.inner), Arc::clone(&self.script));
        let prefix = key_of(prefix);
        async move {
            let fate = match script.before(Op::List, &prefix).await {
                Ok(fate) => fate,
                Err(error) => return stream::iter([Err(error)]).boxed(),
            };
            let end = async move { fate.of_the_answer().await.err().map(Err) };
            let end = end.into_stream().filter_map(std::future::ready);
            list(inner.as_ref()).chain(end).boxed()
        }
        .into_stream()
        .flatten()
        .boxed()
    }
}

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
        let fate = self.script.before(Op::Put, location.as_ref()).await?;
        // That it is refused is an answer like any other.
        let result = self.inner.put_opts(location, payload, opts).await;
        fate.of_the_answer().await?;
        result
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let fate = self
            .script
            .before(Op::PutMultipart, location.as_ref())
            .await?;
        let upload = self.inner.put_multipart_opts(location, opts).await?;
        fate.of_the_answer().await?;
        Ok(Box::new(FaultUpload {
            upload,
            script: Arc::clone(&self.script),
            key: location.as_ref().to_owned(),
        }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let op = if options.head { Op::Head } else { Op::Get };
        if op == Op::Get {
            self.script.reads().push(Read {
                key: location.as_ref().to_owned(),
                range: options.range.clone(),
            });
        }
        let fate = self.script.before(op, location.as_ref()).await?;
        let result = self.inner.get_opts(location, options).await?;
        fate.of_the_answer().await?;
        if fate.limit().is_none() {
            return Ok(result);
        }
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let (attributes, extensions) = (result.attributes.clone(), result.extensions.clone());
        let body = fate.cut(result.bytes().await?);
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::iter([Ok(body)]).boxed()),
            meta,
            range,
            attributes,
            extensions,
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let fate = self.script.before(Op::GetRanges, location.as_ref()).await?;
        let bodies = self.inner.get_ranges(location, ranges).await?;
        fate.of_the_answer().await?;
        Ok(bodies.into_iter().map(|body| fate.cut(body)).collect())
    }

    /// Deletes one by one, so that each object has its own turn.
    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let (inner, script) = (Arc::clone(&self.inner), Arc::clone(&self.script));
        locations
            .then(move |location| {
                let (inner, script) = (Arc::clone(&inner), Arc::clone(&script));
                async move {
                    let location = location?;
                    let fate = script.before(Op::Delete, location.as_ref()).await?;
                    // That there was nothing to delete is an answer like any other.
                    let deleted = inner.delete(&location).await;
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
            .script
            .before(Op::ListWithDelimiter, &key_of(prefix))
            .await?;
        let result = self.inner.list_with_delimiter(prefix).await?;
        fate.of_the_answer().await?;
        Ok(result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fate = self.script.before(Op::Copy, from.as_ref()).await?;
        self.inner.copy_opts(from, to, options).await?;
        fate.of_the_answer().await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let fate = self.script.before(Op::Rename, from.as_ref()).await?;
        self.inner.rename_opts(from, to, options).await?;
        fate.of_the_answer().await
    }
}

/// An upload whose end the script has a say in.
struct FaultUpload {
    upload: Box<dyn MultipartUpload>,
    script: Arc<Script>,
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
        let fate = self.script.before(Op::CompleteMultipart, &self.key).await?;
        let result = self.upload.complete().await?;
        fate.of_the_answer().await?;
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}
