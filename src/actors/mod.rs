//! The stages of the column pass, and the one function that wires them.
//!
//! ```text
//! Discovery → StampReader → GateActor → FoldActor → ColumnWriter
//!                 └───────────┴────────────┴─────────────┴──▶ Supervisor ◀── LeaseKeeper
//! ```
//! Every hop waits until the next stage has a slot, all the way back to the listing.
//! The number of leaves in the pipeline is capped by the places their tickets hold,
//! their bytes by the memory budget.

mod column_writer;
mod discovery;
mod fold;
mod gate;
mod lease_keeper;
mod stage;
mod stamp_reader;
mod supervisor;

use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context};
use tokio::sync::{broadcast, oneshot};

use crate::abort::AbortSignal;
use crate::budget::MemoryBudget;
use crate::messages::Event;
use crate::report::Tally;
use crate::settings::Settings;
use crate::store::Root;
use crate::store::template::ColumnTemplate;
use crate::time::Clock;
use crate::work::WorkSet;

use column_writer::ColumnWriter;
use discovery::Discovery;
use fold::FoldActor;
use gate::GateActor;
use lease_keeper::LeaseKeeper;
use stamp_reader::StampReader;
pub(crate) use supervisor::Supervisor;

/// What every stage of a pass shares.
pub(crate) struct Pass {
    pub root: Root,
    pub template: Arc<ColumnTemplate>,
    pub settings: Settings,
    pub run_id: String,
    pub clock: Arc<dyn Clock>,
    pub abort: AbortSignal,
    /// Raised when as many leaves are under way as were asked for.
    pub enough: AbortSignal,
    pub budget: MemoryBudget,
    /// Leaves known when the pass began; windows still to be listed come on top.
    pub num_leaves: u64,
    pub events: broadcast::Sender<Event>,
}

impl Pass {
    /// The present as a store writes it.
    pub(crate) fn now(&self) -> String {
        crate::time::iso(self.clock.now().unix_seconds())
    }

    /// Whether no further leaf is to be begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.abort.is_raised() || self.enough.is_raised()
    }

    /// Does work that may be left undone; `None` when the pass was stopped on the way.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.abort.raised() => None,
            done = work => Some(done),
        }
    }

    /// Tells the watchers, of whom there may be none.
    pub(crate) fn announce(&self, event: Event) {
        let _ = self.events.send(event);
    }
}

/// A running pass.
pub(crate) struct Stages {
    /// Stops the pass.
    pub supervisor: Addr<Supervisor>,
    /// Arrives when every leaf has its outcome and the lease is given back.
    pub tally: oneshot::Receiver<Tally>,
}

/// Starts the stages, last one first.
pub(crate) fn start(pass: Arc<Pass>, work: WorkSet) -> Stages {
    let (done, tally) = oneshot::channel();
    let supervisor_context = Context::new();
    let supervisor = supervisor_context.address();
    let keeper = LeaseKeeper::new(pass.clone(), supervisor.clone()).start();
    supervisor_context.run(Supervisor::new(pass.clone(), keeper.clone(), done));
    let writer = ColumnWriter::new(pass.clone()).start();
    let fold = FoldActor::new(pass.clone(), keeper, writer).start();
    let gate = GateActor::new(pass.clone(), fold).start();
    let reader = StampReader::new(pass.clone(), gate).start();
    Discovery::new(pass, work, reader, supervisor.clone()).start();
    Stages { supervisor, tally }
}
