//! The work set of a pass: which leaves the run records speak of (`format.md` section 2).

use std::collections::{BTreeMap, BTreeSet};

use async_stream::stream;
use futures::Stream;

use crate::kernels::words::{WordError, decimal};
use crate::messages::LeafRef;
use crate::store::records::{Records, windows_at};
use crate::store::{Root, StoreError};

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

    /// Leaves known without listing; a shard that is still to be listed counts at
    /// least once.
    pub(crate) fn num_leaves(&self) -> u64 {
        let leaves = |shard: &Shard| shard.windows.len().max(usize::from(shard.list)) as u64;
        self.shards.iter().map(leaves).sum()
    }

    /// The leaves in order. A shard whose windows the records do not tell is listed when
    /// its turn comes; when that fails, the shard comes with the error.
    pub(crate) fn leaves<'a>(
        &'a self,
        root: &'a Root,
    ) -> impl Stream<Item = (LeafRef, Result<(), StoreError>)> + 'a {
        stream! {
            for shard in &self.shards {
                let mut windows = shard.windows.clone();
                if shard.list {
                    match windows_at(root, &shard.node).await {
                        Ok(listed) => windows.extend(listed.into_iter().map(Some)),
                        Err(error) => yield (shard.leaf(None), Err(error)),
                    }
                }
                for window in windows {
                    yield (shard.leaf(window), Ok(()));
                }
            }
        }
    }
}

impl Shard {
    fn leaf(&self, window: Option<String>) -> LeafRef {
        LeafRef {
            shard: self.word,
            id: self.id.clone(),
            node: self.node.clone(),
            window,
        }
    }
}
