//! Counts outcomes and turns a store-wide pattern of faults into one abort. In:
//! LeafEnded from every stage, AbortPass from anyone. Out: the tally, once every leaf
//! that entered has its outcome and the lease is given back.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, WrapFuture};
use tokio::sync::oneshot;

use super::Pass;
use super::lease_keeper::LeaseKeeper;
use crate::error::{AbortReason, FaultKind, LeafFault};
use crate::messages::{
    AbortPass, Admit, Event, LeafEnded, LeafOutcome, LeafRef, ReleaseLease, WorkListed,
};
use crate::report::{FailedLeaf, Tally};
use crate::store::manifest::MANIFEST_KEY;

/// How often a pass that nobody watches says where it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

pub(crate) struct Supervisor {
    pass: Arc<Pass>,
    keeper: Addr<LeaseKeeper>,
    done: Option<oneshot::Sender<Tally>>,
    tally: Tally,
    admitted: u64,
    ended: u64,
    all_listed: bool,
    in_a_row: FaultsInARow,
}

/// Store-wide faults of one kind with nothing served in between.
#[derive(Debug, Default)]
struct FaultsInARow {
    kind: Option<FaultKind>,
    count: u32,
}

impl FaultsInARow {
    fn push(&mut self, kind: FaultKind) -> u32 {
        if self.kind != Some(kind) {
            *self = Self {
                kind: Some(kind),
                count: 0,
            };
        }
        self.count += 1;
        self.count
    }
}

impl Supervisor {
    pub(crate) fn new(
        pass: Arc<Pass>,
        keeper: Addr<LeaseKeeper>,
        done: oneshot::Sender<Tally>,
    ) -> Self {
        Self {
            pass,
            keeper,
            done: Some(done),
            tally: Tally::default(),
            admitted: 0,
            ended: 0,
            all_listed: false,
            in_a_row: FaultsInARow::default(),
        }
    }

    fn count(&mut self, leaf: &LeafRef, outcome: LeafOutcome, ctx: &mut Context<Self>) {
        let counts = &mut self.tally.counts;
        match outcome {
            LeafOutcome::Written {
                reason,
                num_bytes,
                stages,
            } => {
                counts.written += 1;
                self.tally.bytes_of_columns += num_bytes;
                self.tally.stages += stages;
                self.tally.reasons.count(reason);
                self.in_a_row = FaultsInARow::default();
                tracing::debug!(leaf = %leaf, reason = reason.as_str(), "column written");
                let leaf = leaf.path();
                self.pass.announce(Event::Written { leaf, reason });
            }
            LeafOutcome::Planned { reason } => {
                tracing::info!(leaf = %leaf, reason = reason.as_str(), "column due");
                counts.planned += 1;
                self.tally.reasons.count(reason);
            }
            LeafOutcome::Current | LeafOutcome::Empty => {
                match outcome {
                    LeafOutcome::Current => counts.current += 1,
                    _ => {
                        counts.empty += 1;
                        tracing::warn!(leaf = %leaf, "no committed leaf where a run record names one");
                    }
                }
                self.in_a_row = FaultsInARow::default();
                self.pass.announce(Event::Skipped { leaf: leaf.path() });
            }
            LeafOutcome::NotAttempted => counts.not_attempted += 1,
            LeafOutcome::Failed(fault) => self.count_failure(leaf, &fault, ctx),
        }
    }

