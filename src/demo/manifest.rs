//! The manifest, with a `/2` pyramid declared and nothing of it built (`format.md` sections 1, 4 and 5).

use serde_json::{Value, json};

use super::{DemoConfig, FieldSet, written_at};
use crate::pyramid::block::multiscales;

/// Orders between a shard and the finest group of its column.
const COLUMN_DEPTH: u8 = 4;

/// Largest budget a fold has unless a declaration says otherwise.
const MAX_FOLD_BUDGET: u32 = 512;

/// The manifest of the store.
pub(super) fn document(config: &DemoConfig, shard_order: u8, semantic_hash: &str) -> Value {
    let mut document = json!({
        "spec": "morton-hive/1",
        "dataset": {
            "short_name": format!("DEMO_{}", config.fields.name().to_ascii_uppercase()),
            "version": "1",
        },
        "semantic_hash": semantic_hash,
        "cell_order": config.cell_order,
        "shard_order": shard_order,
        "split_schedule": vec![1; usize::from(shard_order)],
        "path_grouping": 1,
        "pyramid": pyramid(config, shard_order),
        "generated_at": written_at(config),
    });
    let mirror = document
        .as_object()
        .and_then(|manifest| multiscales(manifest, &manifest["pyramid"]));
    if let Some(mirror) = mirror {
        document["multiscales"] = mirror;
    }
    document
}

/// The declaration: a column whose groups run from its finest without a gap to the shard,
/// and one level for each order above.
pub(super) fn pyramid(config: &DemoConfig, shard_order: u8) -> Value {
    let finest = (shard_order + COLUMN_DEPTH).min(config.cell_order - 1);
    let depth = finest - shard_order;
    let overviews: Vec<Value> = (0..=shard_order)
        .rev()
        .map(|node| json!({"node": node, "cells": [node + depth]}))
        .collect();
    json!({
        "spec": "zagg-pyramid/2",
        "overviews": overviews,
        "overview": {
            "all_time": false,
            "fold_source": "cascade",
            "exact_levels": 1,
            "fields": fields(config),
        },
    })
}

fn fields(config: &DemoConfig) -> Value {
    let count = json!({
        "class": "exact",
        "method": "sum",
        "nan_policy": "skip",
        "dtype": "int32",
        "fill_value": 0,
    });
    let delta = config.delta();
    let digest = json!({
        "class": "approximate",
        "method": "tdigest_kway",
        "dtype": "float32",
        "inner_shape": [2],
        "delta": delta,
        "overview_delta": delta.min(MAX_FOLD_BUDGET),
    });
    let mut located = digest.clone();
    located["location"] = json!("leaf_id");
    match config.fields {
        FieldSet::Plain => json!({"count": count, "h_tdigest": digest}),
        FieldSet::Strata => json!({
            "count": count,
            "h_tdigest_signal": located,
            "h_tdigest_noise": located,
            "composition": {
                "class": "packed",
                "method": "composition_kway",
                "dtype": "uint64",
                "fill_value": 0,
                "of": "h_tdigest_signal",
                "threshold": 2,
            },
        }),
        FieldSet::Temporal => {
            located["temporal"] = json!("per-centroid");
            json!({"count": count, "h_tdigest": located, "observed": {"class": "none"}})
        }
    }
}
