//! What is deleted, and what never is: neither what stands beside an artifact under a name
//! that begins alike, nor what is alive when a listing lacks a part of what it should show.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::cases::{Case, Law};
use crate::common::compare::{assert_all, compare_all};
use crate::common::dice::dice_of;
use crate::common::faults::{FaultStore, Op, Rule};
use crate::common::ladder::artifact_of;
use crate::common::library::{LEASE, PROBE, in_memory, settings, tree_in};
use crate::common::old::Old;
use crate::common::s3::S3Server;
use crate::common::stores::{Tree, differences};
use zagg_stream::{Ending, Report, Retire, Root, Steps, Upgrade, Verify};

/// What store roots in memory are called.
const URL: &str = "memory://scripted";

/// How names end that begin like an artifact's.
const ENDS: [&str; 5] = ["2", ".bak", "-old", " copy", "_1"];

/// Upgrades anew what is there already, column by column and artifact by artifact.
async fn rewrite(root: Root) -> Report {
    let mut settings = settings("");
    settings.force = true;
    let upgrade = Upgrade::new(root).settings(settings).steps(Steps::All);
    upgrade.start().await.unwrap().join().await.unwrap()
}

/// Objects beside an artifact: other prefixes and sidecars whose names begin alike.
fn beside(artifact: &str) -> impl Iterator<Item = String> {
    let stem = artifact.strip_suffix(".zarr").unwrap();
    ENDS.into_iter().flat_map(move |end| {
        [
            format!("{artifact}{end}/zarr.json"),
            format!("{artifact}{end}/5/count/c/0"),
            format!("{stem}.stats.json{end}"),
            format!("{stem}{end}/c/0"),
        ]
    })
}

/// A leaf's column, a stage column, an overview, and all that stands beside them.
fn siblings() -> Tree {
    let artifacts = [
        "1/1/2/1/3/all.pyramid.zarr",
        "1/1/2/1/all.pyramid.zarr",
        "1/1/2/all.zarr",
        "1/all.zarr",
    ];
    let keys = artifacts.into_iter().flat_map(beside);
    keys.map(|key| (key, b"a sibling".to_vec())).collect()
}

#[tokio::test]
async fn writing_anew_touches_nothing_whose_name_begins_alike() {
    let case = Case::load("plain");
    let siblings = siblings();
    let mut tree = case.upgraded_tree(Law::Boundary);
    tree.extend(siblings.clone());
    let mut expected = case.upgraded(Law::Boundary);
    expected.input.extend(siblings.clone());

    let store = FaultStore::new(in_memory(&tree).await, []);
    let report = rewrite(Root::new(Arc::new(store.clone()), URL)).await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert!(store.calls(Op::Delete) > 100, "what was there is deleted");
    assert_all(&expected, &tree_in(&*store.unspoilt()).await);

    let server = S3Server::start();
    let bucket = server.bucket("siblings", &tree);
    let report = rewrite(bucket.root()).await;
    assert_eq!(report.outcome, Ending::Done, "{report:?}");
    assert_all(&expected, &server.tree(&bucket));
    let deleted = server.tally().of(Op::Delete, |_| true).calls;
    assert!(deleted > 100, "what was there is deleted");
    let asked_for = |key: &str| siblings.keys().any(|sibling| key.ends_with(sibling));
    for op in [Op::Delete, Op::Put] {
        assert_eq!(server.tally().of(op, asked_for).calls, 0, "{op:?}");
    }
}

#[tokio::test]
async fn retiring_touches_nothing_whose_name_begins_alike() {
    let mut clean = Case::load("windowed").upgraded_tree(Law::Boundary);
    let mut olds = Tree::new();
    for (like, stem) in [("1/1/2019.zarr", "2018"), ("1/1/2/1/2020.zarr", "all")] {
        let old = Old::add(&mut clean, like, stem);
        let (own, others) = clean.into_iter().partition(|(key, _)| old.has(key));
        olds.extend::<Tree>(own);
        clean = others;
        let path = old.path();
        let siblings = beside(&path);
        clean.extend(siblings.map(|key| (key, b"a sibling".to_vec())));
    }
    let server = S3Server::start();
    let mut tree = clean.clone();
    tree.extend(olds);
    let bucket = server.bucket("retire", &tree);
    let retired = bucket.command("retire").arg("--yes").run().expect_code(0);
    assert_eq!(retired.number("/deleted/artifacts"), 2);
    assert_eq!(
        differences(&clean, &server.tree(&bucket)),
        Vec::<String>::new()
    );
}

