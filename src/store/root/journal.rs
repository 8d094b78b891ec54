//! Which objects of a store were written and deleted through a root.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys below the root, as they stand at the end: what was written and then deleted counts
/// as deleted, and the other way round.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Touched {
    /// Objects written.
    pub written: BTreeSet<String>,
    /// Objects deleted. Stores that do not tell an absent object from a deleted one count
    /// both.
    pub deleted: BTreeSet<String>,
}

/// Notes what goes through a root and its clones.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<Touched>);

impl Journal {
    pub(super) fn on_write(&self, key: String) {
        let mut touched = self.touched();
        touched.deleted.remove(&key);
        touched.written.insert(key);
    }

    pub(super) fn on_delete(&self, key: String) {
        let mut touched = self.touched();
        touched.written.remove(&key);
        touched.deleted.insert(key);
    }

    /// Adds what another process wrote and deleted.
    pub(super) fn add(&self, other: Touched) {
        for key in other.written {
            self.on_write(key);
        }
        for key in other.deleted {
            self.on_delete(key);
        }
    }

    pub(super) fn touched(&self) -> MutexGuard<'_, Touched> {
        // The sets are whole after every change, so a panic elsewhere does not spoil them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
