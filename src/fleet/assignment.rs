//! What a worker is given: one part of a run that a coordinator has planned.

use std::sync::Arc;

use super::directory::{ArrayDir, DirectoryError};
use super::plan::{PLAN_SPEC, Plan};
use super::worker::{Patience, Worker};
use crate::VERSION;
use crate::error::{Error, FaultKind};
use crate::report::{Ending, Report};
use crate::run::Stopper;
use crate::store::Root;
use crate::store::lease::Sight;
use crate::upgrade::on_own_threads;

/// Why a worker does not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// What the coordinator left cannot be used.
    #[error("{0}")]
    Directory(#[from] DirectoryError),
    /// Another program made the plan.
    #[error(
        "the plan of run `{run_id}` was made by {theirs}, and this is {ours}; give every worker the program of the coordinator"
    )]
    Version {
        /// The run.
        run_id: String,
        /// Name and version of the coordinator's program.
        theirs: String,
        /// Name and version of this one.
        ours: &'static str,
    },
    /// The array has no such part.
    #[error("part {part} is not in the plan of run `{run_id}`, which has {parts}, from 0 on")]
    NoPart {
        /// The run.
        run_id: String,
        /// The part asked for.
        part: u32,
        /// How many there are.
        parts: usize,
    },
    /// The store declares another pyramid than when the plan was made.
    #[error(
        "`{root}` declares another pyramid than when run `{run_id}` was planned; end that run and start it again"
    )]
    Declaration {
        /// The store.
        root: String,
        /// The run.
        run_id: String,
    },
    /// The run did not begin.
    #[error(
        "no run has begun in `{run}` after {waited_s} s; start the coordinator with `--run-dir {run}`, then the workers"
    )]
    NotBegun {
        /// The run directory.
        run: String,
        /// How long it was waited for.
        waited_s: u64,
    },
    /// What it was told makes no sense to it.
    #[error(
        "`{line}` is no order for a worker: {reason}; orders are for `upgrade --fleet local` to give"
    )]
    Order {
        /// What it was told.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The store cannot be worked on.
    #[error(transparent)]
    Run(#[from] Error),
}

impl WorkerError {
    /// How a worker ends for it.
    pub fn ending(&self) -> Ending {
        match self {
            // The run directory is removed when its run ends.
            Self::Directory(error) if error.kind() == FaultKind::NotFound => Ending::Aborted,
            Self::Directory(error) => error.kind().ending(),
            Self::Run(error) if error.kind() == FaultKind::LeaseLost => Ending::Aborted,
            Self::Run(error) => error.ending(),
            _ => Ending::Refused,
        }
    }
}

/// A part of a run that a coordinator has planned.
#[derive(Debug)]
pub struct Assignment {
    pub(super) array: ArrayDir,
    pub(super) plan: Arc<Plan>,
    pub(super) part: u32,
    pub(super) stopper: Stopper,
    pub(super) sight: Sight,
}

impl Assignment {
    /// Reads what is to be done: the plan below `array`, which the coordinator gave the
    /// address of, and of it this part.
    ///
    /// # Errors
    /// When there is no such plan, part, or not for this program.
    pub async fn read(array: Root, part: u32) -> Result<Self, WorkerError> {
        Self::of(ArrayDir::new(array), part).await
    }

    async fn of(array: ArrayDir, part: u32) -> Result<Self, WorkerError> {
        let plan = Arc::new(array.plan().await?);
        Self::planned(array, plan, part)
    }

    pub(super) fn planned(
        array: ArrayDir,
        plan: Arc<Plan>,
        part: u32,
    ) -> Result<Self, WorkerError> {
        if plan.spec != PLAN_SPEC || plan.program != VERSION {
            return Err(WorkerError::Version {
                run_id: plan.run_id.clone(),
                theirs: plan.program.clone(),
                ours: VERSION,
            });
        }
        if part as usize >= plan.parts.len() {
            return Err(WorkerError::NoPart {
                run_id: plan.run_id.clone(),
                part,
                parts: plan.parts.len(),
            });
        }
        Ok(Self {
            sight: Sight::of(&plan.run_id),
            array,
            plan,
            part,
            stopper: Stopper::new(),
        })
    }

    /// Address of the store.
    pub fn store(&self) -> &str {
        &self.plan.root
    }

    /// Has the work stopped by this.
    pub(super) fn stopped_by(self, stopper: Stopper) -> Self {
        Self { stopper, ..self }
    }

    /// Goes by what this process has seen of the run's lease before, and keeps what it sees.
    pub(super) fn seeing(self, kept: &mut Option<Sight>) -> Self {
        let sight = Sight::kept(kept, &self.plan.run_id);
        Self { sight, ..self }
    }

    /// A way to stop the work: what is being written is finished, and the report says by
    /// whom it was stopped.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Works on the part, on threads of its own, at the store opened as `root`. A part that
    /// is done already is not done again.
    ///
    /// # Errors
    /// What keeps it from being begun. After that it ends in a report.
    pub async fn work(self, root: Root) -> Result<Report, WorkerError> {
        let blank = Report::blank(&self.plan.root, &self.plan.settings);
        let (array, part) = (self.array.clone(), self.part);
        let (run_id, stopper) = (self.plan.run_id.clone(), self.stopper.clone());
        if let Some(report) = self.worked(root, Patience::Waits).await? {
            return Ok(report);
        }
        if let Some(by) = stopper.by() {
            return Ok(Report {
                outcome: Ending::Interrupted,
                exit_code: Ending::Interrupted.exit_code(),
                error: Some(format!("stopped by {by}")),
                ..blank
            });
        }
        tracing::info!(part, "the part is done already");
        let report = array.report(part, &run_id).await?;
        let ended = report.and_then(|report| report.ended);
        Ok(ended.map_or(blank, |ended| ended.report))
    }

    /// As [`Assignment::work`], but leaves alone a part that another worker is at or has done.
    pub(super) async fn work_unless_taken(self, root: Root) -> Result<Option<Report>, WorkerError> {
        self.worked(root, Patience::PassesOver).await
    }

    async fn worked(self, root: Root, patience: Patience) -> Result<Option<Report>, WorkerError> {
        let (ended, report) = tokio::sync::oneshot::channel();
        let span = tracing::info_span!("run", root = root.url(), run_id = self.plan.run_id);
        let work = move || async move {
            // Whoever waited may have gone away.
            let _ = ended.send(Worker::new(self, root).work(patience).await);
        };
        on_own_threads("zagg-part", span, work).map_err(Error::Thread)?;
        report.await.map_err(|_| Error::PassVanished)?
    }
}
