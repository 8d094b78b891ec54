//! The whole runbook on one store, each step gated on the one before: declare, columns,
//! ladder, and a receipt of what was done.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use tokio::sync::watch;

use crate::declare::{Declare, DeclareError, Declared};
use crate::error::Error;
use crate::ladder::{LadderTemplate, LadderWork};
use crate::pyramid::{ConfigError, Declaration, Lever};
use crate::receipt::{self, Ran, Receipt, StepTaken};
use crate::report::{Ending, Report};
use crate::settings::Settings;
use crate::store::Root;
use crate::store::lease::LEASE_KEY;
use crate::store::manifest::Manifest;
use crate::store::records::Records;
use crate::store::template::ColumnTemplate;
use crate::time::{Clock, SystemClock};
use crate::upgrade::{Steps, Upgrade, UpgradeHandle};
use crate::work::WorkSet;

/// The runbook of one store, not yet begun.
#[derive(Debug)]
pub struct Runbook {
    root: Root,
    settings: Settings,
    declare: Option<Declare>,
    receipt: bool,
    stop: watch::Sender<Option<String>>,
    clock: Arc<dyn Clock>,
}

/// Stops a runbook from elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stopper(watch::Sender<Option<String>>);

impl Stopper {
    /// Stops the runbook: what is being written is finished, the lease is given back, and
    /// the account says by whom it was stopped.
    pub fn stop(&self, by: &str) {
        self.0.send_replace(Some(by.to_owned()));
    }
}

/// What came of a runbook, step by step.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Account {
    /// The columns and the ladder, with the outcome of the whole.
    #[serde(flatten)]
    pub report: Report,
    /// The declaration, when a configuration was given.
    pub declared: Option<Declared>,
    /// Key of the receipt, when one was written.
    pub receipt: Option<String>,
    /// The steps taken, in order.
    pub steps: Vec<StepTaken>,
}

/// Why a runbook ended before its first step did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunbookError {
    /// The pyramid cannot be declared.
    #[error(transparent)]
    Declare(#[from] DeclareError),
    /// The run was not admitted.
    #[error(transparent)]
    Run(#[from] Error),
}

impl RunbookError {
    /// How the runbook ends for it.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Declare(error) => error.ending(),
            Self::Run(error) => error.ending(),
        }
    }
}

impl Runbook {
    /// Prepares the runbook of the store at `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root: root.journaled(),
            settings: Settings::default(),
            declare: None,
            receipt: false,
            stop: watch::Sender::new(None),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Replaces the default settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Declares the pyramid first, from the text of the configuration the leaves were
    /// written with.
    ///
    /// # Errors
    /// When the text is no configuration.
    pub fn declare(mut self, config: &str, lever: Option<Lever>) -> Result<Self, ConfigError> {
        self.declare = Some(Declare::new(self.root.clone(), config)?.lever(lever));
        Ok(self)
    }

    /// Writes a receipt also when nothing else was written.
    pub fn receipt(mut self, receipt: bool) -> Self {
        self.receipt = receipt;
        self
    }

    /// A way to stop the runbook while somebody else waits for its end.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Takes the steps.
    ///
    /// # Errors
    /// What refused the first step that did not end in an account of its own.
    pub async fn run(mut self) -> Result<Account, RunbookError> {
        let started_at = self.now();
        let mut steps = Vec::new();
        let before = Manifest::read(&self.root).await.map_err(Error::from)?;
        let before = receipt::Declared::of(&before);
        let declared = self.declare_first(&mut steps).await?;
        // A run follows what is declared, so one that is only planned cannot be tried.
        let stops_here = declared
            .as_ref()
            .is_some_and(|declared| declared.would_update || !declared.refusals.is_empty());
        if stops_here {
            return Ok(self.only_declared(declared, steps));
        }
        let mut report = self.upgrade(&mut steps).await?;
        let wrote = self.wrote();
        let is_due = report.outcome == Ending::Done
            && report.ladder.as_ref().is_some_and(|ladder| ladder.finished);
        let mut key = None;
        if is_due && (wrote || self.receipt) {
            let ran = Ran {
                run_id: report.run_id.clone(),
                fold_law: self.settings.fold_law,
                started_at,
                finished_at: self.now(),
                before,
                steps: steps.clone(),
                stamps: std::mem::take(&mut report.stamps),
            };
            match self.write_receipt(ran).await {
                Ok(written) => key = Some(written),
                Err(error) => report.warnings.push(format!(
                    "no receipt was written, the store is complete without it: {error}; `zagg-stream upgrade {} --receipt` writes one",
                    self.root.url()
                )),
            }
        }
        Ok(Account {
            report,
            declared,
            receipt: key,
            steps,
        })
    }

