//! The settings a caller hands in with an address, most often its environment.

use std::collections::BTreeMap;

/// Names that other programs know, and what the client library calls them.
const ALIASES: [(&str, &str); 4] = [
    ("azure_storage_account", "azure_storage_account_name"),
    ("azure_storage_key", "azure_storage_account_key"),
    ("identity_endpoint", "azure_msi_endpoint"),
    ("service_account", "google_service_account"),
];

/// Settings by their names in lower case. One that is empty counts as not given, as in the
/// clouds' own programs.
#[derive(Default)]
pub(super) struct Options(BTreeMap<String, String>);

impl Options {
    pub(super) fn new(given: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut options: BTreeMap<_, _> = given
            .into_iter()
            .filter(|(_, value)| !value.trim().is_empty())
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        for (alias, name) in ALIASES {
            if let Some(value) = options.remove(alias) {
                options.entry(name.to_owned()).or_insert(value);
            }
        }
        Self(options)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }

    /// Whether a setting is switched on.
    pub(super) fn is_true(&self, name: &str) -> bool {
        let value = self.get(name).unwrap_or_default().to_ascii_lowercase();
        matches!(value.as_str(), "1" | "true" | "on" | "yes" | "y")
    }

    /// Those whose names begin so. Without its prefix a setting is somebody else's `TOKEN`
    /// or `REGION`.
    pub(super) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter(move |(name, _)| name.starts_with(prefix))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}
