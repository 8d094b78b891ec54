//! FoldActor → ColumnWriter: a column, encoded and hashed, with nothing left to do but
//! to write it.

use actix::Message;

use crate::budget::Share;
use crate::messages::{LeafRef, Reason, Ticket};
use crate::report::StageSeconds;
use crate::store::Held;
use crate::store::column::EncodedColumn;
use crate::store::stamp::Stamp;

#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct FoldedColumn {
    pub ticket: Ticket<LeafRef>,
    pub stamp: Stamp,
    pub reason: Reason,
    pub column: EncodedColumn,
    /// Where the time went so far.
    pub stages: StageSeconds,
    /// Proof that the sweep lease is ours, as long as it is fresh.
    pub held: Held,
    /// The column's share of the memory budget, given back when it is written.
    pub share: Share,
}
