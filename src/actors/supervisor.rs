//! Counts outcomes and turns a store-wide pattern of faults into one abort. In:
//! WorkEnded from every stage of a step. Out: the tally, once everything that entered
//! has its outcome.

use std::sync::Arc;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use tokio::sync::oneshot;

use crate::error::{AbortReason, FaultKind, LeafFault};
use crate::messages::{Admit, Event, FailedSoFar, Outcome, Step, WorkEnded, WorkListed};
use crate::report::{FailedLeaf, SoFar, Tally};
use crate::run::Run;
use crate::store::manifest::MANIFEST_KEY;
use crate::watch::Watched;

pub(crate) struct Supervisor {
    run: Arc<Run>,
    watched: Arc<Watched>,
    done: Option<oneshot::Sender<Tally>>,
    tally: Tally,
    admitted: u64,
    ended: u64,
    all_listed: bool,
    in_a_row: FaultsInARow,
    /// Refusals that wait for the answer to a probe, while one is under way: when it says
    /// that the store refuses everything, they are no leaf's fault.
    waiting: Option<Vec<(String, LeafFault)>>,
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
    pub(crate) fn new(run: Arc<Run>, watched: Arc<Watched>, done: oneshot::Sender<Tally>) -> Self {
        Self {
            run,
            watched,
            done: Some(done),
            tally: Tally::default(),
            admitted: 0,
            ended: 0,
            all_listed: false,
            in_a_row: FaultsInARow::default(),
            waiting: None,
        }
    }

    fn count(&mut self, path: String, outcome: Outcome, ctx: &mut Context<Self>) {
        let counts = &mut self.tally.counts;
        match outcome {
            Outcome::Written {
                reason,
                num_bytes,
                stages,
            } => {
                counts.written += 1;
                self.watched.wrote();
                self.tally.bytes_of_columns += num_bytes;
                self.tally.stages += stages;
                self.tally.reasons.count(reason);
                self.in_a_row = FaultsInARow::default();
                tracing::debug!(path, reason = reason.as_str(), "written");
                self.run.announce(Event::Written { path, reason });
            }
            Outcome::Planned { reason } => {
                tracing::info!(path, reason = reason.as_str(), "due");
                counts.planned += 1;
                self.tally.reasons.count(reason);
            }
            Outcome::Current | Outcome::Empty => {
                match outcome {
                    Outcome::Current => counts.current += 1,
                    _ => {
                        counts.empty += 1;
                        if self.watched.step() == Step::Columns {
                            tracing::warn!(
                                leaf = path,
                                "no committed leaf where a run record names one"
                            );
                        }
                    }
                }
                self.in_a_row = FaultsInARow::default();
                self.run.announce(Event::Skipped { path });
            }
            Outcome::NotAttempted => counts.not_attempted += 1,
            Outcome::Failed(fault) => self.count_failure(path, *fault, ctx),
        }
    }

    /// Once the pass is stopping for a fault of the store, leaves that were already
    /// under way fail of the same fault and are no news.
    fn count_failure(&mut self, path: String, fault: LeafFault, ctx: &mut Context<Self>) {
        let kind = fault.kind();
        if self.run.is_stopping() && (kind.is_store_wide() || kind == FaultKind::LeaseLost) {
            self.tally.counts.not_attempted += 1;
            return;
        }
        if let (true, Some(waiting)) = (kind.is_confirmed_by_probe(), &mut self.waiting) {
            waiting.push((path, fault));
            return;
        }
        let error = fault.to_string();
        tracing::error!(path, %kind, error, "failed");
        self.watched.failed();
        self.tally.push_failure(FailedLeaf {
            leaf: path.clone(),
            array: fault.array().map(str::to_owned),
            kind,
            error: error.clone(),
        });
        self.run.announce(Event::Failed {
            path,
            error: error.clone(),
        });
        if kind == FaultKind::LeaseLost {
            self.run.stop(AbortReason::LeaseLost(error));
        } else if !kind.is_store_wide() {
            self.in_a_row = FaultsInARow::default();
        } else if self.in_a_row.push(kind) >= self.run.settings.abort_after {
            self.stop_for(kind, error);
        } else if kind.is_confirmed_by_probe() && self.in_a_row.count == 1 {
            self.probe(kind, error, ctx);
        }
    }

    fn stop_for(&self, kind: FaultKind, error: String) {
        self.run.stop(AbortReason::StoreWide {
            kind,
            error,
            credentials_end: self.run.root.credentials_end(),
            so_far: Some(self.so_far()),
        });
    }

    fn so_far(&self) -> SoFar {
        let counts = &self.tally.counts;
        let ended = counts.written + counts.planned + counts.current + counts.empty + counts.failed;
        SoFar {
            what: match self.watched.step() {
                Step::Ladder => "artifacts of the ladder",
                _ => "leaves",
            },
            written: counts.written,
            current: counts.current,
            failed: counts.failed,
            left: self.watched.total().saturating_sub(ended),
        }
    }

    /// One refusal may be one object's; if the manifest is refused too, it is the store.
    fn probe(&mut self, kind: FaultKind, error: String, ctx: &mut Context<Self>) {
        self.waiting = Some(Vec::new());
        let root = self.run.root.clone();
        let probe = async move { root.get(MANIFEST_KEY).await.err().map(|error| error.kind()) };
        ctx.spawn(probe.into_actor(self).map(move |refused, supervisor, ctx| {
            if refused.is_some_and(FaultKind::is_confirmed_by_probe) {
                supervisor.stop_for(kind, error);
            }
            for (path, fault) in supervisor.waiting.take().unwrap_or_default() {
                supervisor.count_failure(path, fault, ctx);
            }
            supervisor.end_if_done(ctx);
        }));
    }

    /// Ends the step when the last piece of work has its outcome.
    fn end_if_done(&mut self, ctx: &mut Context<Self>) {
        let is_done = self.all_listed && self.ended == self.admitted && self.waiting.is_none();
        if !is_done || self.done.is_none() {
            return;
        }
        let counts = &self.tally.counts;
        if counts.nothing_worked() && !self.run.is_part {
            let last = self.tally.failed_leaves.last();
            let error = last.map_or(String::new(), |leaf| leaf.error.clone());
            self.run.stop(AbortReason::NothingWorked { error });
        }
        if let Some(done) = self.done.take() {
            // Whoever waited for the tally may have gone away.
            let _ = done.send(std::mem::take(&mut self.tally));
        }
        ctx.stop();
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;
}

impl Handler<Admit> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: Admit, _: &mut Context<Self>) {
        self.admitted += 1;
        self.watched.begin();
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

impl Handler<WorkEnded> for Supervisor {
    type Result = ();

    fn handle(&mut self, ended: WorkEnded, ctx: &mut Context<Self>) {
        let WorkEnded {
            path,
            outcome,
            supervisor: _reachable,
        } = ended;
        self.ended += 1;
        self.watched.end();
        self.count(path, outcome, ctx);
        self.end_if_done(ctx);
    }
}

impl Handler<FailedSoFar> for Supervisor {
    type Result = u64;

    fn handle(&mut self, _: FailedSoFar, _: &mut Context<Self>) -> u64 {
        self.tally.counts.failed
    }
}
