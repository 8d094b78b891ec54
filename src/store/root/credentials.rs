//! Where the keys for an S3 bucket come from, when they do not stand in the settings.
//!
//! The client library knows keys in the settings, web identity, the containers of ECS and
//! EKS, and the instance role, and renews what it got from the last four by itself. What
//! it does not know is here: the profiles of the AWS command line, and containers that are
//! given their authorisation in the environment. The order is that of the AWS programs:
//! keys, profile, web identity, container, instance.

use std::path::PathBuf;
use std::sync::Arc;

use object_store::aws::AwsCredentialProvider;

use self::container::ContainerCredentials;
use self::profile::{Profile, ProfileCredentials};
use super::options::Options;
use crate::error::FaultKind;

mod container;
mod ini;
mod profile;

/// Why there are no credentials. No message holds one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A profile that was asked for is nowhere.
    #[error(
        "profile `{profile}` is in neither `{}` nor `{}`; `aws configure list-profiles` lists those there are",
        credentials.display(), config.display()
    )]
    NoProfile {
        /// Its name.
        profile: String,
        /// The file of keys.
        credentials: PathBuf,
        /// The file of settings.
        config: PathBuf,
    },
    /// A profile gets its keys in a way that is left to the AWS command line.
    #[error(
        "profile `{profile}` gets its keys by `{setting}`, which is left to the AWS command line; run \
         `eval \"$(aws configure export-credentials --profile {profile} --format env)\"` and then this command again"
    )]
    UnsupportedProfile {
        /// Its name.
        profile: String,
        /// The setting that says so.
        setting: &'static str,
    },
    /// A profile has one half of a pair of keys.
    #[error(
        "profile `{profile}` lacks `{missing}`; set it with `aws configure --profile {profile}`"
    )]
    HalfAProfile {
        /// Its name.
        profile: String,
        /// The setting that is not there.
        missing: &'static str,
    },
    /// A file of profiles is there and cannot be read.
    #[error("`{}` cannot be read: {reason}; run as a user who may read it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The address of a container's credentials is not one that keys may be asked of.
    #[error(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI is `{uri}`, and keys are fetched over https only, or from this machine or the container host; correct it"
    )]
    UntrustedContainer {
        /// The address.
        uri: String,
    },
    /// The container's host gave no keys.
    #[error(
        "no keys from `{uri}`: {reason}; see to AWS_CONTAINER_CREDENTIALS_FULL_URI and AWS_CONTAINER_AUTHORIZATION_TOKEN"
    )]
    Container {
        /// The address.
        uri: String,
        /// What it answered.
        reason: String,
        /// Whether it may answer otherwise a moment later.
        passing: bool,
    },
}

impl CredentialsError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Container { passing: true, .. } => FaultKind::Unavailable,
            _ => FaultKind::Denied,
        }
    }
}

/// What the settings leave open about an S3 bucket.
#[derive(Default)]
pub(super) struct FromElsewhere {
    /// Who hands out keys; `None` leaves it to the client library.
    pub(super) provider: Option<AwsCredentialProvider>,
    /// The region of the profile.
    pub(super) region: Option<String>,
    /// The endpoint of the profile.
    pub(super) endpoint: Option<String>,
}

/// What the profile and the container say beyond `options`.
///
/// # Errors
/// When a profile is to be used and cannot be.
pub(super) fn aws(options: &Options) -> Result<FromElsewhere, CredentialsError> {
    let mut found = FromElsewhere::default();
    let has_keys = options.has_any(&["aws_access_key_id", "aws_secret_access_key"]);
    let needs_keys = !has_keys && !options.is_true("aws_skip_signature");
    if let Some(profile) = Profile::of(options) {
        let settings = match profile.read() {
            Err(error) if needs_keys => return Err(error),
            read => read.unwrap_or_default(),
        };
        if settings.is_empty() && profile.is_asked_for && needs_keys {
            return Err(profile.absent());
        }
        if needs_keys && let Some(keys) = profile.keys(&settings)? {
            found.provider = Some(Arc::new(ProfileCredentials::new(profile, keys)));
        }
        found.region = settings.get("region").cloned();
        found.endpoint = settings.get("endpoint_url").cloned();
    }
    if needs_keys && found.provider.is_none() {
        found.provider = container::of(options)?
            .map(|container: ContainerCredentials| Arc::new(container) as AwsCredentialProvider);
    }
    Ok(found)
}

/// When the keys in use end, as whoever made them wrote it down; most do not.
pub(super) fn aws_expiry(options: &Options) -> Option<String> {
    if options.has_any(&["aws_access_key_id"]) {
        return options.get("aws_credential_expiration").map(str::to_owned);
    }
    let profile = Profile::of(options)?;
    profile.keys(&profile.read().ok()?).ok()??.expires
}

/// When the SAS token in use ends: that stands in it.
pub(super) fn sas_expiry(options: &Options) -> Option<String> {
    let names = ["azure_storage_sas_token", "azure_storage_sas_key"];
    let token = names.iter().find_map(|name| options.get(name))?;
    let mut pairs = url::form_urlencoded::parse(token.trim_start_matches('?').as_bytes());
    pairs.find_map(|(name, value)| (name == "se").then(|| value.into_owned()))
}
