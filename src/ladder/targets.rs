//! The artifacts of a ladder above the leaves of a store, and what each folds from.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::kernels::words::{WordError, morton};
use crate::messages::LeafRef;
use crate::pyramid::{LadderPlan, Level, Regime};
use crate::store::artifact::{ALL, Artifact, Tier};
use crate::store::{Root, StoreError};
pub(crate) use crate::work::Windows;
use crate::work::{ShardWork, WorkSet};

/// The shards of a store with their windows, in word order.
#[derive(Debug, Clone)]
pub(crate) struct LadderWork {
    shards: Vec<(u64, Arc<Windows>)>,
}

/// A node whose column an artifact reads, with the windows that are read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    /// Packed morton word of the node.
    pub word: u64,
    /// Which of its columns.
    pub windows: Windows,
}

/// One artifact of the ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// What is written.
    pub artifact: Artifact,
    /// Order of its node.
    pub order: u8,
    /// How its cells come from the children's.
    pub regime: Regime,
    /// The columns it folds from, in word order.
    pub children: Vec<Child>,
    /// The windows folded together; one, but for the overview of all of them.
    pub windows: Windows,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.artifact.fmt(f)
    }
}

impl LadderWork {
    /// The leaves of this work set, whose windows are listed where no record tells them.
    ///
    /// # Errors
    /// Failed listings.
    pub(crate) async fn new(work: &WorkSet, root: &Root) -> Result<Self, StoreError> {
        Ok(Self {
            shards: work.shards_with_windows(root).await?,
        })
    }

    /// Words of every shard that has a leaf.
    pub(crate) fn shards(&self) -> impl Iterator<Item = u64> + '_ {
        self.shards.iter().map(|(word, _)| *word)
    }

    /// The shards with their windows, in word order.
    pub(crate) fn shards_with_windows(&self) -> &[(u64, Arc<Windows>)] {
        &self.shards
    }

    /// The shards of these places, as they are given to a worker.
    pub(crate) fn of_shards(&self, range: Range<usize>) -> Vec<ShardWork> {
        let shards = self.shards[range].iter();
        shards
            .map(|(word, windows)| ShardWork::new(*word, windows.clone()))
            .collect()
    }

    /// The leaves, in word order and window order.
    ///
    /// # Errors
    /// When a word names no cell, which the records have been checked for.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = Result<LeafRef, WordError>> + '_ {
        self.shards.iter().flat_map(|(word, windows)| {
            let windows = windows.iter();
            windows.map(|window| LeafRef::new(*word, window.clone()))
        })
    }

    /// Keeps what lies above none of `shards` out of [`LadderWork::targets`].
    ///
    /// # Errors
    /// When a word names no cell.
    pub(crate) fn ancestors(shards: &[u64], order: u8) -> Result<BTreeSet<u64>, WordError> {
        let ancestors = shards.iter().map(|word| morton::coarsen(*word, order));
        ancestors.collect()
    }

    /// The artifacts at a level, in word order: per node and window the overview and, at
    /// an order that has them, the stage column; then the overview of all windows.
    ///
    /// # Errors
    /// When a word names no cell, which the records have been checked for.
    pub(crate) fn targets<'a>(
        &'a self,
        plan: &'a LadderPlan,
        level: &'a Level,
    ) -> impl Iterator<Item = Result<Target, WordError>> + 'a {
        let node = |(word, _): &(u64, Arc<Windows>)| morton::coarsen(*word, level.order);
        self.shards
            .chunk_by(move |a, b| node(a) == node(b))
            .flat_map(move |shards| match node_targets(plan, level, shards) {
                Ok(targets) => targets.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            })
    }
}

/// The artifacts of one node, from the shards below it.
fn node_targets(
    plan: &LadderPlan,
    level: &Level,
    shards: &[(u64, Arc<Windows>)],
) -> Result<Vec<Target>, WordError> {
    let Some((first, _)) = shards.first() else {
        return Ok(Vec::new());
    };
    let node = morton::coarsen(*first, level.order)?;
    let mut children: BTreeMap<u64, Windows> = BTreeMap::new();
    for (word, windows) in shards {
        let child = morton::coarsen(*word, level.child_order)?;
        children
            .entry(child)
            .or_default()
            .extend(windows.iter().cloned());
    }
    let all_windows: Windows = children.values().flatten().cloned().collect();
    let target = |tier, window: Option<String>, regime, windows: Windows| {
        let read = |(word, has): (&u64, &Windows)| {
            let windows: Windows = has.intersection(&windows).cloned().collect();
            let word = *word;
            (!windows.is_empty()).then_some(Child { word, windows })
        };
        Ok(Target {
            artifact: Artifact::new(tier, node, window)?,
            order: level.order,
            regime,
            children: children.iter().filter_map(read).collect(),
            windows,
        })
    };
    let mut targets = Vec::new();
    for window in &all_windows {
        let one = || Windows::from([window.clone()]);
        targets.push(target(Tier::Overview, window.clone(), level.regime, one())?);
        if !level.stage_groups.is_empty() {
            targets.push(target(Tier::Column, window.clone(), Regime::Gather, one())?);
        }
    }
    if plan.all_time {
        let all = Some(ALL.to_owned());
        targets.push(target(
            Tier::Overview,
            all,
            Regime::Merge,
            all_windows.clone(),
        )?);
    }
    Ok(targets)
}

#[cfg(test)]
mod tests;
