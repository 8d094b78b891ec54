//! `worker`: one part of a run that `upgrade --fleet` coordinates.

use std::process::ExitCode;

use clap::Args as ClapArgs;

use super::fleet::{make_run_dir, open_run_dir};
use super::{output, signals};
use crate::fleet::{Assignment, WorkerError, index_of_worker, obey, stay};
use crate::report::{Ending, Report};
use crate::settings::Settings;
use crate::store::Root;

/// What a worker leaves behind when it is ended at once.
const LEFT: &str =
    "the part is free again once its ttl is over, and the coordinator has it done again";

#[derive(Debug, ClapArgs)]
pub(super) struct WorkerArgs {
    /// The run: what the coordinator printed, or with --part the directory of one of its
    /// arrays.
    #[arg(long, value_name = "URL")]
    pub run: String,
    /// Which part of the array. SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX or
    /// AWS_BATCH_JOB_ARRAY_INDEX is used when this is not given.
    #[arg(long, value_name = "I")]
    pub part: Option<u32>,
    /// Stay for all arrays of the run, one part after the other, until it ends.
    #[arg(long)]
    pub follow: bool,
    /// Take parts from standard input as the coordinator that started this writes them.
    #[arg(long, hide = true, conflicts_with_all = ["part", "follow", "json"])]
    pub orders: bool,
    /// Print one JSON document on stdout instead of a line.
    #[arg(long)]
    pub json: bool,
}

pub(super) async fn run(args: WorkerArgs) -> ExitCode {
    if args.orders {
        return end(&args, obeyed(&args).await);
    }
    let index = match index_of_worker(args.part, |name| std::env::var(name).ok()) {
        Ok(index) => index,
        Err(error) => return output::usage(&error.to_string()),
    };
    // A worker that stays may be there before the run.
    if let (true, Err(error)) = (args.follow, make_run_dir(&args.run)) {
        return output::usage(&error);
    }
    let ended = match args.follow {
        true => follow(&args, index).await,
        false => one(&args, index).await,
    };
    end(&args, ended)
}

fn end(args: &WorkerArgs, ended: Result<Report, WorkerError>) -> ExitCode {
    match ended {
        Ok(report) => show(args, &report),
        Err(error) => refuse(args, &error),
    }
}

async fn one(args: &WorkerArgs, part: u32) -> Result<Report, WorkerError> {
    let assignment = Assignment::read(open_run_dir(&args.run)?, part).await?;
    let root = open(assignment.store())?;
    let stopper = assignment.stopper();
    tokio::select! {
        report = assignment.work(root) => report,
        never = signals::stop_or_exit(|by| stopper.stop(by), LEFT) => match never {},
    }
}

async fn follow(args: &WorkerArgs, index: u32) -> Result<Report, WorkerError> {
    let stopper = crate::run::Stopper::new();
    let stayed = stay(open_run_dir(&args.run)?, index, open, stopper.clone());
    tokio::select! {
        report = stayed => report,
        never = signals::stop_or_exit(|by| stopper.stop(by), LEFT) => match never {},
    }
}

async fn obeyed(args: &WorkerArgs) -> Result<Report, WorkerError> {
    let stopper = crate::run::Stopper::new();
    let (lines, orders) = tokio::sync::mpsc::unbounded_channel();
    // It ends with the process: nothing interrupts one that reads from a terminal or a pipe.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let run = open_run_dir(&args.run)?;
    let obeyed = obey(run, orders, output::print, open, stopper.clone());
    tokio::select! {
        report = obeyed => report,
        never = signals::stop_or_exit(|by| stopper.stop(by), LEFT) => match never {},
    }
}

fn open(address: &str) -> Result<Root, WorkerError> {
    let root = Root::open_with(address, std::env::vars());
    root.map_err(|error| crate::Error::from(error).into())
}

fn show(args: &WorkerArgs, report: &Report) -> ExitCode {
    if args.json {
        output::print_json("worker", report);
    } else {
        let counts = report
            .ladder
            .as_ref()
            .map_or(report.counts, |ladder| ladder.counts);
        output::print(&format!(
            "worker: {}; {} written, {} current, {} failed, {} not attempted",
            report.outcome.as_str(),
            counts.written,
            counts.current,
            counts.failed,
            counts.not_attempted
        ));
    }
    if let Some(error) = &report.error {
        output::complain(error);
    }
    ExitCode::from(report.exit_code)
}

fn refuse(args: &WorkerArgs, error: &WorkerError) -> ExitCode {
    let ending: Ending = error.ending();
    if args.json {
        let report = Report::refused(&args.run, &Settings::default(), ending, error);
        output::print_json("worker", &report);
    }
    output::complain(&error.to_string());
    ExitCode::from(ending.exit_code())
}
