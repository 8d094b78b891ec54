//! Profiles of the AWS command line that hold keys, read again whenever their files change.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use futures::future::BoxFuture;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

use super::CredentialsError;
use super::ini::{self, Section};
use crate::store::root::options::Options;

/// The profile that is used when none is asked for.
const DEFAULT: &str = "default";

/// Settings by which a profile gets its keys from somewhere else. `role_arn` goes before
/// keys that stand beside it, which are then those of the role it is assumed from; the
/// others come after keys, which tools that log in for somebody else leave beside them.
const BEFORE_KEYS: [&str; 1] = ["role_arn"];
const AFTER_KEYS: [&str; 6] = [
    "sso_session",
    "sso_start_url",
    "login_session",
    "credential_process",
    "credential_source",
    "web_identity_token_file",
];

/// Under these names login tools write down when the keys end.
const EXPIRY: [&str; 2] = ["expiration", "x_security_token_expires"];

/// A profile, and where it is read from.
#[derive(Debug)]
pub(super) struct Profile {
    name: String,
    /// Whether it was named, and not taken for want of a name.
    pub(super) is_asked_for: bool,
    credentials: PathBuf,
    config: PathBuf,
}

/// A pair of keys.
pub(super) struct Keys {
    credential: Arc<AwsCredential>,
    /// When they end, if it is written down.
    pub(super) expires: Option<String>,
}

impl Profile {
    /// The profile that `options` ask for; `None` when they say nothing and name no home.
    pub(super) fn of(options: &Options) -> Option<Self> {
        let home = options.get("home").or_else(|| options.get("userprofile"));
        let file = |setting: &str, below_home: &str| match (options.get(setting), home) {
            (Some(path), _) => Some(expanded(path, home)),
            (None, Some(home)) => Some(Path::new(home).join(below_home)),
            (None, None) => None,
        };
        let asked_for = options.get("aws_profile");
        Some(Self {
            name: asked_for.unwrap_or(DEFAULT).to_owned(),
            is_asked_for: asked_for.is_some(),
            credentials: file("aws_shared_credentials_file", ".aws/credentials")?,
            config: file("aws_config_file", ".aws/config")?,
        })
    }

    /// Its settings from both files; of a setting in both, that of the file of keys. None
    /// when there is no such profile.
    ///
    /// # Errors
    /// A file that is there and cannot be read.
    pub(super) fn read(&self) -> Result<Section, CredentialsError> {
        let mut config = sections(&self.config)?;
        let section = format!("profile {}", self.name);
        let mut settings = config.remove(&section).unwrap_or_default();
        if self.name == DEFAULT && settings.is_empty() {
            settings = config.remove(DEFAULT).unwrap_or_default();
        }
        settings.extend(
            sections(&self.credentials)?
                .remove(&self.name)
                .unwrap_or_default(),
        );
        settings.retain(|_, value| !value.is_empty());
        Ok(settings)
    }

    /// The keys among its `settings`; `None` when they say nothing of any.
    ///
    /// # Errors
    /// Half a pair of keys, or keys to be had in a way that is not done here.
    pub(super) fn keys(&self, settings: &Section) -> Result<Option<Keys>, CredentialsError> {
        let profile = || self.name.clone();
        let refused = |names: &[&'static str]| {
            let setting = *names.iter().find(|name| settings.contains_key(**name))?;
            Some(CredentialsError::UnsupportedProfile {
                profile: profile(),
                setting,
            })
        };
        if let Some(refused) = refused(&BEFORE_KEYS) {
            return Err(refused);
        }
        let own = |name: &str| settings.get(name).cloned();
        let missing = match (own("aws_access_key_id"), own("aws_secret_access_key")) {
            (Some(key_id), Some(secret_key)) => {
                let token = own("aws_session_token");
                return Ok(Some(Keys {
                    credential: Arc::new(AwsCredential {
                        key_id,
                        secret_key,
                        token,
                    }),
                    expires: EXPIRY.iter().find_map(|name| own(name)),
                }));
            }
            (None, None) => return refused(&AFTER_KEYS).map_or(Ok(None), Err),
            (None, Some(_)) => "aws_access_key_id",
            (Some(_), None) => "aws_secret_access_key",
        };
        Err(CredentialsError::HalfAProfile {
            profile: profile(),
            missing,
        })
    }

    /// That there is no such profile.
    pub(super) fn absent(&self) -> CredentialsError {
        CredentialsError::NoProfile {
            profile: self.name.clone(),
            credentials: self.credentials.clone(),
            config: self.config.clone(),
        }
    }

    fn writings(&self) -> [Writing; 2] {
        [Writing::of(&self.credentials), Writing::of(&self.config)]
    }
}

/// `~/x` below home.
fn expanded(path: &str, home: Option<&str>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => Path::new(home).join(rest),
        _ => PathBuf::from(path),
    }
}

fn sections(path: &Path) -> Result<std::collections::BTreeMap<String, Section>, CredentialsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(ini::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Default::default()),
        Err(error) => Err(CredentialsError::Unreadable {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// Which writing of a file this is. The number is there because a file that is replaced
/// may have the size and, within a tick of the clock, the time of the one before.
#[derive(Debug, Default, PartialEq, Eq)]
struct Writing {
    modified: Option<SystemTime>,
    len: u64,
    number: u64,
}

impl Writing {
    fn of(path: &Path) -> Self {
        fs::metadata(path).map_or(Self::default(), |found| Self {
            modified: found.modified().ok(),
            len: found.len(),
            number: number_of(&found),
        })
    }
}

#[cfg(unix)]
fn number_of(file: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(file)
}

#[cfg(not(unix))]
fn number_of(_: &Metadata) -> u64 {
    0
}

/// Hands out the keys of a profile as they are at that moment.
pub(super) struct ProfileCredentials {
    profile: Profile,
    last: Mutex<Last>,
}

struct Last {
    writings: [Writing; 2],
    credential: Arc<AwsCredential>,
}

impl fmt::Debug for ProfileCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileCredentials({})", self.profile.name)
    }
}

impl ProfileCredentials {
    /// Begins with keys that were just read.
    pub(super) fn new(profile: Profile, keys: Keys) -> Self {
        let last = Last {
            // Not the writings as they are: one may have changed since it was read.
            writings: Default::default(),
            credential: keys.credential,
        };
        Self {
            profile,
            last: Mutex::new(last),
        }
    }

    /// Two looks at the metadata of a file, and no more unless one has changed.
    fn current(&self) -> Arc<AwsCredential> {
        // What is in there is whole after every change.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let writings = self.profile.writings();
        if writings == last.writings {
            return last.credential.clone();
        }
        let read = self.profile.read();
        match read.and_then(|settings| self.profile.keys(&settings)) {
            Ok(Some(keys)) => {
                if keys.credential != last.credential {
                    tracing::info!(profile = self.profile.name, "took up new keys");
                }
                *last = Last {
                    writings,
                    credential: keys.credential,
                };
            }
            // Whoever writes the file may be in the middle of it: look again next time.
            Ok(None) => tracing::debug!(profile = self.profile.name, "no keys there now"),
            Err(error) => tracing::debug!(%error, "no keys there now"),
        }
        last.credential.clone()
    }
}

impl CredentialProvider for ProfileCredentials {
    type Credential = AwsCredential;

    fn get_credential<'life0, 'async_trait>(
        &'life0 self,
    ) -> BoxFuture<'async_trait, object_store::Result<Arc<AwsCredential>>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async { Ok(self.current()) })
    }
}

#[cfg(test)]
mod tests;
