//! `retire` as an operator runs it: what it lists, what it refuses, and what it deletes
//! after a clean verify.

use crate::common::binary::{Output, Zagg};
use crate::common::cases::{Case, Law, MANIFEST, NAMES};
use crate::common::old::Old;
use crate::common::stores::{TestStore, Tree, differences};
use crate::common::times::iso_ago;
use serde_json::{Value, json};
use zagg_stream::{Ending, Retire, RetireError, Root};

const LEASE: &str = "sweep.lease.json";

/// Runs it with an exit code to expect; it may write nothing.
#[track_caller]
fn retire(store: &TestStore, args: &[&str], code: i32) -> Output {
    let before = store.surroundings();
    let output = Zagg::new("retire").arg(store.root()).args(args).run();
    let output = output.expect_code(code);
    let changed = differences(&before, &store.surroundings());
    assert!(changed.is_empty(), "{changed:?}");
    output
}

/// A refusal, by listing and with `--yes`, as its error says it.
#[track_caller]
fn refused(store: &TestStore, says: &[&str]) {
    for args in [&["--json"][..], &["--json", "--yes"]] {
        let output = retire(store, args, 3);
        let error = output.text("/error");
        for part in says {
            assert!(error.contains(part), "`{error}` lacks `{part}`");
        }
        assert!(output.stderr.contains(&error), "{}", output.stderr);
        assert_eq!(output.number("/exit_code"), 3);
        assert_eq!(output.text("/outcome"), "refused");
    }
}

fn upgraded(name: &str) -> Tree {
    Case::load(name).upgraded_tree(Law::Boundary)
}

/// An upgraded store with two windows and an `all` that nobody owns.
fn left_behind() -> (TestStore, Tree, [Old; 3]) {
    let mut tree = upgraded("windowed");
    let olds = [
        Old::add(&mut tree, "1/1/2019.zarr", "2018"),
        Old::add(&mut tree, "1/1/2/1/2020.zarr", "2017"),
        Old::add(&mut tree, "1/2019.zarr", "all"),
    ];
    (TestStore::of(&tree), tree, olds)
}

#[test]
fn an_upgraded_store_without_leftovers_has_nothing_to_retire() {
    for name in NAMES {
        let store = TestStore::of(&upgraded(name));
        let output = retire(&store, &["--json"], 0);
        let document = output.json();
        assert_eq!(document["command"], "retire");
        assert_eq!(document["outcome"], "nothing-to-do");
        assert_eq!(document["artifacts"], json!([]));
        assert!(output.number("/kept/ladder") > 0 && output.number("/nodes") > 0);
        let kept = document["kept"].as_object().unwrap();
        assert!(
            kept.keys()
                .all(|reason| ["ladder", "column"].contains(&reason.as_str()))
        );
    }
}

