//! What a verification came to.

use serde::{Deserialize, Serialize};

use super::finding::{Collected, Finding, in_order};
use crate::error::LeafFault;
use crate::kernels::plan::FoldLaw;
use crate::report::Ending;
use crate::retire::CleanVerify;
use crate::store::Tally;

/// What a verification came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Verification {
    /// How it ended: `done` without a finding, `failed` with some.
    pub outcome: Ending,
    /// The exit code of the program.
    pub exit_code: u8,
    /// The store.
    pub root: String,
    /// The law the columns were held against.
    pub fold_law: FoldLaw,
    /// Leaves the run records name.
    pub leaves: u64,
    /// How many of them are not committed.
    pub uncommitted: u64,
    /// Artifacts that were checked.
    pub artifacts: Artifacts,
    /// Artifacts that were folded anew.
    pub refolded: Refolded,
    /// Artifacts of the ladder that were not held against the columns below them, because
    /// those have findings of their own.
    pub unjudged: u64,
    /// How many findings there are.
    pub n_findings: u64,
    /// How many warnings there are.
    pub n_warnings: u64,
    /// The first findings, by path.
    pub findings: Vec<Finding>,
    /// The first warnings, by path.
    pub warnings: Vec<Finding>,
    /// Bytes received.
    pub bytes_read: u64,
    /// What was asked of the store.
    pub requests: Tally,
    /// Wall clock, in seconds.
    pub seconds: f64,
    /// The request that failed for good, when one did: the store was then not verified.
    pub error: Option<String>,
}

/// Artifacts by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifacts {
    /// Columns of committed leaves.
    pub leaf_columns: u64,
    /// Columns of stages.
    pub stage_columns: u64,
    /// Overviews.
    pub overviews: u64,
}

/// Artifacts folded anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refolded {
    /// Columns from their leaves.
    pub leaf_columns: u64,
    /// Artifacts of the ladder from the columns below them.
    pub ladder: u64,
}

impl Verification {
    /// Whether the whole store was looked at and nothing was found; warnings are nothing.
    pub fn is_clean(&self) -> bool {
        self.n_findings == 0 && self.error.is_none()
    }

    /// The proof that a retirement asks for; `None` unless the store is clean and holds
    /// leaves.
    pub fn proof(&self) -> Option<CleanVerify> {
        (self.is_clean() && self.leaves > 0).then(|| CleanVerify::of(&self.root))
    }

    pub(super) fn take(&mut self, collected: Collected) {
        self.n_findings = collected.n_findings;
        self.n_warnings = collected.n_warnings;
        self.findings = collected.findings;
        self.warnings = collected.warnings;
        if self.n_findings > 0 {
            self.end(Ending::Failed);
        }
    }

    /// Adds what came of other artifacts of the store.
    pub(super) fn add(&mut self, other: Self) {
        self.leaves += other.leaves;
        self.uncommitted += other.uncommitted;
        self.artifacts.leaf_columns += other.artifacts.leaf_columns;
        self.artifacts.stage_columns += other.artifacts.stage_columns;
        self.artifacts.overviews += other.artifacts.overviews;
        self.refolded.leaf_columns += other.refolded.leaf_columns;
        self.refolded.ladder += other.refolded.ladder;
        self.unjudged += other.unjudged;
        self.requests += other.requests;
        self.bytes_read += other.bytes_read;
        self.n_findings += other.n_findings;
        self.n_warnings += other.n_warnings;
        self.findings.extend(other.findings);
        self.warnings.extend(other.warnings);
        in_order(&mut self.findings);
        in_order(&mut self.warnings);
        if self.n_findings > 0 {
            self.end(Ending::Failed);
        }
    }

    pub(super) fn abort(&mut self, fault: &LeafFault) {
        self.error = Some(format!(
            "the store could not be read to the end ({}): {fault}; mend that and verify again",
            fault.kind()
        ));
        self.end(Ending::Aborted);
    }

    pub(super) fn end(&mut self, outcome: Ending) {
        self.outcome = outcome;
        self.exit_code = outcome.exit_code();
    }
}
