//! Who places, queues and ends the workers: processes of this machine, Slurm, or whoever the
//! operator has start them.

mod local;
mod manual;
mod slurm;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use local::Local;
use manual::Manual;
use slurm::Slurm;
pub use slurm::SlurmOptions;
pub(super) use slurm::quoted;

use crate::store::{Held, Root};

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
#[derive(Debug)]
pub(super) struct Hired {
    /// The program they run.
    pub program: PathBuf,
    /// The run directory.
    pub run: Root,
    /// The lease of the store.
    pub held: Held,
    /// Address of the store.
    pub store: String,
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
    Manual(Manual),
}

impl Workers {
    pub(super) fn new(engine: &Engine, hired: Hired) -> Self {
        match engine {
            Engine::Local => Self::Local(Local::new(hired)),
            Engine::Slurm(options) => Self::Slurm(Slurm::new(options.clone(), hired)),
            Engine::Manual => Self::Manual(Manual::new(hired)),
        }
    }

    /// Has workers that can be had before there is work get ready for it.
    ///
    /// # Errors
    /// When one cannot be started.
    pub(super) async fn make_ready(&mut self) -> Result<(), EngineError> {
        match self {
            Self::Local(local) => local.make_ready().await,
            Self::Slurm(_) | Self::Manual(_) => Ok(()),
        }
    }

    /// Goes on to this array, which has a directory of its own; the one before is done with.
    pub(super) fn begin(&mut self, array: &str, dir: &str) {
        match self {
            Self::Local(local) => local.begin(array),
            Self::Slurm(slurm) => slurm.begin(array, dir),
            Self::Manual(manual) => manual.begin(array),
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
            Self::Manual(_) => {}
        }
        Ok(())
    }

    /// Waits for news of a worker, for ever where none is ever told.
    pub(super) async fn news(&mut self) {
        match self {
            Self::Local(local) => local.news().await,
            Self::Slurm(_) | Self::Manual(_) => std::future::pending().await,
        }
    }

    /// Whether [`Workers::look`] tells who is alive and who has ended. Where it does not, the
    /// leases of the parts do.
    pub(super) fn are_known(&self) -> bool {
        !matches!(self, Self::Manual(_))
    }

    /// Whether they are processes of this one's own, so that who has ended is gone beyond doubt.
    pub(super) fn are_children(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Within what time all that go on have heard of [`Workers::stop`].
    pub(super) fn hear_within(&self) -> Duration {
        match self {
            Self::Local(_) | Self::Slurm(_) => Duration::ZERO,
            Self::Manual(_) => manual::HEAR_WITHIN,
        }
    }

    /// Takes note of how many parts have a worker, where only their leases tell.
    pub(super) fn note_alive(&mut self, alive: usize) {
        if let Self::Manual(manual) = self {
            manual.note_alive(alive);
        }
    }

    /// Ends the worker of a part.
    pub(super) async fn end(&mut self, part: u32) {
        match self {
            Self::Local(local) => local.end(part),
            Self::Slurm(slurm) => slurm.end(part).await,
            Self::Manual(_) => {}
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
            Self::Manual(_) => Ok(Known::default()),
        }
    }

    /// Asks every worker to finish what it is writing and to end; those that wait do not
    /// begin.
    pub(super) async fn stop(&mut self) {
        match self {
            Self::Local(local) => local.stop().await,
            Self::Slurm(slurm) => slurm.stop().await,
            Self::Manual(manual) => manual.stop().await,
        }
    }

    /// Ends every worker at once.
    pub(super) async fn kill(&mut self) {
        match self {
            Self::Local(local) => local.kill().await,
            Self::Slurm(slurm) => slurm.kill().await,
            Self::Manual(_) => {}
        }
    }
}
