//! Which class each variable of a configuration has in a pyramid (`format.md` section 4).

use serde_json::{Map, Value, json};

use super::config::{Config, ConfigError, to_json};
use super::field::{DEFAULT_DELTA, whole};
use crate::yaml::Yaml;

/// Builders whose digests can be merged.
const DIGEST_BUILDERS: [&str; 4] = [
    "zagg.stats.tdigest.build_tdigest",
    "zagg.stats.tdigest.build_tdigest_pairwise",
    "zagg.stats.tdigest.build_tdigest_where",
    "zagg.stats.waveform.build_waveform_digest",
];
const PACKER: &str = "zagg.stats.composition.pack_composition";

/// The `fields` of a declaration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Classified {
    /// Each variable's declaration, in the order of the configuration.
    pub fields: Map<String, Value>,
    /// What an operator should know about them.
    pub warnings: Vec<String>,
}

/// Classifies every variable.
///
/// # Errors
/// When a parameter cannot be written into a manifest.
pub(crate) fn classify(config: &Config) -> Result<Classified, ConfigError> {
    let mut fields = Map::new();
    for (name, variable) in config.variables() {
        fields.insert(name.to_owned(), declared(name, variable)?);
    }
    let mut warnings = Vec::new();
    // A packed field needs to know what its digest has become.
    for (name, variable) in config
        .variables()
        .filter(|(_, variable)| is_packer(variable))
    {
        let of = composition(variable).and_then(|packing| packing.get("of")?.as_str());
        let weighs = |of: &str| {
            fields.get(of).is_some_and(|digest| {
                digest["class"] == "approximate" && digest.get("weights").is_none()
            })
        };
        match of {
            Some(of) if weighs(of) => {
                let packed = packed(name, variable, of)?;
                fields.insert(name.to_owned(), packed);
            }
            of => warnings.push(format!(
                "`{name}` is not folded: its lanes are weighed by {}, which is no digest of counts declared here",
                of.map_or_else(|| "no digest".to_owned(), |of| format!("`{of}`")),
            )),
        }
    }
    Ok(Classified { fields, warnings })
}

/// The declaration of one variable; that of a packed one waits for its digest.
fn declared(name: &str, variable: &Yaml) -> Result<Value, ConfigError> {
    if !is_of_cells(variable) {
        return Ok(none());
    }
    match (kind(variable), function(variable)) {
        ("ragged", Some(function))
            if DIGEST_BUILDERS.contains(&function) && has_two_columns(variable) =>
        {
            approximate(name, variable)
        }
        ("scalar", Some(function)) => match method(function) {
            Some(method) => exact(name, variable, method),
            None => Ok(none()),
        },
        _ => Ok(none()),
    }
}

fn none() -> Value {
    json!({"class": "none"})
}

/// Whether the variable is a reduction of observations to cells.
fn is_of_cells(variable: &Yaml) -> bool {
    let text = |key: &str| variable.present(key).map(Yaml::as_str);
    variable.present("expression").is_none()
        && matches!(text("resolution"), None | Some(Some("cell")))
        && text("temporal") != Some(Some("per-cell"))
}

fn kind(variable: &Yaml) -> &str {
    match variable.present("kind") {
        None => "scalar",
        Some(kind) => kind.as_str().unwrap_or_default(),
    }
}

fn function(variable: &Yaml) -> Option<&str> {
    variable.get("function")?.as_str()
}

fn has_two_columns(variable: &Yaml) -> bool {
    variable.get("inner_shape") == Some(&Yaml::List(vec![Yaml::Int(2)]))
}

fn method(function: &str) -> Option<&'static str> {
    let name = ["np.", "numpy."]
        .iter()
        .find_map(|module| function.strip_prefix(module))
        .unwrap_or(function);
    match name {
        "len" | "count" | "sum" | "nansum" => Some("sum"),
        "min" | "nanmin" => Some("min"),
        "max" | "nanmax" => Some("max"),
        _ => None,
    }
}

