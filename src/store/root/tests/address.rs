//! Addresses: what opens, what does not, and what is derived from one.

use super::super::list::Shallow;
use super::super::tally::count;
use super::*;

#[tokio::test]
async fn a_local_root_is_found_however_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my hive");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("k"), "v").unwrap();
    std::os::unix::fs::symlink(&path, dir.path().join("link")).unwrap();
    let dir = dir.path().to_str().unwrap();
    for url in [
        format!("{dir}/my hive/"),
        format!("{dir}/./my hive/."),
        format!("{dir}/my hive/../my hive"),
        format!("{dir}/link"),
        format!("file://{dir}/my%20hive"),
    ] {
        let root = Root::open(&url).unwrap();
        assert_eq!(root.get("k").await.unwrap(), "v", "{url}");
        assert_eq!(root.list_keys("").await.unwrap(), ["k"], "{url}");
        assert_eq!(root.url(), url);
        assert!(!root.is_read_only());
    }
    // Tests run in the directory of the package.
    assert!(Root::open("src").unwrap().get("lib.rs").await.is_ok());
    assert!(Root::open(".").unwrap().get("src/lib.rs").await.is_ok());
}

#[tokio::test]
async fn siblings_stand_beside_the_root() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("hive")).unwrap();
    std::fs::create_dir_all(dir.path().join("hive.status/run-a")).unwrap();
    std::fs::write(dir.path().join("hive.status/run-a/shard-1.json"), "").unwrap();
    for url in ["hive", "hive/", "hive/."] {
        let root = Root::open(&format!("{}/{url}", dir.path().display())).unwrap();
        let sibling = root.sibling(".status").unwrap();
        assert_eq!(
            sibling.list_shallow("").await.unwrap().prefixes,
            ["run-a"],
            "{url}"
        );
        assert_eq!(
            sibling.list_keys("run-a").await.unwrap(),
            ["run-a/shard-1.json"]
        );
        let missing = root.sibling(".nothing").unwrap();
        assert_eq!(missing.list_shallow("").await.unwrap(), Shallow::default());
    }
    assert!(Root::open("/").unwrap().sibling(".status").is_none());
    assert!(Root::open("src").unwrap().sibling(".status").is_some());
    assert!(memory().sibling(".status").is_none());
    let s3 = Root::open("s3://bucket/data/hive").unwrap();
    assert_eq!(
        s3.sibling(".status").unwrap().url(),
        "s3://bucket/data/hive.status"
    );
    assert!(
        Root::open("s3://bucket/")
            .unwrap()
            .sibling(".status")
            .is_none()
    );
}

#[test]
fn a_root_that_cannot_be_opened_says_why_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let message = |url: &str| Root::open(url).unwrap_err().to_string();
    let absent = message(dir.path().join("nothing").to_str().unwrap());
    assert!(
        absent.contains("does not exist; check the path"),
        "{absent}"
    );
    assert!(message("").contains("does not exist"));
    let is_a_file = message(file.to_str().unwrap());
    assert!(
        is_a_file.contains("is a file; give the directory"),
        "{is_a_file}"
    );
    let below_a_file = message(file.join("x").to_str().unwrap());
    assert!(below_a_file.contains("does not exist"), "{below_a_file}");
    assert!(message("ftp://host/x").contains("unsupported scheme `ftp`"));
    assert!(message("ftp://host/x").contains("s3://"));
    assert!(message("s3:///x").contains("names no bucket"));
    assert!(message("s3://bucket/a//b").contains("empty path segment"));
    assert!(message("file://host/x").contains("three slashes"));
    assert!(message("https://host/x?sig=1").contains("query"));
    let secret = message("ftp://me:hunter2@host/x");
    assert!(!secret.contains("hunter2"), "{secret}");
    let no_account = message("az://container/x");
    assert!(
        no_account.contains("check the AZURE_… variables"),
        "{no_account}"
    );
    assert!(Root::open("gs://bucket/x").is_ok());
    assert!(Root::open("abfs://c@account.dfs.core.windows.net/x").is_ok());
    for signed in [
        "az://c/x?se=2030&sig=hunter2",
        "https://host/x?X-Amz-Signature=hunter2",
    ] {
        let refused = message(signed);
        assert!(refused.contains("leave it off") || refused.contains("AZURE_STORAGE_SAS_TOKEN"));
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}

#[test]
fn nothing_secret_is_shown() {
    let root = Root::open_with(
        "s3://bucket/x",
        options(&[
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ]),
    )
    .unwrap();
    assert!(!format!("{root:?} {root}").contains("hunter2"));
    let http = Root::open("https://me:hunter2@host/x").unwrap();
    assert!(!format!("{http:?} {http}").contains("hunter2"));
}

#[test]
fn a_detached_root_shares_the_tally() {
    let root = Root::open("s3://bucket/x").unwrap();
    let other = root.detached();
    count(&other.0.counters.get, 1);
    assert_eq!(root.tally().get, 1);
    assert!(!Arc::ptr_eq(&root.0.store, &other.0.store));
}
