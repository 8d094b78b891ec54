//! A store in memory that does as it is told with the next requests on a lease.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::super::{IfMatch, LEASE_KEY};
use crate::store::Root;
use crate::store::retry::RetryPolicy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Read,
    Create,
    Rewrite,
    Write,
    Delete,
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// It is done, and the answer is lost on the way.
    LostAnswer,
    /// It is lost on the way.
    Lost,
    /// It is not done, since another request on the object is under way.
    Conflict,
    /// It is not allowed.
    Denied,
    /// None, but another request's turn comes after this one.
    None,
    /// Somebody else writes the lease just before, or deletes it.
    After(Option<String>),
}

/// Clones share what they hold.
#[derive(Debug, Clone)]
pub(super) struct Odd(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: InMemory,
    if_match: IfMatch,
    script: Mutex<Vec<(Request, Fault)>>,
    asked: Mutex<Vec<Request>>,
}

/// A store that honours the condition of a rewrite, or knows none; one that nobody has tried
/// ignores it. Its first requests of each kind meet these faults, in order.
pub(super) fn odd(
    if_match: IfMatch,
    script: impl IntoIterator<Item = (Request, Fault)>,
) -> (Odd, Root) {
    let store = Odd(Arc::new(Inner {
        memory: InMemory::new(),
        if_match,
        script: Mutex::new(script.into_iter().collect()),
        asked: Mutex::default(),
    }));
    let root = Root::new(Arc::new(store.clone()), "memory://hive");
    (store, root.with_retry(RetryPolicy::immediate(4)))
}

fn lost() -> Error {
    Error::Generic {
        store: "test",
        source: std::io::Error::from(std::io::ErrorKind::ConnectionReset).into(),
    }
}

impl Odd {
    /// Adds to the script.
    pub(super) fn next(&self, request: Request, fault: Fault) {
        self.0.script.lock().unwrap().push((request, fault));
    }

    /// The faults that no request has met.
    pub(super) fn unmet(&self) -> usize {
        self.0.script.lock().unwrap().len()
    }

    /// What was asked since this was last looked at, in order.
    pub(super) fn asked(&self) -> Vec<Request> {
        std::mem::take(&mut self.0.asked.lock().unwrap())
    }

    /// Puts a lease there behind everybody's back.
    pub(super) async fn put(&self, lease: impl Into<Bytes>) {
        let path = Path::from(LEASE_KEY);
        self.0.memory.put(&path, lease.into().into()).await.unwrap();
    }

    /// Whether the answer to a request that is done is to be lost.
    async fn befalls(&self, request: Request) -> object_store::Result<bool> {
        self.0.asked.lock().unwrap().push(request);
        let fault = {
            let mut script = self.0.script.lock().unwrap();
            let at = script.iter().position(|(of, _)| *of == request);
            at.map(|at| script.remove(at).1)
        };
        let path = LEASE_KEY.to_owned();
        match fault {
            None | Some(Fault::None) => Ok(false),
            Some(Fault::LostAnswer) => Ok(true),
            Some(Fault::Lost) => Err(lost()),
            Some(Fault::Conflict) => Err(Error::AlreadyExists {
                path,
                source: "409 ConditionalRequestConflict".into(),
            }),
            Some(Fault::Denied) => Err(Error::PermissionDenied {
                path,
                source: "403 AccessDenied".into(),
            }),
            Some(Fault::After(Some(lease))) => {
                self.put(lease).await;
                Ok(false)
            }
            Some(Fault::After(None)) => {
                self.0.memory.delete(&Path::from(LEASE_KEY)).await?;
                Ok(false)
            }
        }
    }
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Odd")
    }
}

#[async_trait]
impl ObjectStore for Odd {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let request = match options.mode {
            PutMode::Create => Request::Create,
            PutMode::Update(_) => Request::Rewrite,
            PutMode::Overwrite => Request::Write,
        };
        let is_lost = self.befalls(request).await?;
        match (request, self.0.if_match) {
            (Request::Rewrite, IfMatch::NotHonoured) => {
                return Err(Error::NotImplemented {
                    operation: "update".to_owned(),
                    implementer: "odd".to_owned(),
                });
            }
            (Request::Rewrite, IfMatch::Untried) => options.mode = PutMode::Overwrite,
            _ => {}
        }
        let done = self.0.memory.put_opts(at, payload, options).await;
        if is_lost { Err(lost()) } else { done }
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.0.memory.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let is_lost = self.befalls(Request::Read).await?;
        let read = self.0.memory.get_opts(at, options).await;
        if is_lost { Err(lost()) } else { read }
    }

    fn delete_stream(
        &self,
        keys: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        let store = self.clone();
        keys.then(move |key| {
            let store = store.clone();
            async move {
                let key = key?;
                let is_lost = store.befalls(Request::Delete).await?;
                store.0.memory.delete(&key).await?;
                if is_lost { Err(lost()) } else { Ok(key) }
            }
        })
        .boxed()
    }

    fn list(&self, below: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.0.memory.list(below)
    }

    async fn list_with_delimiter(&self, below: Option<&Path>) -> object_store::Result<ListResult> {
        self.0.memory.list_with_delimiter(below).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.0.memory.copy_opts(from, to, options).await
    }
}
