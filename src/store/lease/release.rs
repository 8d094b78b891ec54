//! Gives the lease back.

use super::{LEASE_KEY, LeaseError, Standing, look};
use crate::store::root::Root;

/// What a release found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Released {
    /// It was ours and is gone.
    Yes,
    /// There was none.
    Absent,
    /// It is another's, or not readable as a lease, and stays; its run id if it has one.
    NotOurs(Option<String>),
}

/// Deletes the lease if `run_id` holds it.
///
/// # Errors
/// Failed requests. A delete whose answer was lost is looked after, not repeated blindly.
pub(crate) async fn release(root: &Root, run_id: &str) -> Result<Released, LeaseError> {
    let mut deleted = false;
    let mut last = None;
    // One try, and one more when the first one's answer was lost.
    for _ in 0..2 {
        match look(root).await?.standing {
            Standing::Lease(record) if record.run_id() == run_id => {}
            Standing::Free if deleted => return Ok(Released::Yes),
            Standing::Free => return Ok(Released::Absent),
            _ if deleted => return Ok(Released::Yes),
            other => return Ok(Released::NotOurs(other.holder())),
        }
        match root.delete_once(LEASE_KEY).await {
            Ok(()) => return Ok(Released::Yes),
            Err(error) if error.kind().is_transient() => {
                deleted = true;
                last = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    match last {
        Some(error) => Err(error.into()),
        None => Ok(Released::Yes),
    }
}
