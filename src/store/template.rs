//! What every column of a pass looks like: groups, members, metadata documents.
//!
//! In: the declaration, the fold law and whether the store is windowed. Out: one
//! [`ColumnTemplate`], derived once per pass; writer and gate both use it, so what is
//! written is what is later found current. `format.md` section 7.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::kernels::dense::{DenseType, FillValue};
use crate::kernels::plan::{FoldLaw, FoldPlan, cells_between};
use crate::pyramid::{Approximate, Declaration, Field, FieldClass, Packed};
use crate::store::array::{ArrayTemplate, Cut, EncodeError};
use crate::store::stamp::group_document;
use crate::store::{METADATA, json};

/// Groups of at least this many cells are sharded under the boundary law.
const SHARDED_FROM_CELLS: u64 = 4u64.pow(5);
/// Cells of an inner chunk of such a group.
const SHARD_INNER_CELLS: u64 = 4u64.pow(4);

/// The specification of a column.
pub(crate) const COLUMN_SPEC: &str = "zagg-column/1";
const COMPOSITION_LANES: [&str; 8] = [
    "land",
    "ocean",
    "sea_ice",
    "land_ice",
    "inland_water",
    "low",
    "med",
    "high",
];

/// Name of the array of cell words in every group.
pub(crate) const MORTON: &str = "morton";

/// The shape of a pass's columns.
#[derive(Debug)]
pub(crate) struct ColumnTemplate {
    /// What the manifest declares.
    pub declaration: Declaration,
    /// Which cells each group folds from.
    pub plan: FoldPlan,
    /// The law columns are folded and cut by.
    pub law: FoldLaw,
    /// Whether leaves have windows.
    pub windowed: bool,
    /// The groups, finest first.
    pub groups: Vec<GroupTemplate>,
    provenance: Value,
    group_records: Value,
}

/// One group of a column.
#[derive(Debug)]
pub(crate) struct GroupTemplate {
    /// Order of its cells.
    pub order: u8,
    /// Number of its cells.
    pub n_cells: u64,
    /// The cell words.
    pub morton: ArrayTemplate,
    /// The members of each declared field, in declaration order.
    pub fields: Vec<FieldMembers>,
}

/// The arrays of one field in a group.
#[derive(Debug)]
pub(crate) struct FieldMembers {
    /// The field's own array.
    pub payload: ArrayTemplate,
    /// One morton word per centroid.
    pub locations: Option<ArrayTemplate>,
    /// One toc word per centroid.
    pub times: Option<ArrayTemplate>,
}

impl FieldMembers {
    /// Every array of the field.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &ArrayTemplate> {
        std::iter::once(&self.payload)
            .chain(&self.locations)
            .chain(&self.times)
    }
}

