//! The targets of a ladder, compared with slow code over decimal ids.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::kernels::plan::{FoldLaw, FoldPlan};
use crate::kernels::words::decimal;
use crate::pyramid::Declaration;

/// Leaves by the id of their shard.
type Leaves = BTreeMap<String, Windows>;

/// A ladder of every order above the shards.
fn plan(shard_order: u8, windowed: bool) -> LadderPlan {
    let overviews: Vec<_> = (0..=shard_order)
        .rev()
        .map(|node| json!({"node": node, "cells": [node + 1]}))
        .collect();
    let count = json!({"class": "exact", "method": "sum", "dtype": "int32", "fill_value": 0});
    let block = json!({
        "spec": "zagg-pyramid/2",
        "overviews": overviews,
        "overview": {"fields": {"count": count}, "all_time": true},
    });
    let cell_order = shard_order + 2;
    let declaration = Declaration::parse(Some(&block), shard_order, cell_order).unwrap();
    let columns = FoldPlan::new(
        cell_order,
        shard_order,
        &declaration.groups,
        FoldLaw::Boundary,
    );
    LadderPlan::new(&declaration, &columns, windowed).unwrap()
}

fn work(leaves: &Leaves) -> LadderWork {
    let shards = leaves.iter();
    let mut shards: Vec<(u64, Windows)> = shards
        .map(|(id, windows)| (decimal::parse(id).unwrap(), windows.clone()))
        .collect();
    shards.sort_unstable();
    let shards = shards.into_iter();
    LadderWork {
        shards: shards
            .map(|(word, windows)| (word, windows.into()))
            .collect(),
    }
}

/// The ancestor at an order: an id without its last digits.
fn ancestor(id: &str, order: u8) -> &str {
    let base = 1 + usize::from(id.starts_with('-'));
    &id[..base + usize::from(order)]
}

/// Nodes of an order with the windows of the leaves below them.
fn nodes_above(leaves: &Leaves, order: u8) -> Leaves {
    let mut nodes = Leaves::new();
    for (id, windows) in leaves {
        let node = nodes.entry(ancestor(id, order).to_owned()).or_default();
        node.extend(windows.clone());
    }
    nodes
}

fn slow_target(
    level: &Level,
    leaves: &Leaves,
    node: &str,
    tier: Tier,
    window: Option<&Option<String>>,
) -> Target {
    let below = nodes_above(leaves, level.child_order);
    let below = below
        .iter()
        .filter(|(child, _)| ancestor(child, level.order) == node);
    let (mut children, mut windows) = (Vec::new(), Windows::new());
    for (child, has) in below {
        let read: Windows = has
            .iter()
            .filter(|has| window.is_none_or(|window| *has == window))
            .cloned()
            .collect();
        windows.extend(read.clone());
        if !read.is_empty() {
            let word = decimal::parse(child).unwrap();
            children.push(Child {
                word,
                windows: read,
            });
        }
    }
    children.sort_unstable_by_key(|child| child.word);
    let label = window.cloned().unwrap_or_else(|| Some(ALL.to_owned()));
    Target {
        artifact: Artifact::new(tier, decimal::parse(node).unwrap(), label).unwrap(),
        order: level.order,
        regime: match (tier, window) {
            (Tier::Column, _) => Regime::Gather,
            (Tier::Overview, Some(_)) => level.regime,
            (Tier::Overview, None) => Regime::Merge,
        },
        children,
        windows,
    }
}

fn slow_targets(plan: &LadderPlan, level: &Level, leaves: &Leaves) -> Vec<Target> {
    let nodes = nodes_above(leaves, level.order).into_iter();
    let mut nodes: Vec<(u64, String, Windows)> = nodes
        .map(|(node, windows)| (decimal::parse(&node).unwrap(), node, windows))
        .collect();
    nodes.sort_unstable();
    let mut targets = Vec::new();
    for (_, node, windows) in &nodes {
        let mut push = |tier, window| {
            targets.push(slow_target(level, leaves, node, tier, window));
        };
        for window in windows {
            push(Tier::Overview, Some(window));
            if level.order == 3 {
                push(Tier::Column, Some(window));
            }
        }
        if plan.all_time {
            push(Tier::Overview, None);
        }
    }
    targets
}

fn any_leaves(shard_order: usize, windowed: bool) -> impl Strategy<Value = Leaves> {
    let id = proptest::string::string_regex(&format!("-?[1-6][1-3]{{{shard_order}}}")).unwrap();
    let label = prop::sample::select(vec!["2019", "2020", "a-b"]);
    let labels = prop::collection::btree_set(label, 1..=3);
    let windows = labels.prop_map(move |labels| match windowed {
        true => labels.into_iter().map(|l| Some(l.to_owned())).collect(),
        false => Windows::from([None]),
    });
    prop::collection::btree_map(id, windows, 1..12)
}

proptest! {
    #[test]
    fn a_level_has_an_artifact_for_every_node_and_window_above_a_leaf(
        (shard_order, windowed, leaves) in (1..=5_u8, any::<bool>()).prop_flat_map(
            |(order, windowed)| (Just(order), Just(windowed), any_leaves(order.into(), windowed)),
        ),
    ) {
        let (plan, work) = (plan(shard_order, windowed), work(&leaves));
        prop_assert_eq!(plan.levels.len(), usize::from(shard_order));
        prop_assert_eq!(work.shards().count(), leaves.len());
        for level in &plan.levels {
            let targets: Result<Vec<_>, _> = work.targets(&plan, level).collect();
            prop_assert_eq!(targets.unwrap(), slow_targets(&plan, level, &leaves));
        }
    }

    #[test]
    fn ancestors_are_what_the_ids_begin_with(leaves in any_leaves(4, false), order in 0..=4_u8) {
        let words: Vec<u64> = work(&leaves).shards().collect();
        let ancestors = LadderWork::ancestors(&words, order).unwrap();
        let slow = nodes_above(&leaves, order).into_keys();
        let slow: BTreeSet<u64> = slow.map(|id| decimal::parse(&id).unwrap()).collect();
        prop_assert_eq!(ancestors, slow);
    }
}

#[test]
fn a_ladder_of_order_0_has_no_artifact() {
    let plan = plan(0, true);
    assert_eq!(plan.levels, []);
}
