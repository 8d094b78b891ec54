//! Reads the two root documents that tell whether a leaf is committed and whether its
//! column may be current. In: FoundLeaf. Out: StampedLeaf, or the outcome `empty`.
//! Costs one or two small GETs per leaf; at most `max_in_flight` at once.

use std::sync::Arc;

use actix::{Actor, Addr, AtomicResponse, Context, Handler};
use futures::TryFutureExt;
use futures::future::try_join;
use tokio::sync::Semaphore;

use super::gate::GateActor;
use super::{Pass, stage};
use crate::error::LeafFault;
use crate::messages::{FoundLeaf, LeafRef, Outcome, StampedLeaf};
use crate::store::artifact::Artifact;
use crate::store::stamp::{ArtifactRoot, Stamp};

pub(crate) struct StampReader {
    pass: Arc<Pass>,
    gate: Addr<GateActor>,
    slots: Arc<Semaphore>,
}

impl StampReader {
    pub(crate) fn new(pass: Arc<Pass>, gate: Addr<GateActor>) -> Self {
        let slots = Arc::new(Semaphore::new(pass.run.settings.max_in_flight));
        Self { pass, gate, slots }
    }
}

impl Actor for StampReader {
    type Context = Context<Self>;
}

impl Handler<FoundLeaf> for StampReader {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, found: FoundLeaf, _: &mut Context<Self>) -> Self::Result {
        let span = found.ticket.span();
        let work = read_and_pass_on(self.pass.clone(), found, self.gate.clone());
        stage::accept(self, &self.slots, span, work)
    }
}

async fn read_and_pass_on(pass: Arc<Pass>, found: FoundLeaf, gate: Addr<GateActor>) {
    let ticket = found.ticket;
    if pass.is_closing() {
        return ticket.finish(Outcome::NotAttempted);
    }
    match pass.run.unless_stopped(read(&pass, ticket.work())).await {
        Some(Ok(Some((stamp, column)))) => {
            pass.run.note_stamp(ticket.work().path(), stamp.to_json());
            let stamped = StampedLeaf {
                ticket,
                stamp,
                column,
            };
            // A gate that is gone drops the ticket, which reports the leaf.
            let _ = gate.send(stamped).await;
        }
        Some(Ok(None)) => ticket.finish(Outcome::Empty),
        Some(Err(fault)) => ticket.finish(Outcome::failed(fault)),
        None => ticket.finish(Outcome::NotAttempted),
    }
}

/// A forced pass does not ask what its columns are like.
async fn read(
    pass: &Pass,
    leaf: &LeafRef,
) -> Result<Option<(Stamp, Option<ArtifactRoot>)>, LeafFault> {
    let stamp = Stamp::read_leaf(&pass.run.root, leaf).map_err(LeafFault::from);
    if pass.force {
        return Ok(stamp.await?.map(|stamp| (stamp, None)));
    }
    let artifact = Artifact::column_of(leaf);
    let column = ArtifactRoot::read(&pass.run.root, &artifact).map_err(LeafFault::from);
    let (stamp, column) = try_join(stamp, column).await?;
    Ok(stamp.map(|stamp| (stamp, column)))
}
