//! Plain web servers: read only, perhaps without ranges or listings.

use super::*;
use crate::store::manifest::Manifest;
use crate::store::records::{RecordError, Records};

#[tokio::test]
async fn an_http_root_is_read_only_and_says_so_without_a_request() {
    let server = Canned::serve(&[("200 OK", "0123456789")]);
    let root = server.http();
    assert!(root.is_read_only());
    for error in [
        root.put("k", "x").await.unwrap_err(),
        root.create("k", "x").await.unwrap_err(),
        root.delete("k").await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), FaultKind::WriteRefused);
        assert!(error.to_string().contains("read only"), "{error}");
    }
    assert!(server.first_lines().is_empty());
    assert_eq!(root.get("k y").await.unwrap(), "0123456789");
    assert!(server.first_lines()[0].contains("GET /data/my%20hive/k%20y "));
}

#[tokio::test]
async fn a_file_server_without_ranges_is_read_whole() {
    let server = Canned::serve(&[("200 OK", "0123456789")]);
    let root = server.http();
    let parts = root.get_ranges("k", &[2..4, 8..10]).await.unwrap();
    assert_eq!(parts, ["23", "89"]);
    assert_eq!(root.get_suffix("k", 3).await.unwrap(), ("789".into(), 10));
}

#[tokio::test]
async fn an_http_root_that_cannot_be_listed_says_what_to_do() {
    let manifest = br#"{"spec": "morton-hive/1", "cell_order": 6, "shard_order": 4}"#;
    let manifest = Manifest::parse(manifest, "morton_hive.json").unwrap();
    for (head, not_listable) in [
        ("405 Method Not Allowed", true),
        ("501 Unsupported method", true),
        ("200 OK", true),
        ("503 Service Unavailable", false),
    ] {
        let server = Canned::serve(&[(head, "<html>")]);
        let root = server.http();
        let error = Records::read(&root, &manifest).await.unwrap_err();
        let refused = matches!(error, RecordError::NotListable(_));
        assert_eq!(refused, not_listable, "{head}: {error}");
        let message = error.to_string();
        assert!(message.contains(root.url()), "{message}");
        assert_eq!(
            message.contains("answers PROPFIND"),
            not_listable,
            "{message}"
        );
        let error = crate::Error::from(error);
        let exit_code = if not_listable { 3 } else { 4 };
        assert_eq!(error.ending().exit_code(), exit_code, "{head}");
        assert!(server.first_lines()[0].starts_with("PROPFIND /data/my%20hive"));
    }
}
