//! Why nothing is done to a cube, or not all of it. Each message names the cure.

use super::fetch::Offending;
use super::layout::named;
use crate::error::{AT_WRONG_ADDRESS, FaultKind};
use crate::report::Ending;
use crate::store::{Root, RootError, StoreError};

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CubeError {
    /// A root cannot be worked on.
    #[error(transparent)]
    Root(#[from] RootError),
    /// A request failed before anything was written.
    #[error("{0}; nothing was written, mend that and run again")]
    Store(#[from] StoreError),
    /// It was told to stop before anything was written.
    #[error("stopped before anything was written to `{root}`; run the same command again")]
    Stopped {
        /// The root.
        root: String,
    },
    /// Documents of the cube describe no nodes, or nodes that cannot be where they are.
    #[error(
        "the cube at `{root}` cannot be told apart into arrays: {}; mend these documents from a copy, then \
         run again (`zagg-stream cube check {root}` names them, too)",
        .reasons.join(", ")
    )]
    Malformed {
        /// The root.
        root: String,
        /// What is wrong with which document.
        reasons: Vec<String>,
    },
    /// An append after a minimal fetch could lose slices.
    #[error(
        "a minimal fetch of `{root}` is not safe: {}; an append would write over objects that were not \
         fetched. Fetch everything: `zagg-stream cube pull {root} LOCAL --full`",
        .offending.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Unsafe {
        /// The root.
        root: String,
        /// The arrays.
        offending: Vec<Offending>,
    },
    /// There is something where a local copy was to go.
    #[error(
        "`{local}` is not empty, and what is there is not from a pull of `{remote}` that was cut short; push \
         or remove it first (and `{inventory}`), or pull into another directory"
    )]
    Occupied {
        /// The local copy.
        local: String,
        /// The remote cube.
        remote: String,
        /// Its inventory.
        inventory: String,
    },
    /// A local copy has no inventory, or none that can be used.
    #[error(
        "`{local}` has no inventory that can be used: {reason}; only what was pulled can be pushed: \
         `zagg-stream cube pull {remote} LOCAL` into an empty directory, append there, then push"
    )]
    Inventory {
        /// The local copy.
        local: String,
        /// The remote cube.
        remote: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A local copy cannot have an inventory beside it.
    #[error("`{local}` has nothing beside it to keep an inventory in; use a directory below it")]
    NoSibling {
        /// The local copy.
        local: String,
    },
    /// What is local and what is remote do not fit together.
    #[error(
        "nothing was pushed to `{root}`: {}",
        .reasons.join("; ")
    )]
    Push {
        /// The remote cube.
        root: String,
        /// Every reason, with its cure.
        reasons: Vec<String>,
    },
}

impl CubeError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Root(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Stopped { .. } => FaultKind::Cancelled,
            Self::Malformed { .. }
            | Self::Unsafe { .. }
            | Self::Occupied { .. }
            | Self::Inventory { .. }
            | Self::NoSibling { .. }
            | Self::Push { .. } => FaultKind::Declaration,
        }
    }

    /// How a command ends that failed for this.
    pub fn ending(&self) -> Ending {
        match self {
            Self::Root(_) => AT_WRONG_ADDRESS,
            Self::Stopped { .. } => Ending::Interrupted,
            _ => self.kind().ending(),
        }
    }
}

/// What stops a command that has begun to write.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It was told to.
    Stopped,
    /// Somebody else has written or deleted an object.
    Moved {
        key: String,
        /// Of whichever side it is on.
        root: String,
        was_deleted: bool,
    },
    /// Others have written or deleted objects that would be published with what was written.
    Meanwhile { keys: Vec<String>, root: String },
    /// Objects of others have been published with what was written.
    Mixed { keys: Vec<String>, root: String },
    /// A request failed.
    Store(StoreError),
}

impl Halt {
    /// That somebody else has written or deleted the object at `key`.
    pub(crate) fn moved(root: &Root, key: &str, was_deleted: bool) -> Self {
        Self::Moved {
            key: key.to_owned(),
            root: root.url().to_owned(),
            was_deleted,
        }
    }

    /// How the command ends. Something may have been written, so no failed request makes it
    /// refused.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Stopped => Ending::Interrupted,
            Self::Moved { .. } | Self::Meanwhile { .. } | Self::Mixed { .. } => Ending::Refused,
            Self::Store(_) => Ending::Aborted,
        }
    }

    /// What to tell of it; `again` is the way on when somebody else writes.
    pub(crate) fn message(&self, again: &str) -> String {
        const RESUME: &str = "what was written is complete, run the same command again to go on";
        match self {
            Self::Stopped => format!("stopped; {RESUME}"),
            Self::Moved {
                key,
                root,
                was_deleted: true,
            } => format!("`{key}` under `{root}` was deleted by somebody else meanwhile; {again}"),
            Self::Moved { key, root, .. } => format!(
                "`{key}` under `{root}` was written by somebody else meanwhile and was left alone; {again}"
            ),
            Self::Meanwhile { keys, root } => format!(
                "`{root}` was changed by somebody else meanwhile where this push writes: {}; no document was \
                 written, so that readers see the old state; {again}",
                named(keys)
            ),
            Self::Mixed { keys, root } => format!(
                "objects of somebody else have appeared in `{root}` within what was pushed: {}; look whose they \
                 are, delete those that are not of this copy by hand, then `zagg-stream cube check {root}`",
                named(keys)
            ),
            Self::Store(error) => format!("{error}; {RESUME}"),
        }
    }
}
