//! `fleet script`: what to submit so that a scheduler does an upgrade.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use super::DEFAULT_WORKERS;
use crate::cli::args::{LeverArgs, parse_law, size};
use crate::cli::{declare, output, pass};
use crate::fleet::SlurmOptions;
use crate::fleet::script::{self, Scheduler, Script, SentFile};
use crate::kernels::plan::FoldLaw;

/// Memory of a process beside twice its budget, which are the leaves in flight and what is
/// made of them.
const PROGRAM_MIB: u64 = 1024;

/// Bytes of a MiB.
const MIB: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum FleetCommand {
    /// Print a script or manifest, ready to be submitted, of a coordinator and its workers.
    ///
    /// Example: zagg-stream fleet script s3://bucket/product --engine kubernetes --image registry/zagg-stream:1
    Script(ScriptArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum EngineName {
    Slurm,
    Kubernetes,
    AwsBatch,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ScriptArgs {
    /// The store: a path, or a URL with s3, gs or az.
    pub root: String,
    /// Who is to run it.
    #[arg(long, value_name = "ENGINE")]
    pub engine: EngineName,
    /// Workers at once.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_WORKERS as u32, value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: u32,
    /// Where plans and reports of the fleet go; every worker must be able to open it. By
    /// default a hidden directory of the store.
    #[arg(long, value_name = "URL")]
    pub run_dir: Option<String>,
    /// What the jobs are called.
    #[arg(long, value_name = "NAME", default_value = "zagg-stream")]
    pub name: String,
    /// Memory of each process, such as 4GiB; by default twice the memory budget and 1GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub mem: Option<u64>,
    /// Cores of each worker.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub cpus: u32,
    #[command(flatten)]
    pub slurm: SlurmArgs,
    #[command(flatten)]
    pub containers: ContainerArgs,
    #[command(flatten)]
    pub upgrade: PassedOn,
}

/// What only Slurm is asked for.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct SlurmArgs {
    /// Partition of Slurm.
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Account of Slurm.
    #[arg(long, value_name = "NAME")]
    pub account: Option<String>,
    /// Time limit of a worker of Slurm, such as 2:00:00.
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// Time limit of the coordinator of Slurm, which lives as long as the run.
    #[arg(long, value_name = "TIME")]
    pub coordinator_time: Option<String>,
    /// Another argument of sbatch for the workers; may be repeated.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub sbatch_arg: Vec<String>,
}

/// What only engines of containers are asked for.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ContainerArgs {
    /// The image of the containers, which has this program on its PATH.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Job queue of AWS Batch.
    #[arg(long, value_name = "NAME")]
    pub job_queue: Option<String>,
    /// Role of AWS that the containers have.
    #[arg(long, value_name = "ARN")]
    pub job_role: Option<String>,
}

/// Options of `upgrade` that the coordinator is given.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct PassedOn {
    /// Declare the pyramid first, from this YAML config the store was written with.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub lever: LeverArgs,
    /// Which cells the groups of a column fold from: boundary (the published rule) or
    /// raw (stores written before it).
    #[arg(long, value_name = "LAW", value_parser = parse_law)]
    pub fold_law: Option<FoldLaw>,
    /// Write everything, also what is current.
    #[arg(long)]
    pub force: bool,
    /// Bytes of leaves in flight, such as 512MiB, of each worker.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory_budget: Option<u64>,
    /// Leaves in the pipeline at once, of each worker.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_in_flight: Option<u64>,
    /// Orders of the ladder worked on between two barriers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub tuple_width: Option<u8>,
    /// Delete what the earlier pyramid left behind, once the store is verified. It is not
    /// brought back.
    #[arg(long)]
    pub retire: bool,
    /// Write a receipt also when nothing else was written.
    #[arg(long)]
    pub receipt: bool,
    /// Settings file; config/default.toml lists every key with its default.
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
}

