//! Where the keys for S3 come from: every source that an environment may name, by the
//! requests that are made with what it gave.

use super::*;
use crate::time::{Clock, SystemClock};

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "FROM-ENV"),
    ("AWS_SECRET_ACCESS_KEY", "hunter2"),
];

/// What hands out keys answers, of a lifetime that needs no renewal.
fn issued(id: &str) -> String {
    issued_until(id, "2099-01-01T00:00:00Z")
}

fn issued_until(id: &str, expiration: &str) -> String {
    format!(
        "{{\"AccessKeyId\": \"{id}\", \"SecretAccessKey\": \"hunter2\", \"Token\": \"session-of-{id}\", \"Expiration\": \"{expiration}\"}}"
    )
}

fn now() -> i64 {
    SystemClock::new().now().unix_seconds()
}

impl Canned {
    /// The requests it got, names of headers in lower case.
    pub(super) fn heads(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// One read, and the last request it made.
pub(super) async fn last_request(server: &Canned, url: &str, given: &[(&str, &str)]) -> String {
    let root = server.open(url, given);
    root.get("key").await.unwrap();
    assert!(!format!("{root:?}").contains("hunter"), "{root:?}");
    server.heads().pop().unwrap()
}

fn profile_files() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(
        home.path().join(".aws/credentials"),
        "[default]\naws_access_key_id = FROM-DEFAULT\naws_secret_access_key = hunter2\n\
         [work]\naws_access_key_id = FROM-WORK\naws_secret_access_key = hunter2\naws_session_token = session-of-work\n",
    )
    .unwrap();
    std::fs::write(
        home.path().join(".aws/config"),
        "[profile work]\nregion = eu-central-1\n[profile corp]\nsso_session = corp\nregion = ap-south-1\n",
    )
    .unwrap();
    home
}

#[tokio::test]
async fn keys_of_the_environment_sign_and_an_endpoint_has_three_names() {
    let session = [("AWS_SESSION_TOKEN", "session")];
    let given: Vec<_> = KEYS.iter().chain(&session).copied().collect();
    let server = Canned::serve(&[("200 OK", "x")]);
    let request = last_request(&server, "s3://bucket/x", &given).await;
    assert!(request.contains("Credential=FROM-ENV/"), "{request}");
    assert!(request.contains("/us-east-1/s3/"), "{request}");
    assert!(
        request.contains("x-amz-security-token: session\r\n"),
        "{request}"
    );
    for (region, value) in [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_DEFAULT_REGION", "eu-west-1"),
    ] {
        let given: Vec<_> = KEYS.iter().copied().chain([(region, value)]).collect();
        let request = last_request(&server, "s3://bucket/x", &given).await;
        assert!(request.contains("/eu-west-1/s3/"), "{request}");
    }
    for endpoint in ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
        let server = Canned::serve(&[("200 OK", "x")]);
        let url = server.url();
        let given = [&KEYS[..], &[(endpoint, url.as_str())]].concat();
        let root = Root::open_with("s3://bucket/x", options(&given)).unwrap();
        assert_eq!(root.get("key").await.unwrap(), "x", "{endpoint}");
    }
}

#[tokio::test]
async fn an_anonymous_request_carries_no_signature() {
    for (url, skip) in [
        ("s3://bucket/x", "AWS_SKIP_SIGNATURE"),
        ("gs://bucket/x", "GOOGLE_SKIP_SIGNATURE"),
        ("az://bucket/x", "AZURE_SKIP_SIGNATURE"),
    ] {
        let home = profile_files();
        let home = ("HOME", home.path().to_str().unwrap());
        let server = Canned::serve(&[("200 OK", "x")]);
        let request = last_request(&server, url, &[(skip, "true"), home]).await;
        let request = request.to_ascii_lowercase();
        assert!(!request.contains("authorization"), "{skip}: {request}");
    }
}

#[tokio::test]
async fn keys_go_before_a_profile_and_a_profile_before_what_a_machine_is_given() {
    let home = profile_files();
    let home = ("HOME", home.path().to_str().unwrap());
    let given_to_the_machine = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token"),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/"),
    ];
    let server = Canned::serve(&[("200 OK", "x")]);
    for (given, signed_by, region) in [
        (&[][..], "FROM-DEFAULT", "us-east-1"),
        (&[("AWS_PROFILE", "work")], "FROM-WORK", "eu-central-1"),
        (
            &[("AWS_PROFILE", "work"), ("AWS_REGION", "r-1")],
            "FROM-WORK",
            "r-1",
        ),
        // Keys that are there stand for those the profile would have to be asked for.
        (
            &[("AWS_PROFILE", "corp"), KEYS[0], KEYS[1]],
            "FROM-ENV",
            "ap-south-1",
        ),
        (
            &[("AWS_PROFILE", "none"), KEYS[0], KEYS[1]],
            "FROM-ENV",
            "us-east-1",
        ),
        // Set, but empty.
        (
            &[("AWS_ACCESS_KEY_ID", ""), ("AWS_PROFILE", "")],
            "FROM-DEFAULT",
            "us-east-1",
        ),
    ] {
        let given = [given, &given_to_the_machine, &[home]].concat();
        let request = last_request(&server, "s3://bucket/x", &given).await;
        let scope = format!("Credential={signed_by}/");
        assert!(request.contains(&scope), "{given:?}: {request}");
        assert!(
            request.contains(&format!("/{region}/s3/")),
            "{given:?}: {request}"
        );
    }
}

