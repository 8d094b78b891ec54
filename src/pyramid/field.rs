//! Field classes of a declared pyramid (`format.md` section 4).

use serde_json::{Map, Value, json};

use crate::kernels::cells::FieldCells;
use crate::kernels::dense::{DenseType, ExactMethod, FillValue};
use crate::kernels::tdigest::{Channels, DigestCell, DigestColumn};

/// The budget of a digest whose entry does not say, in centroids per unit of the scale
/// function; and the most that a fold has unless the entry asks for more.
pub(super) const DEFAULT_DELTA: i64 = 512;

/// How exact fields treat what is missing.
const NAN_POLICY: &str = "skip";
/// How digests are merged.
const DIGEST_METHOD: &str = "tdigest_kway";
/// How packed words are merged.
const PACKED_METHOD: &str = "composition_kway";

/// A composable field of the manifest, in declaration order.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Name of the array in a leaf and in a column.
    pub name: String,
    /// How it folds.
    pub class: FieldClass,
}

/// How a composable field folds.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldClass {
    /// A number per cell, folded exactly.
    Exact(Exact),
    /// A digest per cell.
    Approximate(Box<Approximate>),
    /// Eight lanes in a word, weighted by a digest.
    Packed(Packed),
}

/// An exact field: sum, minimum or maximum of a number.
#[derive(Debug, Clone, PartialEq)]
pub struct Exact {
    /// Which reduction.
    pub method: ExactMethod,
    /// The value that means "nothing here", and the type of the array.
    pub fill: FillValue,
}

/// A digest field.
#[derive(Debug, Clone, PartialEq)]
pub struct Approximate {
    /// Fold budget δ.
    pub budget: f64,
    /// Whether each centroid has a morton word.
    pub located: bool,
    /// Whether each centroid has a toc word.
    pub temporal: bool,
    /// `weights` as declared; absent means counts.
    pub weights: Option<Value>,
    /// `gain` as declared, for flux weights.
    pub gain: Option<Value>,
    dtype: Value,
    inner_shape: Value,
    delta: i64,
    overview_delta: i64,
}

/// A packed composition field.
#[derive(Debug, Clone, PartialEq)]
pub struct Packed {
    /// Name of the digest that weighs the lanes.
    pub of: String,
    /// Threshold, recorded as declared.
    pub threshold: Option<Value>,
}

