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
    /// The column of a leaf, or an artifact of the ladder, was written.
    Written {
        /// Path below the root of the leaf, or of the ladder's artifact.
        path: String,
        /// Why it was due.
        reason: Reason,
    },
    /// It was current, or there was nothing to fold.
    Skipped {
        /// Path below the root of the leaf, or of the ladder's artifact.
        path: String,
    },
    /// A leaf, or an artifact of the ladder, failed.
    Failed {
        /// Path below the root of the leaf, or of the ladder's artifact.
        path: String,
        /// What is wrong and what to do.
        error: String,
    },
    /// The pass stops early.
    Aborted {
        /// Why.
        reason: String,
    },
}
