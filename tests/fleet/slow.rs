//! A fleet over an S3 server that is slow enough to be caught in the middle.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::binary::{Running, Zagg};
use crate::common::bucket::Bucket;
use crate::common::faults::{Op, Rule};
use crate::common::fleet::{settings_file, wait_for, worker_at};
use crate::common::s3::S3Server;
use crate::common::stores::Tree;

/// Below a column.
const COLUMN: &str = ".pyramid.zarr/";

/// The root document of a column, written bare, then with its record, then with its stamp.
pub(crate) const ROOT_DOCUMENT: &str = ".pyramid.zarr/zarr.json";

/// A fleet over a slow server.
pub(crate) struct Fleet {
    pub(crate) server: S3Server,
    pub(crate) bucket: Bucket,
    dir: TempDir,
    settings: PathBuf,
}

impl Fleet {
    /// A store of this tree, each write of whose columns takes so long.
    pub(crate) fn over(tree: &Tree, name: &str, ttl_s: u64, stall: Duration) -> Self {
        let server = S3Server::start();
        let bucket = server.bucket(name, tree);
        server.follow([Rule::on([Op::Put]).key_contains(COLUMN).stall(stall)]);
        let dir = TempDir::new().unwrap();
        let retry = "[retry]\nmax_attempts = 3\ninitial_delay_ms = 10\nmax_delay_ms = 50";
        let settings = settings_file(dir.path(), &format!("lease_ttl_s = {ttl_s}\n{retry}"));
        Self {
            server,
            bucket,
            dir,
            settings,
        }
    }

    pub(crate) fn run_dir(&self) -> String {
        format!("{}/run", self.dir.path().display())
    }

    /// `upgrade` with this fleet, which leaves word in a directory of this machine.
    pub(crate) fn start(&self, fleet: &str) -> Running {
        let upgrade = self.bucket.command("upgrade").arg("--settings");
        let upgrade = upgrade.arg(&self.settings).args(&["--fleet", fleet]);
        upgrade.args(&["--run-dir", &self.run_dir()]).start()
    }

    /// The words after the program's name of an `upgrade` with this fleet.
    pub(crate) fn line(&self, fleet: &str) -> Vec<String> {
        let settings = self.settings.display().to_string();
        let words = ["upgrade", &self.bucket.url(), "--fleet", fleet];
        let rest = ["--settings", &settings, "--run-dir", &self.run_dir()];
        words
            .iter()
            .chain(&rest)
            .map(|word| (*word).to_owned())
            .collect()
    }

    /// The run whose columns are planned.
    pub(crate) fn planned_by(&self) -> Option<String> {
        let plan = std::fs::read(format!("{}/columns/plan.json", self.run_dir())).ok()?;
        let plan: Value = serde_json::from_slice(&plan).ok()?;
        Some(plan["run_id"].as_str()?.to_owned())
    }

    /// A worker started by hand.
    pub(crate) fn worker(&self, args: &[&str]) -> Running {
        let worker = self.bucket.environment(Zagg::new("worker"));
        worker.arg("--json").args(args).start()
    }

    pub(crate) fn follower(&self, index: u32) -> Running {
        let index = index.to_string();
        self.worker(&["--run", &self.run_dir(), "--follow", "--part", &index])
    }

    /// A worker for one part of the columns, once they are planned.
    pub(crate) fn worker_at(&self, part: &str) -> Running {
        let columns = format!("{}/columns", self.run_dir());
        let plan = format!("{columns}/plan.json");
        wait_for("the plan", || std::fs::exists(&plan).unwrap().then_some(()));
        self.worker(&["--run", &columns, "--part", part])
    }

    pub(crate) fn tree(&self) -> Tree {
        self.server.tree(&self.bucket)
    }

    /// The process that is at a part of the columns.
    pub(crate) fn at_part(&self, part: u32) -> Option<u32> {
        worker_at(&self.run_dir(), "columns", part)
    }

    pub(crate) fn has_part(&self, part: u32) -> bool {
        std::fs::exists(format!("{}/columns/parts/{part:05}.json", self.run_dir())).unwrap()
    }

    pub(crate) fn is_done(&self, part: u32) -> bool {
        let report = format!("{}/columns/reports/{part:05}.json", self.run_dir());
        let report = std::fs::read(report).ok();
        report.is_some_and(|report| {
            let report: Value = serde_json::from_slice(&report).unwrap();
            !report["ended"].is_null()
        })
    }

    /// Columns whose stamp stands.
    pub(crate) fn stamped(&self) -> usize {
        let tree = self.tree();
        let roots = tree.iter().filter(|(key, _)| key.ends_with(ROOT_DOCUMENT));
        roots
            .filter(|(_, bytes)| contains(bytes, b"morton_hive_commit"))
            .count()
    }

    /// Columns that somebody has begun and not stamped.
    pub(crate) fn unfinished(&self) -> usize {
        let tree = self.tree();
        let roots = tree.iter().filter(|(key, _)| key.ends_with(ROOT_DOCUMENT));
        roots
            .filter(|(_, bytes)| !contains(bytes, b"morton_hive_commit"))
            .count()
    }

    /// Waits until a column is under way.
    pub(crate) fn wait_for_a_column(&self) {
        wait_for("a column", || {
            self.tree()
                .keys()
                .any(|key| key.contains(COLUMN))
                .then_some(())
        });
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
