//! What a holder knows about its own lease, and shows before it writes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::joined::{Membership, Sight};
use super::{Claim, IfMatch, LeaseError};
use crate::store::root::Root;
use crate::time::{Clock, Moment, iso};

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
    /// How long a confirmation is good for here: to a store whose clock is ahead, and to all
    /// who go by it, its time looks older than it is.
    good_for: Duration,
    if_match: IfMatch,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Set when the lease is another process's, for which this one works.
    joined: Option<Joined>,
    /// Set while somebody waits for a beat that is not due yet.
    beat_is_wanted: AtomicBool,
}

/// What one that works under another's lease knows beside it.
struct Joined {
    /// What was seen of the lease.
    sight: Sight,
    /// Its own part of the work, which it must hold, too.
    part: Held,
}

struct State {
    confirmed: Moment,
    /// The last heartbeat that is known to have been written, too late or not.
    heartbeat: Moment,
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
            good_for: Duration::from_secs(claim.ttl_s.saturating_add_signed(-claim.skew_s.max(0))),
            if_match: claim.if_match,
            clock,
            state: Mutex::new(State {
                confirmed,
                heartbeat: confirmed,
                end: None,
            }),
            joined: None,
            beat_is_wanted: AtomicBool::new(false),
        }))
    }

    /// The lease of a run that is joined, good from `confirmed` on.
    pub(super) fn joined(root: &Root, membership: &Membership, confirmed: Moment) -> Self {
        Self(Arc::new(HeldInner {
            root: root.url().to_owned(),
            run_id: membership.run_id.clone(),
            ttl_s: membership.ttl_s,
            good_for: Duration::from_secs(membership.ttl_s),
            if_match: IfMatch::NotHonoured,
            clock: membership.sight.clock().clone(),
            state: Mutex::new(State {
                confirmed,
                heartbeat: confirmed,
                end: None,
            }),
            joined: Some(Joined {
                sight: membership.sight.clone(),
                part: membership.part.clone(),
            }),
            beat_is_wanted: AtomicBool::new(false),
        }))
    }

    /// Whether the lease is another process's, which alone confirms it and gives it back.
    pub(super) fn is_joined(&self) -> bool {
        self.0.joined.is_some()
    }

    /// Asks whoever keeps the lease for a beat before the next is due, because others wait to
    /// see one.
    pub(crate) fn want_beat(&self) {
        self.0.beat_is_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether a beat that was asked for is to be made at `now`: one in the second of the last
    /// one would be the same object, which nobody sees move.
    pub(crate) fn grant_beat(&self, now: Moment) -> bool {
        let would_move = now.unix_seconds() > self.state().heartbeat.unix_seconds();
        would_move && self.0.beat_is_wanted.swap(false, Ordering::Relaxed)
    }

    /// What was seen of the lease, where it is another process's.
    pub(super) fn sight(&self) -> Option<&Sight> {
        self.0.joined.as_ref().map(|joined| &joined.sight)
    }

    /// The run that holds the lease.
    pub(crate) fn run_id(&self) -> &str {
        &self.0.run_id
    }

    /// How long a confirmation is good for by the record.
    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_secs(self.0.ttl_s)
    }

    /// How long a confirmation is good for to those who work under it, too: the store's clock
    /// may be ahead.
    pub(crate) fn good_for(&self) -> Duration {
        self.0.good_for
    }

    /// The clock everything about this lease is measured by.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// What the store makes of the condition of a rewrite.
    pub(super) fn if_match(&self) -> IfMatch {
        self.0.if_match
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
        if state.end.is_none() && silent >= self.0.good_for {
            state.end = Some(End::Stale(silent));
        }
        let end = state.end.clone();
        drop(state);
        match (end, &self.0.joined) {
            (Some(end), _) => Err(self.error(end)),
            (None, Some(joined)) => joined.part.ensure_fresh(),
            (None, None) => Ok(()),
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

    /// Notes a beat that was confirmed for `at`. One that comes too late revives nothing.
    ///
    /// # Errors
    /// As [`Held::ensure_fresh`].
    pub(super) fn confirm(&self, at: Moment) -> Result<(), LeaseError> {
        self.note_heartbeat(at);
        self.ensure_fresh()?;
        let mut state = self.state();
        if state.end.is_none() {
            state.confirmed = at;
        }
        Ok(())
    }

    /// Notes that the lease as it stands says `at`, which need not keep anything alive.
    pub(super) fn note_heartbeat(&self, at: Moment) {
        self.state().heartbeat = at;
    }

    /// What to tell an operator of a lease that its run leaves behind because of `why`: when
    /// it can be claimed, in UTC, and what gives it back at once.
    pub(crate) fn stands(&self, why: &str) -> String {
        let ttl_s = i64::try_from(self.0.ttl_s).unwrap_or(i64::MAX);
        let heartbeat = self.state().heartbeat.unix_seconds();
        // Whole seconds, of which the last one is still live.
        let claimable = heartbeat.saturating_add(ttl_s).saturating_add(1);
        let (root, run_id) = (&self.0.root, &self.0.run_id);
        format!(
            "the lease of run `{run_id}` stands, because {why}: it can be claimed from {} on, or at once after `zagg-stream lease release {root} --run-id {run_id}`; then run again",
            iso(claimable)
        )
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
