//! Confirms the lease, once.

use super::{Held, LEASE_KEY, LeaseError, Standing, look};
use crate::store::root::{Op, Replaced, Root, StoreError};

/// Confirms the lease once: reads it, and rewrites its heartbeat if it is still ours.
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
    match root.replace(LEASE_KEY, json, version).await? {
        Replaced::Yes => {
            held.confirm(now);
            held.ensure_fresh()
        }
        // Perhaps by an earlier beat of ours whose answer was lost.
        Replaced::Moved => {
            let seen = look(root).await?;
            if seen.standing.holder().as_deref() == Some(held.run_id()) {
                let reason = "the lease was rewritten during a beat".into();
                return Err(LeaseError::Store(StoreError {
                    op: Op::Replace,
                    key: LEASE_KEY.to_owned(),
                    root: root.url().to_owned(),
                    source: Box::new(object_store::Error::AlreadyExists {
                        path: LEASE_KEY.to_owned(),
                        source: reason,
                    }),
                }));
            }
            Err(held.lose(seen.standing.holder()))
        }
    }
}
