//! The receipt of an upgrade: what it says, and what a store is held against with it.

use std::collections::BTreeSet;

use crate::common::binary::{Output, Zagg};
use crate::common::cases::Law;
use crate::common::http::WebServer;
use crate::common::published::Published;
use serde_json::{Value, json};
use zagg_stream::{Receipt, ReceiptCheck, Root};

/// An upgraded store and its receipt.
struct Upgraded {
    published: Published,
    receipt: Receipt,
    key: String,
    run: Output,
}

fn upgrade(published: &Published, law: Law, more: &[&str]) -> Output {
    let overviews = published.overviews();
    published
        .command("upgrade")
        .args(&["--overviews", &overviews, "--fold-law", law.name()])
        .args(more)
        .run()
        .expect_code(0)
}

fn upgraded(name: &str, law: Law) -> Upgraded {
    let published = Published::load(name);
    let run = upgrade(&published, law, &[]);
    let key = run.text("/receipt");
    Upgraded {
        receipt: Receipt::parse(&published.store.read(&key)).unwrap(),
        key,
        published,
        run,
    }
}

impl Upgraded {
    async fn check(&self) -> ReceiptCheck {
        let root = self.published.store.root();
        self.check_at(root.to_str().unwrap()).await
    }

    async fn check_at(&self, url: &str) -> ReceiptCheck {
        let root = Root::open(url).unwrap();
        self.receipt.check(&root).await.unwrap()
    }

    /// The one difference there is, as check and path.
    async fn difference(&self) -> (String, String) {
        let checked = self.check().await;
        assert_eq!(checked.differences.len(), 1, "{:#?}", checked.differences);
        let difference = &checked.differences[0];
        (difference.check.to_owned(), difference.path.clone())
    }

    fn document(&self) -> Value {
        serde_json::from_slice(&self.published.store.read(&self.key)).unwrap()
    }

    /// Flips a byte in the middle of an object.
    fn flip(&self, key: &str) {
        let mut bytes = self.published.store.read(key);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        self.published.store.write(key, bytes);
    }
}

