//! Workers and coordinators that are killed, stopped, doubled, denied, or asked to end, over
//! an S3 server that is slow enough to be caught in the middle.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::binary::{Running, Zagg};
use crate::common::bucket::Bucket;
use crate::common::cases::{Case, Law};
use crate::common::faults::{Failure, Op, Rule};
use crate::common::fleet::{
    PATIENCE, assert_upgraded, settings_file, signal, wait_for, worker_at, workers_of,
};
use crate::common::library::LEASE;
use crate::common::many::Many;
use crate::common::s3::S3Server;
use crate::common::stores::Tree;

/// Below a column.
const COLUMN: &str = ".pyramid.zarr/";

/// The root document of a column, written bare, then with its record, then with its stamp.
const ROOT_DOCUMENT: &str = ".pyramid.zarr/zarr.json";

/// A fleet over a slow server.
struct Fleet {
    server: S3Server,
    bucket: Bucket,
    dir: TempDir,
    settings: PathBuf,
}

impl Fleet {
    /// A store of this tree, each write of whose columns takes so long.
    fn over(tree: &Tree, name: &str, ttl_s: u64, stall: Duration) -> Self {
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

    fn run_dir(&self) -> String {
        format!("{}/run", self.dir.path().display())
    }

    /// `upgrade` with this fleet, which leaves word in a directory of this machine.
    fn start(&self, fleet: &str) -> Running {
        let upgrade = self.bucket.command("upgrade").arg("--settings");
        let upgrade = upgrade.arg(&self.settings).args(&["--fleet", fleet]);
        upgrade.args(&["--run-dir", &self.run_dir()]).start()
    }

    /// A worker started by hand.
    fn worker(&self, args: &[&str]) -> Running {
        let worker = self.bucket.environment(Zagg::new("worker"));
        worker.arg("--json").args(args).start()
    }

    fn follower(&self, index: u32) -> Running {
        let index = index.to_string();
        self.worker(&["--run", &self.run_dir(), "--follow", "--part", &index])
    }

    /// A worker for one part of the columns, once they are planned.
    fn worker_at(&self, part: &str) -> Running {
        let columns = format!("{}/columns", self.run_dir());
        let plan = format!("{columns}/plan.json");
        wait_for("the plan", || std::fs::exists(&plan).unwrap().then_some(()));
        self.worker(&["--run", &columns, "--part", part])
    }

    fn tree(&self) -> Tree {
        self.server.tree(&self.bucket)
    }

    /// The process that is at a part of the columns.
    fn at_part(&self, part: u32) -> Option<u32> {
        worker_at(&self.run_dir(), "columns", part)
    }

    fn has_part(&self, part: u32) -> bool {
        std::fs::exists(format!("{}/columns/parts/{part:05}.json", self.run_dir())).unwrap()
    }

    fn is_done(&self, part: u32) -> bool {
        let report = format!("{}/columns/reports/{part:05}.json", self.run_dir());
        let report = std::fs::read(report).ok();
        report.is_some_and(|report| {
            let report: Value = serde_json::from_slice(&report).unwrap();
            !report["ended"].is_null()
        })
    }

    /// Columns whose stamp stands.
    fn stamped(&self) -> usize {
        let tree = self.tree();
        let roots = tree.iter().filter(|(key, _)| key.ends_with(ROOT_DOCUMENT));
        roots
            .filter(|(_, bytes)| contains(bytes, b"morton_hive_commit"))
            .count()
    }

    /// Waits until a column is under way.
    fn wait_for_a_column(&self) {
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

#[test]
fn the_part_of_a_worker_that_is_killed_is_done_again() {
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "killed", 15, Duration::from_millis(80));
    let coordinator = fleet.start("local:2");
    fleet.wait_for_a_column();
    let victim = wait_for("a worker", || fleet.at_part(0));
    assert!(signal(victim, "KILL"));
    let output = coordinator.wait().expect_code(0);
    assert!(
        output.stderr.contains("part ended early, it is done again"),
        "{output:?}"
    );
    assert_upgraded(&case, fleet.tree());
}

#[test]
fn a_worker_that_is_asked_to_end_finishes_what_it_writes_and_its_part_is_resumed() {
    let many = Many::leaves(24);
    let fleet = Fleet::over(&many.tree, "asked", 15, Duration::from_millis(60));
    let coordinator = fleet.start("local:1");
    wait_for("a stamp", || (fleet.stamped() > 0).then_some(()));
    let asked = workers_of(coordinator.id());
    assert!(asked.iter().all(|pid| signal(*pid, "TERM")));
    let output = coordinator.wait().expect_code(0);
    assert!(output.stderr.contains("stopped by SIGTERM"), "{output:?}");
    assert_eq!(output.number("/counts/written"), 24, "{output:?}");
    assert_eq!(fleet.stamped(), 24 + stage_columns(&fleet.tree()));
}

/// Columns above the leaves.
fn stage_columns(tree: &Tree) -> usize {
    let leaves = 24;
    tree.keys()
        .filter(|key| key.ends_with(ROOT_DOCUMENT))
        .count()
        - leaves
}

#[test]
fn of_two_workers_at_one_part_one_waits_for_the_other() {
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "doubled", 15, Duration::from_millis(80));
    let coordinator = fleet.start("manual:1");
    let doubles = [fleet.worker_at("0"), fleet.worker_at("0")];
    let outputs = doubles.map(|worker| worker.wait().expect_code(0));
    let waited = outputs
        .iter()
        .filter(|output| output.stderr.contains("somebody is at it"));
    assert_eq!(waited.count(), 1, "{outputs:?}");
    let follower = fleet.follower(1);
    coordinator.wait().expect_code(0);
    follower.wait().expect_code(0);
    assert_upgraded(&case, fleet.tree());
}

#[test]
fn a_coordinator_that_is_killed_stops_its_workers_within_the_ttl_and_the_next_goes_on() {
    const TTL: Duration = Duration::from_secs(5);
    const LEAVES: usize = 60;
    let many = Many::leaves(LEAVES);
    let fleet = Fleet::over(
        &many.tree,
        "headless",
        TTL.as_secs(),
        Duration::from_millis(350),
    );
    let coordinator = fleet.start("manual:2");
    let mut workers = [fleet.follower(0), fleet.follower(1)];
    wait_for("a stamp", || (fleet.stamped() > 0).then_some(()));
    coordinator.signal("KILL");
    let killed = Instant::now();
    let (mut before, mut last_stamp) = (0, killed);
    while !workers.iter_mut().all(Running::has_ended) {
        assert!(
            killed.elapsed() < PATIENCE,
            "the workers go on without a coordinator"
        );
        let stamped = fleet.stamped();
        if stamped > before {
            (before, last_stamp) = (stamped, Instant::now());
        }
    }
    for worker in workers {
        let output = worker.wait().expect_code(4);
        assert!(
            output.text("/error").contains("confirm the lease"),
            "{output:?}"
        );
    }
    // What was sent within the ttl may take as long as the server does.
    let late = Duration::from_secs(2);
    assert!(
        last_stamp - killed <= TTL + late,
        "{:?}",
        last_stamp - killed
    );
    let left = fleet.stamped();
    assert!(0 < left && left < LEAVES, "{left} of {LEAVES} were stamped");

    fleet.server.follow([]);
    // The last second of a lease is live, too.
    let expiry = TTL + Duration::from_secs(2);
    std::thread::sleep(expiry.saturating_sub(killed.elapsed()));
    let next = fleet.bucket.command("upgrade").run().expect_code(0);
    assert!(next.stderr.contains("claimed an expired lease"), "{next:?}");
    assert_eq!(next.number("/counts/current"), left as u64);
    let one = Fleet::over(&many.tree, "alone", 900, Duration::ZERO);
    one.bucket.command("upgrade").run().expect_code(0);
    assert_same_but_when(&one.tree(), &fleet.tree());
}

/// Fails unless two stores hold the same, but for when it was written and by which run, and
/// for sidecars, which come after the stamp and may be missing of what was stamped last.
#[track_caller]
fn assert_same_but_when(one: &Tree, other: &Tree) {
    let of_a_run = |key: &str| key.starts_with("upgrade_") || key.starts_with("sweep_");
    let keys = |tree: &Tree| -> BTreeSet<String> {
        let kept = |key: &&String| !of_a_run(key) && !key.ends_with(".pyramid.stats.json");
        tree.keys().filter(kept).cloned().collect()
    };
    let (keys, others) = (keys(one), keys(other));
    let different: Vec<_> = keys.symmetric_difference(&others).collect();
    assert!(different.is_empty(), "{different:?}");
    for (key, bytes) in one.iter().filter(|(key, _)| key.contains("/c/")) {
        assert!(bytes == &other[key], "{key}");
    }
}

#[test]
fn a_worker_without_a_part_does_not_wait_for_a_coordinator_that_is_killed() {
    const TTL_S: u64 = 4;
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "idle", TTL_S, Duration::from_millis(400));
    let coordinator = fleet.start("manual:1");
    let busy = fleet.worker_at("0");
    fleet.wait_for_a_column();
    busy.signal("STOP");
    let parts: Vec<u32> = (1..4).filter(|part| fleet.has_part(*part)).collect();
    let idle = fleet.follower(1);
    wait_for("the other parts", || {
        parts.iter().all(|part| fleet.is_done(*part)).then_some(())
    });
    coordinator.signal("KILL");
    let output = idle.wait().expect_code(4);
    assert!(
        output.text("/error").contains("confirm the lease"),
        "{output:?}"
    );
}

