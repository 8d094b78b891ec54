//! Workers and coordinators that are killed, stopped, doubled, denied, or asked to end, over
//! an S3 server that is slow enough to be caught in the middle.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::common::binary::Running;
use crate::common::cases::{Case, Law};
use crate::common::faults::{Failure, Op, Rule};
use crate::common::fleet::{PATIENCE, assert_upgraded, signal, wait_for, workers_of};
use crate::common::library::LEASE;
use crate::common::many::Many;
use crate::common::stores::Tree;
use crate::slow::{Fleet, ROOT_DOCUMENT};

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
