//! Workers as tasks of Slurm job arrays, by the programs an operator would use.

use std::collections::{BTreeMap, BTreeSet};

use tokio::process::Command;

use super::{EngineError, Hired, Known};

/// Seconds before its time limit at which a worker is asked to end.
const WARNING_S: u32 = 60;

/// What the operator asks of Slurm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmOptions {
    /// `--partition`.
    pub partition: Option<String>,
    /// `--account`.
    pub account: Option<String>,
    /// `--time`, the limit of one part.
    pub time: Option<String>,
    /// `--mem`, of one worker.
    pub memory: Option<String>,
    /// Whatever else `sbatch` is to be given.
    pub extra: Vec<String>,
}

/// Job arrays.
pub(in crate::fleet) struct Slurm {
    options: SlurmOptions,
    hired: Hired,
    /// What the jobs are called.
    name: String,
    /// Address of the array's directory.
    array: String,
    jobs: Vec<String>,
    /// The cluster they are at, where there are several.
    cluster: Option<String>,
    /// Parts that have a task, by job and index.
    submitted: BTreeSet<(String, u32)>,
    /// Tasks that somebody holds back, of which has been told.
    held: BTreeSet<(String, u32)>,
}

impl SlurmOptions {
    /// The options as they are given to `sbatch`.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let named = [
            ("--partition", &self.partition),
            ("--account", &self.account),
            ("--time", &self.time),
            ("--mem", &self.memory),
        ];
        let named = named
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
        named.chain(self.extra.iter().cloned()).collect()
    }
}

impl Slurm {
    pub(super) fn new(options: SlurmOptions, hired: Hired) -> Self {
        Self {
            options,
            hired,
            name: String::new(),
            array: String::new(),
            jobs: Vec::new(),
            cluster: None,
            submitted: BTreeSet::new(),
            held: BTreeSet::new(),
        }
    }

    pub(super) fn begin(&mut self, array: &str, dir: &str) {
        self.name = format!("zagg-{array}");
        self.array = dir.to_owned();
        self.jobs.clear();
        self.held.clear();
        self.submitted.clear();
    }

    pub(super) async fn submit(&mut self, parts: &[u32]) -> Result<(), EngineError> {
        if parts.is_empty() {
            return Ok(());
        }
        let listed: Vec<String> = parts.iter().map(u32::to_string).collect();
        let program = quoted(&self.hired.program.display().to_string());
        let mut args = vec![
            "--parsable".to_owned(),
            format!("--job-name={}", self.name),
            format!("--array={}%{}", listed.join(","), self.hired.workers),
            format!("--signal=B:TERM@{WARNING_S}"),
            "--requeue".to_owned(),
            "--output=/dev/null".to_owned(),
        ];
        args.extend(self.options.to_args());
        args.push("--wrap".to_owned());
        // The worker takes the place of the shell, so that signals reach it.
        args.push(format!(
            "exec {program} worker --run {}",
            quoted(&self.array)
        ));
        let job = ask("sbatch", &args).await?;
        // With several clusters it is `id;cluster`.
        let mut said = job.trim().splitn(2, ';');
        let job = said.next().unwrap_or_default().to_owned();
        self.cluster = said.next().map(str::to_owned);
        self.submitted
            .extend(parts.iter().map(|part| (job.clone(), *part)));
        self.jobs.push(job);
        Ok(())
    }

    /// Tasks that the queue does not show have ended, and so have those that will not begin
    /// again. A queue that cannot be asked is asked again the next time.
    pub(super) async fn look(&mut self) -> Known {
        let mut known = Known::default();
        let mut args = vec![
            "--noheader".to_owned(),
            "--array".to_owned(),
            "--format=%F %K %r".to_owned(),
            format!("--jobs={}", self.jobs.join(",")),
        ];
        args.extend(self.at_cluster());
        let queue = match ask("squeue", &args).await {
            Ok(queue) => queue,
            // So it says of jobs that ended a while ago.
            Err(EngineError::Refused { said, .. }) if said.contains("Invalid job id") => {
                String::new()
            }
            Err(error) => {
                tracing::warn!(%error, "the queue cannot be looked at, trying again");
                known.alive = self.submitted.len();
                return known;
            }
        };
        let tasks: BTreeMap<(String, u32), &str> = queue.lines().filter_map(task).collect();
        for task in std::mem::take(&mut self.submitted) {
            let (job, part) = &task;
            let reason = tasks.get(&task).copied();
            let stuck = reason.filter(|reason| is_stuck(reason));
            if let Some(reason) = stuck {
                self.cancel_task(&[], &task).await;
                let words = format!("task {job}_{part} of Slurm will not begin again: {reason}");
                known.ended.insert(*part, words);
                continue;
            }
            let Some(reason) = reason else {
                let words = format!("task {job}_{part} of Slurm ended");
                known.ended.insert(*part, words);
                continue;
            };
            if is_held(reason) && self.held.insert(task.clone()) {
                tracing::warn!(
                    part,
                    reason,
                    "task {job}_{part} of Slurm is held; `scontrol release {job}_{part}` lets it begin"
                );
            }
            self.submitted.insert(task);
        }
        known.alive = self.submitted.len();
        known
    }

