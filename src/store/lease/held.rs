//! What a holder knows about its own lease, and shows before it writes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::{Claim, LeaseError};
use crate::store::root::Root;
use crate::time::{Clock, Moment};

/// What a holder knows about its own lease. Clones share it.
///
/// It goes stale by itself, ttl after the last confirmed beat on the stricter of two
/// clocks, so that a process that was stopped, or a machine that was suspended, does
/// not go on writing under what has become someone else's lease.
#[derive(Clone)]
pub(crate) struct Held(Arc<HeldInner>);

struct HeldInner {
    root: String,
    run_id: String,
    ttl_s: u64,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    confirmed: Moment,
    /// Set once and never cleared.
    end: Option<End>,
}

#[derive(Clone)]
enum End {
    Lost(Option<String>),
    Stale(Duration),
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("run_id", &self.0.run_id)
            .field("silent_for", &self.silent_for())
            .finish_non_exhaustive()
    }
}

impl Held {
    pub(super) fn new(
        root: &Root,
        claim: &Claim,
        clock: Arc<dyn Clock>,
        confirmed: Moment,
    ) -> Self {
        Self(Arc::new(HeldInner {
            root: root.url().to_owned(),
            run_id: claim.run_id.clone(),
            ttl_s: claim.ttl_s,
            clock,
            state: Mutex::new(State {
                confirmed,
                end: None,
            }),
        }))
    }

    /// The run that holds the lease.
    pub(crate) fn run_id(&self) -> &str {
        &self.0.run_id
    }

    /// How long a confirmation is good for.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_secs(self.0.ttl_s)
    }

    /// The clock everything about this lease is measured by.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Time since the lease was last confirmed.
    pub(crate) fn silent_for(&self) -> Duration {
        let now = self.0.clock.now();
        now.since(self.state().confirmed)
    }

    /// Whether the lease can still be relied on. Once `false`, never `true` again.
    pub(crate) fn is_fresh(&self) -> bool {
        self.ensure_fresh().is_ok()
    }

    /// As [`Held::is_fresh`], with the reason.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] or [`LeaseError::Stale`].
    pub(crate) fn ensure_fresh(&self) -> Result<(), LeaseError> {
        let now = self.0.clock.now();
        let mut state = self.state();
        let silent = now.since(state.confirmed);
        if state.end.is_none() && silent >= self.ttl() {
            state.end = Some(End::Stale(silent));
        }
        match state.end.clone() {
            None => Ok(()),
            Some(end) => Err(self.error(end)),
        }
    }

    /// Writes an object while the lease can be relied on, which is asked before every
    /// try: what is retried must not land under someone else's lease.
    ///
    /// # Errors
    /// [`LeaseError::Lost`], [`LeaseError::Stale`], or a failed request.
    pub(crate) async fn put(
        &self,
        root: &Root,
        key: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<(), LeaseError> {
        match root.put_while(key, bytes, || self.is_fresh()).await? {
            true => Ok(()),
            // Freshness never comes back, so this has the reason.
            false => self.ensure_fresh(),
        }
    }

    /// Notes a beat that was confirmed for `at`. One that comes too late changes nothing.
    pub(super) fn confirm(&self, at: Moment) {
        let now = self.0.clock.now();
        let mut state = self.state();
        let silent = now.since(state.confirmed);
        if state.end.is_none() && silent >= self.ttl() {
            state.end = Some(End::Stale(silent));
        }
        if state.end.is_none() {
            state.confirmed = at;
        }
    }

    /// Marks the lease as lost, at once and for good.
    pub(super) fn lose(&self, holder: Option<String>) -> LeaseError {
        let mut state = self.state();
        let end = state.end.get_or_insert(End::Lost(holder)).clone();
        drop(state);
        self.error(end)
    }

    fn error(&self, end: End) -> LeaseError {
        let root = self.0.root.clone();
        let run_id = self.0.run_id.clone();
        match end {
            End::Lost(holder) => LeaseError::Lost {
                root,
                run_id,
                holder,
            },
            End::Stale(silent) => LeaseError::Stale {
                root,
                run_id,
                silent_s: silent.as_secs(),
                ttl_s: self.0.ttl_s,
            },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every assignment, so a panic elsewhere does not spoil it.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
