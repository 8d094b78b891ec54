//! A fleet of Slurm job arrays, on a real Slurm.

use std::time::Duration;

use crate::common::binary::{Running, Zagg};
use crate::common::bucket::Bucket;
use crate::common::cases::{Case, Law};
use crate::common::faults::{Op, Rule};
use crate::common::fleet::{assert_upgraded, settings_file, wait_for};
use crate::common::ladder::Ladder;
use crate::common::library::LEASE;
use crate::common::s3::S3Server;
use crate::common::slurm::Cluster;
use tempfile::TempDir;

/// Quick to see a beat.
const SETTINGS: &str = "lease_ttl_s = 15";

#[test]
fn golden_cases_come_out_of_job_arrays_as_of_one_process() {
    let cluster = Cluster::start();
    for (name, law) in [
        ("plain", Law::Boundary),
        ("plain", Law::Raw),
        ("windowed", Law::Boundary),
        ("windowed", Law::Raw),
    ] {
        let ladder = Ladder::published(name, law);
        let store = &ladder.published.store;
        let upgrade = ladder.published.command("upgrade");
        let output = cluster
            .environment(upgrade)
            .args(&["--overviews", &ladder.published.overviews()])
            .args(&["--fold-law", law.name(), "--fleet", "slurm:2"])
            .args(&["--partition", "test", "--mem", "100M", "--time", "10"])
            .arg("--settings")
            .arg(settings_file(store.parent(), SETTINGS))
            .run()
            .expect_code(0);
        ladder.assert_golden();
        let leaves = ladder.case().leaves().len() as u64;
        assert_eq!(output.number("/counts/written"), leaves, "{name}");
        assert!(!store.has(LEASE));
    }
    let jobs = cluster
        .ask("scontrol", &["show", "job", "--oneliner"])
        .stdout;
    let jobs = String::from_utf8(jobs).unwrap();
    assert!(jobs.contains("JobName=zagg-columns"), "{jobs}");
    assert!(jobs.contains("JobName=zagg-ladder"), "{jobs}");
}

/// A run on a slow server, so that its tasks can be caught at work.
struct Slow {
    server: S3Server,
    bucket: Bucket,
    case: Case,
    _dir: TempDir,
    coordinator: Running,
}

impl Slow {
    fn start(cluster: &Cluster, name: &str) -> Self {
        let case = Case::load("plain");
        let server = S3Server::start();
        let bucket = server.bucket(name, &case.declared(Law::Boundary));
        let stall = Duration::from_millis(400);
        server.follow([Rule::on([Op::Put])
            .key_contains(".pyramid.zarr/")
            .stall(stall)]);
        let dir = TempDir::new().unwrap();
        let coordinator = cluster
            .environment(bucket.command("upgrade"))
            .args(&["--fleet", "slurm:2", "--settings"])
            .arg(settings_file(dir.path(), SETTINGS))
            .start();
        Self {
            server,
            bucket,
            case,
            _dir: dir,
            coordinator,
        }
    }

    /// A task that has begun a column.
    fn task_at_work(&self, cluster: &Cluster) -> String {
        wait_for("a column", || {
            let tree = self.server.tree(&self.bucket);
            tree.keys()
                .any(|key| key.contains(".pyramid.zarr/"))
                .then_some(())
        });
        wait_for("a task", || cluster.running().last().cloned())
    }

    /// Fails unless the run ends well, with the golden tree.
    fn ends_well(self) -> String {
        let output = self.coordinator.wait().expect_code(0);
        assert_upgraded(&self.case, self.server.tree(&self.bucket));
        output.stderr
    }
}

#[test]
fn a_task_that_is_requeued_does_its_part_when_its_turn_comes_again() {
    let cluster = Cluster::start();
    let slow = Slow::start(&cluster, "requeued");
    let task = slow.task_at_work(&cluster);
    let requeued = cluster.ask("scontrol", &["requeue", &task]);
    assert!(requeued.status.success(), "{requeued:?}");
    slow.ends_well();
}

#[test]
fn a_task_that_the_scheduler_asks_to_end_drains_and_its_part_is_submitted_again() {
    let cluster = Cluster::start();
    let slow = Slow::start(&cluster, "limited");
    let task = slow.task_at_work(&cluster);
    // As at a time limit, whose warning goes to the same process.
    // What it returns of a task of an array says nothing.
    cluster.ask("scancel", &["--signal=TERM", "--batch", &task]);
    let stderr = slow.ends_well();
    assert!(stderr.contains("part ended early"), "{stderr}");
}

#[test]
fn an_interrupted_run_cancels_its_array() {
    let cluster = Cluster::start();
    let slow = Slow::start(&cluster, "cancelled");
    slow.task_at_work(&cluster);
    slow.coordinator.signal("TERM");
    slow.coordinator.wait().expect_code(130);
    let queue = cluster.ask("squeue", &["--noheader"]);
    assert_eq!(String::from_utf8(queue.stdout).unwrap(), "");
    assert!(!slow.server.tree(&slow.bucket).contains_key(LEASE));
}

#[test]
fn a_partition_that_is_not_there_ends_the_run_with_what_slurm_says() {
    let cluster = Cluster::start();
    let ladder = Ladder::with_columns("plain", Law::Boundary);
    let upgrade = Zagg::new("upgrade").arg(ladder.published.store.root());
    let output = cluster
        .environment(upgrade)
        .args(&["--json", "--fleet", "slurm:2", "--partition", "nowhere"])
        .run()
        .expect_code(4);
    let error = output.text("/error");
    assert!(
        error.contains("nowhere") && error.contains("sbatch"),
        "{error}"
    );
    assert!(!ladder.published.store.has(LEASE));
}

#[test]
fn the_printed_script_is_submitted_as_it_is_and_does_the_whole_upgrade() {
    let cluster = Cluster::start();
    let ladder = Ladder::with_columns("plain", Law::Boundary);
    let store = &ladder.published.store;
    let dir = store.parent();
    let printed = Zagg::new("fleet")
        .args(&["script", store.root().to_str().unwrap()])
        .args(&["--engine", "slurm", "--workers", "2", "--name", "by-script"])
        .args(&["--partition", "test", "--mem", "100M", "--cpus", "1"])
        .args(&["--time", "10", "--coordinator-time", "20", "--settings"])
        .arg(settings_file(dir, SETTINGS))
        .run()
        .expect_code(0);
    let script = dir.join("upgrade.sh");
    std::fs::write(&script, printed.stdout).unwrap();
    let (chdir, script) = (format!("--chdir={}", dir.display()), script.display());
    let submitted = cluster.ask("sbatch", &["--wait", &chdir, &script.to_string()]);
    let logs = std::fs::read_dir(dir).unwrap().flatten();
    let logs = logs.filter(|entry| entry.file_name().to_string_lossy().ends_with(".log"));
    let log: String = logs
        .map(|entry| std::fs::read_to_string(entry.path()).unwrap())
        .collect();
    assert!(submitted.status.success(), "{submitted:?}\n{log}");
    ladder.assert_golden();
    assert!(log.contains("the store is upgraded and verified"), "{log}");
}
