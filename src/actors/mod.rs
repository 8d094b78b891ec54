//! The stages of the column pass and of the ladder, and the functions that wire them.
//!
//! ```text
//! Discovery → StampReader → GateActor → FoldActor → ColumnWriter
//!                 └───────────┴────────────┴─────────────┴──▶ Supervisor
//!
//! TargetFinder → LevelGate → LevelBuilder → Finisher
//!      └─────────────┴────────────┴──▶ Supervisor
//! ```
//! One LeaseKeeper serves both.
//! Every hop waits until the next stage has a slot, all the way back to the listing.
//! The number of leaves in the pipeline is capped by the places their tickets hold,
//! their bytes by the memory budget.

mod column_writer;
mod discovery;
mod finisher;
mod fold;
mod gate;
mod lease_keeper;
mod level_builder;
mod level_gate;
mod stage;
mod stamp_reader;
mod supervisor;
mod target_finder;

use std::sync::Arc;

use actix::{Actor, Addr};
use tokio::sync::oneshot;

use crate::abort::AbortSignal;
use crate::ladder::{Ladder, LadderWork};
use crate::report::Tally;
use crate::run::Run;
use crate::store::template::ColumnTemplate;
use crate::watch::Watched;
use crate::work::WorkSet;

use column_writer::ColumnWriter;
use discovery::Discovery;
pub(crate) use finisher::Finisher;
use fold::FoldActor;
pub(crate) use fold::{BUDGET_PER_WINDOW_BYTE, RESIDENT_PER_DECODED_BYTE};
use gate::GateActor;
pub(crate) use lease_keeper::{LeaseKeeper, Role};
use level_builder::LevelBuilder;
use level_gate::LevelGate;
use stamp_reader::StampReader;
pub(crate) use supervisor::Supervisor;
pub(crate) use target_finder::Search;
use target_finder::TargetFinder;

/// What every stage of the column pass shares.
pub(crate) struct Pass {
    pub run: Arc<Run>,
    pub template: Arc<ColumnTemplate>,
    /// Whether columns are written whether they are current or not.
    pub force: bool,
    /// Whether columns are only judged.
    pub dry_run: bool,
    /// At most this many columns are written.
    pub max_leaves: Option<u64>,
    /// Raised when as many leaves are under way as were asked for.
    pub enough: AbortSignal,
}

impl Pass {
    /// Whether no further leaf is to be begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.run.is_stopping() || self.enough.is_raised()
    }
}

/// Starts the stages of a column pass, last one first. The tally arrives when every leaf
/// has its outcome.
pub(crate) fn start_columns(
    pass: Arc<Pass>,
    work: WorkSet,
    keeper: Addr<LeaseKeeper>,
    watched: Arc<Watched>,
) -> oneshot::Receiver<Tally> {
    let (done, tally) = oneshot::channel();
    let supervisor = Supervisor::new(pass.run.clone(), watched.clone(), done).start();
    let writer = ColumnWriter::new(pass.clone()).start();
    let fold = FoldActor::new(pass.clone(), keeper, writer).start();
    let gate = GateActor::new(pass.clone(), fold).start();
    let reader = StampReader::new(pass.clone(), gate).start();
    Discovery::new(pass, work, reader, supervisor, watched).start();
    tally
}

/// A ladder under way.
pub(crate) struct Ladders {
    /// Arrives when every artifact has its outcome.
    pub tally: oneshot::Receiver<Tally>,
    /// Sums up, and writes what comes last.
    pub finisher: Addr<Finisher>,
}

/// Starts only what comes last of a ladder that is built elsewhere.
pub(crate) fn start_finisher(
    ladder: Arc<Ladder>,
    work: Arc<LadderWork>,
    keeper: Addr<LeaseKeeper>,
) -> Addr<Finisher> {
    Finisher::new(ladder, work, keeper).start()
}

/// Starts the stages of the ladder, last one first.
pub(crate) fn start_ladder(
    search: Search,
    keeper: Addr<LeaseKeeper>,
    watched: Arc<Watched>,
) -> Ladders {
    let (done, tally) = oneshot::channel();
    let (ladder, work) = (search.ladder.clone(), search.work.clone());
    let supervisor = Supervisor::new(ladder.run.clone(), watched.clone(), done).start();
    let finisher = start_finisher(ladder.clone(), work, keeper.clone());
    let builder = LevelBuilder::new(ladder.clone(), keeper, finisher.clone()).start();
    let gate = LevelGate::new(ladder, builder, finisher.clone()).start();
    TargetFinder::new(search, gate, supervisor, watched).start();
    Ladders { tally, finisher }
}
