//! Acquires the lease, or says who has it.
//!
//! A claim of an expired lease deletes and creates, two requests, so two claimants that
//! read the same expired record can undo each other. The record's bytes are compared
//! once more before the delete, the winner is whose record stands afterwards, and a
//! claimant believes that only after it has stood for [`Claim::settle`].

use std::sync::Arc;
use std::time::Duration;

use super::beat::beat;
use super::error::LiveLease;
use super::{Claim, Held, LEASE_KEY, LeaseError, LeaseRecord, Seen, Standing, look};
use crate::store::retry::{RetryPolicy, retry};
use crate::store::root::{Created, Root};
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
    // The steps are tried again as a whole, so the requests inside them are not.
    let once = root.with_retry(RetryPolicy::never());
    let (once, clock) = (&once, &clock);
    retry(
        root.retry_policy(),
        LEASE_KEY,
        |_| {},
        || async move { acquire_once(once, claim, clock).await },
    )
    .await
}

async fn acquire_once(
    root: &Root,
    claim: &Claim,
    clock: &Arc<dyn Clock>,
) -> Result<Acquired, LeaseError> {
    let asked = clock.now();
    let record = LeaseRecord::new(claim, asked.unix_seconds(), None);
    let lost_answer = match root.create(LEASE_KEY, record.to_json()).await {
        Ok(Created::Yes) => return Ok(acquired(root, claim, clock, asked, None)),
        Ok(Created::Exists) => None,
        Err(error) if error.kind().is_transient() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let seen = look(root).await?;
    match &seen.standing {
        // Gone since, or never written: from the start.
        Standing::Free => Err(match lost_answer {
            Some(error) => error.into(),
            None => race_lost(root, &seen),
        }),
        Standing::Foreign(spec) => Err(LeaseError::UnknownSpec {
            root: root.url().to_owned(),
            spec: spec.clone(),
        }),
        // Ours, by a create whose answer was lost or from before a restart; either way
        // its heartbeat is of another moment than this one.
        Standing::Lease(found) if found.run_id() == claim.run_id => {
            let from = found.claimed_from().map(str::to_owned);
            let held = Held::new(root, claim, clock.clone(), asked);
            beat(root, &held).await?;
            Ok(Acquired {
                held,
                claimed_from: from,
            })
        }
        Standing::Lease(found) if found.is_live(asked.unix_seconds()) => {
            Err(live_error(root, found))
        }
        Standing::Lease(_) | Standing::Debris => take_over(root, claim, clock, &seen).await,
    }
}

fn live_error(root: &Root, found: &LeaseRecord) -> LeaseError {
    LeaseError::Live(Box::new(LiveLease {
        root: root.url().to_owned(),
        run_id: found.run_id().to_owned(),
        acquired_at: found.acquired_at().to_owned(),
        heartbeat_at: found.heartbeat_at().to_owned(),
        ttl_s: found.ttl_s(),
        claimable_at: found
            .live_until()
            .map_or_else(String::new, |until| iso(until.saturating_add(1))),
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
            Err(live_error(root, &found))
        }
        Standing::Free | Standing::Debris | Standing::Lease(_) => Ok(()),
    }
}

/// Claims what `seen` shows, expired or debris.
async fn take_over(
    root: &Root,
    claim: &Claim,
    clock: &Arc<dyn Clock>,
    seen: &Seen,
) -> Result<Acquired, LeaseError> {
    let again = look(root).await?;
    let bytes = |seen: &Seen| seen.found.as_ref().map(|(bytes, _)| bytes.clone());
    if bytes(&again) != bytes(seen) {
        return Err(race_lost(root, &again));
    }
    let from = seen.standing.holder();
    // Never repeated: by then it could be somebody's fresh lease.
    let undeleted = match root.delete_once(LEASE_KEY).await {
        Ok(()) => None,
        Err(error) if error.kind().is_transient() => Some(error),
        Err(error) => return Err(error.into()),
    };
    let asked = clock.now();
    let record = LeaseRecord::new(claim, asked.unix_seconds(), from.as_deref());
    match root.create(LEASE_KEY, record.to_json()).await {
        Ok(_) => {}
        // Whether it happened is what the reading back tells.
        Err(error) if error.kind().is_transient() => {}
        Err(error) => return Err(error.into()),
    }
    for settle in [Duration::ZERO, claim.settle] {
        tokio::time::sleep(settle).await;
        let now = look(root).await?;
        if now.standing.holder().as_deref() != Some(claim.run_id.as_str()) {
            return Err(match undeleted {
                Some(error) if bytes(&now) == bytes(seen) => error.into(),
                _ => race_lost(root, &now),
            });
        }
    }
    tracing::warn!(root = %root, claimed_from = from, "claimed an expired lease");
    Ok(acquired(root, claim, clock, asked, from))
}

fn acquired(
    root: &Root,
    claim: &Claim,
    clock: &Arc<dyn Clock>,
    asked: Moment,
    claimed_from: Option<String>,
) -> Acquired {
    Acquired {
        held: Held::new(root, claim, clock.clone(), asked),
        claimed_from,
    }
}

fn race_lost(root: &Root, seen: &Seen) -> LeaseError {
    LeaseError::RaceLost {
        root: root.url().to_owned(),
        holder: seen.standing.holder(),
    }
}
