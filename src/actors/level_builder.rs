//! Builds and writes the artifacts of the ladder, stamp last. In: BuildJob. Out: the
//! outcome. Reads on the I/O threads and folds on a blocking thread per artifact; at most
//! `max_folds` artifacts at once, their bytes bounded by the memory budget.

use std::sync::Arc;

use actix::{Actor, Addr, AtomicResponse, Context, Handler};
use tokio::sync::Semaphore;

use super::finisher::Finisher;
use super::lease_keeper::LeaseKeeper;
use super::stage;
use crate::error::{AbortReason, LeafFault};
use crate::ladder::build::{Builder, Built};
use crate::ladder::children::Children;
use crate::ladder::{Ladder, Target};
use crate::messages::{BuildJob, Hold, Outcome, TargetStands};
use crate::store::Held;

/// Tries of an artifact whose columns are rewritten while they are read.
const TRIES: u32 = 3;

pub(crate) struct LevelBuilder {
    ladder: Arc<Ladder>,
    keeper: Addr<LeaseKeeper>,
    finisher: Addr<Finisher>,
    slots: Arc<Semaphore>,
}

impl LevelBuilder {
    pub(crate) fn new(
        ladder: Arc<Ladder>,
        keeper: Addr<LeaseKeeper>,
        finisher: Addr<Finisher>,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(ladder.run.settings.max_folds));
        Self {
            ladder,
            keeper,
            finisher,
            slots,
        }
    }
}

impl Actor for LevelBuilder {
    type Context = Context<Self>;
}

impl Handler<BuildJob> for LevelBuilder {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, job: BuildJob, _: &mut Context<Self>) -> Self::Result {
        let span = job.ticket.span();
        let work = build(
            self.ladder.clone(),
            job,
            self.keeper.clone(),
            self.finisher.clone(),
        );
        stage::accept(self, &self.slots, span, work)
    }
}

async fn build(
    ladder: Arc<Ladder>,
    job: BuildJob,
    keeper: Addr<LeaseKeeper>,
    finisher: Addr<Finisher>,
) {
    let BuildJob {
        ticket,
        children,
        reason,
    } = job;
    if ladder.run.is_stopping() {
        return ticket.finish(Outcome::NotAttempted);
    }
    // Without the lease the run is stopping, and the keeper has said so.
    let Ok(Some(held)) = keeper.send(Hold).await else {
        return ticket.finish(Outcome::NotAttempted);
    };
    let target = ticket.work().clone();
    let built = try_to_build(&ladder, &target, children, held);
    match ladder.run.unless_stopped(built).await {
        Some(Ok(Built::Written {
            children,
            num_bytes,
            stages,
        })) => {
            let stands = TargetStands::new(&target, children, Some(num_bytes));
            // A finisher that is gone records nothing.
            let _ = finisher.send(stands).await;
            ticket.finish(Outcome::Written {
                reason,
                num_bytes,
                stages,
            });
        }
        Some(Ok(Built::Empty)) => ticket.finish(Outcome::Empty),
        Some(Ok(Built::Moved(column))) => {
            let artifact = target.to_string();
            ticket.finish(Outcome::failed(LeafFault::Moved { artifact, column }));
        }
        Some(Err(fault)) => ticket.finish(Outcome::failed(fault)),
        None => ticket.finish(Outcome::NotAttempted),
    }
}

async fn try_to_build(
    ladder: &Arc<Ladder>,
    target: &Arc<Target>,
    mut children: Children,
    held: Held,
) -> Result<Built, LeafFault> {
    let Some(level) = ladder.level(target.order) else {
        return Ok(Built::Empty);
    };
    let builder = Builder {
        ladder: ladder.clone(),
        level: Arc::new(level.clone()),
        target: target.clone(),
        held,
    };
    for _ in 1..TRIES {
        match builder.build(&children).await? {
            Built::Moved(column) => {
                tracing::warn!(%target, column, "rewritten while it was read, reading again")
            }
            done => return Ok(done),
        }
        children = Children::read(&ladder.run.root, &ladder.template, target).await?;
        if let Some(column) = ladder.foreign(&children) {
            ladder.run.stop(AbortReason::foreign(column));
        }
    }
    builder.build(&children).await
}
