//! The command line: exit codes, refusals, the JSON document, leases, partial passes.
//!
//! A message that refuses or fails is worded `problem; cure`.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::common::binary::{Output, Zagg};
use crate::common::cases::{Case, Law, MANIFEST};
use crate::common::compare::{assert_columns, compare_columns};
use crate::common::stores::{TestStore, differences};
use crate::common::times::iso_ago;
use serde_json::{Value, json};

const LEASE: &str = "sweep.lease.json";
const RUN_RECORD: &str = "stats_20260825T101500Z_golden-run.parquet";

/// What a test does to a document.
type Edit = dyn Fn(&mut Value);

fn strata() -> (Case, TestStore) {
    let case = Case::load("strata");
    let store = case.declared_store(Law::Boundary);
    (case, store)
}

fn backfill(store: &TestStore) -> Zagg {
    Zagg::backfill(&store.root())
}

/// Runs what must be refused: exit 3, one document that says so, nothing written.
#[track_caller]
fn refusal(store: &TestStore, run: Zagg) -> (Output, String) {
    let before = store.surroundings();
    let output = run.run().expect_code(3);
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new(),
        "a refused run writes nothing"
    );
    assert_eq!(output.text("/outcome"), "refused");
    assert_eq!(output.number("/exit_code"), 3);
    let error = output.text("/error");
    assert_names_a_cure(&error);
    (output, error)
}

/// The last clause of a message says what to do.
#[track_caller]
fn assert_names_a_cure(error: &str) {
    let (_, cure) = error
        .rsplit_once("; ")
        .unwrap_or_else(|| panic!("no cure in `{error}`"));
    assert!(cure.split_whitespace().count() >= 3, "no cure in `{error}`");
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in `{text}`");
    }
}

// Usage.

#[test]
fn usage_errors_exit_2_and_write_nothing() {
    let (_, store) = strata();
    let before = store.surroundings();
    let root = store.root();
    let runs: [(Zagg, &str); 10] = [
        (Zagg::bare(), "Usage"),
        (Zagg::new("embiggen"), "embiggen"),
        (Zagg::new("backfill"), "ROOT"),
        (backfill(&store).arg("--no-such-option"), "--no-such-option"),
        (backfill(&store).arg(&root), "unexpected argument"),
        (backfill(&store).args(&["--fold-law", "median"]), "median"),
        (backfill(&store).args(&["--memory-budget", "lots"]), "lots"),
        (backfill(&store).args(&["--max-leaves", "some"]), "some"),
        (
            backfill(&store).args(&["--max-in-flight", "0"]),
            "--max-in-flight",
        ),
        (backfill(&store).args(&["--shards", "11273"]), "11273"),
    ];
    for (run, names) in runs {
        let output = run.run().expect_code(2);
        assert_contains(&output.stderr, &[names]);
        // With `--json` it says so there, too.
        if !output.stdout.is_empty() {
            assert_eq!(output.text("/outcome"), "usage");
        }
    }
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new()
    );
}

#[test]
fn a_settings_file_that_cannot_be_used_is_a_usage_error_that_names_the_key() {
    let (_, store) = strata();
    let before = store.tree();
    let settings = store.parent().join("settings.toml");
    fs::write(&settings, "no_such_knob = 1\n").unwrap();
    let output = backfill(&store)
        .arg("--settings")
        .arg(&settings)
        .run()
        .expect_code(2);
    assert_contains(&output.stderr, &["no_such_knob", "settings.toml"]);
    assert_eq!(differences(&before, &store.tree()), Vec::<String>::new());
}

#[test]
fn help_is_no_error_and_shows_an_example() {
    for command in ["declare", "backfill", "upgrade", "lease", "demo"] {
        let output = Zagg::new(command).arg("--help").run().expect_code(0);
        assert_contains(&output.stdout, &["Usage", "Example"]);
    }
}

// Roots and manifests.

#[test]
fn a_root_that_does_not_exist_is_refused() {
    let store = TestStore::empty();
    let absent = store.parent().join("nowhere");
    let (_, error) = refusal(&store, Zagg::backfill(&absent));
    assert_contains(&error, &[&absent.display().to_string(), "does not exist"]);
    assert!(!absent.exists());
}

