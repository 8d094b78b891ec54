//! The steps of a plan, in the order of an upgrade; each is planned against what the one
//! before it would leave behind.

use std::sync::Arc;

use serde_json::{Value, json};

use super::columns::{self, ColumnCosts};
use super::judge::{self, Judged};
use super::ladder::{LadderCosts, LadderPlanner};
use super::obstacle::{self, Obstacle};
use super::planned::{
    Cost, PeakMemory, PlannedDeclaration, PlannedLadder, PlannedStep, PlannedVerify, REWRITE_PUTS,
    Work,
};
use crate::declare::{Declare, Declared};
use crate::ladder::LadderWork;
use crate::pyramid::{Declaration, block};
use crate::settings::Settings;
use crate::store::examine::{Mode, TRIAL_DELETES, TRIAL_GETS, TRIAL_PUTS, examine};
use crate::store::json::{ROOT_INDENT, python_pretty};
use crate::store::manifest::{MANIFEST_KEY, Manifest};
use crate::store::records::Records;
use crate::store::template::ColumnTemplate;
use crate::store::{Examination, Root};
use crate::time::Clock;
use crate::work::WorkSet;

/// Bytes of a lease.
const LEASE_BYTES: u64 = 256;

/// A look at a lease that is not there.
const LOOK_AT_LEASE: Cost = Cost {
    get: 1,
    ..Cost::NONE
};

/// A plan in the making.
pub(super) struct Draft {
    pub root: Root,
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub steps: Vec<PlannedStep>,
    pub memory: Option<PeakMemory>,
    pub obstacles: Vec<Obstacle>,
    pub store: Option<Examination>,
}

/// The manifest the other steps follow.
struct Declaring {
    manifest: Manifest,
    num_bytes: u64,
    /// Whether it is to be written.
    is_due: bool,
    /// What the declaration from a config had to tell.
    warnings: Vec<String>,
}

/// The leaves of a store.
struct Leaves {
    all: WorkSet,
    asked_for: WorkSet,
    /// Record rows that are not shards of this store.
    skipped: u64,
}

impl Draft {
    /// Takes the steps in order, until one cannot be planned.
    ///
    /// # Errors
    /// What keeps the next one from being planned.
    pub(super) async fn plan(&mut self, declare: Option<Declare>) -> Result<(), Obstacle> {
        if let Err(error) = self.root.ensure_writable() {
            self.obstacles.push(Obstacle::blocking("root", &error));
        }
        let examined = examine(&self.root, &*self.clock, Mode::ReadOnly).await;
        self.store = Some(examined.map_err(|error| Obstacle::blocking("store", &error))?);
        let lease = obstacle::of_lease(&self.root, &*self.clock).await;
        let claims = lease.is_some();
        self.obstacles.extend(lease);
        let declaring = self.declaration(declare).await?;
        let template = Arc::new(self.template(&declaring.manifest)?);
        let before = self.root.tally();
        let leaves = self.leaves(&declaring).await?;
        let judged = self.judge(&template, &leaves).await?;
        let judging = Cost::between(before, self.root.tally());
        let columns = columns::costs(&self.root, &template, &self.settings, &judged)
            .await
            .map_err(|error| Obstacle::blocking("leaves", &error))?;
        let ladder = self
            .ladder(&template, &leaves, &judged, &columns, declaring.num_bytes)
            .await?;
        let mut cost = judging;
        cost += columns.cost;
        // What admits the run.
        cost += Cost::read(declaring.num_bytes);
        cost += LOOK_AT_LEASE;
        let planned = judged.planned(leaves.skipped, columns.listed);
        let due = planned.counts.planned;
        let takes_the_lease = due > 0 || ladder.planned.due() > 0 || ladder.planned.finishes;
        if takes_the_lease || declaring.is_due {
            cost += examining(declaring.num_bytes);
        }
        if takes_the_lease {
            cost += holding_the_lease(claims);
        }
        if due > 0 {
            let memory = columns::peak_memory(&template, &self.settings, &columns.sizes, due);
            self.memory = Some(memory);
        }
        let mut verify = columns::read_back(&template, &columns.sizes, judged.columns.len() as u64);
        verify += ladder.read_back;
        let artifacts = PlannedVerify {
            columns: judged.columns.len() as u64,
            artifacts: ladder.planned.due() + ladder.planned.current(),
        };
        self.push(Work::Columns(planned), cost);
        self.push(Work::Ladder(ladder.planned), ladder.cost);
        self.push(Work::Verify(artifacts), verify);
        Ok(())
    }

