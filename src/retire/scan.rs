//! Looks at every ancestor node of the work set, each once, and sorts out what stands
//! there. Nodes follow from the shards; no tree is enumerated (`format.md` section 1).

use std::collections::{BTreeMap, BTreeSet};

use async_stream::try_stream;
use futures::{Stream, StreamExt, TryStreamExt};

use super::RetireError;
use super::classify::{ALL, Kept, Place, Verdict, classify, is_digit, stem_of};
use super::summary::{Extent, KeptArtifact, RetiredArtifact};
use crate::pyramid::Declaration;
use crate::store::manifest::Manifest;
use crate::store::root::Shallow;
use crate::store::{Root, StoreError};
use crate::work::WorkSet;

/// Nodes looked at at once.
const NODES_AT_ONCE: usize = 16;

/// Kept artifacts that are named one by one; the rest are only counted.
const MAX_NAMED_KEPT: usize = 1000;

/// Which names the `/2` ladder writes at which nodes (`format.md` section 9).
#[derive(Debug)]
pub(super) struct OwnedNames {
    /// Orders of nodes that carry a level.
    orders: BTreeSet<u8>,
    /// Whether `all.zarr` is one of its names.
    has_all: bool,
}

impl OwnedNames {
    pub(super) fn new(manifest: &Manifest, declaration: &Declaration) -> Self {
        Self {
            orders: declaration.entries.iter().map(|entry| entry.node).collect(),
            has_all: !manifest.is_windowed() || declaration.all_time,
        }
    }

    fn owns(&self, node: &Ancestor, stem: &str) -> bool {
        self.orders.contains(&node.order)
            && ((stem == ALL && self.has_all) || node.windows.contains(stem))
    }
}

/// A node above shards of the work set.
#[derive(Debug, PartialEq, Eq)]
struct Ancestor {
    /// Its directory below the root.
    node: String,
    order: u8,
    /// Windows of the leaves below it.
    windows: BTreeSet<String>,
}

/// What stands at the ancestor nodes.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Nodes looked at.
    pub nodes: u64,
    /// What may go, in the order of the nodes.
    pub artifacts: Vec<RetiredArtifact>,
    /// How many are kept, by the reason.
    pub kept: BTreeMap<Kept, u64>,
    /// The kept ones that not every store has, up to [`MAX_NAMED_KEPT`].
    pub named: Vec<KeptArtifact>,
    /// The first `/1` overview where the ladder writes.
    pub unswept: Option<String>,
}

impl Scan {
    pub(super) fn keep(&mut self, kept: KeptArtifact) {
        tracing::debug!(
            path = kept.path,
            reason = kept.reason.as_str(),
            "kept: {}",
            kept.why
        );
        *self.kept.entry(kept.reason).or_default() += 1;
        if kept.reason == Kept::Unswept && self.unswept.is_none() {
            self.unswept = Some(kept.path.clone());
        }
        if !kept.reason.is_usual() && self.named.len() < MAX_NAMED_KEPT {
            self.named.push(kept);
        }
    }
}

/// Looks at every ancestor node of the work set.
///
/// # Errors
/// Any failed request: what cannot be read is neither absent nor `/1`.
pub(super) async fn scan(
    root: &Root,
    work: &WorkSet,
    owned: &OwnedNames,
) -> Result<Scan, RetireError> {
    let mut scan = Scan::default();
    let looks = ancestors(root, work)
        .map_ok(|node| look(root, owned, node))
        .try_buffered(NODES_AT_ONCE);
    let mut looks = std::pin::pin!(looks);
    while let Some(found) = looks.try_next().await? {
        scan.nodes += 1;
        scan.artifacts.extend(found.artifacts);
        for kept in found.kept {
            scan.keep(kept);
        }
    }
    Ok(scan)
}

/// The nodes of orders 0 to one less than the shards', each when the last shard below it
/// has gone by. Shards come in the order of their words, which is that of a walk through
/// the tree, so only one path of nodes is held.
fn ancestors<'a>(
    root: &'a Root,
    work: &'a WorkSet,
) -> impl Stream<Item = Result<Ancestor, RetireError>> + 'a {
    try_stream! {
        let mut path: Vec<Ancestor> = Vec::new();
        let mut leaves = std::pin::pin!(work.leaves(root));
        while let Some(found) = leaves.next().await {
            found.listed?;
            let leaf = found.leaf;
            while path.last().is_some_and(|last| !is_above(&last.node, &leaf.node)) {
                if let Some(left) = path.pop() {
                    yield left;
                }
            }
            for (end, _) in leaf.node.match_indices('/').skip(path.len()) {
                path.push(Ancestor {
                    node: leaf.node[..end].to_owned(),
                    order: u8::try_from(path.len()).unwrap_or(u8::MAX),
                    windows: BTreeSet::new(),
                });
            }
            if let Some(window) = leaf.window {
                for above in &mut path {
                    above.windows.insert(window.clone());
                }
            }
        }
        while let Some(left) = path.pop() {
            yield left;
        }
    }
}

