//! The lease of another process, as one that works for its holder sees it.
//!
//! Who joins a lease never writes to it. Its token is fresh while it has itself seen the
//! heartbeat move, under the run it joined, within the ttl on its own clock: what the record
//! says of the time is another machine's word, and one that stands still proves nothing. A
//! beat that is seen was written after the look before, and counts from there.

use std::sync::Arc;
use std::time::Duration;

use super::{Held, LeaseError, Standing, look};
use crate::store::root::Root;
use crate::time::Clock;

/// How often one that joins looks until it has seen the heartbeat move.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A run to be joined.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// The run that holds the lease.
    pub run_id: String,
    /// Seconds a heartbeat of it is good for.
    pub ttl_s: u64,
    /// What the member itself must hold beside it, which is its part of the run's work.
    pub part: Held,
}

/// Joins the lease of a run, once its heartbeat has been seen to move.
///
/// # Errors
/// [`LeaseError::Lost`] when the run does not hold the lease, [`LeaseError::Stale`] when its
/// heartbeat stands still for a ttl, and failed requests.
pub(crate) async fn join(
    root: &Root,
    membership: &Membership,
    clock: Arc<dyn Clock>,
) -> Result<Held, LeaseError> {
    let asked = clock.now();
    let held = Held::joined(root, membership, clock, asked);
    loop {
        if observe(root, &held).await? {
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
            match held.note_seen(version, asked) {
                Some(written_since) => held.confirm(written_since).map(|()| true),
                None => Ok(false),
            }
        }
        (other, _) => Err(held.lose(other.holder())),
    }
}
