//! The processes of a fleet, and what can be seen of them from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use zagg_stream::time::parse_iso;

use crate::common::cases::{Case, Law};
use crate::common::compare::assert_all;
use crate::common::library::LEASE;
use crate::common::stores::Tree;

/// A test that waits longer than this waits in vain.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until there is something to see.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Fails unless the store is what one process makes of the case under the published law.
#[track_caller]
pub(crate) fn assert_upgraded(case: &Case, mut tree: Tree) {
    assert!(!tree.contains_key(LEASE), "the lease is given back");
    tree.retain(|key, _| !key.starts_with("upgrade_"));
    assert_all(&case.upgraded(Law::Boundary), &tree);
}

/// A settings file with this text in `dir`.
pub(crate) fn settings_file(dir: &Path, toml: &str) -> PathBuf {
    let path = dir.join("settings.toml");
    fs::write(&path, toml).unwrap();
    path
}

/// Process ids of the workers that are children of this process.
pub(crate) fn workers_of(coordinator: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(coordinator) && is_worker(*pid))
        .collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

fn is_worker(pid: u32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split('\0').nth(1) == Some("worker")
}

/// The process that is at a part of an array, by the lease of the part.
pub(crate) fn worker_at(run_dir: &str, array: &str, part: u32) -> Option<u32> {
    let lease = format!("{run_dir}/{array}/leases/{part:05}/{LEASE}");
    let lease: Value = serde_json::from_slice(&fs::read(lease).ok()?).unwrap();
    // Its name ends in its process id and a number that it drew.
    lease["run_id"].as_str()?.rsplit('-').nth(1)?.parse().ok()
}

/// Sends a signal, such as `KILL`; whether there was a process to take it.
pub(crate) fn signal(pid: u32, name: &str) -> bool {
    let sent = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .stderr(std::process::Stdio::null())
        .status();
    sent.unwrap().success()
}

/// What somebody saw who looked at a lease again and again.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The runs that held it, each once.
    pub(crate) run_ids: Vec<String>,
    /// Whether it was gone between two looks that saw it.
    pub(crate) has_gap: bool,
    /// The greatest age of a heartbeat, in seconds.
    pub(crate) oldest_s: i64,
    /// Looks that saw it.
    pub(crate) looks: u64,
}

/// Somebody who looks at a lease on disk.
pub(crate) struct Watcher {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Watcher {
    /// Looks at the lease at `path` from now on.
    pub(crate) fn start(path: PathBuf) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = over.clone();
        let thread = thread::spawn(move || {
            let (mut seen, mut gone) = (Seen::default(), false);
            while !told.load(Ordering::Relaxed) {
                // It is replaced whole, so it is never read half written.
                match fs::read(&path) {
                    Ok(bytes) => {
                        seen.has_gap |= gone;
                        seen.look(&serde_json::from_slice(&bytes).unwrap());
                    }
                    Err(_) => gone = seen.looks > 0,
                }
                thread::sleep(Duration::from_millis(2));
            }
            seen
        });
        Self { over, thread }
    }

    /// What was seen.
    pub(crate) fn stop(self) -> Seen {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

impl Seen {
    fn look(&mut self, lease: &Value) {
        self.looks += 1;
        let text = |key: &str| lease[key].as_str().unwrap().to_owned();
        if self.run_ids.last() != Some(&text("run_id")) {
            self.run_ids.push(text("run_id"));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let heartbeat = parse_iso(&text("heartbeat_at")).unwrap();
        self.oldest_s = self.oldest_s.max(now.as_secs() as i64 - heartbeat);
    }
}