#[test]
fn a_root_that_is_a_file_is_refused() {
    let store = TestStore::empty();
    let file = store.parent().join("file");
    fs::write(&file, "not a store").unwrap();
    let (_, error) = refusal(&store, Zagg::backfill(&file));
    assert_contains(&error, &[&file.display().to_string(), "is a file"]);
}

#[test]
fn a_root_without_a_manifest_is_refused() {
    let store = TestStore::empty();
    store.write("readme.txt", "not a store");
    let (_, error) = refusal(&store, backfill(&store));
    assert_contains(&error, &[&store.root().display().to_string(), MANIFEST]);
}

#[test]
fn a_manifest_that_cannot_be_understood_is_refused() {
    let manifests: [(&str, &Edit); 7] = [
        ("a mapping", &|manifest| *manifest = json!([1, 2])),
        ("cell_order", &|manifest| drop(take(manifest, "cell_order"))),
        ("shard_order", &|manifest| {
            drop(take(manifest, "shard_order"))
        }),
        ("cell_order", &|manifest| {
            manifest["cell_order"] = json!("six")
        }),
        ("shard_order", &|manifest| {
            manifest["shard_order"] = json!(-1)
        }),
        ("shard_order", &|manifest| {
            manifest["shard_order"] = json!(6)
        }),
        ("path_grouping", &|manifest| {
            manifest["path_grouping"] = json!(2)
        }),
    ];
    for (names, edit) in manifests {
        let (_, store) = strata();
        store.edit_json(MANIFEST, edit);
        let (_, error) = refusal(&store, backfill(&store));
        assert_contains(&error, &[MANIFEST, names]);
    }
    for bytes in ["", "{", "\u{feff}{}"] {
        let (_, store) = strata();
        store.write(MANIFEST, bytes);
        let (_, error) = refusal(&store, backfill(&store));
        assert_contains(&error, &[MANIFEST, "JSON"]);
    }
}

fn take(document: &mut Value, key: &str) -> Value {
    document.as_object_mut().unwrap().shift_remove(key).unwrap()
}

#[test]
fn an_absent_path_grouping_is_one() {
    let (case, store) = strata();
    store.edit_json(MANIFEST, |manifest| drop(take(manifest, "path_grouping")));
    let run = backfill(&store).run().expect_code(0);
    let leaves = u64::try_from(case.leaves().len()).unwrap();
    assert_eq!(run.number("/counts/written"), leaves);
}

#[test]
fn a_person_reads_a_refusal_on_stderr() {
    let (_, store) = strata();
    store.remove(MANIFEST);
    let error = refusal(&store, backfill(&store)).1;
    let human = Zagg::new("backfill").arg(store.root()).run().expect_code(3);
    assert_contains(&human.stderr, &[&error]);
    assert_eq!(human.stdout, "");
}

// Declarations.

#[test]
fn every_declaration_the_pass_cannot_follow_is_refused_with_how_to_redeclare() {
    let declarations: [(&[&str], &Edit); 14] = [
        (&["no pyramid"], &|manifest| drop(take(manifest, "pyramid"))),
        (&["zagg-pyramid/1", "declared off"], &|manifest| {
            manifest["pyramid"] = json!({"spec": "zagg-pyramid/1", "overview": {"orders": []}});
        }),
        (&["zagg-pyramid/1"], &|manifest| {
            manifest["pyramid"] = json!({"spec": "zagg-pyramid/1", "overview": {"orders": [3]}});
        }),
        (&["zagg-pyramid/3"], &|manifest| {
            manifest["pyramid"]["spec"] = json!("zagg-pyramid/3")
        }),
        (&["overviews", "missing"], &|manifest| {
            drop(take(&mut manifest["pyramid"], "overviews"))
        }),
        (&["overviews", "empty"], &|manifest| {
            manifest["pyramid"]["overviews"] = json!([])
        }),
        (&["overviews", "not a list"], &|manifest| {
            manifest["pyramid"]["overviews"] = json!({"4": [5]})
        }),
        (&["overviews", "not a list"], &|manifest| {
            manifest["pyramid"]["overviews"] = json!([5])
        }),
        (&["overviews", "not a list"], &|manifest| {
            manifest["pyramid"]["overviews"] = json!([{"node": 4, "cells": []}]);
        }),
        (&["no entry at the shard order"], &|manifest| {
            manifest["pyramid"]["overviews"] = json!([{"node": 3, "cells": [4]}]);
        }),
        (&["6"], &|manifest| {
            manifest["pyramid"]["overviews"] = json!([{"node": 4, "cells": [6]}]);
        }),
        (&["fields", "not a map"], &|manifest| {
            manifest["pyramid"]["overview"]["fields"] = json!(["count"])
        }),
        (&["fields", "not a map"], &|manifest| {
            drop(take(&mut manifest["pyramid"]["overview"], "fields"));
        }),
        (&["none"], &|manifest| {
            manifest["pyramid"]["overview"]["fields"] = json!({
                "count": {"class": "none"},
                "later": {"class": "of-a-later-program"},
            });
        }),
    ];
    for (names, edit) in declarations {
        let (_, store) = strata();
        store.edit_json(MANIFEST, edit);
        let (_, error) = refusal(&store, backfill(&store));
        assert_contains(&error, names);
        let (_, cure) = error.rsplit_once("; ").unwrap();
        assert!(cure.contains("re-declare"), "the end of `{error}`");
        let (_, same) = refusal(&store, Zagg::new("upgrade").arg(store.root()).arg("--json"));
        assert_eq!(same, error, "upgrade refuses alike");
    }
}

