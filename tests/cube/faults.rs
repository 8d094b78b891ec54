//! Heals and pushes that are cut short at every write, and answers that get lost.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::common::cubes::Cubes;
use crate::common::faults::{Failure, FaultStore, Op, Rule};
use crate::common::library::{scripted, settings, tree_in};
use crate::common::stores::{TestStore, Tree, differences};
use futures::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use zagg_stream::cube::{Cube, Healed, PushOptions, Pushed};
use zagg_stream::{Event, Root, Step};

fn cube(store: &FaultStore) -> Cube {
    let root = Root::new(Arc::new(store.clone()), "memory://scripted");
    Cube::new(root).settings(settings(""))
}

/// Ways to be cut short at the `nth` write: it does not land, or it does and nobody hears.
fn cuts(nth: u64) -> [Vec<Rule>; 2] {
    let from = |nth| Rule::on(Op::WRITES).from(nth).fail(Failure::Denied);
    let lost = Rule::on(Op::WRITES).nth(nth).lands().fail(Failure::Denied);
    [vec![from(nth)], vec![lost, from(nth + 1)]]
}

fn documents(tree: &Tree) -> BTreeMap<&str, Value> {
    let node = |key: &'_ str| key.strip_suffix("/zarr.json").map(str::len);
    tree.iter()
        .filter_map(|(key, bytes)| {
            let path = &key[..node(key)?];
            Some((path, serde_json::from_slice(bytes).unwrap()))
        })
        .collect()
}

#[track_caller]
fn assert_same(what: &str, expected: &Tree, found: &Tree) {
    let lines = differences(expected, found);
    assert!(lines.is_empty(), "{what}: {}", lines.join("\n"));
}

async fn heal(store: &FaultStore) -> Healed {
    cube(store).heal(false).await.unwrap()
}

/// Every `time` that can be seen has all its objects.
fn assert_no_time_reads_as_fill(what: &str, tree: &Tree) {
    for path in documents(tree)
        .into_keys()
        .filter(|path| path.ends_with("/time"))
    {
        let orbit = path.split('/').next().unwrap();
        let source = format!("{orbit}/r10m/time/");
        for (key, bytes) in tree.iter().filter(|(key, _)| key.starts_with(&source)) {
            let copy = key.replace(&source, &format!("{path}/"));
            assert_eq!(tree.get(&copy), Some(bytes), "{what}: {copy}");
        }
    }
}

#[tokio::test]
async fn a_heal_tells_its_watchers_of_every_object() {
    let cubes = Cubes::load();
    let name = "missing_two_levels";
    let store = scripted(&cubes.tree(name), []).await;
    let cube = cube(&store);
    let events = cube.events().collect::<Vec<_>>();
    let healing = async {
        let healed = cube.heal(false).await.unwrap();
        drop(cube);
        healed
    };
    let (events, healed) = tokio::join!(events, healing);
    let stages = events.iter().filter_map(|event| match event {
        Event::Progress(progress) if progress.step == Step::Cube => Some(progress),
        _ => None,
    });
    // Each stage is told at its end at the least.
    let ended = stages.filter(|stage| stage.done == stage.total);
    let written: u64 = ended.map(|stage| stage.written).sum();
    assert_eq!(
        written,
        (healed.added.len() + healed.rewritten.len()) as u64
    );
    assert!(written > 0);
}

#[tokio::test]
async fn a_heal_that_is_cut_short_anywhere_goes_on_where_it_was() {
    let cubes = Cubes::load();
    for name in [
        "missing_two_levels",
        "consolidated_missing",
        "multi_chunk_time",
        "empty",
    ] {
        let (before, healed) = (cubes.tree(name), scripted(&cubes.tree(name), []).await);
        assert_eq!(heal(&healed).await.ended.exit_code, 0);
        let expected = tree_in(&healed).await;
        let writes = healed.calls(Op::Put);
        assert!(writes >= 2);
        for nth in 1..=writes {
            for rules in cuts(nth) {
                let what = format!("{name}, cut at write {nth}");
                let store = scripted(&before, rules).await;
                let cut = heal(&store).await;
                assert!(store.fired() > 0, "{what}");
                assert_eq!(cut.ended.exit_code, 4, "{what}: {:?}", cut.ended.error);
                assert_no_time_reads_as_fill(&what, &tree_in(&store).await);
                let store = FaultStore::new(store.unspoilt(), []);
                let again = heal(&store).await;
                assert_eq!(again.ended.exit_code, 0, "{what}: {:?}", again.ended.error);
                assert_same(&what, &expected, &tree_in(&store).await);
                assert_eq!(
                    heal(&FaultStore::new(store.unspoilt(), [])).await.added,
                    [""; 0]
                );
            }
        }
    }
}

