//! The library in a process of its own, which stops at a known write and can be killed
//! there as an operator's machine would.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child as Process, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use object_store::local::LocalFileSystem;
use zagg_stream::{Root, Settings, Steps, Upgrade};

use crate::common::faults::{FaultStore, Op, Rule};

/// What the parent asks for.
const ROOT: &str = "FAULT_CHILD_ROOT";
const NTH: &str = "FAULT_CHILD_NTH";
const SETTINGS: &str = "FAULT_CHILD_SETTINGS";
const SHARD: &str = "FAULT_CHILD_SHARD";
const FORCE: &str = "FAULT_CHILD_FORCE";
const LADDER: &str = "FAULT_CHILD_LADDER";

/// Begins what the child says once its write has landed.
const PARKED: &str = "write landed:";

/// Begins what the child says when a later write is held back.
const HELD: &str = "write held back:";

/// A child that takes longer than this hangs.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What a child does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Task {
    /// The write it stops after, the first being 1.
    pub(crate) nth: u64,
    /// Its settings, as TOML.
    pub(crate) settings: String,
    /// The only shard it works on; all when empty.
    pub(crate) shard: String,
    /// Whether it writes columns that are current.
    pub(crate) force: bool,
    /// Whether it builds the ladder, too.
    pub(crate) ladder: bool,
}

/// A child under way; killed when dropped.
pub(crate) struct Child {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Runs the test `name` of this test program, which must call [`work`], over the
    /// store at `root`.
    pub(crate) fn start(name: &str, root: &Path, task: &Task) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture", "--test-threads", "1"])
            .env(ROOT, root)
            .env(NTH, task.nth.to_string())
            .env(SETTINGS, &task.settings)
            .env(SHARD, &task.shard)
            .env(FORCE, if task.force { "1" } else { "" })
            .env(LADDER, if task.ladder { "1" } else { "" })
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        Self {
            process,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// Waits until the write has landed and says which object it was; `None` when the
    /// pass ended without making so many.
    pub(crate) fn parked(&mut self) -> Option<String> {
        self.lines.by_ref().map(Result::unwrap).find_map(|line| {
            let (_, key) = line.split_once(PARKED)?;
            Some(key.trim().to_owned())
        })
    }

    /// Ends the process with SIGKILL.
    pub(crate) fn kill(mut self) {
        use std::os::unix::process::ExitStatusExt;
        const SIGKILL: i32 = 9;
        self.process.kill().unwrap();
        assert_eq!(self.process.wait().unwrap().signal(), Some(SIGKILL));
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Harmless after the end: the process has been waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In the child: a pass that stops for good after its nth write. Every object below
/// the nth has landed by then or is about to, and none after it is begun. Does nothing
/// in a process that is nobody's child.
pub(crate) async fn work() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let task = |name: &str| std::env::var(name).unwrap();
    let nth: u64 = task(NTH).parse().unwrap();
    let disk = LocalFileSystem::new_with_prefix(root)
        .unwrap()
        .with_automatic_cleanup(true);
    let writes = || Rule::on(Op::WRITES);
    let store = FaultStore::new(
        Arc::new(disk),
        [
            writes().from(nth + 1).park(HELD),
            writes().nth(nth).lands().park(PARKED),
        ],
    );
    let mut settings = Settings::from_toml(&task(SETTINGS)).unwrap();
    settings.force = !task(FORCE).is_empty();
    settings.shards = Some(task(SHARD))
        .filter(|shard| !shard.is_empty())
        .into_iter()
        .collect();
    let steps = match task(LADDER).is_empty() {
        true => Steps::Columns,
        false => Steps::All,
    };
    let root = Root::new(Arc::new(store), "memory://parked");
    let pass = Upgrade::new(root)
        .settings(settings)
        .steps(steps)
        .start()
        .await
        .unwrap();
    let report = tokio::time::timeout(TIME_LIMIT, pass.join()).await;
    let report = report.unwrap().unwrap();
    assert_eq!(report.counts.failed, 0, "{report:?}");
}
