//! The plan of one array of parts, written once by the coordinator and read by workers.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::settings::Settings;
use crate::store::manifest::Manifest;

/// The only spec of a plan that this program takes part in.
pub(crate) const PLAN_SPEC: &str = "zagg-stream-fleet/1";

/// Parts for each worker: enough that one that lags behind costs little.
const PARTS_PER_WORKER: usize = 4;

/// The most parts of one array; what Slurm takes without being told otherwise.
const MAX_PARTS: usize = 1000;

/// What the parts of an array are parts of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// The columns of the leaves.
    Columns,
    /// The artifacts of the ladder between two barriers.
    Ladder {
        /// Orders of their nodes, finest first.
        orders: Vec<u8>,
    },
    /// Verifying what was written.
    Verify {
        /// Paths of the leaves that are folded anew.
        sample: BTreeSet<String>,
    },
}

/// The name of the array of columns.
const COLUMNS: &str = "columns";

/// The name of the array that verifies.
const VERIFY: &str = "verify";

/// Begins the names of the arrays of ladders, before their orders.
const LADDER: &str = "ladder-";

impl Phase {
    /// Whether an array may have this name.
    pub(crate) fn is_name(name: &str) -> bool {
        name == COLUMNS || name == VERIFY || name.starts_with(LADDER)
    }

    /// The name of its array, which is its directory below the run's.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Columns => COLUMNS.to_owned(),
            Self::Verify { .. } => VERIFY.to_owned(),
            Self::Ladder { orders } => {
                let orders: Vec<String> = orders.iter().map(u8::to_string).collect();
                format!("{LADDER}{}", orders.join("-"))
            }
        }
    }
}

/// What a worker needs to know of the run it works for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub spec: String,
    /// As in the lease of the store.
    pub run_id: String,
    /// Name and version of the coordinator's program.
    pub program: String,
    /// Address of the store.
    pub root: String,
    /// Of the pyramid that is declared in the manifest.
    pub declaration_hash: String,
    pub phase: Phase,
    /// Seconds for which a heartbeat of the store's lease is good.
    pub ttl_s: u64,
    /// Seconds for which a heartbeat of a part's worker is good.
    pub part_ttl_s: u64,
    /// Parts worked on at once.
    pub workers: usize,
    /// How each worker works.
    pub settings: Settings,
    /// The most costly one first.
    pub parts: Vec<Part>,
}

impl Plan {
    /// How long a heartbeat of a part's worker is good for.
    pub(crate) fn part_ttl(&self) -> Duration {
        Duration::from_secs(self.part_ttl_s)
    }
}

/// Shards that one worker takes on, in morton order without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Decimal id of the first shard.
    pub first: String,
    /// Decimal id of the last one.
    pub last: String,
    /// Pieces of work: leaves or artifacts.
    pub pieces: u64,
    /// What they are reckoned to cost, in the unit of [`cut`].
    pub cost: u64,
}

/// How many parts an array for so many workers has.
pub(crate) fn num_parts(workers: usize) -> usize {
    workers.saturating_mul(PARTS_PER_WORKER).clamp(1, MAX_PARTS)
}

/// Cuts items with these costs into at most `num_parts` ranges without gaps, none of them
/// empty, each of about the same cost: an item belongs to the range its middle falls in.
/// Items without a cost count as the least there is.
pub(crate) fn cut(costs: &[u64], num_parts: usize) -> Vec<Range<usize>> {
    let cost = |index: usize| u128::from(costs[index].max(1));
    let total: u128 = (0..costs.len()).map(cost).sum();
    let num_parts = num_parts.max(1) as u128;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let (mut before, mut open) = (0, None);
    for index in 0..costs.len() {
        // Twice the middle, so that it is whole.
        let middle = 2 * before + cost(index);
        before += cost(index);
        let place = middle * num_parts / (2 * total);
        match ranges.last_mut() {
            Some(range) if open == Some(place) => range.end = index + 1,
            _ => ranges.push(index..index + 1),
        }
        open = Some(place);
    }
    ranges
}

/// A hash of the pyramid a manifest declares, without what a ladder records of itself.
pub(crate) fn declaration_hash(manifest: &Manifest) -> String {
    let mut pyramid = manifest.pyramid().cloned().unwrap_or(Value::Null);
    if let Some(Value::Array(overviews)) = pyramid.get_mut("overviews") {
        for entry in overviews.iter_mut().filter_map(Value::as_object_mut) {
            entry.shift_remove("actuals");
        }
    }
    let orders = (manifest.shard_order(), manifest.cell_order());
    let text = format!("{pyramid}{orders:?}{}", manifest.is_windowed());
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_item_is_in_one_range_and_no_range_is_much_above_its_share(
            costs in prop::collection::vec(0u64..1000, 0..300),
            num_parts in 1usize..40,
        ) {
            let ranges = cut(&costs, num_parts);
            prop_assert!(ranges.len() <= num_parts);
            let covered: Vec<usize> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, (0..costs.len()).collect::<Vec<_>>());
            let cost = |range: Range<usize>| costs[range].iter().map(|cost| (*cost).max(1)).sum::<u64>();
            let share = cost(0..costs.len()).div_ceil(num_parts as u64);
            let largest = costs.iter().copied().max().unwrap_or(0).max(1);
            for range in ranges {
                prop_assert!(!range.is_empty());
                prop_assert!(cost(range) <= share + largest);
            }
        }
    }

    #[test]
    fn costs_without_a_total_in_64_bits_are_cut_all_the_same() {
        assert_eq!(cut(&[u64::MAX; 4], 2), [0..2, 2..4]);
    }

    #[test]
    fn a_phase_has_a_name_that_can_be_a_directory() {
        let orders = vec![5, 4, 3];
        assert_eq!(Phase::Columns.name(), "columns");
        assert_eq!(Phase::Ladder { orders }.name(), "ladder-5-4-3");
        assert!(Phase::is_name("columns") && Phase::is_name("ladder-5-4-3"));
        for other in ["", "1", "-3", "morton_hive.json", ".zagg-stream"] {
            assert!(!Phase::is_name(other), "{other}");
        }
    }
}
