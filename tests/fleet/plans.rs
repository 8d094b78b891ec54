//! What a worker makes of plans that are not for it, and a coordinator of a store that is
//! not free.

use serde_json::Value;

use crate::common::binary::Zagg;
use crate::common::cases::Law;
use crate::common::fleet::{settings_file, wait_for};
use crate::common::ladder::Ladder;
use crate::common::library::LEASE;
use crate::common::times::iso_ago;

#[test]
fn a_store_that_another_run_holds_is_refused_and_nothing_is_submitted() {
    let ladder = Ladder::with_columns("plain", Law::Boundary);
    let lease = serde_json::json!({
        "spec": "zagg-sweep-lease/1",
        "run_id": "somebody-else",
        "scope": null,
        "acquired_at": iso_ago(60),
        "heartbeat_at": iso_ago(1),
        "ttl_s": 900,
    });
    ladder.published.store.write(LEASE, lease.to_string());
    let before = ladder.tree();
    let output = ladder
        .run("upgrade", &["--fleet", "local:2"])
        .expect_code(3);
    assert!(
        output.text("/error").contains("somebody-else"),
        "{output:?}"
    );
    assert_eq!(ladder.tree(), before);
}

#[test]
fn a_plan_of_another_program_or_pyramid_is_refused_before_a_leaf_is_read() {
    let ladder = Ladder::with_columns("plain", Law::Boundary);
    let store = &ladder.published.store;
    let settings = settings_file(store.parent(), "lease_ttl_s = 15");
    let run_dir = store.parent().join("run");
    let coordinator = Zagg::new("upgrade")
        .arg(store.root())
        .args(&["--force", "--json", "--fleet", "manual:1", "--settings"])
        .arg(&settings)
        .arg("--run-dir")
        .arg(&run_dir)
        .start();
    let plan = run_dir.join("columns/plan.json");
    let plan: Value = wait_for("the plan", || {
        serde_json::from_slice(&std::fs::read(&plan).ok()?).ok()
    });
    let before = ladder.tree();
    for (key, value, told) in [
        ("program", "zagg-stream 0.0.0", "program of the coordinator"),
        ("declaration_hash", "0", "another pyramid"),
    ] {
        let mut other = plan.clone();
        other[key] = value.into();
        let array = store.parent().join(format!("other-{key}"));
        std::fs::create_dir_all(array.join("parts")).unwrap();
        std::fs::copy(
            run_dir.join("columns/parts/00000.json"),
            array.join("parts/00000.json"),
        )
        .unwrap();
        std::fs::write(array.join("plan.json"), other.to_string()).unwrap();
        let worker = Zagg::new("worker")
            .arg("--run")
            .arg(&array)
            .args(&["--part", "0", "--json"]);
        let output = worker.run().expect_code(3);
        assert!(output.text("/error").contains(told), "{output:?}");
    }
    let no_part = Zagg::new("worker")
        .arg("--run")
        .arg(run_dir.join("columns"));
    let output = no_part.args(&["--part", "99"]).run().expect_code(3);
    assert!(output.stderr.contains("part 99"), "{output:?}");
    let mut after = ladder.tree();
    // The coordinator has its lease, and beats.
    after.retain(|key, _| key != LEASE);
    let mut before = before;
    before.retain(|key, _| key != LEASE);
    assert_eq!(after, before);
    coordinator.signal("TERM");
    coordinator.wait().expect_code(130);
    assert!(!store.has(LEASE));
}

#[test]
fn a_worker_that_is_not_told_its_part_asks_for_it() {
    let output = Zagg::new("worker")
        .args(&["--run", "/nowhere"])
        .run()
        .expect_code(2);
    assert!(output.stderr.contains("JOB_COMPLETION_INDEX"), "{output:?}");
}
