//! The sweep lease, `sweep.lease.json`: who may write to this store now
//! (`format.md` section 8).
//!
//! This is the record, the conditional requests on it, and [`Held`], what a holder
//! knows about its own claim. Keeping it alive is [`crate::lease`].

use std::time::Duration;

use bytes::Bytes;

use super::root::{Root, StoreError, Version};
use crate::error::FaultKind;

mod acquire;
mod beat;
mod error;
mod held;
mod record;
mod release;

pub(crate) use acquire::{Acquired, acquire, refuse_if_live};
pub(crate) use beat::beat;
pub use error::LeaseError;
pub(crate) use held::Held;
pub(crate) use record::{LeaseRecord, Standing};
pub(crate) use release::{Released, release};

/// Key of the lease.
pub(crate) const LEASE_KEY: &str = "sweep.lease.json";

/// The only spec this program takes part in.
pub(crate) const LEASE_SPEC: &str = "zagg-sweep-lease/1";

/// Seconds without a heartbeat after which a lease may be claimed.
pub(crate) const DEFAULT_TTL_S: u64 = 900;

/// How long a claim must stand before it is believed: many times the delay between
/// another claimant's last look and its delete.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);

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
}

impl Claim {
    /// A claim by `run_id` for the whole store, with the usual ttl and settling time.
    pub(crate) fn new(run_id: impl Into<String>) -> Self {
        Self {
            run_id: run_id.into(),
            scope: None,
            ttl_s: DEFAULT_TTL_S,
            settle: SETTLE,
        }
    }
}

/// One look at the lease.
struct Seen {
    standing: Standing,
    /// The bytes and which writing they are; `None` when there is nothing.
    found: Option<(Bytes, Version)>,
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

/// Reads the lease, for people to look at.
///
/// # Errors
/// A failed read.
pub(crate) async fn show(root: &Root) -> Result<Standing, LeaseError> {
    Ok(look(root).await?.standing)
}

#[cfg(test)]
mod tests;