#[test]
fn a_worker_that_was_stopped_past_the_ttl_stamps_nothing_when_it_goes_on() {
    const TTL: Duration = Duration::from_secs(4);
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "stopped", TTL.as_secs(), Duration::from_millis(400));
    let coordinator = fleet.start("manual:1");
    let worker = fleet.worker_at("0");
    fleet.wait_for_a_column();
    worker.signal("STOP");
    std::thread::sleep(TTL + Duration::from_secs(2));
    assert_eq!(fleet.stamped(), 0, "it was stopped too late");
    worker.signal("CONT");
    let output = worker.wait().expect_code(4);
    assert!(
        output.text("/error").contains("nothing was stamped since"),
        "{output:?}"
    );
    assert_eq!(fleet.stamped(), 0);
    let follower = fleet.follower(0);
    coordinator.wait().expect_code(0);
    follower.wait().expect_code(0);
    assert_upgraded(&case, fleet.tree());
}

#[test]
fn a_store_that_denies_every_worker_is_one_abort() {
    let many = Many::leaves(24);
    let fleet = Fleet::over(&many.tree, "denied", 15, Duration::from_millis(50));
    let coordinator = fleet.start("local:3");
    wait_for("a stamp", || (fleet.stamped() > 0).then_some(()));
    let denied = Rule::on([
        Op::Get,
        Op::Put,
        Op::Delete,
        Op::List,
        Op::ListWithDelimiter,
    ])
    .key(|key| !key.ends_with(LEASE))
    .fail(Failure::Status(403));
    fleet.server.follow([denied]);
    let (id, output) = (coordinator.id(), coordinator.wait().expect_code(4));
    assert_eq!(workers_of(id), Vec::<u32>::new());
    let error = output.text("/error");
    assert!(error.contains("(denied)"), "{error}");
    assert_eq!(
        output.stderr.matches("stopping reason=").count(),
        1,
        "{}",
        output.stderr
    );
    assert!(!fleet.tree().contains_key(LEASE), "the lease is given back");
    assert!(!std::fs::exists(fleet.run_dir()).unwrap() || is_empty(&fleet.run_dir()));
}

