//! What the artifacts of a ladder look like (`format.md` sections 7 and 9).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::kernels::plan::{FoldLaw, cells_between};
use crate::kernels::words::morton;
use crate::ladder::generation::{Generation, SourceChildren};
use crate::pyramid::{DeclarationError, FieldClass, LadderPlan, Level, Regime};
use crate::store::array::{Cut, EncodeError};
use crate::store::artifact::{Artifact, Tier};
use crate::store::template::{COLUMN_SPEC, ColumnTemplate, GroupTemplate};

/// The specification of an overview of a ladder.
pub(crate) const OVERVIEW_SPEC: &str = "zagg-overview/2";

/// Cells of a group that is one object; wider ones are cut into objects of as many.
pub(crate) const BLOCK_CELLS: u64 = 4u64.pow(5);

/// The shape of a ladder's artifacts.
#[derive(Debug)]
pub(crate) struct LadderTemplate {
    /// The columns below the ladder.
    pub column: Arc<ColumnTemplate>,
    /// Which artifacts there are.
    pub plan: LadderPlan,
    /// Per level of the plan.
    levels: Vec<LevelTemplate>,
    overview_fields: Value,
}

/// The groups of the artifacts of one level.
#[derive(Debug)]
struct LevelTemplate {
    overview: Vec<GroupTemplate>,
    stage: Vec<GroupTemplate>,
}

/// Where the cells of an artifact of the ladder came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Origin {
    /// How they came.
    pub regime: Regime,
    /// Leaves, sweeps and times it goes back to.
    pub generation: Generation,
    /// Columns it was folded from.
    pub children: SourceChildren,
}

impl LadderTemplate {
    /// The artifacts above columns of this template.
    ///
    /// # Errors
    /// When the declaration has no ladder that can be built, or an array of the template
    /// cannot be, which is a fault of the program.
    pub(crate) fn new(column: Arc<ColumnTemplate>) -> Result<Self, TemplateError> {
        let plan = LadderPlan::new(&column.declaration, &column.plan, column.windowed)?;
        let group = |level: &Level, cells: u8| {
            let n_cells = cells_between(cells, level.order);
            let cut = match column.law {
                FoldLaw::Boundary if n_cells > BLOCK_CELLS => Cut::Chunked { cells: BLOCK_CELLS },
                _ => Cut::Single,
            };
            GroupTemplate::new(&column.declaration.fields, cells, n_cells, cut)
        };
        let levels = plan.levels.iter().map(|level| {
            let stage = level.stage_groups.iter().map(|cells| group(level, *cells));
            Ok(LevelTemplate {
                overview: vec![group(level, level.cells)?],
                stage: stage.collect::<Result<_, EncodeError>>()?,
            })
        });
        let levels = levels.collect::<Result<_, EncodeError>>()?;
        let fields = column.declaration.fields.iter().map(|field| {
            let mut provenance = field.provenance();
            if let (Some(map), false) = (
                provenance.as_object_mut(),
                matches!(field.class, FieldClass::Exact(_)),
            ) {
                map.retain(|key, _| key == "class" || key == "method");
            }
            (field.name.clone(), provenance)
        });
        Ok(Self {
            overview_fields: Value::Object(fields.collect::<Map<_, _>>()),
            levels,
            plan,
            column,
        })
    }

    /// The groups of an artifact of this tier at a level, finest first.
    pub(crate) fn groups(&self, level: &Level, tier: Tier) -> &[GroupTemplate] {
        let index = self.plan.levels.iter().position(|found| found == level);
        let Some(template) = index.and_then(|index| self.levels.get(index)) else {
            return &[];
        };
        match tier {
            Tier::Overview => &template.overview,
            Tier::Column => &template.stage,
        }
    }

    /// What the record of an artifact always says, from its address alone.
    fn address(&self, level: &Level, artifact: &Artifact) -> Map<String, Value> {
        let declaration = &self.column.declaration;
        let members = match artifact.tier {
            Tier::Overview => json!({
                "spec": OVERVIEW_SPEC,
                "node": artifact.id,
                "order": level.order,
                "cell_order": level.cells,
                "source_shard_order": declaration.shard_order,
                "source_cell_order": declaration.cell_order,
                "window": artifact.label(),
                "fields": self.overview_fields,
            }),
            Tier::Column => json!({
                "spec": COLUMN_SPEC,
                "node": artifact.id,
                "order": level.order,
                "source_cell_order": declaration.cell_order,
                "window": artifact.label(),
                "fields": self.column.provenance(),
                "groups": self.stage_groups(level),
            }),
        };
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    fn stage_groups(&self, level: &Level) -> Value {
        let groups = level.stage_groups.iter().map(|cells| {
            let record = json!({
                "regime": Regime::Gather.as_str(),
                "merges_from_raw": Regime::Gather.merges_from_raw(),
                "n_cells": cells_between(*cells, level.order),
            });
            (cells.to_string(), record)
        });
        Value::Object(groups.collect())
    }

    /// The record of an artifact; overviews also have the hash of their content.
    pub(crate) fn record(
        &self,
        level: &Level,
        artifact: &Artifact,
        origin: &Origin,
        content_hash: Option<&str>,
        run_id: &str,
        generated_at: &str,
    ) -> Value {
        let mut record = self.address(level, artifact);
        let mut put = |key: &str, value: Value| record.insert(key.to_owned(), value);
        let (children, generation) = (origin.children.to_json(), origin.generation.to_json());
        match artifact.tier {
            Tier::Overview => {
                put("regime", json!(origin.regime.as_str()));
                put("merges_from_raw", json!(origin.regime.merges_from_raw()));
                put("source_children", children);
                put("generation", generation);
                put("content_hash", json!(content_hash));
            }
            Tier::Column => {
                put("generation", generation);
                put("source_children", children);
                put("cells_with_data_order", json!(level.stage_groups.first()));
            }
        }
        put("run_id", json!(run_id));
        put("generated_at", json!(generated_at));
        Value::Object(record)
    }

    /// The first member of a record that another address or declaration would have: its
    /// name and what is due there.
    pub(crate) fn drift_of(
        &self,
        level: &Level,
        artifact: &Artifact,
        record: &Value,
    ) -> Option<(String, Value)> {
        let declared = self.address(level, artifact);
        declared
            .into_iter()
            .find(|(key, value)| record.get(key) != Some(value))
    }

    /// Whether the record of a column below the ladder is of this declaration.
    pub(crate) fn declares(&self, column: &Artifact, record: &Value) -> bool {
        let level = morton::order(column.word)
            .ok()
            .and_then(|order| self.plan.level(order));
        match level {
            Some(level) => self
                .origin_of(level, column, Regime::Gather, record)
                .is_some(),
            None => self.column.matches_record(record),
        }
    }

    /// Whether a record is of this declaration, and where it says its cells came from.
    pub(crate) fn origin_of(
        &self,
        level: &Level,
        artifact: &Artifact,
        regime: Regime,
        record: &Value,
    ) -> Option<Origin> {
        let declared = self.address(level, artifact);
        let same = declared
            .iter()
            .all(|(key, value)| record.get(key) == Some(value));
        let regime_of = |record: &Value| match artifact.tier {
            Tier::Overview => record.get("regime") == Some(&json!(regime.as_str())),
            Tier::Column => true,
        };
        if !same || !regime_of(record) {
            return None;
        }
        Some(Origin {
            regime,
            generation: Generation::parse(record.get("generation")?)?,
            children: SourceChildren::parse(record.get("source_children")?)?,
        })
    }
}

/// Why a ladder has no template.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    /// The declaration has no ladder that can be built.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// An array cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}
