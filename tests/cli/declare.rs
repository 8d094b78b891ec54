//! `declare`, and `upgrade` with a config, on the golden cases.

use std::fs;

use crate::common::binary::{Output, Zagg};
use crate::common::cases::{Law, MANIFEST, NAMES};
use crate::common::compare::assert_expected;
use crate::common::published::Published;
use crate::common::stores::{TestStore, differences};
use crate::common::times::iso_ago;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use zagg_stream::pyramid::semantic_core;

/// Runs what must write nothing.
#[track_caller]
fn writes_nothing(store: &TestStore, run: Zagg, code: i32) -> Output {
    let before = store.surroundings();
    let output = run.run().expect_code(code);
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new()
    );
    output
}

/// Runs what must be refused, and gives the message, whose last clause is the cure.
#[track_caller]
fn refusal(published: &Published, run: Zagg) -> String {
    let output = writes_nothing(&published.store, run, 3);
    let error = output.text("/error");
    let (_, cure) = error.rsplit_once("; ").unwrap();
    assert!(cure.split_whitespace().count() >= 3, "no cure in `{error}`");
    assert!(output.stderr.contains(&error), "{}", output.stderr);
    error
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no `{part}` in `{text}`");
    }
}

#[test]
fn every_config_has_the_hash_and_the_core_of_its_store() {
    for name in NAMES {
        let published = Published::load(name);
        let (core, hash) = semantic_core(&published.config).unwrap();
        let facts = published.facts();
        assert_eq!(
            core,
            facts["canonical_semantic_json"].as_str().unwrap(),
            "{name}"
        );
        assert_eq!(hash, facts["semantic_hash"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn every_case_is_declared_as_the_reference_declares_it() {
    for name in NAMES {
        let published = Published::load(name);
        let dry = published.declare_as_published().arg("--dry-run");
        let dry = writes_nothing(&published.store, dry, 0).json();
        assert_eq!(dry["would_update"], true);
        assert_eq!(dry["semantic_hash"], "match");
        assert!(!dry["diff"].as_array().unwrap().is_empty());

        let summary = published.declare_as_published().run().expect_code(0).json();
        for (key, due) in published.facts()["declare_summary"].as_object().unwrap() {
            assert_eq!(summary[key].to_string(), due.to_string(), "{name}: {key}");
        }
        assert_eq!(summary["declared_via"], "overviews");

        let mut manifest = published.manifest();
        let mirror = manifest.shift_remove("multiscales").unwrap();
        for law in Law::ALL {
            let due = published.case.file(&format!("declared.{law}.json"));
            let due: Value = serde_json::from_slice(due).unwrap();
            assert_eq!(
                Value::Object(manifest.clone()).to_string(),
                due.to_string(),
                "{name}"
            );
        }
        assert_eq!(mirror[0]["spec"], "zagg-multiscales/1");
        assert_eq!(mirror[0]["fields"], summary["fields"]);
        assert_eq!(mirror[0]["name"], manifest["dataset"]["short_name"]);
        assert_eq!(
            mirror[0]["datasets"].as_array().unwrap().len(),
            manifest["shard_order"].as_u64().unwrap() as usize + 1
        );

        let text = String::from_utf8(published.store.read(MANIFEST)).unwrap();
        assert!(
            text.starts_with("{\n \"spec\": \"morton-hive/") && text.ends_with("\n ]\n}"),
            "{text}"
        );

        let again = writes_nothing(&published.store, published.declare_as_published(), 0).json();
        assert_eq!(
            (&again["previous"], &again["updated"]),
            (&json!("identical"), &json!(false))
        );
        let told = again["warnings"].to_string();
        assert!(!told.contains("multiscales"), "{name}: {told}");
    }
}

#[test]
fn the_columns_of_a_declared_store_are_the_golden_ones() {
    for name in NAMES {
        for law in Law::ALL {
            let published = Published::load(name);
            published.declare_as_published().run().expect_code(0);
            let mut expected = published.case.expected(law);
            expected
                .input
                .insert(MANIFEST.to_owned(), published.store.read(MANIFEST));
            Zagg::backfill(&published.store.root())
                .args(&["--fold-law", law.name()])
                .run()
                .expect_code(0);
            assert_expected(&expected, &published.store.root());
        }
    }
}

#[test]
fn upgrade_with_a_config_declares_and_goes_on() {
    let published = Published::load("strata");
    let upgrade = || published.command("upgrade").args(&["--overviews", "5"]);
    let dry = writes_nothing(&published.store, upgrade().arg("--dry-run"), 0).json();
    assert_eq!(
        (&dry["command"], &dry["declared"]["would_update"]),
        (&json!("upgrade"), &json!(true))
    );
    let run = upgrade().run().expect_code(0);
    assert_eq!(run.number("/counts/written"), 4);
    assert_eq!(run.json().pointer("/ladder/finished"), Some(&json!(true)));
    let dry = writes_nothing(&published.store, upgrade().arg("--dry-run"), 0);
    assert_eq!(dry.number("/counts/current"), 4);
    assert_eq!(dry.number("/ladder/counts/planned"), 0);
    writes_nothing(&published.store, upgrade(), 0);
    let refused = published.command("upgrade").args(&["--overviews", "6"]);
    refusal(&published, refused);
    let without = Zagg::new("upgrade").arg(published.store.root());
    writes_nothing(&published.store, without.args(&["--overviews", "5"]), 2);
}

#[test]
fn a_store_without_a_good_declaration_to_make_is_refused() {
    let published = Published::load("strata");
    for (args, names) in [
        (
            ["--overviews", "4"],
            "strictly between the shard order 4 and the cell order 6",
        ),
        (["--overviews", "5,5"], "[5, 5]"),
        (["--chunk-order", "5"], "says `pyramid: false`"),
    ] {
        let error = refusal(&published, published.declare().args(&args));
        assert_contains(&error, &[names]);
    }
    let mut raster = Published::load("plain");
    raster.edit_config("reader: h5coro", "reader: raster");
    for lever in ["--overviews", "--chunk-order"] {
        let error = refusal(&raster, raster.declare().args(&[lever, "5"]));
        assert_contains(&error, &["raster"]);
    }
    let mut nothing = Published::load("plain");
    nothing.edit_config("function: len", "function: mean");
    nothing.edit_config("build_tdigest", "build_histogram");
    let error = refusal(&nothing, nothing.declare_as_published());
    assert_contains(&error, &["every one is of class none"]);
    let deep = Published::load("deep");
    let error = refusal(&deep, deep.declare().args(&["--overviews", "6"]));
    assert_contains(&error, &["lacks [3]", "column tier"]);
    let error = refusal(&deep, deep.declare().args(&["--overviews", "6,4,3"]));
    assert_contains(&error, &["lacks [5]"]);
}

#[test]
fn what_was_typed_wrong_is_a_usage_error() {
    let mut published = Published::load("strata");
    let both = ["--overviews", "5", "--chunk-order", "5"];
    writes_nothing(&published.store, published.declare().args(&both), 2);
    let absent = Zagg::new("declare").arg(published.store.root());
    let absent = absent.args(&["--config", "/nonexistent/c.yaml"]);
    let output = writes_nothing(&published.store, absent, 2);
    assert_contains(&output.stderr, &["/nonexistent/c.yaml"]);
    published.edit_config("  driver: s3\n", "  driver: [s3\n");
    let output = writes_nothing(&published.store, published.declare(), 2);
    assert_contains(&output.text("/error"), &["not YAML", "line "]);
    fs::write(published.config_path(), "- a\n").unwrap();
    let output = writes_nothing(&published.store, published.declare(), 2);
    assert_contains(&output.text("/error"), &["a list where a mapping is due"]);
}

#[test]
fn another_config_is_refused_by_its_fingerprints() {
    for (from, to) in [
        ("function: len", "function: sum"),
        ("dtype: int32", "dtype: int64"),
        ("  groups:\n", "  filters: [x]\n  groups:\n"),
    ] {
        let mut published = Published::load("strata");
        published.edit_config(from, to);
        let error = refusal(&published, published.declare_as_published());
        assert_contains(&error, &["9e4d65282c94", "another config"]);
        let dry = published.declare_as_published().arg("--dry-run");
        let dry = writes_nothing(&published.store, dry, 3).json();
        assert_eq!(dry["semantic_hash"], "mismatch");
        assert_eq!(dry["refusals"][0], dry["error"]);
    }
    let mut published = Published::load("strata");
    published.edit_config(
        "data_source:\n",
        "# a comment\ndata_source:\n  index: {kind: any}\n",
    );
    published.edit_config("driver: s3", "driver:   https");
    published.declare_as_published().run().expect_code(0);
}

#[test]
fn the_hash_of_the_older_rule_is_rewritten_in_the_same_write() {
    let mut published = Published::load("plain");
    published.edit_config("data_source:\n", "data_source:\n  index: any\n");
    let facts = published.facts();
    let core = facts["canonical_semantic_json"].as_str().unwrap();
    let legacy = core.replace(
        "\"variables\":{\"h\":\"/",
        "\"index\":\"any\",\"variables\":{\"h\":\"/",
    );
    assert_ne!(core, legacy);
    let legacy = format!("{:x}", Sha256::digest(&legacy));
    published.store.edit_json(MANIFEST, |manifest| {
        manifest["semantic_hash"] = json!(legacy)
    });
    let dry = published.declare_as_published().arg("--dry-run");
    let dry = writes_nothing(&published.store, dry, 0).json();
    assert_eq!(dry["semantic_hash"], "legacy");
    let summary = published.declare_as_published().run().expect_code(0).json();
    assert_contains(
        summary["validated"].as_str().unwrap(),
        &[&legacy[..12], "a3d4aaadc8b1"],
    );
    assert_eq!(
        published.manifest()["semantic_hash"],
        facts["semantic_hash"]
    );
    let again = published.declare_as_published();
    assert_eq!(
        writes_nothing(&published.store, again, 0).text("/semantic_hash"),
        "match"
    );
}

#[test]
fn a_manifest_without_a_hash_is_a_warning() {
    let published = Published::load("plain");
    published.store.edit_json(MANIFEST, |manifest| {
        manifest
            .as_object_mut()
            .unwrap()
            .shift_remove("semantic_hash");
    });
    let run = published.declare_as_published().run().expect_code(0);
    assert_eq!(
        run.text("/validated"),
        "leaf 1/1/2/1/3/11213.zarr; no semantic_hash to compare"
    );
    assert!(
        run.warnings()
            .iter()
            .any(|warning| warning.contains("no semantic_hash"))
    );
}

#[test]
fn every_drift_of_the_first_leaf_is_in_one_message() {
    let published = Published::load("strata");
    let cells = format!(
        "{}/6",
        published
            .case
            .leaves()
            .iter()
            .find(|leaf| leaf.starts_with('1'))
            .unwrap()
    );
    let metadata = |array: &str| format!("{cells}/{array}/zarr.json");
    published.store.edit_json(&metadata("count"), |array| {
        array["data_type"] = json!("int64")
    });
    published.store.remove(&metadata("composition"));
    published
        .store
        .edit_json(&metadata("h_tdigest_noise"), |array| {
            array["attributes"]["weights"] = json!("flux");
            array["attributes"]["ragged"]["spec"] = json!("zagg-ragged/9");
        });
    published
        .store
        .edit_json(&metadata("h_tdigest_signal"), |array| {
            array["attributes"]["ragged"]
                .as_object_mut()
                .unwrap()
                .shift_remove("locations");
        });
    let first = refusal(&published, published.declare_as_published());
    let lines = [
        "`count` has data type int64",
        "`composition` is not there",
        "`h_tdigest_noise` has weights \"flux\"",
        "zagg-ragged/9",
        "`h_tdigest_signal` does not declare its companion",
    ];
    assert_contains(&first, &lines);
}

#[test]
fn a_live_lease_of_another_run_refuses_and_a_dry_run_does_not_ask() {
    let published = Published::load("plain");
    let lease = json!({
        "spec": "zagg-sweep-lease/1", "run_id": "other-run-7", "scope": null,
        "acquired_at": iso_ago(60), "heartbeat_at": iso_ago(30), "ttl_s": 900,
    });
    published.store.write("sweep.lease.json", lease.to_string());
    let error = refusal(&published, published.declare_as_published());
    assert_contains(&error, &["other-run-7"]);
    let dry = published.declare_as_published().arg("--dry-run");
    writes_nothing(&published.store, dry, 0);
}

#[test]
fn the_schedule_comes_from_lever_or_config() {
    let run = |pyramid: &str, args: &[&str]| {
        let mut published = Published::load("fine");
        published.edit_config("  pyramid: false\n", pyramid);
        let run = published.declare().args(args).run().expect_code(0);
        (
            run.json()["overviews"][0]["cells"].clone(),
            run.text("/declared_via"),
            published,
        )
    };
    assert_eq!(run("  pyramid: {overviews: 2}\n", &[]).0, json!([2]));
    assert_eq!(
        run("  pyramid:\n    overviews: [3, 2]\n", &[]).0,
        json!([3, 2])
    );
    let (cells, via, _) = run("", &["--chunk-order", "2"]);
    assert_eq!((cells, via.as_str()), (json!([2]), "chunk-order"));
    let (cells, via, published) = run("  pyramid: {overviews: 2}\n", &["--overviews", "3,2"]);
    assert_eq!((cells, via.as_str()), (json!([3, 2]), "overviews"));
    let spelled = published.declare().args(&["--chunk-order", "3"]);
    assert_contains(&refusal(&published, spelled), &["spells a schedule"]);
}

#[test]
fn what_passes_recorded_and_unknown_keys_are_kept() {
    let published = Published::load("deep");
    let after = published
        .case
        .file("expected.raw/morton_hive.json")
        .to_vec();
    published.store.write(MANIFEST, &after);
    published.store.edit_json(MANIFEST, |manifest| {
        manifest["pyramid"]["overview"]["materialized"] = json!({"1": 3});
        manifest["mystery"] = json!([1.0]);
    });
    let before = published.manifest();
    // Declared as it stands: the mirror that is lacking is only told of.
    let same = writes_nothing(&published.store, published.declare_as_published(), 0);
    assert_eq!(same.text("/previous"), "identical");
    assert!(
        same.warnings()
            .iter()
            .any(|warning| warning.contains("multiscales"))
    );

    let next = published
        .declare()
        .args(&["--overviews", "5,4,3"])
        .run()
        .expect_code(0);
    assert_eq!(next.text("/previous"), "replaced");
    let manifest = published.manifest();
    let (old, new) = (&before["pyramid"], &manifest["pyramid"]);
    assert_eq!(new["overviews"][0], json!({"node": 2, "cells": [5, 4, 3]}));
    assert!(old["overviews"][1]["actuals"].is_object());
    assert_eq!(new["overviews"][1], old["overviews"][1]);
    assert_eq!(new["overview"]["materialized"], json!({"1": 3}));
    let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
    let mut due = keys(&before);
    due.push("multiscales".to_owned());
    assert_eq!(keys(&manifest), due);

    let off = published.declare().run().expect_code(0);
    assert!(off.warnings()[0].contains("declared off"));
    let manifest = published.manifest();
    assert_eq!(manifest["pyramid"]["spec"], "zagg-pyramid/1");
    assert!(!manifest.contains_key("multiscales"));
}

#[test]
fn a_person_gets_the_plan_in_words() {
    let published = Published::load("strata");
    let run = |more: &[&str]| {
        let zagg = Zagg::new("declare").arg(published.store.root()).args(&[
            "--overviews",
            "5",
            "--config",
        ]);
        zagg.arg(published.config_path()).args(more)
    };
    let dry = writes_nothing(&published.store, run(&["--dry-run"]), 0);
    assert_contains(
        &dry.stdout,
        &[
            "dry run, nothing written",
            "node order 4: cells of order [5]",
            "field composition: packed",
            "semantic hash 9e4d65282c94: match",
            "+ \"spec\": \"zagg-pyramid/2\"",
            "- \"spec\": \"zagg-pyramid/1\"",
        ],
    );
    let done = run(&[]).run().expect_code(0);
    assert_contains(
        &done.stdout,
        &["in place of another declaration", "zagg-stream backfill"],
    );
    let help = Zagg::new("declare").arg("--help").run().expect_code(0);
    assert_contains(&help.stdout, &["Usage", "Example"]);
}
