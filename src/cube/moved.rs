//! What somebody else has done to the remote cube since it was pulled, and whether a push
//! can stand beside it.

use super::inventory::hash;
use super::layout::{below, node_of};
use super::sync::Sides;
use super::tree::Tree;

/// Keys that somebody else has written or deleted since the pull.
pub(super) fn moved(sides: &Sides<'_>) -> Vec<String> {
    let (then, now) = (&sides.inventory.objects, &sides.remote.objects);
    let mut moved = Vec::new();
    for (key, pulled) in then {
        let stands = match now.get(key) {
            // By a push that was cut short; or by hand, what no array shows.
            None if pulled.sha256.is_none() => !sides.remote.shows(key),
            None => !sides.local.objects.contains_key(key),
            Some(entry) => {
                let known = match (&pulled.sha256, remote_hash(sides, key)) {
                    (Some(then), Some(now)) => *then == now,
                    _ => pulled.is(entry),
                };
                known || is_as_here(sides, key)
            }
        };
        let is_foreign = pulled.class.is_foreign() && sides.local.class(key).is_foreign();
        if !stands && !is_foreign {
            moved.push(key.clone());
        }
    }
    let new = now.keys().filter(|key| {
        !then.contains_key(*key) && !is_as_here(sides, key) && !sides.remote.class(key).is_foreign()
    });
    moved.extend(new.cloned());
    moved
}

fn remote_hash(sides: &Sides<'_>, key: &str) -> Option<String> {
    match node_of(key) {
        Some(path) => Some(hash(&sides.remote.documents.get(path)?.bytes)),
        None => Some(sides.remote_hashes.get(key)?.0.clone()),
    }
}

/// Whether a key holds the same on both sides, as after a push that was cut short.
pub(super) fn is_as_here(sides: &Sides<'_>, key: &str) -> bool {
    match node_of(key) {
        Some(path) => {
            let says = |tree: &Tree| Some(tree.documents.get(path)?.value.clone());
            says(sides.local).is_some() && says(sides.local) == says(sides.remote)
        }
        None => {
            let here = sides.local_hashes.get(key);
            here.is_some() && here == sides.remote_hashes.get(key).map(|(hash, _)| hash)
        }
    }
}

/// Whether what is written at `key` could contradict what has moved: they are of the same
/// orbit, or what is written repeats what stands below it.
pub(super) fn overlap(local: &Tree, key: &str, moved: &str) -> bool {
    let orbit = |key: &str| {
        key.split_once('/')
            .map_or(String::new(), |(orbit, _)| orbit.to_owned())
    };
    let repeats = node_of(key).is_some_and(|path| {
        let group = local.group(path);
        below(moved, path).is_some() && group.is_some_and(|group| group.consolidated.is_some())
    });
    orbit(key) == orbit(moved) || repeats
}