    /// Ends the task that is at a part, but none that waits for its turn.
    pub(super) async fn end(&mut self, part: u32) {
        let tasks: Vec<_> = self
            .submitted
            .iter()
            .filter(|task| task.1 == part)
            .cloned()
            .collect();
        for task in tasks {
            self.cancel_task(&["--state=RUNNING"], &task).await;
        }
    }

    async fn cancel_task(&self, how: &[&str], (job, part): &(String, u32)) {
        self.cancel_all(how, &[format!("{job}_{part}")]).await;
    }

    fn at_cluster(&self) -> Option<String> {
        let cluster = self.cluster.as_ref()?;
        Some(format!("--clusters={cluster}"))
    }

    pub(super) async fn stop(&mut self) {
        self.cancel(&["--state=PENDING"]).await;
        self.cancel(&["--signal=TERM", "--batch"]).await;
    }

    pub(super) async fn kill(&mut self) {
        self.cancel(&[]).await;
    }

    async fn cancel(&self, how: &[&str]) {
        self.cancel_all(how, &self.jobs).await;
    }

    async fn cancel_all(&self, how: &[&str], which: &[String]) {
        if which.is_empty() {
            return;
        }
        let mut args: Vec<String> = how.iter().map(|arg| (*arg).to_owned()).collect();
        args.extend(self.at_cluster());
        args.extend(which.iter().cloned());
        if let Err(error) = ask("scancel", &args).await {
            // It says so, too, when there is nothing left to cancel.
            tracing::debug!(%error, "not cancelled");
        }
    }
}

/// The job and the index of a line of the queue, and why its task waits.
fn task(line: &str) -> Option<((String, u32), &str)> {
    let mut words = line.trim().splitn(3, ' ');
    let (job, index) = (words.next()?, words.next()?);
    let reason = words.next().unwrap_or_default().trim();
    Some(((job.to_owned(), index.trim().parse().ok()?), reason))
}

/// Whether a task that waits for this reason was put back by Slurm, and waits for good.
fn is_stuck(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    reason.contains("requeue") && (reason.contains("held") || reason.contains("hold"))
}

/// Whether somebody has to release a task that waits for this reason.
fn is_held(reason: &str) -> bool {
    reason.to_ascii_lowercase().contains("held")
}

/// Runs a program of Slurm; what it said. What the environment has `squeue` and `scancel` leave
/// out would look like tasks that have ended.
async fn ask(program: &str, args: &[String]) -> Result<String, EngineError> {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if ["SQUEUE_", "SCANCEL_"]
            .iter()
            .any(|filter| name.starts_with(filter))
        {
            command.env_remove(&*name);
        }
    }
    let done = command.args(args).output().await;
    let done = done.map_err(|error| EngineError::Program {
        program: program.to_owned(),
        reason: error.to_string(),
    })?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(said);
    }
    let complaint = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(EngineError::Refused {
        command: format!("{program} {}", args.join(" ")),
        said: complaint,
    })
}

/// One word for a shell.
pub(in crate::fleet) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word_of_a_shell() {
        for word in [
            "",
            "plain/path",
            "with space",
            "it's",
            "$HOME `x` \"q\" \\ ;",
        ] {
            let said = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
        }
    }

    #[test]
    fn a_line_of_the_queue_is_a_task() {
        let third = ("17".to_owned(), 3);
        assert_eq!(task(" 17 3 None"), Some((third.clone(), "None")));
        assert_eq!(task("17 3"), Some((third.clone(), "")));
        let held = "launch failed requeued held";
        assert_eq!(task(&format!("17 3 {held}")), Some((third, held)));
        assert_eq!(task("17 3-5%2 None"), None);
    }

    #[test]
    fn a_task_that_is_put_back_for_good_is_told_from_one_that_waits() {
        for reason in ["launch_failed_requeued_held", "JobHoldMaxRequeue"] {
            assert!(is_stuck(reason), "{reason}");
        }
        for reason in ["Resources", "BeginTime", "JobHeldUser", "None", ""] {
            assert!(!is_stuck(reason), "{reason}");
        }
        assert!(is_held("JobHeldUser") && !is_held("Priority"));
    }
}
