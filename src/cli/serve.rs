//! `serve`: upgrades as a service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::{output, signals};
use crate::report::Ending;
use crate::serve::{Config, Service};

/// What is left behind when the service is ended at once.
const LEFT: &str =
    "leases of its runs stay until they expire, and the next service marks its runs as interrupted";

#[derive(Debug, ClapArgs)]
pub(super) struct ServeArgs {
    /// Where to listen. Without a token only addresses of this machine are.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8480")]
    pub listen: SocketAddr,
    /// The configuration; config/serve.toml lists every key with its default.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

pub(super) async fn run(args: ServeArgs) -> ExitCode {
    let config = match Config::read(&args.config) {
        Ok(config) => config,
        Err(error) => return output::usage(&error.to_string()),
    };
    let refused = |error: &dyn std::fmt::Display| {
        output::complain(&error.to_string());
        ExitCode::from(Ending::Refused.exit_code())
    };
    let service = match Service::start(args.listen, config, std::env::vars().collect()) {
        Ok(service) => service,
        Err(error) => return refused(&error),
    };
    // For whoever has it listen on a port of its own choice, and waits for it.
    output::print(&format!("listening on http://{}", service.address));
    let drain = service.drain();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let draining = async move {
        if stopped.await.is_ok() {
            drain.drain().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let serving = async { tokio::join!(service.run(), draining).0 };
    let begin = move |_: &str| {
        // One that has ended by itself needs no stop.
        let _ = stop.send(());
    };
    let signals = signals::stop_or_exit(begin, LEFT);
    tokio::select! {
        served = serving => match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => refused(&error),
        },
        never = signals => match never {},
    }
}
