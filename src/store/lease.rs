//! The sweep lease, `sweep.lease.json`: who may write to this store now
//! (`format.md` section 8).
//!
//! This is the record, the conditional requests on it, and [`Held`], what a holder
//! knows about its own claim. Keeping it alive is [`crate::lease`].

use std::time::Duration;

use bytes::Bytes;

use super::examine::{Answer, Examination};
use super::root::{Op, Root, StoreError, Version};
use crate::error::FaultKind;

mod acquire;
mod beat;
mod error;
mod held;
mod joined;
mod record;
mod release;
mod turn;

pub(crate) use acquire::{Acquired, acquire, refuse_if_live};
use beat::beat;
pub use error::LeaseError;
pub(crate) use held::Held;
pub(crate) use joined::{Membership, Sight, join};
pub(crate) use record::{LeaseRecord, Standing};
pub(crate) use release::{Released, give_back, release};

/// Key of the lease.
pub(crate) const LEASE_KEY: &str = "sweep.lease.json";

/// The only spec this program takes part in.
pub(crate) const LEASE_SPEC: &str = "zagg-sweep-lease/1";

/// Seconds without a heartbeat after which a lease may be claimed.
pub(crate) const DEFAULT_TTL_S: u64 = 900;

/// How long a claim must stand before it is believed, where it was not made in one
/// step: many times the delay between another claimant's last look and its delete.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

/// Whether the store rewrites an object only while it is the one that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum IfMatch {
    /// Nobody has tried.
    #[default]
    Untried,
    /// It does.
    Honoured,
    /// It cannot, or says that it does and rewrites all the same.
    NotHonoured,
}

/// What a run asks for.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    /// The run that asks. Two processes must never share one.
    pub run_id: String,
    /// The node prefixes it covers; informative.
    pub scope: Option<Vec<String>>,
    /// Seconds a heartbeat is to be good for.
    pub ttl_s: u64,
    /// How long a claim of an expired lease must stand before it is believed.
    pub settle: Duration,
    /// What the store makes of the condition of a rewrite.
    pub if_match: IfMatch,
    /// Seconds by which the store's clock is known to be ahead of this machine's.
    pub skew_s: i64,
}

impl Claim {
    /// A claim by `run_id` for the whole store, with the usual ttl and settling time, of a
    /// store that nothing is known of.
    pub(crate) fn new(run_id: impl Into<String>) -> Self {
        Self {
            run_id: run_id.into(),
            scope: None,
            ttl_s: DEFAULT_TTL_S,
            settle: SETTLE,
            if_match: IfMatch::default(),
            skew_s: 0,
        }
    }

    /// The same claim, of a store that was examined.
    pub(crate) fn of_examined(self, found: &Examination) -> Self {
        let if_match = match found.replace.answer {
            Answer::Yes => IfMatch::Honoured,
            Answer::No => IfMatch::NotHonoured,
            Answer::NotTried => IfMatch::Untried,
        };
        Self {
            if_match,
            skew_s: found.clock_skew_s.unwrap_or_default(),
            ..self
        }
    }
}

/// Confirms the lease once: by a beat, or where it is another process's, by having seen one.
///
/// # Errors
/// As [`beat()`], and of a lease that was joined, as [`join`].
pub(crate) async fn confirm(root: &Root, held: &Held) -> Result<(), LeaseError> {
    match held.is_joined() {
        true => joined::observe(root, held).await.map(drop),
        false => beat(root, held).await,
    }
}

/// One look at the lease.
struct Seen {
    standing: Standing,
    /// The bytes and which writing they are; `None` when there is nothing.
    found: Option<(Bytes, Version)>,
}

impl Seen {
    fn bytes(&self) -> Option<&Bytes> {
        self.found.as_ref().map(|(bytes, _)| bytes)
    }

    fn is_held_by(&self, run_id: &str) -> bool {
        matches!(&self.standing, Standing::Lease(record) if record.run_id() == run_id)
    }
}

async fn look(root: &Root) -> Result<Seen, StoreError> {
    match root.get_with_version(LEASE_KEY).await {
        Ok(found) => Ok(Seen {
            standing: Standing::parse(&found.bytes),
            found: Some((found.bytes, found.version)),
        }),
        Err(error) if error.kind() == FaultKind::NotFound => Ok(Seen {
            standing: Standing::Free,
            found: None,
        }),
        Err(error) => Err(error),
    }
}

/// A condition that failed although the lease is nobody else's: another request on it, such
/// as one of ours whose answer was lost, is still under way. To be tried again.
fn conflict(root: &Root, op: Op) -> StoreError {
    StoreError {
        op,
        key: LEASE_KEY.to_owned(),
        root: root.url().to_owned(),
        source: Box::new(object_store::Error::AlreadyExists {
            path: LEASE_KEY.to_owned(),
            source: "another request on the lease came in between".into(),
        }),
    }
}

/// Reads the lease, for people to look at.
///
/// # Errors
/// A failed read.
pub(crate) async fn show(root: &Root) -> Result<Standing, LeaseError> {
    Ok(look(root).await?.standing)
}

#[cfg(test)]
mod tests;
