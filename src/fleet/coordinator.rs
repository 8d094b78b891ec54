//! The run that holds the lease and gives its work to others.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use futures::{StreamExt, TryStreamExt, stream};

use super::directory::{self, ArrayDir, DirectoryError};
use super::engine::{Engine, Hired, Workers, quoted};
use super::follow::{Follow, FollowError, Outcome};
use super::merge::Merged;
use super::plan::{self, PLAN_SPEC, Part, Phase, Plan};
use super::{Fleet, costs};
use crate::VERSION;
use crate::actors::{LeaseKeeper, Search};
use crate::error::AbortReason;
use crate::kernels::words::{WordError, decimal, morton};
use crate::messages::{Hold, Step};
use crate::report::{LevelReport, Report, Tally};
use crate::run::Run;
use crate::settings::Settings;
use crate::steps::{self, Admitted};
use crate::store::{Held, Root, Tally as Requests};
use crate::watch::Watched;
use crate::work::ShardWork;

/// Parts written at once.
const WRITTEN_AT_ONCE: usize = 16;

/// The least time for which a part is its worker's, as far as the lease lasts so long.
const LEAST_PART_TTL: Duration = Duration::from_secs(10);

/// Ttls of a part in one of the lease.
const PART_TTLS: u32 = 15;

/// A run whose work is done by a fleet.
pub(crate) struct Coordinator {
    pub(super) run: Arc<Run>,
    fleet: Fleet,
    held: Held,
    dir: Root,
    workers: Workers,
    declaration_hash: String,
    pub(super) requests: Requests,
    pub(super) bytes_read: u64,
    peak_in_flight_bytes: u64,
    /// Whether a worker may still be writing.
    may_be_written: bool,
}

impl Coordinator {
    /// Takes the lease and makes ready. `None` when nothing is to be written, and when the
    /// lease cannot be had, and then the run is stopping.
    pub(crate) async fn begin(
        fleet: &Fleet,
        admitted: &Admitted,
        keeper: &Addr<LeaseKeeper>,
    ) -> Option<Self> {
        let run = &admitted.run;
        if run.settings.dry_run {
            return None;
        }
        let held = keeper.send(Hold).await.ok().flatten()?;
        let dir = match &fleet.run_dir {
            Some(dir) => dir.clone(),
            None => directory::below_store(&run.root, &run.run_id),
        };
        let hired = Hired {
            program: fleet.program.clone(),
            run: dir.clone(),
            held: held.clone(),
            store: run.root.absolute(),
            workers: fleet.workers,
        };
        let mut coordinator = Self {
            run: run.clone(),
            workers: Workers::new(&fleet.engine, hired),
            fleet: fleet.clone(),
            held,
            dir,
            declaration_hash: admitted.declaration_hash.clone(),
            requests: Requests::default(),
            bytes_read: 0,
            peak_in_flight_bytes: 0,
            may_be_written: false,
        };
        let is_ready = coordinator.make_ready().await;
        // For the workers that have looked: they begin when they see the lease move.
        coordinator.held.want_beat();
        is_ready.then_some(coordinator)
    }

    /// Makes the run directory ready, and tells the operator of it; whether it can be used.
    async fn make_ready(&mut self) -> bool {
        // The default one is new with every run.
        if self.fleet.run_dir.is_some() {
            let ready = directory::make_ready(&self.dir, &self.run.root.absolute()).await;
            if let Err(error) = ready {
                self.fail(&error.into());
                return false;
            }
        }
        let (run_dir, workers) = (self.dir.absolute(), self.fleet.workers);
        tracing::info!(run_dir, workers, "fleet");
        if self.fleet.engine == Engine::Manual {
            let each = format!(
                "zagg-stream worker --run {} --follow --part I",
                quoted(&run_dir)
            );
            let last = workers.saturating_sub(1);
            tracing::info!(each, last, "start the workers, I from 0 to the last");
        }
        if let Err(error) = self.workers.make_ready().await {
            self.fail(&error.into());
            return false;
        }
        true
    }

