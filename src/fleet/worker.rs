//! One worker of a fleet, at one part.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::Instant;
use tracing::{Instrument, Span};

use super::assignment::{Assignment, WorkerError};
use super::directory::{ArrayDir, DirectoryError};
use super::part_report::{PartEnded, PartReport, StoreWide, is_final};
use super::plan::{Phase, Plan, declaration_hash};
use super::telling::Telling;
use crate::actors::Role;
use crate::error::{AbortReason, Error};
use crate::ladder::Ladder;
use crate::lease::{BeatEvent, BeatThread, Pace};
use crate::pyramid::Declaration;
use crate::report::{Ending, Report};
use crate::run::{Run, Stopper};
use crate::steps::{self, Admitted};
use crate::store::lease::{self, Acquired, Claim, Held, LeaseError, Membership, Sight, Standing};
use crate::store::manifest::Manifest;
use crate::store::template::ColumnTemplate;
use crate::store::{Root, Touched};
use crate::time::SystemClock;
use crate::upgrade::Steps;
use crate::verify::PartVerified;
use crate::watch::{Elsewhere, Watchers};
use crate::work::WorkSet;

/// How often one that finds its part taken looks again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reports within the ttl of a part, at least.
const REPORTS: u32 = 6;

/// The longest time between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// When the first report is written.
const FIRST_REPORT: Duration = Duration::from_millis(200);

/// What came of a part.
pub(super) struct Worked {
    pub report: Report,
    /// What was found, where it was to verify.
    pub verified: Option<PartVerified>,
}

impl Worked {
    fn wrote(report: Report) -> Self {
        let verified = None;
        Self { report, verified }
    }
}

/// What a worker does when another one is at its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Waits,
    PassesOver,
}

/// An assignment being worked on.
pub(super) struct Worker {
    pub(super) array: ArrayDir,
    pub(super) plan: Arc<Plan>,
    pub(super) part: u32,
    stopper: Stopper,
    sight: Sight,
    pub(super) root: Root,
    pub(super) watchers: Watchers,
    /// No other process has the same.
    name: String,
}

impl Worker {
    pub(super) fn new(assignment: Assignment, root: Root) -> Self {
        let Assignment {
            array,
            plan,
            part,
            stopper,
            sight,
        } = assignment;
        let drawn = RandomState::new().build_hasher().finish();
        let watchers = Watchers::none();
        let root = watchers.at_work(&root.detached().journaled(), &plan.settings);
        Self {
            name: format!(
                "{}-part-{part}-{}-{drawn:016x}",
                plan.run_id,
                std::process::id()
            ),
            array: ArrayDir::new(array.root().detached()),
            plan,
            part,
            stopper,
            sight,
            root,
            watchers,
        }
    }

    /// The report; `None` when the part is done already, or taken.
    pub(super) async fn work(self, patience: Patience) -> Result<Option<Report>, WorkerError> {
        let worked = self.try_work(patience).await;
        if let Err(WorkerError::Run(error)) = &worked {
            self.leave_word(error).await;
        }
        worked
    }

    /// Tells the coordinator of a fault of the store that kept the part from being begun: it
    /// concerns every worker. Whoever has the part meanwhile tells of it himself.
    async fn leave_word(&self, error: &Error) {
        let kind = error.kind();
        if !kind.is_store_wide() || self.is_done().await.unwrap_or(true) {
            return;
        }
        let Ok(Some(part)) = self.take_part(Patience::PassesOver).await else {
            return;
        };
        let ended = PartEnded {
            report: Report::refused(&self.plan.root, &self.plan.settings, Ending::Aborted, error),
            store_wide: Some(StoreWide {
                kind,
                error: error.to_string(),
                credentials_end: self.root.credentials_end(),
            }),
            stamps: BTreeMap::new(),
            touched: Touched::default(),
            verified: None,
        };
        Telling::new(self, &part).write(Some(ended)).await;
        self.give_back(&part).await;
    }