fn is_packer(variable: &Yaml) -> bool {
    is_of_cells(variable) && kind(variable) == "scalar" && function(variable) == Some(PACKER)
}

fn composition(variable: &Yaml) -> Option<&Yaml> {
    variable.present("attrs")?.present("composition")
}

/// A parameter as JSON, or its default.
fn parameter(
    name: &str,
    value: Option<&Yaml>,
    key: &str,
    default: Value,
) -> Result<Value, ConfigError> {
    let path = format!("aggregation.variables.{name}.{key}");
    value.map_or(Ok(default), |value| to_json(value, &path))
}

fn exact(name: &str, variable: &Yaml, method: &str) -> Result<Value, ConfigError> {
    let of = |key: &str, default| parameter(name, variable.present(key), key, default);
    Ok(json!({
        "class": "exact",
        "method": method,
        "nan_policy": "skip",
        "dtype": of("dtype", json!("float32"))?,
        "fill_value": of("fill_value", json!("NaN"))?,
    }))
}

fn approximate(name: &str, variable: &Yaml) -> Result<Value, ConfigError> {
    let of = |key: &str, default| parameter(name, variable.present(key), key, default);
    let delta = variable
        .present("params")
        .and_then(|params| params.present("delta"));
    let delta = parameter(name, delta, "params.delta", json!(DEFAULT_DELTA))?;
    let budget = match whole(&delta) {
        Some(number) if number != 0 => number.min(DEFAULT_DELTA),
        _ => DEFAULT_DELTA,
    };
    let overview_delta = of("overview_delta", json!(budget))?;
    let mut field = Map::new();
    let mut put = |key: &str, value: Value| field.insert(key.to_owned(), value);
    put("class", json!("approximate"));
    put("method", json!("tdigest_kway"));
    put("dtype", of("dtype", json!("float32"))?);
    put("inner_shape", json!([2]));
    put("delta", as_whole(delta));
    put("overview_delta", as_whole(overview_delta));
    for key in ["location", "temporal"] {
        if variable.present(key).is_some() {
            put(key, of(key, Value::Null)?);
        }
    }
    let weights = of("weights", json!("counts"))?;
    if weights != "counts" {
        put("weights", weights);
        if let Some(gain) = variable
            .present("attrs")
            .and_then(|attrs| attrs.present("gain"))
        {
            put(
                "gain",
                parameter(name, Some(gain), "attrs.gain", Value::Null)?,
            );
        }
    }
    Ok(Value::Object(field))
}

/// A manifest has budgets as whole numbers. What is no number is left for the checks of the
/// declaration to name.
fn as_whole(value: Value) -> Value {
    whole(&value).map_or(value, |number| json!(number))
}

