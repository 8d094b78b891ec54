//! What a pass did, for people and for machines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::FaultKind;
use crate::kernels::plan::FoldLaw;
use crate::ladder::generation::SourceChildren;
use crate::messages::Reason;
use crate::pyramid::{Level, Regime};
use crate::settings::Settings;
use crate::store::root::Tally as Requests;
use crate::verify::Verification;

/// Failed leaves a report names one by one; the rest are only counted.
const MAX_NAMED_FAILURES: usize = 1000;

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Ending {
    /// Every leaf has a current column.
    Done,
    /// The store has no leaf to work on.
    NothingToDo,
    /// Some leaves failed, and every other one was attempted.
    Failed,
    /// The pass was not admitted: nothing was written.
    Refused,
    /// A store-wide fault stopped the pass.
    Aborted,
    /// The operator stopped the pass.
    Interrupted,
}

impl Ending {
    /// The name an operator sees.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NothingToDo => "nothing-to-do",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
        }
    }

    /// The exit code of the program.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Done | Self::NothingToDo => 0,
            Self::Failed => 1,
            Self::Refused => 3,
            Self::Aborted => 4,
            Self::Interrupted => 130,
        }
    }
}

/// Leaves by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Columns written.
    pub written: u64,
    /// Columns found current.
    pub current: u64,
    /// Work items without a committed leaf.
    pub empty: u64,
    /// Leaves that failed.
    pub failed: u64,
    /// Record rows passed over because they are not shards of this store.
    pub skipped: u64,
    /// Leaves whose turn did not come.
    pub not_attempted: u64,
    /// Columns a dry run found due.
    pub planned: u64,
}

impl Counts {
    /// Whether leaves failed and no other one came to a good end.
    pub(crate) fn nothing_worked(&self) -> bool {
        self.failed > 0 && self.written + self.current + self.planned == 0
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.written += other.written;
        self.current += other.current;
        self.empty += other.empty;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.not_attempted += other.not_attempted;
        self.planned += other.planned;
    }
}

/// How far a step had come when it was stopped. What is under way then is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SoFar {
    /// What is counted: leaves, or artifacts of the ladder.
    pub what: &'static str,
    /// Written by this run.
    pub written: u64,
    /// Found current.
    pub current: u64,
    /// Failed.
    pub failed: u64,
    /// Without an outcome.
    pub left: u64,
}

impl std::fmt::Display for SoFar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            what,
            written,
            current,
            failed,
            left,
        } = self;
        write!(
            f,
            "of the {what}, {written} were written, {current} current, {failed} failed and {left} are left"
        )
    }
}

/// Leaves that were due, by the reason; every reason is there, also with none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verdicts(BTreeMap<Reason, u64>);

impl Default for Verdicts {
    fn default() -> Self {
        Self(Reason::ALL.map(|reason| (reason, 0)).into())
    }
}

impl Verdicts {
    /// Leaves due for this reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0.get(&reason).copied().unwrap_or(0)
    }

    pub(crate) fn count(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (reason, count) in &other.0 {
            *self.0.entry(*reason).or_default() += count;
        }
    }
}

/// Bytes of leaves and columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Received from the store, metadata and all.
    pub read: u64,
    /// Of the columns written.
    pub written: u64,
}

/// Where the time of a pass went: seconds of each stage, summed over the leaves that were
/// written. Stages of different leaves overlap, so the sum exceeds the wall clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StageSeconds {
    /// Waiting for the store's answers to reads.
    pub read: f64,
    /// Decompressing and decoding chunks.
    pub decode: f64,
    /// Sorting, merging and compressing digests, and the other folds.
    pub fold: f64,
    /// Compressing, encoding and hashing the column.
    pub encode: f64,
    /// Waiting for the store's answers to writes.
    pub write: f64,
}

impl std::ops::AddAssign for StageSeconds {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.decode += other.decode;
        self.fold += other.fold;
        self.encode += other.encode;
        self.write += other.write;
    }
}

/// One failed leaf.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedLeaf {
    /// Path of the leaf below the root.
    pub leaf: String,
    /// The array the fault is about, when it is one.
    pub array: Option<String>,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// What is wrong and what to do.
    pub error: String,
}

/// What the supervisor counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub counts: Counts,
    pub reasons: Verdicts,
    pub failed_leaves: Vec<FailedLeaf>,
    pub bytes_of_columns: u64,
    pub stages: StageSeconds,
    pub warnings: Vec<String>,
}

