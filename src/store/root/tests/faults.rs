//! Answers that are faults: their kinds, and what is tried again.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

#[tokio::test]
async fn keys_are_sent_as_they_are_and_throttling_is_outlasted() {
    let server = Canned::serve(&[
        ("503 Slow Down", "<Error><Code>SlowDown</Code></Error>"),
        ("500 Oops", ""),
        ("200 OK", "hello"),
    ]);
    let root = server.s3();
    assert_eq!(root.get("k e/y").await.unwrap(), "hello");
    let tally = root.tally();
    assert_eq!((tally.get, tally.retried, tally.throttled), (3, 2, 1));
    assert_eq!(tally.bytes_read, 5);
    let line = server.first_lines().remove(0);
    assert!(line.contains("/bucket/a%20100%25/hive/k%20e/y"), "{line}");
    assert_eq!(serde_json::to_value(tally).unwrap()["throttled"], 1);
}

#[tokio::test]
async fn an_answer_decides_the_kind_of_fault() {
    let xml = |code: &str| format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
    let table = [
        (
            "404 Not Found",
            "NoSuchKey",
            FaultKind::NotFound,
            FaultKind::WriteRefused,
        ),
        (
            "403 Forbidden",
            "AccessDenied",
            FaultKind::Denied,
            FaultKind::Denied,
        ),
        (
            "401 Unauthorized",
            "x",
            FaultKind::Denied,
            FaultKind::Denied,
        ),
        (
            "403 Forbidden",
            "ExpiredToken",
            FaultKind::ExpiredCredentials,
            FaultKind::ExpiredCredentials,
        ),
        (
            "400 Bad Request",
            "ExpiredToken",
            FaultKind::ExpiredCredentials,
            FaultKind::ExpiredCredentials,
        ),
        (
            "400 Bad Request",
            "InvalidToken",
            FaultKind::Denied,
            FaultKind::Denied,
        ),
        (
            "400 Bad Request",
            "EntityTooLarge",
            FaultKind::Denied,
            FaultKind::WriteRefused,
        ),
        (
            "429 Too Many Requests",
            "x",
            FaultKind::Throttled,
            FaultKind::Throttled,
        ),
        (
            "503 Slow Down",
            "SlowDown",
            FaultKind::Throttled,
            FaultKind::Throttled,
        ),
        (
            "500 Internal",
            "InternalError",
            FaultKind::Unavailable,
            FaultKind::Unavailable,
        ),
        (
            "502 Bad Gateway",
            "x",
            FaultKind::Unavailable,
            FaultKind::Unavailable,
        ),
        (
            "408 Timeout",
            "x",
            FaultKind::Unavailable,
            FaultKind::Unavailable,
        ),
        (
            "507 Insufficient Storage",
            "x",
            FaultKind::WriteRefused,
            FaultKind::WriteRefused,
        ),
        (
            "405 Method Not Allowed",
            "x",
            FaultKind::Denied,
            FaultKind::WriteRefused,
        ),
    ];
    for (head, code, reading, writing) in table {
        let server = Canned::serve(&[(head, &xml(code))]);
        let root = server.s3();
        let error = root.get("key").await.unwrap_err();
        assert_eq!(error.kind(), reading, "read {head} {code}: {error}");
        let tries = if reading.is_transient() { 3 } else { 1 };
        assert_eq!(root.tally().get, tries, "{head} {code}");
        let error = root.put("key", "x").await.unwrap_err();
        assert_eq!(error.kind(), writing, "write {head} {code}: {error}");
        let absent = root.get_if_present("key").await;
        assert_eq!(
            absent.is_ok(),
            reading == FaultKind::NotFound,
            "{head} {code}"
        );
    }
}

#[test]
fn a_disk_error_decides_the_kind_of_fault() {
    use io::ErrorKind as Io;
    let table = [
        (Io::PermissionDenied, FaultKind::Denied, FaultKind::Denied),
        (
            Io::StorageFull,
            FaultKind::WriteRefused,
            FaultKind::WriteRefused,
        ),
        (
            Io::ReadOnlyFilesystem,
            FaultKind::WriteRefused,
            FaultKind::WriteRefused,
        ),
        (
            Io::QuotaExceeded,
            FaultKind::WriteRefused,
            FaultKind::WriteRefused,
        ),
        (
            Io::NotADirectory,
            FaultKind::NotFound,
            FaultKind::WriteRefused,
        ),
        (Io::TimedOut, FaultKind::Unavailable, FaultKind::Unavailable),
        (
            Io::ConnectionReset,
            FaultKind::Unavailable,
            FaultKind::Unavailable,
        ),
    ];
    for (io, reading, writing) in table {
        let error = object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(io::Error::from(io)),
        };
        assert_eq!(fault::classify(Op::Read, &error), reading, "{io:?}");
        assert_eq!(fault::classify(Op::Write, &error), writing, "{io:?}");
    }
}

#[tokio::test]
async fn an_unreachable_store_is_unavailable() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let root = Canned {
        port,
        requests: Arc::default(),
    }
    .s3();
    let error = root.get("key").await.unwrap_err();
    assert_eq!(error.kind(), FaultKind::Unavailable, "{error}");
    assert_eq!(root.tally().get, 3);
}

#[tokio::test]
async fn conditional_creates_and_single_deletes_are_sent_once() {
    let server = Canned::serve(&[("500 Oops", "")]);
    let root = server.s3();
    let error = root.create("key", "x").await.unwrap_err();
    assert!(error.kind().is_transient());
    assert_eq!(root.tally().put, 1);
    assert!(root.delete_once("key").await.is_err());
    assert_eq!(root.tally().delete, 1);
    assert!(root.delete("key").await.is_err());
    assert_eq!(root.tally().delete, 4);
}

#[tokio::test]
async fn a_retried_write_asks_again_whether_it_may() {
    let server = Canned::serve(&[("500 Oops", "")]);
    let root = server.s3();
    let asked = AtomicU64::new(0);
    let may = || asked.fetch_add(1, Ordering::SeqCst) == 0;
    assert!(!root.put_while("key", "x", may).await.unwrap());
    assert_eq!(root.tally().put, 1);
}

#[tokio::test]
async fn a_listing_that_breaks_off_goes_on_after_the_last_key() {
    let page = |keys: &[&str], truncated: bool| {
        let contents: String = keys
            .iter()
            .map(|key| {
                format!(
                    "<Contents><Key>a 100%/hive/{key}</Key><Size>1</Size>\
                     <LastModified>2030-01-01T00:00:00.000Z</LastModified></Contents>"
                )
            })
            .collect();
        let more = match truncated {
            true => {
                "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
            }
            false => "<IsTruncated>false</IsTruncated>",
        };
        format!("<?xml version=\"1.0\"?><ListBucketResult>{more}{contents}</ListBucketResult>")
    };
    let server = Canned::serve(&[
        ("503 Slow Down", ""),
        ("200 OK", &page(&["x/1", "x/2"], true)),
        ("500 Oops", ""),
        ("200 OK", &page(&["x/3"], false)),
    ]);
    let root = server.s3();
    assert_eq!(root.list_keys("x").await.unwrap(), ["x/1", "x/2", "x/3"]);
    let lines = server.first_lines();
    assert_eq!(lines.len(), 4);
    assert!(
        lines[3].contains("start-after=a+100%25%2Fhive%2Fx%2F2"),
        "{}",
        lines[3]
    );
}
