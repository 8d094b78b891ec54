//! The documents of a declaration: the pyramid block, what a prior one hands on to it,
//! and the `multiscales` mirror (`format.md` section 5).

use serde_json::{Map, Value, json};

use super::classify::Classified;
use super::config::{Config, ConfigError, to_json};
use super::schedule::ladder;
use crate::yaml::Yaml;

/// What stood in the manifest before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Previous {
    /// No pyramid block.
    Absent,
    /// The same declaration, so nothing is written.
    Identical,
    /// Another declaration.
    Replaced,
}

/// The block that declares a pyramid off.
pub(crate) fn declared_off() -> Value {
    json!({"spec": "zagg-pyramid/1", "overview": {"orders": []}})
}

/// The block of these levels at the leaves, with the fold settings of the configuration.
///
/// # Errors
/// When a setting cannot be written into a manifest.
pub(crate) fn block(
    config: &Config,
    levels: &[u8],
    shard_order: u8,
    classified: &Classified,
) -> Result<Value, ConfigError> {
    let settings = config.output("pyramid").unwrap_or(&Yaml::Null);
    let setting = |key: &str, default: Value| {
        let path = format!("output.pyramid.{key}");
        settings
            .present(key)
            .map_or(Ok(default), |value| to_json(value, &path))
    };
    let mut overview = Map::new();
    overview.insert("all_time".to_owned(), setting("all_time", json!(false))?);
    let fold_source = setting("fold_source", json!("cascade"))?;
    let cascade = fold_source == "cascade";
    overview.insert("fold_source".to_owned(), fold_source);
    if cascade {
        overview.insert(
            "exact_levels".to_owned(),
            setting("exact_levels", json!(1))?,
        );
    }
    overview.insert(
        "fields".to_owned(),
        Value::Object(classified.fields.clone()),
    );
    if settings.present("summarize").is_some() {
        overview.insert("summarize".to_owned(), setting("summarize", Value::Null)?);
    }
    let entry = |(node, cells)| json!({"node": node, "cells": cells});
    let entries: Vec<Value> = ladder(levels, shard_order).into_iter().map(entry).collect();
    Ok(json!({"spec": "zagg-pyramid/2", "overviews": entries, "overview": overview}))
}

/// Sets `block` beside the one it follows: takes over what was recorded of the levels that
/// did not change and of what is on disk, and says whether it is the same declaration.
pub(crate) fn redeclare(prior: Option<&Value>, mut block: Value) -> (Value, Previous) {
    let Some(prior) = prior.filter(|prior| !prior.is_null()) else {
        return (block, Previous::Absent);
    };
    if bare(prior) == bare(&block) {
        return (prior.clone(), Previous::Identical);
    }
    if let Some(materialized) = prior.pointer("/overview/materialized") {
        block["overview"]["materialized"] = materialized.clone();
    }
    for entry in entries_mut(&mut block) {
        let same = |known: &&Value| {
            known.get("node") == entry.get("node") && known.get("cells") == entry.get("cells")
        };
        let known = prior.get("overviews").and_then(Value::as_array);
        let actuals = known.and_then(|known| known.iter().find(same)?.get("actuals"));
        if let Some(actuals) = actuals {
            entry["actuals"] = actuals.clone();
        }
    }
    (block, Previous::Replaced)
}

/// A block without what passes record in it.
fn bare(block: &Value) -> Value {
    let mut block = block.clone();
    if let Some(Value::Object(overview)) = block.get_mut("overview") {
        overview.shift_remove("materialized");
    }
    for entry in entries_mut(&mut block) {
        if let Value::Object(entry) = entry {
            entry.shift_remove("actuals");
        }
    }
    block
}

fn entries_mut(block: &mut Value) -> impl Iterator<Item = &mut Value> {
    let entries = block.get_mut("overviews").and_then(Value::as_array_mut);
    entries.into_iter().flatten()
}