#[test]
fn it_lists_what_was_written_and_that_no_leaf_was() {
    for law in Law::ALL {
        let upgraded = upgraded("windowed", law);
        let before: BTreeSet<String> = upgraded.published.case.published().into_keys().collect();
        let after: BTreeSet<String> = upgraded.published.store.tree().into_keys().collect();
        let mut written: BTreeSet<String> = after.difference(&before).cloned().collect();
        written.insert("morton_hive.json".to_owned());
        written.remove(&upgraded.key);
        assert_eq!(upgraded.receipt.objects.written, written);
        assert_eq!(upgraded.receipt.objects.deleted, BTreeSet::new());

        assert_eq!(upgraded.receipt.leaves.len(), 6);
        for leaf in &upgraded.receipt.leaves {
            assert!(leaf.stamp.after.is_some());
            assert_eq!(leaf.stamp.before, leaf.stamp.after, "{}", leaf.leaf);
            let sidecar = leaf.column.replace(".zarr", ".stats.json");
            let sidecar: Value =
                serde_json::from_slice(&upgraded.published.store.read(&sidecar)).unwrap();
            let combined = leaf.combined.as_deref().unwrap();
            assert_eq!(sidecar["content_hashes"]["combined"], json!(combined));
        }
        let document = upgraded.document();
        assert_eq!(document["fold_law"], json!(law.name()));
        assert_eq!(document["run_id"], json!(upgraded.run.text("/run_id")));
        let spec = |side: &str| document["declaration"][side]["pyramid"]["spec"].clone();
        assert_eq!(spec("before"), json!("zagg-pyramid/1"));
        assert_eq!(spec("after"), json!("zagg-pyramid/2"));
        let steps: Vec<&Value> = document["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| &step["step"])
            .collect();
        assert_eq!(steps, ["declare", "columns", "ladder", "verify"]);
        assert_eq!(
            document["ladder"].as_array().unwrap().len(),
            upgraded.run.number("/ladder/counts/written") as usize
        );
    }
}

#[test]
fn a_run_that_writes_nothing_leaves_none_unless_asked() {
    let upgraded = upgraded("plain", Law::Boundary);
    let again = upgrade(&upgraded.published, Law::Boundary, &[]).json();
    assert_eq!(again["receipt"], Value::Null);
    let asked = upgrade(&upgraded.published, Law::Boundary, &["--receipt"]);
    let receipt = upgraded.published.store.read(&asked.text("/receipt"));
    let receipt = Receipt::parse(&receipt).unwrap();
    assert!(receipt.objects.written.is_empty(), "{:?}", receipt.objects);
    assert_eq!(receipt.leaves, upgraded.receipt.leaves);
}

#[tokio::test]
async fn the_store_it_was_written_for_is_as_it_says() {
    for law in Law::ALL {
        for name in [
            "plain",
            "strata",
            "temporal",
            "windowed_all",
            "deep",
            "fine",
        ] {
            let upgraded = upgraded(name, law);
            let checked = upgraded.check().await;
            assert_eq!(checked.differences, [], "{name} {law}");
            assert_eq!(checked.leaves, upgraded.receipt.leaves.len() as u64);
            let ladder = upgraded.receipt.ladder.len() as u64;
            assert!(ladder > 0);
            assert_eq!(checked.artifacts, checked.leaves + ladder);
        }
    }
}

#[tokio::test]
async fn a_changed_leaf_is_found() {
    let upgraded = upgraded("plain", Law::Boundary);
    let leaf = upgraded.receipt.leaves[1].leaf.clone();
    upgraded
        .published
        .store
        .edit_json(&format!("{leaf}/zarr.json"), |root| {
            root["attributes"]["morton_hive_commit"]["granule_count"] = json!(77);
        });
    assert_eq!(upgraded.difference().await, ("leaf-stamp".to_owned(), leaf));
}

#[tokio::test]
async fn a_byte_flipped_in_any_chunk_is_found() {
    let upgraded = upgraded("strata", Law::Boundary);
    let tree = upgraded.published.store.tree();
    let chunks: Vec<&String> = tree
        .keys()
        .filter(|key| key.contains("/c/") && upgraded.receipt.objects.written.contains(*key))
        .collect();
    assert!(chunks.len() > 100);
    for key in chunks {
        upgraded.flip(key);
        let (check, path) = upgraded.difference().await;
        assert!(key.starts_with(&format!("{path}/")), "{key}: {path}");
        let overview = !key.contains(".pyramid.zarr/");
        assert_eq!(check == "overview", overview, "{key}: {check}");
        upgraded.published.store.write(key, &tree[key]);
    }
    assert_eq!(upgraded.check().await.differences, []);
}

#[tokio::test]
async fn what_is_gone_and_what_was_declared_anew_is_found() {
    let upgraded = upgraded("flux", Law::Boundary);
    let column = upgraded.receipt.leaves[0].column.clone();
    let document = format!("{column}/5/count/zarr.json");
    let bytes = upgraded.published.store.read(&document);
    upgraded.published.store.remove(&document);
    assert_eq!(upgraded.difference().await, ("column".to_owned(), column));
    upgraded.published.store.write(&document, bytes);
    upgraded
        .published
        .store
        .edit_json("morton_hive.json", |manifest| {
            manifest["pyramid"]["overview"]["all_time"] = json!(true);
        });
    let declaration = "declaration".to_owned();
    let manifest = "morton_hive.json".to_owned();
    assert_eq!(upgraded.difference().await, (declaration, manifest));
}

#[tokio::test]
async fn a_web_server_that_lists_nothing_will_do() {
    let upgraded = upgraded("deep", Law::Boundary);
    let server = WebServer::over(&upgraded.published.store.root());
    let checked = upgraded.check_at(&server.url).await;
    assert_eq!(checked.differences, []);
    let requests = server.requests.lock().unwrap();
    assert!(requests.len() > 100);
    let others = requests.iter().filter(|line| !line.starts_with("GET "));
    assert_eq!(others.count(), 0, "only GET was asked");
}

#[test]
fn what_is_no_receipt_is_refused() {
    for bytes in [&b"{}"[..], b"[", b"{\"spec\": \"zagg-stream-receipt/2\"}"] {
        assert!(Receipt::parse(bytes).is_err());
    }
}

/// `verify ROOT --receipt LOCATION --json`.
fn verify(root: &str, receipt: &str, code: i32) -> Output {
    Zagg::new("verify")
        .args(&[root, "--receipt", receipt, "--json"])
        .run()
        .expect_code(code)
}

#[test]
fn an_operator_verifies_a_copy_by_its_receipt() {
    let upgraded = upgraded("windowed", Law::Raw);
    let store = &upgraded.published.store;
    let root = store.root().display().to_string();
    let receipt = store.path(&upgraded.key).display().to_string();
    let run = verify(&root, &receipt, 0);
    assert_eq!(run.number("/checked/leaves"), 6);
    assert_eq!(run.text("/outcome"), "done");

    let server = WebServer::over(&store.root());
    let url = format!("{}{}", server.url, upgraded.key);
    verify(&server.url, &url, 0);

    let leaf = &upgraded.receipt.leaves[2].leaf;
    store.edit_json(&format!("{leaf}/zarr.json"), |root| {
        root["attributes"]["morton_hive_commit"]["cells_with_data"] = json!(1);
    });
    let run = verify(&server.url, &url, 1);
    assert_eq!(run.text("/checked/differences/0/check"), "leaf-stamp");
    assert_eq!(run.text("/checked/differences/0/path"), *leaf);
    let said = Zagg::new("verify")
        .args(&[&root, "--receipt", &receipt])
        .run()
        .expect_code(1);
    assert!(said.stdout.contains(leaf.as_str()), "{}", said.stdout);

    let nowhere = store.path("upgrade_of_nothing.json").display().to_string();
    let said = Zagg::new("verify")
        .args(&[&root, "--receipt", &nowhere])
        .run()
        .expect_code(2);
    assert!(said.stderr.contains(&nowhere), "{}", said.stderr);
}

#[test]
fn an_upgrade_that_verify_finds_wanting_leaves_no_receipt() {
    let upgraded = upgraded("plain", Law::Boundary);
    upgraded.flip("1/1/all.zarr/2/h_tdigest/c/0");
    let run = upgraded
        .published
        .command("upgrade")
        .args(&["--overviews", "5", "--receipt"])
        .run()
        .expect_code(1);
    assert_eq!(run.json()["receipt"], Value::Null);
    assert_eq!(run.number("/verified/n_findings"), 1);
    let said = Zagg::new("upgrade")
        .arg(upgraded.published.store.root())
        .run()
        .expect_code(1);
    let headline = "built, and verify has findings";
    assert!(said.stdout.contains(headline), "{}", said.stdout);
    assert!(
        said.stderr.contains("zagg-stream verify"),
        "{}",
        said.stderr
    );
}