    fn push(&mut self, work: Work, cost: Cost) {
        self.steps.push(PlannedStep { work, cost });
    }

    /// The declaration: from a config as a dry declaration says, else the manifest's own.
    async fn declaration(&mut self, declare: Option<Declare>) -> Result<Declaring, Obstacle> {
        let Some(declare) = declare else {
            let manifest = Manifest::read(&self.root).await;
            let manifest = manifest.map_err(|error| Obstacle::blocking("manifest", &error))?;
            self.push(Work::Declare(declared_in(&manifest, None)), Cost::default());
            return Ok(Declaring {
                num_bytes: python_pretty(&json!(manifest.document()), ROOT_INDENT).len() as u64,
                manifest,
                is_due: false,
                warnings: Vec::new(),
            });
        };
        let before = self.root.tally();
        let (declared, document) = declare
            .try_out()
            .await
            .map_err(|error| Obstacle::blocking("declaration", &error))?;
        let text = python_pretty(&Value::Object(document), ROOT_INDENT);
        let num_bytes = text.len() as u64;
        let manifest = Manifest::parse(text.as_bytes(), MANIFEST_KEY)
            .map_err(|error| Obstacle::blocking("manifest", &error))?;
        for refusal in &declared.refusals {
            self.obstacles
                .push(Obstacle::blocking("declaration", refusal));
        }
        let mut cost = Cost::between(before, self.root.tally());
        cost += LOOK_AT_LEASE;
        if declared.would_update {
            cost += LOOK_AT_LEASE;
            cost += Cost::read(num_bytes);
            cost += Cost::write(num_bytes);
            cost.put += REWRITE_PUTS - 1;
        }
        let (is_due, warnings) = (declared.would_update, declared.warnings.clone());
        self.push(Work::Declare(declared_in(&manifest, Some(declared))), cost);
        Ok(Declaring {
            manifest,
            num_bytes,
            is_due,
            warnings,
        })
    }

    fn template(&self, manifest: &Manifest) -> Result<ColumnTemplate, Obstacle> {
        let (shard_order, cell_order) = (manifest.shard_order(), manifest.cell_order());
        let declaration = Declaration::parse(manifest.pyramid(), shard_order, cell_order)
            .map_err(|error| Obstacle::blocking("declaration", &error))?;
        let law = self.settings.fold_law;
        ColumnTemplate::new(declaration, law, manifest.is_windowed())
            .map_err(|error| Obstacle::blocking("declaration", &error))
    }

    /// The leaves the run records name, and what else the records tell.
    async fn leaves(&mut self, declaring: &Declaring) -> Result<Leaves, Obstacle> {
        let records = Records::read(&self.root, &declaring.manifest)
            .await
            .map_err(|error| Obstacle::blocking("records", &error))?;
        self.obstacles.extend(obstacle::of_records(&records));
        let told = declaring.warnings.iter();
        let news = told.filter(|warning| !records.warnings.contains(warning));
        self.obstacles.extend(news.map(|warning| {
            let cure =
                "see that this is as you mean it; the runbook's \"Warnings\" says what it means";
            Obstacle::warning("declaration", warning.clone(), cure)
        }));
        let runs = obstacle::of_runs(&self.root, &*self.clock).await;
        self.obstacles.extend(runs);
        let all = WorkSet::new(&records).map_err(|error| Obstacle::blocking("records", &error))?;
        let mut asked_for = all.clone();
        if !self.settings.shards.is_empty() {
            asked_for
                .keep_shards(&self.settings.shards)
                .map_err(|error| Obstacle::blocking("leaves", &error))?;
        }
        Ok(Leaves {
            all,
            asked_for,
            skipped: records.skipped.len() as u64,
        })
    }

