//! What came of a command, for people and for machines.

use serde::Serialize;

use super::fetch::Offending;
use super::finding::Finding;
use super::orbit::Orbit;
use crate::report::Ending;
use crate::store::Tally;

/// Objects and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Extent {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Extent {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// What every command says of how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The cube as it was given; of a pull and a push the remote one.
    pub root: String,
    /// How it ended.
    pub outcome: Ending,
    /// The exit code of the program.
    pub exit_code: u8,
    /// Why it ended before its end.
    pub error: Option<String>,
    /// What was asked of the cube.
    pub requests: Tally,
    /// How long it took.
    pub seconds: f64,
}

/// A cube held against the rules of its layout.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Checked {
    /// How it ended.
    #[serde(flatten)]
    pub ended: Outcome,
    /// All its objects.
    pub total: Extent,
    /// Its orbits.
    pub orbits: Vec<Orbit>,
    /// What is wrong, and what is worth knowing.
    pub findings: Vec<Finding>,
    /// Paths of the groups that have consolidated metadata; empty for the root.
    pub consolidated: Vec<String>,
    /// Keys of the objects that belong to no Zarr v3 node.
    pub foreign: Vec<String>,
    /// Whether an append after a minimal fetch is safe.
    pub minimal_fetch_is_safe: bool,
    /// The arrays for which it is not.
    pub offending: Vec<Offending>,
}

/// What a heal did, or would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Healed {
    /// How it ended; refused when an orbit was, whatever became of the others.
    #[serde(flatten)]
    pub ended: Outcome,
    /// Whether nothing was to be written.
    pub dry_run: bool,
    /// Paths of the levels that got `time`, or would.
    pub healed: Vec<String>,
    /// Keys that were written and not there before, in the order of the plan.
    pub added: Vec<String>,
    /// Keys that were rewritten.
    pub rewritten: Vec<String>,
    /// What stands in the way.
    pub refusals: Vec<Finding>,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

/// What a pull transferred.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pulled {
    /// How it ended.
    #[serde(flatten)]
    pub ended: Outcome,
    /// The local copy.
    pub local: String,
    /// Where its inventory is.
    pub inventory: String,
    /// Whether everything was fetched.
    pub full: bool,
    /// Keys that were fetched, or had been before this pull was cut short.
    pub transferred: Vec<String>,
    /// What of it was fetched.
    pub fetched: Extent,
    /// What was left where it is.
    pub skipped: Extent,
    /// All of the remote cube.
    pub total: Extent,
    /// What an operator should know.
    pub warnings: Vec<String>,
}

/// What a push changed, or would change.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pushed {
    /// How it ended.
    #[serde(flatten)]
    pub ended: Outcome,
    /// The local copy.
    pub local: String,
    /// Whether nothing was to be written.
    pub dry_run: bool,
    /// Keys that were uploaded, or would be, in the order of the plan.
    pub uploaded: Vec<String>,
    /// What of it was uploaded, or would be.
    pub sent: Extent,
    /// Keys that were deleted, or would be.
    pub deleted: Vec<String>,
    /// Keys that stood already as they were to be written, as after a push that was cut
    /// short.
    pub stood: u64,
    /// What an operator should know.
    pub warnings: Vec<String>,
}
