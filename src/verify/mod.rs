//! Holds a store against its own laws, and writes nothing: the declaration, every column
//! and every artifact of the ladder, their hashes, what folds must keep, and the folds
//! themselves.
//!
//! In: a root. Out: a [`Verification`]. `format.md` sections 5 to 9.

mod column;
mod contents;
mod finding;
mod ladder;
mod leaf;
mod manifest;
mod nodes;
mod part;
mod report;
mod structure;
mod survey;
mod tally;
mod verifier;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub use finding::{Check, Finding, Severity};
pub(crate) use part::{PartVerified, default_sample};
pub use report::{Artifacts, Refolded, Verification};

use crate::error::{Error, FaultKind, LeafFault};
use crate::kernels::plan::FoldLaw;
use crate::kernels::words::WordError;
use crate::ladder::{Ladder, LadderWork};
use crate::messages::LeafRef;
use crate::pyramid::Declaration;
use crate::report::Ending;
use crate::run::Run;
use crate::settings::Settings;
use crate::store::lease::{self, LEASE_KEY};
use crate::store::manifest::Manifest;
use crate::store::records::Records;
use crate::store::template::ColumnTemplate;
use crate::store::{Root, Tally};
use crate::time::SystemClock;
use crate::watch::Watchers;
use crate::work::WorkSet;
use finding::Collected;
use survey::{Sample, Survey};
use verifier::Verifier;

/// Leaves that are folded anew when no number is given.
pub(crate) const DEFAULT_SAMPLE: u64 = 8;

/// A verification of one store, not yet begun.
#[derive(Debug)]
pub struct Verify {
    root: Root,
    settings: Settings,
    leaves: Leaves,
    seed: u64,
    watchers: Watchers,
}

/// Leaves whose columns are folded anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    All,
    Some(u64),
}

/// The warning that another run holds the lease.
///
/// # Errors
/// Failed requests.
async fn under_way(root: &Root) -> Result<Option<Finding>, Error> {
    match lease::refuse_if_live(root, &SystemClock::new()).await {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == FaultKind::LeaseRefused => {
            let what = format!("is held, so what is found may be work under way: {error}");
            let cure = "verify again when that run has ended";
            Ok(Some(
                Finding::new(Check::Lease, LEASE_KEY, &what, cure).warning(),
            ))
        }
        Err(error) => Err(error.into()),
    }
}

