//! What a push uploads and deletes, from what was pulled, what is local, and what is
//! remote now.
//!
//! The laws of it: an object of a bulk array is only ever created where there is none;
//! only keys the inventory says were pulled are deleted, and of these only coordinates;
//! and nothing is done at all next to what somebody else has done since the pull.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::inventory::{Inventory, hash};
use super::layout::{
    Array, CONSOLIDATED, Node, TIME, bare, below, block_of, document_of, named, node_of,
};
use super::moved::{is_as_here, moved, overlap};
use super::stage::Stage;
use super::tree::{Class, Document, Tree};
use super::write::{Body, Write};
use crate::store::root::{Expected, Version};

/// What a plan is made from.
#[derive(Debug)]
pub(crate) struct Sides<'a> {
    pub inventory: &'a Inventory,
    pub local: &'a Tree,
    /// As it is now.
    pub remote: &'a Tree,
    /// Hashes of local objects, documents aside: of all that were pulled or that are
    /// remote now.
    pub local_hashes: &'a BTreeMap<String, String>,
    /// Of remote objects, documents aside: of all that may have been written since the
    /// pull, or are to be written over or deleted.
    pub remote_hashes: &'a BTreeMap<String, (String, Version)>,
    /// Whether bulk objects may be written over that were pulled, by a full pull, or that
    /// stand past the end of their array.
    pub replace_bulk: bool,
}

/// What a push does, in its order, or why it does nothing.
#[derive(Debug, Default)]
pub(crate) struct PushPlan {
    pub stages: BTreeMap<Stage, Vec<Write>>,
    /// Documents of arrays first, or their objects would be missed.
    pub deletions: Vec<(String, Version)>,
    /// Keys that stand remotely as they are locally.
    pub stands: Vec<String>,
    /// Pulled keys that are gone on both sides.
    pub gone: Vec<String>,
    pub refusals: Vec<String>,
    pub warnings: Vec<String>,
}

impl PushPlan {
    /// Every write, in order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &Write> {
        self.stages.values().flatten()
    }

    /// Keys that are written or deleted.
    pub(crate) fn touched(&self) -> BTreeSet<&str> {
        let written = self.writes().map(|write| write.key.as_str());
        written
            .chain(self.deletions.iter().map(|(key, _)| key.as_str()))
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.touched().is_empty()
    }
}

/// Plans a push.
pub(crate) fn plan(sides: &Sides<'_>) -> PushPlan {
    let mut planner = Planner {
        sides,
        plan: PushPlan::default(),
        bared: Vec::new(),
        left_here: Vec::new(),
    };
    for key in sides.local.objects.keys() {
        planner.look_at(key);
    }
    for key in sides.inventory.objects.keys() {
        if !sides.local.objects.contains_key(key) {
            planner.look_at_missing(key);
        }
    }
    planner.settle_bared_groups();
    planner.refuse_what_would_appear();
    let is_object = |(key, _): &(String, Version)| node_of(key).is_none();
    planner.plan.deletions.sort_by_key(is_object);
    planner.refuse_what_moved();
    if !planner.left_here.is_empty() {
        let message = format!(
            "not uploaded, because no node owns them: {}",
            named(&planner.left_here)
        );
        planner.plan.warnings.push(message);
    }
    planner.plan
}

struct Planner<'a> {
    sides: &'a Sides<'a>,
    plan: PushPlan,
    /// Groups that lost nothing but their consolidated block.
    bared: Vec<String>,
    left_here: Vec<String>,
}

