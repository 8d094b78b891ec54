//! The steps of a run, each gated on the one before, under one lease: the columns of the
//! leaves, and the ladder above them.

use std::sync::Arc;
use std::time::Instant;

use actix::{Actor, Addr};

use crate::abort::AbortSignal;
use crate::actors::{self, LeaseKeeper, Pass, Role, Search};
use crate::error::{AbortReason, Error};
use crate::fleet::plan::declaration_hash;
use crate::fleet::{Coordinator, Fleet};
use crate::ladder::{Ladder, LadderWork};
use crate::messages::{EndLease, Event, Finish, Step};
use crate::pyramid::Declaration;
use crate::report::{Bytes, Counts, Ending, LadderReport, Report, Tally};
use crate::run::{Run, new_run_id};
use crate::store::manifest::Manifest;
use crate::store::records::Records;
use crate::store::template::ColumnTemplate;
use crate::store::{lease, status};
use crate::upgrade::{Steps, Upgrade};
use crate::watch::{self, Watched, Watchers};
use crate::work::WorkSet;

/// A run that may begin.
pub(crate) struct Admitted {
    pub run: Arc<Run>,
    /// What the run has to do with the lease.
    pub role: Role,
    pub steps: Steps,
    pub template: Arc<ColumnTemplate>,
    pub ladder: Option<Arc<Ladder>>,
    /// Every leaf of the store.
    pub all: WorkSet,
    /// The leaves that were asked for.
    pub work: WorkSet,
    /// Orders of the ladder that were asked for; none means all.
    pub orders: Vec<u8>,
    /// Of the pyramid that is declared.
    pub declaration_hash: String,
    /// Record rows that are not shards of this store.
    pub skipped: u64,
    pub warnings: Vec<String>,
    /// Whom the work is given to, when it is not done here.
    pub fleet: Option<Fleet>,
}

/// Everything that can refuse the run, before anything is written.
///
/// # Errors
/// The refusal.
pub(crate) async fn admit(upgrade: Upgrade, watchers: Watchers) -> Result<Admitted, Error> {
    let root = upgrade.root.clone();
    let judged = judge(upgrade, watchers.clone());
    let admitted = watch::as_step(Step::Listing, &watchers, &root, judged).await?;
    let run = &admitted.run;
    tracing::info!(root = run.root.url(), run_id = run.run_id, "admitted");
    run.announce(Event::Started {
        root: run.root.url().to_owned(),
        run_id: run.run_id.clone(),
    });
    Ok(admitted)
}

async fn judge(upgrade: Upgrade, watchers: Watchers) -> Result<Admitted, Error> {
    let Upgrade {
        root,
        settings,
        steps,
        clock,
        examiner,
        fleet,
        ..
    } = upgrade;
    if !settings.dry_run {
        root.ensure_writable()?;
    }
    // Connections end with the runtime that opened them, and this one is the pass's own: a
    // client that outlives it must not be left with them.
    let root = watchers.at_work(&root.detached(), &settings);
    let manifest = Manifest::read(&root).await?;
    let windowed = manifest.is_windowed();
    let declaration = Declaration::parse(
        manifest.pyramid(),
        manifest.shard_order(),
        manifest.cell_order(),
    )?;
    let template = Arc::new(ColumnTemplate::new(
        declaration,
        settings.fold_law,
        windowed,
    )?);
    let records = Records::read(&root, &manifest).await?;
    let all = WorkSet::new(&records)?;
    let mut work = all.clone();
    if !settings.shards.is_empty() {
        work.keep_shards(&settings.shards)?;
    }
    if !settings.dry_run {
        lease::refuse_if_live(&root, &*clock).await?;
    }
    let in_flight = status::in_flight(&root, &*clock).await;
    let mut warnings = records.warnings.clone();
    warnings.extend(in_flight.iter().map(|run_id| {
        format!("run `{run_id}` reported lately and may still be writing to this store")
    }));
    for warning in &records.warnings {
        tracing::warn!("{warning}");
    }
    let run_id = new_run_id(&*clock);
    let run = Arc::new(Run::new(root, settings, run_id, clock, watchers));
    let ladder = match steps.ladder() {
        true => Some(Arc::new(Ladder::new(run.clone(), template.clone())?)),
        false => None,
    };
    Ok(Admitted {
        run,
        role: match fleet {
            Some(_) => Role::Coordinator(examiner),
            None => Role::Holder(examiner),
        },
        steps,
        template,
        ladder,
        all,
        work,
        orders: Vec::new(),
        declaration_hash: declaration_hash(&manifest),
        skipped: records.skipped.len() as u64,
        warnings,
        fleet,
    })
}