impl Field {
    /// Reads one entry of `overview.fields`; `None` when it is not composable.
    ///
    /// # Errors
    /// A sentence saying what is wrong with a field whose class is known.
    pub fn parse(name: &str, value: &Value) -> Result<Option<Self>, String> {
        let Value::Object(map) = value else {
            return Err("is not a map".to_owned());
        };
        let class = match map.get("class").and_then(Value::as_str) {
            Some("exact") => FieldClass::Exact(Exact::parse(map)?),
            Some("approximate") => FieldClass::Approximate(Box::new(Approximate::parse(map)?)),
            Some("packed") => match Packed::parse(map)? {
                Some(packed) => FieldClass::Packed(packed),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(Self {
            name: name.to_owned(),
            class,
        }))
    }

    /// Whether the field's centroids have morton words, and whether they have toc words.
    pub fn channels(&self) -> (bool, bool) {
        match &self.class {
            FieldClass::Approximate(digest) => (digest.located, digest.temporal),
            FieldClass::Exact(_) | FieldClass::Packed(_) => (false, false),
        }
    }

    /// The fill value of the field's array; a ragged array has none and is not asked.
    pub fn dense_fill(&self) -> FillValue {
        match &self.class {
            FieldClass::Exact(exact) => exact.fill,
            FieldClass::Packed(_) | FieldClass::Approximate(_) => {
                FillValue::zero(DenseType::Uint64)
            }
        }
    }

    /// `n_cells` cells in which nothing was seen.
    pub fn fill_cells(&self, n_cells: usize) -> FieldCells {
        match &self.class {
            FieldClass::Approximate(_) => {
                let (located, temporal) = self.channels();
                let mut column = DigestColumn::new(Channels { located, temporal });
                (0..n_cells).for_each(|_| column.push(DigestCell::default()));
                FieldCells::Digest(column)
            }
            FieldClass::Exact(_) | FieldClass::Packed(_) => {
                FieldCells::Dense(self.dense_fill().repeated(n_cells))
            }
        }
    }

    /// Name of the array of one morton word per centroid.
    pub fn locations_name(&self) -> String {
        format!("{}_locations", self.name)
    }

    /// Name of the array of one toc word per centroid.
    pub fn times_name(&self) -> String {
        format!("{}_times", self.name)
    }

    /// What a column records about how the field was folded (`format.md` section 7).
    pub fn provenance(&self) -> Value {
        match &self.class {
            FieldClass::Exact(exact) => json!({
                "class": "exact",
                "method": exact.method,
                "nan_policy": NAN_POLICY,
            }),
            FieldClass::Approximate(digest) => json!({
                "class": "approximate",
                "method": DIGEST_METHOD,
                "delta": digest.delta,
                "overview_delta": digest.overview_delta,
                "dtype": digest.dtype,
                "inner_shape": digest.inner_shape,
            }),
            FieldClass::Packed(packed) => json!({
                "class": "packed",
                "method": PACKED_METHOD,
                "dtype": "uint64",
                "of": packed.of,
            }),
        }
    }
}

impl Exact {
    fn parse(map: &Map<String, Value>) -> Result<Self, String> {
        only(map, "nan_policy", NAN_POLICY)?;
        let method = text(map, "method")?;
        let dtype = text(map, "dtype")?;
        let dtype = DenseType::from_name(dtype).map_err(|error| format!("has a dtype: {error}"))?;
        let fill = map.get("fill_value").cloned().unwrap_or(Value::Null);
        Ok(Self {
            method: serde_json::from_value(json!(method))
                .map_err(|_| format!("has unknown method `{method}`"))?,
            fill: dtype
                .parse_fill(&fill)
                .map_err(|error| format!("has an unusable fill_value: {error}"))?,
        })
    }
}

impl Approximate {
    fn parse(map: &Map<String, Value>) -> Result<Self, String> {
        only(map, "method", DIGEST_METHOD)?;
        let dtype = map.get("dtype").cloned().unwrap_or(json!("float32"));
        if dtype != "float32" {
            return Err(format!("has digest dtype {dtype}, and digests are float32"));
        }
        let inner_shape = map.get("inner_shape").cloned().unwrap_or(json!([2]));
        if inner_shape != json!([2]) {
            return Err(format!(
                "has inner_shape {inner_shape}, and digests are [2]"
            ));
        }
        let weights = map.get("weights").filter(|value| *value != "counts");
        let gain = map.get("gain").cloned();
        match weights {
            Some(value) if value != "flux" => return Err(format!("has unknown weights {value}")),
            Some(_) if gain.is_none() => return Err("has flux weights and no gain".to_owned()),
            _ => {}
        }
        let delta = budget(map, "delta")?.unwrap_or(DEFAULT_DELTA);
        let overview_delta =
            budget(map, "overview_delta")?.unwrap_or_else(|| delta.min(DEFAULT_DELTA));
        Ok(Self {
            budget: overview_delta as f64,
            located: map.get("location").is_some_and(|value| !value.is_null()),
            temporal: map.get("temporal").is_some_and(|value| !value.is_null()),
            weights: weights.cloned(),
            gain,
            dtype,
            inner_shape,
            delta,
            overview_delta,
        })
    }
}

impl Packed {
    fn parse(map: &Map<String, Value>) -> Result<Option<Self>, String> {
        let Some(of) = map.get("of").and_then(Value::as_str) else {
            return Ok(None);
        };
        only(map, "method", PACKED_METHOD)?;
        if map.get("dtype").is_some_and(|dtype| dtype != "uint64") {
            return Err("is packed and not uint64".to_owned());
        }
        if map.get("fill_value").is_some_and(|fill| *fill != json!(0)) {
            return Err("is packed and its fill_value is not 0".to_owned());
        }
        Ok(Some(Self {
            of: of.to_owned(),
            threshold: map.get("threshold").cloned(),
        }))
    }
}

/// The one value this program can follow, or none at all.
fn only(map: &Map<String, Value>, key: &str, known: &str) -> Result<(), String> {
    match map.get(key) {
        Some(value) if value != known => {
            Err(format!("has {key} {value}, and only \"{known}\" is folded"))
        }
        _ => Ok(()),
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    map.get(key)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("has no {key}"))
}

/// A number of centroids; `None` when the entry does not say, and 0 says as little as none.
fn budget(map: &Map<String, Value>, key: &str) -> Result<Option<i64>, String> {
    let declared = map.get(key).filter(|value| !value.is_null());
    let Some(value) = declared.filter(|value| value.as_f64() != Some(0.0)) else {
        return Ok(None);
    };
    let number = whole(value).filter(|number| *number > 0);
    let refused = || format!("has {key} {value}, and it must be a number from 1 on");
    number.map(Some).ok_or_else(refused)
}

/// A number without its fraction, as Python's `int()` has it; `None` for what is no number.
pub(super) fn whole(value: &Value) -> Option<i64> {
    let cut = || value.as_f64().map(|number| number as i64);
    value.as_i64().or_else(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: Value) -> Result<Option<Field>, String> {
        Field::parse("f", &value)
    }

    fn budget(value: Value) -> f64 {
        match parse(value).unwrap().unwrap().class {
            FieldClass::Approximate(digest) => digest.budget,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_fold_budget_is_the_overview_delta_or_a_capped_delta() {
        let class = "approximate";
        assert_eq!(
            budget(json!({"class": class, "delta": 32, "overview_delta": 24})),
            24.0
        );
        assert_eq!(budget(json!({"class": class, "delta": 600})), 512.0);
        assert_eq!(budget(json!({"class": class, "delta": 100})), 100.0);
        assert_eq!(budget(json!({"class": class})), 512.0);
        assert_eq!(budget(json!({"class": class, "delta": 0})), 512.0);
        assert_eq!(
            budget(json!({"class": class, "delta": 100, "overview_delta": 900})),
            900.0
        );
    }

    #[test]
    fn a_column_records_whole_numbers_whatever_the_entry_says() {
        for (entry, delta, overview_delta) in [
            (json!({}), 512, 512),
            (json!({"delta": null, "overview_delta": null}), 512, 512),
            (json!({"delta": 0}), 512, 512),
            (json!({"delta": 100.0}), 100, 100),
            (json!({"delta": 100.7}), 100, 100),
            (json!({"delta": 600}), 600, 512),
            (json!({"delta": 600, "overview_delta": 700.0}), 600, 700),
        ] {
            let mut entry = entry;
            entry["class"] = json!("approximate");
            let provenance = parse(entry.clone()).unwrap().unwrap().provenance();
            let recorded = (&provenance["delta"], &provenance["overview_delta"]);
            assert_eq!(recorded, (&json!(delta), &json!(overview_delta)), "{entry}");
            assert_eq!(budget(entry), f64::from(overview_delta));
        }
    }

    #[test]
    fn an_unknown_class_is_not_composable() {
        assert_eq!(parse(json!({"class": "none"})), Ok(None));
        assert_eq!(parse(json!({"class": "novel", "method": "x"})), Ok(None));
        assert_eq!(parse(json!({"class": "packed"})), Ok(None));
        assert_eq!(parse(json!({})), Ok(None));
    }

    #[test]
    fn another_policy_or_method_is_refused_by_name() {
        for (entry, says) in [
            (
                json!({"class": "exact", "method": "sum", "dtype": "int8", "fill_value": 0, "nan_policy": "propagate"}),
                "has nan_policy \"propagate\", and only \"skip\" is folded",
            ),
            (
                json!({"class": "approximate", "method": "tdigest_pairwise"}),
                "has method \"tdigest_pairwise\", and only \"tdigest_kway\" is folded",
            ),
            (
                json!({"class": "packed", "of": "d", "method": "majority"}),
                "has method \"majority\", and only \"composition_kway\" is folded",
            ),
        ] {
            assert_eq!(parse(entry), Err(says.to_owned()));
        }
    }

    #[test]
    fn a_known_class_with_bad_parameters_is_refused() {
        for bad in [
            json!({"class": "exact", "method": "median", "dtype": "int32", "fill_value": 0}),
            json!({"class": "exact", "method": "sum", "dtype": "complex64", "fill_value": 0}),
            json!({"class": "exact", "method": "sum", "dtype": "int8", "fill_value": 300}),
            json!({"class": "approximate", "dtype": "float64"}),
            json!({"class": "approximate", "inner_shape": [3]}),
            json!({"class": "approximate", "weights": "flux"}),
            json!({"class": "approximate", "weights": "mass"}),
            json!({"class": "approximate", "delta": -1}),
            json!({"class": "approximate", "delta": 0.5}),
            json!({"class": "approximate", "delta": "100"}),
            json!({"class": "packed", "of": "d", "dtype": "uint32"}),
            json!("exact"),
        ] {
            assert!(parse(bad.clone()).is_err(), "{bad}");
        }
    }
}
