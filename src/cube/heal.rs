//! What a heal writes: `time` of the finest level, verbatim, to every level that lacks it.
//!
//! In this order. The objects first, so that no array ever reads as fill. Then the groups
//! above, without the consolidated blocks that do not know the new arrays: after the arrays
//! it would be too late, for a heal that was cut short between the two finds nothing to
//! mend when it runs again. The documents of the arrays come last and make them appear.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::check::Judged;
use super::error::Halt;
use super::layout::{TIME, ancestors, bare, below, block_of, document_of, join, source_of};
use super::write::{Body, Write};
use crate::store::json;
use crate::store::root::{Expected, Versioned};
use crate::store::{Root, StoreError};

/// What a heal writes, in its order.
#[derive(Debug, Default)]
pub(crate) struct HealPlan {
    /// Levels that get `time`, by path.
    pub levels: Vec<String>,
    /// The objects of `time`.
    pub objects: Vec<Write>,
    /// Groups that lose their consolidated block.
    pub groups: Vec<Write>,
    /// The documents of `time`.
    pub documents: Vec<Write>,
}

impl HealPlan {
    /// Plans the heal of every orbit nothing stands in the way of. `leftovers` has the
    /// objects that stand where a copy goes.
    pub(crate) fn of(judged: &Judged, leftovers: &BTreeMap<String, Versioned>) -> Self {
        let mut plan = Self::default();
        let mut stale = BTreeSet::new();
        for orbit in &judged.orbits {
            if judged.refusals(&orbit.path).next().is_some() {
                continue;
            }
            let source = source_of(&orbit.path);
            let Some(document) = judged.tree.documents.get(&source) else {
                continue;
            };
            for level in orbit.levels.iter().filter(|level| level.time.is_none()) {
                let time = join(&level.path, TIME);
                plan.levels.push(level.path.clone());
                plan.copy_objects(judged, &source, &time, leftovers);
                plan.documents.push(Write {
                    key: document_of(&time),
                    body: Body::Here(document.bytes.clone()),
                    expected: Expected::Absent,
                });
                stale.extend(ancestors(&time).map(str::to_owned));
            }
        }
        // The deepest first, as they are written.
        for path in stale.iter().rev() {
            plan.groups.extend(drop_block(judged, path));
        }
        plan
    }

    fn copy_objects(
        &mut self,
        judged: &Judged,
        source: &str,
        time: &str,
        leftovers: &BTreeMap<String, Versioned>,
    ) {
        for object in judged
            .times
            .get(source)
            .iter()
            .flat_map(|times| times.objects.values())
        {
            let Some(name) = below(&object.key, source) else {
                continue;
            };
            let key = join(time, name);
            let expected = match leftovers.get(&key) {
                // Of a heal that was cut short.
                Some(left) if left.bytes == object.bytes => continue,
                // No array has owned it yet, so nobody reads it.
                Some(left) => Expected::Writing(left.version.clone()),
                None => Expected::Absent,
            };
            self.objects.push(Write {
                key,
                body: Body::Here(object.bytes.clone()),
                expected,
            });
        }
    }

    /// Every write, in order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &Write> {
        let arrays = self.objects.iter();
        arrays.chain(&self.groups).chain(&self.documents)
    }
}

fn drop_block(judged: &Judged, path: &str) -> Option<Write> {
    let document = judged.tree.documents.get(path)?;
    let value = document.value.as_ref()?;
    block_of(value)?;
    Some(Write {
        key: document_of(path),
        body: Body::Here(Bytes::from(json::python_compact(&bare(value)))),
        expected: Expected::Writing(document.version.clone()),
    })
}

/// Reads the objects that stand where a copy goes.
///
/// # Errors
/// Any failed request.
pub(crate) async fn leftovers(
    root: &Root,
    judged: &Judged,
) -> Result<BTreeMap<String, Versioned>, StoreError> {
    let mut found = BTreeMap::new();
    let levels = judged.orbits.iter().flat_map(|orbit| &orbit.levels);
    for level in levels.filter(|level| level.time.is_none()) {
        let time = join(&level.path, TIME);
        let keys = judged.tree.objects.keys();
        for key in keys.filter(|key| below(key, &time).is_some()) {
            found.insert(key.clone(), root.get_with_version(key).await?);
        }
    }
    Ok(found)
}

/// What has moved of a `time` array that was copied, if it is not what was read any more.
///
/// # Errors
/// Any failed request.
pub(crate) async fn moved_source(
    root: &Root,
    judged: &Judged,
    plan: &HealPlan,
) -> Result<Option<Halt>, StoreError> {
    for orbit in &judged.orbits {
        let healed = |level: &String| below(level, &orbit.path).is_some();
        if !plan.levels.iter().any(healed) {
            continue;
        }
        let source = source_of(&orbit.path);
        let document = judged.tree.documents.get(&source);
        let document = document.map(|document| (document_of(&source), &document.bytes));
        let objects = judged
            .times
            .get(&source)
            .into_iter()
            .flat_map(|times| times.objects.values());
        let objects = objects.map(|object| (object.key.clone(), &object.bytes));
        for (key, bytes) in document.into_iter().chain(objects) {
            let found = root.get_if_present(&key).await?;
            if found.as_ref() != Some(bytes) {
                return Ok(Some(Halt::moved(root, &key, found.is_none())));
            }
        }
    }
    Ok(None)
}
