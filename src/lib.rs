//! Upgrades a published morton-hive Zarr store to the `/2` multiresolution pyramid,
//! in place, from its own bytes.
//!
//! ```no_run
//! use zagg_stream::{Root, Settings, Upgrade};
//!
//! # async fn example() -> Result<(), zagg_stream::Error> {
//! let root = Root::open("/data/product")?;
//! let handle = Upgrade::new(root).settings(Settings::default()).start().await?;
//! let report = handle.join().await?;
//! assert_eq!(report.counts.failed, 0);
//! # Ok(())
//! # }
//! ```
//!
//! A pass that may not begin is an [`Error`] from [`Upgrade::start`], and nothing has been
//! written. One that began always ends in a [`Report`], whatever happened to its leaves;
//! [`Ending`] says how. [`UpgradeHandle::events`] shows it on the way and [`Stop`] ends it
//! early. Every fault has a [`FaultKind`], which alone decides what comes of it.
//!
//! The library installs no subscriber, reads no environment and prints nothing; what it
//! does shows in [`Event`]s, in tracing, and in the [`Report`].

#[cfg(test)]
extern crate self as zagg_stream;

mod abort;
mod actors;
mod apart;
mod budget;
#[doc(hidden)]
pub mod cli;
#[cfg(test)]
#[path = "../tests/common/within.rs"]
mod common;
mod cores;
pub mod cube;
mod declare;
#[doc(hidden)]
pub mod demo;
mod error;
mod fleet;
mod gate;
pub mod kernels;
mod ladder;
mod lease;
mod messages;
mod plan;
#[doc(hidden)]
pub mod pyramid;
mod receipt;
mod report;
mod retire;
mod run;
mod runbook;
#[cfg(feature = "serve")]
mod serve;
mod settings;
mod steps;
mod store;
#[doc(hidden)]
pub mod time;
mod upgrade;
mod verify;
mod watch;
mod work;
mod yaml;

pub use declare::{Declare, DeclareError, Declared};
pub use error::{AbortReason, Error, FaultKind, LeafFault};
pub use fleet::{Assignment, Engine, EngineError, Fleet, SlurmOptions, WorkerError, stay};
pub use ladder::generation::SourceChildren;
pub use messages::{Event, LeafRef, PartAtWork, Parts, Progress, Reason, Step};
pub use plan::{
    Bearing, Cost, Obstacle, PeakMemory, Plan, Planned, PlannedColumns, PlannedDeclaration,
    PlannedLadder, PlannedLevel, PlannedStep, PlannedVerify, Work,
};
#[doc(inline)]
pub use pyramid::{ConfigError, HashVerdict, Lever, Previous, Regime, ScheduleError};
pub use receipt::{Change, Difference, LadderEntry, LeafEntry, Receipt, ReceiptCheck, StepTaken};
pub use report::{
    Bytes, Counts, Ending, FailedLeaf, LadderReport, LevelReport, Report, SoFar, StageSeconds,
    Verdicts,
};
pub use retire::{
    CleanVerify, Extent, Kept, KeptArtifact, Retire, RetireError, Retired, RetiredArtifact,
    StopRetire, Total,
};
pub use run::Stopper;
pub use runbook::{Account, Runbook, RunbookError};
pub use settings::{Settings, SettingsError};
pub use store::{
    Ability, Answer, CredentialsError, Examination, ExamineError, LeafError, LeaseError,
    ManifestError, RecordError, RetryPolicy, Root, RootError, StoreError, Tally, Touched,
};
pub use upgrade::{Steps, Stop, Upgrade, UpgradeHandle};
pub use verify::{Artifacts, Check, Finding, Refolded, Severity, Verification, Verify};

/// The name and version this program signs what it writes with.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
