//! What a push uploads and deletes, from what was pulled, what is local, and what is
//! remote now.
//!
//! The laws of it: an object of a bulk array is only ever created where there is none;
//! only keys the inventory says were pulled are deleted, and of these only coordinates;
//! and nothing is done at all next to what somebody else has done since the pull.

use std::collections::{BTreeMap, BTreeSet};

use super::inventory::{Inventory, hash};
use super::layout::{Node, below, document_of, named, node_of};
use super::moved::{moved, overlap};
use super::refuse;
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
    /// Whether bulk objects may be written over that were pulled, by a full pull, and
    /// objects that no array shows.
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
        let stands = sides.remote.objects.contains_key(key);
        let Some(pulled) = pulled else {
            match stands {
                true => self.refuse(refuse::new_on_both(key)),
                false => self.write(stage, key, Expected::Absent),
            }
            return;
        };
        let is_unseen = !sides.remote.shows(key);
        let was_fetched = pulled.sha256.is_some();
        let may_replace =
            sides.replace_bulk && (is_unseen || (was_fetched && sides.inventory.full));
        match (was_fetched, class) {
            _ if may_replace => {}
            (false, _) if is_unseen && stands => return self.refuse(refuse::another_here(key)),
            // Deleted by hand, as the refusals ask for.
            (false, _) if is_unseen => {}
            (false, _) => return self.refuse(refuse::not_fetched(key)),
            (true, Class::Bulk) => return self.refuse(refuse::bulk_changed(key)),
            (true, _) => {}
        }
        let expected = match there {
            Some((_, version)) => Expected::Writing(version.clone()),
            // Gone there, which is found to have moved.
            None => Expected::Absent,
        };
        self.write(stage, key, expected);
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
        if let Some(reason) = refuse::document(sides, path, node, pulled.is_some(), there) {
            self.refuse(reason);
            return;
        }
        if let (Node::Group(_), Some(there)) = (node, there)
            && refuse::lost_only_its_block(here, there)
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
                self.look_at_missing_coordinate(key);
            }
            (None, _) => self.plan.warnings.push(format!(
                "`{key}` is gone here and is kept there: only objects of coordinates are deleted"
            )),
        }
    }

    fn look_at_missing_coordinate(&mut self, key: &str) {
        let sides = self.sides;
        let array = sides
            .local
            .array_above(key)
            .filter(|_| sides.local.shows(key));
        if let Some(reason) = array.and_then(|(path, _)| refuse::time_gone(sides.local, path, key))
        {
            self.refuse(reason);
        } else if let Some((_, version)) = sides.remote_hashes.get(key) {
            self.plan.deletions.push((key.to_owned(), version.clone()));
        }
    }

    fn look_at_missing_document(&mut self, key: &str, path: &str) {
        let sides = self.sides;
        match (sides.remote.array(path), sides.remote.documents.get(path)) {
            (Some(array), Some(document)) if array.is_coordinate() => {
                match refuse::coordinate_gone(sides.local, path) {
                    Some(reason) => self.refuse(reason),
                    None => {
                        let version = document.version.clone();
                        self.plan.deletions.push((key.to_owned(), version));
                    }
                }
            }
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

    /// Refuses to let arrays appear or grow over objects that are not of this copy. Those of
    /// this copy have been looked at one by one.
    fn refuse_what_would_appear(&mut self) {
        let (local, remote) = (self.sides.local, self.sides.remote);
        let appears = |key: &&String| {
            !local.objects.contains_key(*key) && local.shows(key) && !remote.shows(key)
        };
        let keys: Vec<&String> = remote.objects.keys().filter(appears).collect();
        for key in keys {
            self.refuse(refuse::would_appear(key));
        }
    }

    /// Refuses when somebody else has written where this push writes.
    fn refuse_what_moved(&mut self) {
        let moved = moved(self.sides);
        if moved.is_empty() || self.plan.is_empty() {
            return;
        }
        let touched = self.plan.touched();
        let overlaps = touched.iter().any(|key| {
            moved
                .iter()
                .any(|moved| overlap(self.sides.local, key, moved))
        });
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
