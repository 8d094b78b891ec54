//! What steers a step from the side: admission and the lease.

use actix::Message;

use crate::store::Held;

/// Discovery → Supervisor: a ticket was handed out.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Admit;

/// Discovery → Supervisor: every leaf of the work set has a ticket, or none will get one.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct WorkListed {
    /// Leaves that got no ticket because the pass was stopping.
    pub not_attempted: u64,
}

/// Whoever writes → LeaseKeeper: take the lease, or show that it is held. `None` when it
/// cannot be had, and then the run is stopping.
#[derive(Debug, Message)]
#[rtype(result = "Option<Held>")]
pub(crate) struct Hold;

/// Whoever started the run → LeaseKeeper: stop beating, and give the lease back unless
/// it is to stand. What an operator should know of it and of the store.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Vec<String>")]
pub(crate) struct EndLease {
    /// Why a lease that is held is to stand until it expires, if it is.
    pub stands_because: Option<&'static str>,
}

/// Discovery of the ladder → Supervisor: how many pieces of work have failed.
#[derive(Debug, Message)]
#[rtype(result = "u64")]
pub(crate) struct FailedSoFar;
