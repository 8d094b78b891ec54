//! Reads what a push must know of objects beyond a listing.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};

use super::Cube;
use super::error::CubeError;
use super::inventory::{Inventory, Pulled, hash};
use super::layout::node_of;
use super::tree::{Class, Tree};
use super::write::WHOLE;
use crate::budget::MemoryBudget;
use crate::store::Root;
use crate::store::root::{Entry, Version};

/// Hashes a plan is made from, documents aside.
#[derive(Debug, Default)]
pub(super) struct Hashes {
    /// Of local objects: of all that were pulled or that are remote now.
    pub local: BTreeMap<String, String>,
    /// Of remote objects, with the writing that was read: of all that may have been written
    /// since the pull, or are to be written over or deleted.
    pub remote: BTreeMap<String, (String, Version)>,
}

impl Hashes {
    /// Reads them. What may be written over is read whole for its version as well, which
    /// listings lack on stores that rewrite only on a generation.
    ///
    /// # Errors
    /// Any failed request; that it was told to stop.
    pub(super) async fn read(
        cube: &Cube,
        inventory: &Inventory,
        (local, local_tree): (&Root, &Tree),
        (remote, remote_tree): (&Root, &Tree),
        replace_bulk: bool,
    ) -> Result<Self, CubeError> {
        let pulled = |key: &str| inventory.objects.get(key);
        let here = local_tree.objects.keys().filter(|key| {
            let known = pulled(key).is_some_and(|pulled| pulled.sha256.is_some());
            node_of(key).is_none() && (known || remote_tree.objects.contains_key(*key))
        });
        let here: Vec<_> = here.cloned().collect();
        let hashes = hash_all(cube, local, local_tree, here, |_, hash| hash).await?;
        let there = remote_tree.objects.iter().filter(|(key, entry)| {
            let here = local_tree.objects.get(*key).zip(hashes.get(*key));
            node_of(key).is_none() && is_unknown(pulled(key), here, entry, replace_bulk)
        });
        let keys = there.map(|(key, _)| key.clone()).collect();
        let of = |version, hash| (hash, version);
        let remote = hash_all(cube, remote, remote_tree, keys, of).await?;
        Ok(Self {
            local: hashes,
            remote,
        })
    }
}

/// Whether a remote object must be read to say what becomes of it.
fn is_unknown(
    pulled: Option<&Pulled>,
    here: Option<(&Entry, &String)>,
    there: &Entry,
    replace_bulk: bool,
) -> bool {
    match pulled {
        // An object that was left there, and is here: it may be the same.
        Some(pulled) if pulled.sha256.is_none() => {
            here.is_some_and(|(here, _)| replace_bulk || here.size == there.size)
        }
        // Gone or changed here, or changed there.
        Some(pulled) => {
            let changed = pulled.sha256.as_ref() != here.map(|(_, hash)| hash);
            let may_go = pulled.class != Class::Bulk || (replace_bulk && here.is_some());
            (changed && may_go) || !pulled.is(there)
        }
        None => here.is_some(),
    }
}

async fn hash_all<T>(
    cube: &Cube,
    root: &Root,
    tree: &Tree,
    keys: Vec<String>,
    of: impl Fn(Version, String) -> T,
) -> Result<BTreeMap<String, T>, CubeError> {
    let (of, budget) = (&of, &MemoryBudget::new(cube.settings.memory_budget));
    futures::stream::iter(keys)
        .map(|key| async move {
            if cube.stop.is_raised() {
                let root = cube.root.url().to_owned();
                return Err(CubeError::Stopped { root });
            }
            let share = budget.share();
            let size = tree.objects.get(&key).map_or(0, |entry| entry.size);
            share.grow(WHOLE, size).await;
            let read = root.get_with_version(&key).await?;
            Ok((key, of(read.version, hash(&read.bytes))))
        })
        .buffer_unordered(cube.settings.max_in_flight.max(1))
        .try_collect()
        .await
}
