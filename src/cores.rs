//! Whose turn it is to compute.
//!
//! Many leaves are read and folded at once, so that a distant store is kept busy; but a
//! machine has few cores, and the threads that talk to the store need some of their time.
//! So each fold thread takes a core for one piece of work, and holds none while it waits.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// The cores of this machine. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Cores(Arc<Semaphore>);

impl Cores {
    /// All of them.
    pub(crate) fn all() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, Into::into))
    }

    fn new(cores: usize) -> Self {
        Self(Arc::new(Semaphore::new(cores)))
    }

    /// Does `work` on a core of its own, once one is free. Blocks its thread; `work` must
    /// wait for nothing that needs a core.
    pub(crate) fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        // The semaphore is never closed; if it were, computing too much at once is no fault.
        let core = futures::executor::block_on(self.0.acquire());
        let done = work();
        drop(core);
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn no_more_compute_at_once_than_there_are_cores() {
        let cores = Cores::new(2);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        cores.compute(|| {
                            most.fetch_max(
                                now.fetch_add(1, Ordering::SeqCst) + 1,
                                Ordering::SeqCst,
                            );
                            thread::yield_now();
                            now.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 2);
    }

    #[test]
    fn a_panic_gives_its_core_back() {
        let cores = Cores::new(1);
        let panicking = cores.clone();
        let panicked = thread::spawn(move || panicking.compute(|| panic!("on purpose"))).join();
        assert!(panicked.is_err());
        assert_eq!(cores.compute(|| 7), 7);
    }
}
