//! Why there is no lease, or no longer one.

use std::fmt;

use crate::error::FaultKind;
use crate::store::retry::Fault;
use crate::store::root::StoreError;

/// Why there is no lease, or no longer one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Another run holds a live lease.
    #[error("{0}")]
    Live(Box<LiveLease>),
    /// The lease is of a kind this program does not know, so it cannot tell whether it is live.
    #[error(
        "the lease `sweep.lease.json` of `{root}` has the unknown spec {spec}; use a program that knows it, \
         or delete the file once no sweep is running"
    )]
    UnknownSpec {
        /// The root.
        root: String,
        /// What stands under `spec`, as JSON.
        spec: String,
    },
    /// Another run claimed the expired lease at the same time.
    #[error("the expired lease of `{root}` was claimed by {}; wait for that run to end", named(.holder.as_deref()))]
    RaceLost {
        /// The root.
        root: String,
        /// The run that holds it now, if any.
        holder: Option<String>,
    },
    /// The lease was ours and is not any more.
    #[error(
        "run `{run_id}` has lost the lease of `{root}` to {}; nothing more is written, run it again later, \
         what is done is kept", named(.holder.as_deref())
    )]
    Lost {
        /// The root.
        root: String,
        /// The run that held it.
        run_id: String,
        /// The run that holds it now, if any.
        holder: Option<String>,
    },
    /// The lease was not confirmed in time, so another run may have claimed it.
    #[error(
        "run `{run_id}` could not confirm the lease of `{root}` for {silent_s} s, its ttl is {ttl_s} s; \
         nothing more is written, run it again, what is done is kept"
    )]
    Stale {
        /// The root.
        root: String,
        /// The run that held it.
        run_id: String,
        /// Whole seconds since it was last confirmed.
        silent_s: u64,
        /// Seconds a heartbeat is good for.
        ttl_s: u64,
    },
    /// The thread that keeps the lease could not be started, or is gone.
    #[error("the lease of `{root}` cannot be kept: {reason}")]
    Keeper {
        /// The root.
        root: String,
        /// What went wrong.
        reason: String,
    },
    /// A request failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A lease that another run holds and that must be waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLease {
    /// The root.
    pub root: String,
    /// The run that holds it.
    pub run_id: String,
    /// When it was acquired, as recorded.
    pub acquired_at: String,
    /// When it was last confirmed, as recorded.
    pub heartbeat_at: String,
    /// Seconds a heartbeat is good for.
    pub ttl_s: u64,
    /// The first second at which it may be claimed unless it is confirmed again.
    pub claimable_at: String,
}

impl fmt::Display for LiveLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{root}` is being swept by run `{run_id}` (acquired {}, last heartbeat {}, ttl {} s); wait for \
             it to end; if it is known to be dead, try again after {}, or at once after \
             `zagg-stream lease release {root} --run-id {run_id}`",
            self.acquired_at,
            self.heartbeat_at,
            self.ttl_s,
            self.claimable_at,
            root = self.root,
            run_id = self.run_id,
        )
    }
}

fn named(holder: Option<&str>) -> String {
    match holder {
        Some(run_id) => format!("run `{run_id}`"),
        None => "someone who has already let go of it".to_owned(),
    }
}

impl LeaseError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Keeper { .. } => FaultKind::Bug,
            Self::Live(_) | Self::UnknownSpec { .. } | Self::RaceLost { .. } => {
                FaultKind::LeaseRefused
            }
            Self::Lost { .. } | Self::Stale { .. } => FaultKind::LeaseLost,
        }
    }
}

impl Fault for LeaseError {
    fn kind(&self) -> FaultKind {
        LeaseError::kind(self)
    }
}
