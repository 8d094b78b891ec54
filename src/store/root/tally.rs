//! What was asked of a root and how many bytes moved.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::error::FaultKind;

/// Requests made and bytes moved so far, retries included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// GET requests, one per merged range.
    pub get: u64,
    /// HEAD requests.
    pub head: u64,
    /// PUT requests.
    pub put: u64,
    /// LIST calls; a store pages long ones, which is not seen here.
    pub list: u64,
    /// Keys whose deletion was asked for.
    pub delete: u64,
    /// Body bytes received.
    pub bytes_read: u64,
    /// Body bytes sent.
    pub bytes_written: u64,
    /// Requests tried again because the store asked for fewer.
    pub throttled: u64,
    /// Requests tried again for any reason.
    pub retried: u64,
    /// The fewest requests that were made at once because the store asked for less; `None`
    /// when it never did.
    pub lowest_cap: Option<u64>,
}

impl Tally {
    /// What came to this after `before`, which is an earlier one of the same counts. The
    /// fewest requests at once are those of the whole time.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            get: self.get - before.get,
            head: self.head - before.head,
            put: self.put - before.put,
            list: self.list - before.list,
            delete: self.delete - before.delete,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_written: self.bytes_written - before.bytes_written,
            throttled: self.throttled - before.throttled,
            retried: self.retried - before.retried,
            lowest_cap: self.lowest_cap,
        }
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.get += other.get;
        self.head += other.head;
        self.put += other.put;
        self.list += other.list;
        self.delete += other.delete;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.throttled += other.throttled;
        self.retried += other.retried;
        self.lowest_cap = match (self.lowest_cap, other.lowest_cap) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

impl Tally {
    /// Requests of all classes.
    pub fn requests(&self) -> u64 {
        self.get + self.head + self.put + self.list + self.delete
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) get: AtomicU64,
    pub(super) head: AtomicU64,
    pub(super) put: AtomicU64,
    pub(super) list: AtomicU64,
    pub(super) delete: AtomicU64,
    pub(super) bytes_read: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) throttled: AtomicU64,
    pub(super) retried: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn on_retry(&self, kind: FaultKind) {
        count(&self.retried, 1);
        if kind == FaultKind::Throttled {
            count(&self.throttled, 1);
        }
    }

    pub(super) fn read(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally {
            get: read(&self.get),
            head: read(&self.head),
            put: read(&self.put),
            list: read(&self.list),
            delete: read(&self.delete),
            bytes_read: read(&self.bytes_read),
            bytes_written: read(&self.bytes_written),
            throttled: read(&self.throttled),
            retried: read(&self.retried),
            lowest_cap: None,
        }
    }
}
