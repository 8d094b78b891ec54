//! The examination of a store before the first write of a command: what it refuses, that it
//! is made once, and that it leaves no trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::binary::Zagg;
use crate::common::cases::{Case, Law};
use crate::common::faults::{FaultStore, Op, Rule};
use crate::common::library::{LEASE, PROBE, in_memory, run, settings, start_steps, tree_in};
use crate::common::old::Old;
use crate::common::stores::TestStore;
use futures::FutureExt;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use zagg_stream::{Declare, DeclareError, Ending, Lever, Root, Runbook, Steps};

/// Has the store create its scratch object twice: once asked for a second time, the first
/// one is gone.
fn creating_twice(memory: &Arc<InMemory>) -> Rule {
    let (memory, asked) = (memory.clone(), AtomicU64::new(0));
    Rule::on([Op::Put]).key(move |key| {
        if key.starts_with(PROBE) && asked.fetch_add(1, Ordering::SeqCst) == 1 {
            let deleted = memory.delete(&Path::from(key)).now_or_never();
            deleted.unwrap().unwrap();
        }
        false
    })
}

#[tokio::test]
async fn a_store_that_creates_what_is_there_already_is_refused_before_anything_is_written() {
    let case = Case::load("plain");
    for steps in [Steps::Columns, Steps::All] {
        let tree = case.declared(Law::Boundary);
        let memory = in_memory(&tree).await;
        let store = FaultStore::new(memory.clone(), [creating_twice(&memory)]);
        let handle = start_steps(Arc::new(store.clone()), settings(""), steps).await;
        let report = handle.join().await.unwrap();
        assert_eq!(report.outcome, Ending::Refused, "{report:?}");
        assert_eq!(report.exit_code, 3);
        let error = report.error.as_ref().unwrap();
        for part in ["both think they hold the lease", "If-None-Match"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(report.counts.written + report.counts.failed, 0);
        assert_eq!(store.calls_of(Op::Put, LEASE), 0);
        assert_eq!(tree_in(&*memory).await, tree);
    }
    // A declaration writes the manifest, and no lease.
    let tree = case.published();
    let memory = in_memory(&tree).await;
    let store = FaultStore::new(memory.clone(), [creating_twice(&memory)]);
    let error = declare(&store, &case).run().await.unwrap_err();
    assert!(matches!(error, DeclareError::Unfit(_)), "{error}");
    assert_eq!(error.ending(), Ending::Refused);
    assert_eq!(tree_in(&*memory).await, tree);
}

fn declare(store: &FaultStore, case: &Case) -> Declare {
    let root = Root::new(Arc::new(store.clone()), "memory://scripted");
    let config = String::from_utf8(case.file("config.yaml").to_vec()).unwrap();
    let declare = Declare::new(root, &config).unwrap();
    declare.lever(Some(Lever::Overviews(vec![5])))
}

#[tokio::test]
async fn a_retirement_examines_its_store_before_the_first_deletion() {
    let mut tree = Case::load("plain").upgraded_tree(Law::Boundary);
    Old::add(&mut tree, "1/1/all.zarr", "2018");
    for spoilt in [true, false] {
        let memory = in_memory(&tree).await;
        let spoils = spoilt.then(|| creating_twice(&memory));
        let store = FaultStore::new(memory.clone(), spoils);
        let root = Root::new(Arc::new(store.clone()), "memory://scripted");
        let runbook = Runbook::new(root).settings(settings("")).retire(true);
        let account = runbook.run().await.unwrap();
        // Nothing before it had anything to write.
        assert_eq!(account.report.counts.written, 0);
        let probed = store.calls_where(Op::Put, |key| key.starts_with(PROBE));
        let after = tree_in(&*memory).await;
        if spoilt {
            assert_eq!(probed, 2);
            assert_eq!(account.report.exit_code, 3, "{account:?}");
            let error = account.report.error.unwrap();
            assert!(error.contains("If-None-Match"), "{error}");
            assert_eq!(after, tree);
        } else {
            assert_eq!(probed, 4);
            assert_eq!(account.report.outcome, Ending::Done, "{account:?}");
            assert!(!after.keys().any(|key| key.contains("2018")));
        }
    }
}

#[tokio::test]
async fn a_whole_upgrade_examines_its_store_once_and_leaves_no_trace_of_it() {
    let case = Case::load("plain");
    let memory = in_memory(&case.published()).await;
    let store = FaultStore::new(memory.clone(), []);
    let root = Root::new(Arc::new(store.clone()), "memory://scripted");
    let config = String::from_utf8(case.file("config.yaml").to_vec()).unwrap();
    let lever = Some(Lever::Overviews(vec![5]));
    let runbook = Runbook::new(root).settings(settings(""));
    let runbook = runbook.declare(&config, lever).unwrap();
    let account = runbook.run().await.unwrap();
    assert_eq!(account.report.outcome, Ending::Done, "{account:?}");
    let steps: Vec<&str> = account.steps.iter().map(|s| s.step.as_str()).collect();
    assert_eq!(steps, ["declare", "columns", "ladder", "verify"]);
    let (probes, deleted): (Vec<_>, u64) = {
        let tally = store.tally();
        let of = |op: Op| {
            let probes = tally.iter().filter(move |((called, _), _)| *called == op);
            probes.filter(|((_, key), _)| key.starts_with(".zagg-stream"))
        };
        let puts = of(Op::Put).map(|(_, calls)| *calls).collect();
        (puts, of(Op::Delete).map(|(_, calls)| calls).sum())
    };
    assert_eq!((probes, deleted), (vec![4], 1));
    let tree = tree_in(&*memory).await;
    assert!(!tree.keys().any(|key| key.starts_with(".zagg-stream")));
    let receipt = String::from_utf8_lossy(&tree[&account.receipt.unwrap()]).into_owned();
    assert!(!receipt.contains(".zagg-stream"), "{receipt}");

    // An idle run needs no lease, and asks nothing of the store that writes.
    let before = Op::WRITES.map(|op| store.calls(op));
    let report = run(Arc::new(store.clone()), settings("")).await;
    assert_eq!(report.outcome, Ending::Done);
    assert_eq!(Op::WRITES.map(|op| store.calls(op)), before);
}

#[tokio::test]
async fn what_a_killed_run_left_of_its_examination_is_in_nobodys_way() {
    let case = Case::load("plain");
    let mut tree = case.declared(Law::Boundary);
    let probe = format!("{PROBE}killed-run");
    tree.insert(probe.clone(), b"created".to_vec());
    let store = TestStore::of(&tree);
    let upgraded = Zagg::new("upgrade").arg(store.root()).arg("--json");
    let run = upgraded.run().expect_code(0);
    assert_eq!(store.read(&probe), b"created");
    let receipt = String::from_utf8(store.read(&run.text("/receipt"))).unwrap();
    assert!(!receipt.contains(PROBE));
    let verify = Zagg::new("verify").arg(store.root()).arg("--json");
    verify.run().expect_code(0);
}