    /// Gives the part back, so that the next worker need not wait for its ttl.
    async fn give_back(&self, part: &Held) {
        if let Err(error) = lease::give_back(&self.array.lease(self.part), part).await {
            tracing::warn!(%error, "the part could not be given back, it is free once its ttl is over");
        }
    }

    /// Pieces of work of the part.
    pub(super) fn pieces(&self) -> u64 {
        self.plan.parts[self.part as usize].pieces
    }

    pub(super) fn report(
        &self,
        so_far: Elsewhere,
        seconds: f64,
        ended: Option<PartEnded>,
    ) -> PartReport {
        PartReport {
            run_id: self.plan.run_id.clone(),
            part: self.part,
            worker: self.name.clone(),
            so_far,
            total: self.pieces(),
            seconds,
            ended,
        }
    }

    async fn try_work(&self, patience: Patience) -> Result<Option<Report>, WorkerError> {
        let (manifest, work, is_done) = tokio::join!(
            Manifest::read(&self.root),
            self.array.part(self.part),
            self.is_done()
        );
        let manifest = manifest.map_err(Error::from)?;
        if declaration_hash(&manifest) != self.plan.declaration_hash {
            return Err(WorkerError::Declaration {
                root: self.plan.root.clone(),
                run_id: self.plan.run_id.clone(),
            });
        }
        let work = work?;
        if is_done? {
            return Ok(None);
        }
        let Some(part) = self.take_part(patience).await? else {
            return Ok(None);
        };
        let admitted = self.admitted(&manifest, work, part.clone())?;
        let run = admitted.run.clone();
        let beats = self.keep_part(&run, &part)?;
        let work = self.worked_on(admitted, &manifest);
        let report = self.reporting(&run, &part, work).await?;
        drop(run);
        // Nobody asks for one that is done.
        if !is_final(report.outcome)
            && let Err(error) = beats.release().await
        {
            tracing::warn!(%error, "the part could not be given back, it is free once its ttl is over");
        }
        Ok(Some(report))
    }

