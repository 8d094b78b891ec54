//! Credentials of Google and Azure, by the requests that are made with them.

use super::credentials::last_request;
use super::*;

#[tokio::test]
async fn google_takes_a_token_or_a_file() {
    let server = Canned::serve(&[("200 OK", "x")]);
    let request = last_request(&server, "gs://bucket/x", &[("GOOGLE_BEARER_TOKEN", "mine")]).await;
    assert!(
        request.contains("authorization: Bearer mine\r\n"),
        "{request}"
    );
    // A key of a service account is exchanged for a token at Google; one that says not to
    // shows that the file was read.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key.json");
    let key = format!(
        "{{\"private_key\": \"hunter2\", \"private_key_id\": \"i\", \"client_email\": \"e\", \"disable_oauth\": true, \"gcs_base_url\": \"{}\"}}",
        server.url()
    );
    std::fs::write(&file, &key).unwrap();
    let file = file.to_str().unwrap();
    for (name, value) in [
        ("GOOGLE_SERVICE_ACCOUNT", file),
        ("GOOGLE_SERVICE_ACCOUNT_PATH", file),
        ("SERVICE_ACCOUNT", file),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", &key),
    ] {
        let root = Root::open_with("gs://bucket/x", options(&[(name, value)])).unwrap();
        assert_eq!(root.get("key").await.unwrap(), "x", "{name}");
    }
    for name in ["GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT"] {
        let given = options(&[(name, "/nowhere/key.json")]);
        let error = Root::open_with("gs://bucket/x", given).unwrap_err();
        assert!(error.to_string().contains("GOOGLE_…"), "{error}");
    }
    let broken = options(&[(
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "{\"private_key\": \"hunter2\"}",
    )]);
    let error = Root::open_with("gs://bucket/x", broken).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[tokio::test]
async fn azure_takes_keys_signed_addresses_tokens_and_identities() {
    let token = "{\"access_token\": \"issued\", \"expires_in\": 3600, \"expires_on\": \"4070908800\", \"token_type\": \"Bearer\"}";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "federated").unwrap();
    let host = Canned::serve(&[("200 OK", token)]);
    let (authority, file) = (host.url(), file.to_str().unwrap());
    let tenant = ("AZURE_TENANT_ID", "tenant");
    let client = ("AZURE_CLIENT_ID", "client");
    let at = ("AZURE_AUTHORITY_HOST", authority.as_str());
    for (given, shows, asked) in [
        (
            vec![("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==")],
            "authorization: SharedKey account:",
            None,
        ),
        (
            vec![("AZURE_STORAGE_KEY", "aHVudGVyMg==")],
            "authorization: SharedKey account:",
            None,
        ),
        (
            vec![("AZURE_STORAGE_ACCESS_KEY", "aHVudGVyMg==")],
            "authorization: SharedKey account:",
            None,
        ),
        (
            vec![("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=mine")],
            "sig=mine",
            None,
        ),
        (
            vec![("AZURE_STORAGE_SAS_KEY", "sv=1&sig=mine")],
            "sig=mine",
            None,
        ),
        (
            vec![("AZURE_STORAGE_TOKEN", "mine")],
            "authorization: Bearer mine\r\n",
            None,
        ),
        (
            vec![client, tenant, at, ("AZURE_CLIENT_SECRET", "hunter2")],
            "authorization: Bearer issued\r\n",
            Some("POST /tenant/oauth2/v2.0/token "),
        ),
        (
            vec![client, tenant, at, ("AZURE_FEDERATED_TOKEN_FILE", file)],
            "authorization: Bearer issued\r\n",
            Some("POST /tenant/oauth2/v2.0/token "),
        ),
        (
            vec![("IDENTITY_ENDPOINT", authority.as_str())],
            "authorization: Bearer issued\r\n",
            Some("GET /?"),
        ),
    ] {
        let server = Canned::serve(&[("200 OK", "x")]);
        let request = last_request(&server, "az://bucket/x", &given).await;
        assert!(request.contains(shows), "{given:?}: {request}");
        if let Some(asked) = asked {
            let last = host.heads().pop().unwrap();
            assert!(last.starts_with(asked), "{last}");
        }
    }
}
