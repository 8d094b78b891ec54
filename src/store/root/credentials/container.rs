//! Keys from the host of a container that is given its authorisation in the environment,
//! or needs none.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use object_store::aws::AwsCredential;
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::{ClientOptions, CredentialProvider};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::{Host, Url};

use super::CredentialsError;
use crate::store::root::options::Options;
use crate::time::parse_iso;

/// Keys that end sooner than this are renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(300);

/// Keys that end so soon that they are always due are still not asked for more often.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// The host is the machine itself or next to it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where ECS and EKS have their hosts.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];

/// Settings that go before this source, or that the client library handles.
const LEFT_TO_OTHERS: [&str; 2] = [
    "aws_container_credentials_relative_uri",
    "aws_container_authorization_token_file",
];

/// The container's credentials, when `options` describe some that the client library does
/// not know.
///
/// # Errors
/// [`CredentialsError::UntrustedContainer`].
pub(super) fn of(options: &Options) -> Result<Option<ContainerCredentials>, CredentialsError> {
    let web_identity =
        options.has_any(&["aws_web_identity_token_file"]) && options.has_any(&["aws_role_arn"]);
    let uri = match options.get("aws_container_credentials_full_uri") {
        Some(uri) if !web_identity && !options.has_any(&LEFT_TO_OTHERS) => uri,
        _ => return Ok(None),
    };
    let untrusted = || CredentialsError::UntrustedContainer {
        uri: uri.to_owned(),
    };
    if !Url::parse(uri).is_ok_and(|url| is_trusted(&url)) {
        return Err(untrusted());
    }
    let client_options = ClientOptions::new()
        .with_allow_http(true)
        .with_timeout(TIMEOUT);
    let client = ReqwestConnector::default().connect(&client_options);
    Ok(Some(ContainerCredentials {
        uri: uri.to_owned(),
        token: options
            .get("aws_container_authorization_token")
            .map(str::to_owned),
        client: client.map_err(|error| CredentialsError::Container {
            uri: uri.to_owned(),
            reason: error.to_string(),
            passing: false,
        })?,
        held: Mutex::default(),
    }))
}

fn is_trusted(url: &Url) -> bool {
    let is_near = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_a_container_host = url
        .host_str()
        .is_some_and(|host| CONTAINER_HOSTS.contains(&host));
    url.scheme() == "https" || url.scheme() == "http" && (is_near || is_a_container_host)
}

/// Hands out the container's keys, and renews them before they end.
pub(super) struct ContainerCredentials {
    uri: String,
    token: Option<String>,
    client: HttpClient,
    held: Mutex<Option<Held>>,
}

struct Held {
    credential: Arc<AwsCredential>,
    /// Since 1970.
    expires: Option<Duration>,
    fetched: Instant,
}

impl Held {
    /// How long they are still good for.
    fn left(&self) -> Duration {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.expires
            .map_or(Duration::MAX, |end| end.saturating_sub(now))
    }

    fn is_due(&self) -> bool {
        let left = self.left();
        left.is_zero() || left < RENEW_BEFORE && self.fetched.elapsed() >= RENEW_EVERY
    }
}

/// What the host answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl fmt::Debug for ContainerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContainerCredentials({})", self.uri)
    }
}

impl ContainerCredentials {
    async fn current(&self) -> Result<Arc<AwsCredential>, CredentialsError> {
        // Whoever comes while keys are being renewed waits for them, instead of asking too.
        let mut held = self.held.lock().await;
        let before = match &*held {
            Some(held) if !held.is_due() => return Ok(held.credential.clone()),
            before => before.as_ref(),
        };
        match self.fetch().await {
            Ok(fetched) => Ok(held.insert(fetched).credential.clone()),
            Err(error) => match before {
                Some(before) if !before.left().is_zero() => {
                    tracing::warn!(%error, "keys could not be renewed, going on with those at hand");
                    Ok(before.credential.clone())
                }
                _ => Err(error),
            },
        }
    }

    async fn fetch(&self) -> Result<Held, CredentialsError> {
        let failed = |reason: String, passing: bool| CredentialsError::Container {
            uri: self.uri.clone(),
            reason,
            passing,
        };
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() =
            (self.uri.parse()).map_err(|_| failed("not a URI".to_owned(), false))?;
        if let Some(token) = &self.token {
            let value = token.trim().parse();
            let value = value.map_err(|_| failed("not a token".to_owned(), false))?;
            request.headers_mut().insert("authorization", value);
        }
        let answer = self.client.execute(request).await;
        let answer = answer.map_err(|error| failed(error.to_string(), true))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(failed(
                format!("it answered {status}"),
                status.is_server_error(),
            ));
        }
        let body = answer.into_body().bytes().await;
        let body = body.map_err(|error| failed(error.to_string(), true))?;
        // What is wrong with it may quote it.
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|_| failed("its answer holds no keys".to_owned(), false))?;
        let expires = answer.expiration.as_deref().map(|text| {
            let seconds = parse_iso(text).and_then(|seconds| u64::try_from(seconds).ok());
            Duration::from_secs(seconds.unwrap_or_default())
        });
        Ok(Held {
            credential: Arc::new(AwsCredential {
                key_id: answer.access_key_id,
                secret_key: answer.secret_access_key,
                token: answer.token,
            }),
            expires,
            fetched: Instant::now(),
        })
    }
}

impl CredentialProvider for ContainerCredentials {
    type Credential = AwsCredential;

    fn get_credential<'life0, 'async_trait>(
        &'life0 self,
    ) -> BoxFuture<'async_trait, object_store::Result<Arc<AwsCredential>>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async {
            self.current()
                .await
                .map_err(|error| object_store::Error::Generic {
                    store: "container credentials",
                    source: Box::new(error),
                })
        })
    }
}
