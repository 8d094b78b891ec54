//! The root of one store: where it is, what may be asked of it, and what was asked.
//!
//! Keys are paths relative to the root, `1/1/2/11213.zarr/zarr.json`, and mean exactly
//! those characters: nothing is percent-encoded on the way, so that a store written
//! here and one written by the reference writer have the same names.
//!
//! Requests that may be repeated are tried again under the root's [`RetryPolicy`];
//! the client underneath never retries, or the two would multiply. The exceptions are
//! [`Root::create`], [`Root::replace`] and [`Root::delete_once`]: a lost answer to
//! those may hide a success, and only the caller can read back whose object is there.

use std::fmt;
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    ClientOptions, GetOptions, GetRange, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig, UpdateVersion, coalesce_ranges,
};
use serde::Serialize;
use url::Url;

use super::retry::{Fault, RetryPolicy, retry};
use crate::error::FaultKind;

mod fault;

/// One S3 bulk delete carries at most this many keys, and one deletion is spread over
/// requests of this size wherever the store has them.
const KEYS_PER_BULK_DELETE: usize = 1000;

/// Longest wait for one whole request; a large shard object over a slow line needs minutes.
const REQUEST_TIMEOUT: &str = "300 seconds";

/// Longest wait for the next byte, so that a dead connection is seen long before that.
const READ_TIMEOUT: &str = "30 seconds";

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
    /// Listing the root is refused or not possible.
    #[error(
        "store root `{url}` cannot be listed: {reason}; the run records are found by listing, so give \
         credentials that may list, or a server that answers PROPFIND when the root is http"
    )]
    CannotList {
        /// The root as it was given.
        url: String,
        /// What the store said.
        reason: String,
        /// What kind of fault that was.
        kind: FaultKind,
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
    /// The client for this kind of store could not be set up.
    #[error("no client for store root `{url}`: {reason}; check the options and credentials for it")]
    Client {
        /// The root as it was given.
        url: String,
        /// What the client library said.
        reason: String,
    },
}

impl RootError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Absent { .. } | Self::IsAFile { .. } => FaultKind::NotFound,
            Self::CannotList { kind, .. } => *kind,
            Self::UnsupportedScheme { .. } | Self::Invalid { .. } | Self::Client { .. } => {
                FaultKind::Denied
            }
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
    fn is_write(self) -> bool {
        matches!(
            self,
            Self::Write | Self::Create | Self::Replace | Self::Delete
        )
    }

    fn verb(self) -> &'static str {
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
/// offer them a second time; they stand in [`StoreError::source`] the field.
#[derive(Debug)]
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
            "" => write!(f, "could not {verb} `{root}`: {}", self.source),
            key => write!(
                f,
                "could not {verb} `{key}` under `{root}`: {}",
                self.source
            ),
        }
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

/// One listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key relative to the root.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// Whole seconds since 1970, by the store's clock.
    pub last_modified: i64,
}

impl Entry {
    /// The last part of the key.
    pub fn name(&self) -> &str {
        file_name(&self.key)
    }
}

/// What stands directly under a prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shallow {
    /// The objects.
    pub objects: Vec<Entry>,
    /// The next deeper prefixes, as keys without a trailing slash.
    pub prefixes: Vec<String>,
}

/// Which writing of an object this is, as far as the store tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The entity tag.
    pub e_tag: Option<String>,
    /// The generation or version id.
    pub version: Option<String>,
    /// Whole seconds since 1970, by the store's clock.
    pub last_modified: i64,
}

/// An object's bytes and which writing of it they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// All its bytes.
    pub bytes: Bytes,
    /// Which writing of it.
    pub version: Version,
}

/// Outcome of a conditional create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The object is there now and was not before.
    Yes,
    /// An object was there already and still is. It may also be this caller's own, from
    /// an earlier try whose answer was lost.
    Exists,
}

/// Outcome of a conditional rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The object was rewritten.
    Yes,
    /// The object is gone or is another writing than the one that was read.
    Moved,
}

/// Requests made and bytes moved so far, retries included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// GET requests, one per merged range.
    pub get: u64,
    /// HEAD requests.
    pub head: u64,
    /// PUT requests.
    pub put: u64,
    /// LIST calls; a store pages long ones, which is not seen here.
    pub list: u64,
    /// Keys whose deletion was asked for.
    pub delete: u64,
    /// Body bytes received.
    pub bytes_read: u64,
    /// Body bytes sent.
    pub bytes_written: u64,
    /// Requests tried again because the store asked for fewer.
    pub throttled: u64,
    /// Requests tried again for any reason.
    pub retried: u64,
}

