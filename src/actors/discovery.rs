//! Streams the leaves of the work set into the pipeline. In: the work set. Out:
//! FoundLeaf. Costs one LIST per shard on windowed stores whose records name no
//! window; a leaf is only listed when a place in flight is free.

use std::pin::pin;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, WrapFuture};
use futures::StreamExt;
use tokio::sync::Semaphore;
use tracing::Instrument;

use super::Pass;
use super::stage::free_place;
use super::stamp_reader::StampReader;
use super::supervisor::Supervisor;
use crate::messages::{Admit, FoundLeaf, Outcome, Ticket, WorkListed};
use crate::watch::Watched;
use crate::work::WorkSet;

pub(crate) struct Discovery {
    pass: Arc<Pass>,
    work: Option<WorkSet>,
    reader: Addr<StampReader>,
    supervisor: Addr<Supervisor>,
    watched: Arc<Watched>,
}

impl Discovery {
    pub(crate) fn new(
        pass: Arc<Pass>,
        work: WorkSet,
        reader: Addr<StampReader>,
        supervisor: Addr<Supervisor>,
        watched: Arc<Watched>,
    ) -> Self {
        Self {
            pass,
            work: Some(work),
            reader,
            supervisor,
            watched,
        }
    }
}

impl Actor for Discovery {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(work) = self.work.take() {
            let (pass, reader, supervisor) = (
                self.pass.clone(),
                self.reader.clone(),
                self.supervisor.clone(),
            );
            let discover = discover(pass, work, reader, supervisor);
            let discover = discover.instrument(self.watched.span().clone());
            ctx.spawn(discover.into_actor(self));
        }
    }
}

async fn discover(
    pass: Arc<Pass>,
    work: WorkSet,
    reader: Addr<StampReader>,
    supervisor: Addr<Supervisor>,
) {
    let places = Arc::new(Semaphore::new(pass.run.settings.max_in_flight));
    let mut leaves = pin!(work.leaves(&pass.run.root));
    let mut left = work.num_leaves();
    loop {
        let place = tokio::select! {
            biased;
            () = pass.enough.raised() => None,
            place = free_place(&pass.run, &places) => place,
        };
        let Some(place) = place else { break };
        let Some(found) = leaves.next().await else {
            left = 0;
            break;
        };
        if supervisor.send(Admit).await.is_err() {
            break;
        }
        left = found.left;
        let ticket = Ticket::new(found.leaf, supervisor.clone(), place);
        match found.listed {
            // A reader that is gone drops the ticket, which reports the leaf.
            Ok(()) => drop(reader.send(FoundLeaf { ticket }).await),
            Err(error) => ticket.finish(Outcome::failed(error)),
        }
    }
    // A supervisor that is gone counts no more.
    let _ = supervisor
        .send(WorkListed {
            not_attempted: left,
        })
        .await;
}
