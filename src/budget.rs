//! The memory budget of a pass: bytes in flight, over all leaves.
//!
//! A leaf's fold takes a [`Share`] and grows it before it fetches or decodes. What it
//! holds is tagged with the block of cells it belongs to, because rows stay resident
//! until their block is folded. When nothing fits, one leaf at a time may overdraw,
//! and only for one block: so the folds never wait for each other in a circle, and
//! the bytes in flight never exceed the budget plus one leaf's block.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Bytes that all leaves together may hold. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct MemoryBudget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capacity: u64,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    in_use: u64,
    peak: u64,
    overdrawn_by: Option<u64>,
    next_share: u64,
}

/// What one leaf holds of the budget; given back on drop.
#[derive(Debug)]
pub(crate) struct Share {
    budget: MemoryBudget,
    id: u64,
    held: Mutex<BTreeMap<u64, u64>>,
}

impl MemoryBudget {
    /// A budget of `capacity` bytes.
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                capacity,
                state: Mutex::default(),
                freed: Notify::new(),
            }),
        }
    }

    /// The most bytes that were ever held at once.
    pub(crate) fn peak(&self) -> u64 {
        self.state().peak
    }

    /// Bytes held now.
    pub(crate) fn in_use(&self) -> u64 {
        self.state().in_use
    }

    /// A share of a leaf, empty at first.
    pub(crate) fn share(&self) -> Share {
        let mut state = self.state();
        state.next_share += 1;
        Share {
            budget: self.clone(),
            id: state.next_share,
            held: Mutex::default(),
        }
    }

    /// The counts stay right when a holder panics, so a poisoned lock is no fault.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn try_take(&self, share: u64, bytes: u64, may_overdraw: bool) -> bool {
        let mut state = self.state();
        let fits = state.in_use + bytes <= self.shared.capacity;
        let overdraws = may_overdraw && state.overdrawn_by.is_none_or(|holder| holder == share);
        if !fits && !overdraws {
            return false;
        }
        if !fits {
            state.overdrawn_by = Some(share);
        }
        state.in_use += bytes;
        state.peak = state.peak.max(state.in_use);
        true
    }

    fn give_back(&self, share: u64, bytes: u64) {
        let mut state = self.state();
        state.in_use -= bytes;
        if state.overdrawn_by == Some(share) && state.in_use <= self.shared.capacity {
            state.overdrawn_by = None;
        }
        drop(state);
        self.shared.freed.notify_waiters();
    }
}

impl Share {
    /// Holds `bytes` more for `block`, waiting until they fit, or until this share may
    /// overdraw for that block.
    pub(crate) async fn grow(&self, block: u64, bytes: u64) {
        self.grow_or_wait(block, bytes, true).await;
    }

    /// Holds `bytes` read ahead of several blocks, of which `last_block` is the last,
    /// waiting until they fit. Whoever waits here holds only what is being folded.
    pub(crate) async fn read_ahead(&self, last_block: u64, bytes: u64) {
        self.grow_or_wait(last_block, bytes, false).await;
    }

    async fn grow_or_wait(&self, block: u64, bytes: u64, may_overdraw: bool) {
        loop {
            // Registered before the test, so that bytes freed in between wake us.
            let freed = self.budget.shared.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            // What is held for later blocks is read ahead; what is held for earlier ones will be
            // given back, and is worth waiting for.
            let none_before = self.held().keys().all(|held| *held >= block);
            if self
                .budget
                .try_take(self.id, bytes, may_overdraw && none_before)
            {
                *self.held().entry(block).or_default() += bytes;
                return;
            }
            freed.await;
        }
    }

    /// Gives back what is held for every block up to and including `block`.
    pub(crate) fn release_through(&self, block: u64) {
        let mut held = self.held();
        let kept = held.split_off(&(block + 1));
        let bytes = std::mem::replace(&mut *held, kept).values().sum();
        drop(held);
        self.budget.give_back(self.id, bytes);
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let bytes = self.held().values().sum();
        self.budget.give_back(self.id, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn waits(growth: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(Duration::from_millis(20), growth)
            .await
            .is_err()
    }

    #[tokio::test]
    async fn a_full_budget_makes_the_second_overdrawer_wait() {
        let budget = MemoryBudget::new(100);
        let (first, second) = (budget.share(), budget.share());
        first.grow(0, 90).await;
        second.grow(0, 30).await;
        assert_eq!(budget.peak(), 120, "one share may overdraw for one block");
        assert!(waits(first.grow(0, 1)).await, "the other one waits");
        second.release_through(0);
        first.grow(0, 1).await;
        assert_eq!(budget.in_use(), 91);
    }

    #[tokio::test]
    async fn the_next_block_is_never_overdrawn_while_one_is_held() {
        let budget = MemoryBudget::new(100);
        let share = budget.share();
        share.grow(0, 150).await;
        assert!(waits(share.grow(1, 10)).await);
        share.release_through(0);
        share.grow(1, 150).await;
        assert_eq!(budget.peak(), 150);
    }

    #[tokio::test]
    async fn what_is_read_ahead_does_not_keep_a_block_from_overdrawing() {
        let budget = MemoryBudget::new(100);
        let share = budget.share();
        share.grow(3, 20).await;
        share.grow(0, 150).await;
        assert!(waits(share.grow(1, 90)).await, "block 0 is still held");
        share.release_through(0);
        share.grow(1, 90).await;
        assert_eq!(budget.peak(), 170);
    }

    #[tokio::test]
    async fn what_is_read_ahead_of_several_blocks_never_overdraws() {
        let budget = MemoryBudget::new(100);
        let (first, second) = (budget.share(), budget.share());
        first.grow(0, 95).await;
        assert!(waits(second.read_ahead(3, 10)).await);
        first.release_through(0);
        second.read_ahead(3, 10).await;
        assert_eq!(budget.peak(), 95);
    }

    #[tokio::test]
    async fn a_dropped_share_gives_everything_back() {
        let budget = MemoryBudget::new(10);
        let share = budget.share();
        share.grow(0, 7).await;
        share.grow(3, 2).await;
        drop(share);
        assert_eq!(budget.in_use(), 0);
    }

    #[tokio::test]
    async fn shares_that_all_want_more_than_fits_still_end() {
        let budget = MemoryBudget::new(64);
        let folds = (0..8).map(|_| {
            let budget = budget.clone();
            tokio::spawn(async move {
                let share = budget.share();
                for block in 0..20 {
                    share.grow(block, 40).await;
                    tokio::task::yield_now().await;
                    share.grow(block, 15).await;
                    share.release_through(block);
                }
            })
        });
        for fold in folds.collect::<Vec<_>>() {
            fold.await.unwrap();
        }
        assert_eq!(budget.in_use(), 0);
        assert!(budget.peak() <= 64 + 55, "{}", budget.peak());
    }
}
