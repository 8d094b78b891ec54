//! Upgrades over S3: against a real server in a process of its own, and against one in
//! this process whose wire can be spoilt.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::common::binary::{Output, Zagg};
use crate::common::bucket::{Bucket, race};
use crate::common::cases::{Case, Law, MANIFEST, NAMES};
use crate::common::compare::{assert_all, compare};
use crate::common::faults::{Failure, Op, Rule};
use crate::common::library::LEASE;
use crate::common::moto::Moto;
use crate::common::old::Old;
use crate::common::published::Published;
use crate::common::s3::{Conditions, S3Server};
use crate::common::stores::{Tree, differences};

/// Cases under way at once.
const WORKERS: usize = 3;

/// A client that tries again at once.
const SETTINGS: &str = "[retry]\nmax_attempts = 10\ninitial_delay_ms = 1\nmax_delay_ms = 20\n";

/// Every golden case under both laws, a few at a time.
fn every_case(check: impl Fn(&str, Law) + Sync) {
    let all = NAMES
        .iter()
        .flat_map(|name| Law::ALL.map(|law| (*name, law)));
    let queue: Mutex<VecDeque<_>> = Mutex::new(all.collect());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let next = || queue.lock().unwrap().pop_front();
                while let Some((name, law)) = next() {
                    check(name, law);
                }
            });
        }
    });
}

/// A bucket's name: letters, digits and dashes.
fn named(name: &str, law: Law) -> String {
    format!("{}-{law}", name.replace('_', "-"))
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(work)
}

/// The whole upgrade of a published case in a bucket.
fn upgrade(published: &Published, law: Law, bucket: &Bucket) -> Output {
    let settings = published.store.parent().join("settings.toml");
    std::fs::write(&settings, SETTINGS).unwrap();
    bucket
        .command("upgrade")
        .arg("--config")
        .arg(published.config_path())
        .args(&["--overviews", &published.overviews()])
        .args(&["--fold-law", law.name()])
        .arg("--settings")
        .arg(settings)
        .run()
        .expect_code(0)
}

/// Upgrades a case; `tree` looks at the bucket, and what it sees is returned.
fn golden(name: &str, law: Law, bucket: &Bucket, tree: impl Fn() -> Tree) -> Tree {
    let published = Published::load(name);
    let leaves = u64::try_from(published.case.leaves().len()).unwrap();
    let first = upgrade(&published, law, bucket);
    assert_eq!(first.number("/counts/written"), leaves, "{name} {law}");
    let upgraded = tree();
    assert_all(&published.case.upgraded(law), &upgraded);
    upgraded
}

/// As [`golden`], and once more, which writes nothing.
fn golden_twice(name: &str, law: Law, bucket: &Bucket, tree: impl Fn() -> Tree) {
    let upgraded = golden(name, law, bucket, &tree);
    let published = Published::load(name);
    let leaves = u64::try_from(published.case.leaves().len()).unwrap();
    let second = upgrade(&published, law, bucket);
    assert_eq!(second.number("/counts/current"), leaves, "{name} {law}");
    assert_eq!(second.number("/bytes/written"), 0, "{name} {law}");
    let changed = differences(&upgraded, &tree());
    assert_eq!(changed, Vec::<String>::new(), "{name} {law}");
}

#[test]
fn every_case_is_upgraded_at_a_real_server() {
    let moto = Moto::shared();
    every_case(|name, law| {
        let bucket = moto.bucket(&named(name, law));
        wait(bucket.put(&Case::load(name).published()));
        let tree = || wait(bucket.tree());
        match law {
            Law::Boundary => golden_twice(name, law, &bucket, tree),
            // What there is to read does not hang on the law.
            Law::Raw => drop(golden(name, law, &bucket, tree)),
        }
    });
}

#[test]
fn an_idle_pass_reads_two_objects_of_a_leaf_and_lists_it_once() {
    /// Requests about the root: manifest, lease, records, status, and their listings.
    const OF_THE_ROOT: [u64; 2] = [6, 3];
    for name in ["strata", "deep"] {
        let case = Case::load(name);
        let moto = Moto::shared();
        let bucket = moto.bucket(&format!("idle-{name}"));
        wait(bucket.put(&case.declared(Law::Boundary)));
        let leaves = u64::try_from(case.leaves().len()).unwrap();
        let backfill = || bucket.command("backfill").run().expect_code(0);
        assert_eq!(backfill().number("/counts/written"), leaves, "{name}");
        let idle = backfill();
        assert_eq!(idle.number("/counts/current"), leaves, "{name}");
        let asked = |class: &str| idle.number(&format!("/requests/{class}"));
        assert_eq!(
            [asked("put"), asked("delete"), asked("head")],
            [0; 3],
            "{name}"
        );
        assert!(
            asked("get") <= 2 * leaves + OF_THE_ROOT[0],
            "{name}: {}",
            asked("get")
        );
        assert!(
            asked("list") <= leaves + OF_THE_ROOT[1],
            "{name}: {}",
            asked("list")
        );
    }
}

/// A bad day on the wire, on which nothing is lost for good. What is tried once, rewriting
/// the manifest and giving the lease back, is spared: a fault there is the operator's to see.
fn bad_day(seed: u64) -> [Rule; 4] {
    let of_an_artifact = |key: &str| key.contains(".pyramid.zarr/") || key.contains("all.zarr/");
    [
        Rule::on(Op::ALL)
            .key(|key| !key.ends_with(MANIFEST) && !key.ends_with(LEASE))
            .percent(3, seed)
            .fail(Failure::Status(503)),
        Rule::on([Op::Get])
            .key(|key| !key.ends_with(LEASE))
            .percent(3, seed + 1)
            .tear(20),
        Rule::on([Op::Get, Op::Head, Op::List])
            .key(|key| !key.ends_with(LEASE))
            .percent(2, seed + 2)
            .fail(Failure::HangUp),
        Rule::on([Op::Put])
            .key(of_an_artifact)
            .percent(3, seed + 3)
            .lands()
            .fail(Failure::Status(500)),
    ]
}

