//! What steers a pass from the side: admission, the lease, and the abort.

use actix::Message;

use crate::error::AbortReason;
use crate::store::{Held, LeaseError};

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

/// FoldActor → LeaseKeeper: take the lease, or show that it is held. `None` when it
/// cannot be had, which the keeper has told the supervisor.
#[derive(Debug, Message)]
#[rtype(result = "Option<Held>")]
pub(crate) struct Hold;

/// Supervisor → LeaseKeeper: stop beating and give the lease back.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), LeaseError>")]
pub(crate) struct ReleaseLease;

/// Anyone → Supervisor: stop the pass.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct AbortPass(pub AbortReason);
