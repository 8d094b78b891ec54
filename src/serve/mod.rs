//! Upgrades as a service: the library behind a few HTTP requests.
//!
//! `docs/service.md` is for who runs it. A run is a [`crate::Runbook`], as on the command
//! line; what the service adds is who may start one, how many at once, what happened to
//! those before, and a way to follow one.

mod api;
mod auth;
mod config;
mod feed;
mod metrics;
mod order;
mod record;
mod roots;
mod runs;
mod sse;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer, web};

pub(crate) use config::Config;
use record::StateDir;
use runs::Runs;

/// Threads that answer requests. They only pass on what runs on threads of its own.
const WORKERS: usize = 2;

/// How long a connection may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Why the service does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// Anybody could use it.
    #[error(
        "{0} can be reached from elsewhere and no `token_file` is configured, so anybody could start upgrades; configure one, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The token cannot be used.
    #[error(
        "the token file `{path}` cannot be used: {reason}; write one long random word into it, such as `openssl rand -hex 32` prints"
    )]
    Token {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The state directory cannot be used.
    #[error("the state directory `{dir}` cannot be used: {reason}")]
    State {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}; another service may be there")]
    Listen(SocketAddr, io::Error),
    /// The server failed.
    #[error("the server failed: {0}")]
    Server(io::Error),
}

/// A service that listens.
pub(crate) struct Service {
    /// Where it listens.
    pub address: SocketAddr,
    server: actix_web::dev::Server,
    runs: Runs,
    drain: Duration,
}

/// Ends a service from elsewhere.
#[derive(Clone)]
pub(crate) struct Drain {
    handle: ServerHandle,
    runs: Runs,
    patience: Duration,
}

impl Service {
    /// Begins to listen.
    ///
    /// # Errors
    /// When it may not, or cannot.
    pub(crate) fn start(
        address: SocketAddr,
        config: Config,
        environment: Vec<(String, String)>,
    ) -> Result<Self, ServeError> {
        let token = config.token()?;
        if token.is_none() && !address.ip().is_loopback() {
            return Err(ServeError::Open(address));
        }
        let state = StateDir::open(&config.state_dir)?;
        let drain = Duration::from_secs(config.drain_s);
        let max_body = config.max_body;
        let runs = Runs::new(config, state, environment)?;
        let guard = web::Data::new(auth::Guard::new(token));
        let for_workers = web::Data::new(runs.clone());
        let app = move || {
            App::new()
                .app_data(for_workers.clone())
                .app_data(guard.clone())
                .configure(|app| api::routes(app, max_body))
        };
        let server = HttpServer::new(app)
            .workers(WORKERS)
            .client_request_timeout(HEAD_WITHIN)
            .disable_signals()
            .shutdown_timeout(config::SHUTDOWN_S)
            .bind(address)
            .map_err(|error| ServeError::Listen(address, error))?;
        Ok(Self {
            // A port of 0 has become a real one.
            address: server.addrs().first().copied().unwrap_or(address),
            server: server.run(),
            runs,
            drain,
        })
    }

    /// A way to end it.
    pub(crate) fn drain(&self) -> Drain {
        Drain {
            handle: self.server.handle(),
            runs: self.runs.clone(),
            patience: self.drain,
        }
    }

    /// Answers requests until it is drained.
    ///
    /// # Errors
    /// When the server fails.
    pub(crate) async fn run(self) -> Result<(), ServeError> {
        self.server.await.map_err(ServeError::Server)
    }
}

impl Drain {
    /// Takes no further runs, has those under way finish what they are writing and give
    /// their leases back, and ends.
    pub(crate) async fn drain(self) {
        self.runs.drain(self.patience).await;
        self.handle.stop(true).await;
    }
}
