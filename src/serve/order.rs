//! What a request to start an upgrade asks for.

use serde::{Deserialize, Serialize};

use super::config::Config;
use crate::kernels::plan::FoldLaw;
use crate::kernels::words::decimal;
use crate::pyramid::Lever;
use crate::runbook::Runbook;
use crate::settings::{Settings, parse_size};
use crate::store::Root;

/// An upgrade that is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Path or URL of the store.
    pub root: String,
    #[serde(default)]
    pub options: Options,
}

/// As the options of `upgrade` on the command line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold_law: Option<FoldLaw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tuple_width: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_budget: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<String>,
    pub force: bool,
    pub dry_run: bool,
    pub retire: bool,
    pub receipt: bool,
    /// Text of the YAML config the store was written with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overviews: Vec<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_order: Option<u8>,
}

impl Order {
    /// The runbook of this order, at the store that was opened for it.
    ///
    /// # Errors
    /// A sentence that names the option that cannot be used.
    pub(super) fn runbook(&self, root: Root, config: &Config) -> Result<Runbook, String> {
        let options = &self.options;
        let runbook = Runbook::new(root)
            .settings(options.settings(&config.settings)?)
            .retire(options.retire)
            .receipt(options.receipt);
        let lever = match (options.overviews.is_empty(), options.chunk_order) {
            (true, order) => order.map(Lever::ChunkOrder),
            (false, None) => Some(Lever::Overviews(options.overviews.clone())),
            (false, Some(_)) => {
                return Err("`overviews` and `chunk_order` exclude each other".to_owned());
            }
        };
        match (&options.config, lever) {
            (Some(config), lever) => {
                let runbook = runbook.declare(config, lever);
                runbook.map_err(|error| format!("`config`: {error}"))
            }
            (None, Some(_)) => {
                Err("`overviews` and `chunk_order` need `config`, the text of the YAML".to_owned())
            }
            (None, None) => Ok(runbook),
        }
    }
}

impl Options {
    /// The settings of the service with what is asked for: never more than it allows.
    fn settings(&self, service: &Settings) -> Result<Settings, String> {
        let mut settings = service.clone();
        settings.fold_law = self.fold_law.unwrap_or(settings.fold_law);
        settings.tuple_width = match self.tuple_width {
            Some(0) => return Err("`tuple_width` must be at least 1".to_owned()),
            width => width.unwrap_or(settings.tuple_width),
        };
        if let Some(text) = &self.memory_budget {
            let size = parse_size(text);
            let size = size.ok_or_else(|| {
                format!("`memory_budget` is `{text}`, which is no size such as 512MiB")
            })?;
            settings.memory_budget = settings.memory_budget.min(size);
        }
        if let Some(leaves) = self.max_in_flight {
            settings.max_in_flight = settings.max_in_flight.min(leaves.max(1));
        }
        for shard in &self.shards {
            decimal::parse(shard).map_err(|error| format!("`shards`: `{shard}`: {error}"))?;
        }
        settings.shards = self.shards.clone();
        settings.force = self.force;
        settings.dry_run = self.dry_run;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_asks_for_less_and_never_for_more() {
        let service = Settings::default();
        let options = |json: &str| serde_json::from_str::<Options>(json).unwrap();
        let more = options(r#"{"memory_budget": "1024 GiB", "max_in_flight": 100000}"#);
        assert_eq!(more.settings(&service).unwrap(), service);
        let less = options(r#"{"memory_budget": "1 MiB", "max_in_flight": 0}"#);
        let less = less.settings(&service).unwrap();
        assert_eq!((less.memory_budget, less.max_in_flight), (1 << 20, 1));
    }

    #[test]
    fn an_order_that_is_not_understood_is_refused() {
        for json in [
            r#"{"root": "/x", "force": true}"#,
            r#"{"root": "/x", "options": {"forse": true}}"#,
            r#"{"options": {}}"#,
            r#"{"root": "/x", "options": {"fold_law": "other"}}"#,
        ] {
            assert!(serde_json::from_str::<Order>(json).is_err(), "{json}");
        }
    }
}