    /// Once the pass is stopping for a fault of the store, leaves that were already
    /// under way fail of the same fault and are no news.
    fn count_failure(&mut self, leaf: &LeafRef, fault: &LeafFault, ctx: &mut Context<Self>) {
        let kind = fault.kind();
        if self.tally.abort.is_some() && (kind.is_store_wide() || kind == FaultKind::LeaseLost) {
            self.tally.counts.not_attempted += 1;
            return;
        }
        tracing::error!(leaf = %leaf, %kind, error = %fault, "leaf failed");
        self.tally.push_failure(FailedLeaf {
            leaf: leaf.path(),
            array: fault.array().map(str::to_owned),
            kind,
            error: fault.to_string(),
        });
        self.pass.announce(Event::Failed {
            leaf: leaf.path(),
            error: fault.to_string(),
        });
        if kind == FaultKind::LeaseLost {
            self.abort(AbortReason::LeaseLost(fault.to_string()));
        } else if !kind.is_store_wide() {
            self.in_a_row = FaultsInARow::default();
        } else if self.in_a_row.push(kind) >= self.pass.settings.abort_after {
            self.abort(AbortReason::StoreWide {
                kind,
                error: fault.to_string(),
            });
        } else if kind.is_confirmed_by_probe() && self.in_a_row.count == 1 {
            self.probe(kind, fault.to_string(), ctx);
        }
    }

    /// One refusal may be one object's; if the manifest is refused too, it is the store.
    fn probe(&self, kind: FaultKind, error: String, ctx: &mut Context<Self>) {
        let root = self.pass.root.clone();
        let probe = async move { root.get(MANIFEST_KEY).await.err().map(|error| error.kind()) };
        ctx.spawn(probe.into_actor(self).map(move |refused, supervisor, _| {
            if refused.is_some_and(FaultKind::is_confirmed_by_probe) {
                supervisor.abort(AbortReason::StoreWide { kind, error });
            }
        }));
    }

    fn abort(&mut self, reason: AbortReason) {
        if self.tally.abort.is_some() {
            return;
        }
        tracing::error!(%reason, "stopping the pass");
        self.pass.announce(Event::Aborted {
            reason: reason.to_string(),
        });
        self.pass.abort.raise();
        self.tally.abort = Some(reason);
    }

    /// Ends the pass when the last leaf has its outcome.
    fn end_if_done(&mut self, ctx: &mut Context<Self>) {
        if !self.all_listed || self.ended < self.admitted || self.done.is_none() {
            return;
        }
        let counts = &self.tally.counts;
        if counts.failed > 0 && counts.written + counts.current + counts.planned == 0 {
            let last = self.tally.failed_leaves.last();
            let error = last.map_or(String::new(), |leaf| leaf.error.clone());
            self.abort(AbortReason::NothingWorked { error });
        }
        let Some(done) = self.done.take() else { return };
        let release = self.keeper.send(ReleaseLease).into_actor(self);
        ctx.spawn(release.map(|released, supervisor, _| {
            let mut tally = std::mem::take(&mut supervisor.tally);
            if let Ok(Err(error)) = released {
                tally
                    .warnings
                    .push(format!("the lease was not given back: {error}"));
            }
            // Whoever waited for the tally may have gone away.
            let _ = done.send(tally);
        }));
    }

    fn log_progress(&self) {
        let counts = &self.tally.counts;
        tracing::info!(
            written = counts.written,
            current = counts.current,
            failed = counts.failed,
            leaves = self.pass.num_leaves,
            in_flight = self.admitted - self.ended,
            in_flight_bytes = self.pass.budget.in_use(),
            "columns"
        );
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(PROGRESS_EVERY, |supervisor, _| supervisor.log_progress());
    }
}

impl Handler<Admit> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: Admit, _: &mut Context<Self>) {
        self.admitted += 1;
    }
}

impl Handler<WorkListed> for Supervisor {
    type Result = ();

    fn handle(&mut self, listed: WorkListed, ctx: &mut Context<Self>) {
        self.all_listed = true;
        self.tally.counts.not_attempted += listed.not_attempted;
        self.end_if_done(ctx);
    }
}

impl Handler<LeafEnded> for Supervisor {
    type Result = ();

    fn handle(&mut self, ended: LeafEnded, ctx: &mut Context<Self>) {
        self.ended += 1;
        self.count(&ended.leaf, ended.outcome, ctx);
        self.end_if_done(ctx);
    }
}

impl Handler<AbortPass> for Supervisor {
    type Result = ();

    fn handle(&mut self, abort: AbortPass, _: &mut Context<Self>) {
        self.abort(abort.0);
    }
}
