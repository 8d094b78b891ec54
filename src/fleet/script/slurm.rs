//! The coordinator as a job of Slurm, which submits the arrays of its workers itself.

use super::{Script, shell_command};
use crate::fleet::engine::{SlurmOptions, quoted};

/// Seconds before its time limit at which the coordinator is asked to end: it gives its
/// workers two minutes to finish what they are writing, and then gives the lease back.
const WARNING_S: u32 = 180;

/// A batch script.
pub(super) fn script(
    script: &Script,
    options: &SlurmOptions,
    coordinator_time: Option<&str>,
    program: &str,
) -> String {
    let name = &script.name;
    let rest = format!(
        "This job is the coordinator. It submits the arrays of its workers by itself, has lost\n\
         parts done again, verifies, and prints its account at the end of its log.\n\
         \n\
         submit:  sbatch FILE\n\
         look:    squeue --me; tail {name}-JOB.log; zagg-stream lease show ROOT\n\
         stop:    scancel --batch --signal=TERM JOB; what is being written is finished\n\
         again:   sbatch FILE; it goes on where it was, also after a time limit\n\
         \n\
         Check before you submit: the coordinator's time limit, which has to do for the whole\n\
         run; that every node has the program, the store and the log's directory at the same\n\
         path; and that credentials are in the environment, which jobs and tasks inherit.\n\
         {WARNING_S} s before its time limit the coordinator stops its workers and gives the lease\n\
         back. It is not requeued: one that was killed leaves a lease, which has to expire first.\n"
    );
    let mut text = "#!/bin/bash\n".to_owned();
    text.push_str(&script.preamble("Slurm", &rest));
    for directive in directives(script, options, coordinator_time) {
        text.push_str(&format!("#SBATCH {directive}\n"));
    }
    if coordinator_time.is_none() {
        text.push_str("##SBATCH --time=1-00:00:00\n");
    }
    text.push_str("\n# In the place of the shell, so that signals reach it.\n");
    let first = format!("exec {} upgrade {}", quoted(program), quoted(&script.root));
    text.push_str(&shell_command(&first, &arguments(script, options)));
    text.push('\n');
    text
}

/// What the coordinator asks for itself.
fn directives(
    script: &Script,
    options: &SlurmOptions,
    coordinator_time: Option<&str>,
) -> Vec<String> {
    let mut directives = vec![
        format!("--job-name={}", script.name),
        "--ntasks=1".to_owned(),
        "--cpus-per-task=1".to_owned(),
        format!("--mem={}M", script.memory_mib),
        format!("--output={}-%j.log", script.name),
        format!("--signal=B:TERM@{WARNING_S}"),
        "--no-requeue".to_owned(),
    ];
    let asked = [
        ("--partition", options.partition.as_deref()),
        ("--account", options.account.as_deref()),
        ("--time", coordinator_time),
    ];
    let asked = asked
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", quoted(value?))));
    directives.extend(asked);
    directives
}

/// The arguments of the coordinator after the root.
fn arguments(script: &Script, options: &SlurmOptions) -> Vec<Vec<String>> {
    let pair = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
    let mut arguments = vec![pair("--fleet", &format!("slurm:{}", script.workers))];
    if let Some(run_dir) = &script.run_dir {
        arguments.push(pair("--run-dir", run_dir));
    }
    let asked = [
        ("--partition", &options.partition),
        ("--account", &options.account),
        ("--time", &options.time),
    ];
    for (name, value) in asked {
        arguments.extend(value.as_ref().map(|value| pair(name, value)));
    }
    arguments.push(pair("--mem", &format!("{}M", script.memory_mib)));
    let cpus = format!("--cpus-per-task={}", script.cpus);
    for argument in std::iter::once(&cpus).chain(&options.extra) {
        arguments.push(vec![format!("--sbatch-arg={argument}")]);
    }
    for file in &script.files {
        arguments.push(pair(file.option, &file.path));
    }
    arguments.extend(script.options.iter().cloned());
    arguments
}
