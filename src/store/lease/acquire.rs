//! Acquires the lease, or says who has it.
//!
//! An expired lease is claimed by one conditional rewrite of the very writing that was
//! read, so that there is no moment without a lease and of all claimants exactly one
//! succeeds.
//!
//! Where the store has no such rewrite, or ignores its condition, a claim deletes and
//! creates, two requests. Only one claimant of a record has the turn to do that, see
//! [`super::turn`], and it reads the record once more before the delete.
//!
//! Whichever way it claims, a claimant believes it only after its record has stood for
//! [`Claim::settle`]: another program may claim by the two requests where this one needs
//! one, and a condition that nobody has tried may not be honoured.
//!
//! Whether a lease has expired is judged by its record alone, on this machine's clock and
//! the store's. When the object was written says nothing: a record that was copied or
//! restored together with its store must stay claimable.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::beat::beat;
use super::error::LiveLease;
use super::turn::{self, Turn};
use super::{
    Claim, Held, IfMatch, LEASE_KEY, LeaseError, LeaseRecord, Seen, Standing, conflict, look,
};
use crate::store::retry::RetryPolicy;
use crate::store::root::{Created, Op, Replaced, Root, Version};
use crate::time::{Clock, Moment, iso};

/// A lease just acquired.
#[derive(Debug)]
pub(crate) struct Acquired {
    /// What the holder shows before it writes.
    pub held: Held,
    /// The run whose expired lease was taken over.
    pub claimed_from: Option<String>,
}

/// Acquires the lease of `root`, or says who has it.
///
/// Transient faults are tried again under the root's policy, each time from the first
/// step: every step reads before it acts, so one whose answer was lost is recognised.
///
/// # Errors
/// [`LeaseError::Live`], [`LeaseError::UnknownSpec`], [`LeaseError::RaceLost`], and
/// failed requests.
pub(crate) async fn acquire(
    root: &Root,
    claim: &Claim,
    clock: Arc<dyn Clock>,
) -> Result<Acquired, LeaseError> {
    let claimant = Claimant {
        // The steps are tried again as a whole, so the requests inside them are not.
        root: root.unjournaled().with_retry(RetryPolicy::never()),
        claim,
        clock,
        claims_from: OnceLock::new(),
        turn: Mutex::default(),
    };
    let acquired = root.repeat(LEASE_KEY, || claimant.try_once()).await;
    let turn = claimant.turn().take();
    match (turn, &acquired) {
        // A request may still be under way, and another's turn must not come before its end.
        (Some(_), Err(error)) if error.kind().is_transient() => {}
        (Some(turn), _) => turn.end().await,
        (None, _) => {}
    }
    acquired
}

/// One that asks for the lease.
struct Claimant<'a> {
    /// Whose requests are tried once.
    root: Root,
    claim: &'a Claim,
    clock: Arc<dyn Clock>,
    /// Set once it has begun to take over what stands there: the run that held that, if it
    /// names one.
    claims_from: OnceLock<Option<String>>,
    /// Its turn to claim by two requests, if it took one.
    turn: Mutex<Option<Turn>>,
}

