//! What a verification found: one finding for each thing that is not as it must be.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{FaultKind, LeafFault};
use crate::messages::LeafRef;
use crate::store::artifact::{Artifact, Tier};
use crate::store::leaf_error::LeafProblem;

/// Findings, and as many warnings, that a verification names one by one; the rest are
/// only counted.
const MAX_NAMED: usize = 1000;

/// What was checked. The name in a report is stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Check {
    /// The manifest declares a pyramid and a ladder that can be followed.
    Declaration,
    /// `multiscales` is the mirror of the declaration.
    Multiscales,
    /// The manifest names the configuration of the store.
    SemanticHash,
    /// The manifest's `actuals` are what stands.
    Actuals,
    /// The columns are of the fold law that was asked for.
    FoldLaw,
    /// No other run writes to the store meanwhile.
    Lease,
    /// Every leaf of the run records is committed.
    Uncommitted,
    /// A leaf can be read.
    Leaf,
    /// A declared artifact stands and is stamped.
    Missing,
    /// An artifact says that it is of the node it stands under.
    Foreign,
    /// An artifact records this declaration.
    DeclarationDrift,
    /// An artifact was made from what it stands on as that is now.
    Stale,
    /// Columns that could not be read, or were not there, when an artifact was made.
    SourceChildren,
    /// A column was made when its leaf held as many granules as it does now.
    GranuleDrift,
    /// Groups and arrays are those of the declaration.
    StructureDrift,
    /// Nothing else lies within an artifact.
    StrayObject,
    /// No other artifact stands at a node.
    StrayArtifact,
    /// What is left of an earlier pyramid.
    Retire,
    /// Every chunk decodes.
    Chunk,
    /// The cell words are the node's.
    Words,
    /// The stamp's hashes are those of the decoded arrays.
    ContentHash,
    /// The record's hash is that of the overview's cells.
    OverviewHash,
    /// The other members of the stamp are as the sources and the cells have it.
    Stamp,
    /// The sidecar says what the stamp says.
    Sidecar,
    /// Sums and extremes are those of the source.
    Conservation,
    /// The weights of digests add up to the source's.
    Weights,
    /// The cells are those a new fold of the source makes.
    Refold,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something is not as it must be.
    Finding,
    /// Something an operator may want to know.
    Warning,
}

/// One thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What was checked.
    pub check: Check,
    /// How much it matters.
    pub severity: Severity,
    /// Path of the artifact below the root, or key of the object at the root.
    pub path: String,
    /// The object, when it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Path of the leaf below the root, when the artifact is a leaf's column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf: Option<String>,
    /// Path of the array below the artifact, when it is one array's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// What is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// What was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub got: Option<Value>,
    /// What is wrong, and what to type next.
    pub message: String,
}

impl Finding {
    /// A finding about what stands at `path`; `what` is the sentence, `cure` what to do.
    pub(super) fn new(check: Check, path: &str, what: &str, cure: &str) -> Self {
        Self {
            check,
            severity: Severity::Finding,
            path: path.to_owned(),
            key: None,
            leaf: None,
            array: None,
            expected: None,
            got: None,
            message: format!("`{path}` {what}; {cure}"),
        }
    }

    /// The same as a warning.
    pub(super) fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The same of one object.
    pub(super) fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same of one array.
    pub(super) fn array(mut self, array: &str) -> Self {
        self.array = Some(array.to_owned());
        self
    }

    /// The same with what was due and what was found; null for what is not there.
    pub(super) fn differs(mut self, expected: Option<Value>, got: Option<Value>) -> Self {
        self.expected = Some(expected.unwrap_or_default());
        self.got = Some(got.unwrap_or_default());
        self
    }
}

/// Whose finding it is: the artifact, its leaf, and how it is mended.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// Path of the artifact below the root.
    pub path: String,
    leaf: Option<String>,
    cure: String,
}

impl Subject {
    /// The column of a leaf.
    pub(super) fn column(leaf: &LeafRef) -> Self {
        Self {
            path: leaf.column_path(),
            leaf: Some(leaf.path()),
            cure: format!(
                "run `zagg-stream backfill ROOT --shards={} --force`, then `zagg-stream sweep ROOT`",
                leaf.id
            ),
        }
    }

