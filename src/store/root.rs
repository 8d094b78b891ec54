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
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;
use tracing::Instrument;

use self::client::Origin;
use self::journal::Journal;
use self::pacing::Pacing;
use self::tally::Counters;
use super::retry::{Fault, RetryPolicy, retry};
use crate::error::FaultKind;

mod address;
mod body;
mod client;
mod credentials;
mod error;
mod fault;
mod journal;
mod list;
mod local;
mod options;
mod pacing;
mod read;
mod settle;
mod tally;
mod write;

pub use credentials::CredentialsError;
pub(crate) use error::{Op, present};
pub use error::{RootError, StoreError};
pub use journal::Touched;
pub(crate) use list::{Entry, Shallow};
pub(crate) use pacing::Change as PaceChange;
pub(crate) use read::{Version, Versioned};
pub(crate) use settle::{Expected, Removed, Settled};
pub use tally::Tally;
pub(crate) use write::{Created, Replaced};

#[derive(Clone)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    /// Path of the root inside the store, without slashes at its ends.
    base: String,
    url: String,
    origin: Origin,
    counters: Arc<Counters>,
    journal: Option<Arc<Journal>>,
    retry: RetryPolicy,
    pacing: Arc<Pacing>,
}

/// The root of one store. Clones share the client, the tally and the bound on requests.
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
    /// A root over a store that is already open, for wrappers and tests. `url` is what
    /// messages call it.
    pub fn new(store: Arc<dyn ObjectStore>, url: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            store,
            base: String::new(),
            url: url.into(),
            origin: Origin::Given,
            counters: Arc::default(),
            journal: None,
            retry: RetryPolicy::default(),
            pacing: Arc::new(Pacing::unbounded()),
        }))
    }

    /// As [`Root::new`], with the root at the path `base` inside the store.
    ///
    /// # Errors
    /// [`RootError::Invalid`] when `base` cannot be a key.
    pub(crate) fn with_base(
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
            journal: None,
            retry: RetryPolicy::default(),
            pacing: Arc::new(Pacing::unbounded()),
        })))
    }

    /// The same root with another retry policy; the tally stays shared.
    pub(crate) fn with_retry(&self, retry: RetryPolicy) -> Self {
        Self(Arc::new(Inner {
            retry,
            ..Inner::clone(&self.0)
        }))
    }

    /// The same root with at most `max_requests` requests under way at once, its own and its
    /// clones'; fewer while the store asks for less, of which `listener` hears.
    pub(crate) fn paced(
        &self,
        max_requests: usize,
        listener: impl Fn(PaceChange) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            pacing: Arc::new(Pacing::new(max_requests, Some(Arc::new(listener)))),
            ..Inner::clone(&self.0)
        }))
    }

    /// The same root with no bound on its requests, for whoever must not wait for others.
    pub(crate) fn unpaced(&self) -> Self {
        Self(Arc::new(Inner {
            pacing: Arc::new(Pacing::unbounded()),
            ..Inner::clone(&self.0)
        }))
    }

    /// The same root, with note taken of every object written and deleted through it and
    /// its clones from now on.
    pub(crate) fn journaled(&self) -> Self {
        Self(Arc::new(Inner {
            journal: Some(Arc::default()),
            ..Inner::clone(&self.0)
        }))
    }

    /// The same root, with no note taken of what is written and deleted through it.
    pub(crate) fn unjournaled(&self) -> Self {
        Self(Arc::new(Inner {
            journal: None,
            ..Inner::clone(&self.0)
        }))
    }

    /// What was written and deleted, if note was taken of it.
    pub(crate) fn touched(&self) -> Option<Touched> {
        let journal = self.0.journal.as_ref()?;
        Some(journal.touched().clone())
    }

    /// Notes what was written and deleted by another process, if note is taken.
    pub(crate) fn note(&self, touched: Touched) {
        if let Some(journal) = &self.0.journal {
            journal.add(touched);
        }
    }

    /// Tries again, under this root's policy and counted as its requests are, what is more
    /// than one request, or one that is otherwise tried once. It must read before it acts.
    pub(crate) async fn repeat<T, E, Answer>(
        &self,
        key: &str,
        attempt: impl FnMut() -> Answer,
    ) -> Result<T, E>
    where
        E: Fault,
        Answer: Future<Output = Result<T, E>>,
    {
        let on_retry = |kind| self.0.counters.on_retry(kind);
        retry(&self.0.retry, key, on_retry, attempt).await
    }

    /// The address as it was given, without a password.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// When the credentials in use end, if whoever made them wrote it down.
    pub(crate) fn credentials_end(&self) -> Option<String> {
        self.0.origin.credentials_end()
    }

    /// Whether every write is refused before it is sent.
    pub(crate) fn is_read_only(&self) -> bool {
        self.0.origin.is_http()
    }

    /// Refuses a root that every write would fail on, without a request.
    ///
    /// # Errors
    /// [`RootError::ReadOnly`].
    pub(crate) fn ensure_writable(&self) -> Result<(), RootError> {
        if self.is_read_only() {
            let url = self.0.url.clone();
            return Err(RootError::ReadOnly { url });
        }
        Ok(())
    }

    /// What was asked of this root and its clones so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            lowest_cap: self.0.pacing.least().map(|cap| cap as u64),
            ..self.0.counters.read()
        }
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
                let answer = self.request(op, key, request());
                async move { answer.await.map_err(|error| self.error(op, key, error)) }
            },
        )
        .await
    }

    /// One request, when its turn has come.
    async fn request<T>(
        &self,
        op: Op,
        key: &str,
        request: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<T, object_store::Error> {
        let turn = self.0.pacing.turn().await;
        let span = tracing::trace_span!("object", op = op.verb(), key);
        let answer = request.instrument(span).await;
        match &answer {
            Err(error) if fault::classify(op, error) == FaultKind::Throttled => turn.throttled(key),
            _ => turn.answered(),
        }
        answer
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
}

#[cfg(test)]
mod tests;
