//! The work set of a pass: which leaves the run records speak of (`format.md` section 2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::kernels::words::{WordError, decimal};
use crate::messages::LeafRef;
use crate::store::records::{Records, windows_at};
use crate::store::{Root, StoreError};

/// Nodes listed at once.
const LISTINGS_AT_ONCE: usize = 16;

/// Window labels; `None` on a store without windows.
pub(crate) type Windows = BTreeSet<Option<String>>;

/// The shards of a pass, in word order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkSet {
    shards: Vec<ShardWork>,
}

/// One shard and what is known of its leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardWork {
    /// Packed morton word.
    pub shard: u64,
    /// Windows that are known. Most shards of a store have the same, and share them.
    #[serde(
        default = "without_windows",
        skip_serializing_if = "is_without_windows"
    )]
    pub windows: Arc<Windows>,
    /// Whether the shard's node must be listed for more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub list: bool,
    /// Cells with data, as far as the records tell.
    #[serde(skip)]
    pub cells: u64,
}

fn without_windows() -> Arc<Windows> {
    Arc::new(Windows::from([None]))
}

fn is_without_windows(windows: &Windows) -> bool {
    windows.iter().eq([&None])
}

/// A leaf of the work set whose turn has come.
#[derive(Debug)]
pub(crate) struct Found {
    pub leaf: LeafRef,
    /// Whether its shard's windows could be listed, where that was needed.
    pub listed: Result<(), StoreError>,
    /// Leaves that are known to come after it.
    pub left: u64,
}

/// Why an operator's choice of shards cannot be followed.
#[derive(Debug, thiserror::Error)]
#[error(
    "shard `{shard}` is in no run record of this store; `--shards` takes decimal ids such as `{example}`"
)]
pub struct UnknownShard {
    /// The id asked for.
    pub shard: String,
    /// One that exists.
    pub example: String,
}

impl WorkSet {
    /// The work set of these run records.
    ///
    /// # Errors
    /// When a word names no cell, which the records have been checked for.
    pub(crate) fn new(records: &Records) -> Result<Self, WordError> {
        let mut shared: BTreeSet<Arc<Windows>> = BTreeSet::new();
        let mut share = |windows: Windows| match shared.get(&windows) {
            Some(same) => same.clone(),
            None => {
                let windows = Arc::new(windows);
                shared.insert(windows.clone());
                windows
            }
        };
        let mut known: BTreeMap<u64, ShardWork> = BTreeMap::new();
        for items in records.items.chunk_by(|a, b| a.shard == b.shard) {
            let windows = items.iter().map(|item| item.window.clone()).collect();
            known.insert(
                items[0].shard,
                ShardWork {
                    shard: items[0].shard,
                    windows: share(windows),
                    list: false,
                    cells: 0,
                },
            );
        }
        for word in &records.needs_window_listing {
            let shard = known.entry(*word).or_insert_with(|| ShardWork {
                shard: *word,
                windows: share(Windows::new()),
                list: true,
                cells: 0,
            });
            shard.list = true;
        }
        for shard in known.values_mut() {
            shard.cells = records.cells.get(&shard.shard).copied().unwrap_or(0);
        }
        Self::of(known.into_values().collect())
    }

    /// The work set of these shards, which are in word order.
    ///
    /// # Errors
    /// When a word names no cell.
    pub(crate) fn of(shards: Vec<ShardWork>) -> Result<Self, WordError> {
        for shard in &shards {
            decimal::render(shard.shard)?;
        }
        Ok(Self { shards })
    }

    /// The shards, in word order.
    pub(crate) fn shards(&self) -> &[ShardWork] {
        &self.shards
    }

    /// Keeps the leaves of these shards.
    ///
    /// # Errors
    /// When a shard is not in the work set.
    pub(crate) fn keep_shards(&mut self, ids: &[String]) -> Result<(), UnknownShard> {
        let mut chosen = BTreeSet::new();
        for id in ids {
            let word = decimal::parse(id).ok();
            match word.filter(|word| self.words().any(|known| known == *word)) {
                Some(word) => chosen.insert(word),
                None => {
                    let first = self.words().next();
                    let example = first.and_then(|word| decimal::render(word).ok());
                    return Err(UnknownShard {
                        shard: id.clone(),
                        example: example.unwrap_or_default(),
                    });
                }
            };
        }
        self.shards.retain(|shard| chosen.contains(&shard.shard));
        Ok(())
    }