fn is_empty(dir: &str) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_part_whose_workers_die_three_times_is_named_and_the_ladder_is_not_begun() {
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "doomed", 15, Duration::from_millis(100));
    let mut coordinator = fleet.start("local:2");
    let mut killed = BTreeSet::new();
    while !coordinator.has_ended() {
        if let Some(pid) = fleet.at_part(0)
            && workers_of(coordinator.id()).contains(&pid)
            && signal(pid, "KILL")
        {
            killed.insert(pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = coordinator.wait().expect_code(1);
    assert_eq!(killed.len(), 3);
    assert_eq!(output.text("/failed_leaves/0/leaf"), "part 0");
    assert!(
        output
            .text("/failed_leaves/0/error")
            .contains("lost 3 times"),
        "{output:?}"
    );
    assert_eq!(output.number("/counts/failed"), 1);
    assert_eq!(
        output.number("/counts/written"),
        case.leaves().len() as u64 - 1
    );
    assert!(output.json()["ladder"].is_null());
    assert!(
        output
            .warnings()
            .iter()
            .any(|warning| warning.contains("ladder waits")),
        "{output:?}"
    );
    let next = fleet.start("local:2").wait().expect_code(0);
    assert_eq!(next.number("/counts/written"), 1);
    assert_upgraded(&case, fleet.tree());
}

#[test]
fn an_interrupted_fleet_drains_and_goes_on_when_it_is_run_again() {
    let many = Many::leaves(24);
    let fleet = Fleet::over(&many.tree, "interrupted", 15, Duration::from_millis(50));
    let coordinator = fleet.start("local:2");
    wait_for("a stamp", || (fleet.stamped() > 0).then_some(()));
    coordinator.signal("INT");
    let (id, output) = (coordinator.id(), coordinator.wait().expect_code(130));
    assert_eq!(workers_of(id), Vec::<u32>::new());
    assert!(!fleet.tree().contains_key(LEASE), "the lease is given back");
    let stamped = fleet.stamped() as u64;
    assert_eq!(output.number("/counts/written"), stamped);
    assert_eq!(output.number("/counts/not_attempted"), 24 - stamped);
    fleet.server.follow([]);
    let next = fleet.start("local:2").wait().expect_code(0);
    assert_eq!(next.number("/counts/current"), stamped);
    assert_eq!(next.number("/counts/written"), 24 - stamped);
}
