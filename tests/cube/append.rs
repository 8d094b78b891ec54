//! The whole way of an append: heal, pull, append by zarr-python, push; on a disk, at a
//! real S3 server, and at one that counts. What is remote is then read by zarr-python and
//! xarray.

use crate::common::binary::{Output, Zagg};
use crate::common::bucket::Bucket;
use crate::common::cubes::{Cubes, bulk_keys};
use crate::common::faults::{Op, Rule};
use crate::common::moto::Moto;
use crate::common::python::cube_py;
use crate::common::s3::{Conditions, S3Server};
use crate::common::stores::{TestStore, Tree};
use serde_json::{Value, json};

/// 2026-01-01, which no golden cube has.
const STAMP: &str = "1767225600000000000";

/// Where a remote cube is.
enum Remote {
    Disk(TestStore),
    Bucket(Bucket),
}

impl Remote {
    fn address(&self) -> String {
        match self {
            Self::Disk(store) => store.root().to_str().unwrap().to_owned(),
            Self::Bucket(bucket) => bucket.url(),
        }
    }

    fn cube(&self, command: &str, args: &[&str]) -> Output {
        let zagg = Zagg::new("cube").arg(command).arg("--json").args(args);
        match self {
            Self::Disk(_) => zagg.run(),
            Self::Bucket(bucket) => bucket.environment(zagg).run(),
        }
    }

    fn environment(&self) -> Vec<(String, String)> {
        match self {
            Self::Disk(_) => Vec::new(),
            Self::Bucket(bucket) => bucket.options().to_vec(),
        }
    }

    fn read(&self) -> Value {
        cube_py(&["read", &self.address()], &self.environment())
    }

    fn tree(&self) -> Tree {
        match self {
            Self::Disk(store) => store.tree(),
            Self::Bucket(bucket) => {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                runtime.unwrap().block_on(bucket.tree())
            }
        }
    }
}

/// Heals, pulls, appends and pushes; every slice that was there is there, and the new one.
fn append(remote: &Remote, healed: u64) {
    let address = remote.address();
    let heal = remote.cube("heal", &[&address]).expect_code(0);
    assert_eq!(
        heal.json()["healed"].as_array().unwrap().len() as u64,
        healed
    );
    let (tree_before, before) = (remote.tree(), remote.read());
    let local = TestStore::empty();
    let path = local.root().to_str().unwrap().to_owned();
    remote.cube("pull", &[&address, &path]).expect_code(0);
    let bulk = bulk_keys(&tree_before);
    assert!(bulk.len() > 20 && bulk.iter().all(|key| !local.has(key)));

    let appended = cube_py(&["append", &path, "ascending", STAMP], &[]);
    let pushed = remote.cube("push", &[&path, &address]).expect_code(0);
    assert_eq!(pushed.json()["deleted"], json!([]));
    assert_eq!(pushed.json()["warnings"], json!([]));
    let tree_after = remote.tree();
    for key in &bulk {
        assert_eq!(tree_after.get(key), tree_before.get(key), "{key}");
    }
    for (key, bytes) in local.tree() {
        assert_eq!(tree_after.get(&key), Some(&bytes), "{key}");
    }
    assert_appended(&before, &appended, &remote.read());
    remote.cube("check", &[&address]).expect_code(0);

    // A run that finds nothing to ingest, having dropped the blocks for it.
    for key in ["zarr.json", "ascending/zarr.json"] {
        local.edit_json(key, |document| {
            document
                .as_object_mut()
                .unwrap()
                .remove("consolidated_metadata")
                .unwrap();
        });
    }
    let idle = remote.cube("push", &[&path, &address]).expect_code(0);
    assert_eq!(idle.number("/requests/put"), 0);
    assert_eq!(remote.tree(), tree_after);
}

fn assert_appended(before: &Value, appended: &Value, after: &Value) {
    let orbits = before.as_object().unwrap();
    assert_eq!(orbits.len(), after.as_object().unwrap().len());
    for (orbit, levels) in orbits {
        for (level, old) in levels.as_object().unwrap() {
            let (mut expected, found) = (old.clone(), &after[orbit][level]);
            if orbit == "ascending" {
                let stamp: i64 = STAMP.parse().unwrap();
                expected["times"].as_array_mut().unwrap().push(json!(stamp));
                for (name, array) in expected["arrays"].as_object_mut().unwrap() {
                    let slices = array["slices"].as_array_mut().unwrap();
                    slices.push(appended[level][name].clone());
                    array["shape"][0] = json!(slices.len());
                }
            }
            assert_eq!(&expected, found, "{orbit}/{level}");
        }
    }
}

#[test]
fn an_append_to_a_cube_on_a_disk() {
    let cubes = Cubes::load();
    for (name, healed) in [("healthy", 0), ("missing_two_levels", 2)] {
        append(&Remote::Disk(TestStore::of(&cubes.tree(name))), healed);
    }
}

#[test]
fn an_append_to_a_cube_at_a_real_server() {
    let (cubes, moto) = (Cubes::load(), Moto::shared());
    for (name, healed) in [("consolidated_missing", 1), ("healthy", 0)] {
        let bucket = moto.bucket(&format!("cube-{}", name.replace('_', "-")));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(bucket.put(&cubes.tree(name)));
        append(&Remote::Bucket(bucket), healed);
    }
}

#[test]
fn an_append_moves_no_slice_that_was_there() {
    let cubes = Cubes::load();
    for conditions in [Conditions::All, Conditions::CreateOnly] {
        let server = S3Server::with(conditions);
        let tree = cubes.tree("missing_r20m_time");
        let remote = Remote::Bucket(server.bucket("counted", &tree));
        let local = TestStore::empty();
        let (address, path) = (remote.address(), local.root().to_str().unwrap().to_owned());
        remote.cube("heal", &[&address]).expect_code(0);
        remote.cube("pull", &[&address, &path]).expect_code(0);
        cube_py(&["append", &path, "ascending", STAMP], &[]);
        let flaky = Rule::on([Op::Put, Op::Get, Op::List]).percent(10, 3);
        server.follow([flaky.fail(crate::common::faults::Failure::Status(503))]);
        remote.cube("push", &[&path, &address]).expect_code(0);
        assert!(server.fired() > 0);
        server.follow([]);
        let bulk = bulk_keys(&tree);
        for op in [
            Op::Get,
            Op::GetRanges,
            Op::Head,
            Op::Put,
            Op::Delete,
            Op::Copy,
        ] {
            let of_bulk = |key: &str| bulk.iter().any(|bulk| key.ends_with(bulk.as_str()));
            assert_eq!(server.tally().of(op, of_bulk).calls, 0, "{op:?}");
        }
        assert_eq!(server.tally().of(Op::Delete, |_| true).calls, 0);
        let sent = server.tally().of(Op::Put, |key| key.contains("/c/3/0/0"));
        assert!(sent.calls >= 7, "{sent:?}");
        remote.cube("check", &[&address]).expect_code(0);
    }
}
