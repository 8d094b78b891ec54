//! An S3 server in this process, over memory, that follows a script.
//!
//! It checks signatures, refuses a create of what is there, and rewrites what has not
//! moved unless it is told that it cannot. The keys of rules and counts begin with the
//! bucket: `bucket/prefix/1/1/all.zarr/zarr.json`.

mod asked;
mod memory;
mod serve;

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::sync::oneshot;

use self::memory::Memory;
use self::serve::Served;
use crate::common::bucket::Bucket;
use crate::common::faults::{Rule, Script, Tally};
use crate::common::stores::Tree;

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
    memory: Memory,
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
        let memory = Memory::default();
        let mut service = S3ServiceBuilder::new(memory.clone());
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let served = Arc::new(Served {
            service: service.build(),
            conditions,
            script: Mutex::default(),
            tally: Tally::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let for_thread = Arc::clone(&served);
        let thread = thread::spawn(move || listen(listener, for_thread, stopped));
        Self {
            memory,
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
        let bucket = self.absent(name);
        let below = |key: &String| format!("{}/{key}", bucket.prefix());
        let objects = tree.iter().map(|(key, bytes)| (below(key), bytes.clone()));
        self.memory.fill(name, objects);
        bucket
    }

    /// A bucket of this name that nobody has made.
    pub(crate) fn absent(&self, name: &str) -> Bucket {
        Bucket::at(&self.endpoint, name, [ACCESS_KEY, SECRET_KEY])
    }

    /// What the root in this bucket holds.
    pub(crate) fn tree(&self, bucket: &Bucket) -> Tree {
        let prefix = format!("{}/", bucket.prefix());
        self.memory.tree(bucket.name(), &prefix)
    }

    /// Everything in this bucket.
    pub(crate) fn surroundings(&self, bucket: &Bucket) -> Tree {
        self.memory.tree(bucket.name(), "")
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
