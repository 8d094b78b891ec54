//! What the demo's observations are said to mean: the semantic core of the configuration
//! that would have written them, its hash, and its text for people (`format.md` section 5).

use std::fmt::Write;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{DemoConfig, FieldSet};

/// Spaces by which a block is deeper than its key.
const YAML_INDENT: usize = 2;

/// The semantic core, keys sorted at every depth as its hash wants them.
pub(super) fn core(config: &DemoConfig) -> Value {
    let temporal = config.fields == FieldSet::Temporal;
    let mut observed = Map::new();
    if temporal {
        observed.insert(
            "delta_time".to_owned(),
            json!("/{group}/heights/delta_time"),
        );
    }
    observed.insert("h".to_owned(), json!("/{group}/heights/h_ph"));
    let mut output = Map::new();
    output.insert("aoi_mask".to_owned(), json!(false));
    if temporal {
        output.insert(
            "time_source".to_owned(),
            json!({
                "epoch": "2018-01-01T00:00:00Z",
                "field": "delta_time",
                "scale": "gps",
                "units": "seconds",
            }),
        );
    }
    json!({
        "aggregation": {
            "coordinates": {"morton": {"dtype": "uint64", "fill_value": 0}},
            "variables": variables(config),
        },
        "data_source": {
            "coordinates": {
                "latitude": "/{group}/heights/lat_ph",
                "longitude": "/{group}/heights/lon_ph",
            },
            "groups": ["gt1l", "gt2l"],
            "variables": observed,
        },
        "grid": {"indexing_scheme": "nested", "sharded": true, "type": "healpix"},
        "output": output,
        "pipeline": {"type": "spatial"},
    })
}

fn variables(config: &DemoConfig) -> Value {
    let count = json!({"dtype": "int32", "fill_value": 0, "function": "len", "source": "h"});
    match config.fields {
        FieldSet::Plain => json!({"count": count, "h_tdigest": digest(config, &[])}),
        FieldSet::Strata => json!({
            "composition": {
                "attrs": {"composition": {"of": "h_tdigest_signal", "threshold": 2}},
                "dtype": "uint64",
                "fill_value": 0,
                "function": "zagg.stats.composition.pack_composition",
                "params": {"threshold": 2},
                "source": "h",
            },
            "count": count,
            "h_tdigest_noise": stratum(config, "noise"),
            "h_tdigest_signal": stratum(config, "signal"),
        }),
        FieldSet::Temporal => json!({
            "count": count,
            "h_tdigest": digest(
                config,
                &[("location", json!("leaf_id")), ("temporal", json!("per-centroid"))],
            ),
            "observed": {
                "dtype": "uint64",
                "fill_value": 0,
                "function": "nanmax",
                "source": "h",
                "temporal": "per-cell",
            },
        }),
    }
}

fn stratum(config: &DemoConfig, name: &str) -> Value {
    let function = "zagg.stats.tdigest.build_tdigest_where";
    digest(
        config,
        &[
            ("attrs", json!({"signal_threshold": 2, "stratum": name})),
            ("function", json!(function)),
            ("location", json!("leaf_id")),
        ],
    )
}

fn digest(config: &DemoConfig, special: &[(&str, Value)]) -> Value {
    let common = [
        ("dtype", json!("float32")),
        ("fill_value", json!(0)),
        ("function", json!("zagg.stats.tdigest.build_tdigest")),
        ("inner_shape", json!([2])),
        ("kind", json!("ragged")),
        ("params", json!({"delta": config.delta()})),
        ("source", json!("h")),
    ];
    let mut variable = Map::new();
    for (key, value) in common.iter().chain(special) {
        variable.insert((*key).to_owned(), value.clone());
    }
    variable.sort_keys();
    Value::Object(variable)
}

/// SHA-256 of the core as compact JSON.
pub(super) fn hash(core: &Value) -> String {
    let digest = Sha256::digest(core.to_string());
    digest.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a String does not fail, here and below.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The core as PyYAML's `safe_dump` would write it.
pub(super) fn yaml(core: &Value) -> String {
    let mut text = String::new();
    if let Value::Object(map) = core {
        write_map(&mut text, map, 0);
    }
    text
}

fn write_map(text: &mut String, map: &Map<String, Value>, indent: usize) {
    for (key, value) in map {
        let _ = write!(text, "{:indent$}{key}:", "");
        match value {
            Value::Object(inner) => {
                text.push('\n');
                write_map(text, inner, indent + YAML_INDENT);
            }
            Value::Array(items) => {
                text.push('\n');
                for item in items {
                    let _ = writeln!(text, "{:indent$}- {}", "", scalar(item));
                }
            }
            _ => {
                let _ = writeln!(text, " {}", scalar(value));
            }
        }
    }
}

/// Of the strings here only the times would be read as something else.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(string) if string.starts_with(|char: char| char.is_ascii_digit()) => {
            format!("'{string}'")
        }
        Value::String(string) => string.clone(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_reference_writer() {
        // Each was given by the reference writer for a configuration with this core.
        let known = [
            (
                FieldSet::Plain,
                "a3d4aaadc8b1c0d393e1be10874b4ef518e7f794a3208aaf9fc1b2ddf07a7d05",
            ),
            (
                FieldSet::Strata,
                "9e4d65282c944d7511d5192eccbdeb6f8e909aa92b381005919318dd9cb56f45",
            ),
            (
                FieldSet::Temporal,
                "ec2736c9df18bb7cb908993b35035cd20788adfafbf4b65c823cf7e1d8672db8",
            ),
        ];
        for (fields, expected) in known {
            let config = DemoConfig {
                fields,
                centroids: 8,
                ..DemoConfig::default()
            };
            assert_eq!(hash(&core(&config)), expected, "{fields:?}");
        }
    }

    #[test]
    fn the_text_is_that_of_the_reference_writer() {
        let config = DemoConfig {
            fields: FieldSet::Temporal,
            centroids: 8,
            ..DemoConfig::default()
        };
        let text = yaml(&core(&config));
        let lines = [
            "aggregation:\n  coordinates:\n    morton:\n      dtype: uint64\n      fill_value: 0\n",
            "      inner_shape:\n      - 2\n      kind: ragged\n",
            "      params:\n        delta: 16\n      source: h\n      temporal: per-centroid\n",
            "  groups:\n  - gt1l\n  - gt2l\n",
            "  aoi_mask: false\n  time_source:\n    epoch: '2018-01-01T00:00:00Z'\n",
        ];
        for line in lines {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }
}
