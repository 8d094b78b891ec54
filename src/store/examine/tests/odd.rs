//! A store in memory that is odd in one way.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use chrono::TimeDelta;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use crate::store::manifest::MANIFEST_KEY;
use crate::store::{RetryPolicy, Root};

/// What is odd about a store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Oddity {
    None,
    DeniesList,
    DeniesRead,
    DeniesCreate,
    DeniesRewrite,
    DeniesDelete,
    /// Creates over what is there.
    IgnoresCreate,
    /// Says that it exists, and writes over it.
    LiesAboutCreate,
    /// Says so of what is not there, too.
    AlwaysExists,
    /// Does what it is asked, but every other answer is lost on the way.
    LosesAnswers,
    NeverRewrites,
    NoRewrite,
    IgnoresRewrite,
    AheadBy(i64),
}

#[derive(Debug)]
pub(super) struct OddStore {
    pub(super) inner: InMemory,
    oddity: Oddity,
    /// Objects that were to be written.
    pub(super) puts: AtomicU32,
}

impl fmt::Display for OddStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.oddity)
    }
}

impl OddStore {
    fn denies(&self, oddity: Oddity) -> object_store::Result<()> {
        if self.oddity == oddity {
            return Err(Error::PermissionDenied {
                path: "key".to_owned(),
                source: "AccessDenied".into(),
            });
        }
        Ok(())
    }
}

fn exists() -> Error {
    Error::AlreadyExists {
        path: "key".to_owned(),
        source: "412".into(),
    }
}

#[async_trait]
impl ObjectStore for OddStore {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> object_store::Result<PutResult> {
        const EVERY_OTHER: u32 = 2;
        let nth = self.puts.fetch_add(1, Ordering::SeqCst);
        if matches!(options.mode, PutMode::Update(_)) {
            self.denies(Oddity::DeniesRewrite)?;
            match self.oddity {
                Oddity::NoRewrite => {
                    return Err(Error::NotImplemented {
                        operation: "update".to_owned(),
                        implementer: "odd".to_owned(),
                    });
                }
                Oddity::NeverRewrites => {
                    return Err(Error::Precondition {
                        path: "key".to_owned(),
                        source: "412".into(),
                    });
                }
                Oddity::IgnoresRewrite => options.mode = PutMode::Overwrite,
                _ => {}
            }
        } else {
            self.denies(Oddity::DeniesCreate)?;
            match self.oddity {
                Oddity::IgnoresCreate | Oddity::LiesAboutCreate => {
                    options.mode = PutMode::Overwrite;
                }
                Oddity::AlwaysExists => return Err(exists()),
                _ => {}
            }
        }
        let done = self.inner.put_opts(at, payload, options).await;
        if self.oddity == Oddity::LosesAnswers && nth.is_multiple_of(EVERY_OTHER) {
            return Err(Error::Generic {
                store: "odd",
                source: "connection reset".into(),
            });
        }
        if self.oddity == Oddity::LiesAboutCreate && nth > 0 {
            return Err(exists());
        }
        done
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.denies(Oddity::DeniesRead)?;
        let mut got = self.inner.get_opts(at, options).await?;
        if let Oddity::AheadBy(seconds) = self.oddity {
            got.meta.last_modified += TimeDelta::seconds(seconds);
        }
        Ok(got)
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        match self.denies(Oddity::DeniesDelete) {
            Ok(()) => self.inner.delete_stream(at),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn list(&self, below: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        match self.denies(Oddity::DeniesList) {
            Ok(()) => self.inner.list(below),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, below: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(below).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// A store with a manifest and one oddity, and what is behind it.
/// Such a store with a manifest, and its root.
pub(super) async fn odd(oddity: Oddity) -> (Root, Arc<OddStore>) {
    let inner = InMemory::new();
    let manifest = Path::from(MANIFEST_KEY);
    let put = inner.put_opts(&manifest, "{}".into(), PutOptions::default());
    put.await.unwrap();
    let store = Arc::new(OddStore {
        inner,
        oddity,
        puts: AtomicU32::new(0),
    });
    let root = Root::new(store.clone(), "memory://odd").with_retry(RetryPolicy::immediate(4));
    (root, store)
}
