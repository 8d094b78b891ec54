//! TargetFinder → LevelGate → LevelBuilder → Finisher: an artifact of the ladder on its
//! way.

use std::sync::Arc;

use actix::Message;

use crate::ladder::Target;
use crate::ladder::children::Children;
use crate::ladder::generation::SourceChildren;
use crate::messages::{Reason, Ticket};
use crate::report::{LadderReport, LevelReport};
use crate::store::artifact::Tier;

/// TargetFinder → LevelGate: an artifact whose children's columns are all written.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct FoundTarget {
    pub ticket: Ticket<Arc<Target>>,
}

/// LevelGate → LevelBuilder: an artifact that must be written.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct BuildJob {
    pub ticket: Ticket<Arc<Target>>,
    /// The columns it folds from, as they were when it was judged.
    pub children: Children,
    /// Why it is not current.
    pub reason: Reason,
}

/// LevelGate, LevelBuilder → Finisher: an artifact stands.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct TargetStands {
    /// Order of its node.
    pub order: u8,
    pub tier: Tier,
    /// Whether it spans all windows of a windowed store.
    pub is_all_time: bool,
    pub children: SourceChildren,
    /// Bytes written; `None` when it was current.
    pub written: Option<u64>,
}

impl TargetStands {
    /// An artifact that was written with so many bytes, or was current.
    pub(crate) fn new(target: &Target, children: SourceChildren, written: Option<u64>) -> Self {
        Self {
            order: target.order,
            tier: target.artifact.tier,
            is_all_time: !target.windows.contains(&target.artifact.window),
            children,
            written,
        }
    }
}

/// Whoever started the ladder → Finisher: every artifact of the ladder stands, so the objects at the
/// root may be written.
#[derive(Debug, Message)]
#[rtype(result = "LadderReport")]
pub(crate) struct Finish {
    /// Whether they may: not when an artifact failed or was left out.
    pub is_complete: bool,
    /// What became of the levels in other processes.
    pub elsewhere: Vec<LevelReport>,
}
