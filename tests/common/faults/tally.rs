//! What was asked of a store: how often, and how many bytes went to and fro.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::op::Op;

/// What was asked of one key by one class of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Calls, failed ones included.
    pub(crate) calls: u64,
    /// Bytes written, or read as far as somebody read them.
    pub(crate) bytes: u64,
}

/// Counts by class and key.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<BTreeMap<(Op, String), Count>>);

impl Tally {
    /// Notes a call.
    pub(crate) fn call(&self, op: Op, key: &str) {
        self.lock().entry((op, key.to_owned())).or_default().calls += 1;
    }

    /// Notes bytes that went to and fro.
    pub(crate) fn bytes(&self, op: Op, key: &str, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap();
        self.lock().entry((op, key.to_owned())).or_default().bytes += bytes;
    }

    /// What calls of a class for keys of which this holds add up to.
    pub(crate) fn of(&self, op: Op, holds: impl Fn(&str) -> bool) -> Count {
        let mut sum = Count::default();
        for ((called, key), count) in self.lock().iter() {
            if *called == op && holds(key) {
                sum.calls += count.calls;
                sum.bytes += count.bytes;
            }
        }
        sum
    }

    /// Every count.
    pub(crate) fn counts(&self) -> BTreeMap<(Op, String), Count> {
        self.lock().clone()
    }

    /// Forgets what was counted so far.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// A panic by script may poison the lock and leaves the counts right.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Op, String), Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