#[test]
fn a_listing_names_each_artifact_with_its_size_and_why() {
    let (store, tree, olds) = left_behind();
    let document = retire(&store, &["--json"], 0).json();
    let mut objects = 0;
    let artifacts = document["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), olds.len());
    for old in &olds {
        let listed = artifacts
            .iter()
            .find(|artifact| artifact["path"] == old.path());
        let listed = listed.unwrap_or_else(|| panic!("{} is not listed", old.path()));
        let own: Vec<&Vec<u8>> = tree
            .iter()
            .filter_map(|(key, bytes)| old.has(key).then_some(bytes))
            .collect();
        let bytes: usize = own.iter().map(|bytes| bytes.len()).sum();
        assert_eq!(
            listed["found"],
            json!({"objects": own.len(), "bytes": bytes})
        );
        assert_eq!(
            (&listed["sidecar"], &listed["left"]),
            (&json!(true), &Value::Null)
        );
        assert!(listed["why"].as_str().unwrap().contains("zagg-overview/1"));
        objects += own.len();
    }
    assert_eq!(document["listed"]["objects"], objects);
    assert_eq!(document["deleted"]["objects"], 0);

    let text = retire(&store, &[], 0).stdout;
    for old in &olds {
        assert!(text.contains(&old.path()), "{text}");
    }
    let next = format!(
        "next: `zagg-stream retire {} --yes`",
        store.root().display()
    );
    for part in [
        "nothing deleted",
        "3 artifacts",
        "kept: ",
        " ladder",
        next.as_str(),
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

#[test]
fn what_is_kept_is_counted_and_named_with_the_reason() {
    let (_, mut tree, olds) = left_behind();
    olds[0].edit(&mut tree, |record| record["node"] = json!("12"));
    olds[1].edit(&mut tree, |record| record["order"] = json!(1));
    tree.remove(&olds[2].root_document());
    let store = TestStore::of(&tree);
    let output = retire(&store, &["--json"], 0);
    assert_eq!(output.number("/kept/misplaced"), 2);
    assert_eq!(output.number("/kept/no-root"), 1);
    assert_eq!(output.json()["kept_artifacts"].as_array().unwrap().len(), 3);
    let text = retire(&store, &[], 0).stdout;
    for part in [
        "stands at 11",
        "stands at order 3",
        "no root document",
        "2 misplaced",
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
}

#[test]
fn yes_deletes_what_was_listed_once_the_store_is_verified() {
    let (store, ..) = left_behind();
    let output = Zagg::new("retire")
        .arg(store.root())
        .args(&["--json", "--yes"])
        .run()
        .expect_code(0);
    assert_eq!(output.number("/deleted/artifacts"), 3);
    let left = differences(&upgraded("windowed"), &store.tree());
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(
        retire(&store, &["--json"], 0).text("/outcome"),
        "nothing-to-do"
    );
}

#[test]
fn yes_is_refused_while_verify_finds_anything() {
    let (store, tree, _) = left_behind();
    let chunk = "1/1/2/1/3/2019.pyramid.zarr/5/count/c/0";
    let mut bytes = tree[chunk].clone();
    bytes[0] ^= 1;
    store.write(chunk, bytes);
    let output = retire(&store, &["--json", "--yes"], 3);
    assert!(output.text("/error").contains("verify first"));
    assert!(
        output.stderr.contains("2019.pyramid.zarr"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_store_that_was_not_swept_is_refused() {
    let (store, ..) = left_behind();
    store.edit_json("1/1/2/2019.zarr/zarr.json", |root| {
        root["attributes"]["zagg_overview"]["spec"] = json!("zagg-overview/1");
    });
    refused(
        &store,
        &["1/1/2/2019.zarr", "run sweep first", "zagg-stream sweep"],
    );
    // What could go once it is swept is listed all the same.
    let document = retire(&store, &["--json"], 3).json();
    assert_eq!(document["artifacts"].as_array().unwrap().len(), 3);
    assert_eq!(document["kept"]["unswept"], 1);
}

#[test]
fn a_store_that_declares_no_ladder_is_refused() {
    let store = TestStore::of(&Case::load("plain").published());
    refused(&store, &["declared off", "zagg-stream declare"]);
    store.remove(MANIFEST);
    refused(&store, &[MANIFEST, "not the root"]);
}

#[test]
fn a_run_record_that_cannot_be_read_refuses() {
    let (store, ..) = left_behind();
    store.write("stats_20260101T000000Z_torn.parquet", b"PAR1");
    refused(&store, &["stats_20260101T000000Z_torn.parquet", "restore"]);
}

#[test]
fn a_live_lease_refuses_a_deletion_and_not_a_listing() {
    let (store, ..) = left_behind();
    let lease = json!({
        "spec": "zagg-sweep-lease/1", "run_id": "other-run-7", "scope": null,
        "acquired_at": iso_ago(60), "heartbeat_at": iso_ago(30), "ttl_s": 900,
    });
    store.write(LEASE, lease.to_string());
    retire(&store, &[], 0);
    let error = retire(&store, &["--json", "--yes"], 3).text("/error");
    for part in ["other-run-7", "lease release"] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn the_library_deletes_nothing_by_itself() {
    let (store, tree, olds) = left_behind();
    let root = || Root::open(store.root().to_str().unwrap()).unwrap();
    let retired = Retire::new(root()).run().await.unwrap();
    assert_eq!(
        (retired.outcome, retired.artifacts.len()),
        (Ending::Done, olds.len())
    );
    let refused = Retire::new(root()).delete(true).run().await.unwrap_err();
    assert!(
        matches!(refused, RetireError::Unverified { .. }),
        "{refused}"
    );
    assert!(differences(&tree, &store.tree()).is_empty());
}

#[test]
fn help_has_an_example() {
    let help = Zagg::new("retire").arg("--help").run().expect_code(0);
    for part in ["Usage", "Example: zagg-stream retire", "--yes"] {
        assert!(help.stdout.contains(part), "{}", help.stdout);
    }
}