impl Planner<'_> {
    fn refuse(&mut self, reason: String) {
        self.plan.refusals.push(reason);
    }

    /// What a key is to any side; bulk to one is bulk.
    fn class(&self, key: &str) -> Class {
        let sides = self.sides;
        let pulled = sides.inventory.objects.get(key).map(|pulled| pulled.class);
        let here = sides.local.class(key);
        let classes = [pulled, Some(sides.remote.class(key)), Some(here)];
        match classes.contains(&Some(Class::Bulk)) {
            true => Class::Bulk,
            false => here,
        }
    }

    fn look_at(&mut self, key: &str) {
        match (node_of(key), self.class(key)) {
            (Some(path), _) => self.look_at_document(key, path),
            (None, Class::Foreign) => {
                if !self.sides.inventory.objects.contains_key(key) {
                    self.left_here.push(key.to_owned());
                }
            }
            (None, class) => self.look_at_object(key, class),
        }
    }

    fn look_at_object(&mut self, key: &str, class: Class) {
        let sides = self.sides;
        let here = sides.local_hashes.get(key);
        let there = sides.remote_hashes.get(key);
        let stage = match class {
            Class::Bulk => Stage::BulkObjects,
            _ => Stage::CoordinateObjects,
        };
        let pulled = sides.inventory.objects.get(key);
        if pulled.is_some_and(|pulled| pulled.sha256.as_ref() == here && here.is_some()) {
            return;
        }
        if there.is_some_and(|(hash, _)| Some(hash) == here) {
            self.plan.stands.push(key.to_owned());
            return;
        }
        let version = match (sides.remote.objects.get(key), there) {
            (None, _) => None,
            (Some(_), Some((_, version))) => Some(version.clone()),
            (Some(entry), None) => Some(Version::from(entry)),
        };
        match (pulled, version) {
            (None, None) => self.write(stage, key, Expected::Absent),
            (None, Some(_)) => self.refuse(format!(
                "`{key}` is new here and was written there since the pull, otherwise; pull into another \
                 directory and append there"
            )),
            (Some(_), Some(version)) if sides.replace_bulk && sides.remote.is_past_end(key) => {
                self.write(stage, key, Expected::Writing(version));
            }
            (Some(pulled), _) if pulled.sha256.is_none() && sides.remote.is_past_end(key) => {
                self.refuse(format!(
                    "`{key}` stands there past the end of its array, as after a push that was cut short, and \
                     is another one here; push with --replace-bulk to write over it"
                ));
            }
            (Some(pulled), _) if pulled.sha256.is_none() => self.refuse(format!(
                "`{key}` was not fetched and has been written here, so it lacks what is in the remote one; \
                 whoever appended did more than append: pull with --full, append there, and push with \
                 --replace-bulk"
            )),
            (Some(_), _) if class == Class::Bulk && !(sides.replace_bulk && sides.inventory.full) => {
                self.refuse(format!(
                    "`{key}` of a bulk array has changed; an append only adds such objects. If it was \
                     meant, push with --replace-bulk"
                ));
            }
            (Some(_), Some(version)) => self.write(stage, key, Expected::Writing(version)),
            // Gone there, which is found to have moved.
            (Some(_), None) => self.write(stage, key, Expected::Absent),
        }
    }

    fn write(&mut self, stage: Stage, key: &str, expected: Expected) {
        let size = self
            .sides
            .local
            .objects
            .get(key)
            .map_or(0, |entry| entry.size);
        self.plan.stages.entry(stage).or_default().push(Write {
            key: key.to_owned(),
            body: Body::There(size),
            expected,
        });
    }

    fn look_at_document(&mut self, key: &str, path: &str) {
        let sides = self.sides;
        let (Some(here), Some(node)) = (sides.local.documents.get(path), sides.local.node(path))
        else {
            return;
        };
        let pulled = sides.inventory.objects.get(key);
        let hash = hash(&here.bytes);
        if pulled.is_some_and(|pulled| pulled.sha256.as_ref() == Some(&hash)) {
            return;
        }
        let there = sides.remote.documents.get(path);
        if there.is_some_and(|there| there.value == here.value) {
            self.plan.stands.push(key.to_owned());
            return;
        }
        if let Some(reason) = self.refused_document(path, node, pulled.is_some(), there) {
            self.refuse(reason);
            return;
        }
        if let (Node::Group(_), Some(there)) = (node, there)
            && lost_only_its_block(here, there)
        {
            self.bared.push(path.to_owned());
            return;
        }
        let expected = match there {
            Some(there) => Expected::Writing(there.version.clone()),
            None => Expected::Absent,
        };
        self.write_document(key, here, Stage::of_document(path, node), expected);
    }

    fn write_document(&mut self, key: &str, here: &Document, stage: Stage, expected: Expected) {
        self.plan.stages.entry(stage).or_default().push(Write {
            key: key.to_owned(),
            body: Body::Here(here.bytes.clone()),
            expected,
        });
    }

    /// Why a changed document may not be uploaded.
    fn refused_document(
        &self,
        path: &str,
        here: &Node,
        was_pulled: bool,
        there: Option<&Document>,
    ) -> Option<String> {
        let key = document_of(path);
        let (Some(document), Some(remote)) = (there, self.sides.remote.node(path)) else {
            return None;
        };
        if !was_pulled {
            return Some(format!(
                "`{key}` is new here and was written there since the pull, otherwise; pull into another \
                 directory and append there"
            ));
        }
        match (here, remote) {
            (Node::Group(_), Node::Group(_)) => None,
            (Node::Array(here), Node::Array(remote)) => {
                if here.is_coordinate() != remote.is_coordinate() {
                    return Some(format!(
                        "`{path}` has another number of dimensions than there"
                    ));
                }
                let new = self.sides.local.documents.get(path)?;
                let fits = here.is_coordinate() || only_grew(here, remote, new, document);
                (!fits).then(|| {
                    format!(
                        "`{key}` would make stored slices unreadable: of a bulk array only the attributes may \
                         change and `{TIME}` may grow; restore it"
                    )
                })
            }
            _ => Some(format!(
                "`{path}` is an array on one side and a group on the other"
            )),
        }
    }

    fn look_at_missing(&mut self, key: &str) {
        let sides = self.sides;
        let Some(pulled) = sides.inventory.objects.get(key) else {
            return;
        };
        if pulled.sha256.is_none() {
            return;
        }
        if !sides.remote.objects.contains_key(key) {
            self.plan.gone.push(key.to_owned());
            return;
        }
        match (node_of(key), pulled.class) {
            (Some(path), _) => self.look_at_missing_document(key, path),
            (None, Class::Coordinate) if self.sides.remote.class(key) != Class::Bulk => {
                if let Some((_, version)) = sides.remote_hashes.get(key) {
                    self.plan.deletions.push((key.to_owned(), version.clone()));
                }
            }
            (None, _) => self.plan.warnings.push(format!(
                "`{key}` is gone here and is kept there: only objects of coordinates are deleted"
            )),
        }
    }

    fn look_at_missing_document(&mut self, key: &str, path: &str) {
        let sides = self.sides;
        let kept = sides
            .local
            .objects
            .keys()
            .find(|other| below(other, path).is_some());
        match (sides.remote.array(path), sides.remote.documents.get(path)) {
            (Some(array), Some(document)) if array.is_coordinate() => match kept {
                Some(kept) => self.refuse(format!(
                    "`{key}` is gone here while `{kept}` is there; restore it, or delete all of the array"
                )),
                None => self.plan.deletions.push((key.to_owned(), document.version.clone())),
            },
            _ => self.refuse(format!(
                "`{key}` is gone here; without it every stored slice below it would be lost, so restore it"
            )),
        }
    }

    /// A block goes only with a change below it that it does not know of.
    fn settle_bared_groups(&mut self) {
        for path in std::mem::take(&mut self.bared) {
            let key = document_of(&path);
            let touched = self.plan.touched();
            if !touched.iter().any(|key| below(key, &path).is_some()) {
                continue;
            }
            let (Some(here), Some(there), Some(node)) = (
                self.sides.local.documents.get(&path),
                self.sides.remote.documents.get(&path),
                self.sides.local.node(&path),
            ) else {
                continue;
            };
            let expected = Expected::Writing(there.version.clone());
            self.write_document(&key, here, Stage::of_document(&path, node), expected);
        }
    }

    /// Refuses to let a bulk array grow over objects that are not of this copy.
    fn refuse_what_would_appear(&mut self) {
        let written: BTreeSet<String> = self.plan.writes().map(|write| write.key.clone()).collect();
        let appear = self.sides.remote.objects.keys().filter(|key| {
            let past_end = self.sides.remote.is_past_end(key) && !self.sides.local.is_past_end(key);
            past_end && !written.contains(*key) && !is_as_here(self.sides, key)
        });
        for key in appear.cloned().collect::<Vec<_>>() {
            if self.sides.local.class(&key) == Class::Bulk
                && !self.sides.local.objects.contains_key(&key)
            {
                self.refuse(format!(
                    "`{key}` stands there past the end of its array, as after a push that was cut short, and \
                     would appear as a part of the new slices; delete that object by hand, then push again"
                ));
            }
        }
    }

    /// Refuses when somebody else has written where this push writes.
    fn refuse_what_moved(&mut self) {
        let moved = moved(self.sides);
        if moved.is_empty() || self.plan.is_empty() {
            return;
        }
        let touched = self.plan.touched();
        let overlaps = touched
            .iter()
            .any(|key| moved.iter().any(|moved| overlap(self.sides, key, moved)));
        let names = named(&moved);
        match overlaps {
            true => self.refuse(format!(
                "the remote cube has changed since the pull where this push writes: {names}; pull into \
                 another directory and append there"
            )),
            false => self.plan.warnings.push(format!(
                "the remote cube has changed since the pull, but not where this push writes: {names}"
            )),
        }
    }
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

fn lost_only_its_block(here: &Document, there: &Document) -> bool {
    let says = |document: &Document| document.value.clone().unwrap_or_default();
    let (here, there): (Value, Value) = (says(here), says(there));
    block_of(&here).is_none() && there.get(CONSOLIDATED).is_some() && bare(&here) == bare(&there)
}
