//! One upgrade on many machines under one lease.
//!
//! The coordinator is an ordinary run: it takes the lease, keeps it, and gives it back. What
//! it does not do is the work of the columns and the ladder. That is cut into parts, written
//! into a run directory, and handed to a scheduler as an array of workers; the coordinator
//! follows their reports, has lost parts done again, and makes one account of all.
//!
//! ```text
//! RUN/columns/plan.json            the plan of an array, written once
//! RUN/columns/parts/00007.json     the shards of a part
//! RUN/columns/leases/00007/…       who works on it now
//! RUN/columns/reports/00007.json   how far it is, and at the end what came of it
//! RUN/ladder-5-4-3/…               one array for each stretch between two barriers
//! ```
//!
//! A worker holds no lease of the store. It joins the coordinator's
//! ([`crate::store::lease::join`]) and holds its part by a lease of the same kind in the run
//! directory, so that no two workers are at one column. While such a lease moves, its worker may
//! write; the coordinator gives the store's back once none does.

mod assignment;
mod coordinator;
mod costs;
mod directory;
mod engine;
mod follow;
mod followed;
mod index;
mod merge;
mod orders;
mod part_report;
pub(crate) mod plan;
pub(crate) mod script;
mod stay;
mod taken;
mod telling;
mod verifying;
mod worker;

use std::path::PathBuf;

use crate::store::Root;

pub use assignment::{Assignment, WorkerError};
pub(crate) use coordinator::Coordinator;
pub use engine::{Engine, EngineError, SlurmOptions};
pub(crate) use index::index_of_worker;
pub(crate) use orders::obey;
pub use stay::stay;

/// How many tries a part has that ends without a report of its own.
const MAX_TRIES: u32 = 3;

/// Which workers a run has, and where it leaves word for them.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub(crate) engine: Engine,
    pub(crate) workers: usize,
    /// The program that workers run.
    pub(crate) program: PathBuf,
    /// Where plans and reports go, if not below the store.
    pub(crate) run_dir: Option<Root>,
}

impl Fleet {
    /// Workers that run `program`, which is this one, `workers` of them at once.
    pub fn new(engine: Engine, workers: usize, program: impl Into<PathBuf>) -> Self {
        Self {
            engine,
            workers: workers.max(1),
            program: program.into(),
            run_dir: None,
        }
    }

    /// Leaves plans and reports at another root than below the store, for stores where no
    /// stray key is welcome. Every worker must be able to open its address.
    pub fn run_dir(mut self, root: Root) -> Self {
        self.run_dir = Some(root);
        self
    }
}
