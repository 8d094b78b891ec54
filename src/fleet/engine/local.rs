//! Workers as processes of this machine.

use std::collections::{BTreeMap, VecDeque};
use std::process::{ExitStatus, Stdio};

use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::{EngineError, Known, Tasks};

/// Bytes kept of what a worker says, from the end.
const LAST_WORDS: usize = 4096;

/// Processes, so many at once.
pub(in crate::fleet) struct Local {
    tasks: Tasks,
    waiting: VecDeque<u32>,
    working: BTreeMap<u32, Worker>,
}

struct Worker {
    process: Child,
    words: JoinHandle<Vec<u8>>,
}

impl Local {
    pub(super) fn new(tasks: Tasks) -> Self {
        Self {
            tasks,
            waiting: VecDeque::new(),
            working: BTreeMap::new(),
        }
    }

    pub(super) fn submit(&mut self, parts: &[u32]) {
        self.waiting.extend(parts);
    }

    pub(super) async fn look(&mut self) -> Result<Known, EngineError> {
        let mut known = Known::default();
        // A process that cannot be asked about is waited for.
        let ended = self.working.iter_mut().filter_map(|(part, worker)| {
            let status = worker.process.try_wait().ok().flatten()?;
            Some((*part, status))
        });
        for (part, status) in ended.collect::<Vec<_>>() {
            if let Some(worker) = self.working.remove(&part) {
                known.ended.insert(part, last_words(status, worker).await);
            }
        }
        while self.working.len() < self.tasks.workers {
            let Some(part) = self.waiting.pop_front() else {
                break;
            };
            let worker = self.start(part)?;
            self.working.insert(part, worker);
        }
        known.alive = self.waiting.len() + self.working.len();
        Ok(known)
    }

    fn start(&self, part: u32) -> Result<Worker, EngineError> {
        let program = self.tasks.program.display().to_string();
        let cannot = |reason: &dyn std::fmt::Display| EngineError::Program {
            program: program.clone(),
            reason: reason.to_string(),
        };
        let mut process = Command::new(&self.tasks.program)
            .args(["worker", "--run", &self.tasks.array, "--part"])
            .arg(part.to_string())
            .args(["--progress", "none"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| cannot(&error))?;
        let mut said = process
            .stderr
            .take()
            .ok_or_else(|| cannot(&"its stderr cannot be read"))?;
        let words = tokio::spawn(async move {
            let (mut words, mut some) = (Vec::new(), [0; LAST_WORDS]);
            while let Ok(n @ 1..) = said.read(&mut some).await {
                words.extend_from_slice(&some[..n]);
                let surplus = words.len().saturating_sub(LAST_WORDS);
                words.drain(..surplus);
            }
            words
        });
        Ok(Worker { process, words })
    }

    /// The signal is that of the `kill` program: a process can be asked to end only by it.
    pub(super) fn stop(&mut self) {
        self.waiting.clear();
        for worker in self.working.values() {
            let Some(pid) = worker.process.id() else {
                continue;
            };
            let asked = std::process::Command::new("kill")
                .args(["-TERM", &pid.to_string()])
                .stderr(Stdio::null())
                .status();
            if let Err(error) = asked {
                tracing::warn!(pid, %error, "a worker could not be asked to end; it ends when the lease is given back");
            }
        }
    }

    pub(super) async fn kill(&mut self) {
        self.waiting.clear();
        for worker in self.working.values_mut() {
            // One that has ended cannot be killed.
            let _ = worker.process.kill().await;
        }
        self.working.clear();
    }
}

/// How a worker ended, and the last thing it complained of.
async fn last_words(status: ExitStatus, worker: Worker) -> String {
    let words = worker.words.await.unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    match words.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{status}: {}", line.trim()),
        None => status.to_string(),
    }
}