    /// Has the columns written.
    pub(crate) async fn columns(&mut self, admitted: &Admitted) -> Tally {
        let shards = admitted.work.shards();
        let watched = steps::watch(&self.run, Step::Columns, admitted.work.num_leaves());
        let root = self.run.root.clone();
        let built = async {
            let costs = match costs::of_shards(&root, &admitted.work).await {
                Ok(costs) => costs,
                Err(error) => {
                    self.fail(&FollowError::Directory(error.into()));
                    vec![0; shards.len()]
                }
            };
            let pieces: Vec<u64> = shards.iter().map(ShardWork::num_leaves).collect();
            let cuts = self.cut(&costs, &pieces, |index| index..index + 1);
            self.array(
                Phase::Columns,
                cuts,
                |range| shards[range].to_vec(),
                &watched,
            )
            .await
        };
        let mut tally = watched.during(built).await.tally;
        if tally.counts.nothing_worked() {
            let last = tally.failed_leaves.last();
            let error = last.map_or(String::new(), |leaf| leaf.error.clone());
            self.run.stop(AbortReason::NothingWorked { error });
        }
        tally.warnings.sort();
        tally.warnings.dedup();
        tally
    }

    /// Has the ladder built, an array for each stretch between two barriers; none is begun
    /// once an artifact failed, because what is coarser reads what is finer.
    pub(crate) async fn ladder(
        &mut self,
        search: &Search,
        watched: &Watched,
    ) -> (Tally, Vec<LevelReport>) {
        let mut all = Merged::default();
        let mut left = watched.total();
        let width = self.run.settings.tuple_width;
        for orders in search.ladder.template.plan.batches(width) {
            // The words have been checked when the artifacts were counted.
            let Ok(subtrees) = Subtrees::of(search, &orders) else {
                break;
            };
            if self.run.is_stopping() || all.tally.counts.failed > 0 {
                break;
            }
            left = left.saturating_sub(subtrees.pieces.iter().sum());
            let ranges = &subtrees.ranges;
            let cuts = self.cut(&subtrees.costs, &subtrees.pieces, |index| {
                ranges[index].clone()
            });
            let of = |range| search.work.of_shards(range);
            let merged = self
                .array(Phase::Ladder { orders }, cuts, of, watched)
                .await;
            all.absorb(merged);
        }
        all.tally.counts.not_attempted += left;
        (all.tally, all.levels)
    }

    /// Removes what was left for the workers, unless it may be another run's by now.
    pub(crate) async fn end(self) -> Totals {
        let mut warnings = Vec::new();
        let is_ours = self.fleet.run_dir.is_none() || self.held.is_fresh();
        if !is_ours {
            warnings.push(format!(
                "the run directory `{}` was left as it is, because the lease is no longer held; the next run with it clears it",
                self.dir.url()
            ));
        } else if let Err(error) = directory::remove(&self.dir).await {
            warnings.push(format!(
                "the run directory `{}` could not be removed and can be deleted: {error}",
                self.dir.url()
            ));
        }
        Totals {
            may_be_written: self.may_be_written,
            requests: self.requests,
            bytes_read: self.bytes_read,
            peak_in_flight_bytes: self.peak_in_flight_bytes,
            warnings,
        }
    }

