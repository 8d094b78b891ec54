//! Keys that end while a client is at work, and are renewed by somebody else.

use std::time::Duration;

use super::*;
use crate::time::{Clock, SystemClock, iso};

/// A host that hands out keys `K1`, `K2`, …, and a store that takes only the key it was
/// told to, in one server.
struct Issuer {
    canned: Canned,
    taken: Arc<Mutex<String>>,
    issued: Arc<Mutex<u64>>,
}

const EXPIRED: &str =
    "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>";

impl Issuer {
    fn serve() -> Self {
        let (taken, issued) = (
            Arc::<Mutex<String>>::default(),
            Arc::<Mutex<u64>>::default(),
        );
        let (good, count) = (taken.clone(), issued.clone());
        let canned = Canned::serve_with(move |request| {
            if request.starts_with("GET /creds ") {
                *count.lock().unwrap() += 1;
                return ("200 OK".to_owned(), Self::keys(*count.lock().unwrap()));
            }
            let scope = format!("Credential={}/", good.lock().unwrap());
            match request.contains(&scope) {
                true => ("200 OK".to_owned(), "x".to_owned()),
                false => ("400 Bad Request".to_owned(), EXPIRED.to_owned()),
            }
        });
        Self {
            canned,
            taken,
            issued,
        }
    }

    /// Good for a second, as far as whole seconds can say so.
    fn keys(number: u64) -> String {
        let end = iso(SystemClock::new().now().unix_seconds() + 1);
        format!(
            "{{\"AccessKeyId\": \"K{number}\", \"SecretAccessKey\": \"hunter2\", \"Token\": \"t\", \"Expiration\": \"{end}\"}}"
        )
    }

    fn take_only(&self, id: &str) {
        id.clone_into(&mut self.taken.lock().unwrap());
    }

    fn issued(&self) -> u64 {
        *self.issued.lock().unwrap()
    }
}

#[tokio::test]
async fn a_client_goes_on_with_the_keys_its_host_issues_next() {
    // With a token in a file the client library asks the host; without one this crate does.
    for in_file in [false, true] {
        let server = Issuer::serve();
        let uri = format!("{}/creds", server.canned.url());
        let mut given = vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str())];
        if in_file {
            given.push(("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/dev/null"));
        }
        let root = server.canned.open("s3://bucket/x", &given);
        server.take_only("K1");
        root.get("key").await.unwrap();
        let before = server.issued();
        // Past the end of whatever was issued so far.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        server.take_only(&format!("K{}", before + 1));
        root.get("key").await.unwrap();
        assert_eq!(server.issued(), before + 1, "in a file: {in_file}");
        // The store does refuse stale keys.
        server.take_only("K1");
        let refused = root.get("key").await.unwrap_err();
        assert_eq!(refused.kind(), FaultKind::ExpiredCredentials, "{refused}");
    }
}

#[tokio::test]
async fn a_client_goes_on_with_the_keys_its_profile_holds_next() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("credentials");
    let write = |id: &str| {
        let keys =
            format!("[default]\naws_access_key_id = {id}\naws_secret_access_key = hunter2\n");
        std::fs::write(&file, keys).unwrap();
    };
    write("OLD");
    let server = Issuer::serve();
    let given = [("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap())];
    let root = server.canned.open("s3://bucket/x", &given);
    let beside = root.detached();
    server.take_only("OLD");
    root.get("key").await.unwrap();
    beside.get("key").await.unwrap();
    server.take_only("NEWER");
    let refused = root.get("key").await.unwrap_err();
    assert_eq!(refused.kind(), FaultKind::ExpiredCredentials, "{refused}");
    write("NEWER");
    for root in [root.clone(), beside] {
        let reads = (0..8).map(|_| root.get("key"));
        for read in futures::future::join_all(reads).await {
            assert_eq!(read.unwrap(), "x");
        }
    }
    assert_eq!(server.issued(), 0);
}
