//! The work set of a pass: which leaves the run records speak of (`format.md` section 2).

use std::collections::{BTreeMap, BTreeSet};

use futures::future::ready;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use crate::kernels::words::{WordError, decimal};
use crate::messages::LeafRef;
use crate::store::records::{Records, windows_at};
use crate::store::{Root, StoreError};

/// Nodes listed at once.
const LISTINGS_AT_ONCE: usize = 16;

/// The shards of a pass, in word order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkSet {
    shards: Vec<Shard>,
}

/// One shard and what is known of its leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shard {
    word: u64,
    id: String,
    node: String,
    /// Windows the records name; `None` on a store without windows.
    windows: BTreeSet<Option<String>>,
    /// Whether the shard's node must be listed for more.
    list: bool,
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
        let mut known: BTreeMap<u64, BTreeSet<Option<String>>> = BTreeMap::new();
        for item in &records.items {
            known
                .entry(item.shard)
                .or_default()
                .insert(item.window.clone());
        }
        let listed: BTreeSet<u64> = records.needs_window_listing.iter().copied().collect();
        for word in &listed {
            known.entry(*word).or_default();
        }
        let shards = known
            .into_iter()
            .map(|(word, windows)| {
                Ok(Shard {
                    word,
                    id: decimal::render(word)?,
                    node: decimal::node_path(word)?,
                    windows,
                    list: listed.contains(&word),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { shards })
    }

    /// Keeps the leaves of these shards.
    ///
    /// # Errors
    /// When a shard is not in the work set.
    pub(crate) fn keep_shards(&mut self, ids: &[String]) -> Result<(), UnknownShard> {
        for id in ids {
            if !self.shards.iter().any(|shard| shard.id == *id) {
                return Err(UnknownShard {
                    shard: id.clone(),
                    example: self
                        .shards
                        .first()
                        .map_or(String::new(), |shard| shard.id.clone()),
                });
            }
        }
        self.shards.retain(|shard| ids.contains(&shard.id));
        Ok(())
    }

    /// Words of the shards, in order.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.shards.iter().map(|shard| shard.word)
    }

    /// Leaves known without listing; a shard that is still to be listed counts at
    /// least once.
    pub(crate) fn num_leaves(&self) -> u64 {
        self.shards.iter().map(Shard::num_leaves).sum()
    }

    /// Every shard with its windows, listed where no record tells them. A shard without
    /// any is left out.
    ///
    /// # Errors
    /// Failed listings.
    pub(crate) async fn shards_with_windows(
        &self,
        root: &Root,
    ) -> Result<Vec<(u64, BTreeSet<Option<String>>)>, StoreError> {
        let listed = self.shards.iter().map(|shard| async move {
            let mut windows = shard.windows.clone();
            if shard.list {
                let found = windows_at(root, &shard.node).await?;
                windows.extend(found.into_iter().map(Some));
            }
            Ok::<_, StoreError>((shard.word, windows))
        });
        let listed: Vec<_> = listed.collect();
        stream::iter(listed)
            .buffered(LISTINGS_AT_ONCE)
            .try_filter(|(_, windows)| ready(!windows.is_empty()))
            .try_collect()
            .await
    }

    /// The leaves in order. A shard whose windows the records do not tell is listed when
    /// its turn comes; when that fails, the shard comes with the error.
    pub(crate) fn leaves<'a>(&'a self, root: &'a Root) -> impl Stream<Item = Found> + 'a {
        async_stream::stream! {
            let mut left_after_shard = self.num_leaves();
            for shard in &self.shards {
                left_after_shard -= shard.num_leaves();
                let mut windows = shard.windows.clone();
                if shard.list {
                    match windows_at(root, &shard.node).await {
                        Ok(listed) => windows.extend(listed.into_iter().map(Some)),
                        Err(error) => {
                            let left = windows.len() as u64 + left_after_shard;
                            yield Found { leaf: shard.leaf(None), listed: Err(error), left };
                        }
                    }
                }
                let mut left = windows.len() as u64 + left_after_shard;
                for window in windows {
                    left -= 1;
                    yield Found { leaf: shard.leaf(window), listed: Ok(()), left };
                }
            }
        }
    }
}

impl Shard {
    fn num_leaves(&self) -> u64 {
        self.windows.len().max(usize::from(self.list)) as u64
    }

    fn leaf(&self, window: Option<String>) -> LeafRef {
        LeafRef {
            shard: self.word,
            id: self.id.clone(),
            node: self.node.clone(),
            window,
        }
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
