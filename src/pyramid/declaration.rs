//! The `zagg-pyramid/2` block of a manifest, as the column pass needs it.
//!
//! In: the manifest. Out: [`Declaration`], or the refusal an operator can act on.
//! `format.md` section 5.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::pyramid::field::{Field, FieldClass};
use crate::store::template::MORTON;

/// The specification this program writes.
const PYRAMID_SPEC: &str = "zagg-pyramid/2";

const CURE: &str =
    "re-declare the pyramid with `zagg-stream declare ROOT --config FILE --overviews N`";

/// Why the pyramid block of a manifest cannot be followed.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum DeclarationError {
    /// There is no pyramid block.
    #[error("the manifest declares no pyramid; {CURE}")]
    Absent,
    /// The block is of another specification, or says the pyramid is off.
    #[error("the manifest declares pyramid spec {found}{}, not `{PYRAMID_SPEC}`; {CURE}", off(.declared_off))]
    Spec {
        /// The spec found.
        found: Value,
        /// Whether the block is the one that declares a pyramid off.
        declared_off: bool,
    },
    /// `overviews` is not a list of levels.
    #[error("pyramid.overviews is {0}; {CURE}")]
    Overviews(String),
    /// No level stands at the shard order, so a leaf has no column.
    #[error("pyramid.overviews has no entry at the shard order {shard_order}; {CURE}")]
    NoLeafEntry {
        /// Order of the shards.
        shard_order: u8,
    },
    /// The column would skip an order.
    #[error(
        "the column tier steps from order {finest} to {shard_order} and lacks {missing:?}; {CURE}"
    )]
    Gap {
        /// Finest order of the column.
        finest: u8,
        /// Order of the shards.
        shard_order: u8,
        /// Orders no entry declares.
        missing: Vec<u8>,
    },
    /// A level's resolution is not between the shard order and the cell order.
    #[error(
        "pyramid.overviews declares cells at order {cells}, which must be coarser than the leaf's {cell_order}; {CURE}"
    )]
    TooFine {
        /// The resolution declared.
        cells: u8,
        /// Order of the leaf's cells.
        cell_order: u8,
    },
    /// `overview.fields` is not a map.
    #[error("pyramid.overview.fields is not a map; {CURE}")]
    FieldsNotAMap,
    /// A field of a known class has unusable parameters.
    #[error("pyramid.overview.fields: `{field}` {problem}; {CURE}")]
    Field {
        /// Name of the field.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No field can be folded.
    #[error(
        "pyramid.overview.fields declares no composable field: every one is of class none; {CURE}"
    )]
    NoComposableField,
    /// A level of the ladder has no entry, or several.
    #[error(
        "pyramid.overviews has {found} entries at order {order}, where the ladder needs one; {CURE}"
    )]
    LadderEntries {
        /// Order of the level's nodes.
        order: u8,
        /// Entries found there.
        found: usize,
    },
    /// A level of the ladder has cells of several orders.
    #[error(
        "pyramid.overviews declares cells at orders {cells:?} for nodes of order {order}, where the ladder needs one order; {CURE}"
    )]
    LadderCells {
        /// Order of the level's nodes.
        order: u8,
        /// The resolutions declared.
        cells: Vec<u8>,
    },
    /// A level's resolution is not between its nodes and the leaf's cells.
    #[error(
        "pyramid.overviews declares cells at order {cells} for nodes of order {order}, which must be finer than the nodes and coarser than the leaf's {cell_order}; {CURE}"
    )]
    LadderResolution {
        /// Order of the level's nodes.
        order: u8,
        /// The resolution declared.
        cells: u8,
        /// Order of the leaf's cells.
        cell_order: u8,
    },
    /// A level gathers cells of an order that the columns do not carry.
    #[error(
        "pyramid.overviews declares cells at order {cells} for nodes of order {order}, and the columns carry only {groups:?}; {CURE}"
    )]
    LadderGroup {
        /// Order of the level's nodes.
        order: u8,
        /// The resolution declared.
        cells: u8,
        /// Orders of the columns' groups.
        groups: Vec<u8>,
    },
}

fn off(declared_off: &bool) -> &'static str {
    if *declared_off { " (declared off)" } else { "" }
}

/// One level of the pyramid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Order of the nodes that carry the level.
    pub node: u8,
    /// Orders of the cells each node carries, finest first.
    pub cells: Vec<u8>,
}

/// A pyramid that can be built.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Order of a shard, and of the column's node.
    pub shard_order: u8,
    /// Order of a leaf's cells.
    pub cell_order: u8,
    /// The levels as declared.
    pub entries: Vec<Entry>,
    /// The composable fields, in declaration order.
    pub fields: Vec<Field>,
    /// Orders of the column's groups, finest first, ending with the shard order.
    pub groups: Vec<u8>,
    /// Whether a windowed store also has overviews of all its windows together.
    pub all_time: bool,
}

