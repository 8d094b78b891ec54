//! Deletions, for which a proof of a verify is needed that only the crate can make.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use serde_json::{Value, json};

use super::*;
use crate::common::cases::{Case, Law};
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{LEASE, in_memory, scripted, settings, tree_in};
use crate::common::old::Old;
use crate::common::stores::{Tree, differences};
use crate::time::testing::ScriptedClock;

/// Longer than any test waits.
const NEVER_ENDS: Duration = Duration::from_secs(3600);

fn retire(store: &FaultStore) -> Retire {
    let root = Root::new(Arc::new(store.clone()), "memory://scripted");
    let verified = CleanVerify::of(root.url());
    Retire::new(root)
        .settings(settings(""))
        .delete(true)
        .verified(verified)
}

/// An upgraded store, and a `/1` overview of a window or name nobody owns.
fn plain() -> (Tree, Tree, Old) {
    let clean = Case::load("plain").upgraded_tree(Law::Boundary);
    let mut tree = clean.clone();
    let old = Old::add(&mut tree, "1/1/all.zarr", "2018");
    (clean, tree, old)
}

#[track_caller]
fn assert_same(before: &Tree, after: &Tree) {
    let lines = differences(before, after);
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

#[tokio::test]
async fn exactly_what_is_listed_goes() {
    let case = Case::load("windowed");
    let mut tree = case.upgraded_tree(Law::Boundary);
    // What looks like it and stays.
    let misplaced = Old::add(&mut tree, "1/1/2019.zarr", "2016");
    misplaced.edit(&mut tree, |record| record["node"] = json!("12"));
    let foreign = Old::add(&mut tree, "1/1/2019.zarr", "2015");
    foreign.edit_root(&mut tree, |root| {
        root["attributes"]["role"] = json!("mosaic")
    });
    let current = Old::add(&mut tree, "1/1/2019.zarr", "2014");
    current.edit(&mut tree, |record| {
        record["spec"] = json!("zagg-overview/2")
    });
    let leaf = Old::add(&mut tree, "1/1/2019.zarr", "2013");
    leaf.edit_root(&mut tree, |root| {
        root["attributes"]
            .as_object_mut()
            .unwrap()
            .shift_remove("role");
    });
    let debris = Old::add(&mut tree, "1/1/2019.zarr", "2012");
    tree.remove(&debris.root_document());
    let garbled = Old::add(&mut tree, "1/1/2019.zarr", "2011");
    tree.insert(garbled.root_document(), b"{".to_vec());
    tree.insert("1/1/notes.txt".to_owned(), b"kept".to_vec());
    tree.insert("1/1/2018.zarrs/zarr.json".to_owned(), b"{}".to_vec());
    // Beside what goes, with a name that begins alike.
    tree.insert("1/1/2018.zarr.bak/zarr.json".to_owned(), b"{}".to_vec());
    let clean = tree.clone();
    // Two windows, `all` on a store without it, and at three orders.
    let gone = [
        Old::add(&mut tree, "1/1/2019.zarr", "2018"),
        Old::add(&mut tree, "1/1/2019.zarr", "2017"),
        Old::add(&mut tree, "1/2019.zarr", "all"),
        Old::add(&mut tree, "1/1/2/2020.zarr", "2018"),
    ];
    tree.remove(&gone[1].sidecar());
    let store = scripted(&tree, []).await;

    let listed = Retire::new(Root::new(Arc::new(store.clone()), "memory://"));
    let listed = listed.run().await.unwrap();
    assert_same(&tree, &tree_in(&store).await);
    assert_eq!(listed.outcome, Ending::Done);
    let paths: BTreeSet<String> = listed.artifacts.iter().map(|a| a.path.clone()).collect();
    assert_eq!(paths, gone.iter().map(Old::path).collect());

    let retired = retire(&store).run().await.unwrap();
    assert_same(&clean, &tree_in(&store).await);
    assert_eq!((retired.outcome, &retired.error), (Ending::Done, &None));
    let keys: Vec<&String> = tree
        .keys()
        .filter(|key| !clean.contains_key(*key))
        .collect();
    let bytes: usize = keys.iter().map(|key| tree[*key].len()).sum();
    let due = Total {
        artifacts: 4,
        extent: Extent {
            objects: keys.len() as u64,
            bytes: bytes as u64,
        },
    };
    assert_eq!((listed.listed, listed.deleted), (due, Total::default()));
    assert_eq!((retired.listed, retired.deleted), (due, due));
    let kept = |reason| retired.kept.get(&reason).copied().unwrap_or(0);
    for (reason, count) in [
        (Kept::Misplaced, 1),
        (Kept::Foreign, 1),
        (Kept::Leaf, 1),
        (Kept::NoRoot, 1),
        (Kept::Unreadable, 1),
        (Kept::OtherName, 2),
        (Kept::Unswept, 0),
    ] {
        assert_eq!(kept(reason), count, "{reason:?}");
    }
    assert!(kept(Kept::Column) > 0 && kept(Kept::Ladder) > 1);
    assert!(!tree_in(&store).await.contains_key(LEASE));

    let again = retire(&store).run().await.unwrap();
    assert_eq!(again.outcome, Ending::NothingToDo);
    assert_same(&clean, &tree_in(&store).await);
}

#[tokio::test]
async fn every_golden_ladder_is_kept_whole() {
    for name in crate::common::cases::NAMES {
        for law in Law::ALL {
            let tree = Case::load(name).upgraded_tree(law);
            let store = scripted(&tree, []).await;
            let retired = retire(&store).run().await.unwrap();
            assert_eq!(retired.outcome, Ending::NothingToDo, "{name}: {retired:?}");
            assert_same(&tree, &tree_in(&store).await);
            let writes: u64 = Op::WRITES.iter().map(|op| store.calls(*op)).sum();
            assert_eq!(writes, 0, "not even a lease");
        }
    }
}

/// What must hold of an artifact at every moment of its deletion.
fn check_half(old: &Old, whole: &Tree, now: &Tree) {
    let there: Vec<&String> = now.keys().filter(|key| old.has(key)).collect();
    let missing = |end: &dyn Fn(&str) -> bool| {
        whole
            .keys()
            .any(|key| old.has(key) && end(key) && !now.contains_key(key))
    };
    if there.is_empty() {
        return;
    }
    let root = now.get(&old.root_document());
    let root = root.unwrap_or_else(|| panic!("only debris is left: {there:?}"));
    let root: Value = serde_json::from_slice(root).unwrap();
    assert_eq!(root["attributes"]["role"], "overview");
    assert_eq!(
        root["attributes"]["zagg_overview"]["spec"],
        "zagg-overview/1"
    );
    if missing(&|_| true) {
        let stamp = root["attributes"].get("morton_hive_commit");
        assert_eq!(stamp, None, "stamped with holes: {there:?}");
        assert_eq!(root.get("consolidated_metadata"), None);
    }
    if missing(&|key| !key.ends_with(".json")) {
        let open = there
            .iter()
            .find(|key| key.ends_with("/zarr.json") && ***key != old.root_document());
        assert_eq!(open, None, "it can be opened and has holes");
    }
}

#[tokio::test]
async fn killed_after_any_write_it_tells_no_lie_and_the_next_run_goes_on() {
    let (clean, mut tree, old) = plain();
    old.edit_root(&mut tree, |root| {
        root["consolidated_metadata"] = json!({"kind": "inline", "metadata": {}});
    });
    let mut seen = BTreeSet::new();
    for nth in 1.. {
        let of = old.clone();
        let kill = Rule::on(Op::WRITES)
            .key(move |key| of.has(key))
            .nth(nth)
            .lands()
            .stall(NEVER_ENDS);
        let store = scripted(&tree, [kill]).await;
        let run = retire(&store).run();
        let killed = async {
            while store.fired() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let ended = tokio::select! {
            retired = run => Some(retired.unwrap()),
            () = killed => None,
        };
        let mut half = tree_in(&*store.unspoilt()).await;
        if let Some(retired) = ended {
            assert_eq!(retired.outcome, Ending::Done);
            assert_same(&clean, &half);
            break;
        }
        check_half(&old, &tree, &half);
        seen.extend(
            tree.keys()
                .filter(|key| old.has(key) && !half.contains_key(*key))
                .cloned(),
        );
        // The lease stays, refuses, and expires.
        let refused = retire(&scripted(&half, []).await).run().await.unwrap_err();
        assert!(matches!(refused, RetireError::Lease(_)), "{refused}");
        half.remove(LEASE).unwrap();
        let next = scripted(&half, []).await;
        retire(&next).run().await.unwrap();
        assert_same(&clean, &tree_in(&next).await);
        assert!(nth < 100);
    }
    let all: BTreeSet<String> = tree.keys().filter(|key| old.has(key)).cloned().collect();
    assert_eq!(seen, all, "a kill after each of its objects");
}

#[tokio::test]
async fn a_stop_ends_it_between_two_batches() {
    let (clean, tree, old) = plain();
    let stop = AbortSignal::new();
    let raised = stop.clone();
    let of = old.clone();
    let rule = Rule::on([Op::Delete]).key(move |key| {
        if of.has(key) {
            raised.raise();
        }
        false
    });
    let store = scripted(&tree, [rule]).await;
    let run = Retire {
        stop,
        ..retire(&store)
    };
    let retired = run.run().await.unwrap();
    assert_eq!(retired.outcome, Ending::Interrupted);
    assert_eq!(retired.deleted.artifacts, 0);
    assert!(retired.deleted.extent.objects > 0);
    let half = tree_in(&*store.unspoilt()).await;
    assert!(!half.contains_key(LEASE));
    check_half(&old, &tree, &half);
    let left = half.keys().filter(|key| old.has(key)).count() as u64;
    assert_eq!(
        retired.artifacts[0].left.map(|left| left.objects),
        Some(left)
    );
    let next = scripted(&half, []).await;
    assert_eq!(retire(&next).run().await.unwrap().outcome, Ending::Done);
    assert_same(&clean, &tree_in(&next).await);
}

#[tokio::test]
async fn a_lease_gone_stale_ends_it_and_what_was_not_begun_is_whole() {
    let (_, mut tree, first) = plain();
    let second = Old::add(&mut tree, "1/all.zarr", "2018");
    // The store's clock is this machine's, and a run refuses to begin on another.
    let now = SystemClock::new().now().wall.as_secs();
    let clock = Arc::new(ScriptedClock::at(now));
    let (of, stopped) = (first.clone(), clock.clone());
    let rule = Rule::on([Op::Delete]).key(move |key| {
        if of.has(key) {
            stopped.advance(901);
        }
        false
    });
    let store = scripted(&tree, [rule]).await;
    let run = Retire {
        clock,
        ..retire(&store)
    };
    let retired = run.run().await.unwrap();
    assert_eq!((retired.outcome, retired.exit_code), (Ending::Aborted, 4));
    let error = retired.error.as_ref().unwrap();
    assert!(error.contains("could not confirm the lease"), "{error}");
    let half = tree_in(&*store.unspoilt()).await;
    check_half(&first, &tree, &half);
    assert!(half.contains_key(&first.root_document()));
    assert!(
        tree.keys()
            .filter(|key| second.has(key))
            .all(|key| half.contains_key(key))
    );
    assert_eq!(retired.artifacts.len(), 2);
    assert_eq!(retired.artifacts[1].left, None, "its turn did not come");
}

/// Deletes while somebody writes an object of 5 bytes into the artifact, as `key` goes.
async fn with_a_straggler(tree: &Tree, old: &Old, key: String) -> (Retired, Tree) {
    let inner = in_memory(tree).await;
    let (writer, straggler) = (inner.clone(), Path::from(format!("{}/2/late", old.path())));
    let rule = Rule::on([Op::Delete]).key(move |deleted| {
        if deleted == key {
            let put = writer.put(&straggler, vec![0; 5].into());
            put.now_or_never().unwrap().unwrap();
        }
        false
    });
    let store = FaultStore::new(inner, [rule]);
    let retired = retire(&store).run().await.unwrap();
    (retired, tree_in(&*store.unspoilt()).await)
}

#[tokio::test]
async fn what_went_is_counted_by_a_listing_made_afterwards() {
    let (_, tree, old) = plain();
    let (retired, _) = with_a_straggler(&tree, &old, old.root_document()).await;
    assert_eq!((retired.outcome, retired.exit_code), (Ending::Failed, 1));
    let left = Extent {
        objects: 1,
        bytes: 5,
    };
    assert_eq!(retired.artifacts[0].left, Some(left));
    assert_eq!(retired.deleted.artifacts, 0);
    assert_eq!(retired.deleted.extent, retired.listed.extent - left);
}

#[tokio::test]
async fn the_root_document_stays_while_anything_is_under_it() {
    let (clean, tree, old) = plain();
    let (retired, half) = with_a_straggler(&tree, &old, old.sidecar()).await;
    assert_eq!(retired.outcome, Ending::Failed);
    assert_eq!(retired.artifacts[0].left.map(|left| left.objects), Some(2));
    check_half(&old, &tree, &half);
    let next = scripted(&half, []).await;
    assert_eq!(retire(&next).run().await.unwrap().outcome, Ending::Done);
    assert_same(&clean, &tree_in(&next).await);
}

#[tokio::test]
async fn a_refused_deletion_aborts_and_says_what_is_left() {
    let (clean, tree, old) = plain();
    let rule = Rule::on([Op::Delete])
        .key_ends_with("2018.zarr/2/count/c/0")
        .fail(Failure::Denied);
    let store = scripted(&tree, [rule]).await;
    let retired = retire(&store).run().await.unwrap();
    assert_eq!(retired.outcome, Ending::Aborted);
    assert!(retired.error.unwrap().contains("2018.zarr"));
    let half = tree_in(&*store.unspoilt()).await;
    check_half(&old, &tree, &half);
    assert!(!half.contains_key(LEASE), "given back");
    let next = scripted(&half, []).await;
    retire(&next).run().await.unwrap();
    assert_same(&clean, &tree_in(&next).await);
}

#[tokio::test]
async fn what_cannot_be_counted_is_not_said_to_have_gone() {
    let (_, tree, old) = plain();
    // Measured, listed to delete, before the root document goes, and to count.
    let rule = Rule::on([Op::List])
        .key(move |key| key == old.path())
        .from(4)
        .fail(Failure::Denied);
    let store = scripted(&tree, [rule]).await;
    let retired = retire(&store).run().await.unwrap();
    assert_eq!(retired.outcome, Ending::Aborted);
    assert_eq!(
        (retired.deleted, retired.artifacts[0].left),
        (Total::default(), None)
    );
    assert!(retired.error.unwrap().contains("cannot be counted"));
}

#[tokio::test]
async fn what_became_another_before_its_turn_is_kept() {
    let (_, tree, old) = plain();
    let inner = in_memory(&tree).await;
    let mut swept = tree.clone();
    old.edit(&mut swept, |record| {
        record["spec"] = json!("zagg-overview/2")
    });
    let key = old.root_document();
    let (writer, bytes) = (inner.clone(), swept[&key].clone());
    // Somebody writes between the listing and the lease.
    let rule = Rule::on([Op::Put]).key(move |put| {
        if put == LEASE {
            let path = Path::from(key.as_str());
            let put = writer.put(&path, bytes.clone().into());
            put.now_or_never().unwrap().unwrap();
        }
        false
    });
    let store = FaultStore::new(inner, [rule]);
    let retired = retire(&store).run().await.unwrap();
    assert!(retired.artifacts.is_empty());
    assert_eq!(retired.kept_artifacts[0].reason, Kept::Ladder);
    assert_same(&swept, &tree_in(&*store.unspoilt()).await);
}

/// The refusal of a deletion, which leaves the store as it is.
async fn refusal(tree: &Tree, rules: impl IntoIterator<Item = Rule>) -> RetireError {
    let store = scripted(tree, rules).await;
    let error = retire(&store).run().await.unwrap_err();
    assert_same(tree, &tree_in(&*store.unspoilt()).await);
    assert_eq!(store.calls(Op::Delete), 0);
    error
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error() {
    let (_, tree, old) = plain();
    for failure in [Failure::Denied, Failure::Status(500)] {
        let unread = Rule::on([Op::Get]).key_ends_with(&old.root_document());
        let error = refusal(&tree, [unread.fail(failure)]).await;
        assert!(matches!(error, RetireError::Store(_)), "{error}");
        assert_eq!(error.ending().exit_code(), 4);
        let unlisted = Rule::on([Op::ListWithDelimiter]).key(|key| key == "1/1");
        let error = refusal(&tree, [unlisted.fail(failure)]).await;
        assert!(matches!(error, RetireError::Store(_)), "{error}");
    }
    // A ladder's own, too: nothing goes while anything is unread.
    let unread = Rule::on([Op::Get]).key_ends_with("2/1/all.zarr/zarr.json");
    refusal(&tree, [unread.fail(Failure::Denied)]).await;
}

#[tokio::test]
async fn nothing_goes_without_a_clean_verify_of_this_store() {
    let (_, tree, _) = plain();
    let store = scripted(&tree, []).await;
    let other = Root::new(Arc::new(store.clone()), "memory://other");
    for verified in [None, Some(CleanVerify::of(other.url()))] {
        let run = Retire {
            verified,
            ..retire(&store)
        };
        let error = run.run().await.unwrap_err();
        assert!(error.to_string().contains("verify first"), "{error}");
        assert_eq!(error.ending(), Ending::Refused);
    }
    assert_same(&tree, &tree_in(&store).await);
}

#[tokio::test]
async fn an_overview_the_sweep_should_have_replaced_refuses_all() {
    let (_, mut tree, _) = plain();
    let mut root: Value = serde_json::from_slice(&tree["1/all.zarr/zarr.json"]).unwrap();
    root["attributes"]["zagg_overview"]["spec"] = json!("zagg-overview/1");
    tree.insert(
        "1/all.zarr/zarr.json".to_owned(),
        root.to_string().into_bytes(),
    );
    let error = refusal(&tree, []).await;
    assert!(
        matches!(error, RetireError::NotSwept { count: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("run sweep first"), "{error}");
    // Where its record says that it stands does not matter there.
    root["attributes"]["zagg_overview"]["order"] = json!(7);
    tree.insert(
        "1/all.zarr/zarr.json".to_owned(),
        root.to_string().into_bytes(),
    );
    let error = refusal(&tree, []).await;
    assert!(matches!(error, RetireError::NotSwept { .. }), "{error}");
}

#[tokio::test]
async fn what_the_ladder_owns_follows_from_windows_and_all_time() {
    for (name, like, stem, is_owned) in [
        ("windowed_all", "1/1/2019.zarr", "all", true),
        ("windowed_all", "1/1/2019.zarr", "2018", false),
        ("windowed", "1/1/2019.zarr", "all", false),
        ("windowed", "1/1/2019.zarr", "2020", true),
    ] {
        let mut tree = Case::load(name).upgraded_tree(Law::Boundary);
        let place = format!("1/1/{stem}.zarr/");
        tree.retain(|key, _| !key.starts_with(&place));
        Old::add(&mut tree, like, stem);
        let outcome = retire(&scripted(&tree, []).await).run().await;
        match outcome {
            Ok(retired) => assert_eq!((is_owned, retired.deleted.artifacts), (false, 1)),
            Err(error) => assert!(is_owned, "{name} {stem}: {error}"),
        }
    }
}
