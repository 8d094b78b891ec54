//! What a configuration means: its semantic core, and the hash a manifest keeps of it
//! (`format.md` section 5).
//!
//! Two configurations with one core write the same values. Comments, key order, spacing,
//! orders and everything about how the work is run are outside the core.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::config::{Config, ConfigError};
use crate::store::json::{python_float, write_string};
use crate::time::{iso, parse_iso};
use crate::yaml::Yaml;

/// How the work is run, not what it gives.
const RUN_KEYS: [&str; 10] = [
    "reader",
    "driver",
    "read_plan",
    "anonymous",
    "credentials_provider",
    "source_region",
    "shard_workers",
    "granule_workers",
    "read_workers",
    "write_buffer",
];
/// Left the core after stores had been hashed with it.
const LEGACY_KEY: &str = "index";

/// Hex digits of a hash that messages show.
const FINGERPRINT: usize = 12;

/// The semantic core of a configuration, hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Semantics {
    /// The core as the text that is hashed.
    pub canonical: String,
    /// SHA-256 of that text.
    pub hash: String,
    /// The same of the core that older stores were hashed by.
    pub legacy_hash: String,
}

/// What a manifest's hash says of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HashVerdict {
    /// The store was written with this configuration.
    Match,
    /// It was, and the manifest has the hash of an older rule, which is rewritten.
    Legacy,
    /// It was written with another one.
    Mismatch,
    /// The manifest has no hash.
    Absent,
}

impl Semantics {
    /// The semantics of a configuration.
    ///
    /// # Errors
    /// When a value of the core cannot be hashed, such as a date.
    pub(crate) fn of(config: &Config) -> Result<Self, ConfigError> {
        let canonical = text_of(&core(config, false)?)?;
        let legacy = text_of(&core(config, true)?)?;
        Ok(Self {
            hash: sha256(&canonical),
            legacy_hash: sha256(&legacy),
            canonical,
        })
    }

    /// Compares with the hash a manifest keeps.
    pub(crate) fn verdict(&self, stored: Option<&str>) -> HashVerdict {
        match stored {
            None => HashVerdict::Absent,
            Some(stored) if stored == self.hash => HashVerdict::Match,
            Some(stored) if stored == self.legacy_hash => HashVerdict::Legacy,
            Some(_) => HashVerdict::Mismatch,
        }
    }
}

/// The semantic core of the configuration in `text`, as it is hashed, and its hash.
///
/// # Errors
/// When the text is no configuration, or holds what cannot be hashed.
pub fn semantic_core(text: &str) -> Result<(String, String), ConfigError> {
    let semantics = Semantics::of(&Config::parse(text)?)?;
    Ok((semantics.canonical, semantics.hash))
}

/// The first digits of a hash.
pub(crate) fn fingerprint(hash: &str) -> &str {
    hash.get(..FINGERPRINT).unwrap_or(hash)
}

