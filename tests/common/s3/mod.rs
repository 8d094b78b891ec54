//! An S3 server in this process, over a directory, that follows a script.
//!
//! It checks signatures, refuses a create of what is there, and rewrites what has not
//! moved unless it is told that it cannot. The keys of rules and counts begin with the
//! bucket: `bucket/prefix/1/1/all.zarr/zarr.json`.

mod asked;
mod serve;

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::sync::{RwLock, oneshot};

use self::serve::Served;
use crate::common::bucket::Bucket;
use crate::common::faults::{Rule, Script, Tally};
use crate::common::stores::{Tree, tree_of, write_tree};

/// The one account of the server.
const ACCESS_KEY: &str = "AKIDEXAMPLE";
const SECRET_KEY: &str = "not-a-secret";

/// What the server makes of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conditions {
    /// It creates and rewrites under a condition.
    All,
    /// It creates under a condition and answers 501 to a rewrite under one.
    CreateOnly,
}

/// A server on a port of its own; gone when dropped.
pub(crate) struct S3Server {
    dir: TempDir,
    endpoint: String,
    served: Arc<Served>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3Server {
    /// A server that does as it is asked.
    pub(crate) fn start() -> Self {
        Self::with(Conditions::All)
    }

    /// A server that knows these conditions.
    pub(crate) fn with(conditions: Conditions) -> Self {
        let dir = TempDir::with_prefix("zagg-stream-s3-").unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(dir.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let served = Arc::new(Served {
            service: service.build(),
            conditions,
            in_turn: RwLock::default(),
            script: Mutex::default(),
            tally: Tally::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&served);
        let thread = thread::spawn(move || listen(listener, for_thread, stopped));
        Self {
            dir,
            endpoint,
            served,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Its address.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// From now on the server follows these rules and no others.
    pub(crate) fn follow(&self, rules: impl IntoIterator<Item = Rule>) {
        *self.served.script.lock().unwrap() = Arc::new(Script::new(rules));
    }

    /// How often a rule struck since the server was told to follow it.
    pub(crate) fn fired(&self) -> u64 {
        self.served.script.lock().unwrap().fired()
    }

    /// What was asked of it.
    pub(crate) fn tally(&self) -> &Tally {
        &self.served.tally
    }

    /// A new bucket that holds `tree` under the prefix `hive`.
    pub(crate) fn bucket(&self, name: &str, tree: &Tree) -> Bucket {
        let bucket = Bucket::at(&self.endpoint, name, [ACCESS_KEY, SECRET_KEY]);
        fs::create_dir(self.dir.path().join(name)).unwrap();
        write_tree(&self.path_of(&bucket), tree);
        bucket
    }

    /// What the root in this bucket holds, as it lies on disk.
    pub(crate) fn tree(&self, bucket: &Bucket) -> Tree {
        tree_of(&self.path_of(bucket))
    }

    /// Everything in this bucket.
    pub(crate) fn surroundings(&self, bucket: &Bucket) -> Tree {
        tree_of(&self.dir.path().join(bucket.name()))
    }

    /// Where the root in this bucket lies.
    pub(crate) fn path_of(&self, bucket: &Bucket) -> PathBuf {
        self.dir.path().join(bucket.name()).join(bucket.prefix())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves until the other end of `stopped` is gone.
fn listen(listener: TcpListener, served: Arc<Served>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let accepting = async move {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            // A small answer is not to wait for the next.
            stream.set_nodelay(true).unwrap();
            let served = Arc::clone(&served);
            let service = service_fn(move |request| {
                let served = Arc::clone(&served);
                async move { served.answer(request).await }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new());
            let connection = http.serve_connection(TokioIo::new(stream), service);
            // A connection ends as the script or the client ends it.
            tokio::spawn(async move { drop(connection.await) });
        }
    };
    runtime.block_on(async {
        tokio::select! {
            () = accepting => {}
            _ = stopped => {}
        }
    });
    runtime.shutdown_background();
}