#[test]
fn a_profile_that_cannot_be_used_refuses_the_root() {
    let home = profile_files();
    let home = ("HOME", home.path().to_str().unwrap());
    for (profile, says) in [
        (
            "corp",
            "aws configure export-credentials --profile corp --format env",
        ),
        ("wrok", "aws configure list-profiles"),
    ] {
        let given = options(&[("AWS_PROFILE", profile), home]);
        let error = Root::open_with("s3://bucket/x", given).unwrap_err();
        assert!(matches!(error, RootError::Credentials { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(crate::Error::from(error).ending().exit_code(), 3);
        // Nobody asks for a profile of a bucket elsewhere.
        let given = options(&[("AWS_PROFILE", profile), home]);
        assert!(Root::open_with("gs://bucket/x", given).is_ok());
    }
}

#[tokio::test]
async fn a_web_identity_is_exchanged_over_tls_only() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "hunter2").unwrap();
    let server = Canned::serve(&[("200 OK", "x")]);
    let sts = server.url();
    let given = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_ENDPOINT_URL_STS", &sts),
    ];
    let error = server
        .open("s3://bucket/x", &given)
        .get("key")
        .await
        .unwrap_err();
    assert!(server.heads().is_empty(), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    let given = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token"),
        given[1],
        given[2],
    ];
    let error = server
        .open("s3://bucket/x", &given)
        .get("key")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/nowhere/token"), "{error}");
    assert_eq!(error.kind(), FaultKind::Denied);
}

#[tokio::test]
async fn the_host_of_a_container_hands_out_keys() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "from-a-file").unwrap();
    let in_file = (
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        token.to_str().unwrap(),
    );
    let in_place = ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "from-the-environment");
    for (authorization, expected) in [
        (vec![], None),
        (vec![in_place], Some("from-the-environment")),
        (vec![in_place, in_file], Some("from-a-file")),
    ] {
        let host = Canned::serve(&[("200 OK", &issued("FROM-HOST"))]);
        let uri = format!("{}/creds", host.url());
        let given = [
            authorization,
            vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", &uri)],
        ]
        .concat();
        let server = Canned::serve(&[("200 OK", "x")]);
        let request = last_request(&server, "s3://bucket/x", &given).await;
        assert!(request.contains("Credential=FROM-HOST/"), "{request}");
        assert!(
            request.contains("x-amz-security-token: session-of-FROM-HOST\r\n"),
            "{request}"
        );
        let asked = host.heads();
        assert_eq!(asked.len(), 1);
        assert!(asked[0].starts_with("GET /creds "), "{}", asked[0]);
        match expected {
            Some(expected) => {
                assert!(
                    asked[0].contains(&format!("authorization: {expected}\r\n")),
                    "{}",
                    asked[0]
                );
            }
            None => assert!(!asked[0].contains("authorization"), "{}", asked[0]),
        }
    }
}

#[tokio::test]
async fn the_host_of_a_container_may_be_named_by_a_path() {
    // Its address is fixed, so it is reached here through a proxy, as is the store.
    let proxy = Canned::serve(&[("200 OK", &issued("FROM-TASK")), ("200 OK", "x")]);
    let url = proxy.url();
    let given = [
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/creds"),
        ("AWS_PROXY_URL", &url),
        ("AWS_ENDPOINT", "http://store.invalid"),
    ];
    let request = last_request(&proxy, "s3://bucket/x", &given).await;
    assert!(request.contains("Credential=FROM-TASK/"), "{request}");
    let asked = proxy.first_lines().remove(0);
    assert_eq!(asked, "GET http://169.254.170.2/v2/creds HTTP/1.1");
}

#[tokio::test]
async fn keys_are_asked_of_this_machine_or_the_container_s_host_only() {
    for (uri, is_trusted) in [
        ("http://example.com/creds", false),
        ("ftp://127.0.0.1/creds", false),
        ("nonsense", false),
        ("http://169.254.170.23/v1/credentials", true),
        ("http://[fd00:ec2::23]/v1/credentials", true),
        ("http://localhost:1/creds", true),
        ("https://example.com/creds", true),
    ] {
        let given = options(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri)]);
        assert_eq!(
            Root::open_with("s3://bucket/x", given).is_ok(),
            is_trusted,
            "{uri}"
        );
    }
}

