//! Builds the clients of the clouds, and knows what a root was built from.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::RootError;
use super::credentials;
use super::local::Disk;
use super::options::Options;

/// Longest wait for one whole request; a large shard object over a slow line needs minutes.
const REQUEST_TIMEOUT: &str = "300 seconds";

/// Longest wait for the next byte, so that a dead connection is seen long before that.
const READ_TIMEOUT: &str = "30 seconds";

/// What a client was built from, so that a second one can be.
#[derive(Clone)]
pub(super) enum Origin {
    Local {
        /// The path as it was given.
        path: PathBuf,
        disk: Disk,
    },
    Remote(Remote),
    Given,
}

#[derive(Clone)]
pub(super) struct Remote {
    pub(super) scheme: Scheme,
    /// The address without the base path: `s3://bucket`, `https://host`.
    pub(super) address: String,
    pub(super) options: Arc<Options>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    S3,
    Gcs,
    Azure,
    Http,
}

impl Origin {
    /// Whether it is a plain web server.
    pub(super) fn is_http(&self) -> bool {
        matches!(self, Self::Remote(remote) if remote.scheme == Scheme::Http)
    }

    /// The disk, when it is a local directory.
    pub(super) fn disk(&self) -> Option<&Disk> {
        match self {
            Self::Local { disk, .. } => Some(disk),
            Self::Remote(_) | Self::Given => None,
        }
    }

    /// Whether a listing comes in the order of the keys, so that it can go on after one.
    pub(super) fn lists_in_order(&self) -> bool {
        matches!(self, Self::Remote(remote) if remote.scheme != Scheme::Http)
    }

    /// When the credentials in use end, if that is known.
    pub(super) fn credentials_end(&self) -> Option<String> {
        let Self::Remote(remote) = self else {
            return None;
        };
        match remote.scheme {
            Scheme::S3 => credentials::aws_expiry(&remote.options),
            Scheme::Azure => credentials::sas_expiry(&remote.options),
            Scheme::Gcs | Scheme::Http => None,
        }
    }
}

impl Remote {
    /// A client of its own. `url` is what messages call the root.
    ///
    /// # Errors
    /// Settings that cannot be used, or a profile that cannot.
    pub(super) fn connect(&self, url: &str) -> Result<Arc<dyn ObjectStore>, RootError> {
        let found = match self.scheme {
            Scheme::S3 => credentials::aws(&self.options),
            Scheme::Gcs | Scheme::Azure | Scheme::Http => Ok(Default::default()),
        };
        let found = found.map_err(|source| RootError::Credentials {
            url: url.to_owned(),
            source,
        })?;
        self.build(found).map_err(|error| RootError::Client {
            url: url.to_owned(),
            reason: error.to_string(),
            settings: self.scheme.settings(),
        })
    }

    fn build(
        &self,
        found: credentials::FromElsewhere,
    ) -> Result<Arc<dyn ObjectStore>, object_store::Error> {
        let retry = RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        };
        let client = self.client(found.endpoint.as_deref());

        macro_rules! build {
            ($builder:expr, $prefix:literal) => {{
                let mut builder = $builder.with_url(&self.address).with_retry(retry);
                let given = self.options.with_prefix($prefix);
                for (key, value) in client.iter().copied().chain(given) {
                    if let Ok(key) = key.parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                Ok(Arc::new(builder.build()?))
            }};
        }
        match self.scheme {
            Scheme::S3 => build!(self.s3(found), "aws_"),
            Scheme::Gcs => build!(GoogleCloudStorageBuilder::new(), "google_"),
            Scheme::Azure => build!(MicrosoftAzureBuilder::new(), "azure_"),
            Scheme::Http => {
                let mut options = ClientOptions::new();
                for (key, value) in client.into_iter().chain([("allow_http", "true")]) {
                    options = options.with_config(key.parse()?, value);
                }
                let builder = HttpBuilder::new()
                    .with_url(&self.address)
                    .with_retry(retry)
                    .with_client_options(options);
                Ok(Arc::new(builder.build()?))
            }
        }
    }

    /// What every client is told.
    fn client(&self, endpoint: Option<&str>) -> Vec<(&'static str, &'static str)> {
        let mut client = vec![("timeout", REQUEST_TIMEOUT), ("read_timeout", READ_TIMEOUT)];
        // An endpoint that was written with http:// is meant.
        let endpoints = ["aws_", "google_", "azure_"]
            .into_iter()
            .flat_map(|prefix| self.options.with_prefix(prefix))
            .filter_map(|(key, value)| key.contains("endpoint").then_some(value));
        if endpoints
            .chain(endpoint)
            .any(|value| value.starts_with("http://"))
        {
            client.push(("allow_http", "true"));
        }
        client
    }

    /// What the profile says holds where the settings are silent.
    fn s3(&self, found: credentials::FromElsewhere) -> AmazonS3Builder {
        let mut builder = AmazonS3Builder::new();
        if let Some(provider) = found.provider {
            builder = builder.with_credentials(provider);
        }
        let regions = ["aws_region", "aws_default_region"];
        if let Some(region) = found.region.filter(|_| !self.options.has_any(&regions)) {
            builder = builder.with_region(region);
        }
        let endpoints = ["aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3"];
        if let Some(endpoint) = found.endpoint.filter(|_| !self.options.has_any(&endpoints)) {
            builder = builder.with_endpoint(endpoint);
        }
        builder
    }
}

impl Scheme {
    /// The settings a client of it goes by.
    fn settings(self) -> &'static str {
        match self {
            Self::S3 => "AWS_…",
            Self::Gcs => "GOOGLE_…",
            Self::Azure => "AZURE_…",
            Self::Http => "proxy",
        }
    }
}
