//! `verify`: every upgraded golden case is clean under its own law; how much is looked at,
//! that nothing is written, and how it ends. What it finds is tested in `verify_planted`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law, MANIFEST, test_each_case_and_law};
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{in_memory, scripted, settings};
use crate::common::stores::{TestStore, Tree, differences};
use crate::common::verified::{
    LEAF_COLUMN, OVERVIEW, at, edit_json, found, plain_store, remove_below, verify, verify_store,
};
use serde_json::json;
use zagg_stream::{Check, Ending, Finding, Root, Upgrade, Verify};

fn check_case(name: &str, law: Law) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let case = Case::load(name);
    let verification = runtime.block_on(verify(&case.upgraded_tree(law), law));
    assert_eq!(verification.findings, Vec::<Finding>::new());
    assert!(verification.is_clean());
    assert_eq!(verification.outcome, Ending::Done);
    let leaves = u64::try_from(case.leaves().len()).unwrap();
    assert_eq!(verification.artifacts.leaf_columns, leaves);
    assert_eq!(verification.refolded.leaf_columns, leaves);
    assert_eq!(
        verification.refolded.ladder,
        verification.artifacts.stage_columns + verification.artifacts.overviews
    );
    assert_eq!(verification.unjudged, 0);
    let roots = |tree: &Tree| {
        let roots = tree.keys().filter(|key| key.ends_with(".zarr/zarr.json"));
        u64::try_from(roots.count()).unwrap()
    };
    let artifacts = roots(&case.upgraded_tree(law)) - roots(&case.declared(law));
    let checked = verification.artifacts.leaf_columns
        + verification.artifacts.stage_columns
        + verification.artifacts.overviews;
    assert_eq!(checked, artifacts, "an artifact was passed over");
}

test_each_case_and_law!(check_case);

#[tokio::test]
async fn columns_of_the_other_law_are_one_finding() {
    for (name, law, other) in [
        ("deep", Law::Boundary, Law::Raw),
        ("deep", Law::Raw, Law::Boundary),
        ("plain", Law::Raw, Law::Boundary),
    ] {
        let verification = verify(&Case::load(name).upgraded_tree(law), other).await;
        assert_eq!(verification.n_findings, 1, "{:?}", verification.findings);
        let finding = &verification.findings[0];
        assert_eq!(finding.check, Check::FoldLaw);
        assert!(
            finding.message.contains(&format!("--fold-law {law}")),
            "{finding:?}"
        );
    }
}

#[tokio::test]
async fn only_the_sample_is_folded_anew() {
    let mut tree = plain_store();
    remove_below(&mut tree, "1/1/2/1/3/11213.zarr/6/count/c/");
    let found_in_full = found(&verify(&tree, Law::Boundary).await);
    assert_eq!(
        found_in_full,
        BTreeSet::from([
            at(Check::Conservation, LEAF_COLUMN),
            at(Check::Refold, LEAF_COLUMN)
        ])
    );
    let store = in_memory(&tree).await;
    let sample = async |n_leaves: u64, seed: u64| {
        let root = Root::new(store.clone(), "memory://verified");
        let verify = Verify::new(root).settings(settings(""));
        verify.sample(n_leaves).seed(seed).run().await.unwrap()
    };
    let none = sample(0, 0).await;
    assert!(none.is_clean());
    assert_eq!(none.refolded.leaf_columns, 0);
    let (mut clean, mut not_clean) = (0, 0);
    for seed in 0..20 {
        let one = sample(1, seed).await;
        assert_eq!(one.refolded.leaf_columns, 1);
        assert_eq!(one.is_clean(), sample(1, seed).await.is_clean());
        *(if one.is_clean() {
            &mut clean
        } else {
            &mut not_clean
        }) += 1;
    }
    assert!(
        clean > 0 && not_clean > 0,
        "every seed chooses the same leaf"
    );
}

