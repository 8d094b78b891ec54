//! Which artifacts of the ladder are due once the columns stand, and what they cost.
//!
//! An artifact is due when a column it folds from is: that column gets a new stamp. So a
//! level is judged from what the finer ones came to, and only what lies above nothing that
//! is due is asked for in the store, as the gate of the ladder would.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};

use super::columns::{self, ColumnSizes, LISTINGS_AT_ONCE};
use super::judge::{Columns, Standing};
use super::listing::{Listing, MAX_LISTED, spread};
use super::planned::{Cost, PlannedLadder, PlannedLevel, REWRITE_PUTS, scaled};
use super::shape;
use crate::error::{Error, LeafFault};
use crate::kernels::plan::cells_between;
use crate::ladder::children::Children;
use crate::ladder::finish::Levels;
use crate::ladder::gate::{self, Verdict};
use crate::ladder::generation::SourceChildren;
use crate::ladder::template::Origin;
use crate::ladder::{Ladder, LadderWork, Target};
use crate::messages::Reason;
use crate::pyramid::{Level, Regime};
use crate::run::Run;
use crate::settings::Settings;
use crate::store::Root;
use crate::store::array::ArrayTemplate;
use crate::store::artifact::Tier;
use crate::store::template::{ColumnTemplate, GroupTemplate};
use crate::time::Clock;
use crate::watch::Watchers;

/// Bytes of the record of a sweep.
const RECORD_BYTES: u64 = 1024;
/// Bytes of the coverage for each shard, at most.
const COVERAGE_BYTES: u64 = 32;
/// Objects of the finisher: coverage, manifest, record of the sweep.
const FINISH_OBJECTS: u64 = 3;

/// The ladder above columns that will stand.
pub(super) struct LadderPlanner<'a> {
    ladder: Ladder,
    work: LadderWork,
    settings: &'a Settings,
    sizes: &'a ColumnSizes,
    columns: Columns,
    /// Of a leaf's column, as which those of stage columns count.
    root_bytes: u64,
    planned: PlannedLadder,
    cost: Cost,
    read_back: Cost,
    /// What the levels came to where nothing is due.
    levels: Levels,
    /// Paths of the artifacts that are due.
    due: Vec<String>,
    /// Whether an artifact could not be judged, and why.
    failed: Option<LeafFault>,
}

/// What an artifact is, and what it folds from.
struct Found {
    /// Its columns that will stand.
    n_columns: u64,
    /// Leaf columns behind them.
    n_leaves: u64,
    /// Whether one of them is written first.
    follows_due: bool,
}

/// What a ladder comes to.
#[derive(Debug, Default)]
pub(super) struct LadderCosts {
    pub planned: PlannedLadder,
    pub cost: Cost,
    /// Reading every object of its artifacts once.
    pub read_back: Cost,
    pub failed: Option<LeafFault>,
}

