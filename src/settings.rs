//! Settings: what a file says, what the program uses, and the one step between.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernels::plan::FoldLaw;
use crate::store::retry::RetryPolicy;

/// Every knob with its default; the file an operator copies from.
const DEFAULTS: &str = include_str!("../config/default.toml");

/// The most slots a stage can have: more are no bound at all.
pub(crate) const MAX_SLOTS: usize = tokio::sync::Semaphore::MAX_PERMITS;

/// How a pass works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settings {
    /// Which cells the groups of a column fold from.
    pub fold_law: FoldLaw,
    /// Leaves in the pipeline at once.
    pub max_in_flight: usize,
    /// Leaves read and folded at once.
    pub max_folds: usize,
    /// Columns written at once.
    pub max_writers: usize,
    /// Requests under way at once.
    pub max_requests: usize,
    /// Bytes of leaves in flight over all folds.
    pub memory_budget: u64,
    /// Encoded bytes fetched ahead for one fold.
    pub read_window: u64,
    /// Store-wide faults in a row that stop the pass.
    pub abort_after: u32,
    /// Time until the lease expires when it is not beaten.
    pub lease_ttl: Duration,
    /// How failed requests are tried again.
    pub retry: RetryPolicy,
    /// Whether columns are written whether they are current or not.
    pub force: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// At most this many columns are written.
    pub max_leaves: Option<u64>,
    /// Orders of the ladder worked on between two barriers.
    pub tuple_width: u8,
    /// Whether a ladder is built although columns are outstanding.
    pub allow_gaps: bool,
    /// Only these shards, by decimal id; empty means all.
    pub shards: Vec<String>,
}

/// What is wrong with a settings file or a flag, naming the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The text is not TOML, or has an unknown key or a value of another type.
    #[error("not usable: {0}")]
    Toml(#[from] toml::de::Error),
    /// A size cannot be read.
    #[error(
        "`{key}` is {value:?}, which is no size: write a whole number with B, KiB, MiB or GiB, such as \"512 MiB\""
    )]
    Size {
        /// The setting.
        key: &'static str,
        /// What it says.
        value: String,
    },
    /// A number is out of range.
    #[error("`{key}` must be at least 1")]
    Zero {
        /// The setting.
        key: &'static str,
    },
}

/// What a settings file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    fold_law: Option<FoldLaw>,
    max_in_flight: Option<usize>,
    max_folds: Option<usize>,
    max_writers: Option<usize>,
    max_requests: Option<usize>,
    memory_budget: Option<String>,
    read_window: Option<String>,
    abort_after: Option<u32>,
    lease_ttl_s: Option<u64>,
    tuple_width: Option<u8>,
    #[serde(default)]
    retry: RetryFile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryFile {
    max_attempts: Option<u32>,
    initial_delay_ms: Option<u64>,
    max_delay_ms: Option<u64>,
    max_total_s: Option<u64>,
}

impl Settings {
    /// The defaults of `config/default.toml`, with what `file` says over them.
    ///
    /// # Errors
    /// When the file is not TOML of that shape, or a value is unusable.
    pub fn from_toml(file: &str) -> Result<Self, SettingsError> {
        let defaults: SettingsFile = toml::from_str(DEFAULTS)?;
        let file: SettingsFile = toml::from_str(file)?;
        Self::resolve(file, defaults)
    }

    fn resolve(file: SettingsFile, defaults: SettingsFile) -> Result<Self, SettingsError> {
        macro_rules! pick {
            ($($key:ident).+) => {
                file.$($key).+.or(defaults.$($key).+).unwrap_or_default()
            };
        }
        let size =
            |key, text: String| parse_size(&text).ok_or(SettingsError::Size { key, value: text });
        Ok(Self {
            fold_law: pick!(fold_law),
            max_in_flight: at_least_one("max_in_flight", pick!(max_in_flight))?.min(MAX_SLOTS),
            max_folds: at_least_one("max_folds", pick!(max_folds))?.min(MAX_SLOTS),
            max_writers: at_least_one("max_writers", pick!(max_writers))?.min(MAX_SLOTS),
            max_requests: at_least_one("max_requests", pick!(max_requests))?.min(MAX_SLOTS),
            memory_budget: size("memory_budget", pick!(memory_budget))?,
            read_window: size("read_window", pick!(read_window))?,
            abort_after: at_least_one("abort_after", pick!(abort_after))?,
            lease_ttl: Duration::from_secs(at_least_one("lease_ttl_s", pick!(lease_ttl_s))?),
            retry: RetryPolicy {
                max_attempts: at_least_one("retry.max_attempts", pick!(retry.max_attempts))?,
                initial_delay: Duration::from_millis(pick!(retry.initial_delay_ms)),
                max_delay: Duration::from_millis(pick!(retry.max_delay_ms)),
                max_total: Duration::from_secs(pick!(retry.max_total_s)),
            },
            force: false,
            dry_run: false,
            max_leaves: None,
            tuple_width: at_least_one("tuple_width", pick!(tuple_width))?,
            allow_gaps: false,
            shards: Vec::new(),
        })
    }
}

impl Default for Settings {
    fn default() -> Self {
        // The shipped file is tested to resolve; an empty one has nothing to refuse.
        match Self::from_toml("") {
            Ok(settings) => settings,
            Err(_) => unreachable!("config/default.toml is part of the program"),
        }
    }
}

fn at_least_one<N: PartialEq + Default>(key: &'static str, value: N) -> Result<N, SettingsError> {
    if value == N::default() {
        return Err(SettingsError::Zero { key });
    }
    Ok(value)
}

/// Reads a size such as `512 MiB`; a bare number is bytes.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let factor: u64 = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_defaults_resolve() {
        let settings = Settings::default();
        assert_eq!(settings.memory_budget, 512 << 20);
        assert_eq!(settings.lease_ttl, Duration::from_secs(900));
    }

    #[test]
    fn a_file_replaces_only_what_it_names() {
        let settings =
            Settings::from_toml("fold_law = \"raw\"\n[retry]\nmax_attempts = 2").unwrap();
        assert_eq!(settings.fold_law, FoldLaw::Raw);
        assert_eq!(settings.retry.max_attempts, 2);
        assert_eq!(settings.retry.max_delay, Duration::from_secs(15));
    }

    #[test]
    fn refusals_name_the_key() {
        for (file, key) in [
            ("memory_budget = \"lots\"", "memory_budget"),
            ("max_writers = 0", "max_writers"),
            ("max_flight = 3", "max_flight"),
            ("fold_law = \"both\"", "fold_law"),
        ] {
            let error = Settings::from_toml(file).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse_size("8 MiB"), Some(8 << 20));
        assert_eq!(parse_size("2G"), Some(2 << 30));
        assert_eq!(parse_size("17"), Some(17));
        assert_eq!(parse_size("1.5 GiB"), None);
        assert_eq!(parse_size("99999999999 GiB"), None);
    }
}