impl Verify {
    /// Prepares a verification of the store at `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            settings: Settings::default(),
            leaves: Leaves::Some(DEFAULT_SAMPLE),
            seed: 0,
            watchers: Watchers::none(),
        }
    }

    /// Replaces the default settings, of which the fold law, the bounds and the retries
    /// matter here.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Folds every leaf anew, not only a sample.
    pub fn full(mut self) -> Self {
        self.leaves = Leaves::All;
        self
    }

    /// Folds so many leaves anew.
    pub fn sample(mut self, n_leaves: u64) -> Self {
        self.leaves = Leaves::Some(n_leaves);
        self
    }

    /// Chooses another sample; the same seed chooses the same leaves.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Makes it a part of something that is watched as a whole.
    pub(crate) fn watched_by(mut self, watchers: Watchers) -> Self {
        self.watchers = watchers;
        self
    }

    /// Verifies the store, on the runtime of the caller. What is wrong with the store is
    /// a finding; a request that failed for good ends the verification, whose
    /// [`Verification::error`] then says so.
    ///
    /// # Errors
    /// Whatever keeps it from being begun: no manifest, unreadable roots.
    pub async fn run(self) -> Result<Verification, Error> {
        let root = self.watchers.at_work(&self.root, &self.settings);
        // A root counts for all who were given it, as in an upgrade.
        let before = root.tally();
        let mut verification = self.all(root.clone()).await?;
        verification.requests = root.tally().since(before);
        verification.bytes_read = verification.requests.bytes_read;
        Ok(verification)
    }

    async fn all(self, root: Root) -> Result<Verification, Error> {
        let started = Instant::now();
        let manifest = Manifest::read(&root).await?;
        let (templates, ladder) = match self.templates(&root, &manifest) {
            Ok(templates) => templates,
            Err(Error::Declaration(error)) => {
                let mut verification = self.blank(&root, started);
                verification.take(Collected::of(manifest::unsound(&error)));
                return Ok(verification);
            }
            Err(error) => return Err(error),
        };
        let records = Records::read(&root, &manifest).await?;
        for warning in &records.warnings {
            tracing::warn!("{warning}");
        }
        let work = WorkSet::new(&records)?;
        let work = LadderWork::new(&work, &root).await?;
        let verifier = Verifier::new(Arc::new(ladder));
        if let Some(finding) = under_way(&root).await? {
            verifier.findings.add(finding);
        }
        for finding in manifest::check(&manifest) {
            verifier.findings.add(finding);
        }
        let survey = Survey {
            verifier: &verifier,
            other_law: &templates,
            sample: self.sample_of(&work)?,
            work: &work,
        };
        let surveyed = verifier.watched.during(survey.all()).await;
        if surveyed.as_ref().is_ok_and(|surveyed| surveyed.all_judged) {
            let is_whole = verifier.findings.count() == 0;
            manifest::check_actuals(&verifier, &manifest, is_whole);
        }
        Ok(self.verification(&verifier, surveyed, started))
    }

    fn sample_of(&self, work: &LadderWork) -> Result<Sample, WordError> {
        let Leaves::Some(n_leaves) = self.leaves else {
            return Ok(Sample::All);
        };
        let leaves: Vec<LeafRef> = work.leaves().collect::<Result<_, _>>()?;
        Ok(Sample::of(&leaves, n_leaves, self.seed))
    }

    /// The template of the other fold law, and the ladder above columns of this one.
    fn templates(
        &self,
        root: &Root,
        manifest: &Manifest,
    ) -> Result<(ColumnTemplate, Ladder), Error> {
        let declaration = Declaration::parse(
            manifest.pyramid(),
            manifest.shard_order(),
            manifest.cell_order(),
        )?;
        let windowed = manifest.is_windowed();
        let law = self.settings.fold_law;
        let other = match law {
            FoldLaw::Boundary => FoldLaw::Raw,
            FoldLaw::Raw => FoldLaw::Boundary,
        };
        let other = ColumnTemplate::new(declaration.clone(), other, windowed)?;
        let template = ColumnTemplate::new(declaration, law, windowed)?;
        let settings = Settings {
            dry_run: true,
            ..self.settings.clone()
        };
        let clock = Arc::new(SystemClock::new());
        let run = Run::new(
            root.clone(),
            settings,
            String::new(),
            clock,
            self.watchers.clone(),
        );
        Ok((other, Ladder::new(Arc::new(run), Arc::new(template))?))
    }

    fn blank(&self, root: &Root, started: Instant) -> Verification {
        Verification {
            outcome: Ending::Done,
            exit_code: Ending::Done.exit_code(),
            root: root.url().to_owned(),
            fold_law: self.settings.fold_law,
            leaves: 0,
            uncommitted: 0,
            artifacts: Artifacts::default(),
            refolded: Refolded::default(),
            unjudged: 0,
            n_findings: 0,
            n_warnings: 0,
            findings: Vec::new(),
            warnings: Vec::new(),
            bytes_read: 0,
            requests: Tally::default(),
            seconds: started.elapsed().as_secs_f64(),
            error: None,
        }
    }

    fn verification(
        &self,
        verifier: &Verifier,
        surveyed: Result<survey::Surveyed, LeafFault>,
        started: Instant,
    ) -> Verification {
        let (done, root) = (&verifier.done, &verifier.ladder.run.root);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut verification = Verification {
            artifacts: Artifacts {
                leaf_columns: count(&done.leaf_columns),
                stage_columns: count(&done.stage_columns),
                overviews: count(&done.overviews),
            },
            refolded: Refolded {
                leaf_columns: count(&done.refolded_columns),
                ladder: count(&done.refolded_artifacts),
            },
            unjudged: count(&done.unjudged),
            ..self.blank(root, started)
        };
        verification.take(verifier.findings.take());
        match surveyed {
            Ok(surveyed) => {
                verification.leaves = surveyed.n_leaves;
                verification.uncommitted = surveyed.n_uncommitted;
                if surveyed.n_leaves == 0 && verification.is_clean() {
                    verification.end(Ending::NothingToDo);
                }
            }
            Err(fault) => verification.abort(&fault),
        }
        verification
    }
}
