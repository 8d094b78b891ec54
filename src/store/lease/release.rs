//! Gives the lease back.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Held, IfMatch, LEASE_KEY, LeaseError, LeaseRecord, Standing, conflict, look};
use crate::store::retry::RetryPolicy;
use crate::store::root::{Op, Replaced, Root, Version};
use crate::time::{Clock, Moment};

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

/// Deletes the lease if `run_id` holds it, as a release by somebody who is not that run.
///
/// # Errors
/// As [`give_back`].
pub(crate) async fn release(
    root: &Root,
    run_id: &str,
    clock: &dyn Clock,
) -> Result<Released, LeaseError> {
    let release = Release {
        root: root.with_retry(RetryPolicy::never()),
        run_id,
        clock,
        if_match: IfMatch::Untried,
        confirmed: &|_| {},
        is_deleted: AtomicBool::new(false),
    };
    release.run(root).await
}

/// Deletes the lease that `held` is of, if it is still ours.
///
/// Transient faults are tried again under the root's policy, each time from a look: a
/// request whose answer was lost is recognised, and not repeated blindly.
///
/// # Errors
/// The failed request; the lease then stands, and [`Held::stands`] says until when.
pub(crate) async fn give_back(root: &Root, held: &Held) -> Result<Released, LeaseError> {
    if held.is_joined() {
        return Ok(Released::NotOurs(Some(held.run_id().to_owned())));
    }
    let release = Release {
        root: root.with_retry(RetryPolicy::never()),
        run_id: held.run_id(),
        clock: &**held.clock(),
        if_match: held.if_match(),
        confirmed: &|at| held.note_heartbeat(at),
        is_deleted: AtomicBool::new(false),
    };
    release.run(root).await
}

struct Release<'a> {
    /// Whose requests are tried once.
    root: Root,
    run_id: &'a str,
    clock: &'a dyn Clock,
    if_match: IfMatch,
    /// Hears of a heartbeat that stands.
    confirmed: &'a (dyn Fn(Moment) + Send + Sync),
    /// Whether a deletion was asked for whose answer was lost.
    is_deleted: AtomicBool,
}

impl Release<'_> {
    async fn run(&self, patient: &Root) -> Result<Released, LeaseError> {
        patient.repeat(LEASE_KEY, || self.run_once()).await
    }

    async fn run_once(&self) -> Result<Released, LeaseError> {
        let seen = look(&self.root).await?;
        let is_deleted = self.is_deleted.load(Ordering::Relaxed);
        let (record, version) = match (seen.standing, seen.found) {
            (Standing::Lease(record), Some((_, version))) if record.run_id() == self.run_id => {
                (record, version)
            }
            // Gone, or somebody else's since.
            _ if is_deleted => return Ok(Released::Yes),
            (Standing::Free, _) => return Ok(Released::Absent),
            (other, _) => return Ok(Released::NotOurs(other.holder())),
        };
        if self.if_match != IfMatch::NotHonoured {
            self.confirm(&record, &version).await?;
        }
        match self.root.delete_once(LEASE_KEY).await {
            Ok(()) => Ok(Released::Yes),
            Err(error) => {
                let may_be_gone = error.kind().is_transient();
                self.is_deleted.fetch_or(may_be_gone, Ordering::Relaxed);
                Err(error.into())
            }
        }
    }

    /// Shows in one step that the lease is still ours, and makes it fresh: then nobody may
    /// claim it before it is deleted, which no store does on a condition. A store that has
    /// no such step, or ignores its condition, leaves it at the look.
    async fn confirm(&self, record: &LeaseRecord, version: &Version) -> Result<(), LeaseError> {
        let now = self.clock.now();
        let json = record.confirmed_at(now.unix_seconds()).to_json();
        match self.root.replace_at_once(LEASE_KEY, json, version).await? {
            Some(Replaced::Yes) => (self.confirmed)(now),
            Some(Replaced::Moved) => return Err(conflict(&self.root, Op::Replace).into()),
            None => {}
        }
        Ok(())
    }
}