#[test]
fn a_gap_in_the_column_is_refused_naming_the_missing_orders() {
    let case = Case::load("deep");
    let store = case.declared_store(Law::Boundary);
    store.edit_json(MANIFEST, |manifest| {
        manifest["pyramid"]["overviews"] = json!([
            {"node": 2, "cells": [6, 3]}, {"node": 1, "cells": [2]}, {"node": 0, "cells": [1]}
        ]);
    });
    let (_, error) = refusal(&store, backfill(&store));
    assert_contains(&error, &["[4, 5]", "re-declare"]);
}

#[test]
fn the_store_as_published_is_refused_because_its_pyramid_is_declared_off() {
    let store = TestStore::of(&Case::load("plain").published());
    let (_, error) = refusal(&store, backfill(&store));
    assert_contains(&error, &["declared off", "re-declare"]);
}

// Discovery.

#[test]
fn a_store_without_run_records_has_nothing_to_do() {
    let (_, store) = strata();
    store.remove(RUN_RECORD);
    let before = store.surroundings();
    let run = backfill(&store).run().expect_code(0);
    assert_eq!(run.text("/outcome"), "nothing-to-do");
    assert_eq!(run.number("/exit_code"), 0);
    assert_eq!(run.json()["error"], Value::Null);
    let human = Zagg::new("backfill").arg(store.root()).run().expect_code(0);
    assert_contains(&human.stdout, &["nothing to do"]);
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new()
    );
}

#[test]
fn a_run_record_that_cannot_be_read_is_a_warning() {
    let (case, store) = strata();
    let record = store.read(RUN_RECORD);
    let broken: [(&str, &[u8]); 3] = [
        ("stats_20260826T101500Z_empty.parquet", b""),
        (
            "stats_20260827T101500Z_truncated.parquet",
            &record[..record.len() / 2],
        ),
        (
            "stats_20260828T101500Z_text.parquet",
            b"no parquet at all, and long enough to have a footer",
        ),
    ];
    for (name, bytes) in broken {
        store.write(name, bytes);
    }
    let run = backfill(&store).run().expect_code(0);
    for (name, _) in broken {
        let warnings = run.warnings();
        assert_eq!(
            warnings
                .iter()
                .filter(|warning| warning.contains(name))
                .count(),
            1,
            "{name} in {warnings:?}"
        );
        store.remove(name);
    }
    assert_columns(&case, Law::Boundary, &store.root());
}

#[test]
fn a_run_record_read_twice_names_each_leaf_once() {
    let (case, store) = strata();
    store.write(
        "stats_20260826T101500Z_again.parquet",
        store.read(RUN_RECORD),
    );
    let run = backfill(&store).run().expect_code(0);
    let leaves = u64::try_from(case.leaves().len()).unwrap();
    assert_eq!(run.number("/counts/written"), leaves);
    assert_eq!(run.number("/counts/current"), 0);
}

