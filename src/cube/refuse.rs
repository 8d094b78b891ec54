//! Why a push leaves something alone, in words, and the judgement of documents.

use serde_json::Value;

use super::layout::{
    Array, CONSOLIDATED, FINEST, Node, TIME, ancestors, bare, below, block_of, document_of, split,
};
use super::sync::Sides;
use super::tree::{Document, Tree};

/// What is new on both sides, and differs.
pub(super) fn new_on_both(key: &str) -> String {
    format!(
        "`{key}` is new here and was written there since the pull, otherwise; pull into another directory \
         and append there"
    )
}

/// An object no array shows that differs from the one here.
pub(super) fn another_here(key: &str) -> String {
    format!(
        "{} is another one here; push with --replace-bulk to write over it",
        unseen(key)
    )
}

/// An object no array shows that would be shown.
pub(super) fn would_appear(key: &str) -> String {
    format!(
        "{} would appear as a part of what is pushed; delete that object by hand, then push again",
        unseen(key)
    )
}

fn unseen(key: &str) -> String {
    format!(
        "`{key}` stands there past the end of its array or below none, as after a push that was cut short, \
         and"
    )
}

/// An object that was left there and is another one here.
pub(super) fn not_fetched(key: &str) -> String {
    format!(
        "`{key}` was not fetched and has been written here, so it lacks what is in the remote one; whoever \
         appended did more than append: pull with --full, append there, and push with --replace-bulk"
    )
}

/// An object of a bulk array that has changed.
pub(super) fn bulk_changed(key: &str) -> String {
    format!(
        "`{key}` of a bulk array has changed; an append only adds such objects. If it was meant, push with \
         --replace-bulk"
    )
}

/// Why a changed document may not be uploaded.
pub(super) fn document(
    sides: &Sides<'_>,
    path: &str,
    here: &Node,
    was_pulled: bool,
    there: Option<&Document>,
) -> Option<String> {
    let key = document_of(path);
    let (Some(document), Some(remote)) = (there, sides.remote.node(path)) else {
        return None;
    };
    if !was_pulled {
        return Some(new_on_both(&key));
    }
    match (here, remote) {
        (Node::Group(_), Node::Group(_)) => None,
        (Node::Array(here), Node::Array(remote)) => {
            if here.is_coordinate() != remote.is_coordinate() {
                return Some(format!(
                    "`{path}` has another number of dimensions than there; restore it"
                ));
            }
            let new = sides.local.documents.get(path)?;
            let fits = here.is_coordinate() || only_grew(here, remote, new, document);
            (!fits).then(|| {
                format!(
                    "`{key}` would make stored slices unreadable: of a bulk array only the attributes may \
                     change and `{TIME}` may grow; restore it"
                )
            })
        }
        _ => Some(format!(
            "`{path}` is an array on one side and a group on the other; restore it"
        )),
    }
}

/// Why the document of the coordinate at `path`, which is gone here, may not be deleted.
pub(super) fn coordinate_gone(local: &Tree, path: &str) -> Option<String> {
    let key = document_of(path);
    let mut objects = local.keys_below(path);
    if let Some(kept) = objects.next() {
        return Some(format!(
            "`{key}` is gone here while `{kept}` is there; restore it, or delete all of the array"
        ));
    }
    if let Some(reason) = time_gone(local, path, &key) {
        return Some(reason);
    }
    let mut above = ancestors(path);
    let names = |group: &&str| {
        let block = local.group(group).and_then(|g| g.consolidated.as_ref());
        block.is_some_and(|block| below(path, group).is_some_and(|name| block.contains_key(name)))
    };
    above.find(names).map(|group| {
        format!(
            "`{key}` is gone here while `{}` still names it in its consolidated metadata; consolidate anew \
             in the local copy (`zarr.consolidate_metadata`), or remove the block there",
            document_of(group)
        )
    })
}

/// Why `key`, of the array at `path`, may not be deleted if that is the `time` of a level:
/// without it the next append fails, and what it shows has no times.
pub(super) fn time_gone(local: &Tree, path: &str, key: &str) -> Option<String> {
    let (level, TIME) = split(path)? else {
        return None;
    };
    let along = |(name, node): (&str, &Node)| match node {
        Node::Array(array) => (name != TIME && array.slices().is_some()).then(|| name.to_owned()),
        Node::Group(_) => None,
    };
    let array = local.children(level).find_map(along)?;
    let cure = match split(level) {
        Some((_, FINEST)) => "restore it, nothing else says what its times are",
        _ => {
            "remove what is left of that `time` in the local copy and finish the heal there: `zagg-stream cube \
             heal LOCAL`, then push"
        }
    };
    Some(format!(
        "`{key}` is gone here while level `{level}` has `{level}/{array}` along `{TIME}`; {cure}"
    ))
}

/// Whether stored objects mean the same under the new document: at most the attributes
/// differ, and `time` has grown.
fn only_grew(here: &Array, there: &Array, new: &Document, old: &Document) -> bool {
    let rest = |document: &Document| {
        let mut value = document.value.clone().unwrap_or_default();
        if let Some(members) = value.as_object_mut() {
            members.shift_remove("shape");
            members.shift_remove("attributes");
        }
        value
    };
    let axis = there.time_axis();
    let grew = here.shape.len() == there.shape.len()
        && here
            .shape
            .iter()
            .zip(&there.shape)
            .enumerate()
            .all(|(dimension, (new, old))| new == old || (Some(dimension) == axis && new > old));
    grew && rest(new) == rest(old)
}

/// Whether a document lacks nothing of the remote one but its consolidated block.
pub(super) fn lost_only_its_block(here: &Document, there: &Document) -> bool {
    let says = |document: &Document| document.value.clone().unwrap_or_default();
    let (here, there): (Value, Value) = (says(here), says(there));
    block_of(&here).is_none() && there.get(CONSOLIDATED).is_some() && bare(&here) == bare(&there)
}
