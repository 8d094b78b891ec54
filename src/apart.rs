//! Work of a host that is done on a thread of its own.
//!
//! What a host waits for may go to any of its threads and need nothing of its runtime: the
//! work itself stays on one thread, with timers and connections of its own.

use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::error::Error;

/// Does `work` on a thread called `name`, within the current span. When whoever waits for
/// it goes away, `left` is called, and the work is still taken to its end.
///
/// # Errors
/// When the thread cannot be had, or ends in a panic.
pub(crate) async fn apart<T, Work>(
    name: &str,
    work: impl FnOnce() -> Work + Send + 'static,
    left: impl FnOnce() + Send + 'static,
) -> Result<T, Error>
where
    T: Send + 'static,
    Work: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Thread)?;
    let (mut waiting, done) = oneshot::channel();
    let span = Span::current();
    let body = move || {
        let ended = async {
            let work = work();
            tokio::pin!(work);
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = waiting.closed() => left(),
            }
            work.await
        };
        let ended = runtime.block_on(ended.instrument(span));
        // Whoever waited may have gone away.
        let _ = waiting.send(ended);
        // A blocking call of the work must not hold up the end of the thread.
        runtime.shutdown_background();
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(Error::Thread)?;
    done.await.map_err(|_| Error::PassVanished)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::abort::AbortSignal;

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_told_and_ends_by_itself() {
        let (left, ended) = (AbortSignal::new(), AbortSignal::new());
        let (told, over) = (left.clone(), ended.clone());
        let work = move || async move {
            told.raised().await;
            over.raise();
        };
        let raise = left.clone();
        let waiting = apart("test", work, move || raise.raise());
        let waited = tokio::time::timeout(Duration::from_millis(20), waiting).await;
        assert!(waited.is_err());
        ended.raised().await;
        assert!(left.is_raised());
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_whoever_waits() {
        let failed = apart::<(), _>("test", || async { panic!("on purpose") }, || {}).await;
        assert!(matches!(failed, Err(Error::PassVanished)));
    }
}