    /// Takes the part by a lease of its own, once whoever has it is gone; `None` when it was
    /// done meanwhile, or is taken and not to be waited for.
    async fn take_part(&self, patience: Patience) -> Result<Option<Held>, WorkerError> {
        let root = self.array.lease(self.part);
        let claim = Claim {
            ttl_s: self.plan.part_ttl_s,
            ..Claim::new(self.name.clone())
        };
        loop {
            let clock = Arc::new(SystemClock::new());
            match lease::acquire(&root, &claim, clock).await {
                Ok(Acquired { held, .. }) => return Ok(Some(held)),
                Err(LeaseError::Live(_) | LeaseError::RaceLost { .. })
                    if patience == Patience::PassesOver =>
                {
                    return Ok(None);
                }
                Err(LeaseError::Live(other)) => {
                    tracing::info!(
                        part = self.part,
                        worker = other.run_id,
                        "somebody is at it, waiting"
                    );
                }
                Err(LeaseError::RaceLost { .. }) => {}
                Err(error) => return Err(Error::from(error).into()),
            }
            self.ensure_run_goes_on().await?;
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = self.stopper.stopped() => return Ok(None),
            }
            if self.is_done().await? {
                return Ok(None);
            }
        }
    }

    /// # Errors
    /// When the run does not hold the lease of the store any more.
    async fn ensure_run_goes_on(&self) -> Result<(), WorkerError> {
        match lease::show(&self.root).await.map_err(Error::from)? {
            Standing::Lease(record) if record.run_id() == self.plan.run_id => Ok(()),
            other => Err(Error::from(LeaseError::Lost {
                root: self.plan.root.clone(),
                run_id: self.plan.run_id.clone(),
                holder: other.holder(),
            })
            .into()),
        }
    }

    async fn is_done(&self) -> Result<bool, DirectoryError> {
        self.array.is_done(self.part, &self.plan.run_id).await
    }

    fn admitted(&self, manifest: &Manifest, work: WorkSet, part: Held) -> Result<Admitted, Error> {
        let declaration = Declaration::parse(
            manifest.pyramid(),
            manifest.shard_order(),
            manifest.cell_order(),
        )?;
        let settings = self.plan.settings.clone();
        let template = ColumnTemplate::new(declaration, settings.fold_law, manifest.is_windowed())?;
        let template = Arc::new(template);
        let mut run = Run::new(
            self.root.clone(),
            settings,
            self.plan.run_id.clone(),
            self.sight.clock().clone(),
            self.watchers.clone(),
        );
        run.is_part = true;
        let run = Arc::new(run);
        let (ladder, orders) = match &self.plan.phase {
            Phase::Columns | Phase::Verify { .. } => (None, Vec::new()),
            Phase::Ladder { orders } => {
                let ladder = Ladder::new(run.clone(), template.clone())?;
                (Some(Arc::new(ladder)), orders.clone())
            }
        };
        Ok(Admitted {
            role: Role::Member(Membership {
                run_id: self.plan.run_id.clone(),
                ttl_s: self.plan.ttl_s,
                part,
                sight: self.sight.clone(),
            }),
            steps: Steps::All,
            template,
            ladder,
            all: work.clone(),
            work,
            orders,
            declaration_hash: self.plan.declaration_hash.clone(),
            skipped: 0,
            warnings: Vec::new(),
            fleet: None,
            run,
        })
    }

    /// Keeps the part from others for as long as it is worked on.
    fn keep_part(&self, run: &Arc<Run>, part: &Held) -> Result<BeatThread, Error> {
        let run = Arc::downgrade(run);
        let on_event = move |event| {
            let (BeatEvent::Ended(error), Some(run)) = (event, run.upgrade()) else {
                return;
            };
            run.stop(AbortReason::LeaseLost(error.to_string()));
        };
        let root = self.array.lease(self.part);
        let pace = Pace::for_ttl(part.ttl());
        Ok(BeatThread::spawn(&root, part.clone(), pace, on_event)?)
    }

    /// Does the work itself; `None` when a stage vanished without a word.
    async fn worked_on(&self, admitted: Admitted, manifest: &Manifest) -> Option<Worked> {
        match &self.plan.phase {
            Phase::Columns | Phase::Ladder { .. } => {
                steps::take_part(admitted).await.map(Worked::wrote)
            }
            Phase::Verify { sample } => {
                Some(self.verify(&admitted, manifest, sample.clone()).await)
            }
        }
    }

    /// Waits for the work, and tells on the way and at the end what comes of it.
    async fn reporting(
        &self,
        run: &Run,
        part: &Held,
        work: impl Future<Output = Option<Worked>>,
    ) -> Result<Report, WorkerError> {
        let every = (part.ttl() / REPORTS).min(REPORT_EVERY);
        let mut telling = Telling::new(self, part);
        let mut events = pin!(self.watchers.stream());
        let mut work = pin!(work.instrument(Span::current()));
        // The first one when the work is well under way, which it would hold up.
        let mut timer = tokio::time::interval_at(Instant::now() + every.min(FIRST_REPORT), every);
        let worked = loop {
            tokio::select! {
                worked = &mut work => break worked,
                Some(event) = events.next() => telling.note(&event),
                _ = timer.tick() => telling.write(None).await,
                by = self.stopper.stopped(), if !run.is_stopping() => {
                    run.stop(AbortReason::Operator(by));
                }
            }
        };
        let Worked { report, verified } = worked.ok_or(Error::PassVanished)?;
        // Whoever holds the lease now knows nothing of this run.
        if !matches!(run.reason(), Some(AbortReason::LeaseLost(_))) {
            match &verified {
                Some(_) => telling.count_all(),
                None => telling.count(&report),
            }
            let ended = PartEnded {
                store_wide: run.reason().and_then(StoreWide::of),
                stamps: report.stamps.clone(),
                touched: self.root.touched().unwrap_or_default(),
                report: report.clone(),
                verified,
            };
            telling.write(Some(ended)).await;
        }
        Ok(report)
    }
}
