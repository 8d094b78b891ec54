//! What a plan says, for people and for machines.

use std::ops::AddAssign;

use serde::Serialize;
use serde_json::{Map, Value};

use super::obstacle::{Bearing, Obstacle};
use crate::declare::Declared;
use crate::kernels::plan::FoldLaw;
use crate::pyramid::Regime;
use crate::report::{Counts, Ending, FailedLeaf, Verdicts};
use crate::store::{Examination, Tally};

/// PUTs of a conditional rewrite at most: a store that knows no condition, such as a local
/// disk, refuses the first.
pub(super) const REWRITE_PUTS: u64 = 2;

/// What a step asks of the store. Deletions are counted by key, listings by call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cost {
    /// Objects read, each counted once for every artifact that needs it.
    pub objects_read: u64,
    /// Objects written.
    pub objects_written: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// GET requests.
    pub get: u64,
    /// PUT requests; never fewer than will be made, but for the beats of the lease.
    pub put: u64,
    /// Keys deleted.
    pub delete: u64,
    /// LIST requests.
    pub list: u64,
}

impl Default for Cost {
    fn default() -> Self {
        Self::NONE
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.objects_read += other.objects_read;
        self.objects_written += other.objects_written;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.get += other.get;
        self.put += other.put;
        self.delete += other.delete;
        self.list += other.list;
    }
}

impl Cost {
    pub(super) const NONE: Self = Self {
        objects_read: 0,
        objects_written: 0,
        bytes_read: 0,
        bytes_written: 0,
        get: 0,
        put: 0,
        delete: 0,
        list: 0,
    };

    /// What was asked of a root between two tallies; a plan asks the same questions as the
    /// run it plans.
    pub(super) fn between(before: Tally, after: Tally) -> Self {
        let get = after.get + after.head - before.get - before.head;
        Self {
            objects_read: get,
            get,
            bytes_read: after.bytes_read - before.bytes_read,
            list: after.list - before.list,
            ..Self::default()
        }
    }

    /// One small object, read in one request.
    pub(super) fn read(bytes: u64) -> Self {
        Self {
            objects_read: 1,
            get: 1,
            bytes_read: bytes,
            ..Self::default()
        }
    }

    /// One small object, written in one request.
    pub(super) fn write(bytes: u64) -> Self {
        Self {
            objects_written: 1,
            put: 1,
            bytes_written: bytes,
            ..Self::default()
        }
    }

    /// Reading every object that this cost writes, and listing them.
    pub(super) fn read_back(self) -> Self {
        Self {
            objects_read: self.objects_written,
            get: self.objects_written,
            bytes_read: self.bytes_written,
            list: 1,
            ..Self::NONE
        }
    }

    /// This cost `of / sampled` times, rounded up.
    pub(super) fn scaled(self, of: u64, sampled: u64) -> Self {
        let scale = |count| scaled(count, of, sampled);
        Self {
            objects_read: scale(self.objects_read),
            objects_written: scale(self.objects_written),
            bytes_read: scale(self.bytes_read),
            bytes_written: scale(self.bytes_written),
            get: scale(self.get),
            put: scale(self.put),
            delete: scale(self.delete),
            list: scale(self.list),
        }
    }
}

/// `count · of / sampled`, rounded up; nothing where nothing was sampled.
pub(super) fn scaled(count: u64, of: u64, sampled: u64) -> u64 {
    let scaled = (u128::from(count) * u128::from(of)).div_ceil(u128::from(sampled.max(1)));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// One step of an upgrade.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlannedStep {
    /// Which step, and what it comes to.
    #[serde(flatten)]
    pub work: Work,
    /// What it asks of the store.
    pub cost: Cost,
}

/// The steps of an upgrade, in its order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Work {
    /// The declaration in the manifest.
    Declare(PlannedDeclaration),
    /// The columns of the leaves.
    Columns(PlannedColumns),
    /// The ladder above them.
    Ladder(PlannedLadder),
    /// Every artifact read back once. It is a command of its own, and not in the total.
    Verify(PlannedVerify),
}

/// The pyramid the other steps follow.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlannedDeclaration {
    /// Whether the manifest is to be rewritten.
    pub would_update: bool,
    /// The levels, as (node, cells).
    pub overviews: Value,
    /// Class of each field.
    pub fields: Map<String, Value>,
    /// What a dry declaration from the config said, when there is a config.
    pub declared: Option<Box<Declared>>,
}