impl Claimant<'_> {
    /// Creates the lease, or deals with what stands there.
    async fn try_once(&self) -> Result<Acquired, LeaseError> {
        let from = self.claims_from.get().cloned().flatten();
        let (asked, record) = self.record(from.as_deref());
        let conflict = match self.root.create(LEASE_KEY, record.to_json()).await {
            Ok(Created::Yes) => return self.believe(asked, from).await,
            Ok(Created::Exists) => conflict(&self.root, Op::Create),
            Err(error) if error.kind().is_transient() => error,
            Err(error) => return Err(error.into()),
        };
        let seen = look(&self.root).await?;
        match &seen.standing {
            // Gone since, or never written: from the start.
            Standing::Free => Err(conflict.into()),
            Standing::Foreign(spec) => Err(LeaseError::UnknownSpec {
                root: self.root.url().to_owned(),
                spec: spec.clone(),
            }),
            // Ours, by a request whose answer was lost or from before a restart; either way
            // its heartbeat is of another moment than this one.
            Standing::Lease(found) if found.run_id() == self.claim.run_id => {
                let from = found.claimed_from().map(str::to_owned);
                let acquired = self.believe(asked, from).await?;
                beat(&self.root, &acquired.held).await?;
                Ok(acquired)
            }
            Standing::Lease(found) if self.is_live(found, asked) => {
                Err(match self.claims_from.get() {
                    Some(_) => race_lost(&self.root, &seen),
                    None => live_error(&self.root, found, self.claim.skew_s),
                })
            }
            Standing::Lease(_) | Standing::Debris => self.take_over(&seen).await,
        }
    }

    /// A lease of ours as it is to stand, and the moment that it says.
    fn record(&self, claimed_from: Option<&str>) -> (Moment, LeaseRecord) {
        let asked = self.clock.now();
        let record = LeaseRecord::new(self.claim, asked.unix_seconds(), claimed_from);
        (asked, record)
    }

    /// Live by either clock is live.
    fn is_live(&self, found: &LeaseRecord, now: Moment) -> bool {
        found.is_live(now.unix_seconds().min(self.store_time(now)))
    }

    /// Seconds since 1970 by the store's clock, as far as it is known.
    fn store_time(&self, now: Moment) -> i64 {
        now.unix_seconds().saturating_add(self.claim.skew_s)
    }

    /// Claims what `seen` shows, expired or debris.
    async fn take_over(&self, seen: &Seen) -> Result<Acquired, LeaseError> {
        let Some((bytes, version)) = &seen.found else {
            return Err(race_lost(&self.root, seen));
        };
        let _ = self.claims_from.set(seen.standing.holder());
        if self.claim.if_match != IfMatch::NotHonoured
            && let Some(acquired) = self.rewrite(seen, version).await?
        {
            return Ok(acquired);
        }
        let now = self.store_time(self.clock.now());
        let turn = turn::take(&self.root, bytes, &self.claim.run_id, now).await?;
        *self.turn() = Some(turn);
        let (asked, from) = self.delete_and_create(seen).await?;
        self.believe(asked, from).await
    }

    fn turn(&self) -> MutexGuard<'_, Option<Turn>> {
        // It is whole after every assignment, so a panic elsewhere does not spoil it.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims in one step; `None` when the store has no such.
    async fn rewrite(
        &self,
        seen: &Seen,
        version: &Version,
    ) -> Result<Option<Acquired>, LeaseError> {
        let from = seen.standing.holder();
        let (asked, record) = self.record(from.as_deref());
        let rewritten = self
            .root
            .replace_at_once(LEASE_KEY, record.to_json(), version);
        let error = match rewritten.await {
            Ok(None) => return Ok(None),
            Ok(Some(Replaced::Yes)) => None,
            Ok(Some(Replaced::Moved)) => Some(conflict(&self.root, Op::Replace)),
            Err(error) if error.kind().is_transient() => Some(error),
            Err(error) => return Err(error.into()),
        };
        if let Some(error) = error {
            let now = look(&self.root).await?;
            if now.bytes() == seen.bytes() || now.is_held_by(&self.claim.run_id) {
                // Not rewritten, or by us: the next try will tell.
                return Err(error.into());
            }
            return Err(race_lost(&self.root, &now));
        }
        self.believe(asked, from).await.map(Some)
    }

    /// Claims in two steps, in its turn: the moment that the new lease says, and the run that
    /// held the old one.
    async fn delete_and_create(&self, seen: &Seen) -> Result<(Moment, Option<String>), LeaseError> {
        let again = look(&self.root).await?;
        if again.bytes() != seen.bytes() {
            return Err(race_lost(&self.root, &again));
        }
        // Never repeated without another look: by then it could be somebody's fresh lease.
        self.root.delete_once(LEASE_KEY).await?;
        let from = seen.standing.holder();
        let (asked, record) = self.record(from.as_deref());
        match self.root.create(LEASE_KEY, record.to_json()).await? {
            Created::Yes => Ok((asked, from)),
            // By one that came in between, or by nobody: from the start.
            Created::Exists => Err(conflict(&self.root, Op::Create).into()),
        }
    }

    /// A lease of ours that stands; one that was claimed is believed once it has settled.
    async fn believe(&self, asked: Moment, from: Option<String>) -> Result<Acquired, LeaseError> {
        if self.claims_from.get().is_some() {
            self.settle().await?;
        }
        Ok(self.acquired(asked, from))
    }

    /// Waits for other claimants to have done what they began.
    async fn settle(&self) -> Result<(), LeaseError> {
        for settle in [Duration::ZERO, self.claim.settle] {
            tokio::time::sleep(settle).await;
            let now = look(&self.root).await?;
            if !now.is_held_by(&self.claim.run_id) {
                return Err(race_lost(&self.root, &now));
            }
        }
        Ok(())
    }

    fn acquired(&self, asked: Moment, claimed_from: Option<String>) -> Acquired {
        let (root, clock) = (&self.root, self.clock.clone());
        if claimed_from.is_some() {
            tracing::warn!(root = %root, claimed_from, "claimed an expired lease");
        }
        Acquired {
            held: Held::new(root, self.claim, clock, asked),
            claimed_from,
        }
    }
}

fn live_error(root: &Root, found: &LeaseRecord, skew_s: i64) -> LeaseError {
    // A store whose clock is behind is the later one to see it expire.
    let claimable_at = |until: i64| until.saturating_add(1).saturating_sub(skew_s.min(0));
    LeaseError::Live(Box::new(LiveLease {
        root: root.url().to_owned(),
        run_id: found.run_id().to_owned(),
        acquired_at: found.acquired_at().to_owned(),
        heartbeat_at: found.heartbeat_at().to_owned(),
        ttl_s: found.ttl_s(),
        claimable_at: found
            .live_until()
            .map_or_else(String::new, |until| iso(claimable_at(until))),
    }))
}

/// Refuses a root whose lease another run holds, without asking for it.
///
/// # Errors
/// [`LeaseError::Live`], [`LeaseError::UnknownSpec`], and failed reads.
pub(crate) async fn refuse_if_live(root: &Root, clock: &dyn Clock) -> Result<(), LeaseError> {
    match look(root).await?.standing {
        Standing::Foreign(spec) => Err(LeaseError::UnknownSpec {
            root: root.url().to_owned(),
            spec,
        }),
        Standing::Lease(found) if found.is_live(clock.now().unix_seconds()) => {
            Err(live_error(root, &found, 0))
        }
        Standing::Free | Standing::Debris | Standing::Lease(_) => Ok(()),
    }
}

fn race_lost(root: &Root, seen: &Seen) -> LeaseError {
    LeaseError::RaceLost {
        root: root.url().to_owned(),
        holder: seen.standing.holder(),
    }
}
