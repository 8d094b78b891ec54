//! The lease of another process, as one that works for its holder sees it.
//!
//! Who joins a lease never writes to it. Its token is fresh while it has itself seen the
//! heartbeat move, under the run it joined, within the ttl on its own clock: what the record
//! says of the time is another machine's word, and one that stands still proves nothing. A
//! beat that is seen was written after the look before, and counts from there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Held, LeaseError, Standing, look};
use crate::store::root::{Root, Version};
use crate::time::{Clock, Moment, SystemClock};

/// How often one that joins looks until it has seen the heartbeat move.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often one looks that is about to join, and has been promised a beat.
const SOON: Duration = Duration::from_millis(50);

/// A run to be joined.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// The run that holds the lease.
    pub run_id: String,
    /// Seconds a heartbeat of it is good for.
    pub ttl_s: u64,
    /// What the member itself must hold beside it, which is its part of the run's work.
    pub part: Held,
    /// What this process has seen of the lease.
    pub sight: Sight,
}

/// What one process has seen of the lease of a run, whichever part it worked on. Clones share
/// it, so that who goes from one part to the next need not wait for another beat.
#[derive(Debug, Clone)]
pub(crate) struct Sight(Arc<SightInner>);

#[derive(Debug)]
struct SightInner {
    run_id: String,
    clock: Arc<dyn Clock>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The writing of the lease that was last seen, and when it was looked for.
    last: Option<(Version, Moment)>,
    /// When a heartbeat that was seen to move had been written at the earliest.
    moved: Option<Moment>,
}

impl Sight {
    /// Nothing seen yet of the lease of `run_id`, by the clocks of this machine.
    pub(crate) fn of(run_id: &str) -> Self {
        Self::on_clock(run_id, Arc::new(SystemClock::new()))
    }

    pub(super) fn on_clock(run_id: &str, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(SightInner {
            run_id: run_id.to_owned(),
            clock,
            seen: Mutex::default(),
        }))
    }

    /// The one in `kept` if it is of the lease of `run_id`, or a new one, which is kept.
    pub(crate) fn kept(kept: &mut Option<Self>, run_id: &str) -> Self {
        let known = kept.take().filter(|sight| sight.run_id() == run_id);
        kept.insert(known.unwrap_or_else(|| Self::of(run_id)))
            .clone()
    }

    /// The run whose lease was looked at.
    fn run_id(&self) -> &str {
        &self.0.run_id
    }

    /// The clock everything that is seen is measured by.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// Notes the writing that was seen by a look at `asked`. When it is another than before,
    /// the moment of the look before, since which it was written.
    pub(super) fn note(&self, version: &Version, asked: Moment) -> Option<Moment> {
        let mut seen = self.seen();
        let (before, looked) = seen.last.replace((version.clone(), asked))?;
        let moved = (before != *version).then_some(looked);
        seen.moved = moved.or(seen.moved);
        moved
    }

    /// Looks until the heartbeat has been seen to move, for one that is about to join; says so
    /// by `looked` after the first time. Whoever joins finds out what keeps it from it, so that
    /// is not told here.
    pub(crate) async fn await_beat(&self, root: &Root, looked: impl FnOnce()) {
        let mut looked = Some(looked);
        loop {
            let asked = self.clock().now();
            match look(root).await {
                Ok(seen) if seen.is_held_by(self.run_id()) => {
                    let version = seen.found.as_ref().map(|(_, version)| version);
                    if version.is_some_and(|version| self.note(version, asked).is_some()) {
                        return;
                    }
                }
                _ => return,
            }
            if let Some(looked) = looked.take() {
                looked();
            }
            tokio::time::sleep(SOON).await;
        }
    }

    fn moved_within(&self, ttl: Duration, now: Moment) -> Option<Moment> {
        let moved = self.seen().moved;
        moved.filter(|moved| now.since(*moved) < ttl)
    }

    /// Looks whether the run goes on, for one that has nothing to do for it since `since`.
    ///
    /// # Errors
    /// [`LeaseError::Lost`] when the run does not hold the lease any more,
    /// [`LeaseError::Stale`] when its heartbeat has stood still for a ttl, and failed requests.
    pub(crate) async fn ensure_run_goes_on(
        &self,
        root: &Root,
        ttl_s: u64,
        since: Moment,
    ) -> Result<(), LeaseError> {
        let asked = self.clock().now();
        let seen = look(root).await?;
        let (true, Some((_, version))) = (seen.is_held_by(self.run_id()), &seen.found) else {
            return Err(LeaseError::Lost {
                root: root.url().to_owned(),
                run_id: self.run_id().to_owned(),
                holder: seen.standing.holder(),
            });
        };
        self.note(version, asked);
        let ttl = Duration::from_secs(ttl_s);
        let silent = asked.since(since);
        if silent < ttl || self.moved_within(ttl, asked).is_some() {
            return Ok(());
        }
        Err(LeaseError::Stale {
            root: root.url().to_owned(),
            run_id: self.run_id().to_owned(),
            silent_s: silent.as_secs(),
            ttl_s,
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // It is whole after every assignment, so a panic elsewhere does not spoil it.
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins the lease of a run, once its heartbeat has been seen to move: by this process, and
/// within the ttl.
///
/// # Errors
/// [`LeaseError::Lost`] when the run does not hold the lease, [`LeaseError::Stale`] when its
/// heartbeat stands still for a ttl, and failed requests.
pub(crate) async fn join(root: &Root, membership: &Membership) -> Result<Held, LeaseError> {
    let sight = &membership.sight;
    let asked = sight.clock().now();
    let moved = sight.moved_within(Duration::from_secs(membership.ttl_s), asked);
    let held = Held::joined(root, membership, moved.unwrap_or(asked));
    loop {
        // Also of one that has been seen to move: whose it is now is asked again.
        if observe(root, &held).await? || moved.is_some() {
            return Ok(held);
        }
        held.ensure_fresh()?;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Looks at the lease once; whether its heartbeat has moved since the last look.
///
/// # Errors
/// [`LeaseError::Lost`] when the run does not hold the lease any more, and then the token is
/// lost for good; [`LeaseError::Stale`]; a failed request, after which another may succeed.
pub(super) async fn observe(root: &Root, held: &Held) -> Result<bool, LeaseError> {
    held.ensure_fresh()?;
    let asked = held.clock().now();
    let seen = look(root).await?;
    match (&seen.standing, &seen.found) {
        (Standing::Lease(record), Some((_, version))) if record.run_id() == held.run_id() => {
            match held.sight().and_then(|sight| sight.note(version, asked)) {
                Some(written_since) => held.confirm(written_since).map(|()| true),
                None => Ok(false),
            }
        }
        (other, _) => Err(held.lose(other.holder())),
    }
}
