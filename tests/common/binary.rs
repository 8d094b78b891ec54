//! The real program, run as an operator runs it.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A run that takes longer than this hangs.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Variables that would lead a run to somebody's account or change what it says.
const FOREIGN_VARIABLES: [&str; 6] = ["AWS_", "AZURE_", "GOOGLE_", "GCP_", "RUST_LOG", "ZAGG_"];

/// A command line of the program in the making.
pub(crate) struct Zagg {
    command: Command,
    line: String,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Output {
    /// The exit code; `None` when a signal ended the run.
    pub(crate) code: Option<i32>,
    /// All of stdout.
    pub(crate) stdout: String,
    /// All of stderr.
    pub(crate) stderr: String,
    line: String,
}

/// A run that is under way; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<String>>,
    line: String,
}

impl Zagg {
    /// The program with one command of its own, such as `backfill`.
    pub(crate) fn new(command: &str) -> Self {
        let mut zagg = Self::bare();
        zagg.push(command);
        zagg
    }

    /// The program without arguments.
    pub(crate) fn bare() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zagg-stream"));
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if FOREIGN_VARIABLES
                .iter()
                .any(|prefix| name.starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        Self {
            command,
            line: "zagg-stream".to_owned(),
        }
    }

    /// `backfill ROOT --json`.
    pub(crate) fn backfill(root: &Path) -> Self {
        Self::new("backfill").arg(root).arg("--json")
    }

    /// One more argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.push(arg.as_ref());
        self
    }

    /// More arguments.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        for arg in args {
            self.push(arg);
        }
        self
    }

    /// One variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    fn push(&mut self, arg: impl AsRef<OsStr>) {
        self.line.push(' ');
        self.line.push_str(&arg.as_ref().to_string_lossy());
        self.command.arg(arg);
    }

    /// Runs to the end. A run that hangs fails the test.
    pub(crate) fn run(self) -> Output {
        self.start().wait()
    }

    /// Starts, and lets the test go on.
    pub(crate) fn start(mut self) -> Running {
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running {
            stdout: child.stdout.take().map(drain),
            stderr: child.stderr.take().map(drain),
            child,
            line: self.line,
        }
    }
}

/// Reads to the end on a thread, so that a full pipe stops nobody.
fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    })
}

impl Running {
    /// Whether the run has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `TERM`, `KILL`, `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .status()
            .unwrap();
        assert!(sent.success(), "cannot send {name} to `{}`", self.line);
    }

    /// Waits for the end. A run that hangs fails the test.
    pub(crate) fn wait(mut self) -> Output {
        let status = self.end();
        let code = status.as_ref().and_then(ExitStatus::code);
        let stdout = self.stdout.take().unwrap().join().unwrap();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        assert!(
            status.is_some(),
            "`{}` hangs; its stderr so far:\n{stderr}",
            self.line
        );
        Output {
            code,
            stdout,
            stderr,
            line: std::mem::take(&mut self.line),
        }
    }

    /// The status, or none when the run had to be killed.
    fn end(&mut self) -> Option<ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < TIME_LIMIT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Harmless after the end: the child has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Output {
    /// This run, which must have ended with `code`.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "exit code of `{}`\nstdout: {}\nstderr: {}",
            self.line,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The one JSON document on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "stdout of `{}` is not one JSON document: {error}\nstdout: {}\nstderr: {}",
                self.line, self.stdout, self.stderr
            )
        })
    }

    /// One number of the JSON document, such as `/counts/written`.
    #[track_caller]
    pub(crate) fn number(&self, pointer: &str) -> u64 {
        let document = self.json();
        document
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_else(|| panic!("no number at {pointer} of {document:#}"))
    }

    /// One text of the JSON document, such as `/error`.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> String {
        let document = self.json();
        document
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("no text at {pointer} of {document:#}"))
            .to_owned()
    }

    /// The warnings of the JSON document.
    #[track_caller]
    pub(crate) fn warnings(&self) -> Vec<String> {
        let document = self.json();
        document["warnings"]
            .as_array()
            .unwrap_or_else(|| panic!("no warnings in {document:#}"))
            .iter()
            .map(|warning| warning.as_str().unwrap().to_owned())
            .collect()
    }
}
