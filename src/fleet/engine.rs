//! Who places, queues and ends the workers: processes of this machine, Slurm, or whoever the
//! operator has start them.

mod local;
mod slurm;

use std::collections::BTreeMap;
use std::path::PathBuf;

use local::Local;
use slurm::Slurm;
pub use slurm::SlurmOptions;
pub(super) use slurm::quoted;

/// Where the workers of a fleet run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Processes on this machine.
    Local,
    /// Tasks of Slurm job arrays.
    Slurm(SlurmOptions),
    /// Workers that somebody else starts, with `worker --run RUN --follow`.
    Manual,
}

/// Why workers cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A program of the scheduler cannot be run here.
    #[error(
        "`{program}` cannot be run: {reason}; a fleet needs it on the PATH of the machine that coordinates"
    )]
    Program {
        /// Which.
        program: String,
        /// Why not.
        reason: String,
    },
    /// The scheduler said no.
    #[error("`{command}` failed: {said}; correct what it complains of and run again")]
    Refused {
        /// What was asked.
        command: String,
        /// What it said.
        said: String,
    },
}

/// What the workers of a run are started with.
#[derive(Debug, Clone)]
pub(super) struct Hired {
    /// The program they run.
    pub program: PathBuf,
    /// Address of the run directory.
    pub run: String,
    /// Address of the store.
    pub store: String,
    /// The run they work for.
    pub run_id: String,
    /// How many at once.
    pub workers: usize,
}

/// What an engine knows of its workers.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Parts whose worker waits or works.
    pub alive: usize,
    /// Parts whose worker has ended since it was last asked, with its last words as far as
    /// they are known.
    pub ended: BTreeMap<u32, String>,
}

/// The workers of a run, at one of its arrays.
pub(super) enum Workers {
    Local(Local),
    Slurm(Slurm),
    Manual,
}

impl Workers {
    pub(super) fn new(engine: &Engine, hired: Hired) -> Self {
        match engine {
            Engine::Local => Self::Local(Local::new(hired)),
            Engine::Slurm(options) => Self::Slurm(Slurm::new(options.clone(), hired)),
            Engine::Manual => Self::Manual,
        }
    }

    /// Has workers that can be had before there is work get ready for it.
    ///
    /// # Errors
    /// When one cannot be started.
    pub(super) async fn make_ready(&mut self) -> Result<(), EngineError> {
        match self {
            Self::Local(local) => local.make_ready().await,
            Self::Slurm(_) | Self::Manual => Ok(()),
        }
    }

    /// Goes on to this array, which has a directory of its own; the one before is done with.
    pub(super) fn begin(&mut self, array: &str, dir: &str) {
        match self {
            Self::Local(local) => local.begin(array),
            Self::Slurm(slurm) => slurm.begin(array, dir),
            Self::Manual => {}
        }
    }

    /// Has these parts worked on.
    ///
    /// # Errors
    /// When the scheduler cannot be asked, or refuses.
    pub(super) async fn submit(&mut self, parts: &[u32]) -> Result<(), EngineError> {
        match self {
            Self::Local(local) => local.submit(parts),
            Self::Slurm(slurm) => slurm.submit(parts).await?,
            // Whoever is there takes what has no worker.
            Self::Manual => {}
        }
        Ok(())
    }

    /// Waits for news of a worker, for ever where none is ever told.
    pub(super) async fn news(&mut self) {
        match self {
            Self::Local(local) => local.news().await,
            Self::Slurm(_) | Self::Manual => std::future::pending().await,
        }
    }

    /// What became of the workers.
    ///
    /// # Errors
    /// When a worker cannot be started.
    pub(super) async fn look(&mut self) -> Result<Known, EngineError> {
        match self {
            Self::Local(local) => local.look().await,
            Self::Slurm(slurm) => Ok(slurm.look().await),
            Self::Manual => Ok(Known::default()),
        }
    }

    /// Asks every worker to finish what it is writing and to end; those that wait do not
    /// begin.
    pub(super) async fn stop(&mut self) {
        match self {
            Self::Local(local) => local.stop(),
            Self::Slurm(slurm) => slurm.stop().await,
            // They see that the lease is given back.
            Self::Manual => {}
        }
    }

    /// Ends every worker at once.
    pub(super) async fn kill(&mut self) {
        match self {
            Self::Local(local) => local.kill().await,
            Self::Slurm(slurm) => slurm.kill().await,
            Self::Manual => {}
        }
    }
}
