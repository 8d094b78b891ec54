//! What signals do to a run.

use super::output;
use crate::report::Ending;

/// Calls `stop` on the first signal; a second one ends the process at once, and the lease
/// then stands until it expires.
pub(super) async fn stop_on_signals(stop: impl FnOnce(&str)) -> std::convert::Infallible {
    const LEFT: &str = "the lease stays, and the next run is refused until it expires or `zagg-stream lease \
                        release` removes it";
    stop_or_exit(stop, LEFT).await
}

/// As [`stop_on_signals`]; `left` says what is left behind when the process ends at once.
pub(super) async fn stop_or_exit(stop: impl FnOnce(&str), left: &str) -> std::convert::Infallible {
    let first = signal().await;
    tracing::warn!("{first}: finishing what is being written; once more to stop at once");
    stop(first);
    let second = signal().await;
    let error = format!("{second} again: stopping at once; {left}");
    let ending = Ending::Interrupted;
    output::print_owed(ending.as_str(), ending.exit_code(), &error);
    output::complain(&error);
    std::process::exit(i32::from(ending.exit_code()))
}

#[cfg(unix)]
async fn signal() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = (
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut terminate), Ok(mut hangup)) = kinds else {
        return std::future::pending().await;
    };
    tokio::select! {
        Ok(()) = tokio::signal::ctrl_c() => "Ctrl-C",
        Some(()) = terminate.recv() => "SIGTERM",
        Some(()) = hangup.recv() => "SIGHUP",
    }
}

#[cfg(not(unix))]
async fn signal() -> &'static str {
    match tokio::signal::ctrl_c().await {
        Ok(()) => "Ctrl-C",
        Err(_) => std::future::pending().await,
    }
}