    async fn judge(
        &mut self,
        template: &ColumnTemplate,
        leaves: &Leaves,
    ) -> Result<Judged, Obstacle> {
        let judged = judge::judge(&self.root, template, &leaves.asked_for, &self.settings).await;
        if let Some(error) = &judged.stopped_by {
            return Err(Obstacle::blocking("leaves", error));
        }
        self.obstacles
            .extend(obstacle::of_leaves(&judged.planned(leaves.skipped, 0)));
        Ok(judged)
    }

    async fn ladder(
        &mut self,
        template: &Arc<ColumnTemplate>,
        leaves: &Leaves,
        judged: &Judged,
        columns: &ColumnCosts,
        manifest_bytes: u64,
    ) -> Result<LadderCosts, Obstacle> {
        let waits = why_the_ladder_waits(&self.settings, leaves, judged);
        if waits.is_some() {
            return Ok(LadderCosts {
                planned: PlannedLadder {
                    waits,
                    ..PlannedLadder::default()
                },
                ..LadderCosts::default()
            });
        }
        let failed = |error| Obstacle::blocking("ladder", &error);
        let before = self.root.tally();
        let work = LadderWork::new(&leaves.all, &self.root)
            .await
            .map_err(|error| failed(error.into()))?;
        let listing = Cost::between(before, self.root.tally());
        let planner = LadderPlanner::new(
            &self.root,
            &self.settings,
            self.clock.clone(),
            template.clone(),
            work,
            (&judged.columns, &columns.sizes),
        );
        let mut ladder = planner
            .map_err(failed)?
            .plan(manifest_bytes)
            .await
            .map_err(failed)?;
        ladder.cost += listing;
        if let Some(fault) = &ladder.failed {
            let problem = format!("an artifact of the ladder cannot be judged: {fault}");
            let cure = "see that it can be read, then plan again";
            self.obstacles
                .push(Obstacle::warning("ladder", problem, cure));
        }
        Ok(ladder)
    }
}

/// What is declared, from a config or as the manifest stands.
fn declared_in(manifest: &Manifest, declared: Option<Declared>) -> PlannedDeclaration {
    let pyramid = manifest.pyramid().cloned().unwrap_or_default();
    let entries = pyramid.get("overviews").and_then(Value::as_array);
    let entry = |entry: &Value| json!({"node": entry["node"], "cells": entry["cells"]});
    PlannedDeclaration {
        would_update: declared
            .as_ref()
            .is_some_and(|declared| declared.would_update),
        overviews: entries.into_iter().flatten().map(entry).collect(),
        fields: block::classes(&pyramid),
        declared: declared.map(Box::new),
    }
}

/// Why the ladder will not be begun (`format.md` section 9).
fn why_the_ladder_waits(settings: &Settings, leaves: &Leaves, judged: &Judged) -> Option<String> {
    if leaves.asked_for.num_leaves() == 0 {
        return Some("no run record names a leaf for it to stand on".to_owned());
    }
    let failed = judged.num_failed();
    if failed > 0 {
        return Some(format!(
            "{failed} leaves cannot be judged, and the ladder waits until every committed leaf has a current column"
        ));
    }
    (!settings.shards.is_empty()).then(|| {
        "the ladder waits: some of the shards only are asked for, and it stands on all of them"
            .to_owned()
    })
}

/// What a command asks of the store before its first write, once for all its steps; it is
/// counted with the columns, also where the declaration is what comes first.
fn examining(manifest_bytes: u64) -> Cost {
    let mut cost = Cost::read(manifest_bytes);
    cost += Cost {
        get: TRIAL_GETS,
        put: TRIAL_PUTS,
        delete: TRIAL_DELETES,
        list: 1,
        ..Cost::NONE
    };
    cost
}

/// Acquiring the lease and giving it back, which confirms it once more before it deletes it;
/// beats are due by the clock and not counted. A claim of one that has expired looks again
/// before and after; at most it is refused a rewrite, takes its turn, deletes and creates.
fn holding_the_lease(claims: bool) -> Cost {
    let mut cost = Cost::write(LEASE_BYTES).scaled(2, 1);
    cost += Cost::read(LEASE_BYTES);
    cost.delete += 1;
    if claims {
        cost += Cost::write(LEASE_BYTES).scaled(3, 1);
        cost += Cost::read(LEASE_BYTES).scaled(4, 1);
        cost.delete += 2;
    }
    cost
}