impl Declaration {
    /// Reads the pyramid block of a manifest with these orders.
    ///
    /// # Errors
    /// The refusals of the column pass (`format.md` section 5).
    pub fn parse(
        pyramid: Option<&Value>,
        shard_order: u8,
        cell_order: u8,
    ) -> Result<Self, DeclarationError> {
        let block = pyramid
            .filter(|block| !block.is_null())
            .ok_or(DeclarationError::Absent)?;
        check_spec(block)?;
        let entries = entries(block)?;
        let groups = column_groups(&entries, shard_order, cell_order)?;
        let fields = fields(block)?;
        Ok(Self {
            shard_order,
            cell_order,
            entries,
            fields,
            groups,
            all_time: all_time(block),
        })
    }
}

fn check_spec(block: &Value) -> Result<(), DeclarationError> {
    if block.get("spec").and_then(Value::as_str) == Some(PYRAMID_SPEC) {
        return Ok(());
    }
    let orders = block
        .get("overview")
        .and_then(|overview| overview.get("orders"));
    Err(DeclarationError::Spec {
        found: block.get("spec").cloned().unwrap_or(Value::Null),
        declared_off: orders.and_then(Value::as_array).is_some_and(Vec::is_empty),
    })
}

fn all_time(block: &Value) -> bool {
    block
        .get("overview")
        .and_then(|overview| overview.get("all_time"))
        .is_some_and(|all_time| all_time == true)
}

fn entries(block: &Value) -> Result<Vec<Entry>, DeclarationError> {
    let bad = |what: &str| DeclarationError::Overviews(what.to_owned());
    let list = match block.get("overviews") {
        None => return Err(bad("missing")),
        Some(Value::Array(list)) if list.is_empty() => return Err(bad("empty")),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(bad("not a list of {node, cells} entries")),
    };
    list.iter()
        .map(|entry| {
            entry_of(entry).ok_or_else(|| {
                DeclarationError::Overviews(format!(
                    "not a list of {{node, cells}}: it holds {entry}"
                ))
            })
        })
        .collect()
}

fn entry_of(entry: &Value) -> Option<Entry> {
    let cells: Option<Vec<u8>> = entry.get("cells")?.as_array()?.iter().map(order).collect();
    let mut cells = cells.filter(|cells| !cells.is_empty())?;
    cells.sort_unstable_by(|a, b| b.cmp(a));
    Some(Entry {
        node: order(entry.get("node")?)?,
        cells,
    })
}

fn order(value: &Value) -> Option<u8> {
    value.as_u64().and_then(|order| u8::try_from(order).ok())
}

/// Column resolutions: every declared order of cells at or below the node, and the
/// node's own.
fn column_groups(
    entries: &[Entry],
    shard_order: u8,
    cell_order: u8,
) -> Result<Vec<u8>, DeclarationError> {
    if !entries.iter().any(|entry| entry.node == shard_order) {
        return Err(DeclarationError::NoLeafEntry { shard_order });
    }
    let mut groups: Vec<u8> = entries
        .iter()
        .flat_map(|entry| entry.cells.iter().copied())
        .filter(|cells| *cells >= shard_order)
        .chain([shard_order])
        .collect();
    groups.sort_unstable_by(|a, b| b.cmp(a));
    groups.dedup();
    let finest = groups[0];
    if finest >= cell_order {
        return Err(DeclarationError::TooFine {
            cells: finest,
            cell_order,
        });
    }
    let missing: Vec<u8> = (shard_order..finest)
        .filter(|k| !groups.contains(k))
        .collect();
    if !missing.is_empty() {
        return Err(DeclarationError::Gap {
            finest,
            shard_order,
            missing,
        });
    }
    Ok(groups)
}

fn fields(block: &Value) -> Result<Vec<Field>, DeclarationError> {
    let declared = block
        .get("overview")
        .and_then(|overview| overview.get("fields"))
        .and_then(Value::as_object)
        .ok_or(DeclarationError::FieldsNotAMap)?;
    let mut fields = Vec::new();
    for (name, value) in declared {
        let parsed = Field::parse(name, value).map_err(|problem| DeclarationError::Field {
            field: name.clone(),
            problem,
        })?;
        fields.extend(parsed);
    }
    if fields.is_empty() {
        return Err(DeclarationError::NoComposableField);
    }
    check_names(&fields)?;
    check_weighing_digests(&fields)?;
    Ok(fields)
}

/// The arrays of a group must have names that are one path component, and each its own.
fn check_names(fields: &[Field]) -> Result<(), DeclarationError> {
    let refused = |field: &Field, problem: String| DeclarationError::Field {
        field: field.name.clone(),
        problem,
    };
    let mut taken = BTreeSet::from([MORTON.to_owned()]);
    for field in fields {
        let name = field.name.as_str();
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
            return Err(refused(field, "is no name of an array".to_owned()));
        }
        let (located, temporal) = field.channels();
        let companions = [
            located.then(|| field.locations_name()),
            temporal.then(|| field.times_name()),
        ];
        for array in std::iter::once(field.name.clone()).chain(companions.into_iter().flatten()) {
            if !taken.insert(array.clone()) {
                return Err(refused(
                    field,
                    format!("needs the array `{array}`, which another has"),
                ));
            }
        }
    }
    Ok(())
}