#[tokio::test]
async fn a_container_host_that_refuses_is_no_absent_object() {
    let server = Canned::serve(&[("200 OK", "x")]);
    for in_file in [false, true] {
        for (status, kind) in [
            ("404 Not Found", FaultKind::Denied),
            ("403 Forbidden", FaultKind::Denied),
            ("500 Oops", FaultKind::Unavailable),
        ] {
            let host = Canned::serve(&[(status, "hunter2")]);
            let uri = host.url();
            let mut given = vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str())];
            if in_file {
                given.push(("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/dev/null"));
            }
            let error = server
                .open("s3://bucket/x", &given)
                .get_if_present("key")
                .await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), kind, "{status}: {error}");
            assert!(!host.heads().is_empty());
        }
    }
    assert!(server.heads().is_empty());
    // An answer that is no answer is not quoted.
    let host = Canned::serve(&[("200 OK", "{\"SecretAccessKey\": \"hunter2\"}")]);
    let uri = host.url();
    let given = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str())];
    let error = server
        .open("s3://bucket/x", &given)
        .get("key")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("holds no keys"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_container_s_keys_are_kept_while_they_are_good_and_their_host_is_not() {
    let soon = crate::time::iso(now() + 60);
    let host = Canned::serve(&[("200 OK", &issued_until("FIRST", &soon)), ("500 Oops", "")]);
    let server = Canned::serve(&[("200 OK", "x")]);
    let uri = host.url();
    let given = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri.as_str())];
    let root = server.open("s3://bucket/x", &given);
    root.get("key").await.unwrap();
    // Not asked again at once, although the keys end soon.
    root.get("key").await.unwrap();
    assert_eq!(host.heads().len(), 1);
    tokio::time::sleep(std::time::Duration::from_millis(1050)).await;
    root.get("key").await.unwrap();
    assert_eq!(host.heads().len(), 2);
    for request in server.heads() {
        assert!(request.contains("Credential=FIRST/"), "{request}");
    }
}

#[tokio::test]
async fn an_instance_hands_out_the_keys_of_its_role() {
    let host = Canned::serve(&[
        ("200 OK", "token-of-the-instance"),
        ("200 OK", "my-role"),
        ("200 OK", &issued("FROM-ROLE")),
    ]);
    let server = Canned::serve(&[("200 OK", "x")]);
    let url = host.url();
    let request = last_request(
        &server,
        "s3://bucket/x",
        &[("AWS_METADATA_ENDPOINT", url.as_str())],
    )
    .await;
    assert!(request.contains("Credential=FROM-ROLE/"), "{request}");
    let asked = host.heads();
    assert!(
        asked[0].starts_with("PUT /latest/api/token "),
        "{}",
        asked[0]
    );
    assert!(
        asked[2].contains("/security-credentials/my-role "),
        "{}",
        asked[2]
    );
    assert!(asked[2].contains("token-of-the-instance"), "{}", asked[2]);
}

#[test]
fn the_end_of_credentials_is_known_where_it_is_written_down() {
    let home = profile_files();
    let path = home.path().join(".aws/credentials");
    let home = ("HOME", home.path().to_str().unwrap());
    let end = |url: &str, given: &[(&str, &str)]| {
        let given = [given, &[home, ("AZURE_STORAGE_ACCOUNT", "a")]].concat();
        Root::open_with(url, options(&given))
            .unwrap()
            .credentials_end()
    };
    let exported = ("AWS_CREDENTIAL_EXPIRATION", "2030-01-01T00:00:00+00:00");
    assert_eq!(
        end("s3://b/x", &[KEYS[0], KEYS[1], exported]).as_deref(),
        Some("2030-01-01T00:00:00+00:00")
    );
    // Of other keys than those of the profile.
    assert_eq!(end("s3://b/x", &[exported]), None);
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{before}expiration = 2031\n")).unwrap();
    assert_eq!(
        end("s3://b/x", &[("AWS_PROFILE", "work")]).as_deref(),
        Some("2031")
    );
    let sas = (
        "AZURE_STORAGE_SAS_TOKEN",
        "?sv=1&se=2030-01-01T00%3A00%3A00Z&sig=s",
    );
    assert_eq!(
        end("az://b/x", &[sas]).as_deref(),
        Some("2030-01-01T00:00:00Z")
    );
    assert_eq!(end("gs://b/x", &[("GOOGLE_BEARER_TOKEN", "t")]), None);
    assert_eq!(memory().credentials_end(), None);
}

#[tokio::test]
async fn no_credentials_at_all_is_said_with_what_to_set() {
    // The address of the service is not reached on any machine that is no instance.
    let proxy = Canned::serve(&[("404 Not Found", "")]);
    let url = proxy.url();
    let given = [
        ("AWS_PROXY_URL", url.as_str()),
        ("AWS_ENDPOINT", "http://store.invalid"),
    ];
    let error = proxy
        .open("s3://bucket/x", &given)
        .get_if_present("key")
        .await
        .unwrap_err();
    assert_eq!(error.kind(), FaultKind::Denied);
    let message = error.to_string();
    assert!(
        message.contains("AWS_PROFILE, or AWS_SKIP_SIGNATURE=true"),
        "{message}"
    );
    assert!(proxy.first_lines()[0].starts_with("PUT http://169.254.169.254/"));
}