fn is_above(node: &str, other: &str) -> bool {
    other
        .strip_prefix(node)
        .is_some_and(|below| below.starts_with('/'))
}

/// What one node holds.
struct Found {
    artifacts: Vec<RetiredArtifact>,
    kept: Vec<KeptArtifact>,
}

async fn look(root: &Root, owned: &OwnedNames, node: Ancestor) -> Result<Found, RetireError> {
    let listed = root.list_shallow(&node.node).await?;
    let mut found = Found {
        artifacts: Vec::new(),
        kept: Vec::new(),
    };
    for prefix in &listed.prefixes {
        let name = prefix.rsplit('/').next().unwrap_or(prefix);
        if is_digit(name) {
            continue;
        }
        let mut keep = |reason, why| {
            let path = prefix.clone();
            found.kept.push(KeptArtifact { path, reason, why });
        };
        let stem = match stem_of(name) {
            Ok(stem) => stem,
            Err((reason, why)) => {
                keep(reason, why);
                continue;
            }
        };
        let place = Place {
            id: node.node.replace('/', ""),
            order: node.order,
            stem: stem.to_owned(),
            is_owned: owned.owns(&node, stem),
            node: node.node.clone(),
        };
        let document = root.get_if_present(&place.root_document()).await?;
        match classify(document.as_deref(), &place) {
            Verdict::Retire(why) => {
                let artifact = measured(root, &listed, place, why).await?;
                found.artifacts.push(artifact);
            }
            Verdict::Keep(reason, why) => keep(reason, why),
        }
    }
    Ok(found)
}

async fn measured(
    root: &Root,
    listed: &Shallow,
    place: Place,
    why: String,
) -> Result<RetiredArtifact, RetireError> {
    let mut found = extent(root, &place.path()).await?;
    let sidecar = sidecar_extent(listed, &place);
    found += sidecar;
    Ok(RetiredArtifact {
        path: place.path(),
        found,
        sidecar: sidecar.objects > 0,
        why,
        left: None,
        place,
    })
}

/// What stands under an artifact's prefix.
pub(super) async fn extent(root: &Root, artifact: &str) -> Result<Extent, StoreError> {
    let mut extent = Extent::default();
    let mut listing = root.list(artifact);
    while let Some(entry) = listing.try_next().await? {
        extent += Extent::of(&entry);
    }
    Ok(extent)
}

/// The sidecar of an artifact, by the listing of its node.
pub(super) fn sidecar_extent(listed: &Shallow, place: &Place) -> Extent {
    let key = place.sidecar();
    let sidecar = listed.objects.iter().find(|object| object.key == key);
    sidecar.map_or(Extent::default(), Extent::of)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::kernels::words::decimal;
    use crate::store::records::{Records, WorkItem};

    #[tokio::test]
    async fn every_ancestor_comes_once_with_the_windows_below_it() {
        let root = Root::new(Arc::new(InMemory::new()), "memory://");
        let item = |id: &str, window: &str| WorkItem {
            shard: decimal::parse(id).unwrap(),
            window: Some(window.to_owned()),
        };
        let mut items = vec![
            item("-311", "a"),
            item("112", "b"),
            item("112", "c"),
            item("124", "d"),
            item("121", "c"),
        ];
        items.sort();
        let records = Records {
            items,
            ..Records::default()
        };
        let work = WorkSet::new(&records).unwrap();
        let nodes: Vec<Ancestor> = ancestors(&root, &work).try_collect().await.unwrap();
        let mut nodes: Vec<(String, u8, String)> = nodes
            .into_iter()
            .map(|node| {
                let windows: Vec<String> = node.windows.into_iter().collect();
                (node.node, node.order, windows.concat())
            })
            .collect();
        nodes.sort();
        let due = [
            ("-3", 0, "a"),
            ("-3/1", 1, "a"),
            ("1", 0, "bcd"),
            ("1/1", 1, "bc"),
            ("1/2", 1, "cd"),
        ];
        let due = due.map(|(node, order, windows)| (node.to_owned(), order, windows.to_owned()));
        assert_eq!(nodes, due);
    }
}