fn sha256(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

fn core(config: &Config, legacy: bool) -> Result<Yaml, ConfigError> {
    let mut core = vec![
        pair("aggregation", aggregation(config)),
        pair("data_source", data_source(config, legacy)),
        pair("grid", grid(config)),
        pair(
            "pipeline",
            Yaml::Map(vec![pair(
                "type",
                or_text(config.section("pipeline").present("type"), "spatial"),
            )]),
        ),
        pair("output", output(config)?),
    ];
    if let Some(encoding) = config.output("time_encoding")
        && encoding.as_str() != Some("microseconds")
    {
        core.push(pair("time_encoding", encoding.clone()));
    }
    Ok(Yaml::Map(core))
}

fn pair(key: &str, value: Yaml) -> (Yaml, Yaml) {
    (Yaml::Text(key.to_owned()), value)
}

fn text(text: &str) -> Yaml {
    Yaml::Text(text.to_owned())
}

fn or_text(value: Option<&Yaml>, default: &str) -> Yaml {
    value.cloned().unwrap_or_else(|| text(default))
}

/// A mapping without some of its keys; anything else as it is.
fn without(value: &Yaml, keys: &[&str]) -> Yaml {
    let Yaml::Map(entries) = value else {
        return value.clone();
    };
    let is_kept = |key: &Yaml| key.as_str().is_none_or(|key| !keys.contains(&key));
    Yaml::Map(
        entries
            .iter()
            .filter(|(key, _)| is_kept(key))
            .cloned()
            .collect(),
    )
}

fn aggregation(config: &Config) -> Yaml {
    let mut aggregation = without(config.aggregation(), &["handoff", "streaming"]);
    if let Yaml::Map(entries) = &mut aggregation {
        for (key, value) in entries {
            if key.as_str() == Some("variables")
                && let Yaml::Map(variables) = value
            {
                for (_, variable) in variables {
                    let counts = variable.get("weights").and_then(Yaml::as_str) == Some("counts");
                    let dropped: &[&str] = if counts {
                        &["overview_delta", "weights"]
                    } else {
                        &["overview_delta"]
                    };
                    *variable = without(variable, dropped);
                }
            }
        }
    }
    name_missing_fills(&mut aggregation);
    aggregation
}

/// A fill value of NaN is hashed as the string `NaN`, however it was written.
fn name_missing_fills(value: &mut Yaml) {
    match value {
        Yaml::Map(entries) => {
            for (key, value) in entries {
                match value {
                    Yaml::Float(fill) if fill.is_nan() && key.as_str() == Some("fill_value") => {
                        *value = text("NaN");
                    }
                    _ => name_missing_fills(value),
                }
            }
        }
        Yaml::List(items) => items.iter_mut().for_each(name_missing_fills),
        _ => {}
    }
}

fn data_source(config: &Config, legacy: bool) -> Yaml {
    let source = without(config.section("data_source"), &RUN_KEYS);
    if legacy {
        source
    } else {
        without(&source, &[LEGACY_KEY])
    }
}

fn grid(config: &Config) -> Yaml {
    let kind = or_text(config.grid("type"), "healpix");
    let healpix = kind.as_str() == Some("healpix");
    let mut grid = vec![pair("type", kind)];
    if healpix {
        grid.push(pair("indexing_scheme", text("nested")));
    } else {
        for key in ["crs", "resolution", "bounds"] {
            if let Some(value) = config.grid(key) {
                grid.push(pair(key, value.clone()));
            }
        }
    }
    let sharded = config.grid("sharded").cloned();
    grid.push(pair("sharded", sharded.unwrap_or(Yaml::Bool(healpix))));
    Yaml::Map(grid)
}

fn output(config: &Config) -> Result<Yaml, ConfigError> {
    let aoi_mask = config.output("aoi_mask").cloned();
    let mut output = vec![pair("aoi_mask", aoi_mask.unwrap_or(Yaml::Bool(false)))];
    let windowing = windowing(config)?;
    if has_temporal_field(config) {
        let fallback = || windowing.as_ref().and_then(time_source_of);
        if let Some(source) = config.output("time_source").cloned().or_else(fallback) {
            output.push(pair("time_source", source));
        }
    }
    if let Some(windowing) = windowing {
        output.push(pair("windowing", windowing));
    }
    Ok(Yaml::Map(output))
}

fn has_temporal_field(config: &Config) -> bool {
    config
        .variables()
        .any(|(_, variable)| variable.present("temporal").is_some())
}

/// The clock of the windows, on a scale that words of time can be made from.
fn time_source_of(windowing: &Yaml) -> Option<Yaml> {
    let scale = windowing.get("scale").and_then(Yaml::as_str)?;
    if !matches!(scale, "gps" | "tai") {
        return None;
    }
    let of_window = |key: &str| windowing.get(key).cloned().unwrap_or(Yaml::Null);
    Some(Yaml::Map(vec![
        pair("field", of_window("time_field")),
        pair("epoch", of_window("epoch")),
        pair("scale", text(scale)),
        pair("units", of_window("units")),
    ]))
}

/// The windows of the store, every default spelled out; `None` on a store without.
fn windowing(config: &Config) -> Result<Option<Yaml>, ConfigError> {
    let Some(declared @ Yaml::Map(_)) = config.output("windowing") else {
        return Ok(None);
    };
    let raster = config.is_raster();
    let given = |key: &str| declared.get(key).cloned().unwrap_or(Yaml::Null);
    let or = |key: &str, default: &str| or_text(declared.present(key), default);
    let (time_field, epoch, scale, units) = if raster {
        (
            text("datetime"),
            text(&iso(0)),
            text("utc"),
            text("seconds"),
        )
    } else {
        let epoch = epoch(declared.present("epoch"))?;
        let (scale, units) = (or("scale", "utc"), or("units", "seconds"));
        (given("time_field"), epoch, scale, units)
    };
    Ok(Some(Yaml::Map(vec![
        pair("schedule", given("schedule")),
        pair("time_field", time_field),
        pair("epoch", epoch),
        pair("scale", scale),
        pair("units", units),
        pair("windows", given("windows")),
    ])))
}

fn epoch(value: Option<&Yaml>) -> Result<Yaml, ConfigError> {
    let written = match value {
        None => return Ok(Yaml::Null),
        Some(Yaml::Text(text) | Yaml::Time(text)) => text,
        Some(other) => {
            let problem = format!("is {}, and must be a time", other.kind());
            return Err(ConfigError::value("output.windowing.epoch", problem));
        }
    };
    parse_iso(written)
        .or_else(|| parse_iso(&format!("{written}T00:00:00")))
        .map(|seconds| text(&iso(seconds)))
        .ok_or_else(|| ConfigError::value("output.windowing.epoch", "is no ISO time"))
}

/// The core as Python's `json.dumps` writes it with sorted keys and no spaces; keys with
/// a null value are left out.
fn text_of(core: &Yaml) -> Result<String, ConfigError> {
    let mut out = String::new();
    write(&mut out, core, "")?;
    Ok(out)
}

fn write(out: &mut String, value: &Yaml, path: &str) -> Result<(), ConfigError> {
    match value {
        Yaml::Null => out.push_str("null"),
        Yaml::Bool(bool) => out.push_str(if *bool { "true" } else { "false" }),
        Yaml::Int(int) => {
            let _ = write!(out, "{int}");
        }
        Yaml::Float(float) => out.push_str(&python_float(*float)),
        Yaml::Text(text) => write_string(out, text),
        Yaml::Time(_) => {
            let problem = "is a date, which has no hash: put it in quotes";
            return Err(ConfigError::value(path, problem));
        }
        Yaml::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(out, item, path)?;
            }
            out.push(']');
        }
        Yaml::Map(entries) => {
            out.push('{');
            for (i, (key, value)) in sorted(entries, path)?.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, &key);
                out.push(':');
                let dot = if path.is_empty() { "" } else { "." };
                write(out, value, &format!("{path}{dot}{key}"))?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// The pairs that are hashed, in the order of their keys: all text, or all whole numbers.
fn sorted<'a>(
    entries: &'a [(Yaml, Yaml)],
    path: &str,
) -> Result<Vec<(String, &'a Yaml)>, ConfigError> {
    let kept = || entries.iter().filter(|(_, value)| *value != Yaml::Null);
    let texts: Option<Vec<_>> = kept()
        .map(|(key, value)| Some((key.as_str()?.to_owned(), value)))
        .collect();
    if let Some(mut texts) = texts {
        texts.sort_by(|(one, _), (other, _)| one.cmp(other));
        return Ok(texts);
    }
    let numbers: Option<Vec<_>> = kept()
        .map(|(key, value)| match key {
            Yaml::Int(int) => Some((*int, value)),
            _ => None,
        })
        .collect();
    let mut numbers = numbers.ok_or_else(|| {
        ConfigError::value(
            path,
            "has keys that are neither all text nor all whole numbers",
        )
    })?;
    numbers.sort_by_key(|(int, _)| *int);
    Ok(numbers
        .into_iter()
        .map(|(int, value)| (int.to_string(), value))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "
data_source:
  reader: h5coro
  index: {kind: sidecar}
  groups: [gt1l, ~]
aggregation:
  streaming: true
  variables:
    count: {function: len, dtype: int32, fill_value: 0, weights: counts, overview_delta: 9}
    h: {function: nanmin, fill_value: .nan, params: {q: 1.0e+20, w: ~, é: 010}}
output:
  pyramid: false
";

    fn semantics(text: &str) -> Semantics {
        Semantics::of(&Config::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn the_core_is_resolved_pruned_and_sorted() {
        let found = semantics(BASE);
        assert_eq!(
            found.canonical,
            "{\"aggregation\":{\"variables\":{\"count\":{\"dtype\":\"int32\",\"fill_value\":0,\
             \"function\":\"len\"},\"h\":{\"fill_value\":\"NaN\",\"function\":\"nanmin\",\
             \"params\":{\"q\":1e+20,\"\\u00e9\":8}}}},\"data_source\":{\"groups\":[\"gt1l\",null]},\
             \"grid\":{\"indexing_scheme\":\"nested\",\"sharded\":true,\"type\":\"healpix\"},\
             \"output\":{\"aoi_mask\":false},\"pipeline\":{\"type\":\"spatial\"}}"
        );
        assert_ne!(found.hash, found.legacy_hash);
        assert_eq!(found.verdict(Some(&found.hash)), HashVerdict::Match);
        assert_eq!(found.verdict(Some(&found.legacy_hash)), HashVerdict::Legacy);
        assert_eq!(found.verdict(Some("0")), HashVerdict::Mismatch);
        assert_eq!(found.verdict(None), HashVerdict::Absent);
    }

    #[test]
    fn what_is_outside_the_core_does_not_move_the_hash() {
        let hash = semantics(BASE).hash;
        let outside = [
            ("  reader: h5coro\n", "  driver: s3   # another\n"),
            ("{kind: sidecar}", "{kind: none}"),
            (
                "  pyramid: false\n",
                "  pyramid: {overviews: 5}\n  aoi_mask: no\n",
            ),
            ("  streaming: true\n", "  handoff: {a: 1}\n"),
            (", overview_delta: 9", ""),
            (".nan", "NaN"),
        ];
        for (from, to) in outside {
            assert_eq!(semantics(&BASE.replace(from, to)).hash, hash, "{to}");
        }
        let inside = [
            ("nanmin", "nanmax"),
            ("int32", "int64"),
            ("1.0e+20", "1.0e+21"),
            ("  pyramid: false\n", "  aoi_mask: yes\n"),
            ("weights: counts", "weights: flux"),
        ];
        for (from, to) in inside {
            assert_ne!(semantics(&BASE.replace(from, to)).hash, hash, "{to}");
        }
    }

    #[test]
    fn windows_are_normalised_and_lend_their_clock() {
        let with = |windowing: &str| {
            semantics(&format!(
                "aggregation: {{variables: {{h: {{temporal: per-centroid}}}}}}\noutput: {{windowing: {windowing}}}\n"
            ))
            .canonical
        };
        let spelled =
            with("{schedule: yearly, time_field: t, epoch: '2018-01-01T00:00:00Z', scale: gps}");
        assert!(spelled.contains(
            r#""windowing":{"epoch":"2018-01-01T00:00:00+00:00","scale":"gps","schedule":"yearly","time_field":"t","units":"seconds"}"#
        ), "{spelled}");
        assert!(
            spelled.contains(r#""time_source":{"epoch":"2018-01-01T00:00:00+00:00","field":"t""#)
        );
        let typed =
            with("{schedule: yearly, time_field: t, epoch: 2018-01-01, scale: gps, windows: ~}");
        assert_eq!(typed, spelled);
        assert!(
            !with("{schedule: yearly, time_field: t, epoch: 2018-01-01}").contains("time_source")
        );
    }

    #[test]
    fn what_cannot_be_hashed_is_refused_by_its_path() {
        let refusal = |text: &str| {
            Semantics::of(&Config::parse(text).unwrap())
                .unwrap_err()
                .to_string()
        };
        let date = refusal("aggregation: {variables: {h: {since: 2018-01-01}}}");
        assert!(
            date.contains("`aggregation.variables.h.since` is a date"),
            "{date}"
        );
        let keys = refusal("aggregation: {variables: {h: {1: a, b: c}}}");
        assert!(keys.contains("aggregation.variables.h"), "{keys}");
    }
}
