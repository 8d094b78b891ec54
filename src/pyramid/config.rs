//! The configuration a store's leaves were written by, as far as a declaration needs it.

use serde_json::{Map, Number, Value, json};

use crate::yaml::{self, Yaml};

/// Why a configuration cannot be used. Nothing has been asked of the store by then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is not YAML.
    #[error(
        "the config is not YAML that its own loader reads: line {line}: {problem}; correct that line"
    )]
    Yaml {
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// The document is no mapping with the sections that are needed.
    #[error(
        "the config holds {found} where {due} is due; give the file the store was written with"
    )]
    Shape {
        /// What is there.
        found: String,
        /// What must be there.
        due: &'static str,
    },
    /// A value cannot be what it is.
    #[error("the config's `{key}` {problem}; correct it")]
    Value {
        /// Path of the key.
        key: String,
        /// What is wrong with its value.
        problem: String,
    },
}

impl ConfigError {
    pub(super) fn value(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Value {
            key: key.into(),
            problem: problem.into(),
        }
    }
}

/// A configuration with a mapping of variables.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    document: Yaml,
}

/// Stands for a section that is not there.
const NOTHING: &Yaml = &Yaml::Null;

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// When the text is not YAML, or has no `aggregation.variables`.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let document = yaml::parse(text).map_err(|error| ConfigError::Yaml {
            line: error.line,
            problem: error.problem,
        })?;
        let config = Self { document };
        if !matches!(config.document, Yaml::Map(_)) {
            return Err(ConfigError::Shape {
                found: config.document.kind().to_owned(),
                due: "a mapping",
            });
        }
        let variables = config.aggregation().get("variables").unwrap_or(NOTHING);
        if variables.entries().is_empty() {
            return Err(ConfigError::Shape {
                found: format!("{} at `aggregation.variables`", variables.kind()),
                due: "a mapping of variables",
            });
        }
        Ok(config)
    }

    /// A section of the document; null when it is absent.
    pub(super) fn section(&self, key: &str) -> &Yaml {
        self.document.get(key).unwrap_or(NOTHING)
    }

    pub(super) fn aggregation(&self) -> &Yaml {
        self.section("aggregation")
    }

    pub(super) fn output(&self, key: &str) -> Option<&Yaml> {
        self.section("output").present(key)
    }

    pub(super) fn grid(&self, key: &str) -> Option<&Yaml> {
        self.output("grid")?.present(key)
    }

    /// The variables by name, in order.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &Yaml)> {
        let variables = self.aggregation().get("variables").unwrap_or(NOTHING);
        variables
            .entries()
            .iter()
            .filter_map(|(name, variable)| Some((name.as_str()?, variable)))
    }

    /// Whether the leaves hold rasters, whose pyramid is not declared here.
    pub(crate) fn is_raster(&self) -> bool {
        let reader = self.section("data_source").get("reader");
        reader.and_then(Yaml::as_str) == Some("raster")
    }

    /// A warning for each order the configuration has otherwise than the store, whose
    /// own orders count.
    pub(crate) fn other_orders(&self, shard_order: u8, cell_order: u8) -> Vec<String> {
        let stored = [("parent_order", shard_order), ("child_order", cell_order)];
        let differs = |(key, order): &(&str, u8)| {
            self.grid(key)
                .is_some_and(|found| *found != Yaml::Int(i128::from(*order)))
        };
        let warning = |(key, order)| {
            format!(
                "the config's `output.grid.{key}` is not {order}, which is the store's and counts"
            )
        };
        stored.into_iter().filter(differs).map(warning).collect()
    }
}

/// A whole number of the configuration that must be an order.
pub(super) fn order(value: &Yaml, key: &str) -> Result<u8, ConfigError> {
    match value {
        Yaml::Int(order) => u8::try_from(*order).ok(),
        _ => None,
    }
    .ok_or_else(|| ConfigError::value(key, "is no order, which is a small whole number"))
}

/// A value as JSON; NaN and the infinities as the strings that stand for them in a fill
/// value.
///
/// # Errors
/// When JSON has no such value; `key` names it.
pub(super) fn to_json(value: &Yaml, key: &str) -> Result<Value, ConfigError> {
    let unfit = |problem: &str| Err(ConfigError::value(key, problem));
    Ok(match value {
        Yaml::Null => Value::Null,
        Yaml::Bool(bool) => json!(bool),
        Yaml::Int(int) => match (i64::try_from(*int), u64::try_from(*int)) {
            (Ok(int), _) => json!(int),
            (_, Ok(int)) => json!(int),
            _ => return unfit("is a number beyond 64 bits"),
        },
        Yaml::Float(float) => match Number::from_f64(*float) {
            Some(number) => Value::Number(number),
            None if float.is_nan() => json!("NaN"),
            None if *float > 0.0 => json!("Infinity"),
            None => json!("-Infinity"),
        },
        Yaml::Text(text) => json!(text),
        Yaml::Time(_) => return unfit("is a date and must be text: put it in quotes"),
        Yaml::List(items) => items
            .iter()
            .map(|item| to_json(item, key))
            .collect::<Result<_, _>>()?,
        Yaml::Map(entries) => {
            let mut map = Map::new();
            for (name, value) in entries {
                let Some(name) = name.as_str() else {
                    return unfit("has a key that is no text");
                };
                map.insert(name.to_owned(), to_json(value, &format!("{key}.{name}"))?);
            }
            Value::Object(map)
        }
    })
}