impl GroupTemplate {
    /// A group of `n_cells` cells of `order`.
    ///
    /// # Errors
    /// When an array of the template cannot be built, which is a fault of the program.
    pub(crate) fn new(
        fields: &[Field],
        order: u8,
        n_cells: u64,
        cut: Cut,
    ) -> Result<Self, EncodeError> {
        let words = FillValue::zero(DenseType::Uint64);
        Ok(Self {
            order,
            n_cells,
            morton: ArrayTemplate::dense(MORTON, words, n_cells, cut, Map::new())?,
            fields: fields
                .iter()
                .map(|field| members(field, n_cells, cut))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The metadata documents of the group and its arrays, by their keys below the
    /// artifact. `attributes` are those of the group the cells come from; nothing but the
    /// order of the cells differs (`format.md` section 7).
    pub(crate) fn documents(&self, attributes: &Map<String, Value>) -> Vec<(String, Bytes)> {
        let mut attributes = attributes.clone();
        if let Some(Value::Object(dggs)) = attributes.get_mut("dggs") {
            dggs.insert("refinement_level".to_owned(), json!(self.order));
        }
        let order = self.order;
        let group = json::python_pretty(&group_document(attributes), json::ZARR_INDENT);
        let group = (format!("{order}/{METADATA}"), Bytes::from(group));
        let arrays = self.arrays().map(|array| {
            let key = format!("{order}/{}/{METADATA}", array.name);
            (key, array.document.bytes.clone())
        });
        std::iter::once(group).chain(arrays).collect()
    }

    /// Every array of the group.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = &ArrayTemplate> {
        std::iter::once(&self.morton).chain(self.fields.iter().flat_map(FieldMembers::arrays))
    }
}

impl ColumnTemplate {
    /// Derives the template of a pass.
    ///
    /// # Errors
    /// When an array of the template cannot be built, which is a fault of the program.
    pub(crate) fn new(
        declaration: Declaration,
        law: FoldLaw,
        windowed: bool,
    ) -> Result<Self, EncodeError> {
        let plan = FoldPlan::new(
            declaration.cell_order,
            declaration.shard_order,
            &declaration.groups,
            law,
        );
        let groups = declaration
            .groups
            .iter()
            .map(|order| column_group(&declaration, *order, law))
            .collect::<Result<Vec<_>, _>>()?;
        let provenance = declaration
            .fields
            .iter()
            .map(|field| (field.name.clone(), field.provenance()))
            .collect::<Map<_, _>>();
        let group_records = groups
            .iter()
            .map(|group| {
                let record = json!({
                    "regime": "leaf-column",
                    "merges_from_raw": plan.merges_from_raw(group.order),
                    "n_cells": group.n_cells,
                });
                (group.order.to_string(), record)
            })
            .collect::<Map<_, _>>();
        Ok(Self {
            declaration,
            plan,
            law,
            windowed,
            groups,
            provenance: Value::Object(provenance),
            group_records: Value::Object(group_records),
        })
    }

    /// What columns record of how each field was folded.
    pub(crate) fn provenance(&self) -> &Value {
        &self.provenance
    }

    /// Order of the finest group.
    pub(crate) fn finest(&self) -> u8 {
        self.declaration.groups[0]
    }

    /// The specification a column's stamp names.
    pub(crate) fn stamp_spec(&self) -> &'static str {
        if self.windowed {
            "morton-hive/2"
        } else {
            "morton-hive/1"
        }
    }

    /// Whether stamps carry the hashes of what they stamp; stores of the raw law are older
    /// than that.
    pub(crate) fn stamps_hashes(&self) -> bool {
        self.law == FoldLaw::Boundary
    }

    /// The `zagg_column` record of one column.
    pub(crate) fn column_record(&self, node: &str, window: &str, generated_at: &str) -> Value {
        json!({
            "spec": COLUMN_SPEC,
            "node": node,
            "order": self.declaration.shard_order,
            "source_cell_order": self.declaration.cell_order,
            "window": window,
            "fields": self.provenance,
            "groups": self.group_records,
            "cells_with_data_order": self.finest(),
            "generated_at": generated_at,
        })
    }

    /// Whether a column's record is of this declaration and law.
    pub(crate) fn matches_record(&self, record: &Value) -> bool {
        record.get("spec") == Some(&json!(COLUMN_SPEC))
            && record.get("order") == Some(&json!(self.declaration.shard_order))
            && record.get("source_cell_order") == Some(&json!(self.declaration.cell_order))
            && record.get("groups") == Some(&self.group_records)
            && record.get("fields") == Some(&self.provenance)
    }
}

/// A group of a leaf's column.
fn column_group(
    declaration: &Declaration,
    order: u8,
    law: FoldLaw,
) -> Result<GroupTemplate, EncodeError> {
    let n_cells = cells_between(order, declaration.shard_order);
    let cut = match law {
        FoldLaw::Boundary if n_cells >= SHARDED_FROM_CELLS => Cut::Sharded {
            inner_cells: SHARD_INNER_CELLS,
        },
        _ => Cut::Single,
    };
    GroupTemplate::new(&declaration.fields, order, n_cells, cut)
}

fn members(field: &Field, n_cells: u64, cut: Cut) -> Result<FieldMembers, EncodeError> {
    let alone = |payload| FieldMembers {
        payload,
        locations: None,
        times: None,
    };
    match &field.class {
        FieldClass::Exact(exact) => {
            ArrayTemplate::dense(&field.name, exact.fill, n_cells, cut, Map::new()).map(alone)
        }
        FieldClass::Packed(packed) => {
            let fill = FillValue::zero(DenseType::Uint64);
            ArrayTemplate::dense(
                &field.name,
                fill,
                n_cells,
                cut,
                composition_attributes(packed),
            )
            .map(alone)
        }
        FieldClass::Approximate(digest) => {
            let companion = |present: bool, name: String, key: &str, record: Value| {
                present
                    .then(|| {
                        let attributes = companion_attributes(key, record);
                        ArrayTemplate::ragged(&name, n_cells, cut, attributes)
                    })
                    .transpose()
            };
            Ok(FieldMembers {
                payload: ArrayTemplate::ragged(
                    &field.name,
                    n_cells,
                    cut,
                    payload_attributes(field, digest),
                )?,
                locations: companion(
                    digest.located,
                    field.locations_name(),
                    "located",
                    located_record(),
                )?,
                times: companion(
                    digest.temporal,
                    field.times_name(),
                    "temporal",
                    temporal_record(),
                )?,
            })
        }
    }
}

/// What an array of one morton word per centroid says of itself.
pub(crate) fn located_record() -> Value {
    json!({"spec": "zagg-located/1", "shape": "per-centroid", "grammar": "mortie-morton/1"})
}

/// What an array of one toc word per centroid says of itself.
pub(crate) fn temporal_record() -> Value {
    json!({"spec": "zagg-toc/1", "shape": "per-centroid", "grammar": "mortie-toc/1"})
}

/// Attributes of a digest's payload array.
pub(crate) fn payload_attributes(field: &Field, digest: &Approximate) -> Map<String, Value> {
    let mut ragged = Map::new();
    ragged.insert("spec".to_owned(), json!("zagg-ragged/1"));
    ragged.insert(
        "element".to_owned(),
        json!({"dtype": "float32", "shape": [-1, 2]}),
    );
    if digest.located {
        ragged.insert("locations".to_owned(), json!(field.locations_name()));
    }
    let mut attributes = Map::new();
    attributes.insert("ragged".to_owned(), Value::Object(ragged));
    if let Some(weights) = &digest.weights {
        attributes.insert("weights".to_owned(), weights.clone());
    }
    if let Some(gain) = &digest.gain {
        attributes.insert("gain".to_owned(), gain.clone());
    }
    if digest.temporal {
        attributes.insert("times".to_owned(), json!(field.times_name()));
    }
    attributes
}

/// Attributes of a companion array: its ragged element and what its words mean.
pub(crate) fn companion_attributes(key: &str, record: Value) -> Map<String, Value> {
    let mut attributes = Map::new();
    attributes.insert(
        "ragged".to_owned(),
        json!({"spec": "zagg-ragged/1", "element": {"dtype": "uint64", "shape": [-1]}}),
    );
    attributes.insert(key.to_owned(), record);
    attributes
}

/// Attributes of a packed composition.
pub(crate) fn composition_attributes(packed: &Packed) -> Map<String, Value> {
    let mut composition = Map::new();
    composition.insert("of".to_owned(), json!(packed.of));
    if let Some(threshold) = &packed.threshold {
        composition.insert("threshold".to_owned(), threshold.clone());
    }
    composition.insert("spec".to_owned(), json!("zagg-composition/1"));
    composition.insert("lanes".to_owned(), json!(COMPOSITION_LANES));
    Map::from_iter([("composition".to_owned(), Value::Object(composition))])
}