pub(in crate::cli) fn run(command: FleetCommand) -> ExitCode {
    let FleetCommand::Script(args) = command;
    match text(&args) {
        Ok(text) => {
            output::print(text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => output::usage(&error),
    }
}

fn text(args: &ScriptArgs) -> Result<String, String> {
    let scheduler = scheduler(args)?;
    let is_slurm = args.engine == EngineName::Slurm;
    let upgrade = &args.upgrade;
    let mut settings = pass::settings_file(upgrade.settings.as_deref())?;
    pass::bound(&mut settings, upgrade.memory_budget, upgrade.max_in_flight);
    let default_mib = || settings.memory_budget.div_ceil(MIB).saturating_mul(2) + PROGRAM_MIB;
    let address = |address: &str| match is_slurm && !address.contains("://") {
        true => absolute(Path::new(address)),
        false => Ok(address.to_owned()),
    };
    let script = Script {
        name: args.name.clone(),
        root: address(&args.root)?,
        run_dir: args.run_dir.as_deref().map(address).transpose()?,
        workers: args.workers as usize,
        memory_mib: args.mem.map_or_else(default_mib, |mem| mem.div_ceil(MIB)),
        cpus: args.cpus,
        options: upgrade.options()?,
        files: upgrade.files()?,
    };
    script::text(&script, &scheduler).map_err(|error| error.to_string())
}

/// The engine with what only it is asked for.
fn scheduler(args: &ScriptArgs) -> Result<Scheduler, String> {
    let (slurm, containers) = (&args.slurm, &args.containers);
    let of_slurm = [
        ("--partition", slurm.partition.is_some()),
        ("--account", slurm.account.is_some()),
        ("--time", slurm.time.is_some()),
        ("--coordinator-time", slurm.coordinator_time.is_some()),
        ("--sbatch-arg", !slurm.sbatch_arg.is_empty()),
    ];
    let of_images = [("--image", containers.image.is_some())];
    let of_batch = [
        ("--job-queue", containers.job_queue.is_some()),
        ("--job-role", containers.job_role.is_some()),
    ];
    let no_others = |foreign: &[&[(&str, bool)]]| match foreign
        .iter()
        .flat_map(|options| options.iter())
        .find(|(_, is_given)| *is_given)
    {
        Some((option, _)) => Err(format!("{option} is not for this engine; leave it out")),
        None => Ok(()),
    };
    let needed = |option: &str, value: &Option<String>| {
        let missing = || format!("this engine needs {option}");
        value.clone().ok_or_else(missing)
    };
    match args.engine {
        EngineName::Slurm => {
            no_others(&[&of_images, &of_batch])?;
            let program = std::env::current_exe()
                .map_err(|error| format!("this program cannot be found: {error}"))?;
            Ok(Scheduler::Slurm {
                options: SlurmOptions {
                    partition: slurm.partition.clone(),
                    account: slurm.account.clone(),
                    time: slurm.time.clone(),
                    memory: None,
                    extra: slurm.sbatch_arg.clone(),
                },
                coordinator_time: slurm.coordinator_time.clone(),
                program: text_of(&program)?,
            })
        }
        EngineName::Kubernetes => {
            no_others(&[&of_slurm, &of_batch])?;
            let image = needed("--image IMAGE", &containers.image)?;
            Ok(Scheduler::Kubernetes { image })
        }
        EngineName::AwsBatch => {
            no_others(&[&of_slurm])?;
            Ok(Scheduler::AwsBatch {
                image: needed("--image IMAGE", &containers.image)?,
                queue: needed("--job-queue NAME", &containers.job_queue)?,
                role: containers.job_role.clone(),
            })
        }
    }
}

impl PassedOn {
    /// The options that name no file, each with its value.
    fn options(&self) -> Result<Vec<Vec<String>>, String> {
        if self.config.is_none() && declare::lever(&self.lever).is_some() {
            return Err("--overviews and --chunk-order need --config FILE".to_owned());
        }
        let joined = |orders: &[u8]| {
            let orders: Vec<String> = orders.iter().map(u8::to_string).collect();
            (!orders.is_empty()).then(|| orders.join(","))
        };
        let valued = [
            ("--overviews", joined(&self.lever.overviews)),
            (
                "--chunk-order",
                self.lever.chunk_order.map(|n| n.to_string()),
            ),
            ("--fold-law", self.fold_law.map(law_name)),
            ("--memory-budget", self.memory_budget.map(|n| n.to_string())),
            ("--max-in-flight", self.max_in_flight.map(|n| n.to_string())),
            ("--tuple-width", self.tuple_width.map(|n| n.to_string())),
        ];
        let valued = valued
            .into_iter()
            .filter_map(|(name, value)| Some(vec![name.to_owned(), value?]));
        let flags = [
            ("--force", self.force),
            ("--retire", self.retire),
            ("--receipt", self.receipt),
        ];
        let flags = flags.into_iter().filter(|(_, is_given)| *is_given);
        Ok(valued
            .chain(flags.map(|(name, _)| vec![name.to_owned()]))
            .collect())
    }

    /// The files that are named.
    fn files(&self) -> Result<Vec<SentFile>, String> {
        let config = self.config.as_deref().map(|path| {
            Ok(SentFile {
                option: "--config",
                path: absolute(path)?,
                name: "config.yaml",
                text: declare::read_config(path)?,
                cure: "declare first, by `zagg-stream declare ROOT` with it",
            })
        });
        let settings = self.settings.as_deref().map(|path| {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read settings `{}`: {error}", path.display()))?;
            Ok(SentFile {
                option: "--settings",
                path: absolute(path)?,
                name: "settings.toml",
                text,
                cure: "have it in the image and add the option to the command of the coordinator",
            })
        });
        config.into_iter().chain(settings).collect()
    }
}

fn law_name(law: FoldLaw) -> String {
    let name = match law {
        FoldLaw::Boundary => "boundary",
        FoldLaw::Raw => "raw",
    };
    name.to_owned()
}

fn absolute(path: &Path) -> Result<String, String> {
    let absolute = std::path::absolute(path)
        .map_err(|error| format!("`{}` is no path: {error}", path.display()))?;
    text_of(&absolute)
}

fn text_of(path: &Path) -> Result<String, String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("`{}` is not in UTF-8", path.display()))
}