/// The mirror of a block for readers that know multiscale images; `None` of a block that
/// is not `/2`.
pub(crate) fn multiscales(manifest: &Map<String, Value>, block: &Value) -> Option<Value> {
    if block.get("spec")? != "zagg-pyramid/2" {
        return None;
    }
    let shard_order = manifest.get("shard_order")?;
    let name = manifest
        .get("dataset")
        .and_then(|dataset| dataset.get("short_name"));
    let (mut datasets, mut order2res) = (Vec::new(), Map::new());
    for entry in block.get("overviews")?.as_array()? {
        let (node, cells) = (entry.get("node")?, entry.get("cells")?);
        let artifact = if node == shard_order {
            "column"
        } else {
            "overview"
        };
        datasets.push(json!({"order": node, "cells": cells, "artifact": artifact}));
        order2res.insert(node.to_string(), cells.clone());
    }
    let overview = block.get("overview")?;
    let mut fold = Map::new();
    for key in ["fold_source", "exact_levels"] {
        if let Some(value) = overview.get(key) {
            fold.insert(key.to_owned(), value.clone());
        }
    }
    Some(json!([{
        "spec": "zagg-multiscales/1",
        "name": name,
        "base": {"order": shard_order, "cells": [manifest.get("cell_order")?]},
        "datasets": datasets,
        "order2res": order2res,
        "fields": classes(block),
        "fold": fold,
    }]))
}

/// The class of every declared field.
pub(crate) fn classes(block: &Value) -> Map<String, Value> {
    let fields = block.pointer("/overview/fields").and_then(Value::as_object);
    let class = |field: &Value| field.get("class").cloned().unwrap_or(Value::Null);
    fields
        .into_iter()
        .flatten()
        .map(|(name, field)| (name.clone(), class(field)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(levels: &[u8]) -> Value {
        let config = Config::parse(
            "aggregation: {variables: {count: {function: len, dtype: int32, fill_value: 0}}}",
        )
        .unwrap();
        let classified = super::super::classify::classify(&config).unwrap();
        block(&config, levels, 2, &classified).unwrap()
    }

    #[test]
    fn what_passes_recorded_is_kept_where_the_level_stands() {
        let mut prior = two(&[5, 4]);
        prior["overview"]["materialized"] = json!({"2": 7});
        prior["overviews"][0]["actuals"] = json!({"regime": "leaf-column"});
        prior["overviews"][1]["actuals"] = json!({"regime": "stage-merge"});
        let (same, previous) = redeclare(Some(&prior), two(&[5, 4]));
        assert_eq!((same, previous), (prior.clone(), Previous::Identical));
        // Level 3 at the leaves moves those above them.
        let (next, previous) = redeclare(Some(&prior), two(&[5, 4, 3]));
        assert_eq!(previous, Previous::Replaced);
        assert_eq!(next["overview"]["materialized"], json!({"2": 7}));
        assert!(
            next["overviews"]
                .as_array()
                .unwrap()
                .iter()
                .all(|entry| entry.get("actuals").is_none())
        );
        let (next, _) = redeclare(Some(&prior), two(&[4]));
        assert_eq!(next["overviews"][0].get("actuals"), None);
        assert_eq!(
            next["overviews"][1]["actuals"],
            json!({"regime": "stage-merge"})
        );
        assert_eq!(redeclare(None, two(&[4])).1, Previous::Absent);
        assert_eq!(redeclare(Some(&Value::Null), two(&[4])).1, Previous::Absent);
    }

    #[test]
    fn the_mirror_names_every_level_and_field() {
        let manifest = json!({"dataset": {"short_name": "X"}, "shard_order": 2, "cell_order": 6});
        let manifest = manifest.as_object().unwrap();
        assert_eq!(
            multiscales(manifest, &two(&[5, 4])).unwrap().to_string(),
            r#"[{"spec":"zagg-multiscales/1","name":"X","base":{"order":2,"cells":[6]},"datasets":[{"order":2,"cells":[5,4],"artifact":"column"},{"order":1,"cells":[3],"artifact":"overview"},{"order":0,"cells":[2],"artifact":"overview"}],"order2res":{"2":[5,4],"1":[3],"0":[2]},"fields":{"count":"exact"},"fold":{"fold_source":"cascade","exact_levels":1}}]"#
        );
        assert_eq!(multiscales(manifest, &declared_off()), None);
    }

    #[test]
    fn the_settings_of_the_config_are_declared() {
        let config = Config::parse(
            "aggregation: {variables: {m: {function: mean}}}\n\
             output: {pyramid: {all_time: yes, fold_source: leaves, summarize: {a: 1}}}",
        )
        .unwrap();
        let classified = super::super::classify::classify(&config).unwrap();
        assert_eq!(
            block(&config, &[3], 2, &classified).unwrap()["overview"].to_string(),
            r#"{"all_time":true,"fold_source":"leaves","fields":{"m":{"class":"none"}},"summarize":{"a":1}}"#
        );
    }
}