#[tokio::test]
async fn a_heal_whose_answers_get_lost_writes_the_same() {
    let cubes = Cubes::load();
    let name = "consolidated_missing";
    let clean = scripted(&cubes.tree(name), []).await;
    heal(&clean).await;
    let lost = Rule::on([Op::Put])
        .first_of_each(1)
        .lands()
        .fail(Failure::Status(500));
    let store = scripted(&cubes.tree(name), [lost]).await;
    let healed = heal(&store).await;
    assert_eq!(store.fired(), clean.calls(Op::Put));
    assert_eq!(healed.ended.exit_code, 0, "{:?}", healed.ended.error);
    assert_eq!(healed.added.len() + healed.rewritten.len(), 4);
    assert_same(name, &tree_in(&clean).await, &tree_in(&store).await);
}

/// What is left of a heal that copied an older `time`, which no array owns yet.
#[tokio::test]
async fn leftovers_of_a_copy_are_written_over_and_others_refuse_it() {
    let cubes = Cubes::load();
    let mut tree = cubes.tree("missing_r20m_time");
    tree.insert("ascending/r20m/time/c/0".to_owned(), b"older".to_vec());
    let store = scripted(&tree, []).await;
    assert_eq!(heal(&store).await.ended.exit_code, 0);
    assert_same(
        "older",
        &cubes.healed("missing_r20m_time"),
        &tree_in(&store).await,
    );

    tree.insert("ascending/r20m/time/c/1".to_owned(), b"of nobody".to_vec());
    let store = scripted(&tree, []).await;
    let refused = heal(&store).await;
    assert_eq!(refused.ended.exit_code, 3);
    assert!(
        refused
            .ended
            .error
            .unwrap()
            .contains("ascending/r20m/time/c/1")
    );
    assert_same("refused", &tree, &tree_in(&store).await);
}

/// The append of a golden cube, pulled into a directory from stores in memory that are all
/// written in the same order.
struct Appended {
    before: Tree,
    after: Tree,
    local: TestStore,
    inventory: Vec<u8>,
}

impl Appended {
    async fn new() -> Self {
        let cubes = Cubes::load();
        let (before, copy) = (
            cubes.tree("same_size_append/remote"),
            cubes.tree("same_size_append/local"),
        );
        let local = TestStore::empty();
        let remote = scripted(&before, []).await;
        let open = || Root::open(local.root().to_str().unwrap());
        let pulled = cube(&remote).pull(false, open).await.unwrap();
        assert_eq!(pulled.ended.exit_code, 0, "{:?}", pulled.ended.error);
        for (key, bytes) in &copy {
            local.write(key, bytes);
        }
        let mut after = before.clone();
        after.extend(copy);
        let inventory = std::fs::read(Self::inventory_of(&local)).unwrap();
        Self {
            before,
            after,
            local,
            inventory,
        }
    }

    fn inventory_of(local: &TestStore) -> PathBuf {
        local.parent().join("store.pulled.json")
    }

    /// As after a process that was killed, which records nothing.
    fn forget(&self) {
        std::fs::write(Self::inventory_of(&self.local), &self.inventory).unwrap();
    }

    async fn push(&self, store: &FaultStore) -> Pushed {
        let local = Root::open(self.local.root().to_str().unwrap()).unwrap();
        let pushed = cube(store).push(&local, PushOptions::default()).await;
        pushed.unwrap_or_else(|error| panic!("{error}"))
    }

    /// A reader sees the old axis or the new one, and all that is on it.
    fn assert_readable(&self, what: &str, tree: &Tree) {
        let (then, finally) = (documents(&self.before), documents(&self.after));
        let now = documents(tree);
        let length = |path: &str| now[path]["shape"][0].as_u64();
        for (path, document) in &now {
            let shape = document["shape"].clone();
            let old = shape == then[path]["shape"];
            assert!(old || shape == finally[path]["shape"], "{what}: {path}");
            let objects = self
                .after
                .iter()
                .filter(|(key, _)| key.starts_with(&format!("{path}/c")));
            for (key, bytes) in objects {
                let stands = tree.get(key) == Some(bytes);
                let stood = old && tree.get(key) == self.before.get(key);
                assert!(stands || stood, "{what}: {key} is not what is read");
            }
            if let Some(level) = path.strip_suffix("/time") {
                for array in ["vv", "vh", "border_mask"] {
                    let bulk = length(&format!("{level}/{array}"));
                    assert!(bulk >= length(path), "{what}: {path} is ahead of {array}");
                }
            }
        }
        if length("descending/r10m/time") == Some(3) {
            let behind = now
                .keys()
                .filter(|path| now[*path]["shape"] != finally[*path]["shape"]);
            assert_eq!(behind.count(), 0, "{what}");
        }
        for (key, bytes) in &self.before {
            if self.after.get(key) == Some(bytes) {
                assert_eq!(tree.get(key), Some(bytes), "{what}: {key}");
            }
        }
    }
}

