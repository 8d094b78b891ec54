//! The golden cases by three processes, and the lease as others see it meanwhile.

use crate::common::binary::Output;
use crate::common::cases::{Law, test_each_case_and_law};
use crate::common::fleet::{Watcher, settings_file};
use crate::common::ladder::Ladder;
use crate::common::library::LEASE;

/// Seconds, so that the workers are quick to see a beat.
const TTL_S: i64 = 15;

/// `upgrade` by three processes of this machine.
fn upgrade(ladder: &Ladder, more: &[&str]) -> Output {
    let parent = ladder.published.store.parent();
    let settings = settings_file(parent, &format!("lease_ttl_s = {TTL_S}"));
    let mut args = vec!["--settings", settings.to_str().unwrap()];
    args.extend(["--fleet", "local:3"]);
    args.extend(more);
    ladder.upgrade(&args)
}

fn check(name: &str, law: Law) {
    let ladder = Ladder::published(name, law);
    let output = upgrade(&ladder, &[]).expect_code(0);
    ladder.assert_golden();
    let leaves = ladder.case().leaves().len() as u64;
    assert_eq!(output.number("/counts/written"), leaves);
    assert_eq!(output.number("/verdicts/absent-or-unstamped"), leaves);
    for other in ["current", "empty", "failed", "not_attempted"] {
        assert_eq!(output.number(&format!("/counts/{other}")), 0, "{other}");
    }
    assert_eq!(output.number("/ladder/counts/failed"), 0);
    assert!(output.number("/requests/put") > leaves);
    let left = ladder.tree();
    let strays = left.keys().filter(|key| key.starts_with(".zagg-stream"));
    assert_eq!(strays.count(), 0, "the run directory is removed");
    assert!(!left.contains_key(LEASE));
}

test_each_case_and_law!(check);

#[test]
fn others_see_one_lease_without_a_gap_that_is_never_half_its_ttl_old() {
    let ladder = Ladder::published("deep", Law::Boundary);
    let watcher = Watcher::start(ladder.published.store.path(LEASE));
    let output = upgrade(&ladder, &[]).expect_code(0);
    let seen = watcher.stop();
    assert_eq!(seen.run_ids, [output.text("/run_id")]);
    assert!(!seen.has_gap);
    assert!(seen.looks > 100, "{seen:?}");
    assert!(seen.oldest_s <= TTL_S / 2, "{seen:?}");
}

#[test]
fn a_second_upgrade_finds_everything_current_and_the_receipt_tells_of_every_worker() {
    let ladder = Ladder::published("plain", Law::Boundary);
    let output = upgrade(&ladder, &[]).expect_code(0);
    let receipt = ladder.published.store.read(&output.text("/receipt"));
    let receipt: serde_json::Value = serde_json::from_slice(&receipt).unwrap();
    let leaves = receipt["leaves"].as_array().unwrap();
    assert_eq!(leaves.len(), ladder.case().leaves().len());
    assert!(
        leaves
            .iter()
            .all(|leaf| leaf["stamp"]["before"].is_object())
    );
    let written = receipt["objects"]["written"].as_array().unwrap();
    let of_columns = written
        .iter()
        .filter(|key| key.as_str().unwrap().contains(".pyramid.zarr/"));
    assert!(of_columns.count() > leaves.len());

    let before = ladder.tree();
    let second = upgrade(&ladder, &[]).expect_code(0);
    assert_eq!(second.number("/counts/current"), leaves.len() as u64);
    assert_eq!(second.number("/counts/written"), 0);
    assert_eq!(second.number("/ladder/counts/written"), 0);
    assert_eq!(
        ladder.tree(),
        before,
        "a second upgrade leaves nothing behind"
    );
}
