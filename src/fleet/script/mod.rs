//! What an operator submits to have an upgrade done by a fleet: a script or a manifest as
//! text, from options. No I/O.

mod aws_batch;
mod kubernetes;
mod slurm;

use std::fmt::Write;

use super::engine::{SlurmOptions, quoted};
use crate::VERSION;
use crate::store::examine::SCRATCH;

/// What the program is called where it is on the PATH.
const PROGRAM: &str = "zagg-stream";

/// The longest name of jobs; Kubernetes appends to it, and a label has 63 letters.
const MAX_NAME: usize = 40;

/// Children that an array job of AWS Batch may have.
const BATCH_CHILDREN: std::ops::RangeInclusive<usize> = 2..=10_000;

/// Why there is no script.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScriptError {
    /// An address that only this machine can open.
    #[error(
        "{what} `{address}` is on this machine, where the containers of {engine} cannot reach it; give the URL of a bucket, such as s3://bucket/product"
    )]
    Local {
        /// Whose address it is.
        what: &'static str,
        /// The address.
        address: String,
        /// Who would have to open it.
        engine: &'static str,
    },
    /// A name that not every scheduler takes.
    #[error(
        "--name `{0}` cannot name jobs: up to {MAX_NAME} of a-z, 0-9 and `-`, the first a letter and the last no `-`"
    )]
    Name(String),
    /// More or fewer workers than one array job can have.
    #[error("--workers {0}: an array job of AWS Batch has {first} to {last} children; for one worker, run `upgrade` without a fleet", first = BATCH_CHILDREN.start(), last = BATCH_CHILDREN.end())]
    Children(usize),
    /// A file that cannot be sent along.
    #[error(
        "{option} names a file, which AWS Batch has no place for: {cure}, and leave {option} out here"
    )]
    File {
        /// The option.
        option: &'static str,
        /// What does instead.
        cure: &'static str,
    },
}

/// What every script says.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// What the jobs are called.
    pub name: String,
    /// Address of the store.
    pub root: String,
    /// Where the run leaves word, if that was said.
    pub run_dir: Option<String>,
    /// Workers at once.
    pub workers: usize,
    /// Memory of each process.
    pub memory_mib: u64,
    /// Cores of a worker.
    pub cpus: u32,
    /// Further options of `upgrade`, each with its value.
    pub options: Vec<Vec<String>>,
    /// Files that `upgrade` reads.
    pub files: Vec<SentFile>,
}

/// A file of the machine where the script is printed.
#[derive(Debug, Clone)]
pub(crate) struct SentFile {
    /// The option of `upgrade` that names it.
    pub option: &'static str,
    /// Where it is.
    pub path: String,
    /// What it is called where it is sent.
    pub name: &'static str,
    /// What is in it.
    pub text: String,
    /// What an operator does where it cannot be sent.
    pub cure: &'static str,
}

/// Who is to run the jobs, and what only they ask for.
#[derive(Debug, Clone)]
pub(crate) enum Scheduler {
    /// Slurm: the program at this path on every node.
    Slurm {
        /// Of the arrays.
        options: SlurmOptions,
        /// `--time` of the coordinator.
        coordinator_time: Option<String>,
        /// Absolute.
        program: String,
    },
    /// Kubernetes.
    Kubernetes {
        /// The image that has the program.
        image: String,
    },
    /// AWS Batch.
    AwsBatch {
        /// The image that has the program.
        image: String,
        /// Where jobs are submitted.
        queue: String,
        /// What the containers may do.
        role: Option<String>,
    },
}

/// The script.
///
/// # Errors
/// When the scheduler could not run it.
pub(crate) fn text(script: &Script, scheduler: &Scheduler) -> Result<String, ScriptError> {
    script.check_name()?;
    match scheduler {
        Scheduler::Slurm {
            options,
            coordinator_time,
            program,
        } => Ok(slurm::script(
            script,
            options,
            coordinator_time.as_deref(),
            program,
        )),
        Scheduler::Kubernetes { image } => {
            script.check_addresses("Kubernetes")?;
            Ok(kubernetes::manifest(script, image))
        }
        Scheduler::AwsBatch { image, queue, role } => {
            script.check_addresses("AWS Batch")?;
            if !BATCH_CHILDREN.contains(&script.workers) {
                return Err(ScriptError::Children(script.workers));
            }
            if let Some(file) = script.files.first() {
                return Err(ScriptError::File {
                    option: file.option,
                    cure: file.cure,
                });
            }
            Ok(aws_batch::script(script, image, queue, role.as_deref()))
        }
    }
}

impl Script {
    fn check_name(&self) -> Result<(), ScriptError> {
        let name = self.name.as_str();
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && !name.ends_with('-')
            && name.chars().all(is_plain)
            && name.len() <= MAX_NAME;
        match is_name {
            true => Ok(()),
            false => Err(ScriptError::Name(name.to_owned())),
        }
    }

