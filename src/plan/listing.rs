//! What stands below an artifact, by one listing, and a sample of artifacts to list.

use std::collections::BTreeMap;

use futures::TryStreamExt;

use crate::store::{METADATA, Root, StoreError};

/// Artifacts of one step that are listed at most. Where more are due, the cost of all is
/// reckoned from as many of them, spread evenly over the store.
pub(crate) const MAX_LISTED: usize = 128;

/// Number and bytes of some objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Objects {
    pub count: u64,
    pub bytes: u64,
}

/// One array in a listing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ListedArray {
    /// Bytes of its metadata document, when it has one.
    pub document: Option<u64>,
    /// Its chunks and shards.
    pub chunks: Objects,
}

/// What stands below an artifact.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// Every object.
    pub all: Objects,
    /// Bytes of the root document.
    pub root: u64,
    /// Bytes of the documents of groups, by the groups' order.
    pub groups: BTreeMap<u8, u64>,
    /// By the group's order and the array's name.
    pub arrays: BTreeMap<(u8, String), ListedArray>,
}

impl Listing {
    /// Lists what stands below `artifact`, a path below the root.
    ///
    /// # Errors
    /// Failed listings.
    pub(super) async fn read(root: &Root, artifact: &str) -> Result<Self, StoreError> {
        let mut listing = Self::default();
        let mut objects = root.list(artifact);
        while let Some(object) = objects.try_next().await? {
            let below = object.key.get(artifact.len() + 1..).unwrap_or_default();
            listing.add(below, object.size);
        }
        Ok(listing)
    }

    /// Adds the object at a key below the artifact.
    fn add(&mut self, key: &str, bytes: u64) {
        self.all.count += 1;
        self.all.bytes += bytes;
        let parts: Vec<&str> = key.splitn(3, '/').collect();
        match parts[..] {
            [METADATA] => self.root = bytes,
            [group, METADATA] => {
                if let Ok(order) = group.parse() {
                    self.groups.insert(order, bytes);
                }
            }
            [group, array, rest] => {
                let Ok(order) = group.parse() else { return };
                let array = self.arrays.entry((order, array.to_owned())).or_default();
                if rest == METADATA {
                    array.document = Some(bytes);
                } else {
                    array.chunks.count += 1;
                    array.chunks.bytes += bytes;
                }
            }
            _ => {}
        }
    }

    /// An array of a group.
    pub(super) fn array(&self, order: u8, name: &str) -> ListedArray {
        let key = (order, name.to_owned());
        self.arrays.get(&key).copied().unwrap_or_default()
    }
}

/// At most `limit` of `items`, spread evenly, the first and the last among them.
pub(super) fn spread<T: Copy>(items: &[T], limit: usize) -> Vec<T> {
    if items.len() <= limit {
        return items.to_vec();
    }
    let last = items.len() - 1;
    let steps = limit.saturating_sub(1).max(1);
    (0..limit).map(|i| items[i * last / steps]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn objects_are_told_apart_by_their_keys() {
        let mut listing = Listing::default();
        for (key, bytes) in [
            ("zarr.json", 1),
            ("6/zarr.json", 2),
            ("6/count/zarr.json", 4),
            ("6/count/c/0", 8),
            ("6/count/c/1", 16),
            ("foreign/zarr.json", 32),
            ("foreign/x/c/0", 64),
            ("stray", 128),
        ] {
            listing.add(key, bytes);
        }
        assert_eq!((listing.all.count, listing.all.bytes), (8, 255));
        assert_eq!(listing.root, 1);
        assert_eq!(listing.groups, BTreeMap::from([(6, 2)]));
        let count = listing.array(6, "count");
        assert_eq!((count.document, count.chunks.count), (Some(4), 2));
        assert_eq!(count.chunks.bytes, 24);
        assert_eq!(listing.arrays.len(), 1);
        assert_eq!(listing.array(5, "count"), ListedArray::default());
    }

    proptest! {
        #[test]
        fn a_spread_is_even_and_has_both_ends(len in 0..500_usize, limit in 2..50_usize) {
            let items: Vec<usize> = (0..len).collect();
            let spread = spread(&items, limit);
            prop_assert_eq!(spread.len(), len.min(limit));
            prop_assert_eq!(spread.first(), items.first());
            prop_assert_eq!(spread.last(), items.last());
            let gaps: Vec<usize> = spread.windows(2).map(|pair| pair[1] - pair[0]).collect();
            if let (Some(least), Some(most)) = (gaps.iter().min(), gaps.iter().max()) {
                prop_assert!(*least > 0 && most - least <= 1, "{:?}", gaps);
            }
        }
    }
}
