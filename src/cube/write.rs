//! Carries a plan out: stages one after the other, and within a stage several objects at
//! once.
//!
//! Nothing is written over what somebody else has written since the plan was made, and
//! whatever stops a stage, what is under way in it is finished and counted.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use futures::StreamExt;

use super::Cube;
use super::error::Halt;
use crate::budget::MemoryBudget;
use crate::messages::Step;
use crate::store::root::{Expected, Settled};
use crate::store::{Root, StoreError};
use crate::watch::Watched;

/// The whole of an object is one block of its share of the budget.
pub(crate) const WHOLE: u64 = 0;

/// What an object is written from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// These bytes.
    Here(Bytes),
    /// The object of the same key in the other store of the plan, of so many bytes.
    There(u64),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl Body {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::There(bytes) => *bytes,
        }
    }
}

/// One object to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub key: String,
    pub body: Body,
    /// What must stand there for the write to go ahead.
    pub expected: Expected,
}

/// An object that stands as it was to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stands {
    pub key: String,
    pub bytes: Bytes,
    /// Whether it was written just now, or stood there already.
    pub written: bool,
}

/// Writes to one store, from memory or from another.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    to: &'a Root,
    from: &'a Root,
    at_once: usize,
    budget: MemoryBudget,
    cube: &'a Cube,
}

impl<'a> Writer<'a> {
    /// A writer to `to`, of what it does not find in memory in `from`.
    pub(crate) fn new(cube: &'a Cube, to: &'a Root, from: &'a Root) -> Self {
        Self {
            to,
            from,
            at_once: cube.settings.max_writers,
            budget: MemoryBudget::new(cube.settings.memory_budget),
            cube,
        }
    }

    /// Writes a stage, and tells `stands` of every object as it stands.
    ///
    /// # Errors
    /// The first fault, once nothing is under way any more; or that it was told to stop.
    pub(crate) async fn stage(
        &self,
        name: &'static str,
        writes: &[Write],
        stands: impl FnMut(Stands),
    ) -> Result<(), Halt> {
        if writes.is_empty() {
            return Ok(());
        }
        tracing::info!(stage = name, objects = writes.len(), "writing");
        let watchers = self.cube.watchers.clone();
        let watched = Watched::new(Step::Cube, watchers, self.to, writes.len() as u64);
        let watched = watched.budget(&self.budget);
        watched
            .during(self.write_all(writes, &watched, stands))
            .await
    }

    async fn write_all(
        &self,
        writes: &[Write],
        watched: &Watched,
        mut stands: impl FnMut(Stands),
    ) -> Result<(), Halt> {
        let (halted, fault) = (AtomicBool::new(false), Mutex::new(None));
        let mut under_way = futures::stream::iter(writes)
            .map(|write| async {
                if halted.load(Ordering::Relaxed) {
                    return None;
                }
                let _piece = watched.piece();
                match self.write(write).await {
                    Ok(done) => {
                        if done.written {
                            watched.wrote();
                        }
                        Some(done)
                    }
                    Err(halt) => {
                        watched.failed();
                        halted.store(true, Ordering::Relaxed);
                        let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
                        fault.get_or_insert(halt);
                        None
                    }
                }
            })
            .buffer_unordered(self.at_once.max(1));
        while let Some(done) = under_way.next().await {
            done.into_iter().for_each(&mut stands);
        }
        drop(under_way);
        match fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(halt) => Err(halt),
            None => Ok(()),
        }
    }

    async fn write(&self, write: &Write) -> Result<Stands, Halt> {
        if self.cube.stop.is_raised() {
            return Err(Halt::Stopped);
        }
        let key = &write.key;
        let share = self.budget.share();
        share.grow(WHOLE, write.body.len()).await;
        let bytes = match &write.body {
            Body::Here(bytes) => bytes.clone(),
            Body::There(_) => self.from.get(key).await?,
        };
        let settled = self.to.settle(key, &bytes, &write.expected).await?;
        tracing::debug!(key, bytes = bytes.len(), settled = ?settled, "object settled");
        match settled {
            Settled::Moved => {
                let may_be_gone = write.expected != Expected::Absent;
                let was_deleted = may_be_gone && self.to.get_if_present(key).await?.is_none();
                Err(Halt::moved(self.to, key, was_deleted))
            }
            settled => Ok(Stands {
                key: key.clone(),
                bytes,
                written: settled == Settled::Written,
            }),
        }
    }
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