    /// Whether anything but the lease was written or deleted.
    fn wrote(&self) -> bool {
        let touched = self.root.touched().unwrap_or_default();
        let mut keys = touched.written.iter().chain(&touched.deleted);
        keys.any(|key| key != LEASE_KEY)
    }

    fn now(&self) -> String {
        crate::time::iso(self.clock.now().unix_seconds())
    }

    async fn declare_first(
        &mut self,
        steps: &mut Vec<StepTaken>,
    ) -> Result<Option<Declared>, DeclareError> {
        let Some(declare) = self.declare.take() else {
            return Ok(None);
        };
        let started = Instant::now();
        let declared = declare.dry_run(self.settings.dry_run).run().await?;
        for warning in &declared.warnings {
            tracing::warn!("{warning}");
        }
        steps.push(StepTaken {
            step: "declare".to_owned(),
            outcome: declared.headline().to_owned(),
            seconds: started.elapsed().as_secs_f64(),
        });
        Ok(Some(declared))
    }

    /// The account of a runbook that ends with its plan of a declaration.
    fn only_declared(&self, declared: Option<Declared>, steps: Vec<StepTaken>) -> Account {
        let mut report = Report::blank(self.root.url(), &self.settings);
        let mut refusals = declared.iter().flat_map(|declared| &declared.refusals);
        report.error = refusals.next().cloned();
        report.outcome = match report.error {
            Some(_) => Ending::Refused,
            None => Ending::Done,
        };
        report.exit_code = report.outcome.exit_code();
        report.requests = self.root.tally();
        Account {
            report,
            declared,
            receipt: None,
            steps,
        }
    }

    /// Columns and ladder, under one lease.
    async fn upgrade(&self, steps: &mut Vec<StepTaken>) -> Result<Report, Error> {
        let started = Instant::now();
        let handle = Upgrade::new(self.root.clone())
            .settings(self.settings.clone())
            .steps(Steps::All)
            .start()
            .await?;
        let report = self.until_stopped(handle).await?;
        let ladder = report.ladder.as_ref();
        let ladder_seconds = ladder.map_or(0.0, |ladder| ladder.seconds);
        let mut push = |step: &str, outcome: Ending, seconds: f64| {
            steps.push(StepTaken {
                step: step.to_owned(),
                outcome: outcome.as_str().to_owned(),
                seconds,
            });
        };
        let columns = match report.counts.failed {
            _ if ladder.is_none() => report.outcome,
            0 => Ending::Done,
            _ => Ending::Failed,
        };
        push(
            "columns",
            columns,
            started.elapsed().as_secs_f64() - ladder_seconds,
        );
        if ladder.is_some() {
            push("ladder", report.outcome, ladder_seconds);
        }
        Ok(report)
    }

    /// Waits for the end of a run, which a stop brings about.
    async fn until_stopped(&self, handle: UpgradeHandle) -> Result<Report, Error> {
        let stop = handle.stop();
        let mut stopped = self.stop.subscribe();
        let stopping = async move {
            // The sender lives in the runbook, so the only way out is a stop.
            if let Ok(by) = stopped.wait_for(Option::is_some).await {
                stop.abort(by.as_deref().unwrap_or_default());
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            report = handle.join() => report,
            () = stopping => Err(Error::PassVanished),
        }
    }

    async fn write_receipt(&self, ran: Ran) -> Result<String, Error> {
        let manifest = Manifest::read(&self.root).await?;
        let windowed = manifest.is_windowed();
        let declaration = Declaration::parse(
            manifest.pyramid(),
            manifest.shard_order(),
            manifest.cell_order(),
        )?;
        let column = ColumnTemplate::new(declaration, self.settings.fold_law, windowed)?;
        let template = LadderTemplate::new(Arc::new(column))?;
        let records = Records::read(&self.root, &manifest).await?;
        let work = LadderWork::new(&WorkSet::new(&records)?, &self.root).await?;
        let receipt = Receipt::take(&self.root, &template, &work, ran).await?;
        let at = self.clock.now().unix_seconds();
        Ok(receipt.write(&self.root, at).await?)
    }
}