/// Takes the steps; `None` when a stage vanished without a word.
pub(crate) async fn take(admitted: Admitted) -> Option<Report> {
    let started = Instant::now();
    let run = admitted.run.clone();
    if admitted.work.num_leaves() == 0 {
        let tally = Tally::default();
        return Some(report(&admitted, tally, None, Ending::NothingToDo, started));
    }
    let keeper = LeaseKeeper::new(run.clone(), admitted.role.clone()).start();
    let mut fleet = match &admitted.fleet {
        Some(fleet) => Coordinator::begin(fleet, &admitted, &keeper).await,
        None => None,
    };
    let mut tally = match &mut fleet {
        Some(fleet) => fleet.columns(&admitted).await,
        None => columns(&admitted, &keeper).await?,
    };
    let mut ending = ending(&run, tally.counts.failed);
    let mut waits = None;
    let mut climbed = None;
    if let Some(ladder) = &admitted.ladder {
        waits = why_the_ladder_waits(&admitted, &tally.counts, ending);
        if waits.is_none() {
            let report = climb(ladder, &admitted, &keeper, fleet.as_mut(), &mut tally).await?;
            ending = self::ending(&run, tally.counts.failed + report.counts.failed);
            climbed = Some(report);
        }
    }
    if waits.is_some() && admitted.steps == Steps::Ladder && !run.is_stopping() {
        ending = Ending::Refused;
    }
    // A ladder that failed keeps its lease, so that nobody builds on half of it (`format.md`
    // section 9).
    let is_half = climbed.is_some() && matches!(ending, Ending::Failed | Ending::Aborted);
    let mut stands_because = is_half.then_some("the ladder is not complete");
    let mut verified = None;
    if let (Some(fleet), Some(ladder), Some(built)) = (&mut fleet, &admitted.ladder, &climbed)
        && built.finished
        && ending == Ending::Done
    {
        verified = fleet.verify(&admitted, ladder).await;
        ending = self::ending(&run, 0);
    }
    let totals = match fleet {
        Some(fleet) => Some(fleet.end().await),
        None => None,
    };
    if totals.as_ref().is_some_and(|totals| totals.may_be_written) {
        stands_because = Some("some of its workers may still be writing");
    }
    // A keeper that is gone has nothing to tell.
    let told = keeper.send(EndLease { stands_because }).await;
    tally.warnings.extend(told.unwrap_or_default());
    let mut report = report(&admitted, tally, climbed, ending, started);
    report.verified = verified;
    if let Some(totals) = totals {
        totals.add_to(&mut report);
        report.warnings.extend(totals.warnings);
    }
    match waits {
        // A run that was stopped says why.
        Some(waits) if ending == Ending::Refused && report.error.is_none() => {
            report.error = Some(waits);
        }
        Some(waits) => report.warnings.push(waits),
        None => {}
    }
    Some(report)
}

/// The columns: written, or for a run that only builds the ladder, judged.
async fn columns(admitted: &Admitted, keeper: &Addr<LeaseKeeper>) -> Option<Tally> {
    let settings = &admitted.run.settings;
    let writes = admitted.steps.columns();
    let work = if writes {
        &admitted.work
    } else {
        &admitted.all
    };
    let pass = Pass {
        run: admitted.run.clone(),
        template: admitted.template.clone(),
        force: writes && settings.force,
        dry_run: !writes || settings.dry_run,
        max_leaves: settings.max_leaves.filter(|_| writes),
        enough: AbortSignal::new(),
    };
    let watched = watch(&admitted.run, Step::Columns, work.num_leaves());
    let tally = actors::start_columns(
        Arc::new(pass),
        work.clone(),
        keeper.clone(),
        watched.clone(),
    );
    watched.during(tally).await.ok()
}

/// Why the ladder may not begin, in a sentence for the operator (`format.md` section 9:
/// only when the column pass reported no failure).
fn why_the_ladder_waits(admitted: &Admitted, counts: &Counts, ending: Ending) -> Option<String> {
    let settings = &admitted.run.settings;
    if admitted.run.is_stopping() {
        return Some("the ladder was not begun".to_owned());
    }
    let outstanding = counts.failed + counts.planned;
    if admitted.steps == Steps::Ladder {
        return (outstanding > 0 && !settings.allow_gaps).then(|| {
            format!(
                "{outstanding} of the committed leaves have no current column, and a ladder would stand on gaps; run `zagg-stream backfill ROOT` first, or `sweep` with --allow-gaps"
            )
        });
    }
    if ending != Ending::Done || counts.planned > 0 {
        return Some("the ladder waits until every committed leaf has a current column".to_owned());
    }
    let partial = counts.not_attempted > 0 || !settings.shards.is_empty();
    partial.then(|| {
        "the ladder waits: this run was asked for some of the leaves only, and it stands on all of them"
            .to_owned()
    })
}