    /// An artifact of the ladder.
    pub(super) fn of_ladder(artifact: &Artifact) -> Self {
        let what = match artifact.tier {
            Tier::Column => "and those above it ",
            Tier::Overview => "",
        };
        Self {
            path: artifact.path(),
            leaf: None,
            cure: format!("run `zagg-stream sweep ROOT --force`, which writes it {what}anew"),
        }
    }

    /// A finding about it.
    pub(super) fn finding(&self, check: Check, what: &str) -> Finding {
        let mut finding = Finding::new(check, &self.path, what, &self.cure);
        finding.leaf = self.leaf.clone();
        finding
    }

    /// What a fault of reading it says of it.
    ///
    /// # Errors
    /// The fault, when it says nothing of the artifact: what could not be read is not
    /// missing.
    pub(super) fn damage(&self, fault: LeafFault) -> Result<Finding, LeafFault> {
        let LeafFault::Leaf(error) = &fault else {
            return Err(fault);
        };
        let says_something = matches!(
            error.kind(),
            FaultKind::CorruptLeaf | FaultKind::Declaration | FaultKind::NotFound
        );
        if !says_something {
            return Err(fault);
        }
        let text = error.problem.to_string();
        // The rest is how a leaf is mended.
        let what = text.split("; ").next().unwrap_or_default();
        let named = error
            .array()
            .map_or(String::new(), |array| format!(", array `{array}`"));
        let mut finding = self.finding(Check::Chunk, &format!("cannot be read{named}: {what}"));
        finding.array = error.array().map(str::to_owned);
        finding.key = match &*error.problem {
            LeafProblem::Chunk { object, .. } | LeafProblem::ShardIndex { object, .. } => {
                Some(object.clone())
            }
            LeafProblem::Store(error) => Some(error.key.clone()),
            _ => None,
        };
        Ok(finding)
    }
}

impl Collected {
    /// Of one finding.
    pub(super) fn of(finding: Finding) -> Self {
        Self {
            findings: vec![finding],
            n_findings: 1,
            ..Self::default()
        }
    }
}

/// Findings as they come, from any thread.
#[derive(Debug, Default)]
pub(super) struct Findings(Mutex<Collected>);

/// What was found, and how often.
#[derive(Debug, Default, Clone)]
pub(super) struct Collected {
    /// The first findings.
    pub findings: Vec<Finding>,
    /// The first warnings.
    pub warnings: Vec<Finding>,
    /// How many findings there were.
    pub n_findings: u64,
    /// How many warnings there were.
    pub n_warnings: u64,
    /// How many findings there were at each path.
    at: HashMap<String, u64>,
}

/// Puts findings in order, by path and check, and keeps as many as are named.
pub(super) fn in_order(named: &mut Vec<Finding>) {
    named.sort_by(|a, b| (&a.path, a.check, &a.array).cmp(&(&b.path, b.check, &b.array)));
    named.truncate(MAX_NAMED);
}

impl Findings {
    /// Takes a finding.
    pub(super) fn add(&self, finding: Finding) {
        let mut collected = self.lock();
        let Collected {
            findings,
            warnings,
            n_findings,
            n_warnings,
            at,
        } = &mut *collected;
        let (named, count) = match finding.severity {
            Severity::Finding => {
                *at.entry(finding.path.clone()).or_default() += 1;
                (findings, n_findings)
            }
            Severity::Warning => (warnings, n_warnings),
        };
        *count += 1;
        if named.len() < MAX_NAMED {
            named.push(finding);
        }
    }

    /// How many findings there are so far; warnings are none.
    pub(super) fn count(&self) -> u64 {
        self.lock().n_findings
    }

    /// Whether nothing was found at this path; warnings are nothing.
    pub(super) fn none_at(&self, path: &str) -> bool {
        !self.lock().at.contains_key(path)
    }

    /// Everything, by path and check.
    pub(super) fn take(&self) -> Collected {
        let mut collected = std::mem::take(&mut *self.lock());
        for named in [&mut collected.findings, &mut collected.warnings] {
            in_order(named);
        }
        collected
    }

    /// The counts stay right when a holder panics, so a poisoned lock is no fault.
    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
