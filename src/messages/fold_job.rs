//! GateActor → FoldActor: a leaf whose column must be written.

use actix::Message;

use crate::messages::{LeafRef, Reason, Ticket};
use crate::store::stamp::Stamp;

#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct FoldJob {
    pub ticket: Ticket<LeafRef>,
    pub stamp: Stamp,
    /// Why the column is not current.
    pub reason: Reason,
}
