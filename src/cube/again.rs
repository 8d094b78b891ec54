//! What others have done to the remote cube while a push was at work.
//!
//! No condition of a single write covers objects that only somebody else writes: one that
//! appears within the new slice would be published with it. So the remote is listed once
//! more before the first document is written, and again at the end.

use std::collections::{BTreeMap, BTreeSet};

use super::moved::overlap;
use super::sync::PushPlan;
use super::tree::Tree;
use crate::store::root::Entry;

/// What a listing is held against.
pub(super) struct Again<'a> {
    pub local: &'a Tree,
    /// As it was when the push was planned.
    pub remote: &'a Tree,
    pub plan: &'a PushPlan,
    /// What the remote cube lists now.
    pub now: &'a BTreeMap<String, Entry>,
}

/// Keys that others have written or deleted meanwhile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Meanwhile {
    /// Where this push writes.
    pub here: Vec<String>,
    /// Elsewhere.
    pub aside: Vec<String>,
}

impl Again<'_> {
    /// What has changed that this push does not write itself.
    pub(super) fn meanwhile(&self) -> Meanwhile {
        let touched = self.plan.touched();
        let then = &self.remote.objects;
        let changed = self
            .now
            .iter()
            .filter(|(key, entry)| then.get(*key) != Some(*entry));
        let gone = then.keys().filter(|key| !self.now.contains_key(*key));
        let keys: BTreeSet<&String> = changed.map(|(key, _)| key).chain(gone).collect();
        let mut meanwhile = Meanwhile::default();
        for key in keys {
            let is_foreign = |tree: &Tree| tree.class(key).is_foreign();
            if touched.contains(key.as_str()) || (is_foreign(self.local) && is_foreign(self.remote))
            {
                continue;
            }
            match touched.iter().any(|ours| overlap(self.local, ours, key)) {
                true => meanwhile.here.push(key.clone()),
                false => meanwhile.aside.push(key.clone()),
            }
        }
        meanwhile
    }

    /// Objects of others that have appeared within what this push has published.
    pub(super) fn mixed(&self) -> Vec<String> {
        let touched = self.plan.touched();
        let new = self.now.keys().filter(|key| {
            let known = self.remote.objects.contains_key(*key) || touched.contains(key.as_str());
            !known && self.local.shows(key) && !self.remote.shows(key)
        });
        new.cloned().collect()
    }
}
