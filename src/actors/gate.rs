//! Decides whether a leaf's column is current. In: StampedLeaf. Out: FoldJob, or the
//! outcome `current`. Costs the metadata documents of the column's groups, and those
//! only when both root documents agree; at most `max_in_flight` leaves at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use actix::{Actor, Addr, AtomicResponse, Context, Handler};
use tokio::sync::Semaphore;

use super::fold::FoldActor;
use super::{Pass, stage};
use crate::error::LeafFault;
use crate::gate::{self, Verdict};
use crate::messages::{FoldJob, LeafRef, Outcome, Reason, StampedLeaf, Ticket};
use crate::store::stamp::{ArtifactRoot, Stamp};

pub(crate) struct GateActor {
    pass: Arc<Pass>,
    fold: Addr<FoldActor>,
    slots: Arc<Semaphore>,
    /// Leaves let through, for `max_leaves`.
    let_through: Arc<AtomicU64>,
}

impl GateActor {
    pub(crate) fn new(pass: Arc<Pass>, fold: Addr<FoldActor>) -> Self {
        let slots = Arc::new(Semaphore::new(pass.run.settings.max_in_flight));
        Self {
            pass,
            fold,
            slots,
            let_through: Arc::default(),
        }
    }
}

impl Actor for GateActor {
    type Context = Context<Self>;
}

impl Handler<StampedLeaf> for GateActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, stamped: StampedLeaf, _: &mut Context<Self>) -> Self::Result {
        let span = stamped.ticket.span();
        let work = judge_and_pass_on(
            self.pass.clone(),
            stamped,
            self.fold.clone(),
            self.let_through.clone(),
        );
        stage::accept(self, &self.slots, span, work)
    }
}

async fn judge_and_pass_on(
    pass: Arc<Pass>,
    stamped: StampedLeaf,
    fold: Addr<FoldActor>,
    let_through: Arc<AtomicU64>,
) {
    let StampedLeaf {
        ticket,
        stamp,
        column,
    } = stamped;
    let judged = judge(&pass, &ticket, &stamp, column.as_ref());
    let reason = match pass.run.unless_stopped(judged).await {
        Some(Ok(Verdict::Due(reason))) => reason,
        Some(Ok(Verdict::Current)) => return ticket.finish(Outcome::Current),
        Some(Err(fault)) => return ticket.finish(Outcome::failed(fault)),
        None => return ticket.finish(Outcome::NotAttempted),
    };
    if !admit(&pass, &let_through) {
        return ticket.finish(Outcome::NotAttempted);
    }
    if pass.dry_run {
        return ticket.finish(Outcome::Planned { reason });
    }
    let job = FoldJob {
        ticket,
        stamp,
        reason,
    };
    // A fold stage that is gone drops the ticket, which reports the leaf.
    let _ = fold.send(job).await;
}

/// A forced pass does not ask what its columns are like.
async fn judge(
    pass: &Pass,
    ticket: &Ticket<LeafRef>,
    stamp: &Stamp,
    column: Option<&ArtifactRoot>,
) -> Result<Verdict, LeafFault> {
    if pass.force {
        return Ok(Verdict::Due(Reason::Forced));
    }
    gate::judge(&pass.run.root, &pass.template, ticket.work(), stamp, column).await
}

/// Lets a leaf through while fewer are under way than were asked for.
fn admit(pass: &Pass, let_through: &AtomicU64) -> bool {
    let Some(limit) = pass.max_leaves else {
        return true;
    };
    let nth = let_through.fetch_add(1, Ordering::Relaxed) + 1;
    if nth >= limit {
        pass.enough.raise();
    }
    nth <= limit
}
