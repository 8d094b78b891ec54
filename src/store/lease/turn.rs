//! Whose turn it is to claim a lease by a delete and a create, where the store has nothing
//! that does it in one step.
//!
//! Of all that read the same expired record only one may delete it, or a late delete would
//! hit the lease that another has created since. So each first creates an object that is
//! named after that very record, which only one can. It is deleted after the claim, unless
//! it is not known whether the delete of the lease is still under way.

use sha2::{Digest, Sha256};

use super::{LEASE_KEY, LeaseError, conflict};
use crate::store::examine::SCRATCH;
use crate::store::root::{Created, Op, Root, present};

/// Seconds after which a turn, which takes a few requests, was left by a process that was
/// killed in it.
const ABANDONED_S: i64 = 60;

/// The turn of one run.
pub(super) struct Turn {
    root: Root,
    key: String,
}

/// Takes the turn of `run_id` to claim the lease that reads `expired`; `now` is the store's
/// time in seconds since 1970.
///
/// # Errors
/// [`LeaseError::RaceLost`] when it is another's turn, and failed requests; after a
/// transient one it may be ours, and asking again tells.
pub(super) async fn take(
    root: &Root,
    expired: &[u8],
    run_id: &str,
    now: i64,
) -> Result<Turn, LeaseError> {
    let key = format!("{SCRATCH}/claim-{:x}", Sha256::digest(expired));
    let ours = |key| Turn {
        root: root.clone(),
        key,
    };
    if root.create(&key, run_id.to_owned()).await? == Created::Yes {
        return Ok(ours(key));
    }
    let Some(holder) = present(root.get(&key).await)? else {
        return Err(conflict(root, Op::Create).into());
    };
    if holder == run_id {
        return Ok(ours(key));
    }
    let taken = present(root.last_modified(&key).await)?;
    if taken.is_some_and(|taken| now.saturating_sub(taken) > ABANDONED_S) {
        root.delete_once(&key).await?;
        return Err(conflict(root, Op::Create).into());
    }
    Err(LeaseError::RaceLost {
        root: root.url().to_owned(),
        holder: Some(String::from_utf8_lossy(&holder).into_owned()),
    })
}

impl Turn {
    /// Ends it. One that cannot be ended holds up nobody: the record it is named after is
    /// gone, or it is soon taken for abandoned.
    pub(super) async fn end(self) {
        if let Err(error) = self.root.delete(&self.key).await {
            tracing::warn!(key = self.key, %error, "not deleted after a claim of `{LEASE_KEY}`");
        }
    }
}
