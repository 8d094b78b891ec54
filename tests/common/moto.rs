//! A real S3-compatible server, moto, in processes of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::bucket::Bucket;

/// The variable that says where the program is; otherwise it is looked for in `PATH`.
const VARIABLE: &str = "ZAGG_MOTO_SERVER";
const PROGRAM: &str = "moto_server";

/// How the program is installed.
const CURE: &str = "install it once, from the root of the repository, with `python3 -m venv target/moto \
                    && target/moto/bin/pip install 'moto[server]==5.2.5'`, where it is found by itself, or say \
                    where it is in ZAGG_MOTO_SERVER";

/// A server that does not listen by then never will.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Any account will do.
const ACCOUNT: [&str; 2] = ["AKIDEXAMPLE", "not-a-secret"];

/// A server works on one request at a time, and has an interpreter to do it with.
const SERVERS: usize = 2;

/// The servers of this test program; ended with the last test that has them.
pub(crate) struct Moto {
    servers: Vec<Server>,
    next: AtomicUsize,
}

struct Server {
    process: Child,
    address: String,
}

impl Moto {
    /// The servers, started unless another test has them.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Moto>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start());
            *shared = Arc::downgrade(&started);
            started
        })
    }

    fn start() -> Self {
        let program = program();
        Self {
            servers: (0..SERVERS).map(|_| Server::start(&program)).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// A new, empty bucket at one of them.
    pub(crate) fn bucket(&self, name: &str) -> Bucket {
        let nth = self.next.fetch_add(1, Ordering::Relaxed) % self.servers.len();
        self.servers[nth].bucket(name)
    }
}

impl Server {
    fn start(program: &Path) -> Self {
        let port = {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let process = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start `{}`: {error}; {CURE}", program.display())
            });
        let mut server = Self {
            process,
            address: format!("127.0.0.1:{port}"),
        };
        server.wait();
        server
    }

    fn wait(&mut self) {
        let started = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("`{PROGRAM}` ended at once, {status}; {CURE}");
            }
            assert!(
                started.elapsed() < STARTS_WITHIN,
                "`{PROGRAM}` does not listen"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn bucket(&self, name: &str) -> Bucket {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let request = format!(
            "PUT /{name} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{answer}");
        Bucket::at(&format!("http://{}", self.address), name, ACCOUNT)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program, or a failure that says how to install it.
fn program() -> PathBuf {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return given.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/moto/bin");
    let directories = std::iter::once(ours).chain(std::env::split_paths(&path));
    directories
        .map(|directory| directory.join(PROGRAM))
        .find(|program| program.is_file())
        .unwrap_or_else(|| {
            panic!("these tests need the S3 server `{PROGRAM}`, which is not to be found; {CURE}")
        })
}
