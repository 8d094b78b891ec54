//! Streams the artifacts of the ladder into the pipeline, finest nodes first. In: the
//! shards and their windows. Out: FoundTarget. Waits between two batches of orders until
//! every artifact of the first has its outcome, and begins no other batch once one has
//! failed: what is coarser reads what is finer.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, WrapFuture};
use tokio::sync::Semaphore;
use tracing::Instrument;

use super::level_gate::LevelGate;
use super::stage::free_place;
use super::supervisor::Supervisor;
use crate::kernels::words::WordError;
use crate::ladder::{Ladder, LadderWork, Target};
use crate::messages::{Admit, FailedSoFar, FoundTarget, Ticket, WorkListed};
use crate::pyramid::Level;
use crate::watch::Watched;

pub(crate) struct TargetFinder {
    search: Option<Search>,
    gate: Addr<LevelGate>,
    supervisor: Addr<Supervisor>,
    watched: Arc<Watched>,
}

/// Which artifacts are looked for.
#[derive(Clone)]
pub(crate) struct Search {
    pub ladder: Arc<Ladder>,
    pub work: Arc<LadderWork>,
    /// Only what lies above these shards; none means all.
    pub above: Vec<u64>,
    /// Only artifacts of these orders; none means all.
    pub orders: Vec<u8>,
}

impl Search {
    /// The artifacts at a level.
    ///
    /// # Errors
    /// When a word names no cell, which the records have been checked for.
    pub(crate) fn targets<'a>(
        &'a self,
        level: &'a Level,
    ) -> Result<impl Iterator<Item = Result<Target, WordError>> + 'a, WordError> {
        let nodes: BTreeSet<u64> = LadderWork::ancestors(&self.above, level.order)?;
        let targets = self.work.targets(&self.ladder.template.plan, level);
        Ok(targets.filter(move |target| {
            let node = target.as_ref().map(|target| target.artifact.word);
            nodes.is_empty() || node.map_or(true, |node| nodes.contains(&node))
        }))
    }

    fn is_asked_for(&self, order: u8) -> bool {
        self.orders.is_empty() || self.orders.contains(&order)
    }

    /// How many artifacts there are.
    ///
    /// # Errors
    /// As [`Search::targets`].
    pub(crate) fn num_targets(&self) -> Result<u64, WordError> {
        let levels = self.ladder.template.plan.levels.iter();
        let mut num_targets = 0;
        for level in levels.filter(|level| self.is_asked_for(level.order)) {
            for target in self.targets(level)? {
                target?;
                num_targets += 1;
            }
        }
        Ok(num_targets)
    }
}

impl TargetFinder {
    pub(crate) fn new(
        search: Search,
        gate: Addr<LevelGate>,
        supervisor: Addr<Supervisor>,
        watched: Arc<Watched>,
    ) -> Self {
        Self {
            search: Some(search),
            gate,
            supervisor,
            watched,
        }
    }
}

impl Actor for TargetFinder {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        if let Some(search) = self.search.take() {
            let find = find(search, self.gate.clone(), self.supervisor.clone());
            let find = find.instrument(self.watched.span().clone());
            ctx.spawn(find.into_actor(self));
        }
    }
}

async fn find(search: Search, gate: Addr<LevelGate>, supervisor: Addr<Supervisor>) {
    let settings = &search.ladder.run.settings;
    let max_in_flight = u32::try_from(settings.max_in_flight).unwrap_or(u32::MAX);
    let places = Arc::new(Semaphore::new(max_in_flight as usize));
    let mut left = search.num_targets().unwrap_or(0);
    for batch in search.ladder.template.plan.batches(settings.tuple_width) {
        for order in batch
            .into_iter()
            .filter(|order| search.is_asked_for(*order))
        {
            left -= send_level(&search, order, &places, &gate, &supervisor).await;
        }
        // Every place is free again when every artifact of the batch has its outcome.
        drop(places.acquire_many(max_in_flight).await);
        let failed = supervisor.send(FailedSoFar).await;
        if search.ladder.run.is_stopping() || failed.unwrap_or(1) > 0 {
            break;
        }
    }
    // A supervisor that is gone counts no more.
    let _ = supervisor
        .send(WorkListed {
            not_attempted: left,
        })
        .await;
}

/// Sends the artifacts of a level; how many.
async fn send_level(
    search: &Search,
    order: u8,
    places: &Arc<Semaphore>,
    gate: &Addr<LevelGate>,
    supervisor: &Addr<Supervisor>,
) -> u64 {
    let run = &search.ladder.run;
    let level = search.ladder.level(order);
    // The words have been checked when the artifacts were counted.
    let targets = level.and_then(|level| search.targets(level).ok());
    let mut sent = 0;
    for target in targets.into_iter().flatten().flatten() {
        let Some(place) = free_place(run, places).await else {
            break;
        };
        if supervisor.send(Admit).await.is_err() {
            break;
        }
        let ticket = Ticket::new(Arc::new(target), supervisor.clone(), place);
        sent += 1;
        // A gate that is gone drops the ticket, which reports the artifact.
        let _ = gate.send(FoundTarget { ticket }).await;
    }
    sent
}