impl Tally {
    /// Requests of all classes.
    pub fn requests(&self) -> u64 {
        self.get + self.head + self.put + self.list + self.delete
    }
}

#[derive(Debug, Default)]
struct Counters {
    get: AtomicU64,
    head: AtomicU64,
    put: AtomicU64,
    list: AtomicU64,
    delete: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    throttled: AtomicU64,
    retried: AtomicU64,
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Counters {
    fn on_retry(&self, kind: FaultKind) {
        count(&self.retried, 1);
        if kind == FaultKind::Throttled {
            count(&self.throttled, 1);
        }
    }
}

/// What a client was built from, so that a second one can be.
#[derive(Clone)]
enum Origin {
    Local(PathBuf),
    Remote(Remote),
    Given,
}

#[derive(Clone)]
struct Remote {
    scheme: Scheme,
    /// The address without the base path: `s3://bucket`, `https://host`.
    address: String,
    options: Arc<[(String, String)]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    S3,
    Gcs,
    Azure,
    Http,
}

#[derive(Clone)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    /// Path of the root inside the store, without slashes at its ends.
    base: String,
    url: String,
    origin: Origin,
    counters: Arc<Counters>,
    retry: RetryPolicy,
}

/// The root of one store. Clones share the client and the tally.
#[derive(Clone)]
pub struct Root(Arc<Inner>);

impl fmt::Debug for Root {
    // The options may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Root").field(&self.0.url).finish()
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.url)
    }
}

impl Root {
    /// Opens a local path or URL with no options beyond what the address says.
    ///
    /// # Errors
    /// As [`Root::open_with`].
    pub fn open(url: &str) -> Result<Self, RootError> {
        Self::open_with(url, std::iter::empty())
    }

