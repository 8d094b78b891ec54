use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use super::*;

fn options(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

fn memory() -> Root {
    Root::new(Arc::new(InMemory::new()), "memory://hive").with_retry(RetryPolicy::immediate(3))
}

/// Answers with one canned response after another, the last one over and over.
struct Canned {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    fn serve(answers: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answers) = (requests.clone(), options(answers));
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { return };
                let (head, body) = &answers[n.min(answers.len() - 1)];
                seen.lock().unwrap().push(Self::answer(stream, head, body));
            }
        });
        Self { port, requests }
    }

    fn answer(mut stream: TcpStream, head: &str, body: &str) -> String {
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let n = stream.read(&mut buffer).unwrap_or(0);
            request.extend_from_slice(&buffer[..n]);
            let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
            if let Some((headers, rest)) = text.split_once("\r\n\r\n") {
                let length = headers
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "))
                    .map_or(0, |length| length.parse().unwrap());
                if rest.len() >= length {
                    break;
                }
            }
            if n == 0 {
                break;
            }
        }
        let response = format!(
            "HTTP/1.1 {head}\r\nContent-Length: {}\r\nETag: \"e\"\r\n\
             Last-Modified: Tue, 01 Jan 2030 00:00:00 GMT\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(response.as_bytes());
        String::from_utf8_lossy(&request).into_owned()
    }

    fn s3(&self) -> Root {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let options = options(&[
            ("AWS_ENDPOINT_URL", &endpoint),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
            ("TOKEN", "somebody else's"),
        ]);
        Root::open_with("s3://bucket/a 100%/hive/", options)
            .unwrap()
            .with_retry(RetryPolicy::immediate(3))
    }

    fn http(&self) -> Root {
        Root::open(&format!("http://127.0.0.1:{}/data/my%20hive/", self.port))
            .unwrap()
            .with_retry(RetryPolicy::immediate(3))
    }

    fn first_lines(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let first = |request: &String| request.lines().next().unwrap_or_default().to_owned();
        requests.iter().map(first).collect()
    }
}

async fn keeps_the_contract(root: &Root) {
    let odd = "a b/100%/ünï[1]~#x.zarr/zarr.json";
    assert_eq!(root.get_if_present(odd).await.unwrap(), None);
    assert_eq!(root.head_if_present(odd).await.unwrap(), None);
    let error = root.get(odd).await.unwrap_err();
    assert_eq!(error.kind(), FaultKind::NotFound);
    assert!(
        error
            .to_string()
            .starts_with(&format!("could not read `{odd}` under `{root}`: "))
    );

    root.put(odd, "one").await.unwrap();
    assert_eq!(root.get(odd).await.unwrap(), "one");
    assert_eq!(root.head(odd).await.unwrap().size, 3);
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
        root.ensure_listable().await.unwrap();
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
    for url in [
        "gs://bucket/x",
        "az://container/x",
        "abfs://c@account.dfs.core.windows.net/x",
    ] {
        if let Err(error) = Root::open(url) {
            assert!(error.to_string().contains("credentials"), "{error}");
        }
    }
}

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
async fn an_http_root_that_cannot_be_listed_says_so() {
    let server = Canned::serve(&[("405 Method Not Allowed", "")]);
    let error = server.http().ensure_listable().await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("cannot be listed") && message.contains("PROPFIND"),
        "{message}"
    );
    assert_eq!(server.first_lines().len(), 1);
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
async fn a_key_below_an_object_is_absent_and_cannot_be_written_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path().to_str().unwrap()).unwrap();
    root.put("a", "x").await.unwrap();
    let error = root.put("a/b", "x").await.unwrap_err();
    assert_eq!(error.kind(), FaultKind::WriteRefused, "{error}");
    assert_eq!(root.get_if_present("a/b").await.unwrap(), None);
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
