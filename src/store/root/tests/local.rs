//! A local disk: what is durable, and what a killed writer leaves.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path as FilePath;

use super::super::local::{self, Disk};
use super::*;

/// A root whose directory syncs are `sync_dir`.
fn synced_by(
    dir: &FilePath,
    sync_dir: impl Fn(&FilePath) -> std::io::Result<()> + Send + Sync + 'static,
) -> Root {
    let root = Root::open(dir.to_str().unwrap()).unwrap();
    let disk = Disk::new(dir).unwrap().with_sync_dir(sync_dir);
    let path = dir.to_owned();
    let origin = Origin::Local { path, disk };
    Root(Arc::new(Inner {
        origin,
        ..Inner::clone(&root.0)
    }))
    .with_retry(RetryPolicy::immediate(2))
}

fn files(dir: &FilePath) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let key = path.strip_prefix(dir).unwrap().to_str().unwrap();
            if path.is_dir() {
                found.insert(format!("{key}/"));
                left.push(path);
            } else {
                found.insert(key.to_owned());
            }
        }
    }
    found
}

fn write(dir: &FilePath, keys: &[&str]) {
    for key in keys {
        let path = dir.join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, key).unwrap();
    }
}

#[test]
fn writes_are_synced_by_the_client() {
    // It shows nowhere else: what a sync is for does not happen in a test.
    let dir = tempfile::tempdir().unwrap();
    let store = format!("{:?}", local::open(dir.path()).unwrap());
    assert!(store.contains("fsync: true"), "{store}");
}

#[tokio::test]
async fn a_deletion_is_synced_after_it_and_before_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().canonicalize().unwrap();
    write(&at, &["kept", "a/kept", "a/one", "b/c/two", "b/c/three"]);
    let synced = Arc::new(Mutex::new(Vec::new()));
    let (seen, below) = (synced.clone(), at.clone());
    let root = synced_by(&at, move |dir| {
        fs::metadata(dir)?;
        seen.lock().unwrap().push((dir.to_owned(), files(&below)));
        Ok(())
    });
    let keys = ["a/one", "b/c/two", "b/c/three", "a/never"].map(str::to_owned);
    root.delete_all(keys.to_vec()).await.unwrap();
    let left = BTreeSet::from(["kept", "a/", "a/kept"].map(str::to_owned));
    // `b` and `b/c` were left empty, so what must last is that `b` is gone.
    assert_eq!(
        *synced.lock().unwrap(),
        [(at.join("a"), left.clone()), (at, left)]
    );
}

#[tokio::test]
async fn a_deletion_that_cannot_be_synced_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &["a/one", "a/two"]);
    let root = synced_by(dir.path(), |_| Err(ErrorKind::StorageFull.into()));
    let error = root.delete("a/one").await.unwrap_err();
    assert_eq!(error.kind(), FaultKind::WriteRefused);
    assert!(error.to_string().contains("delete `a/one`"), "{error}");
    // The try after it finds no object, and is none the wiser.
    assert!(root.delete("a/one").await.is_err());
}

#[tokio::test]
async fn what_a_killed_writer_left_is_never_listed_and_can_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let ours = ["n/a.zarr/zarr.json", "n/a.zarr/6/count/c/0", "n/a.json"];
    let foreign = ["n/b.zarr/zarr.json#1", "n/b.json#1", "lease.json#1"];
    let look_alikes = ["n/a.zarr/x#", "n/a.zarr/x#1y", "n/a.json#x"];
    write(dir.path(), &ours);
    write(dir.path(), &foreign);
    write(dir.path(), &look_alikes);
    write(
        dir.path(),
        &[
            "n/a.zarr/zarr.json#1",
            "n/a.zarr/zarr.json#12",
            "n/a.zarr/7/count/c/0#1",
            "n/a.json#1",
        ],
    );
    std::os::unix::fs::symlink(
        dir.path().join("n/b.zarr"),
        dir.path().join("n/a.zarr/link"),
    )
    .unwrap();
    let root = Root::open(dir.path().to_str().unwrap()).unwrap();
    let mut objects: Vec<_> = ours.iter().chain(&look_alikes).copied().collect();
    objects.sort_unstable();
    let mut listed = root.list_keys("").await.unwrap();
    listed.sort_unstable();
    assert_eq!(listed, objects);
    assert_eq!(
        root.get_if_present("n/a.json#1").await.unwrap_or(None),
        None
    );

    for key in [
        "n/a.zarr",
        "n/a.json",
        "n/nothing",
        "nowhere/at/all",
        "n/a.json/x",
    ] {
        root.delete_staged(key).await.unwrap();
    }
    let mut left = files(dir.path());
    left.retain(|key| !key.ends_with('/') && !key.contains("link"));
    objects.extend(foreign);
    assert_eq!(left, objects.iter().map(|key| (*key).to_owned()).collect());
    assert!(!dir.path().join("n/a.zarr/7").exists());
}

#[tokio::test]
async fn only_a_local_disk_has_something_staged() {
    let root = memory();
    root.put("n/a.json", "x").await.unwrap();
    root.delete_staged("n").await.unwrap();
    assert_eq!(root.list_keys("").await.unwrap(), ["n/a.json"]);
    let http = Root::open("https://127.0.0.1:1/hive").unwrap();
    assert!(http.delete_staged("n").await.is_err());
}
