//! The one place that tries a request again, and the only one that names `backoff`.
//!
//! Whether to try again is decided by the [`FaultKind`] of the failure, never by its
//! text, and only for requests that may be repeated: a conditional create or a delete
//! of a lease is not, because its lost answer may hide a success that somebody else
//! has since built on.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backoff::ExponentialBackoff;

use crate::error::FaultKind;

/// How often, how fast and how long a request is tried again.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RetryPolicy {
    /// Tries in all, the first one included.
    pub max_attempts: u32,
    /// Delay before the second try; each later one is twice as long, give or take half.
    pub initial_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
    /// No try starts later than this after the first one.
    pub max_total: Duration,
}

impl Default for RetryPolicy {
    /// Ten tries within two minutes: long enough to outlast a store that is
    /// re-partitioning under load, short against a lease of 900 s.
    fn default() -> Self {
        Self {
            max_attempts: 10,
            initial_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(15),
            max_total: Duration::from_secs(120),
        }
    }
}

impl RetryPolicy {
    /// One try and no more.
    pub fn never() -> Self {
        Self::immediate(1)
    }

    /// `max_attempts` tries with nothing between them, for tests.
    pub fn immediate(max_attempts: u32) -> Self {
        Self {
            max_attempts,
            initial_delay: Duration::ZERO,
            max_delay: Duration::ZERO,
            max_total: Duration::from_secs(120),
        }
    }
}

/// An error that knows whether it may pass.
pub(crate) trait Fault: fmt::Display {
    /// What kind of fault it is.
    fn kind(&self) -> FaultKind;
}

/// Runs `attempt` until it succeeds, fails for good, or `policy` is spent; the last
/// error is returned. `on_retry` hears the kind of every failure that is tried again.
pub(crate) async fn retry<T, E, Attempt, Answer>(
    policy: &RetryPolicy,
    key: &str,
    on_retry: impl Fn(FaultKind),
    mut attempt: Attempt,
) -> Result<T, E>
where
    E: Fault,
    Attempt: FnMut() -> Answer,
    Answer: Future<Output = Result<T, E>>,
{
    let delays = ExponentialBackoff {
        current_interval: policy.initial_delay,
        initial_interval: policy.initial_delay,
        max_interval: policy.max_delay,
        multiplier: 2.0,
        randomization_factor: 0.5,
        max_elapsed_time: Some(policy.max_total),
        ..ExponentialBackoff::default()
    };
    let attempts = AtomicU32::new(0);
    backoff::future::retry_notify(
        delays,
        || {
            let answer = attempt();
            let attempts = &attempts;
            async move {
                let attempt = attempts.fetch_add(1, Ordering::Relaxed) + 1;
                answer.await.map_err(|error| {
                    if error.kind().is_transient() && attempt < policy.max_attempts {
                        backoff::Error::transient(error)
                    } else {
                        backoff::Error::permanent(error)
                    }
                })
            }
        },
        |error: E, delay: Duration| {
            on_retry(error.kind());
            tracing::warn!(
                key,
                attempt = attempts.load(Ordering::Relaxed),
                delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
                error = %error,
                "request failed, trying again"
            );
        },
    )
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Failed(FaultKind);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?}", self.0)
        }
    }

    impl Fault for Failed {
        fn kind(&self) -> FaultKind {
            self.0
        }
    }

    async fn tries_until(policy: RetryPolicy, fault: FaultKind, good: u32) -> (bool, u32, usize) {
        let tries = Cell::new(0);
        let heard = Cell::new(0);
        let result = retry(
            &policy,
            "key",
            |_| heard.set(heard.get() + 1),
            || {
                tries.set(tries.get() + 1);
                let good = tries.get() == good;
                async move { if good { Ok(()) } else { Err(Failed(fault)) } }
            },
        )
        .await;
        (result.is_ok(), tries.get(), heard.get())
    }

    #[tokio::test]
    async fn a_transient_fault_is_tried_again_until_it_passes() {
        let policy = RetryPolicy::immediate(5);
        assert_eq!(
            tries_until(policy.clone(), FaultKind::Throttled, 3).await,
            (true, 3, 2)
        );
        assert_eq!(
            tries_until(policy, FaultKind::Unavailable, 9).await,
            (false, 5, 4)
        );
    }

    #[tokio::test]
    async fn a_lasting_fault_is_not_tried_again() {
        for kind in [
            FaultKind::Denied,
            FaultKind::NotFound,
            FaultKind::WriteRefused,
            FaultKind::ExpiredCredentials,
        ] {
            assert_eq!(
                tries_until(RetryPolicy::immediate(5), kind, 2).await,
                (false, 1, 0)
            );
        }
    }

    #[tokio::test]
    async fn the_total_time_is_a_bound() {
        let policy = RetryPolicy {
            max_attempts: u32::MAX,
            initial_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(2),
            max_total: Duration::from_millis(30),
        };
        let started = std::time::Instant::now();
        let (ok, tries, _) = tries_until(policy, FaultKind::Unavailable, u32::MAX).await;
        assert!(!ok && tries > 2, "{tries} tries");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
