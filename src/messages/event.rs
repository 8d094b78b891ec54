//! What a watcher of a pass sees.

use crate::messages::{Parts, Progress, Reason, Step};
use crate::report::Ending;

/// Something that happened in a pass. A slow watcher loses the oldest events, never
/// slows the pass.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// A run was admitted.
    Started {
        /// The store.
        root: String,
        /// As in its lease.
        run_id: String,
    },
    /// A step begins.
    StepStarted {
        /// Which.
        step: Step,
        /// Pieces of work that are known.
        total: u64,
    },
    /// How far a step is; told every second while it works, and at its end.
    Progress(Progress),
    /// How far the workers of a fleet are.
    Parts(Parts),
    /// A step has ended, well or not.
    StepEnded {
        /// Which.
        step: Step,
        /// How long it took.
        seconds: f64,
    },
    /// The lease was taken.
    LeaseHeld {
        /// The run whose expired lease was claimed.
        claimed_from: Option<String>,
        /// Seconds until it is confirmed for the first time.
        next_beat_s: u64,
    },
    /// The lease was confirmed.
    LeaseBeat {
        /// Seconds until the next time.
        next_beat_s: u64,
    },
    /// The lease was not confirmed, which is tried again until it expires.
    LeaseBeatFailed {
        /// Why.
        error: String,
    },
    /// The lease was given back, or is known to be gone.
    LeaseReleased,
    /// The store asks for fewer requests, which are made fewer.
    Throttled {
        /// Key of the object whose request said so.
        key: String,
        /// Requests at once from now on.
        max_requests: usize,
    },
    /// The store keeps up again with as many requests as the settings allow.
    Eased {
        /// Requests at once from now on.
        max_requests: usize,
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
    /// The run has ended; nothing follows.
    Finished {
        /// How.
        outcome: Ending,
    },
}