    /// Words of the shards, in order.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.shards.iter().map(|shard| shard.shard)
    }

    /// Leaves known without listing; a shard that is still to be listed counts at
    /// least once.
    pub(crate) fn num_leaves(&self) -> u64 {
        self.shards.iter().map(ShardWork::num_leaves).sum()
    }

    /// Every shard with its windows, listed where no record tells them. A shard without
    /// any is left out.
    ///
    /// # Errors
    /// Failed listings.
    pub(crate) async fn shards_with_windows(
        &self,
        root: &Root,
    ) -> Result<Vec<(u64, Arc<Windows>)>, StoreError> {
        let unknown = self.shards.iter().filter(|shard| shard.list);
        let unknown: Vec<_> = unknown.map(|shard| shard.with_windows(root)).collect();
        let listed = stream::iter(unknown).buffered(LISTINGS_AT_ONCE);
        let mut listed: BTreeMap<u64, Arc<Windows>> = listed.try_collect().await?;
        let windows = self.shards.iter().map(|shard| {
            let listed = listed.remove(&shard.shard);
            (shard.shard, listed.unwrap_or_else(|| shard.windows.clone()))
        });
        Ok(windows.filter(|(_, windows)| !windows.is_empty()).collect())
    }

    /// The leaves in order. A shard whose windows the records do not tell is listed when
    /// its turn comes; when that fails, the shard comes with the error.
    pub(crate) fn leaves<'a>(&'a self, root: &'a Root) -> impl Stream<Item = Found> + 'a {
        async_stream::stream! {
            let mut left_after_shard = self.num_leaves();
            for shard in &self.shards {
                left_after_shard -= shard.num_leaves();
                let (windows, error) = match shard.with_windows(root).await {
                    Ok((_, windows)) => (windows, None),
                    Err(error) => (shard.windows.clone(), Some(error)),
                };
                let mut left = windows.len() as u64 + left_after_shard;
                // That the word names a cell was checked when the work set was made.
                if let Some((error, leaf)) = error.zip(shard.leaf(None)) {
                    yield Found { leaf, listed: Err(error), left };
                }
                for leaf in windows.iter().filter_map(|window| shard.leaf(window.clone())) {
                    left -= 1;
                    yield Found { leaf, listed: Ok(()), left };
                }
            }
        }
    }
}

impl ShardWork {
    /// A shard whose windows are all known.
    pub(crate) fn new(shard: u64, windows: Arc<Windows>) -> Self {
        Self {
            shard,
            windows,
            list: false,
            cells: 0,
        }
    }

    /// Leaves that are known, and one at least where it is to be listed for them.
    pub(crate) fn num_leaves(&self) -> u64 {
        self.windows.len().max(usize::from(self.list)) as u64
    }

    async fn with_windows(&self, root: &Root) -> Result<(u64, Arc<Windows>), StoreError> {
        if !self.list {
            return Ok((self.shard, self.windows.clone()));
        }
        let leaf = self.leaf(None);
        let node = leaf.map_or(String::new(), |leaf| leaf.node);
        let mut windows = Windows::clone(&self.windows);
        windows.extend(windows_at(root, &node).await?.into_iter().map(Some));
        Ok((self.shard, Arc::new(windows)))
    }

    fn leaf(&self, window: Option<String>) -> Option<LeafRef> {
        LeafRef::new(self.shard, window).ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use object_store::memory::InMemory;

    use super::*;
    use crate::store::records::WorkItem;

    /// Shards 11213, whose windows the records name, and 11214, which must be listed.
    fn work() -> WorkSet {
        let item = |window: &str| WorkItem {
            shard: decimal::parse("11213").unwrap(),
            window: Some(window.to_owned()),
        };
        WorkSet::new(&Records {
            items: vec![item("2019"), item("2020")],
            needs_window_listing: vec![decimal::parse("11214").unwrap()],
            ..Records::default()
        })
        .unwrap()
    }

    #[tokio::test]
    async fn each_leaf_says_how_many_are_known_to_come_after_it() {
        let root = Root::new(std::sync::Arc::new(InMemory::new()), "memory://");
        for window in ["2019", "2020", "2021"] {
            let key = format!("1/1/2/1/4/11214_{window}.zarr/zarr.json");
            root.put(&key, "{}").await.unwrap();
        }
        let work = work();
        assert_eq!(work.num_leaves(), 3, "a shard to be listed counts once");
        let left: Vec<u64> = work.leaves(&root).map(|found| found.left).collect().await;
        assert_eq!(left, [2, 1, 2, 1, 0]);
    }

    #[tokio::test]
    async fn a_listed_shard_without_leaves_is_no_leaf() {
        let root = Root::new(std::sync::Arc::new(InMemory::new()), "memory://");
        let work = work();
        let paths: Vec<String> = work
            .leaves(&root)
            .map(|found| found.leaf.path())
            .collect()
            .await;
        assert_eq!(paths.len(), 2, "{paths:?}");
    }

    #[test]
    fn only_known_shards_can_be_chosen() {
        let mut work = work();
        assert!(work.clone().keep_shards(&["333".to_owned()]).is_err());
        work.keep_shards(&["11214".to_owned()]).unwrap();
        assert_eq!(work.num_leaves(), 1);
    }
}
