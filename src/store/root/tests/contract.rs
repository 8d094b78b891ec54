//! What every store does alike.

use bytes::Bytes;

use super::super::list::{Entry, Shallow};
use super::*;

async fn keeps_the_contract(root: &Root) {
    let odd = "a b/100%/ünï[1]~#x.zarr/zarr.json";
    assert_eq!(root.get_if_present(odd).await.unwrap(), None);
    let error = root.get(odd).await.unwrap_err();
    assert_eq!(error.kind(), FaultKind::NotFound);
    assert!(
        error
            .to_string()
            .starts_with(&format!("could not read `{odd}` under `{root}`: "))
    );

    root.put(odd, "one").await.unwrap();
    assert_eq!(root.get(odd).await.unwrap(), "one");
    assert_eq!(root.create(odd, "two").await.unwrap(), Created::Exists);
    assert_eq!(root.get(odd).await.unwrap(), "one");
    assert_eq!(root.create("fresh", "x").await.unwrap(), Created::Yes);

    let seen = root.get_with_version(odd).await.unwrap();
    assert_eq!(
        root.replace(odd, "three", &seen.version).await.unwrap(),
        Replaced::Yes
    );
    assert_eq!(
        root.replace(odd, "four", &seen.version).await.unwrap(),
        Replaced::Moved
    );
    assert_eq!(
        root.replace("gone", "x", &seen.version).await.unwrap(),
        Replaced::Moved
    );
    assert_eq!(root.get(odd).await.unwrap(), "three");
    assert_ne!(
        root.get_with_version(odd).await.unwrap().version,
        seen.version
    );

    root.put("big", vec![7_u8; 3 << 20]).await.unwrap();
    let before = root.tally();
    let far = 3 << 20;
    let parts = root
        .get_ranges("big", &[far - 4..far, 0..2, 10..20])
        .await
        .unwrap();
    assert_eq!(parts.iter().map(Bytes::len).collect::<Vec<_>>(), [4, 2, 10]);
    let after = root.tally();
    assert_eq!(after.get - before.get, 2);
    assert_eq!(after.bytes_read - before.bytes_read, 24);
    let past_the_end = [0..1, far - 4..far + 1];
    assert!(root.get_ranges("big", &past_the_end).await.is_err());
    assert!(root.get_ranges("big", &[]).await.unwrap().is_empty());

    let (tail, size) = root.get_suffix(odd, 2).await.unwrap();
    assert_eq!((tail.as_ref(), size), (&b"ee"[..], 5));
    let (tail, size) = root.get_suffix(odd, 99).await.unwrap();
    assert_eq!((tail.as_ref(), size), (&b"three"[..], 5));
    assert_eq!(root.get_suffix(odd, 0).await.unwrap(), (Bytes::new(), 5));

    let keys = root.list_keys("").await.unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.contains(&odd.to_owned()), "{keys:?}");
    assert_eq!(root.list_keys("a b/100%").await.unwrap(), [odd]);
    assert!(root.list_keys("a").await.unwrap().is_empty());
    let shallow = root.list_shallow("").await.unwrap();
    let names: Vec<_> = shallow.objects.iter().map(Entry::name).collect();
    assert_eq!(names, ["big", "fresh"]);
    assert_eq!(shallow.prefixes, ["a b"]);
    let deeper = root.list_shallow("a b/100%/").await.unwrap();
    assert_eq!(deeper.prefixes, ["a b/100%/ünï[1]~#x.zarr"]);
    assert_eq!(
        root.list_shallow("nowhere").await.unwrap(),
        Shallow::default()
    );

    assert!(!root.put_while(odd, "no", || false).await.unwrap());
    assert_eq!(root.get(odd).await.unwrap(), "three");
    root.delete("absent").await.unwrap();
    root.delete_all(vec![odd.to_owned(), "absent".to_owned()])
        .await
        .unwrap();
    // A directory that lost its last file is no prefix any more.
    assert!(root.list_shallow("").await.unwrap().prefixes.is_empty());
}

#[tokio::test]
async fn every_store_keeps_the_same_contract() {
    keeps_the_contract(&memory()).await;
    let store = Arc::new(InMemory::new());
    let based = Root::with_base(store, "data 100%/hive", "memory://hive").unwrap();
    keeps_the_contract(&based).await;
    for name in [
        "plain",
        "with space",
        "ünï-日本",
        "100%25 %zz",
        "a#b?c",
        "[x]~{y}",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        keeps_the_contract(&Root::open(path.to_str().unwrap()).unwrap()).await;
    }
}

#[tokio::test]
async fn a_key_below_an_object_is_absent_and_cannot_be_written_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path().to_str().unwrap()).unwrap();
    root.put("a", "x").await.unwrap();
    let error = root.put("a/b", "x").await.unwrap_err();
    assert_eq!(error.kind(), FaultKind::WriteRefused, "{error}");
    assert_eq!(root.get_if_present("a/b").await.unwrap(), None);
}
