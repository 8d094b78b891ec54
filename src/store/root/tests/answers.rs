//! What the clouds really answer when they refuse: the kind it is, and what is said of it.

use super::*;

const S3: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKID"),
    ("AWS_SECRET_ACCESS_KEY", "hunter2"),
    ("AWS_SESSION_TOKEN", "hunter3"),
];
const GCS: [(&str, &str); 1] = [("GOOGLE_BEARER_TOKEN", "hunter2")];
const AZURE: [(&str, &str); 1] = [(
    "AZURE_STORAGE_SAS_TOKEN",
    "sv=2022-11-02&sp=rl&se=2030-01-01T00:00:00Z&sig=hunter2",
)];

/// One answer, as it is sent.
struct Sent {
    url: &'static str,
    status: &'static str,
    body: &'static str,
    kind: FaultKind,
    /// What the message says besides.
    says: &'static [&'static str],
}

const SENT: [Sent; 15] = [
    Sent {
        url: "s3://bucket/hive",
        status: "400 Bad Request",
        body: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message><Token-0>hunter3</Token-0><RequestId>1</RequestId></Error>",
        kind: FaultKind::ExpiredCredentials,
        says: &[
            "answered 400 Bad Request: ExpiredToken, The provided token has expired; renew the credentials",
        ],
    },
    Sent {
        url: "s3://bucket/hive",
        status: "403 Forbidden",
        body: "<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature we calculated does not match the signature you provided. Check your key and signing method.</Message><AWSAccessKeyId>AKID</AWSAccessKeyId><CanonicalRequest>GET\n/\n\nx-amz-security-token:hunter3</CanonicalRequest></Error>",
        kind: FaultKind::Denied,
        says: &[
            "SignatureDoesNotMatch",
            "the secret key does not belong to the key id",
        ],
    },
    Sent {
        url: "s3://bucket/hive",
        status: "403 Forbidden",
        body: "<Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you provided does not exist in our records.</Message></Error>",
        kind: FaultKind::Denied,
        says: &["InvalidAccessKeyId", "no such key id"],
    },
    Sent {
        url: "s3://bucket/hive",
        status: "403 Forbidden",
        body: "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference between the request time and the current time is too large.</Message><RequestTime>20260101T000000Z</RequestTime><ServerTime>2026-01-01T09:00:00Z</ServerTime><MaxAllowedSkewMilliseconds>900000</MaxAllowedSkewMilliseconds></Error>",
        kind: FaultKind::Denied,
        says: &[
            "time of the store 2026-01-01T09:00:00Z",
            "the clock of this machine is off",
        ],
    },
    Sent {
        url: "s3://bucket/hive",
        status: "403 Forbidden",
        body: "<Error><Code>AccessDenied</Code><Message>User: arn:aws:iam::1:user/x is not authorized</Message></Error>",
        kind: FaultKind::Denied,
        says: &[
            "answered 403 Forbidden: AccessDenied, User: arn:aws:iam::1:user/x is not authorized; grant",
        ],
    },
    Sent {
        url: "s3://bucket/hive",
        status: "404 Not Found",
        body: "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message><BucketName>bucket</BucketName></Error>",
        kind: FaultKind::NoBucket,
        says: &["there is no bucket or container `bucket`"],
    },
    Sent {
        url: "s3://bucket/hive",
        status: "400 Bad Request",
        body: "<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'</Message><Region>eu-west-1</Region></Error>",
        kind: FaultKind::Denied,
        says: &["set AWS_REGION=eu-west-1"],
    },
    Sent {
        url: "gs://bucket/hive",
        status: "401 Unauthorized",
        body: "{\"error\": {\"code\": 401, \"message\": \"Invalid Credentials\", \"errors\": [{\"domain\": \"global\", \"reason\": \"authError\"}]}}",
        kind: FaultKind::ExpiredCredentials,
        says: &["answered 401 Unauthorized: Invalid Credentials; renew"],
    },
    Sent {
        url: "gs://bucket/hive",
        status: "400 Bad Request",
        body: "{\"error\": \"invalid_grant\", \"error_description\": \"Token has been expired or revoked.\"}",
        kind: FaultKind::ExpiredCredentials,
        says: &["invalid_grant, Token has been expired or revoked; renew"],
    },
    Sent {
        url: "gs://bucket/hive",
        status: "403 Forbidden",
        body: "<?xml version='1.0' encoding='UTF-8'?><Error><Code>AccessDenied</Code><Message>Access denied.</Message><Details>x@y.iam.gserviceaccount.com does not have storage.objects access.</Details></Error>",
        kind: FaultKind::Denied,
        says: &[
            "x@y.iam.gserviceaccount.com does not have",
            "grant the credentials in use storage.objects.",
        ],
    },
    Sent {
        url: "gs://bucket/hive",
        status: "404 Not Found",
        body: "<?xml version='1.0' encoding='UTF-8'?><Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist.</Message></Error>",
        kind: FaultKind::NoBucket,
        says: &["there is no bucket or container `bucket`"],
    },
    Sent {
        url: "az://bucket/hive",
        status: "403 Forbidden",
        body: "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.\nRequestId:1\nTime:2030-01-01T00:00:01Z</Message><AuthenticationErrorDetail>Signature not valid in the specified time frame: Start [Tue, 01 Jan 2029 00:00:00 GMT] - Expiry [Tue, 01 Jan 2030 00:00:00 GMT] - Current [Tue, 01 Jan 2030 00:00:01 GMT]</AuthenticationErrorDetail></Error>",
        kind: FaultKind::ExpiredCredentials,
        says: &[
            "AuthenticationFailed",
            "Expiry [Tue, 01 Jan 2030 00:00:00 GMT]",
            "renew",
        ],
    },
    Sent {
        url: "az://bucket/hive",
        status: "401 Unauthorized",
        body: "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>InvalidAuthenticationInfo</Code><Message>Server failed to authenticate the request. Please refer to the information in the www-authenticate header.\nRequestId:1</Message><AuthenticationErrorDetail>Lifetime validation failed. The token is expired.</AuthenticationErrorDetail></Error>",
        kind: FaultKind::ExpiredCredentials,
        says: &["Lifetime validation failed", "renew"],
    },
    Sent {
        url: "az://bucket/hive",
        status: "401 Unauthorized",
        body: "{\"error\": {\"code\": \"ExpiredAuthenticationToken\", \"message\": \"The access token expiry UTC time is earlier than current UTC time.\"}}",
        kind: FaultKind::ExpiredCredentials,
        says: &["ExpiredAuthenticationToken", "renew"],
    },
    Sent {
        url: "az://bucket/hive",
        status: "404 Not Found",
        body: "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>ContainerNotFound</Code><Message>The specified container does not exist.\nRequestId:1</Message></Error>",
        kind: FaultKind::NoBucket,
        says: &["there is no bucket or container `bucket`"],
    },
];