    /// Cuts things with these costs and pieces of work into parts, the most costly first;
    /// `shards` says which shards a thing has.
    pub(super) fn cut(
        &self,
        costs: &[u64],
        pieces: &[u64],
        shards: impl Fn(usize) -> Range<usize>,
    ) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = plan::cut(costs, plan::num_parts(self.fleet.workers))
            .into_iter()
            .map(|range| Cut {
                shards: shards(range.start).start..shards(range.end - 1).end,
                cost: costs[range.clone()].iter().sum(),
                pieces: pieces[range].iter().sum(),
            })
            .collect();
        cuts.sort_by_key(|cut| std::cmp::Reverse(cut.cost));
        cuts
    }

    /// Has one array worked on.
    pub(super) async fn array(
        &mut self,
        phase: Phase,
        cuts: Vec<Cut>,
        shards: impl Fn(Range<usize>) -> Vec<ShardWork>,
        watched: &Watched,
    ) -> Merged {
        if self.run.is_stopping() || cuts.is_empty() {
            return Merged::not_attempted(cuts.iter().map(|cut| cut.pieces).sum());
        }
        let pieces = cuts.iter().map(|cut| cut.pieces).sum();
        let name = phase.name();
        let array = ArrayDir::new(self.dir.below(&name));
        let plan = match self.write_array(&array, phase, &cuts, shards).await {
            Ok(plan) => plan,
            Err(error) => {
                self.fail(&error.into());
                return Merged::not_attempted(pieces);
            }
        };
        self.workers.begin(&name, &array.root().absolute());
        let follow = Follow::new(&self.run, &array, &plan, watched, &mut self.workers);
        let Outcome {
            merged,
            may_be_written,
        } = follow.followed_to_its_end().await;
        self.may_be_written |= may_be_written;
        self.requests += merged.requests;
        self.bytes_read += merged.bytes_read;
        self.peak_in_flight_bytes = self.peak_in_flight_bytes.max(merged.peak_in_flight_bytes);
        merged
    }

    /// Writes what the workers of an array need, and opens it.
    async fn write_array(
        &self,
        array: &ArrayDir,
        phase: Phase,
        cuts: &[Cut],
        shards: impl Fn(Range<usize>) -> Vec<ShardWork>,
    ) -> Result<Plan, DirectoryError> {
        let name = phase.name();
        let word = |index: usize| shards(index..index + 1).first().map(|shard| shard.shard);
        let id = |index| word(index).and_then(|word| decimal::render(word).ok());
        let parts: Vec<Part> = cuts
            .iter()
            .map(|cut| Part {
                first: id(cut.shards.start).unwrap_or_default(),
                last: id(cut.shards.end - 1).unwrap_or_default(),
                pieces: cut.pieces,
                cost: cut.cost,
            })
            .collect();
        stream::iter((0..).zip(cuts))
            .map(|(part, cut)| array.write_part(&self.held, part, shards(cut.shards.clone())))
            .buffer_unordered(WRITTEN_AT_ONCE)
            .try_collect::<()>()
            .await?;
        let plan = self.plan(phase, parts);
        array.write_plan(&self.held, &plan).await?;
        directory::open_phase(&self.dir, &self.held, &name, false).await?;
        Ok(plan)
    }

    fn plan(&self, phase: Phase, parts: Vec<Part>) -> Plan {
        let ttl = self.run.settings.lease_ttl;
        let part_ttl = (ttl / PART_TTLS).max(LEAST_PART_TTL.min(ttl));
        Plan {
            spec: PLAN_SPEC.to_owned(),
            run_id: self.run.run_id.clone(),
            program: VERSION.to_owned(),
            root: self.run.root.absolute(),
            declaration_hash: self.declaration_hash.clone(),
            phase,
            ttl_s: self.held.good_for().as_secs(),
            part_ttl_s: part_ttl.as_secs().max(1),
            workers: self.fleet.workers,
            settings: Settings {
                shards: Vec::new(),
                ..self.run.settings.clone()
            },
            parts,
        }
    }

    fn fail(&self, error: &FollowError) {
        self.run.stop_fleet(error.kind(), error.to_string());
    }
}

/// A part before it is written.
pub(super) struct Cut {
    /// Which of the shards.
    shards: Range<usize>,
    cost: u64,
    pieces: u64,
}

/// What lies between two barriers, by the nodes of the coarsest order.
#[derive(Default)]
pub(super) struct Subtrees {
    /// Shards below each node.
    pub(super) ranges: Vec<Range<usize>>,
    /// Columns read of each.
    costs: Vec<u64>,
    /// Artifacts of each.
    pub(super) pieces: Vec<u64>,
}

impl Subtrees {
    pub(super) fn of(search: &Search, orders: &[u8]) -> Result<Self, WordError> {
        let coarsest = orders.iter().copied().min().unwrap_or(0);
        let mut below: HashMap<u64, (u64, u64)> = HashMap::new();
        for order in orders {
            let Some(level) = search.ladder.level(*order) else {
                continue;
            };
            for target in search.targets(level)? {
                let target = target?;
                let node = morton::coarsen(target.artifact.word, coarsest)?;
                let (cost, pieces) = below.entry(node).or_default();
                *cost += target.children.len() as u64;
                *pieces += 1;
            }
        }
        let mut subtrees = Self::default();
        let shards = search.work.shards_with_windows();
        let node = |(word, _): &(u64, _)| morton::coarsen(*word, coarsest);
        let mut start = 0;
        for shards in shards.chunk_by(|a, b| node(a) == node(b)) {
            let found = below.get(&node(&shards[0])?).copied();
            let (cost, pieces) = found.unwrap_or_default();
            subtrees.ranges.push(start..start + shards.len());
            subtrees.costs.push(cost);
            subtrees.pieces.push(pieces);
            start += shards.len();
        }
        Ok(subtrees)
    }
}

/// What a fleet comes to beside the tallies of its steps.
pub(crate) struct Totals {
    requests: Requests,
    bytes_read: u64,
    peak_in_flight_bytes: u64,
    /// Whether a worker may still be writing.
    pub(crate) may_be_written: bool,
    pub(crate) warnings: Vec<String>,
}

impl Totals {
    pub(crate) fn add_to(&self, report: &mut Report) {
        report.requests += self.requests;
        report.bytes.read += self.bytes_read;
        report.peak_in_flight_bytes = report.peak_in_flight_bytes.max(self.peak_in_flight_bytes);
    }
}
