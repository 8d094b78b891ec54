//! Which artifacts a ladder has, and what each folds from (`format.md` section 9).
//!
//! A level folds from the columns of its nodes' descendants at the next order that has
//! columns: a stage column's, or the shards' own. How much is done between two barriers
//! changes nothing of that.

use crate::kernels::plan::FoldPlan;
use crate::pyramid::declaration::{Declaration, DeclarationError, Entry};

/// Order step between stage columns (`format.md` section 9, `tuple_width` 3).
pub(crate) const STAGE_STEP: u8 = 3;

/// How a level comes from the columns below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Regime {
    /// The children's members at the level's own cells, one behind the other.
    #[serde(rename = "stage-gather")]
    Gather,
    /// The children's relayed members, folded flat.
    #[serde(rename = "stage-merge")]
    Merge,
}

impl Regime {
    /// The name an artifact records.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Gather => "stage-gather",
            Self::Merge => "stage-merge",
        }
    }

    /// How many merges lie between the observations' digests and the level's, as
    /// recorded.
    pub(crate) const fn merges_from_raw(self) -> u8 {
        match self {
            Self::Gather => 1,
            Self::Merge => 2,
        }
    }
}

/// One level of a ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Level {
    /// Order of the level's nodes, k.
    pub order: u8,
    /// Order of the cells of their overviews, r.
    pub cells: u8,
    /// How their cells come from the children's.
    pub regime: Regime,
    /// Order of the group that is read from each child.
    pub source: u8,
    /// Order of the children, whose columns are read.
    pub child_order: u8,
    /// Groups of the stage columns of these nodes, finest first; empty when they have
    /// none.
    pub stage_groups: Vec<u8>,
}

/// The artifacts of a ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LadderPlan {
    /// Order of the shards, whose columns the ladder stands on.
    pub shard_order: u8,
    /// Order of the leaves' cells.
    pub cell_order: u8,
    /// The group that merges read.
    pub relay: u8,
    /// Finest nodes first, down to order 0; empty when the shards are of order 0.
    pub levels: Vec<Level>,
    /// Whether each node also has an overview of all its windows together.
    pub all_time: bool,
}

impl LadderPlan {
    /// The ladder of this declaration above columns of this plan; `windowed` is whether
    /// the store is.
    ///
    /// # Errors
    /// When an order above the shards has not exactly one entry of one order of cells,
    /// or those cells cannot come from the columns.
    pub(crate) fn new(
        declaration: &Declaration,
        plan: &FoldPlan,
        windowed: bool,
    ) -> Result<Self, DeclarationError> {
        let shard_order = declaration.shard_order;
        let relay = plan.boundary.unwrap_or(shard_order);
        let cells: Vec<u8> = (0..shard_order)
            .map(|order| cells_at(declaration, order))
            .collect::<Result<_, _>>()?;
        let levels = (0..shard_order).zip(&cells).rev().map(|(order, &cells_r)| {
            let coarser = &cells[..usize::from(order)];
            level(order, cells_r, coarser, shard_order, relay)
        });
        Ok(Self {
            shard_order,
            cell_order: declaration.cell_order,
            relay,
            levels: levels.collect(),
            all_time: declaration.all_time && windowed,
        })
    }

    /// The level of the nodes of this order.
    pub(crate) fn level(&self, order: u8) -> Option<&Level> {
        self.levels.iter().find(|level| level.order == order)
    }

    /// The orders that are done between two barriers, finest first: a run ends with a
    /// multiple of `tuple_width`, and with one of [`STAGE_STEP`], since what is coarser
    /// reads the columns written there.
    pub(crate) fn batches(&self, tuple_width: u8) -> Vec<Vec<u8>> {
        let orders: Vec<u8> = self.levels.iter().map(|level| level.order).collect();
        orders
            .chunk_by(|finer, _| {
                !finer.is_multiple_of(tuple_width) && !finer.is_multiple_of(STAGE_STEP)
            })
            .map(<[u8]>::to_vec)
            .collect()
    }
}

/// The level at `order`, given the cells of the levels coarser than it.
fn level(order: u8, cells: u8, coarser: &[u8], shard_order: u8, relay: u8) -> Level {
    let (regime, source) = if cells >= shard_order {
        (Regime::Gather, cells)
    } else {
        (Regime::Merge, relay)
    };
    let next_stage = (order / STAGE_STEP + 1) * STAGE_STEP;
    let mut stage_groups = Vec::new();
    if order > 0 && order.is_multiple_of(STAGE_STEP) {
        stage_groups.push(relay);
        stage_groups.extend(coarser.iter().filter(|cells| **cells >= shard_order));
        stage_groups.sort_unstable_by(|a, b| b.cmp(a));
        stage_groups.dedup();
    }
    Level {
        order,
        cells,
        regime,
        source,
        child_order: next_stage.min(shard_order),
        stage_groups,
    }
}