#[test]
fn every_case_is_upgraded_on_a_bad_day() {
    const SEED: u64 = 20_261_201;
    let server = S3Server::start();
    let rules = bad_day(SEED);
    let struck = rules.each_ref().map(Rule::struck);
    server.follow(rules);
    every_case(|name, law| {
        let bucket = server.bucket(&named(name, law), &Case::load(name).published());
        golden_twice(name, law, &bucket, || server.tree(&bucket));
    });
    for struck in struck {
        let struck = struck.load(std::sync::atomic::Ordering::SeqCst);
        assert!(struck > 20, "a fault struck {struck} times");
    }
}

#[test]
fn a_server_that_rewrites_without_conditions_will_do() {
    let server = S3Server::with(Conditions::CreateOnly);
    let bucket = server.bucket("plain", &Case::load("plain").published());
    let unconditional = Rule::on([Op::Put]).key_ends_with("morton_hive.json");
    let manifest = unconditional.struck();
    server.follow([unconditional]);
    golden("plain", Law::Boundary, &bucket, || server.tree(&bucket));
    let writes = manifest.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(
        writes, 4,
        "declared and swept, each refused once and then written"
    );
}

#[test]
fn of_sixteen_creators_at_a_real_server_one_wins() {
    let moto = Moto::shared();
    let bucket = moto.bucket("race");
    assert_eq!(wait(race(&bucket, 20)), [1; 20]);
}

#[test]
fn of_several_programs_that_begin_at_once_one_has_the_lease() {
    const PROGRAMS: usize = 6;
    let case = Case::load("plain");
    let server = S3Server::start();
    let bucket = server.bucket("lease", &case.declared(Law::Boundary));
    // So that all of them are there while one works.
    let slow = Rule::on([Op::Put]).key_contains(".pyramid.zarr/");
    server.follow([slow.stall(Duration::from_millis(40))]);
    let running: Vec<_> = (0..PROGRAMS)
        .map(|_| bucket.command("backfill").start())
        .collect();
    let outputs: Vec<Output> = running.into_iter().map(|running| running.wait()).collect();
    let codes: Vec<_> = outputs.iter().map(|output| output.code.unwrap()).collect();
    let with = |code: i32| codes.iter().filter(|found| **found == code).count();
    assert_eq!(
        (with(0), with(3)),
        (1, PROGRAMS - 1),
        "{codes:?}: {outputs:#?}"
    );
    let created = server
        .tally()
        .of(Op::Put, |key| key.ends_with("/sweep.lease.json"));
    assert!(created.calls > 1, "more than one asked for it");
    let differences = compare(&case.expected(Law::Boundary), &server.tree(&bucket));
    assert_eq!(differences, Vec::<String>::new());
}

#[test]
fn a_copy_is_verified_by_its_receipt_and_what_was_left_behind_is_retired() {
    let published = Published::load("windowed");
    let moto = Moto::shared();
    let bucket = moto.bucket("leftovers");
    wait(bucket.put(&published.case.published()));
    let receipt = upgrade(&published, Law::Boundary, &bucket).text("/receipt");
    let receipt = format!("{}/{receipt}", bucket.url());
    let verify = || {
        let command = bucket.command("verify");
        command.args(&["--receipt", &receipt]).run().expect_code(0)
    };
    assert_eq!(verify().number("/checked/leaves"), 6);

    let upgraded = wait(bucket.tree());
    let mut tree = upgraded.clone();
    let old = Old::add(&mut tree, "1/1/2019.zarr", "2018");
    let left: Tree = tree.into_iter().filter(|(key, _)| old.has(key)).collect();
    wait(bucket.put(&left));
    let retired = bucket.command("retire").arg("--yes").run().expect_code(0);
    assert_eq!(retired.number("/deleted/artifacts"), 1);
    let changed = differences(&upgraded, &wait(bucket.tree()));
    assert_eq!(changed, Vec::<String>::new());
    verify();
}

#[test]
fn an_account_that_the_server_does_not_know_writes_nothing() {
    let server = S3Server::start();
    let bucket = server.bucket("plain", &Case::load("plain").declared(Law::Boundary));
    let stranger = Bucket::at(server.endpoint(), "plain", ["AKIDEXAMPLE", "another"]);
    let refused = stranger.command("backfill").run();
    assert_ne!(refused.code, Some(0));
    let error = refused.text("/error");
    assert!(error.contains("403"), "{error}");
    assert_eq!(server.tally().of(Op::Put, |_| true).calls, 0);
    let plan = bucket.environment(Zagg::new("plan").arg(bucket.url()));
    plan.run().expect_code(0);
}

#[test]
fn no_step_of_an_upgrade_is_left_with_the_connections_of_another() {
    /// Of so many, some met a connection whose runtime had ended.
    const ROUNDS: usize = 8;
    let server = S3Server::start();
    let published = Published::load("flux");
    for round in 0..ROUNDS {
        let bucket = server.bucket(&format!("round-{round}"), &published.case.published());
        upgrade(&published, Law::Boundary, &bucket);
    }
}