/// Builds the ladder and writes what comes last.
async fn climb(
    ladder: &Arc<Ladder>,
    admitted: &Admitted,
    keeper: &Addr<LeaseKeeper>,
    fleet: Option<&mut Coordinator>,
    columns: &mut Tally,
) -> Option<LadderReport> {
    let started = Instant::now();
    let run = &admitted.run;
    let work = match LadderWork::new(&admitted.all, &run.root).await {
        Ok(work) => Arc::new(work),
        Err(error) => {
            run.stop(AbortReason::StoreWide {
                kind: error.kind(),
                error: error.to_string(),
                credentials_end: run.root.credentials_end(),
                so_far: None,
            });
            return Some(LadderReport::default());
        }
    };
    let above = match admitted.steps {
        Steps::Ladder => admitted.work.words().collect(),
        Steps::Columns | Steps::All => Vec::new(),
    };
    let is_whole = run.settings.shards.is_empty() && !run.is_part;
    let search = Search {
        ladder: ladder.clone(),
        work: work.clone(),
        above: if is_whole { Vec::new() } else { above },
        orders: admitted.orders.clone(),
    };
    let watched = watch(run, Step::Ladder, search.num_targets().ok()?);
    let (tally, elsewhere, finisher) = match fleet {
        Some(fleet) => {
            let built = fleet.ladder(&search, &watched);
            let (tally, levels) = watched.during(built).await;
            let finisher = actors::start_finisher(ladder.clone(), work, keeper.clone());
            (tally, levels, finisher)
        }
        None => {
            let ladders = actors::start_ladder(search, keeper.clone(), watched.clone());
            let tally = watched.during(ladders.tally).await.ok()?;
            (tally, Vec::new(), ladders.finisher)
        }
    };
    let counts = tally.counts;
    let is_complete = is_whole && !run.is_stopping() && counts.failed + counts.not_attempted == 0;
    let finish = finisher.send(Finish {
        is_complete,
        elsewhere,
    });
    let finish = watch::as_step(Step::Finisher, &run.watchers, &run.root, finish);
    let mut report = finish.await.ok()?;
    if !is_whole && !run.is_part {
        columns.warnings.push(
            "only a part of the ladder was asked for, so coverage and manifest were left as they are; run `zagg-stream sweep ROOT` for the rest"
                .to_owned(),
        );
    }
    columns.warnings.extend(tally.warnings);
    report.counts = counts;
    report.verdicts = tally.reasons;
    report.failed = tally.failed_leaves;
    report.bytes_written = tally.bytes_of_columns;
    report.stage_seconds = tally.stages;
    report.seconds = started.elapsed().as_secs_f64();
    Some(report)
}

/// Does one part of a run whose lease another process holds: its columns, or where orders
/// are named, its artifacts of the ladder. `None` when a stage vanished without a word.
pub(crate) async fn take_part(admitted: Admitted) -> Option<Report> {
    let started = Instant::now();
    let run = admitted.run.clone();
    let keeper = LeaseKeeper::new(run.clone(), admitted.role.clone()).start();
    let mut tally = Tally::default();
    let mut climbed = None;
    match &admitted.ladder {
        Some(ladder) => climbed = Some(climb(ladder, &admitted, &keeper, None, &mut tally).await?),
        None => tally = columns(&admitted, &keeper).await?,
    }
    let failed = tally.counts.failed + climbed.as_ref().map_or(0, |ladder| ladder.counts.failed);
    let ending = ending(&run, failed);
    // A keeper that is gone has nothing to tell.
    let stands_because = None;
    let told = keeper.send(EndLease { stands_because }).await;
    tally.warnings.extend(told.unwrap_or_default());
    Some(report(&admitted, tally, climbed, ending, started))
}

/// A step of this run with so many pieces of work.
pub(crate) fn watch(run: &Run, step: Step, total: u64) -> Arc<Watched> {
    let watched = Watched::new(step, run.watchers.clone(), &run.root, total);
    Arc::new(watched.budget(&run.budget))
}

fn ending(run: &Run, failed: u64) -> Ending {
    match run.reason() {
        Some(reason) => reason.ending(),
        None if failed > 0 => Ending::Failed,
        None => Ending::Done,
    }
}

fn report(
    admitted: &Admitted,
    mut tally: Tally,
    ladder: Option<LadderReport>,
    outcome: Ending,
    started: Instant,
) -> Report {
    let run = &admitted.run;
    tally.counts.skipped = admitted.skipped;
    tally
        .warnings
        .splice(0..0, admitted.warnings.iter().cloned());
    Report {
        outcome,
        exit_code: outcome.exit_code(),
        run_id: run.run_id.clone(),
        counts: tally.counts,
        verdicts: tally.reasons,
        failed_leaves: tally.failed_leaves,
        requests: run.root.tally(),
        bytes: Bytes {
            read: run.root.tally().bytes_read,
            written: tally.bytes_of_columns,
        },
        peak_in_flight_bytes: run.budget.peak(),
        seconds: started.elapsed().as_secs_f64(),
        stage_seconds: tally.stages,
        ladder,
        stamps: run.take_stamps(),
        verified: None,
        warnings: tally.warnings,
        error: run.reason().map(ToString::to_string),
        ..Report::blank(run.root.url(), &run.settings)
    }
}