    /// Opens a local path or a URL: `s3`, `gs`, `az` and `abfs` (with or without a final
    /// `s`), `http(s)` (read only), `file`, `memory` (a fresh, empty store).
    ///
    /// `options` are the `AWS_…`, `GOOGLE_…` and `AZURE_…` settings of `object_store`,
    /// in any case; those for other stores, and anything else, are passed over, so a
    /// caller may hand in its whole environment.
    ///
    /// # Errors
    /// A local root must exist and be a directory that can be listed. Nothing is asked
    /// of a remote one: see [`Root::ensure_listable`].
    pub fn open_with(
        url: &str,
        options: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, RootError> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Self::open_local(FilePath::new(url), url);
        };
        let invalid = |reason: &str| RootError::Invalid {
            url: redacted(url),
            reason: reason.to_owned(),
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = Url::parse(url)
                    .ok()
                    .and_then(|url| url.to_file_path().ok())
                    .ok_or_else(|| {
                        invalid("a file URL has three slashes and an absolute path, file:///data")
                    })?;
                return Self::open_local(&path, url);
            }
            "memory" => {
                let base = rest.trim_matches('/');
                return Self::with_base(Arc::new(InMemory::new()), base, url);
            }
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gcs,
            "az" | "abfs" | "abfss" => Scheme::Azure,
            "http" | "https" => Scheme::Http,
            other => {
                return Err(RootError::UnsupportedScheme {
                    url: redacted(url),
                    scheme: other.to_owned(),
                });
            }
        };
        let (address, base) = if scheme == Scheme::Http {
            let parsed = Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
            if parsed.query().is_some() || parsed.fragment().is_some() {
                return Err(invalid(
                    "a query or fragment cannot be kept under a root; leave it off",
                ));
            }
            let base = Path::from_url_path(parsed.path().trim_matches('/'))
                .map_err(|error| invalid(&error.to_string()))?;
            let address = parsed[..url::Position::BeforePath].to_owned();
            (address, base.to_string())
        } else {
            // Bucket URLs are not percent-encoded by those who write them: `%`, `#` and
            // `?` are characters of the key.
            let (bucket, base) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(invalid("it names no bucket or container"));
            }
            let prefix = url.len() - rest.len();
            let address = format!("{}{bucket}", &url[..prefix]);
            (address, base.trim_matches('/').to_owned())
        };
        let remote = Remote {
            scheme,
            address,
            options: options.into_iter().collect(),
        };
        let url = redacted(url);
        let store = remote.connect().map_err(|error| RootError::Client {
            url: url.clone(),
            reason: error.to_string(),
        })?;
        Self::assemble(store, &base, url, Origin::Remote(remote))
    }

    /// A root over a store that is already open, for wrappers and tests. `url` is what
    /// messages call it.
    pub fn new(store: Arc<dyn ObjectStore>, url: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            store,
            base: String::new(),
            url: url.into(),
            origin: Origin::Given,
            counters: Arc::default(),
            retry: RetryPolicy::default(),
        }))
    }

    /// As [`Root::new`], with the root at the path `base` inside the store.
    ///
    /// # Errors
    /// [`RootError::Invalid`] when `base` cannot be a key.
    pub fn with_base(
        store: Arc<dyn ObjectStore>,
        base: &str,
        url: impl Into<String>,
    ) -> Result<Self, RootError> {
        Self::assemble(store, base, url.into(), Origin::Given)
    }

    fn assemble(
        store: Arc<dyn ObjectStore>,
        base: &str,
        url: String,
        origin: Origin,
    ) -> Result<Self, RootError> {
        if let Err(error) = Path::parse(base) {
            return Err(RootError::Invalid {
                url,
                reason: error.to_string(),
            });
        }
        Ok(Self(Arc::new(Inner {
            store,
            base: base.to_owned(),
            url,
            origin,
            counters: Arc::default(),
            retry: RetryPolicy::default(),
        })))
    }

    fn open_local(path: &FilePath, url: &str) -> Result<Self, RootError> {
        let cannot_list = |error: &std::io::Error| RootError::CannotList {
            url: url.to_owned(),
            reason: error.to_string(),
            kind: FaultKind::Denied,
        };
        match std::fs::metadata(path) {
            Ok(found) if !found.is_dir() => {
                return Err(RootError::IsAFile {
                    url: url.to_owned(),
                });
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(cannot_list(&error));
            }
            Err(_) => {
                return Err(RootError::Absent {
                    url: url.to_owned(),
                });
            }
        }
        std::fs::read_dir(path).map_err(|error| cannot_list(&error))?;
        let store = local_store(path).map_err(|error| RootError::Client {
            url: url.to_owned(),
            reason: error.to_string(),
        })?;
        Self::assemble(store, "", url.to_owned(), Origin::Local(path.to_owned()))
    }

    /// The same root with another retry policy; the tally stays shared.
    pub fn with_retry(&self, retry: RetryPolicy) -> Self {
        Self(Arc::new(Inner {
            retry,
            ..Inner::clone(&self.0)
        }))
    }

    /// The policy its requests are tried again under.
    pub fn retry_policy(&self) -> &RetryPolicy {
        &self.0.retry
    }

    /// The same root through a client of its own, sharing only the tally.
    ///
    /// The connections of a client are driven by the runtime that opened them, so a
    /// thread that must get through whatever the rest of the process does needs one
    /// that nobody else uses. A root from [`Root::new`] has nothing to build it from
    /// and shares.
    pub fn detached(&self) -> Self {
        let Origin::Remote(remote) = &self.0.origin else {
            return self.clone();
        };
        match remote.connect() {
            Ok(store) => Self(Arc::new(Inner {
                store,
                ..Inner::clone(&self.0)
            })),
            Err(error) => {
                tracing::debug!(root = %self, error = %error, "no second client, sharing the first");
                self.clone()
            }
        }
    }

    /// The root whose address is this one's with `suffix` at the end, which need not
    /// exist: the status channel stands beside its store (`format.md` section 1).
    ///
    /// `None` when this root is a whole bucket, disk or wrapped store, which has no
    /// sibling.
    pub fn sibling(&self, suffix: &str) -> Option<Self> {
        let url = format!("{}{suffix}", self.0.url.trim_end_matches('/'));
        if let Origin::Local(path) = &self.0.origin {
            // The name it was given by, so that the sibling of a link is beside the link;
            // `.` and `..` have a name only once resolved.
            let resolved;
            let (parent, name) = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => (parent, name),
                _ => {
                    resolved = path.canonicalize().ok()?;
                    (resolved.parent()?, resolved.file_name()?)
                }
            };
            let parent = match parent.as_os_str().is_empty() {
                true => FilePath::new("."),
                false => parent,
            };
            let base = format!("{}{suffix}", name.to_str()?);
            let store = local_store(parent).ok()?;
            return Self::assemble(store, &base, url, Origin::Given).ok();
        }
        if self.0.base.is_empty() {
            return None;
        }
        Some(Self(Arc::new(Inner {
            base: format!("{}{suffix}", self.0.base),
            url,
            ..Inner::clone(&self.0)
        })))
    }

    /// The address as it was given, without a password.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Whether every write is refused before it is sent.
    pub fn is_read_only(&self) -> bool {
        matches!(&self.0.origin, Origin::Remote(remote) if remote.scheme == Scheme::Http)
    }

    /// What was asked of this root and its clones so far.
    pub fn tally(&self) -> Tally {
        let counters = &self.0.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            get: read(&counters.get),
            head: read(&counters.head),
            put: read(&counters.put),
            list: read(&counters.list),
            delete: read(&counters.delete),
            bytes_read: read(&counters.bytes_read),
            bytes_written: read(&counters.bytes_written),
            throttled: read(&counters.throttled),
            retried: read(&counters.retried),
        }
    }

    /// Lists the root once, to fail early and clearly.
    ///
    /// # Errors
    /// [`RootError::CannotList`] with the store's own words.
    pub async fn ensure_listable(&self) -> Result<(), RootError> {
        match self.list_shallow("").await {
            Ok(_) => Ok(()),
            Err(error) => Err(RootError::CannotList {
                url: self.0.url.clone(),
                kind: error.kind(),
                reason: error.source.to_string(),
            }),
        }
    }

    /// The whole object at `key`.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub async fn get(&self, key: &str) -> Result<Bytes, StoreError> {
        Ok(self.get_with_version(key).await?.bytes)
    }

    /// The whole object at `key`, or `None` when the store says it is not there, and
    /// only then.
    ///
    /// # Errors
    /// Any failure but an absent object.
    pub async fn get_if_present(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        present(self.get(key).await)
    }

    /// The whole object at `key` and which writing of it that is.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub async fn get_with_version(&self, key: &str) -> Result<Versioned, StoreError> {
        let (meta, bytes) = self.fetch(key, None).await?;
        Ok(Versioned {
            bytes,
            version: Version {
                e_tag: meta.e_tag,
                version: meta.version,
                last_modified: meta.last_modified.timestamp(),
            },
        })
    }

    /// `ranges` of the object at `key`, in the order asked for. Neighbours less than
    /// 1 MiB apart are read in one request; ten requests run at once.
    ///
    /// # Errors
    /// Any failure. A range that ends past the object is one, too.
    pub async fn get_ranges(
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
    pub async fn get_suffix(&self, key: &str, n: u64) -> Result<(Bytes, u64), StoreError> {
        if n == 0 {
            return Ok((Bytes::new(), self.head(key).await?.size));
        }
        match self.fetch(key, Some(GetRange::Suffix(n))).await {
            Ok((meta, bytes)) => return Ok((bytes, meta.size)),
            Err(error) if is_unsupported(&error) => {}
            Err(error) => return Err(error),
        }
        // Azure takes ranges only from the front, a plain file server none at all.
        let size = self.head(key).await?.size;
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
    pub async fn get_prefix(&self, key: &str, n: u64) -> Result<(Bytes, u64), StoreError> {
        let size = self.head(key).await?.size;
        if size == 0 {
            return Ok((Bytes::new(), 0));
        }
        let head = 0..n.min(size);
        let mut parts = self.get_ranges(key, std::slice::from_ref(&head)).await?;
        Ok((parts.pop().unwrap_or_default(), size))
    }

    /// Size and age of the object at `key`.
    ///
    /// # Errors
    /// Any failure, an absent object among them.
    pub async fn head(&self, key: &str) -> Result<Entry, StoreError> {
        let path = self.path(Op::Head, key)?;
        let (store, path) = (&self.0.store, &path);
        let meta = self
            .attempt(Op::Head, key, || async move {
                count(&self.0.counters.head, 1);
                store.head(path).await
            })
            .await?;
        Ok(self.entry(meta))
    }

    /// As [`Root::head`], `None` when the store says the object is not there.
    ///
    /// # Errors
    /// Any failure but an absent object.
    pub async fn head_if_present(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        present(self.head(key).await)
    }

    async fn fetch(
        &self,
        key: &str,
        range: Option<GetRange>,
    ) -> Result<(ObjectMeta, Bytes), StoreError> {
        let path = self.path(Op::Read, key)?;
        let (store, path, range) = (&self.0.store, &path, &range);
        self.attempt(Op::Read, key, || async move {
            count(&self.0.counters.get, 1);
            let options = GetOptions {
                range: range.clone(),
                ..GetOptions::default()
            };
            let found = store.get_opts(path, options).await?;
            let meta = found.meta.clone();
            let bytes = found.bytes().await?;
            count(&self.0.counters.bytes_read, bytes.len());
            Ok((meta, bytes))
        })
        .await
    }

    /// Writes the object at `key`, over whatever is there.
    ///
    /// # Errors
    /// Any failure; on a read-only root without a request.
    pub async fn put(&self, key: &str, bytes: impl Into<Bytes>) -> Result<(), StoreError> {
        self.put_while(key, bytes, || true).await.map(|_| ())
    }

    /// As [`Root::put`], asking `may` before every try, so that a retry does not write
    /// what had become forbidden meanwhile. `false` when `may` said no, and then the
    /// last try, if any, is known to have failed.
    ///
    /// # Errors
    /// Any failure; on a read-only root without a request.
    pub async fn put_while(
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
    pub async fn create(&self, key: &str, bytes: impl Into<Bytes>) -> Result<Created, StoreError> {
        let path = self.writable(Op::Create, key)?;
        match self.put_once(&path, &bytes.into(), PutMode::Create).await {
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
    pub async fn replace(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
        version: &Version,
    ) -> Result<Replaced, StoreError> {
        let bytes = bytes.into();
        let path = self.writable(Op::Replace, key)?;
        let expected = UpdateVersion {
            e_tag: version.e_tag.clone(),
            version: version.version.clone(),
        };
        let failed = match self
            .put_once(&path, &bytes, PutMode::Update(expected))
            .await
        {
            Ok(()) => return Ok(Replaced::Yes),
            Err(
                object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. },
            ) => return Ok(Replaced::Moved),
            Err(error) => error,
        };
        if !fault::says_unsupported(&failed) {
            return Err(self.error(Op::Replace, key, failed));
        }
        count(&self.0.counters.head, 1);
        match self.0.store.head(&path).await {
            Ok(meta) if meta.e_tag != version.e_tag => return Ok(Replaced::Moved),
            Ok(_) => {}
            Err(object_store::Error::NotFound { .. }) => return Ok(Replaced::Moved),
            Err(error) => return Err(self.error(Op::Replace, key, error)),
        }
        self.put_once(&path, &bytes, PutMode::Overwrite)
            .await
            .map_err(|error| self.error(Op::Replace, key, error))?;
        Ok(Replaced::Yes)
    }

    async fn put_once(
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
        Ok(())
    }

    /// Deletes the object at `key`; an absent one is fine.
    ///
    /// # Errors
    /// Any failure; on a read-only root without a request.
    pub async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.delete_all(vec![key.to_owned()]).await
    }

    /// As [`Root::delete`], tried once: a repeated delete may hit what somebody else has
    /// created since.
    ///
    /// # Errors
    /// Any failure; after a transient one the object may be gone all the same.
    pub async fn delete_once(&self, key: &str) -> Result<(), StoreError> {
        self.with_retry(RetryPolicy::never()).delete(key).await
    }

    /// Deletes the objects at `keys`, in bulk where the store can; absent ones are fine.
    ///
    /// # Errors
    /// The first failure, after every other deletion has been tried.
    pub async fn delete_all(&self, keys: Vec<String>) -> Result<(), StoreError> {
        for keys in keys.chunks(KEYS_PER_BULK_DELETE) {
            let first = keys.first().map_or("", String::as_str);
            let paths = keys
                .iter()
                .map(|key| self.writable(Op::Delete, key))
                .collect::<Result<Vec<_>, _>>()?;
            let (store, paths) = (&self.0.store, &paths);
            self.attempt(Op::Delete, first, || async move {
                count(&self.0.counters.delete, paths.len());
                let paths = futures::stream::iter(paths.clone()).map(Ok).boxed();
                let mut deleted = store.delete_stream(paths);
                let mut failed = None;
                while let Some(result) = deleted.next().await {
                    match result {
                        Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                failed.map_or(Ok(()), Err)
            })
            .await?;
        }
        Ok(())
    }

    /// Every object under `prefix`, at any depth; `prefix` ends at a slash even when it
    /// is written without.
    ///
    /// A listing that breaks off goes on after the last key, on the stores that list in
    /// key order; elsewhere it is tried again only while it has given nothing.
    pub fn list(&self, prefix: &str) -> BoxStream<'static, Result<Entry, StoreError>> {
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
                if !(root.lists_in_order() && error.kind().is_transient()) {
                    Err(error)?;
                } else {
                    root.0.counters.on_retry(error.kind());
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

    fn lists_in_order(&self) -> bool {
        matches!(&self.0.origin, Origin::Remote(remote) if remote.scheme != Scheme::Http)
    }

    /// Every key under `prefix`, for small subtrees.
    ///
    /// # Errors
    /// Any failure of the listing.
    pub async fn list_keys(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
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
    pub async fn list_shallow(&self, prefix: &str) -> Result<Shallow, StoreError> {
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

    async fn attempt<T, Answer>(
        &self,
        op: Op,
        key: &str,
        mut request: impl FnMut() -> Answer,
    ) -> Result<T, StoreError>
    where
        Answer: Future<Output = Result<T, object_store::Error>>,
    {
        retry(
            &self.0.retry,
            key,
            |kind| self.0.counters.on_retry(kind),
            || {
                let answer = request();
                async move { answer.await.map_err(|error| self.error(op, key, error)) }
            },
        )
        .await
    }

    fn path(&self, op: Op, key: &str) -> Result<Path, StoreError> {
        let key = key.trim_end_matches('/');
        let full = match (self.0.base.as_str(), key) {
            ("", key) => key.to_owned(),
            (base, "") => base.to_owned(),
            (base, key) => format!("{base}/{key}"),
        };
        Path::parse(full).map_err(|error| self.error(op, key, error.into()))
    }

    fn writable(&self, op: Op, key: &str) -> Result<Path, StoreError> {
        if self.is_read_only() {
            let source = "an http root is read only".into();
            return Err(self.error(op, key, object_store::Error::NotSupported { source }));
        }
        self.path(op, key)
    }

    fn error(&self, op: Op, key: &str, source: object_store::Error) -> StoreError {
        StoreError {
            op,
            key: key.to_owned(),
            root: self.0.url.clone(),
            source: Box::new(source),
        }
    }

    fn relative(&self, path: &Path) -> String {
        let full = path.as_ref();
        full.strip_prefix(self.0.base.as_str())
            .unwrap_or(full)
            .trim_start_matches('/')
            .to_owned()
    }

    fn entry(&self, meta: ObjectMeta) -> Entry {
        Entry {
            key: self.relative(&meta.location),
            size: meta.size,
            last_modified: meta.last_modified.timestamp(),
        }
    }
}

type Listing = BoxStream<'static, Result<ObjectMeta, object_store::Error>>;

impl Remote {
    fn connect(&self) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let client = [("timeout", REQUEST_TIMEOUT), ("read_timeout", READ_TIMEOUT)];
        // An endpoint that was written with http:// is meant.
        let plain = self.options.iter().any(|(key, value)| {
            key.to_ascii_lowercase().contains("endpoint") && value.starts_with("http://")
        });
        let client = client
            .into_iter()
            .chain(plain.then_some(("allow_http", "true")));

        macro_rules! build {
            ($builder:ty, $prefix:literal) => {{
                let mut builder = <$builder>::new().with_url(&self.address).with_retry(retry);
                for (key, value) in client {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                for (key, value) in self.options.iter() {
                    let key = key.to_ascii_lowercase();
                    // Without its prefix a setting is somebody else's `TOKEN` or `REGION`.
                    if let (true, Ok(key)) = (key.starts_with($prefix), key.parse()) {
                        builder = builder.with_config(key, value);
                    }
                }
                Ok(Arc::new(builder.build()?))
            }};
        }
        match self.scheme {
            Scheme::S3 => build!(AmazonS3Builder, "aws_"),
            Scheme::Gcs => build!(GoogleCloudStorageBuilder, "google_"),
            Scheme::Azure => build!(MicrosoftAzureBuilder, "azure_"),
            Scheme::Http => {
                let mut options = ClientOptions::new();
                for (key, value) in client.chain([("allow_http", "true")]) {
                    options = options.with_config(key.parse()?, value);
                }
                let builder = HttpBuilder::new()
                    .with_url(&self.address)
                    .with_retry(retry)
                    .with_client_options(options);
                Ok(Arc::new(builder.build()?))
            }
        }
    }
}

/// A directory left empty would still be listed as a prefix, which it is in no other
/// store, so deletions take it along.
fn local_store(path: &FilePath) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
    let store = LocalFileSystem::new_with_prefix(path)?.with_automatic_cleanup(true);
    Ok(Arc::new(store))
}

pub(crate) fn present<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == FaultKind::NotFound => Ok(None),
        Err(error) => Err(error),
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

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// `url` without the password it may carry: it goes into messages and logs.
fn redacted(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut parsed) if parsed.password().is_some() => {
            let _ = parsed.set_password(Some("…"));
            parsed.to_string()
        }
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests;