impl Tally {
    /// Counts a failure, and names it while there are not too many.
    pub(crate) fn push_failure(&mut self, failure: FailedLeaf) {
        self.counts.failed += 1;
        if self.failed_leaves.len() < MAX_NAMED_FAILURES {
            self.failed_leaves.push(failure);
        }
    }
}

/// What became of one level of the ladder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LevelReport {
    /// Order of the level's nodes.
    pub order: u8,
    /// Order of the cells of their overviews.
    pub cells: u8,
    /// How the cells come from the columns below.
    pub regime: Regime,
    /// Artifacts written: overviews, stage columns, overviews of all windows.
    pub written: u64,
    /// Artifacts found current.
    pub current: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Columns the overviews were folded from, summed over nodes and windows.
    pub source_children: SourceChildren,
}

impl LevelReport {
    pub(crate) fn new(level: &Level) -> Self {
        Self {
            order: level.order,
            cells: level.cells,
            regime: level.regime,
            written: 0,
            current: 0,
            bytes_written: 0,
            source_children: SourceChildren::default(),
        }
    }

    /// Adds what became of the same level elsewhere.
    pub(crate) fn add(&mut self, other: &Self) {
        self.written += other.written;
        self.current += other.current;
        self.bytes_written += other.bytes_written;
        self.source_children += other.source_children;
    }
}

/// The account of a ladder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LadderReport {
    /// Artifacts by outcome.
    pub counts: Counts,
    /// Artifacts that were due, by the reason.
    pub verdicts: Verdicts,
    /// The artifacts that failed, up to a thousand.
    pub failed: Vec<FailedLeaf>,
    /// By level, finest nodes first.
    pub levels: Vec<LevelReport>,
    /// Bytes of the artifacts written.
    pub bytes_written: u64,
    /// Whether coverage and manifest say what was built.
    pub finished: bool,
    /// Key of the record of the sweep, when one was written.
    pub record: Option<String>,
    /// Seconds by stage, summed over the artifacts written.
    pub stage_seconds: StageSeconds,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// The account of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// Path or URL of the root.
    pub root: String,
    /// How the pass ended.
    pub outcome: Ending,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// The id of this run, as in the lease.
    pub run_id: String,
    /// The law the columns were folded by.
    pub fold_law: FoldLaw,
    /// Whether nothing was to be written.
    pub dry_run: bool,
    /// Leaves by outcome.
    pub counts: Counts,
    /// Leaves that were due, by the reason.
    pub verdicts: Verdicts,
    /// The leaves that failed, up to a thousand.
    pub failed_leaves: Vec<FailedLeaf>,
    /// Requests by class, retries included.
    pub requests: Requests,
    /// Bytes moved.
    pub bytes: Bytes,
    /// The most bytes of leaves that were in flight at once.
    pub peak_in_flight_bytes: u64,
    /// Wall-clock seconds from admission to the end.
    pub seconds: f64,
    /// Seconds by stage.
    pub stage_seconds: StageSeconds,
    /// The ladder, when the run got that far.
    pub ladder: Option<LadderReport>,
    /// The stamps of the committed leaves as they were when their turn came, by path.
    #[serde(skip)]
    pub(crate) stamps: BTreeMap<String, Value>,
    /// What came of verifying, when the workers of a fleet did that.
    #[serde(skip)]
    pub(crate) verified: Option<Verification>,
    /// What an operator should know although it stopped nothing.
    pub warnings: Vec<String>,
    /// Why the pass ended early, or was not admitted.
    pub error: Option<String>,
}

impl Report {
    /// The account of a pass that did nothing.
    pub(crate) fn blank(root: &str, settings: &Settings) -> Self {
        Self {
            root: root.to_owned(),
            outcome: Ending::NothingToDo,
            exit_code: Ending::NothingToDo.exit_code(),
            run_id: String::new(),
            fold_law: settings.fold_law,
            dry_run: settings.dry_run,
            counts: Counts::default(),
            verdicts: Verdicts::default(),
            failed_leaves: Vec::new(),
            requests: Requests::default(),
            bytes: Bytes::default(),
            peak_in_flight_bytes: 0,
            seconds: 0.0,
            stage_seconds: StageSeconds::default(),
            ladder: None,
            stamps: BTreeMap::new(),
            verified: None,
            warnings: Vec::new(),
            error: None,
        }
    }

    /// The account of a pass that was not admitted.
    pub(crate) fn refused(
        root: &str,
        settings: &Settings,
        outcome: Ending,
        error: &dyn std::error::Error,
    ) -> Self {
        Self {
            outcome,
            exit_code: outcome.exit_code(),
            error: Some(error.to_string()),
            ..Self::blank(root, settings)
        }
    }
}
