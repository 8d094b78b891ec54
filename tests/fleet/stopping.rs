//! Runs that are stopped in the middle, and workers that die or hang where no scheduler tells:
//! nothing is cut short, nobody writes once the lease is given back, and nobody waits for ever.

use std::time::Duration;

use crate::common::binary::Running;
use crate::common::cases::{Case, Law};
use crate::common::fleet::{assert_upgraded, signal, wait_for, workers_of};
use crate::common::library::LEASE;
use crate::common::many::Many;
use crate::common::terminal::Terminal;
use crate::slow::Fleet;

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

#[test]
fn ctrl_c_at_a_terminal_lets_workers_finish_what_they_are_writing() {
    let many = Many::leaves(24);
    let fleet = Fleet::over(&many.tree, "terminal", 15, Duration::from_millis(50));
    let args = fleet.line("local:2");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let terminal = Terminal::run(&args, fleet.bucket.options(), 30, 160);
    wait_for("a stamp", || (fleet.stamped() > 0).then_some(()));
    terminal.type_ctrl_c();
    let (code, screen) = terminal.end();
    assert_eq!(code, 130, "{screen}");
    assert_eq!(fleet.unfinished(), 0, "{screen}");
    let stamped = fleet.stamped();
    assert!(stamped < 24, "it was stopped too late");
    assert!(screen.contains(&format!("{stamped} written")), "{screen}");
    assert!(!fleet.tree().contains_key(LEASE), "the lease is given back");
}

#[test]
fn workers_of_a_coordinator_that_is_killed_finish_what_they_are_writing_and_end() {
    let many = Many::leaves(24);
    let fleet = Fleet::over(&many.tree, "orphans", 900, Duration::from_millis(50));
    let coordinator = fleet.start("local:2");
    wait_for("a stamp", || (fleet.stamped() > 0).then_some(()));
    let workers = workers_of(coordinator.id());
    assert_eq!(workers.len(), 2);
    coordinator.signal("KILL");
    let is_over = || workers.iter().all(|pid| !signal(*pid, "0")).then_some(());
    wait_for("the end of the workers", is_over);
    assert_eq!(fleet.unfinished(), 0);
    assert!(fleet.stamped() < 24, "it was killed too late");
}

#[test]
fn workers_started_by_hand_hear_of_the_end_and_finish_what_they_are_writing() {
    let many = Many::leaves(40);
    let fleet = Fleet::over(&many.tree, "by-hand", 60, Duration::from_millis(400));
    let coordinator = fleet.start("manual:2");
    let workers = [fleet.follower(0), fleet.follower(1)];
    wait_for("a stamp", || (fleet.stamped() > 0).then_some(()));
    coordinator.signal("TERM");
    let output = coordinator.wait().expect_code(130);
    assert!(!fleet.tree().contains_key(LEASE), "the lease is given back");
    let stamped = fleet.stamped() as u64;
    assert_eq!(fleet.unfinished(), 0, "nobody was writing any more");
    assert_eq!(output.number("/counts/written"), stamped);
    assert_eq!(output.number("/counts/not_attempted"), 40 - stamped);
    for worker in workers {
        let output = worker.wait().expect_code(130);
        let error = output.text("/error");
        assert!(error.contains("stopped by its coordinator"), "{error}");
    }
}

#[test]
fn the_lease_is_not_given_back_while_a_worker_writes_that_hears_nothing() {
    let many = Many::leaves(12);
    let fleet = Fleet::over(&many.tree, "deaf", 15, Duration::from_millis(400));
    let coordinator = fleet.start("manual:1");
    let worker = fleet.worker_at("0");
    fleet.wait_for_a_column();
    coordinator.signal("TERM");
    let output = coordinator.wait().expect_code(130);
    assert_eq!(fleet.unfinished(), 0);
    let stamped = fleet.stamped();
    worker.wait().expect_code(0);
    assert_eq!(fleet.stamped(), stamped);
    assert_eq!(output.number("/counts/written"), stamped as u64);
    assert!(!fleet.tree().contains_key(LEASE), "the lease is given back");
}

#[test]
fn a_part_that_kills_every_worker_started_by_hand_is_named() {
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "deadly", 4, Duration::from_millis(100));
    let mut coordinator = fleet.start("manual:1");
    let (mut worker, mut killed) = (fleet.follower(0), 0);
    while !coordinator.has_ended() {
        if fleet.at_part(0) == Some(worker.id()) {
            worker.signal("KILL");
            killed += 1;
            worker = fleet.follower(0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = coordinator.wait().expect_code(1);
    assert!(killed >= 3, "{killed}");
    assert_eq!(output.text("/failed_leaves/0/leaf"), "part 0");
    let error = output.text("/failed_leaves/0/error");
    assert!(error.contains("its worker fell silent"), "{error}");
    assert!(!fleet.tree().contains_key(LEASE), "the lease is given back");
}

#[test]
fn a_worker_that_hangs_is_ended_and_its_part_is_done_again() {
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "hung", 4, Duration::from_millis(100));
    let coordinator = fleet.start("local:2");
    fleet.wait_for_a_column();
    let hung = wait_for("a worker", || fleet.at_part(0));
    assert!(signal(hung, "STOP"));
    let output = coordinator.wait().expect_code(0);
    assert!(output.stderr.contains("has been silent"), "{output:?}");
    assert_upgraded(&case, fleet.tree());
}

#[test]
fn a_coordinator_that_lost_its_lease_leaves_the_run_directory_to_the_next() {
    const TTL: Duration = Duration::from_secs(4);
    let case = Case::load("plain");
    let tree = case.declared(Law::Boundary);
    let fleet = Fleet::over(&tree, "succeeded", TTL.as_secs(), Duration::from_millis(20));
    let first = fleet.start("manual:1");
    wait_for("the first plan", || fleet.planned_by());
    first.signal("STOP");
    let before = fleet.planned_by();
    std::thread::sleep(TTL + Duration::from_secs(2));
    let next = fleet.start("manual:1");
    wait_for("the next plan", || {
        fleet
            .planned_by()
            .filter(|run_id| Some(run_id) != before.as_ref())
    });
    first.signal("CONT");
    let lost = first.wait().expect_code(4);
    let is_told = |warning: &String| warning.contains("was left as it is");
    assert!(lost.warnings().iter().any(is_told), "{lost:?}");
    let worker: Running = fleet.follower(0);
    next.wait().expect_code(0);
    worker.wait().expect_code(0);
    assert_upgraded(&case, fleet.tree());
}
