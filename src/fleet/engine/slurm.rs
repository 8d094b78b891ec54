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
    /// Parts that have a task, by job and index.
    submitted: BTreeSet<(String, u32)>,
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
            submitted: BTreeSet::new(),
        }
    }

    pub(super) fn begin(&mut self, array: &str, dir: &str) {
        self.name = format!("zagg-{array}");
        self.array = dir.to_owned();
        self.jobs.clear();
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
        let job = job.split(';').next().unwrap_or_default().trim().to_owned();
        self.submitted
            .extend(parts.iter().map(|part| (job.clone(), *part)));
        self.jobs.push(job);
        Ok(())
    }

    /// Tasks that the queue does not show have ended. A queue that cannot be asked is asked
    /// again the next time.
    pub(super) async fn look(&mut self) -> Known {
        let mut known = Known::default();
        let args = [
            "--noheader".to_owned(),
            "--array".to_owned(),
            "--format=%F %K".to_owned(),
            format!("--jobs={}", self.jobs.join(",")),
        ];
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
        let alive: BTreeSet<(String, u32)> = queue.lines().filter_map(task).collect();
        let (alive, ended): (BTreeSet<_>, BTreeSet<_>) = std::mem::take(&mut self.submitted)
            .into_iter()
            .partition(|task| alive.contains(task));
        known.alive = alive.len();
        self.submitted = alive;
        known.ended = ended
            .into_iter()
            .map(|(job, part)| (part, format!("task {job}_{part} of Slurm ended")))
            .collect::<BTreeMap<_, _>>();
        known
    }

    pub(super) async fn stop(&mut self) {
        self.cancel(&["--state=PENDING"]).await;
        self.cancel(&["--signal=TERM", "--batch"]).await;
    }

    pub(super) async fn kill(&mut self) {
        self.cancel(&[]).await;
    }

    async fn cancel(&self, how: &[&str]) {
        if self.jobs.is_empty() {
            return;
        }
        let mut args: Vec<String> = how.iter().map(|arg| (*arg).to_owned()).collect();
        args.extend(self.jobs.iter().cloned());
        if let Err(error) = ask("scancel", &args).await {
            // It says so, too, when there is nothing left to cancel.
            tracing::debug!(%error, "not cancelled");
        }
    }
}

/// The job and the index of a line of the queue.
fn task(line: &str) -> Option<(String, u32)> {
    let (job, index) = line.trim().split_once(' ')?;
    Some((job.to_owned(), index.trim().parse().ok()?))
}

/// Runs a program of Slurm; what it said.
async fn ask(program: &str, args: &[String]) -> Result<String, EngineError> {
    let done = Command::new(program).args(args).output().await;
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
        assert_eq!(task(" 17 3"), Some(("17".to_owned(), 3)));
        assert_eq!(task("17 3-5%2"), None);
    }
}