#[tokio::test]
async fn nothing_is_written() {
    for (name, law) in [("windowed_all", Law::Boundary), ("deep", Law::Raw)] {
        let mut tree = Case::load(name).upgraded_tree(law);
        // With findings, too.
        remove_below(&mut tree, "1/1/");
        let store = scripted(&tree, []).await;
        let verification = verify_store(Arc::new(store.clone()), law).await;
        let writes: u64 = Op::WRITES.iter().map(|op| store.calls(*op)).sum();
        assert_eq!(writes, 0, "{:?}", store.tally());
        let requests = verification.requests;
        assert_eq!(
            (requests.put, requests.delete, requests.bytes_written),
            (0, 0, 0)
        );
        assert!(requests.get > 0 && requests.list > 0);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_no_finding() {
    for (key, failure) in [
        (OVERVIEW, Failure::Denied),
        (LEAF_COLUMN, Failure::Status(503)),
        ("1/1/2/1/3/11213.zarr/6/count/c/0", Failure::Unauthenticated),
        ("1/1/2/all.stats.json", Failure::Status(500)),
    ] {
        let rule = Rule::on([Op::Get, Op::List]).key_contains(key);
        let store: FaultStore = scripted(&plain_store(), [rule.fail(failure)]).await;
        let verification = verify_store(Arc::new(store.clone()), Law::Boundary).await;
        assert!(store.fired() > 0, "{key}");
        assert_eq!(
            verification.outcome,
            Ending::Aborted,
            "{key}: {verification:?}"
        );
        assert_eq!(verification.exit_code, 4);
        assert!(!verification.is_clean());
        assert_eq!(verification.findings, []);
        let error = verification.error.unwrap();
        assert!(error.contains(key), "{error}");
    }
}

#[tokio::test]
async fn what_this_program_writes_is_clean() {
    for (name, law) in [
        ("windowed_all", Law::Boundary),
        ("deep_strata", Law::Boundary),
        ("deep", Law::Raw),
        ("temporal", Law::Raw),
    ] {
        let store = in_memory(&Case::load(name).declared(law)).await;
        let settings = settings(&format!("fold_law = \"{law}\""));
        let root = Root::new(store.clone(), "memory://verified");
        let upgrade = Upgrade::new(root).settings(settings);
        let report = upgrade.start().await.unwrap().join().await.unwrap();
        assert_eq!(report.outcome, Ending::Done, "{report:?}");
        let verification = verify_store(store, law).await;
        assert_eq!(verification.findings, [], "{name} {law}");
        let kinds: BTreeSet<Check> = verification
            .warnings
            .iter()
            .map(|found| found.check)
            .collect();
        assert_eq!(kinds, BTreeSet::from([Check::Multiscales]), "{name} {law}");
    }
}

#[test]
fn the_program_says_what_it_found_and_leaves_the_store_as_it_is() {
    let store = TestStore::of(&plain_store());
    let verify = || Zagg::new("verify").arg(store.root());
    let before = store.surroundings();
    let clean = verify().arg("--json").run().expect_code(0);
    assert_eq!(clean.text("/command"), "verify");
    assert_eq!(clean.text("/outcome"), "done");
    assert_eq!(clean.text("/fold_law"), "boundary");
    assert_eq!(clean.number("/artifacts/leaf_columns"), 4);
    assert_eq!(clean.number("/n_findings"), 0);
    assert!(verify().run().expect_code(0).stdout.contains(": clean"));
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new()
    );

    store.remove(&format!("{OVERVIEW}/3/count/c/0"));
    let before = store.surroundings();
    let found = verify().args(&["--full", "--json"]).run().expect_code(1);
    assert_eq!(found.text("/outcome"), "failed");
    assert_eq!(found.number("/exit_code"), 1);
    let finding = |member: &str| found.text(&format!("/findings/0/{member}"));
    assert_eq!(finding("check"), "content-hash");
    assert_eq!(finding("severity"), "finding");
    assert_eq!(finding("path"), OVERVIEW);
    assert_eq!(finding("array"), "3/count");
    assert_ne!(finding("expected"), finding("got"));
    let table = verify().run().expect_code(1).stdout;
    assert!(
        table.contains("content-hash") && table.contains("sweep ROOT --force"),
        "{table}"
    );
    assert_eq!(
        differences(&before, &store.surroundings()),
        Vec::<String>::new()
    );

    let usage = verify().args(&["--full", "--sample", "2"]).run();
    usage.expect_code(2);
    let nowhere = Zagg::new("verify").arg(store.path("nowhere")).arg("--json");
    let refused = nowhere.run().expect_code(3);
    assert_eq!(refused.text("/outcome"), "refused");
    let off = TestStore::of(&Case::load("plain").published());
    let off = Zagg::new("verify").arg(off.root()).arg("--json").run();
    assert_eq!(off.expect_code(1).text("/findings/0/check"), "declaration");
}

#[tokio::test]
async fn the_manifest_is_held_against_what_stands() {
    let mut tree = plain_store();
    edit_json(&mut tree, MANIFEST, |manifest| {
        let entry = &mut manifest["pyramid"]["overviews"][1];
        entry["actuals"]["source_children"]["folded"] = json!(5);
    });
    assert_eq!(
        found(&verify(&tree, Law::Boundary).await),
        BTreeSet::from([at(Check::Actuals, MANIFEST)])
    );

    let mut tree = plain_store();
    edit_json(&mut tree, MANIFEST, |manifest| {
        manifest["multiscales"] = json!([]);
    });
    assert_eq!(
        found(&verify(&tree, Law::Boundary).await),
        BTreeSet::from([at(Check::Multiscales, MANIFEST)])
    );

    let mut tree = plain_store();
    edit_json(&mut tree, MANIFEST, |manifest| {
        manifest.as_object_mut().unwrap().remove("semantic_hash");
    });
    let verification = verify(&tree, Law::Boundary).await;
    assert!(verification.is_clean());
    let told = |warning: &Finding| warning.check == Check::SemanticHash;
    assert!(verification.warnings.iter().any(told));

    let mut tree = plain_store();
    edit_json(&mut tree, MANIFEST, |manifest| {
        manifest["pyramid"]["overviews"][2]["cells"] = json!([4, 3]);
    });
    let verification = verify(&tree, Law::Boundary).await;
    assert_eq!(
        found(&verification),
        BTreeSet::from([at(Check::Declaration, MANIFEST)])
    );
    assert_eq!(verification.exit_code, 1);
}