impl<'a> LadderPlanner<'a> {
    /// Prepares to plan the ladder above these columns.
    ///
    /// # Errors
    /// When the declaration has no ladder that can be built.
    pub(super) fn new(
        root: &Root,
        settings: &'a Settings,
        clock: Arc<dyn Clock>,
        template: Arc<ColumnTemplate>,
        work: LadderWork,
        (standing, sizes): (&Columns, &'a ColumnSizes),
    ) -> Result<Self, Error> {
        let run = Run::new(
            root.clone(),
            settings.clone(),
            String::new(),
            clock,
            Watchers::none(),
        );
        let root_bytes = columns::root_bytes(&template);
        Ok(Self {
            root_bytes,
            ladder: Ladder::new(Arc::new(run), template)?,
            work,
            settings,
            sizes,
            columns: standing.clone(),
            planned: PlannedLadder::default(),
            cost: Cost::default(),
            read_back: Cost::default(),
            levels: Levels::new(),
            due: Vec::new(),
            failed: None,
        })
    }

    /// Plans level by level, finest first, and the objects at the root.
    ///
    /// # Errors
    /// Failed requests, and words that name no cell.
    pub(super) async fn plan(mut self, manifest_bytes: u64) -> Result<LadderCosts, Error> {
        let levels = self.ladder.template.plan.levels.clone();
        for level in &levels {
            self.level(level).await?;
        }
        self.cost.delete += self.standing().await?;
        self.finish(manifest_bytes).await;
        Ok(LadderCosts {
            planned: self.planned,
            cost: self.cost,
            read_back: self.read_back,
            failed: self.failed,
        })
    }

    async fn level(&mut self, level: &Level) -> Result<(), Error> {
        let plan = &self.ladder.template.plan;
        let targets: Vec<Target> = self.work.targets(plan, level).collect::<Result<_, _>>()?;
        let mut planned = PlannedLevel {
            order: level.order,
            cells: level.cells,
            regime: level.regime,
            due: 0,
            current: 0,
            empty: 0,
        };
        let found: Vec<Found> = targets.iter().map(|target| self.found(target)).collect();
        let verdicts = self.verdicts(level, &targets, &found).await;
        let mut sources = SourceChildren::default();
        for ((target, found), verdict) in targets.iter().zip(&found).zip(verdicts) {
            let is_due = match verdict {
                Ok(Verdict::Empty) => {
                    planned.empty += 1;
                    continue;
                }
                Ok(Verdict::Current(children)) => {
                    planned.current += 1;
                    if target.artifact.tier == Tier::Overview
                        && target.windows.contains(&target.artifact.window)
                    {
                        sources += children;
                    }
                    false
                }
                Ok(Verdict::Due(_)) => true,
                Err(fault) => {
                    self.failed = Some(fault);
                    continue;
                }
            };
            let cost = self.target_cost(level, target, found);
            self.read_back += cost.read_back();
            if is_due {
                planned.due += 1;
                self.due.push(target.artifact.path());
                self.cost += cost;
            }
            if target.artifact.tier == Tier::Column {
                let key = (target.artifact.word, target.artifact.window.clone());
                let n_leaves = found.n_leaves;
                self.columns.insert(key, Standing { is_due, n_leaves });
            }
        }
        self.levels.insert(level.order, sources);
        self.planned.levels.push(planned);
        Ok(())
    }

    fn found(&self, target: &Target) -> Found {
        let keys = target.children.iter().flat_map(|child| {
            let windows = child.windows.iter();
            windows.map(|window| (child.word, window.clone()))
        });
        let mut found = Found {
            n_columns: 0,
            n_leaves: 0,
            follows_due: false,
        };
        for column in keys.filter_map(|key| self.columns.get(&key)) {
            found.n_columns += 1;
            found.n_leaves += column.n_leaves;
            found.follows_due |= column.is_due;
        }
        found
    }

    /// Judges the artifacts of a level, in order, and counts what that costs a run.
    async fn verdicts(
        &mut self,
        level: &Level,
        targets: &[Target],
        found: &[Found],
    ) -> Vec<Result<Verdict, LeafFault>> {
        let root_bytes = self.root_bytes;
        for (target, found) in targets.iter().zip(found) {
            let children = target
                .children
                .iter()
                .map(|child| child.windows.len() as u64);
            let own = u64::from(found.n_columns > 0 && !self.settings.force);
            self.cost.get += children.sum::<u64>() + own;
            self.cost.objects_read += found.n_columns + own;
            self.cost.bytes_read += (found.n_columns + own) * root_bytes;
        }
        let judgements = targets
            .iter()
            .zip(found)
            .map(|(target, found)| self.verdict(level, target, found));
        let judgements: Vec<_> = judgements.collect();
        stream::iter(judgements)
            .buffered(self.settings.max_in_flight)
            .collect()
            .await
    }

    async fn verdict(
        &self,
        level: &Level,
        target: &Target,
        found: &Found,
    ) -> Result<Verdict, LeafFault> {
        if found.n_columns == 0 {
            return Ok(Verdict::Empty);
        }
        if self.settings.force {
            return Ok(Verdict::Due(Reason::Forced));
        }
        if found.follows_due {
            return Ok(Verdict::Due(Reason::Stale));
        }
        let root = &self.ladder.run.root;
        let children = Children::read(root, &self.ladder.template, target).await?;
        gate::judge(root, &self.ladder.template, level, target, &children).await
    }

    /// What building an artifact costs, but for judging it and deleting what stands there.
    fn target_cost(&self, level: &Level, target: &Target, found: &Found) -> Cost {
        let template = &self.ladder.template;
        let tier = target.artifact.tier;
        let origin = Origin {
            regime: target.regime,
            generation: Default::default(),
            children: SourceChildren::default(),
        };
        let record = template.record(level, &target.artifact, &origin, None, "", "");
        let groups = template.groups(level, tier);
        let n_arrays = columns::num_arrays(groups);
        let hashes = template.column.stamps_hashes();
        let mut cost = shape::roots_and_sidecar(&record, n_arrays, hashes);
        for group in groups {
            let source = match tier {
                Tier::Overview => level.source,
                Tier::Column => group.order,
            };
            cost += self.group_write(group, target.regime, source, found.n_leaves);
            cost += self.group_read(level, source, found);
            if tier == Tier::Overview && group.morton.object_cells < group.n_cells {
                // Its hash is over what was written, read back.
                cost += shape::read_group(group, self.sizes.attributes());
                cost.bytes_read += self.ragged_of(group, source, found.n_leaves);
            }
        }
        // Every column is looked at again before the stamp.
        cost.get += found.n_columns;
        cost.objects_read += found.n_columns;
        cost.bytes_read += found.n_columns * self.root_bytes;
        cost
    }

    fn group_write(
        &self,
        group: &GroupTemplate,
        regime: Regime,
        source: u8,
        n_leaves: u64,
    ) -> Cost {
        let column = &self.ladder.template.column;
        let shard_order = column.declaration.shard_order;
        let bytes = |array: &ArrayTemplate| {
            let gathered = n_leaves * self.sizes.ragged(source, &array.name);
            let cap = shape::ragged_cap(&column.declaration.fields, &array.name, group.n_cells);
            match regime {
                Regime::Gather => gathered,
                Regime::Merge => gathered.min(cap),
            }
        };
        shape::group(group, self.sizes.attributes(), shard_order, n_leaves, bytes)
    }

    /// Reading one group of every column the artifact folds from.
    fn group_read(&self, level: &Level, source: u8, found: &Found) -> Cost {
        let Some(group) = self.child_group(level, source) else {
            return Cost::default();
        };
        let one = shape::read_group(group, self.sizes.attributes());
        let mut cost = one.scaled(found.n_columns, 1);
        cost.bytes_read += self.ragged_of(group, source, found.n_leaves);
        let shard_order = self.ladder.template.column.declaration.shard_order;
        let per_leaf = match source >= shard_order {
            true => cells_between(source, shard_order).max(group.morton.object_cells),
            false => group.morton.object_cells,
        };
        let filled = (group.n_cells * found.n_columns).min(per_leaf * found.n_leaves);
        cost.bytes_read += scaled(shape::dense_bytes(group), filled, group.n_cells);
        cost
    }

    fn ragged_of(&self, group: &GroupTemplate, source: u8, n_leaves: u64) -> u64 {
        let arrays = group.arrays();
        n_leaves
            * arrays
                .map(|array| self.sizes.ragged(source, &array.name))
                .sum::<u64>()
    }

    /// The group of this order in the columns a level reads.
    fn child_group(&self, level: &Level, order: u8) -> Option<&GroupTemplate> {
        let template = &self.ladder.template;
        let groups = match template.plan.level(level.child_order) {
            Some(below) => template.groups(below, Tier::Column),
            None => &template.column.groups,
        };
        groups.iter().find(|group| group.order == order)
    }

    /// Objects that stand where artifacts are due, from listings of at most [`MAX_LISTED`].
    async fn standing(&self) -> Result<u64, Error> {
        let paths: Vec<&str> = self.due.iter().map(String::as_str).collect();
        let listed = spread(&paths, MAX_LISTED);
        let n_listed = listed.len() as u64;
        let root = &self.ladder.run.root;
        let listings = listed.into_iter().map(|path| Listing::read(root, path));
        let listings: Vec<_> = listings.collect();
        let listings: Vec<Listing> = stream::iter(listings)
            .buffered(LISTINGS_AT_ONCE)
            .try_collect()
            .await?;
        let objects = listings.iter().map(|listing| listing.all.count).sum();
        Ok(scaled(objects, paths.len() as u64, n_listed))
    }

    /// Coverage, manifest and the record of the sweep. Where no artifact is due, the
    /// finisher is asked itself.
    async fn finish(&mut self, manifest_bytes: u64) {
        let n_shards = self.work.shards().count() as u64;
        let coverage_bytes = n_shards * COVERAGE_BYTES;
        self.cost += Cost::read(coverage_bytes);
        self.cost += Cost::read(manifest_bytes);
        if self.planned.due() == 0 && self.failed.is_none() {
            let coverage = self.ladder.finish_coverage(&self.work, None).await;
            let manifest = self.ladder.finish_manifest(&self.levels, None).await;
            // What cannot be asked is taken for due.
            if !coverage.unwrap_or(true) && !manifest.unwrap_or(true) {
                return;
            }
        }
        self.planned.finishes = true;
        self.cost.put += FINISH_OBJECTS - 1 + REWRITE_PUTS;
        self.cost.objects_written += FINISH_OBJECTS;
        self.cost.bytes_written += coverage_bytes + manifest_bytes + RECORD_BYTES;
    }
}
