//! Decides whether an artifact of the ladder is current. In: FoundTarget. Out: BuildJob,
//! or the outcome `current` or `empty`. Costs the root documents of the artifact and of
//! the columns it folds from; at most `max_in_flight` artifacts at once.

use std::sync::Arc;

use actix::{Actor, Addr, AtomicResponse, Context, Handler};
use tokio::sync::Semaphore;

use super::finisher::Finisher;
use super::level_builder::LevelBuilder;
use super::stage;
use crate::error::{AbortReason, LeafFault};
use crate::ladder::children::Children;
use crate::ladder::gate::{self, Verdict};
use crate::ladder::{Ladder, Target};
use crate::messages::{BuildJob, FoundTarget, Outcome, Reason, TargetStands};

pub(crate) struct LevelGate {
    ladder: Arc<Ladder>,
    builder: Addr<LevelBuilder>,
    finisher: Addr<Finisher>,
    slots: Arc<Semaphore>,
}

impl LevelGate {
    pub(crate) fn new(
        ladder: Arc<Ladder>,
        builder: Addr<LevelBuilder>,
        finisher: Addr<Finisher>,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(ladder.run.settings.max_in_flight));
        Self {
            ladder,
            builder,
            finisher,
            slots,
        }
    }
}

impl Actor for LevelGate {
    type Context = Context<Self>;
}

impl Handler<FoundTarget> for LevelGate {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, found: FoundTarget, _: &mut Context<Self>) -> Self::Result {
        let span = found.ticket.span();
        let work = judge_and_pass_on(
            self.ladder.clone(),
            found,
            self.builder.clone(),
            self.finisher.clone(),
        );
        stage::accept(self, &self.slots, span, work)
    }
}

async fn judge_and_pass_on(
    ladder: Arc<Ladder>,
    found: FoundTarget,
    builder: Addr<LevelBuilder>,
    finisher: Addr<Finisher>,
) {
    let ticket = found.ticket;
    let target = ticket.work().clone();
    let (children, verdict) = match ladder.run.unless_stopped(judge(&ladder, &target)).await {
        Some(Ok(judged)) => judged,
        Some(Err(fault)) => return ticket.finish(Outcome::failed(fault)),
        None => return ticket.finish(Outcome::NotAttempted),
    };
    if let Some(column) = ladder.foreign(&children) {
        ladder.run.stop(AbortReason::foreign(column));
        return ticket.finish(Outcome::NotAttempted);
    }
    let reason = match verdict {
        Verdict::Due(reason) => reason,
        Verdict::Empty => return ticket.finish(Outcome::Empty),
        Verdict::Current(children) => {
            // A finisher that is gone records nothing.
            let _ = finisher
                .send(TargetStands::new(&target, children, None))
                .await;
            return ticket.finish(Outcome::Current);
        }
    };
    if ladder.run.settings.dry_run {
        return ticket.finish(Outcome::Planned { reason });
    }
    let job = BuildJob {
        ticket,
        children,
        reason,
    };
    // A builder that is gone drops the ticket, which reports the artifact.
    let _ = builder.send(job).await;
}

async fn judge(ladder: &Ladder, target: &Target) -> Result<(Children, Verdict), LeafFault> {
    let run = &ladder.run;
    let children = Children::read(&run.root, &ladder.template, target).await?;
    let Some(level) = ladder.level(target.order) else {
        return Ok((children, Verdict::Empty));
    };
    let verdict = match run.settings.force && !children.columns.is_empty() {
        true => Verdict::Due(Reason::Forced),
        false => gate::judge(&run.root, &ladder.template, level, target, &children).await?,
    };
    Ok((children, verdict))
}