#[test]
fn a_leaf_without_its_stamp_is_empty_and_gets_no_column() {
    let (case, store) = strata();
    let leaf = format!("{}/zarr.json", case.leaves()[0]);
    store.edit_json(&leaf, |root| {
        drop(take(&mut root["attributes"], "morton_hive_commit"))
    });
    let run = backfill(&store).run().expect_code(0);
    assert_eq!(run.number("/counts/empty"), 1);
    assert_eq!(
        run.number("/counts/written"),
        u64::try_from(case.leaves().len()).unwrap() - 1
    );
    assert!(!store.has(&format!("{}/zarr.json", case.columns(Law::Boundary)[0])));
}

// Outcomes.

/// Cuts the digests of a leaf short, so that its fold cannot succeed.
fn corrupt(store: &TestStore, leaf: &str) {
    let key = format!("{leaf}/6/h_tdigest_signal/c/0");
    let bytes = store.read(&key);
    store.write(&key, &bytes[..bytes.len() - 5]);
}

#[test]
fn a_corrupt_leaf_fails_by_name_and_the_others_are_written() {
    let (case, store) = strata();
    let leaves = case.leaves();
    corrupt(&store, &leaves[0]);
    let run = backfill(&store).run().expect_code(1);
    assert_eq!(run.text("/outcome"), "failed");
    assert_eq!(run.number("/exit_code"), 1);
    assert_eq!(run.number("/counts/failed"), 1);
    assert_eq!(
        run.number("/counts/written"),
        u64::try_from(leaves.len()).unwrap() - 1
    );
    let document = run.json();
    let failed = document["failed_leaves"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{document:#}");
    assert_contains(failed[0]["leaf"].as_str().unwrap(), &[&leaves[0]]);
    assert_eq!(failed[0]["array"], "h_tdigest_signal");
    assert_eq!(failed[0]["kind"], "corrupt-leaf");
    assert_names_a_cure(failed[0]["error"].as_str().unwrap());
    assert!(!store.has(LEASE));
    let column = &case.columns(Law::Boundary)[0];
    assert!(
        !store.tree().keys().any(|key| key.starts_with(column)),
        "a failed leaf has no column"
    );
}

#[test]
fn a_pass_in_which_every_leaf_fails_is_aborted_with_the_last_error() {
    let (case, store) = strata();
    for leaf in case.leaves() {
        corrupt(&store, &leaf);
    }
    let before = store.surroundings();
    let run = backfill(&store).run().expect_code(4);
    assert_eq!(run.text("/outcome"), "aborted");
    assert_eq!(run.number("/exit_code"), 4);
    assert_eq!(
        run.number("/counts/failed"),
        u64::try_from(case.leaves().len()).unwrap()
    );
    assert_contains(&run.text("/error"), &["h_tdigest_signal"]);
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new(),
        "nothing written and no lease left"
    );
}

#[test]
fn a_signal_drains_releases_and_reports() {
    for signal in ["INT", "TERM", "HUP"] {
        let store = TestStore::empty();
        let demo = store.path("demo");
        Zagg::new("demo")
            .arg(&demo)
            .args(&[
                "--leaves",
                "60",
                "--cell-order",
                "9",
                "--fields",
                "temporal",
            ])
            .run()
            .expect_code(0);
        let mut running = Zagg::backfill(&demo)
            .args(&["--max-in-flight", "1"])
            .start();
        let lease = demo.join(LEASE);
        wait_for(|| lease.exists());
        assert!(!running.has_ended());
        running.signal(signal);
        let run = running.wait().expect_code(130);
        assert_eq!(run.text("/outcome"), "interrupted", "{signal}");
        assert_eq!(run.number("/exit_code"), 130);
        assert!(run.number("/counts/not_attempted") > 0, "{:#}", run.json());
        assert!(!lease.exists(), "the lease is released");
        let resumed = Zagg::backfill(&demo).run().expect_code(0);
        assert_eq!(
            resumed.number("/counts/written") + resumed.number("/counts/current"),
            60
        );
        assert_eq!(
            resumed.number("/counts/current"),
            run.number("/counts/written")
        );
    }
}

#[track_caller]
fn wait_for(holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "waited in vain"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_document_has_the_same_keys_however_the_run_ends() {
    let (case, store) = strata();
    let written = backfill(&store).run().expect_code(0);
    let current = backfill(&store).run().expect_code(0);
    let dry = backfill(&store)
        .args(&["--dry-run", "--force"])
        .run()
        .expect_code(0);
    corrupt(&store, &case.leaves()[0]);
    let failed = backfill(&store).arg("--force").run().expect_code(1);
    for leaf in &case.leaves()[1..] {
        corrupt(&store, leaf);
    }
    let aborted = backfill(&store).arg("--force").run().expect_code(4);
    store.remove(RUN_RECORD);
    let nothing = backfill(&store).run().expect_code(0);
    store.remove(MANIFEST);
    let refused = backfill(&store).run().expect_code(3);

    let keys = [
        "command",
        "root",
        "outcome",
        "exit_code",
        "run_id",
        "fold_law",
        "dry_run",
        "counts",
        "verdicts",
        "failed_leaves",
        "requests",
        "bytes",
        "peak_in_flight_bytes",
        "seconds",
        "stage_seconds",
        "ladder",
        "warnings",
        "error",
    ];
    let counts = [
        "written",
        "current",
        "empty",
        "failed",
        "skipped",
        "not_attempted",
        "planned",
    ];
    let verdicts = [
        "absent-or-unstamped",
        "declaration-drift",
        "structure-drift",
        "stale",
        "granule-drift",
        "forced",
    ];
    for (run, outcome) in [
        (written, "done"),
        (current, "done"),
        (dry, "done"),
        (failed, "failed"),
        (aborted, "aborted"),
        (nothing, "nothing-to-do"),
        (refused, "refused"),
    ] {
        let document = run.json();
        assert_eq!(document["outcome"], outcome);
        assert_eq!(document["exit_code"].as_i64(), run.code.map(i64::from));
        assert_eq!(keys_of(&document), keys);
        assert_eq!(keys_of(&document["counts"]), counts);
        assert_eq!(keys_of(&document["verdicts"]), verdicts);
        assert_eq!(keys_of(&document["bytes"]), ["read", "written"]);
        assert!(document["seconds"].is_number());
        let has_error = matches!(outcome, "aborted" | "refused");
        assert_eq!(document["error"].is_string(), has_error, "{document:#}");
    }
}

fn keys_of(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn a_person_gets_a_summary_and_the_log_goes_to_stderr() {
    let (case, store) = strata();
    let run = Zagg::new("backfill").arg(store.root()).run().expect_code(0);
    let leaves = case.leaves().len().to_string();
    assert_contains(&run.stdout, &[&leaves, "written"]);
    assert!(serde_json::from_str::<Value>(&run.stdout).is_err());
    let quiet = backfill(&store)
        .args(&["--log-level", "error"])
        .run()
        .expect_code(0);
    assert_eq!(quiet.stderr, "", "no log line is an error");
    assert_eq!(quiet.text("/outcome"), "done");
}

// The lease.

fn lease(store: &TestStore, heartbeat_ago: u64) -> Value {
    let lease = json!({
        "spec": "zagg-sweep-lease/1",
        "run_id": "other-run-7",
        "scope": null,
        "acquired_at": iso_ago(heartbeat_ago + 60),
        "heartbeat_at": iso_ago(heartbeat_ago),
        "ttl_s": 900,
    });
    store.write(LEASE, serde_json::to_vec_pretty(&lease).unwrap());
    lease
}

#[test]
fn a_live_lease_is_refused_naming_its_run_heartbeat_and_ttl() {
    let (_, store) = strata();
    let held = lease(&store, 30);
    let (_, error) = refusal(&store, backfill(&store));
    let text = |key: &str| held[key].as_str().unwrap().to_owned();
    assert_contains(
        &error,
        &[
            "other-run-7",
            &text("acquired_at"),
            &text("heartbeat_at"),
            "900",
        ],
    );
}

#[test]
fn an_expired_lease_is_claimed() {
    let (case, store) = strata();
    lease(&store, 2_000);
    backfill(&store).run().expect_code(0);
    assert_columns(&case, Law::Boundary, &store.root());
}

#[test]
fn a_lease_that_is_not_json_is_claimed() {
    for bytes in ["", "{\"run_id\":"] {
        let (case, store) = strata();
        store.write(LEASE, bytes);
        backfill(&store).run().expect_code(0);
        assert_columns(&case, Law::Boundary, &store.root());
    }
}

#[test]
fn the_lease_can_be_shown_and_an_expired_one_released() {
    let (_, store) = strata();
    let command = |what: &str| {
        Zagg::new("lease")
            .arg(what)
            .arg(store.root())
            .run()
            .expect_code(0)
    };
    assert_contains(&command("show").stdout, &["no lease"]);
    let held = lease(&store, 2_000);
    let shown = command("show");
    assert_contains(
        &shown.stdout,
        &[
            "other-run-7",
            held["heartbeat_at"].as_str().unwrap(),
            "900",
            "expired",
        ],
    );
    assert!(store.has(LEASE), "showing releases nothing");
    command("release");
    assert!(!store.has(LEASE));
}

// Partial passes.

#[test]
fn a_dry_run_writes_nothing() {
    let (case, store) = strata();
    let before = store.surroundings();
    let run = backfill(&store).arg("--dry-run").run().expect_code(0);
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new()
    );
    assert_eq!(run.json()["dry_run"], true);
    assert_eq!(
        run.number("/verdicts/absent-or-unstamped"),
        u64::try_from(case.leaves().len()).unwrap()
    );
    assert_eq!(run.number("/bytes/written"), 0);
}

#[test]
fn one_leaf_and_then_the_rest_is_the_same_as_all_at_once() {
    let (case, store) = strata();
    let leaves = u64::try_from(case.leaves().len()).unwrap();
    let one = backfill(&store)
        .args(&["--max-leaves", "1"])
        .run()
        .expect_code(0);
    assert_eq!(one.number("/counts/written"), 1);
    let roots = || {
        let is_root = |key: &&String| key.ends_with(".pyramid.zarr/zarr.json");
        store.tree().keys().filter(is_root).count()
    };
    assert_eq!(roots(), 1);
    let rest = backfill(&store).run().expect_code(0);
    assert_eq!(rest.number("/counts/current"), 1);
    assert_eq!(rest.number("/counts/written"), leaves - 1);
    assert_columns(&case, Law::Boundary, &store.root());
}

#[test]
fn only_the_named_shards_are_tried() {
    let (case, store) = strata();
    let run = backfill(&store)
        .arg("--shards=11214,-31223")
        .run()
        .expect_code(0);
    assert_eq!(run.number("/counts/written"), 2);
    let written: Vec<String> = store
        .tree()
        .into_keys()
        .filter_map(|key| {
            key.strip_suffix("/all.pyramid.zarr/zarr.json")
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(written, ["-3/1/2/2/3", "1/1/2/1/4"]);
    let missing = compare_columns(&case, Law::Boundary, &store.root());
    assert!(!missing.is_empty());
    assert!(
        missing.iter().all(|line| {
            line.starts_with("missing: -3/1/2/2/4/") || line.starts_with("missing: 1/1/2/1/3/")
        }),
        "{missing:?}"
    );
}

#[test]
fn a_small_budget_gives_the_same_bytes() {
    let case = Case::load("deep_strata");
    let store = case.declared_store(Law::Boundary);
    backfill(&store)
        .args(&["--memory-budget", "1MiB", "--max-in-flight", "1"])
        .run()
        .expect_code(0);
    assert_columns(&case, Law::Boundary, &store.root());
}

// The status channel.

fn status(store: &TestStore, run_id: &str, age: Duration) {
    let object = store
        .parent()
        .join(format!("store.status/run-{run_id}/shard-00001.json"));
    fs::create_dir_all(object.parent().unwrap()).unwrap();
    fs::write(&object, "{}").unwrap();
    set_age(&object, age);
}

fn set_age(path: &Path, age: Duration) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn a_run_in_flight_is_a_warning_that_names_it_and_no_refusal() {
    let (case, store) = strata();
    status(&store, "in-flight-3", Duration::from_secs(30));
    status(&store, "long-gone-2", Duration::from_secs(5_000));
    let run = backfill(&store).run().expect_code(0);
    let warnings = run.warnings();
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("in-flight-3")),
        "{warnings:?}"
    );
    assert!(
        !warnings
            .iter()
            .any(|warning| warning.contains("long-gone-2")),
        "{warnings:?}"
    );
    assert_columns(&case, Law::Boundary, &store.root());
}