fn packed(name: &str, variable: &Yaml, of: &str) -> Result<Value, ConfigError> {
    let own = |key: &str, default| parameter(name, variable.present(key), key, default);
    let mut field = json!({
        "class": "packed",
        "method": "composition_kway",
        "dtype": own("dtype", json!("uint64"))?,
        "fill_value": own("fill_value", json!(0))?,
        "of": of,
    });
    if let Some(threshold) = composition(variable).and_then(|packing| packing.present("threshold"))
    {
        let key = "attrs.composition.threshold";
        field["threshold"] = parameter(name, Some(threshold), key, Value::Null)?;
    }
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(variables: &str) -> Classified {
        let text = format!("aggregation: {{variables: {{{variables}}}}}");
        classify(&Config::parse(&text).unwrap()).unwrap()
    }

    fn one(variable: &str) -> Value {
        classified(&format!("v: {{{variable}}}")).fields["v"].clone()
    }

    #[test]
    fn scalars_fold_by_their_function() {
        for (function, method) in [
            ("len", "sum"),
            ("count", "sum"),
            ("np.sum", "sum"),
            ("numpy.nansum", "sum"),
            ("nanmin", "min"),
            ("np.min", "min"),
            ("max", "max"),
            ("np.nanmax", "max"),
        ] {
            let field = one(&format!("function: {function}"));
            let due = json!({
                "class": "exact", "method": method, "nan_policy": "skip",
                "dtype": "float32", "fill_value": "NaN",
            });
            assert_eq!(field, due, "{function}");
        }
        assert_eq!(
            one("function: len, dtype: int32, fill_value: 0")["fill_value"],
            0
        );
        assert_eq!(one("function: len, fill_value: .nan")["fill_value"], "NaN");
        assert_eq!(
            one("function: len, fill_value: -9999.0")["fill_value"],
            json!(-9999.0)
        );
    }

    #[test]
    fn what_does_not_fold_is_none() {
        for variable in [
            "function: mean",
            "function: scipy.sum",
            "source: h",
            "function: len, expression: a + b",
            "function: len, resolution: chunk",
            "function: len, temporal: per-cell",
            "function: len, kind: vector",
            "kind: ragged, function: zagg.stats.tdigest.build_tdigest, inner_shape: [3]",
            "kind: ragged, function: zagg.stats.tdigest.other, inner_shape: [2]",
            "function: zagg.stats.tdigest.build_tdigest, inner_shape: [2]",
        ] {
            assert_eq!(one(variable), none(), "{variable}");
        }
    }

    const DIGEST: &str =
        "kind: ragged, function: zagg.stats.tdigest.build_tdigest, inner_shape: [2]";

    #[test]
    fn a_digest_declares_its_budget_and_companions() {
        let field = one(&format!(
            "{DIGEST}, params: {{delta: 800}}, location: leaf_id, weights: counts"
        ));
        assert_eq!(
            field.to_string(),
            r#"{"class":"approximate","method":"tdigest_kway","dtype":"float32","inner_shape":[2],"delta":800,"overview_delta":512,"location":"leaf_id"}"#
        );
        assert_eq!(
            one(&format!("{DIGEST}, overview_delta: 600"))["overview_delta"],
            600
        );
        assert_eq!(one(DIGEST)["overview_delta"], 512);
        assert_eq!(one(DIGEST)["delta"], 512);
        for (delta, due) in [("null", 512), ("100.0", 100), ("100", 100), ("0", 0)] {
            let field = one(&format!("{DIGEST}, params: {{delta: {delta}}}"));
            assert_eq!(field["delta"], json!(due), "{delta}");
            let budget = if due == 0 { 512 } else { due };
            assert_eq!(field["overview_delta"], json!(budget), "{delta}");
        }
        let field = one(&format!("{DIGEST}, overview_delta: 600.0"));
        assert_eq!(field["overview_delta"], json!(600));
        let flux = one(&format!(
            "{DIGEST}, weights: flux, attrs: {{gain: {{name: g}}}}"
        ));
        assert_eq!(
            (&flux["weights"], &flux["gain"]),
            (&json!("flux"), &json!({"name": "g"}))
        );
    }

    #[test]
    fn a_packed_field_needs_a_digest_of_counts() {
        let packed = |of: &str, digest: &str| {
            classified(&format!(
                "p: {{function: {PACKER}, attrs: {{composition: {{of: {of}, threshold: 2}}}}}}, d: {{{digest}}}"
            ))
        };
        let good = packed("d", DIGEST);
        assert_eq!(good.fields["p"]["class"], "packed");
        assert_eq!(good.fields["p"]["threshold"], 2);
        assert_eq!(good.fields.keys().collect::<Vec<_>>(), ["p", "d"]);
        assert!(good.warnings.is_empty());
        for bad in [
            packed("e", DIGEST),
            packed("d", "function: len"),
            packed("d", &format!("{DIGEST}, weights: flux")),
        ] {
            assert_eq!(bad.fields["p"], none());
            assert!(
                bad.warnings[0].contains("`p` is not folded"),
                "{:?}",
                bad.warnings
            );
        }
    }
}
