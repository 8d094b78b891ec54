//! The whole runbook on one store, each step gated on the one before: declare, columns,
//! ladder, verify, retire when asked, and a receipt of what was done.

use std::sync::Arc;
use std::time::Instant;

use futures::Stream;
use serde::Serialize;
use tracing::{Instrument, Span};

use crate::apart::apart;
use crate::declare::{Declare, DeclareError, Declared};
use crate::error::Error;
use crate::fleet::Fleet;
use crate::ladder::{LadderTemplate, LadderWork};
use crate::messages::{Event, Step};
use crate::pyramid::{ConfigError, Declaration, Lever};
use crate::receipt::{self, Ran, Receipt, StepTaken};
use crate::report::{Ending, Report};
use crate::retire::{Retire, Retired};
use crate::run::Stopper;
use crate::settings::Settings;
use crate::store::Root;
use crate::store::examine::Examiner;
use crate::store::lease::LEASE_KEY;
use crate::store::manifest::Manifest;
use crate::store::records::Records;
use crate::store::template::ColumnTemplate;
use crate::time::{Clock, SystemClock};
use crate::upgrade::{Steps, Upgrade, UpgradeHandle, run_span};
use crate::verify::{Verification, Verify};
use crate::watch::{self, Watchers};
use crate::work::WorkSet;

/// The runbook of one store, not yet begun.
#[derive(Debug)]
pub struct Runbook {
    root: Root,
    settings: Settings,
    declare: Option<Declare>,
    retire: bool,
    receipt: bool,
    stopper: Stopper,
    clock: Arc<dyn Clock>,
    /// Shared by every step that writes.
    examiner: Examiner,
    watchers: Watchers,
    fleet: Option<Fleet>,
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
    /// The verification, when the ladder stands.
    pub verified: Option<Verification>,
    /// What was retired, when that was asked for and the store is clean.
    pub retired: Option<Retired>,
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

impl Account {
    /// Whether columns and ladder stand.
    fn stands(&self) -> bool {
        let ladder = self.report.ladder.as_ref();
        self.report.outcome == Ending::Done && ladder.is_some_and(|ladder| ladder.finished)
    }

    /// Whether the store was verified and nothing went wrong since.
    fn is_clean(&self) -> bool {
        let verified = self.verified.as_ref();
        self.report.outcome == Ending::Done && verified.is_some_and(Verification::is_clean)
    }

    fn push(&mut self, step: &str, outcome: Ending, started: Instant) {
        self.steps.push(StepTaken {
            step: step.to_owned(),
            outcome: outcome.as_str().to_owned(),
            seconds: started.elapsed().as_secs_f64(),
        });
    }

    fn fail(&mut self, step: &str, outcome: Ending, error: String, started: Instant) {
        self.push(step, outcome, started);
        self.end(outcome, Some(error));
    }

    fn end(&mut self, outcome: Ending, error: Option<String>) {
        self.report.outcome = outcome;
        self.report.exit_code = outcome.exit_code();
        self.report.error = error;
    }
}

impl Runbook {
    /// Prepares the runbook of the store at `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root: root.journaled(),
            settings: Settings::default(),
            declare: None,
            retire: false,
            receipt: false,
            stopper: Stopper::new(),
            clock: Arc::new(SystemClock::new()),
            examiner: Examiner::default(),
            watchers: Watchers::none(),
            fleet: None,
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

    /// Gives the work of the columns and the ladder to a fleet, under the lease of this run.
    pub fn fleet(mut self, fleet: Fleet) -> Self {
        self.fleet = Some(fleet);
        self
    }

    /// Deletes what the earlier pyramid left behind, once the store is verified.
    pub fn retire(mut self, retire: bool) -> Self {
        self.retire = retire;
        self
    }

    /// Writes a receipt also when nothing else was written.
    pub fn receipt(mut self, receipt: bool) -> Self {
        self.receipt = receipt;
        self
    }

    /// A way to stop the runbook while somebody else waits for its end.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// What happens from now on, until the runbook ends. A watcher that is behind loses the
    /// oldest events.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        self.watchers.stream()
    }

    /// Takes the steps, on a thread of its own. Dropping what this returns stops them, as
    /// [`Stopper::stop`] does.
    ///
    /// # Errors
    /// What refused the first step that did not end in an account of its own.
    pub async fn run(self) -> Result<Account, RunbookError> {
        let stopper = self.stopper();
        let left = move || stopper.stop("the one who started it, who has gone away");
        let steps = move || async move {
            let (span, watchers) = (run_span(&self.root), self.watchers.clone());
            let account = self.take_steps(&span).instrument(span.clone()).await;
            let outcome = match &account {
                Ok(account) => account.report.outcome,
                Err(error) => error.ending(),
            };
            watchers.announce(Event::Finished { outcome });
            account
        };
        apart("zagg-runbook", steps, left).await?
    }

    async fn take_steps(mut self, span: &Span) -> Result<Account, RunbookError> {
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
        let mut account = Account {
            report: self.upgrade(&mut steps, span).await?,
            declared,
            verified: None,
            retired: None,
            receipt: None,
            steps,
        };
        if account.stands() && !self.settings.dry_run {
            self.verify(&mut account).await;
        }
        if account.is_clean() && self.retire {
            self.retire_now(&mut account).await;
        }
        if account.is_clean() && (self.wrote() || self.receipt) {
            self.leave_receipt(&mut account, started_at, before).await;
        }
        Ok(account)
    }

