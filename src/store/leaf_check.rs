//! Whether an array of a leaf is what the manifest declares (`format.md` section 6,
//! "Leaf read refusals").

use serde_json::{Map, Value, json};

use crate::kernels::dense::DenseType;
use crate::pyramid::{Approximate, Field, FieldClass};
use crate::store::json as text;
use crate::store::layout::{ArrayLayout, ElementType};
use crate::store::leaf_error::LeafProblem;
use crate::store::template::{located_record, temporal_record};

const RAGGED_SPEC: &str = "zagg-ragged/1";

/// What an array is to its field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role<'a> {
    /// The field's own array.
    Payload(&'a Field),
    /// One morton word per centroid.
    Locations,
    /// One toc word per centroid.
    Times,
    /// One morton word per cell.
    Words,
}

/// Checks an array's metadata against the declaration.
///
/// # Errors
/// The first difference, as a problem of that array.
pub(super) fn check_array(layout: &ArrayLayout, role: Role<'_>) -> Result<(), LeafProblem> {
    match array_problems(layout, role).into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(()),
    }
}

/// Every difference between an array's metadata and the declaration.
pub(super) fn array_problems(layout: &ArrayLayout, role: Role<'_>) -> Vec<LeafProblem> {
    let attributes = layout.attributes();
    let checks = match role {
        Role::Payload(field) => match &field.class {
            FieldClass::Exact(exact) => vec![check_dense(layout, exact.fill.dtype())],
            FieldClass::Packed(_) => vec![check_dense(layout, DenseType::Uint64)],
            FieldClass::Approximate(digest) => vec![
                check_ragged(layout, "float32", &json!([-1, 2])),
                check_weights(attributes, digest),
                check_bindings(attributes, field, digest),
            ],
        },
        Role::Words => vec![check_dense(layout, DenseType::Uint64)],
        Role::Locations => vec![
            check_ragged(layout, "uint64", &json!([-1])),
            check_record(attributes, "located", &located_record()),
        ],
        Role::Times => vec![
            check_ragged(layout, "uint64", &json!([-1])),
            check_record(attributes, "temporal", &temporal_record()),
        ],
    };
    checks.into_iter().filter_map(Result::err).collect()
}

fn check_dense(layout: &ArrayLayout, declared: DenseType) -> Result<(), LeafProblem> {
    if layout.element() == ElementType::Dense(declared) {
        return Ok(());
    }
    Err(LeafProblem::DataTypeDiffers {
        found: layout.element().to_string(),
        declared: declared.name().to_owned(),
    })
}

fn check_ragged(layout: &ArrayLayout, dtype: &str, shape: &Value) -> Result<(), LeafProblem> {
    if layout.element() != ElementType::Ragged {
        return Err(LeafProblem::DataTypeDiffers {
            found: layout.element().to_string(),
            declared: ElementType::Ragged.to_string(),
        });
    }
    let ragged = layout.attributes().get("ragged").unwrap_or(&Value::Null);
    let spec = ragged.get("spec").unwrap_or(&Value::Null);
    if spec != RAGGED_SPEC {
        return Err(LeafProblem::RaggedSpec(spec.to_string()));
    }
    let element = ragged.get("element").unwrap_or(&Value::Null);
    if element.get("dtype").is_none_or(|found| found != dtype)
        || element.get("shape") != Some(shape)
    {
        return Err(LeafProblem::DataTypeDiffers {
            found: format!("ragged {element}"),
            declared: format!("ragged {dtype} {shape}"),
        });
    }
    Ok(())
}

/// Only flux has a gain by the declaration; that of counts says nothing.
fn check_weights(attributes: &Map<String, Value>, digest: &Approximate) -> Result<(), LeafProblem> {
    let found = attributes.get("weights").filter(|value| *value != "counts");
    let declared = digest.weights.as_ref();
    let same_gain = || match (attributes.get("gain"), &digest.gain) {
        (Some(found), Some(declared)) => text::is_same(found, declared),
        (found, declared) => found == declared.as_ref(),
    };
    if found == declared && (declared.is_none() || same_gain()) {
        return Ok(());
    }
    let named = |weights: Option<&Value>, gain: Option<&Value>| {
        let weights = weights.map_or_else(|| "\"counts\"".to_owned(), Value::to_string);
        gain.map_or(weights.clone(), |gain| {
            format!("{weights} with gain {gain}")
        })
    };
    Err(LeafProblem::WeightsDiffer {
        found: named(found, attributes.get("gain")),
        declared: named(declared, digest.gain.as_ref()),
    })
}

/// The payload must name each declared companion, and no other.
fn check_bindings(
    attributes: &Map<String, Value>,
    field: &Field,
    digest: &Approximate,
) -> Result<(), LeafProblem> {
    let locations = attributes
        .get("ragged")
        .and_then(|ragged| ragged.get("locations"));
    let bindings = [
        (digest.located, field.locations_name(), locations),
        (digest.temporal, field.times_name(), attributes.get("times")),
    ];
    for (declared, companion, found) in bindings {
        let bound = found.is_some_and(|found| *found == companion);
        let absent = found.is_none_or(Value::is_null);
        if declared && !bound || !declared && !absent {
            return Err(LeafProblem::CompanionUnbound {
                companion,
                detail: match found {
                    Some(found) => format!("the payload binds {found}"),
                    None => "the payload binds none".to_owned(),
                },
            });
        }
    }
    Ok(())
}

fn check_record(
    attributes: &Map<String, Value>,
    key: &str,
    due: &Value,
) -> Result<(), LeafProblem> {
    let found = attributes.get(key);
    if found == Some(due) {
        return Ok(());
    }
    Err(LeafProblem::CompanionUnbound {
        companion: key.to_owned(),
        detail: format!(
            "its attribute `{key}` is {}",
            found.map_or_else(|| "absent".to_owned(), Value::to_string)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights_agree(declared: Value, found: Value) -> bool {
        let mut entry = declared;
        entry["class"] = json!("approximate");
        let field = Field::parse("d", &entry).unwrap().unwrap();
        let FieldClass::Approximate(digest) = field.class else {
            panic!("{entry} is a digest");
        };
        check_weights(found.as_object().unwrap(), &digest).is_ok()
    }

    #[test]
    fn a_gain_is_compared_where_weights_are_flux() {
        let flux = |gain: Value| json!({"weights": "flux", "gain": gain});
        for (declared, found) in [
            (json!({}), json!({})),
            (json!({}), json!({"weights": "counts", "gain": 2})),
            (json!({"gain": 3}), json!({"gain": 2})),
            (json!({"gain": 3}), json!({})),
            (flux(json!(1)), flux(json!(1.0))),
            (flux(json!({"value": 1.0})), flux(json!({"value": 1}))),
        ] {
            assert!(
                weights_agree(declared.clone(), found.clone()),
                "{declared} {found}"
            );
        }
        for (declared, found) in [
            (flux(json!(1)), flux(json!(2))),
            (flux(json!(1)), json!({"weights": "flux"})),
            (flux(json!(1)), json!({"gain": 1})),
            (json!({}), flux(json!(1))),
        ] {
            assert!(
                !weights_agree(declared.clone(), found.clone()),
                "{declared} {found}"
            );
        }
    }
}
