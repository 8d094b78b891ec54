//! What travels through the pipeline: one file per hop, plus control and events.

mod control;
mod event;
mod fold_job;
mod folded_column;
mod leaf;
mod outcome;
mod parts;
mod progress;
mod stamped_leaf;
mod step;
mod target;
mod ticket;

pub(crate) use control::{Admit, EndLease, FailedSoFar, Hold, WorkListed};
pub use event::Event;
pub(crate) use fold_job::FoldJob;
pub(crate) use folded_column::FoldedColumn;
pub(crate) use leaf::FoundLeaf;
pub use leaf::LeafRef;
pub use outcome::Reason;
pub(crate) use outcome::{Outcome, WorkEnded};
pub use parts::{PartAtWork, Parts};
pub use progress::Progress;
pub(crate) use stamped_leaf::StampedLeaf;
pub use step::Step;
pub(crate) use target::{BuildJob, Finish, FoundTarget, TargetStands};
pub(crate) use ticket::Ticket;
