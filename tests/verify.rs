//! `verify`: every upgraded golden case is clean under its own law, and what is planted
//! into one is found, by the right check, at the right artifact.

#![cfg(test)]
#![allow(unused)]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::binary::Zagg;
use common::cases::{Case, Law, MANIFEST, NAMES};
use common::faults::{Failure, FaultStore, Op, Rule};
use common::library::{in_memory, scripted, settings};
use common::stores::{TestStore, Tree, differences};
use object_store::ObjectStore;
use serde_json::{Value, json};
use zagg_stream::{Check, Ending, Finding, Root, Verification, Verify};

async fn verify_store(store: Arc<dyn ObjectStore>, law: Law) -> Verification {
    let root = Root::new(store, "memory://verified");
    let settings = settings(&format!("fold_law = \"{law}\""));
    let verify = Verify::new(root).settings(settings).full();
    verify.run().await.unwrap()
}

async fn verify(tree: &Tree, law: Law) -> Verification {
    verify_store(in_memory(tree).await, law).await
}

/// The checks that found something, with where.
fn found(verification: &Verification) -> BTreeSet<(Check, String)> {
    let findings = verification.findings.iter();
    findings
        .map(|finding| (finding.check, finding.path.clone()))
        .collect()
}

fn at(check: Check, path: &str) -> (Check, String) {
    (check, path.to_owned())
}

fn edit_json(tree: &mut Tree, key: &str, edit: impl FnOnce(&mut Value)) {
    let bytes = tree.get_mut(key).unwrap_or_else(|| panic!("no `{key}`"));
    let before: Value = serde_json::from_slice(bytes).unwrap();
    let mut after = before.clone();
    edit(&mut after);
    assert_ne!(before, after, "the edit of `{key}` changed nothing");
    *bytes = serde_json::to_vec_pretty(&after).unwrap();
}

fn remove_below(tree: &mut Tree, prefix: &str) {
    let before = tree.len();
    tree.retain(|key, _| !key.starts_with(prefix));
    assert!(tree.len() < before, "nothing below `{prefix}`");
}

fn copy_below(tree: &mut Tree, from: &str, to: &str) {
    let copies: Vec<_> = tree
        .iter()
        .filter_map(|(key, bytes)| {
            Some((format!("{to}{}", key.strip_prefix(from)?), bytes.clone()))
        })
        .collect();
    assert!(!copies.is_empty(), "nothing below `{from}`");
    tree.extend(copies);
}

/// An artifact of each kind in the case `plain`.
const LEAF_COLUMN: &str = "1/1/2/1/3/all.pyramid.zarr";
const STAGE_COLUMN: &str = "1/1/2/1/all.pyramid.zarr";
const OVERVIEW: &str = "1/1/2/all.zarr";
const ARTIFACTS: [&str; 3] = [LEAF_COLUMN, STAGE_COLUMN, OVERVIEW];

fn plain_store() -> Tree {
    Case::load("plain").upgraded(Law::Boundary)
}

fn check_case(name: &str, law: Law) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let case = Case::load(name);
    let verification = runtime.block_on(verify(&case.upgraded(law), law));
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
    let roots = case.upgraded(law);
    let roots = roots
        .keys()
        .filter(|key| key.ends_with(".zarr/zarr.json"))
        .count();
    let checked = verification.artifacts.leaf_columns
        + verification.artifacts.stage_columns
        + verification.artifacts.overviews;
    let committed = u64::try_from(roots).unwrap() - checked;
    assert!(committed >= leaves, "an artifact was passed over");
}

/// One test for each case and law, and the list of them.
macro_rules! clean {
    ($($case:ident),+ $(,)?) => {
        $(
            mod $case {
                #[test]
                fn boundary() {
                    super::check_case(stringify!($case), super::Law::Boundary);
                }

                #[test]
                fn raw() {
                    super::check_case(stringify!($case), super::Law::Raw);
                }
            }
        )+
        const TESTED: [&str; 9] = [$(stringify!($case)),+];
    };
}

clean!(
    plain,
    strata,
    flux,
    temporal,
    windowed,
    windowed_all,
    deep,
    deep_strata,
    fine
);

#[test]
fn every_case_is_tested() {
    assert_eq!(TESTED, NAMES);
}