    /// Verifies what stands, by the default sample of leaves. A stop leaves it undone.
    async fn verify(&self, account: &mut Account) {
        if let Some(verification) = account.report.verified.take() {
            let seconds = verification.seconds;
            return self.note_verified(account, verification, seconds);
        }
        let started = Instant::now();
        let verify = Verify::new(self.root.clone())
            .settings(self.settings.clone())
            .watched_by(self.watchers.clone());
        let verification = tokio::select! {
            verification = verify.run() => verification,
            by = self.stopper.stopped() => {
                let error = format!("stopped by {by}; run again to verify");
                return account.fail("verify", Ending::Interrupted, error, started);
            }
        };
        let verification = match verification {
            Ok(verification) => verification,
            Err(error) => {
                return account.fail("verify", error.ending(), error.to_string(), started);
            }
        };
        self.note_verified(account, verification, started.elapsed().as_secs_f64());
    }

    fn note_verified(&self, account: &mut Account, verification: Verification, seconds: f64) {
        account.steps.push(StepTaken {
            step: "verify".to_owned(),
            outcome: verification.outcome.as_str().to_owned(),
            seconds,
        });
        if !verification.is_clean() {
            let error = verification.error.clone().unwrap_or_else(|| {
                format!(
                    "verify has {} findings; `zagg-stream verify {}` shows them with their cures",
                    verification.n_findings,
                    self.root.url()
                )
            });
            account.end(verification.outcome, Some(error));
        }
        account.verified = Some(verification);
    }

    async fn retire_now(&self, account: &mut Account) {
        let Some(proof) = account.verified.as_ref().and_then(Verification::proof) else {
            return;
        };
        let started = Instant::now();
        let retire = Retire::new(self.root.clone())
            .settings(self.settings.clone())
            .watched_by(self.watchers.clone())
            .examined_by(self.examiner.clone())
            .delete(true)
            .verified(proof);
        let stop = retire.stop();
        let stopping = async {
            self.stopper.stopped().await;
            stop.stop();
            std::future::pending::<()>().await;
        };
        let retired = tokio::select! {
            retired = retire.run() => retired,
            () = stopping => return,
        };
        let retired = match retired {
            Ok(retired) => retired,
            Err(error) => {
                return account.fail("retire", error.ending(), error.to_string(), started);
            }
        };
        account.push("retire", retired.outcome, started);
        if !matches!(retired.outcome, Ending::Done | Ending::NothingToDo) {
            account.end(retired.outcome, retired.error.clone());
        }
        account.retired = Some(retired);
    }

    async fn leave_receipt(
        &self,
        account: &mut Account,
        started_at: String,
        before: receipt::Declared,
    ) {
        let ran = Ran {
            run_id: account.report.run_id.clone(),
            fold_law: self.settings.fold_law,
            started_at,
            finished_at: self.now(),
            before,
            steps: account.steps.clone(),
            stamps: std::mem::take(&mut account.report.stamps),
        };
        let written = self.write_receipt(ran);
        let written = watch::as_step(Step::Receipt, &self.watchers, &self.root, written);
        match written.await {
            Ok(key) => account.receipt = Some(key),
            Err(error) => account.report.warnings.push(format!(
                "no receipt was written, the store is complete without it: {error}; `zagg-stream upgrade {} --receipt` writes one",
                self.root.url()
            )),
        }
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
        let declare = declare.examined_by(self.examiner.clone());
        let declared = declare.dry_run(self.settings.dry_run).run();
        let declared = watch::as_step(Step::Declare, &self.watchers, &self.root, declared);
        let declared = declared.await?;
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
            verified: None,
            retired: None,
            receipt: None,
            steps,
        }
    }

    /// Columns and ladder, under one lease.
    async fn upgrade(&self, steps: &mut Vec<StepTaken>, span: &Span) -> Result<Report, Error> {
        let started = Instant::now();
        let handle = Upgrade::new(self.root.clone())
            .settings(self.settings.clone())
            .examined_by(self.examiner.clone())
            .steps(Steps::All)
            .worked_by(self.fleet.clone())
            .part_of(self.watchers.clone(), span.clone())
            .start()
            .await?;
        let report = self.until_stopped(handle).await?;
        let ladder = report.ladder.as_ref();
        let ladder_seconds = ladder.map_or(0.0, |ladder| ladder.seconds);
        let verify_seconds = report.verified.as_ref();
        let verify_seconds = verify_seconds.map_or(0.0, |verified| verified.seconds);
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
            started.elapsed().as_secs_f64() - ladder_seconds - verify_seconds,
        );
        if ladder.is_some() {
            push("ladder", report.outcome, ladder_seconds);
        }
        Ok(report)
    }

    /// Waits for the end of a run, which a stop brings about.
    async fn until_stopped(&self, handle: UpgradeHandle) -> Result<Report, Error> {
        let stop = handle.stop();
        let stopping = async {
            stop.abort(&self.stopper.stopped().await);
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