/// Listings that lack, for this seed, some keys for good and the first few of some pages.
fn lossy(seed: u64) -> [Rule; 2] {
    [
        Rule::on(Op::LISTS).lose_keys(move |key| dice_of(seed, key).comes_up(15)),
        Rule::on(Op::LISTS).percent(30, seed).lose_places(0..2),
    ]
}

#[tokio::test]
async fn a_listing_that_lacks_a_part_retires_nothing_else() {
    const SEEDS: u64 = 40;
    let clean = Case::load("windowed").upgraded_tree(Law::Boundary);
    let mut tree = clean.clone();
    let olds = [
        Old::add(&mut tree, "1/1/2019.zarr", "2018"),
        Old::add(&mut tree, "1/1/2/1/2020.zarr", "2017"),
        Old::add(&mut tree, "1/2019.zarr", "all"),
    ];
    let is_old = |line: &String| {
        let (_, key) = line.split_once(": ").unwrap();
        olds.iter().any(|old| old.has(key))
    };
    let (mut gone, mut mended) = (0, 0);
    for seed in 0..SEEDS {
        let memory = in_memory(&tree).await;
        let root = || Root::new(memory.clone(), URL);
        let proof = || async {
            let verified = Verify::new(root())
                .settings(settings(""))
                .run()
                .await
                .unwrap();
            verified.proof()
        };
        let store = FaultStore::new(memory.clone(), lossy(seed));
        let lossy = Retire::new(Root::new(Arc::new(store.clone()), URL));
        let lossy = lossy
            .settings(settings(""))
            .delete(true)
            .verified(proof().await.unwrap());
        // It may as well refuse: without a run record there are no nodes to look at.
        drop(lossy.run().await);
        assert!(store.fired() > 0);
        let lines = differences(&tree, &tree_in(&*memory).await);
        gone += lines.len();
        let others: Vec<_> = lines.iter().filter(|line| !is_old(line)).collect();
        assert_eq!(others, Vec::<&String>::new(), "seed {seed}");

        // What lost its root document before its chunks is a stray that verify finds, and
        // nobody's to delete.
        if let Some(proof) = proof().await {
            let whole = Retire::new(root()).settings(settings("")).delete(true);
            whole.verified(proof).run().await.unwrap();
            mended += 1;
            let left = differences(&clean, &tree_in(&*memory).await);
            assert_eq!(left, Vec::<String>::new(), "seed {seed}");
        }
    }
    assert!(mended > 0);
    assert!(gone > 100, "the seeds retired {gone} objects");
}

#[tokio::test]
async fn writing_anew_by_listings_that_lack_a_part_deletes_nothing_else() {
    const SEEDS: u64 = 12;
    let case = Case::load("windowed");
    let tree = case.upgraded_tree(Law::Boundary);
    let expected = case.upgraded(Law::Boundary);
    let own: BTreeSet<String> = expected
        .columns
        .keys()
        .map(|key| artifact_of(key))
        .collect();
    let mut rewritten = 0;
    for seed in 0..SEEDS {
        let store = FaultStore::new(in_memory(&tree).await, lossy(seed));
        let report = rewrite(Root::new(Arc::new(store.clone()), URL)).await;
        assert!(store.fired() > 0);
        rewritten += report.counts.written;
        for ((op, key), _) in store.tally() {
            let of_the_run = key == LEASE || key.starts_with(PROBE);
            let is_own = own.contains(&artifact_of(&key)) || of_the_run;
            assert!(op != Op::Delete || is_own, "seed {seed} deleted {key}");
        }
        let after = tree_in(&*store.unspoilt()).await;
        let lines = compare_all(&expected, &after);
        let lost = |line: &&String| line.starts_with("missing: ") || line.starts_with("input ");
        let lost: Vec<_> = lines.iter().filter(lost).collect();
        assert_eq!(lost, Vec::<&String>::new(), "seed {seed}");

        let memory = in_memory(&after).await;
        let report = rewrite(Root::new(memory.clone(), URL)).await;
        assert_eq!(report.outcome, Ending::Done, "{report:?}");
        assert_all(&expected, &tree_in(&*memory).await);
    }
    assert!(rewritten > 0);
}
