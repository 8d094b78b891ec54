//! What was retired, or would be, for people and for machines.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub};

use serde::Serialize;

use super::RetireError;
use super::classify::{Kept, Place};
use super::scan::Scan;
use crate::report::Ending;
use crate::store::Root;
use crate::store::root::Entry;

/// Objects and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Extent {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            objects: 1,
            bytes: entry.size,
        }
    }
}

impl AddAssign for Extent {
    fn add_assign(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
    }
}

impl Sub for Extent {
    type Output = Self;

    /// What has gone; never below nothing, as when somebody has written meanwhile.
    fn sub(self, left: Self) -> Self {
        Self {
            objects: self.objects.saturating_sub(left.objects),
            bytes: self.bytes.saturating_sub(left.bytes),
        }
    }
}

/// Artifacts, their objects and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Total {
    /// Number of artifacts.
    pub artifacts: u64,
    /// Their objects, sidecars included.
    #[serde(flatten)]
    pub extent: Extent,
}

impl Total {
    fn add(&mut self, artifacts: u64, extent: Extent) {
        self.artifacts += artifacts;
        self.extent += extent;
    }
}

/// An artifact that is to go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RetiredArtifact {
    /// Its path below the root.
    pub path: String,
    /// What there is of it, its sidecar included.
    pub found: Extent,
    /// Whether it has a sidecar.
    pub sidecar: bool,
    /// Why it may go.
    pub why: String,
    /// What a listing made afterwards still found; `None` when its turn did not come, or
    /// what is left could not be listed.
    pub left: Option<Extent>,
    /// Where it stands.
    #[serde(skip)]
    pub(super) place: Place,
}

/// An artifact that stays and that not every store has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeptArtifact {
    /// Its path below the root.
    pub path: String,
    /// Why it stays.
    pub reason: Kept,
    /// The same with what was found.
    pub why: String,
}

/// What was retired, or would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Retired {
    /// The root.
    pub root: String,
    /// How it ended.
    pub outcome: Ending,
    /// The exit code of the program.
    pub exit_code: u8,
    /// Whether deletion was asked for.
    pub deletion: bool,
    /// Ancestor nodes looked at.
    pub nodes: u64,
    /// What is to go, or went.
    pub artifacts: Vec<RetiredArtifact>,
    /// All of that.
    pub listed: Total,
    /// What went, by a listing made afterwards.
    pub deleted: Total,
    /// How many artifacts stay, by the reason.
    pub kept: BTreeMap<Kept, u64>,
    /// Those of them that not every store has, up to a thousand.
    pub kept_artifacts: Vec<KeptArtifact>,
    /// What an operator should know.
    pub warnings: Vec<String>,
    /// What would refuse the deletion of what is listed, as far as listing tells.
    pub refusals: Vec<String>,
    /// Why it ended before its end.
    pub error: Option<String>,
}

impl Retired {
    fn new(root: &Root, scan: Scan, warnings: Vec<String>) -> Self {
        Self {
            root: root.url().to_owned(),
            outcome: Ending::Done,
            exit_code: Ending::Done.exit_code(),
            deletion: false,
            nodes: scan.nodes,
            artifacts: scan.artifacts,
            listed: Total::default(),
            deleted: Total::default(),
            kept: scan.kept,
            kept_artifacts: scan.named,
            warnings,
            refusals: Vec::new(),
            error: None,
        }
    }

    /// A listing, and what would refuse the deletion.
    pub(super) fn listed(
        root: &Root,
        scan: Scan,
        warnings: Vec<String>,
        refusals: Vec<RetireError>,
    ) -> Self {
        let mut retired = Self::new(root, scan, warnings);
        retired.refusals = refusals.iter().map(RetireError::to_string).collect();
        let error = retired.refusals.first().cloned();
        let ending = match &error {
            Some(_) => Ending::Refused,
            None if retired.artifacts.is_empty() => Ending::NothingToDo,
            None => Ending::Done,
        };
        retired.ended(ending, error)
    }

    /// A deletion that begins.
    pub(super) fn begun(root: &Root, scan: Scan, warnings: Vec<String>) -> Self {
        Self {
            deletion: true,
            ..Self::new(root, scan, warnings)
        }
    }

    /// Counts an artifact as kept that was to go when it was listed.
    pub(super) fn keep(&mut self, kept: KeptArtifact) {
        tracing::warn!(
            path = kept.path,
            "kept, changed since it was listed: {}",
            kept.why
        );
        *self.kept.entry(kept.reason).or_default() += 1;
        self.kept_artifacts.push(kept);
    }

    /// How a deletion ended that was stopped by nothing: by what is left of what it deleted.
    pub(super) fn counted(self) -> Self {
        let left: u64 = self
            .artifacts
            .iter()
            .filter_map(|artifact| artifact.left)
            .map(|left| left.objects)
            .sum();
        if left == 0 {
            return self.ended(Ending::Done, None);
        }
        let error = format!(
            "{left} objects of what was deleted are there still or again, see `left` of each artifact; \
             somebody else may be writing there, find out who, then run again"
        );
        self.ended(Ending::Failed, Some(error))
    }

    /// With its ending, and with what was listed and what went added up.
    pub(super) fn ended(mut self, outcome: Ending, error: Option<String>) -> Self {
        for artifact in &self.artifacts {
            self.listed.add(1, artifact.found);
            if let Some(left) = artifact.left {
                self.deleted
                    .add(u64::from(left.objects == 0), artifact.found - left);
            }
        }
        self.outcome = outcome;
        self.exit_code = outcome.exit_code();
        self.error = error;
        self
    }
}