#[tokio::test]
async fn a_real_answer_has_a_kind_a_line_and_a_cure() {
    let given: Vec<_> = S3.iter().chain(&GCS).chain(&AZURE).copied().collect();
    for Sent {
        url,
        status,
        body,
        kind,
        says,
    } in SENT
    {
        let server = Canned::serve(&[(status, body)]);
        let root = server.open(url, &given);
        let errors = [
            root.get("key").await.unwrap_err(),
            root.put("key", "x").await.unwrap_err(),
            root.list_keys("").await.unwrap_err(),
        ];
        assert_eq!(server.first_lines().len(), errors.len(), "{status} {body}");
        for error in errors {
            let message = error.to_string();
            assert_eq!(error.kind(), kind, "{message}");
            for says in says {
                assert!(message.contains(says), "`{says}` is not in `{message}`");
            }
            assert!(!message.contains('\n'), "{message}");
            for shown in [message, format!("{error:?}")] {
                assert!(!shown.contains("hunter"), "{shown}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_names_the_right_that_is_wanting() {
    let refused = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
    let given: Vec<_> = S3.iter().chain(&GCS).chain(&AZURE).copied().collect();
    for (url, [reads, writes, deletes, lists]) in [
        (
            "s3://b/x",
            [
                "s3:GetObject",
                "s3:PutObject",
                "s3:DeleteObject",
                "s3:ListBucket",
            ],
        ),
        (
            "gs://b/x",
            [
                "objects.get",
                "objects.create",
                "storage.objects.delete",
                "storage.objects.list",
            ],
        ),
        (
            "az://b/x",
            [
                "Reader",
                "permissions c and w",
                "permission d",
                "permission l",
            ],
        ),
    ] {
        let server = Canned::serve(&[("403 Forbidden", refused)]);
        let root = server.open(url, &given);
        for (error, right) in [
            (root.get("k").await.unwrap_err(), reads),
            (root.put("k", "x").await.unwrap_err(), writes),
            (root.create("k", "x").await.unwrap_err(), writes),
            (root.delete("k").await.unwrap_err(), deletes),
            (root.list_keys("").await.unwrap_err(), lists),
        ] {
            let message = error.to_string();
            assert_eq!(error.kind(), FaultKind::Denied, "{message}");
            assert!(message.contains(right), "{message}");
        }
    }
}

#[tokio::test]
async fn a_store_without_conditional_writes_is_told_from_one_without_rights() {
    let body = "<Error><Code>NotImplemented</Code><Message>A header you provided implies functionality that is not implemented</Message></Error>";
    let server = Canned::serve(&[("501 Not Implemented", body)]);
    let root = server.s3();
    let created = root.create("k", "x").await.unwrap_err();
    assert_eq!(created.kind(), FaultKind::WriteRefused);
    let message = created.to_string();
    assert!(message.contains("no conditional writes"), "{message}");
    let written = root.put("k", "x").await.unwrap_err().to_string();
    assert!(!written.contains("no conditional writes"), "{written}");
}

#[tokio::test]
async fn a_store_that_cannot_be_reached_says_what_broke() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let gone = Canned {
        port,
        requests: Arc::default(),
    };
    let message = gone.s3().get("key").await.unwrap_err().to_string();
    assert!(message.contains("onnection refused"), "{message}");
    assert!(message.contains(&gone.url()), "{message}");
}

#[test]
fn a_disk_that_refuses_says_as_whom_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path().to_str().unwrap()).unwrap();
    for (op, says) in [
        (Op::Read, "may read there"),
        (Op::Create, "may write there"),
    ] {
        let refused = object_store::Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(std::io::Error::from(std::io::ErrorKind::PermissionDenied)),
        };
        let message = root.error(op, "key", refused).to_string();
        assert!(
            message.contains("permission denied; run as a user who"),
            "{message}"
        );
        assert!(message.ends_with(says), "{message}");
    }
}
