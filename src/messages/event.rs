//! What a watcher of a pass sees.

use crate::messages::Reason;

/// Something that happened in a pass. A slow watcher loses the oldest events, never
/// slows the pass.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The lease was taken.
    LeaseHeld {
        /// The run whose expired lease was claimed.
        claimed_from: Option<String>,
    },
    /// A column was written.
    Written {
        /// Path of the leaf below the root.
        leaf: String,
        /// Why it was due.
        reason: Reason,
    },
    /// A column was current, or the leaf was not there.
    Skipped {
        /// Path of the leaf below the root.
        leaf: String,
    },
    /// A leaf failed.
    Failed {
        /// Path of the leaf below the root.
        leaf: String,
        /// What is wrong and what to do.
        error: String,
    },
    /// The pass stops early.
    Aborted {
        /// Why.
        reason: String,
    },
}
