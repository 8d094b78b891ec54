//! What travels through the pipeline: one file per hop, plus control and events.

mod control;
mod event;
mod fold_job;
mod folded_column;
mod leaf;
mod outcome;
mod stamped_leaf;

pub(crate) use control::{AbortPass, Admit, Hold, ReleaseLease, WorkListed};
pub use event::Event;
pub(crate) use fold_job::FoldJob;
pub(crate) use folded_column::FoldedColumn;
pub use leaf::LeafRef;
pub(crate) use leaf::{FoundLeaf, LeafTicket};
pub use outcome::Reason;
pub(crate) use outcome::{LeafEnded, LeafOutcome};
pub(crate) use stamped_leaf::StampedLeaf;
