//! StampReader → GateActor: a committed leaf and what stands at its column's root.

use actix::Message;

use crate::messages::{LeafRef, Ticket};
use crate::store::stamp::{ArtifactRoot, Stamp};

#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct StampedLeaf {
    pub ticket: Ticket<LeafRef>,
    /// The leaf's own stamp.
    pub stamp: Stamp,
    /// The root document of its column, when one is there.
    pub column: Option<ArtifactRoot>,
}
