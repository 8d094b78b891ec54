//! Any stage → Supervisor: how the work on one leaf, or one level's artifact, ended.

use actix::{Addr, Message};

use crate::actors::Supervisor;
use crate::error::LeafFault;
use crate::report::StageSeconds;

/// Why a column is not current, by the check that found it (`format.md` section 7,
/// "Skip gate").
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The column is not there, or was never finished.
    AbsentOrUnstamped,
    /// The column records another declaration.
    DeclarationDrift,
    /// A group or an array is not as the declaration asks.
    StructureDrift,
    /// The leaf was written after the column.
    Stale,
    /// The leaf holds another number of granules.
    GranuleDrift,
    /// The operator asked for it.
    Forced,
}

impl Reason {
    /// Every reason, in the order a report lists them.
    pub const ALL: [Self; 6] = [
        Self::AbsentOrUnstamped,
        Self::DeclarationDrift,
        Self::StructureDrift,
        Self::Stale,
        Self::GranuleDrift,
        Self::Forced,
    ];

    /// The name an operator sees.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AbsentOrUnstamped => "absent-or-unstamped",
            Self::DeclarationDrift => "declaration-drift",
            Self::StructureDrift => "structure-drift",
            Self::Stale => "stale",
            Self::GranuleDrift => "granule-drift",
            Self::Forced => "forced",
        }
    }
}

/// How the work on one leaf, or one level's artifact, ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Its column, or the artifact, was written and stamped.
    Written {
        /// Why it was due.
        reason: Reason,
        /// Bytes of the column's objects.
        num_bytes: u64,
        /// Where the time went.
        stages: StageSeconds,
    },
    /// It is current.
    Current,
    /// There is no committed leaf, or no column to fold from.
    Empty,
    /// A dry run found it due.
    Planned {
        /// Why it is due.
        reason: Reason,
    },
    /// The step ended before its turn.
    NotAttempted,
    /// It failed; the pass goes on.
    Failed(Box<LeafFault>),
}

impl Outcome {
    pub(crate) fn failed(fault: impl Into<LeafFault>) -> Self {
        Self::Failed(Box::new(fault.into()))
    }

    /// The outcome of a ticket nobody finished.
    pub(crate) fn dropped(work: &impl std::fmt::Display) -> Self {
        Self::failed(LeafFault::Dropped {
            path: work.to_string(),
        })
    }
}

#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct WorkEnded {
    /// Path below the root of what was worked on.
    pub path: String,
    pub outcome: Outcome,
    /// An actor stops once nobody has its address, also with mail unread; so mail that is
    /// the last of its sender carries the address.
    pub supervisor: Addr<Supervisor>,
}