/// Order of the cells of the one entry at `order`.
fn cells_at(declaration: &Declaration, order: u8) -> Result<u8, DeclarationError> {
    let at_order = |entry: &&Entry| entry.node == order;
    let entries: Vec<&Entry> = declaration.entries.iter().filter(at_order).collect();
    let [entry] = entries[..] else {
        return Err(DeclarationError::LadderEntries {
            order,
            found: entries.len(),
        });
    };
    let [cells] = entry.cells[..] else {
        return Err(DeclarationError::LadderCells {
            order,
            cells: entry.cells.clone(),
        });
    };
    let cell_order = declaration.cell_order;
    if !(order + 1..cell_order).contains(&cells) {
        return Err(DeclarationError::LadderResolution {
            order,
            cells,
            cell_order,
        });
    }
    if cells >= declaration.shard_order && !declaration.groups.contains(&cells) {
        return Err(DeclarationError::LadderGroup {
            order,
            cells,
            groups: declaration.groups.clone(),
        });
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kernels::plan::FoldLaw;

    /// A declaration of columns from `finest` to `shard_order`, with these (node, cells)
    /// above them.
    fn declared(shard_order: u8, finest: u8, ladder: &[(u8, &[u8])]) -> Declaration {
        let leaf: Vec<u8> = (shard_order..=finest).collect();
        let mut overviews = vec![json!({"node": shard_order, "cells": leaf})];
        overviews.extend(
            ladder
                .iter()
                .map(|(node, cells)| json!({"node": node, "cells": cells})),
        );
        let count = json!({"class": "exact", "method": "sum", "dtype": "int32", "fill_value": 0});
        let block = json!({
            "spec": "zagg-pyramid/2",
            "overviews": overviews,
            "overview": {"fields": {"count": count}, "all_time": true},
        });
        Declaration::parse(Some(&block), shard_order, finest + 1).unwrap()
    }

    fn planned(declaration: &Declaration, law: FoldLaw) -> Result<LadderPlan, DeclarationError> {
        let (cell, shard) = (declaration.cell_order, declaration.shard_order);
        let plan = FoldPlan::new(cell, shard, &declaration.groups, law);
        LadderPlan::new(declaration, &plan, false)
    }

    /// The order whose columns a node of `order` reads.
    fn slow_child_order(order: u8, shard_order: u8) -> u8 {
        (order + 1..shard_order)
            .find(|above| above % 3 == 0)
            .unwrap_or(shard_order)
    }

    /// The groups of the stage columns at `order`: the relay, and what every coarser level
    /// asks of the columns on its way down to the shards.
    fn slow_stage_groups(order: u8, cells: &[u8], shard_order: u8, relay: u8) -> Vec<u8> {
        let mut groups = vec![relay];
        for (mut at, &cells) in (0..shard_order).zip(cells) {
            while at < shard_order {
                at = slow_child_order(at, shard_order);
                if at == order && cells >= shard_order && !groups.contains(&cells) {
                    groups.push(cells);
                }
            }
        }
        groups.sort_unstable();
        groups.reverse();
        groups
    }

    fn slow_batches(shard_order: u8, tuple_width: u8) -> Vec<Vec<u8>> {
        let mut batches = Vec::new();
        let mut batch = Vec::new();
        for order in (0..shard_order).rev() {
            batch.push(order);
            if order % tuple_width == 0 || order % 3 == 0 {
                batches.push(std::mem::take(&mut batch));
            }
        }
        batches
    }

    proptest! {
        #[test]
        fn a_ladder_is_what_its_levels_ask_for(
            shard_order in 0..=9_u8,
            depth in 1..=4_u8,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 9),
            raw: bool,
            tuple_width in 1..=10_u8,
        ) {
            let finest = shard_order + depth;
            let cells: Vec<u8> = (0..shard_order)
                .zip(&picks)
                .map(|(order, pick)| order + 1 + pick.index(usize::from(finest - order)) as u8)
                .collect();
            let entries: Vec<(u8, &[u8])> = (0..shard_order).zip(cells.chunks(1)).collect();
            let law = if raw { FoldLaw::Raw } else { FoldLaw::Boundary };
            let ladder = planned(&declared(shard_order, finest, &entries), law).unwrap();

            let relay = if raw || depth < 2 { shard_order } else { shard_order + 2 };
            prop_assert_eq!((ladder.relay, ladder.levels.len()), (relay, cells.len()));
            for (order, &r) in (0..shard_order).zip(&cells) {
                let level = ladder.level(order).unwrap();
                let staged = order % 3 == 0 && order > 0;
                let expected = Level {
                    order,
                    cells: r,
                    regime: if r < shard_order { Regime::Merge } else { Regime::Gather },
                    source: if r < shard_order { relay } else { r },
                    child_order: slow_child_order(order, shard_order),
                    stage_groups: if staged {
                        slow_stage_groups(order, &cells, shard_order, relay)
                    } else {
                        vec![]
                    },
                };
                prop_assert_eq!(level, &expected);
                if let Some(child) = ladder.level(level.child_order) {
                    prop_assert!(child.stage_groups.contains(&level.source));
                }
            }
            prop_assert_eq!(ladder.level(shard_order), None);

            let batches = ladder.batches(tuple_width);
            prop_assert_eq!(&batches, &slow_batches(shard_order, tuple_width));
            for batch in batches {
                let read = |order: &u8| slow_child_order(*order, shard_order);
                prop_assert!(batch.iter().all(|order| read(order) == read(&batch[0])));
            }
        }
    }

    #[test]
    fn a_ladder_of_four_orders_has_one_stage() {
        let entries: [(u8, &[u8]); 4] = [(3, &[4]), (2, &[3]), (1, &[2]), (0, &[1])];
        let ladder = planned(&declared(4, 5, &entries), FoldLaw::Boundary).unwrap();
        let stages: Vec<(u8, &[u8])> = ladder
            .levels
            .iter()
            .map(|level| (level.order, &level.stage_groups[..]))
            .collect();
        assert_eq!(stages, [(3, &[4][..]), (2, &[]), (1, &[]), (0, &[])]);
        assert_eq!(ladder.batches(3), [vec![3], vec![2, 1, 0]]);
        assert_eq!(ladder.batches(2), [vec![3], vec![2], vec![1, 0]]);
        assert_eq!(ladder.batches(1), [[3], [2], [1], [0]]);
        assert_eq!(ladder.levels[0].regime.as_str(), "stage-gather");
        assert_eq!(ladder.levels[1].regime.as_str(), "stage-merge");
        let merges = |level: usize| ladder.levels[level].regime.merges_from_raw();
        assert_eq!((merges(0), merges(1)), (1, 2));
    }

    #[test]
    fn all_time_needs_windows_and_a_declaration() {
        let mut declaration = declared(1, 2, &[(0, &[1])]);
        let plan = FoldPlan::new(3, 1, &declaration.groups, FoldLaw::Raw);
        let all_time = |declaration: &Declaration, windowed| {
            LadderPlan::new(declaration, &plan, windowed)
                .unwrap()
                .all_time
        };
        assert!(all_time(&declaration, true));
        assert!(!all_time(&declaration, false));
        declaration.all_time = false;
        assert!(!all_time(&declaration, true));
    }

    #[test]
    fn every_refusal_of_a_ladder_names_the_level_and_the_cure() {
        let refusal = |declaration: &Declaration| {
            let error = planned(declaration, FoldLaw::Raw).unwrap_err();
            assert!(error.to_string().contains("re-declare the pyramid with"));
            error
        };
        let entries = |found| DeclarationError::LadderEntries { order: 1, found };
        assert_eq!(refusal(&declared(2, 3, &[(0, &[1])])), entries(0));
        let twice = declared(2, 3, &[(0, &[1]), (1, &[2]), (1, &[2])]);
        assert_eq!(refusal(&twice), entries(2));

        let two_cells = declared(2, 3, &[(0, &[1]), (1, &[2, 3])]);
        let cells = vec![3, 2];
        let refused = DeclarationError::LadderCells { order: 1, cells };
        assert_eq!(refusal(&two_cells), refused);

        let too_coarse = declared(2, 3, &[(0, &[1]), (1, &[1])]);
        let resolution = |cells, cell_order| DeclarationError::LadderResolution {
            order: 1,
            cells,
            cell_order,
        };
        assert_eq!(refusal(&too_coarse), resolution(1, 4));
        let mut coarser_leaf = declared(2, 3, &[(0, &[1]), (1, &[3])]);
        coarser_leaf.cell_order = 3;
        assert_eq!(refusal(&coarser_leaf), resolution(3, 3));

        let mut not_carried = declared(2, 3, &[(0, &[1]), (1, &[3])]);
        not_carried.groups = vec![2];
        let refused = DeclarationError::LadderGroup {
            order: 1,
            cells: 3,
            groups: vec![2],
        };
        assert_eq!(refusal(&not_carried), refused);
    }
}
