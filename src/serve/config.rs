//! The configuration of the service.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::ServeError;
use crate::settings::{Settings, parse_size};

/// Every key with its default; the file an operator copies from.
const DEFAULTS: &str = include_str!("../../config/serve.toml");

/// Seconds that open connections have to end when the service stops; their runs have ended
/// by then.
pub(super) const SHUTDOWN_S: u64 = 5;

/// The least length of a token that cannot be guessed.
const LEAST_TOKEN: usize = 16;

/// How the service works.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub roots: Vec<String>,
    pub state_dir: PathBuf,
    pub token_file: Option<PathBuf>,
    /// What every run starts from.
    pub settings: Settings,
    pub max_running: usize,
    pub max_queued: usize,
    pub max_body: usize,
    pub kept_events: usize,
    pub kept_runs: usize,
    pub drain_s: u64,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is not TOML of that shape.
    #[error("`{path}` cannot be used: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    roots: Option<Vec<String>>,
    state_dir: Option<PathBuf>,
    token_file: Option<PathBuf>,
    settings: Option<PathBuf>,
    max_running: Option<usize>,
    max_queued: Option<usize>,
    max_body: Option<String>,
    kept_events: Option<usize>,
    kept_runs: Option<usize>,
    drain_s: Option<u64>,
}

impl Config {
    /// The configuration in a file.
    ///
    /// # Errors
    /// When it cannot be read or used.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read(path)?;
        let content = |reason: String| ConfigError::Content {
            path: path.to_owned(),
            reason,
        };
        let file: ConfigFile = toml::from_str(&text).map_err(|error| content(error.to_string()))?;
        let defaults: ConfigFile =
            toml::from_str(DEFAULTS).map_err(|error| content(error.to_string()))?;
        let settings = match &file.settings {
            Some(path) => {
                let settings = Settings::from_toml(&read(path)?);
                settings
                    .map_err(|error| content(format!("settings `{}`: {error}", path.display())))?
            }
            None => Settings::default(),
        };
        macro_rules! pick {
            ($key:ident) => {
                file.$key.or(defaults.$key).ok_or_else(|| {
                    content(concat!("`", stringify!($key), "` is missing").to_owned())
                })?
            };
        }
        let at_least_one = |key: &str, value: usize| match value {
            0 => Err(content(format!("`{key}` must be at least 1"))),
            value => Ok(value),
        };
        let max_body = pick!(max_body);
        let max_body = parse_size(&max_body)
            .and_then(|size| usize::try_from(size).ok())
            .ok_or_else(|| content(format!("`max_body` is `{max_body}`, which is no size")))?;
        Ok(Self {
            roots: pick!(roots),
            state_dir: pick!(state_dir),
            token_file: file.token_file,
            settings,
            max_running: at_least_one("max_running", pick!(max_running))?,
            max_queued: pick!(max_queued),
            max_body,
            kept_events: at_least_one("kept_events", pick!(kept_events))?,
            kept_runs: pick!(kept_runs),
            drain_s: pick!(drain_s),
        })
    }

    /// The token that requests must bear, if one is configured.
    ///
    /// # Errors
    /// When its file holds none.
    pub(super) fn token(&self) -> Result<Option<String>, ServeError> {
        let Some(path) = &self.token_file else {
            return Ok(None);
        };
        let unusable = |reason: String| ServeError::Token {
            path: path.clone(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let token = text.trim();
        if token.len() < LEAST_TOKEN || token.contains(char::is_whitespace) {
            return Err(unusable(format!(
                "it does not hold one word of {LEAST_TOKEN} characters or more"
            )));
        }
        Ok(Some(token.to_owned()))
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path())
    }

    #[test]
    fn a_file_replaces_what_it_names() {
        let config = config("roots = [\"/data\"]\nmax_queued = 0").unwrap();
        assert_eq!((config.max_running, config.max_queued), (1, 0));
        assert_eq!(config.max_body, 256 << 10);
        assert!(config.token().unwrap().is_none());
    }

    #[test]
    fn refusals_name_the_key() {
        for (text, named) in [
            ("max_running = 0", "max_running"),
            ("max_body = \"lots\"", "max_body"),
            ("port = 80", "port"),
            ("settings = \"/nowhere\"", "/nowhere"),
        ] {
            let error = config(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_token_is_one_long_word() {
        let token = tempfile::NamedTempFile::new().unwrap();
        let config = config(&format!("token_file = {:?}", token.path())).unwrap();
        for (text, is_one) in [
            ("", false),
            ("short\n", false),
            ("two words of some length", false),
            ("0123456789abcdef0123\n", true),
        ] {
            std::fs::write(token.path(), text).unwrap();
            assert_eq!(config.token().is_ok(), is_one, "{text:?}");
        }
    }
}