    fn check_addresses(&self, engine: &'static str) -> Result<(), ScriptError> {
        let run_dir = self.run_dir.iter().map(|dir| ("--run-dir", dir));
        for (what, address) in std::iter::once(("the root", &self.root)).chain(run_dir) {
            if !address.contains("://") || address.starts_with("file:") {
                return Err(ScriptError::Local {
                    what,
                    address: address.clone(),
                    engine,
                });
            }
        }
        Ok(())
    }

    /// The run directory that both the coordinator and its workers are told. A store has one
    /// run at a time, so one directory of it will do.
    fn shared_run_dir(&self) -> String {
        let below_root = || format!("{}/{SCRATCH}/run", self.root.trim_end_matches('/'));
        self.run_dir.clone().unwrap_or_else(below_root)
    }

    /// Arguments of the coordinator of workers that somebody else starts.
    fn coordinator(&self, files_at: &str) -> Vec<String> {
        let mut args = vec!["upgrade".to_owned(), self.root.clone()];
        args.extend(["--fleet".to_owned(), format!("manual:{}", self.workers)]);
        args.extend(["--run-dir".to_owned(), self.shared_run_dir()]);
        for file in &self.files {
            args.extend([file.option.to_owned(), format!("{files_at}/{}", file.name)]);
        }
        args.extend(self.options.iter().flatten().cloned());
        args
    }

    /// Arguments of each worker, which knows its number from its environment.
    fn worker(&self) -> Vec<String> {
        ["worker", "--run", &self.shared_run_dir(), "--follow"]
            .map(str::to_owned)
            .to_vec()
    }

    /// What every script says of itself; `rest` are the lines that only one engine has.
    fn preamble(&self, engine: &str, rest: &str) -> String {
        let mut text = String::new();
        let root = one_line(&self.root);
        let said = format!(
            "One upgrade of {root} by a fleet on {engine}: a coordinator, and {} workers\n\
             under its lease. Printed by `{PROGRAM} fleet script` of {VERSION}.\n\n{rest}",
            self.workers
        );
        for line in said.trim_end().lines() {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}", format!("# {line}").trim_end());
        }
        text
    }
}

/// An address that cannot end a comment.
fn one_line(address: &str) -> String {
    let is_safe = |c: char| !c.is_control() && !matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
    address
        .chars()
        .map(|c| if is_safe(c) { c } else { '\u{fffd}' })
        .collect()
}

/// A command of a shell, an argument with its value on a line.
fn shell_command(first: &str, rest: &[Vec<String>]) -> String {
    let words = |group: &Vec<String>| {
        let words: Vec<String> = group.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    };
    let mut lines = vec![first.to_owned()];
    lines.extend(rest.iter().map(words));
    lines.join(" \\\n  ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn example() -> Script {
        Script {
            name: "zagg-stream".to_owned(),
            root: "s3://bucket/product".to_owned(),
            run_dir: None,
            workers: 8,
            memory_mib: 2048,
            cpus: 2,
            options: vec![vec!["--fold-law".to_owned(), "raw".to_owned()]],
            files: Vec::new(),
        }
    }

    fn on_kubernetes(script: &Script) -> Result<String, ScriptError> {
        let image = "registry/zagg:1".to_owned();
        text(script, &Scheduler::Kubernetes { image })
    }

    #[test]
    fn a_directory_of_this_machine_is_refused_where_containers_work() {
        for address in ["/data/product", "product", "file:///data/product"] {
            let root = Script {
                root: address.to_owned(),
                ..example()
            };
            let run_dir = Script {
                run_dir: Some(address.to_owned()),
                ..example()
            };
            for script in [root, run_dir] {
                let error = on_kubernetes(&script).unwrap_err();
                assert!(matches!(error, ScriptError::Local { .. }), "{error}");
            }
        }
    }

    #[test]
    fn a_name_is_one_that_every_scheduler_takes() {
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", "A", "1a", "a-", "a_b", "a b", "ä", &long] {
            let script = Script {
                name: name.to_owned(),
                ..example()
            };
            assert_eq!(
                on_kubernetes(&script),
                Err(ScriptError::Name(name.to_owned()))
            );
        }
    }

    #[test]
    fn workers_wait_where_the_coordinator_leaves_word() {
        for (root, run_dir) in [
            ("s3://bucket/product", None),
            ("s3://bucket/product/", None),
            ("s3://bucket/product", Some("gs://other/run")),
        ] {
            let script = Script {
                root: root.to_owned(),
                run_dir: run_dir.map(str::to_owned),
                ..example()
            };
            let after = |args: Vec<String>, name: &str| {
                let mut args = args.into_iter().skip_while(|arg| arg != name);
                args.nth(1).unwrap()
            };
            let dir = after(script.coordinator("/files"), "--run-dir");
            assert_eq!(dir, after(script.worker(), "--run"));
            assert_eq!(
                dir,
                run_dir.unwrap_or("s3://bucket/product/.zagg-stream/run")
            );
        }
    }

    #[test]
    fn a_root_cannot_end_a_comment() {
        let script = Script {
            root: "s3://b/x\nrm -rf /\u{2028}y".to_owned(),
            ..example()
        };
        let preamble = script.preamble("Slurm", "");
        assert!(preamble.lines().all(|line| line.starts_with('#')));
        assert!(!preamble.contains('\u{2028}'));
    }
}