/// What becomes of the leaves.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlannedColumns {
    /// Leaves by what they are now: `planned` are due.
    pub counts: Counts,
    /// Leaves that are due, by the reason.
    pub verdicts: Verdicts,
    /// The leaves that cannot be judged, up to a thousand.
    pub failed_leaves: Vec<FailedLeaf>,
    /// Leaves whose objects were listed; fewer than are due makes the cost an estimate.
    pub listed: u64,
}

/// What becomes of the ladder.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PlannedLadder {
    /// By level, finest nodes first.
    pub levels: Vec<PlannedLevel>,
    /// Whether coverage and manifest are to be written.
    pub finishes: bool,
    /// Why it will not be begun, when it will not.
    pub waits: Option<String>,
}

impl PlannedLadder {
    /// Artifacts due, over all levels.
    pub fn due(&self) -> u64 {
        self.levels.iter().map(|level| level.due).sum()
    }

    /// Artifacts current, over all levels.
    pub fn current(&self) -> u64 {
        self.levels.iter().map(|level| level.current).sum()
    }
}

/// Artifacts of one level: overviews, stage columns, overviews of all windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedLevel {
    /// Order of the level's nodes.
    pub order: u8,
    /// Order of the cells of their overviews.
    pub cells: u8,
    /// How the cells come from the columns below.
    pub regime: Regime,
    /// Artifacts to be written.
    pub due: u64,
    /// Artifacts that are current.
    pub current: u64,
    /// Artifacts without a column to fold from, which are not written.
    pub empty: u64,
}

/// What reading everything back would go through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlannedVerify {
    /// Columns that will stand.
    pub columns: u64,
    /// Artifacts of the ladder that will stand.
    pub artifacts: u64,
}

/// The most memory a run is expected to take for leaves, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PeakMemory {
    /// The memory budget: leaves encoded, decoded and as rows, and complete columns.
    pub budget: u64,
    /// The block of cells by which one leaf may overdraw it; estimated.
    pub block: u64,
    /// Columns under construction, which the budget does not count; estimated.
    pub columns: u64,
}

impl PeakMemory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.budget + self.block + self.columns
    }
}

/// What an upgrade would do, and what stands in its way.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Planned {
    /// Path or URL of the root.
    pub root: String,
    /// The exit code that goes with it.
    pub exit_code: u8,
    /// Whether an upgrade would be refused.
    pub is_blocked: bool,
    /// The law the columns would be folded by.
    pub fold_law: FoldLaw,
    /// The steps, as far as they can be planned.
    pub steps: Vec<PlannedStep>,
    /// What all steps but `verify` cost together.
    pub total: Cost,
    /// Peak memory, when there is anything to fold.
    pub memory: Option<PeakMemory>,
    /// What stands in the way, what blocks first.
    pub obstacles: Vec<Obstacle>,
    /// What the store can do, as far as reading tells; the rest is tried when a run begins.
    pub store: Option<Examination>,
}

impl Planned {
    pub(super) fn new(
        root: &str,
        fold_law: FoldLaw,
        steps: Vec<PlannedStep>,
        memory: Option<PeakMemory>,
        mut obstacles: Vec<Obstacle>,
    ) -> Self {
        obstacles.sort_by_key(|obstacle| obstacle.severity);
        let is_blocked = obstacles
            .iter()
            .any(|obstacle| obstacle.severity == Bearing::Blocking);
        let ending = match is_blocked {
            true => Ending::Refused,
            false => Ending::Done,
        };
        let mut total = Cost::default();
        for step in &steps {
            if !matches!(step.work, Work::Verify(_)) {
                total += step.cost;
            }
        }
        Self {
            root: root.to_owned(),
            exit_code: ending.exit_code(),
            is_blocked,
            fold_law,
            steps,
            total,
            memory,
            obstacles,
            store: None,
        }
    }

    /// The columns, when they could be planned.
    pub fn columns(&self) -> Option<&PlannedColumns> {
        self.steps.iter().find_map(|step| match &step.work {
            Work::Columns(columns) => Some(columns),
            _ => None,
        })
    }

    /// The ladder, when it could be planned.
    pub fn ladder(&self) -> Option<&PlannedLadder> {
        self.steps.iter().find_map(|step| match &step.work {
            Work::Ladder(ladder) => Some(ladder),
            _ => None,
        })
    }

    /// Whether an upgrade would write anything.
    pub fn is_anything_due(&self) -> bool {
        self.total.put > 0
    }
}