#[tokio::test]
async fn a_push_that_is_cut_short_anywhere_goes_on_where_it_was() {
    let append = Appended::new().await;
    let clean = scripted(&append.before, []).await;
    assert_eq!(append.push(&clean).await.ended.exit_code, 0);
    assert_same("clean", &append.after, &tree_in(&clean).await);
    let writes = clean.calls(Op::Put);
    assert!(writes > 20, "{writes}");
    for nth in 1..=writes {
        for (rules, killed) in cuts(nth).into_iter().zip([false, true]) {
            let what = format!("cut at write {nth}, killed: {killed}");
            append.forget();
            let store = scripted(&append.before, rules).await;
            let cut = append.push(&store).await;
            assert!(store.fired() > 0, "{what}");
            assert_eq!(cut.ended.exit_code, 4, "{what}: {:?}", cut.ended.error);
            append.assert_readable(&what, &tree_in(&store).await);
            if killed {
                append.forget();
            }
            let store = FaultStore::new(store.unspoilt(), []);
            let again = append.push(&store).await;
            assert_eq!(again.ended.exit_code, 0, "{what}: {:?}", again.ended.error);
            assert_same(&what, &append.after, &tree_in(&store).await);
            let idle = append.push(&store).await;
            assert_eq!((idle.uploaded.len(), idle.deleted.len()), (0, 0), "{what}");
        }
    }
}

#[tokio::test]
async fn a_push_whose_answers_get_lost_writes_the_same() {
    let append = Appended::new().await;
    let lost = Rule::on([Op::Put])
        .first_of_each(1)
        .lands()
        .fail(Failure::Status(500));
    let torn = Rule::on([Op::Get]).percent(5, 7).fail(Failure::Status(503));
    let store = scripted(&append.before, [lost, torn]).await;
    let pushed = append.push(&store).await;
    assert!(store.fired() as usize > pushed.uploaded.len());
    assert_eq!(pushed.ended.exit_code, 0, "{:?}", pushed.ended.error);
    assert_same("lost", &append.after, &tree_in(&*store.unspoilt()).await);
}

#[tokio::test]
async fn a_deletion_that_is_cut_short_goes_on_where_it_was() {
    let append = Appended::new().await;
    let gone = [
        "descending/r10m/platform/zarr.json",
        "descending/r10m/platform/c/0",
    ];
    for key in gone {
        append.local.remove(key);
    }
    let mut expected = append.after.clone();
    expected.retain(|key, _| !gone.contains(&key.as_str()));
    for nth in 1..=2 {
        append.forget();
        let cut = Rule::on([Op::Delete]).from(nth).fail(Failure::Denied);
        let store = scripted(&append.before, [cut]).await;
        let first = append.push(&store).await;
        assert_eq!((store.fired() > 0, first.ended.exit_code), (true, 4));
        append.forget();
        let store = FaultStore::new(store.unspoilt(), []);
        assert_eq!(append.push(&store).await.ended.exit_code, 0);
        assert_same("deleted", &expected, &tree_in(&store).await);
    }
}

#[tokio::test]
async fn a_pull_that_is_cut_short_goes_on_and_one_that_is_not_whole_is_not_pushed() {
    let cubes = Cubes::load();
    let before = cubes.tree("healthy");
    let fault = Rule::on([Op::Get])
        .key_ends_with("/c/0")
        .from(9)
        .fail(Failure::Denied);
    let remote = scripted(&before, [fault]).await;
    let local = TestStore::empty();
    let open = || Root::open(local.root().to_str().unwrap());
    let cut = cube(&remote).pull(false, open).await.unwrap();
    assert_eq!((remote.fired() > 0, cut.ended.exit_code), (true, 4));
    let refused = cube(&remote)
        .push(&open().unwrap(), PushOptions::default())
        .await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("run the pull again")
    );
    let remote = FaultStore::new(remote.unspoilt(), []);
    let again = cube(&remote).pull(false, open).await.unwrap();
    assert_eq!(again.ended.exit_code, 0, "{:?}", again.ended.error);
    assert_eq!(local.tree().len(), 85);
    let occupied = cube(&remote).pull(false, open).await.unwrap_err();
    assert!(occupied.to_string().contains("is not empty"), "{occupied}");
    let pushed = cube(&remote)
        .push(&open().unwrap(), PushOptions::default())
        .await
        .unwrap();
    assert_eq!(pushed.uploaded, [""; 0]);
    assert_eq!(remote.calls_where(Op::Get, |key| key.contains("/vv/c/")), 0);
}
