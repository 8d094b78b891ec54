//! Confirms the lease, once.

use super::{Held, LEASE_KEY, LeaseError, Standing, conflict, look};
use crate::store::root::{Op, Replaced, Root};

/// Confirms the lease once: reads it, and rewrites its heartbeat if it is still ours. When
/// the answer is lost, what stands there says whether it was rewritten.
///
/// A token that went stale is never confirmed: its lease may be in the middle of being
/// claimed, and this write would land on top of the claim.
///
/// # Errors
/// [`LeaseError::Lost`] when it is not ours, and then the token is lost for good;
/// [`LeaseError::Stale`]; a failed request, after which another beat may succeed.
pub(crate) async fn beat(root: &Root, held: &Held) -> Result<(), LeaseError> {
    held.ensure_fresh()?;
    let seen = look(root).await?;
    let (Standing::Lease(record), Some((_, version))) = (&seen.standing, &seen.found) else {
        return Err(held.lose(seen.standing.holder()));
    };
    if record.run_id() != held.run_id() {
        return Err(held.lose(seen.standing.holder()));
    }
    held.ensure_fresh()?;
    // Before the request: what counts is when the written time was true.
    let now = held.clock().now();
    let json = record.confirmed_at(now.unix_seconds()).to_json();
    let error = match root.replace(LEASE_KEY, json.clone(), version).await {
        Ok(Replaced::Yes) => return held.confirm(now),
        // Perhaps by an earlier beat of ours whose answer was lost.
        Ok(Replaced::Moved) => conflict(root, Op::Replace),
        Err(error) => error,
    };
    if !error.kind().is_transient() {
        return Err(error.into());
    }
    let stands = look(root).await?;
    if stands.bytes().is_some_and(|bytes| *bytes == json) {
        return held.confirm(now);
    }
    match stands.is_held_by(held.run_id()) {
        true => Err(error.into()),
        false => Err(held.lose(stands.standing.holder())),
    }
}
