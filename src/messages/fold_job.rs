//! GateActor → FoldActor: a leaf whose column must be written.

use actix::Message;

use crate::messages::{LeafTicket, Reason};
use crate::store::stamp::Stamp;

#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct FoldJob {
    pub ticket: LeafTicket,
    pub stamp: Stamp,
    /// Why the column is not current.
    pub reason: Reason,
}
