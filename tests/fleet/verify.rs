//! Verifying by the workers: what they find together is what one process finds.

use std::collections::BTreeSet;
use std::time::Duration;

use tempfile::TempDir;

use crate::common::binary::{Output, Running};
use crate::common::bucket::Bucket;
use crate::common::cases::{Case, Law};
use crate::common::faults::{Failure, Op, Rule};
use crate::common::fleet::{assert_upgraded, settings_file, signal, wait_for, worker_at};
use crate::common::ladder::Ladder;
use crate::common::library::LEASE;
use crate::common::s3::S3Server;

fn upgrade(ladder: &Ladder) -> Output {
    let settings = settings_file(ladder.published.store.parent(), "lease_ttl_s = 15");
    let settings = settings.to_str().unwrap();
    ladder.upgrade(&["--settings", settings, "--fleet", "local:2"])
}

/// Chunks of counts: of the column of a leaf, and of an overview.
fn chunks(ladder: &Ladder) -> [String; 2] {
    let tree = ladder.tree();
    let depth = |key: &&String| key.matches('/').count();
    let chunks = || tree.keys().filter(|key| key.contains("/count/c/"));
    let (columns, others): (Vec<_>, Vec<_>) =
        chunks().partition(|key| key.contains(".pyramid.zarr/"));
    let column = columns.into_iter().max_by_key(depth).unwrap();
    let overview = others.into_iter().min_by_key(depth).unwrap();
    [column.clone(), overview.clone()]
}

/// Fails unless both say the same of the store.
#[track_caller]
fn assert_same(fleet: &Output, alone: &Output) {
    let (fleet, alone) = (&fleet.json()["verified"], &alone.json());
    for said in [
        "outcome",
        "leaves",
        "uncommitted",
        "artifacts",
        "refolded",
        "unjudged",
        "n_findings",
        "n_warnings",
        "findings",
        "warnings",
    ] {
        assert_eq!(fleet[said], alone[said], "{said}");
    }
}

#[test]
fn a_clean_store_is_found_clean_by_all_workers_together() {
    let ladder = Ladder::published("deep_strata", Law::Boundary);
    let output = upgrade(&ladder).expect_code(0);
    assert!(output.stderr.contains("verify by workers"), "{output:?}");
    assert_same(&output, &ladder.run("verify", &[]).expect_code(0));
}

#[test]
fn workers_find_together_what_one_process_finds() {
    for case in ["deep", "windowed"] {
        let ladder = Ladder::published(case, Law::Boundary);
        upgrade(&ladder).expect_code(0);
        let store = &ladder.published.store;
        let [column, overview] = chunks(&ladder);
        store.write(&column, b"nothing that decodes");
        store.write(&overview, b"nothing that decodes either");
        let alone = ladder.run("verify", &[]).expect_code(1);
        assert!(alone.number("/n_findings") > 1, "{alone:?}");
        let output = upgrade(&ladder).expect_code(1);
        assert_same(&output, &alone);
    }
}

/// An upgrade by two workers over a server that is slow to answer.
struct Slow {
    case: Case,
    server: S3Server,
    bucket: Bucket,
    run_dir: String,
    upgrade: Running,
    _dir: TempDir,
}

impl Slow {
    fn start(name: &str) -> Self {
        let case = Case::load("plain");
        let server = S3Server::start();
        let bucket = server.bucket(name, &case.declared(Law::Boundary));
        let dir = TempDir::new().unwrap();
        let settings = settings_file(dir.path(), "lease_ttl_s = 15");
        let run_dir = format!("{}/run", dir.path().display());
        server.follow([Rule::on([Op::Get]).stall(Duration::from_millis(20))]);
        let upgrade = bucket.command("upgrade").arg("--settings").arg(settings);
        let fleet = ["--fleet", "local:2", "--run-dir", &run_dir];
        let upgrade = upgrade.args(&fleet).start();
        Self {
            case,
            server,
            bucket,
            run_dir,
            upgrade,
            _dir: dir,
        }
    }
}

#[test]
fn a_store_that_denies_a_worker_meanwhile_ends_the_run_and_leaves_a_whole_store_without_a_lease() {
    let slow = Slow::start("unread");
    let plan = format!("{}/verify/plan.json", slow.run_dir);
    wait_for("the verification", || {
        std::fs::exists(&plan).unwrap().then_some(())
    });
    let denied = Rule::on([Op::Get]).key(|key| !key.ends_with(LEASE));
    slow.server.follow([denied.fail(Failure::Status(403))]);
    let output = slow.upgrade.wait().expect_code(4);
    assert!(output.text("/error").contains("(denied)"), "{output:?}");
    slow.server.follow([]);
    assert_upgraded(&slow.case, slow.server.tree(&slow.bucket));
}

#[test]
fn what_its_workers_die_of_is_verified_by_the_coordinator() {
    let mut slow = Slow::start("unfinished");
    let mut killed = BTreeSet::new();
    while killed.len() < 3 && !slow.upgrade.has_ended() {
        let at_work = worker_at(&slow.run_dir, "verify", 0);
        if let Some(pid) = at_work.filter(|pid| signal(*pid, "KILL")) {
            killed.insert(pid);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = slow.upgrade.wait().expect_code(0);
    assert_eq!(killed.len(), 3);
    assert!(
        output.stderr.contains("so this process does it"),
        "{output:?}"
    );
    let leaves = slow.case.leaves().len() as u64;
    assert_eq!(output.number("/verified/artifacts/leaf_columns"), leaves);
    assert_eq!(output.number("/verified/n_findings"), 0);
    assert_upgraded(&slow.case, slow.server.tree(&slow.bucket));
}