/// A packed field folds by the weights of a digest, which must be there and count.
fn check_weighing_digests(fields: &[Field]) -> Result<(), DeclarationError> {
    for field in fields {
        let FieldClass::Packed(packed) = &field.class else {
            continue;
        };
        let weighs = fields.iter().any(|digest| {
            digest.name == packed.of
                && matches!(&digest.class, FieldClass::Approximate(digest) if digest.weights.is_none())
        });
        if !weighs {
            return Err(DeclarationError::Field {
                field: field.name.clone(),
                problem: format!(
                    "is packed by `{}`, which is no declared counts digest",
                    packed.of
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(overviews: Value, fields: Value) -> Value {
        json!({"spec": PYRAMID_SPEC, "overviews": overviews, "overview": {"fields": fields}})
    }

    fn count() -> Value {
        json!({"count": {"class": "exact", "method": "sum", "dtype": "int32", "fill_value": 0}})
    }

    fn refusal(block: Value) -> String {
        let text = Declaration::parse(Some(&block), 4, 6)
            .unwrap_err()
            .to_string();
        assert!(text.contains("re-declare the pyramid with"), "{text}");
        text
    }

    #[test]
    fn the_groups_of_a_column_are_contiguous_and_finest_first() {
        let declared = json!([
            {"node": 4, "cells": [8]}, {"node": 3, "cells": [7]}, {"node": 2, "cells": [6]},
            {"node": 1, "cells": [5]}, {"node": 0, "cells": [4]}
        ]);
        let declaration = Declaration::parse(Some(&block(declared, count())), 4, 12).unwrap();
        assert_eq!(declaration.groups, [8, 7, 6, 5, 4]);
    }

    #[test]
    fn every_refusal_names_itself_and_the_cure() {
        let leaf = json!([{"node": 4, "cells": [5]}]);
        assert!(
            refusal(json!({"spec": "zagg-pyramid/1", "overview": {"orders": []}}))
                .contains("declared off")
        );
        assert!(refusal(json!({"spec": "zagg-pyramid/3"})).contains("zagg-pyramid/3"));
        assert!(refusal(json!({"spec": PYRAMID_SPEC})).contains("overviews is missing"));
        assert!(refusal(block(json!([]), count())).contains("overviews is empty"));
        assert!(refusal(block(json!({}), count())).contains("not a list"));
        assert!(refusal(block(json!([{"node": 4}]), count())).contains("{\"node\":4}"));
        assert!(
            refusal(block(json!([{"node": 3, "cells": [4]}]), count())).contains("shard order 4")
        );
        assert!(refusal(block(json!([{"node": 4, "cells": [6]}]), count())).contains("order 6"));
        assert!(refusal(block(leaf.clone(), json!([]))).contains("not a map"));
        assert!(
            refusal(block(leaf.clone(), json!({"m": {"class": "none"}})))
                .contains("no composable field")
        );
        assert!(
            refusal(block(leaf.clone(), json!({"m": {"class": "exact"}})))
                .contains("`m` has no method")
        );
        assert!(
            refusal(block(leaf, json!({"p": {"class": "packed", "of": "d"}})))
                .contains("counts digest")
        );
        assert!(
            Declaration::parse(None, 4, 6)
                .unwrap_err()
                .to_string()
                .contains("no pyramid")
        );
    }

    #[test]
    fn only_true_declares_overviews_of_all_time() {
        let mut declared = block(json!([{"node": 4, "cells": [5]}]), count());
        let all_time = |block: &Value| Declaration::parse(Some(block), 4, 6).unwrap().all_time;
        assert!(!all_time(&declared));
        for (value, expected) in [
            (json!(true), true),
            (json!(false), false),
            (json!(1), false),
        ] {
            declared["overview"]["all_time"] = value;
            assert_eq!(all_time(&declared), expected);
        }
    }

    #[test]
    fn arrays_need_names_of_their_own() {
        let leaf = json!([{"node": 4, "cells": [5]}]);
        let digest = json!({"class": "approximate", "location": "leaf_id"});
        for (name, problem) in [
            ("morton", "another has"),
            ("a/b", "no name"),
            ("..", "no name"),
            ("", "no name"),
            ("d_locations", "another has"),
        ] {
            let mut fields = json!({"d": digest});
            fields[name] = count()["count"].clone();
            let text = refusal(block(leaf.clone(), fields));
            assert!(text.contains(problem), "{name}: {text}");
        }
    }

    #[test]
    fn a_gap_is_refused_naming_the_missing_orders() {
        let gap = block(json!([{"node": 4, "cells": [8]}]), count());
        let error = Declaration::parse(Some(&gap), 4, 12).unwrap_err();
        assert_eq!(
            error,
            DeclarationError::Gap {
                finest: 8,
                shard_order: 4,
                missing: vec![5, 6, 7]
            }
        );
    }
}
