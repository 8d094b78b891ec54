//! How many requests may be under way at once, which follows what the store can take.
//!
//! A key that is throttled waits by itself, under its [`RetryPolicy`](super::RetryPolicy).
//! When several are, it is the store that asks for less: the cap is halved. It grows back
//! slowly, with what the store answers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Growth of the cap with every round of answers, as a part of its full size.
const ROUNDS_TO_REGROW: usize = 32;

/// A change of the cap that is worth telling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The store asked for less.
    Lowered {
        /// The key of the answer that said so.
        key: String,
        /// Requests at once from now on.
        max_requests: usize,
    },
    /// It takes as many as ever.
    Restored {
        /// Requests at once from now on.
        max_requests: usize,
    },
}

/// The cap, as a function of the answers alone.
#[derive(Debug)]
struct Cap {
    full: usize,
    now: usize,
    least: usize,
    /// How often it was lowered. Answers to requests begun before the last time say nothing
    /// of the present cap.
    round: u64,
    /// Requests answered since it last changed.
    answered: usize,
    /// The key that was throttled last, as long as no other was.
    throttled: Option<String>,
}

impl Cap {
    fn new(full: usize) -> Self {
        Self {
            full,
            now: full,
            least: full,
            round: 0,
            answered: 0,
            throttled: None,
        }
    }

    /// Takes a throttled answer to a request that was begun in `round`.
    fn throttled(&mut self, key: &str, round: u64) -> Option<Change> {
        if round < self.round {
            return None;
        }
        match &self.throttled {
            Some(other) if other != key => {}
            _ => {
                self.throttled = Some(key.to_owned());
                return None;
            }
        }
        if self.now == 1 {
            return None;
        }
        self.now = (self.now / 2).max(1);
        self.least = self.least.min(self.now);
        self.round += 1;
        self.answered = 0;
        self.throttled = None;
        Some(Change::Lowered {
            key: key.to_owned(),
            max_requests: self.now,
        })
    }

    /// Takes any other answer. A round of them is as many as may be under way at once.
    fn answered(&mut self) -> Option<Change> {
        self.answered += 1;
        if self.answered < self.now {
            return None;
        }
        self.answered = 0;
        self.throttled = None;
        if self.now == self.full {
            return None;
        }
        let step = (self.full / ROUNDS_TO_REGROW).max(1);
        self.now = (self.now + step).min(self.full);
        (self.now == self.full).then_some(Change::Restored {
            max_requests: self.full,
        })
    }
}

type Listener = dyn Fn(Change) + Send + Sync;

/// The requests of a root and its clones.
pub(super) struct Pacing {
    state: Mutex<State>,
    freed: Notify,
    listener: Option<Arc<Listener>>,
}

struct State {
    cap: Cap,
    under_way: usize,
}

impl fmt::Debug for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Pacing")
            .field("cap", &state.cap)
            .field("under_way", &state.under_way)
            .finish_non_exhaustive()
    }
}

/// The right to one request, until it is dropped.
pub(super) struct Turn<'a> {
    pacing: &'a Pacing,
    round: u64,
}

impl Pacing {
    /// At most `full` requests at once; `listener` hears of every change.
    pub(super) fn new(full: usize, listener: Option<Arc<Listener>>) -> Self {
        Self {
            state: Mutex::new(State {
                cap: Cap::new(full.max(1)),
                under_way: 0,
            }),
            freed: Notify::new(),
            listener,
        }
    }

    /// No bound, for those who make few requests and must not wait.
    pub(super) fn unbounded() -> Self {
        Self::new(usize::MAX, None)
    }

    /// The lowest the cap ever was; `None` when the store never asked for less.
    pub(super) fn least(&self) -> Option<usize> {
        let state = self.state();
        (state.cap.least < state.cap.full).then_some(state.cap.least)
    }

    /// Waits for the turn of a request. Whoever holds one waits for nothing but its answer.
    pub(super) async fn turn(&self) -> Turn<'_> {
        loop {
            // Registered before the look, so that a turn given back in between wakes us.
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            {
                let mut state = self.state();
                if state.under_way < state.cap.now {
                    state.under_way += 1;
                    let round = state.cap.round;
                    return Turn {
                        pacing: self,
                        round,
                    };
                }
            }
            freed.await;
        }
    }

    fn tell(&self, change: Option<Change>) {
        if let (Some(change), Some(listener)) = (change, &self.listener) {
            listener(change);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The counts are whole after every change, so a panic elsewhere does not spoil them.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// The store asked for fewer requests.
    pub(super) fn throttled(self, key: &str) {
        let change = self.pacing.state().cap.throttled(key, self.round);
        self.pacing.tell(change);
    }

    /// The store answered anything else.
    pub(super) fn answered(self) {
        let change = self.pacing.state().cap.answered();
        self.pacing.tell(change);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.pacing.state();
        state.under_way -= 1;
        let free = state.cap.now.saturating_sub(state.under_way);
        drop(state);
        // The cap may have grown since the last turn was given back.
        for _ in 0..free.min(2) {
            self.pacing.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
