//! `--fleet` of `upgrade`: who does its work; and `fleet script`.

mod script;

use std::path::Path;

use clap::Args as ClapArgs;

use crate::Error;
use crate::fleet::{Engine, Fleet, SlurmOptions};
use crate::store::Root;

pub(super) use script::{FleetCommand, run};

/// Workers at once where no number is given and the machine does not suggest one.
const DEFAULT_WORKERS: usize = 8;

#[derive(Debug, Clone, ClapArgs)]
pub(super) struct FleetArgs {
    /// Give the work to several workers under the lease of this run: `local:N` for processes
    /// here, `slurm:N` for tasks of job arrays, `manual:N` for workers started by hand, N at
    /// once. `fleet script` prints what to submit.
    #[arg(long, value_name = "ENGINE[:N]", value_parser = parse_fleet)]
    pub fleet: Option<FleetChoice>,
    /// Where plans and reports of the fleet go; every worker must be able to open it. By
    /// default a hidden directory of the store, removed at the end.
    #[arg(long, value_name = "URL", requires = "fleet")]
    pub run_dir: Option<String>,
    /// Partition of Slurm.
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub partition: Option<String>,
    /// Account of Slurm.
    #[arg(long, value_name = "NAME", requires = "fleet")]
    pub account: Option<String>,
    /// Time limit of a worker of Slurm, such as 2:00:00. A worker that meets it finishes what
    /// it is writing, and the rest of its part is submitted again.
    #[arg(long, value_name = "TIME", requires = "fleet")]
    pub time: Option<String>,
    /// Memory of a worker of Slurm, such as 2G.
    #[arg(long, value_name = "SIZE", requires = "fleet")]
    pub mem: Option<String>,
    /// Another argument of sbatch, such as `--sbatch-arg=--output=logs/%A_%a.log`; may be
    /// repeated.
    #[arg(
        long,
        value_name = "ARG",
        requires = "fleet",
        allow_hyphen_values = true
    )]
    pub sbatch_arg: Vec<String>,
}

/// What `--fleet` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FleetChoice {
    engine: EngineName,
    workers: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineName {
    Local,
    Slurm,
    Manual,
}

fn parse_fleet(text: &str) -> Result<FleetChoice, String> {
    let (engine, workers) = match text.split_once(':') {
        Some((engine, workers)) => (engine, Some(workers)),
        None => (text, None),
    };
    let engine = match engine {
        "local" => EngineName::Local,
        "slurm" => EngineName::Slurm,
        "manual" => EngineName::Manual,
        _ => return Err("expected local, slurm or manual, such as `slurm:16`".to_owned()),
    };
    let workers = workers.map(|workers| match workers.parse() {
        Ok(workers @ 1..) => Ok(workers),
        _ => {
            Err("the number of workers is a whole number from 1 on, such as `slurm:16`".to_owned())
        }
    });
    Ok(FleetChoice {
        engine,
        workers: workers.transpose()?,
    })
}

impl FleetArgs {
    /// The fleet that was asked for.
    ///
    /// # Errors
    /// A sentence saying what cannot be used.
    pub(super) fn fleet(&self) -> Result<Option<Fleet>, String> {
        let Some(choice) = self.fleet else {
            return Ok(None);
        };
        let slurm = SlurmOptions {
            partition: self.partition.clone(),
            account: self.account.clone(),
            time: self.time.clone(),
            memory: self.mem.clone(),
            extra: self.sbatch_arg.clone(),
        };
        let has_options = slurm != SlurmOptions::default();
        let engine = match choice.engine {
            EngineName::Slurm => Engine::Slurm(slurm),
            _ if has_options => {
                return Err("--partition, --account, --time, --mem and --sbatch-arg are for `--fleet slurm`".to_owned());
            }
            EngineName::Local => Engine::Local,
            EngineName::Manual => Engine::Manual,
        };
        let workers = choice.workers.unwrap_or_else(|| match engine {
            Engine::Local => std::thread::available_parallelism().map_or(1, usize::from),
            _ => DEFAULT_WORKERS,
        });
        let program = std::env::current_exe()
            .map_err(|error| format!("this program cannot be found for its workers: {error}"))?;
        let fleet = Fleet::new(engine, workers, program);
        let Some(run_dir) = &self.run_dir else {
            return Ok(Some(fleet));
        };
        make_run_dir(run_dir)?;
        let root = open_run_dir(run_dir).map_err(|error| error.to_string())?;
        Ok(Some(fleet.run_dir(root)))
    }
}

/// Makes a run directory, if it is one of this machine and not there yet.
///
/// # Errors
/// A sentence saying why it cannot be made.
pub(super) fn make_run_dir(address: &str) -> Result<(), String> {
    if address.contains("://") {
        return Ok(());
    }
    std::fs::create_dir_all(Path::new(address))
        .map_err(|error| format!("the run directory `{address}` cannot be made: {error}"))
}

/// Opens a run directory with the credentials of the environment.
///
/// # Errors
/// When the address cannot be worked on.
pub(super) fn open_run_dir(address: &str) -> Result<Root, Error> {
    Ok(Root::open_with(address, std::env::vars())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_an_engine_and_a_number() {
        let choice = |engine, workers| Ok(FleetChoice { engine, workers });
        assert_eq!(parse_fleet("local:3"), choice(EngineName::Local, Some(3)));
        assert_eq!(parse_fleet("slurm"), choice(EngineName::Slurm, None));
        for wrong in ["", "slurm:0", "slurm:-1", "slurm:", "pbs:3", "local:3:4"] {
            assert!(parse_fleet(wrong).is_err(), "{wrong}");
        }
    }
}
