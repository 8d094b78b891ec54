//! One line of a script: which calls, which of them in turn, and what befalls them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::op::{Failure, Op};
use crate::common::dice::dice_of;

type Holds = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What befalls a call.
#[derive(Clone)]
pub(crate) enum Effect {
    /// Nothing.
    Nothing,
    /// It fails.
    Fail(Failure),
    /// It takes longer.
    Stall(Duration),
    /// It panics.
    Panic,
    /// Its body ends early, as if that were all.
    Truncate(usize),
    /// Every byte of its body is another.
    Garble,
    /// Its body breaks off with an error.
    Tear(usize),
    /// It says so and never returns.
    Park(&'static str),
    /// It is acknowledged and not done.
    Forget,
    /// Its listing lacks these.
    Lose(Loss),
    /// Its listing comes in the order of this die.
    Reorder(u64),
}

/// What a listing lacks.
#[derive(Clone)]
pub(crate) enum Loss {
    /// The entries at these places, in the order of a listing.
    Places(Range<usize>),
    /// The entries with such keys.
    Keys(Holds),
}

impl Loss {
    /// Whether the listing lacks its entry `nth`, the first being 0.
    pub(crate) fn takes(&self, nth: usize, key: &str) -> bool {
        match self {
            Self::Places(places) => places.contains(&nth),
            Self::Keys(holds) => holds(key),
        }
    }
}

impl Effect {
    /// Whether it can befall a call of this class.
    fn befits(&self, op: Op) -> bool {
        match self {
            Self::Truncate(_) | Self::Tear(_) | Self::Garble => Op::READS.contains(&op),
            Self::Lose(_) | Self::Reorder(_) => Op::LISTS.contains(&op),
            Self::Forget => Op::WRITES.contains(&op) && op != Op::PutMultipart,
            Self::Nothing | Self::Fail(_) | Self::Stall(_) | Self::Panic | Self::Park(_) => true,
        }
    }

    /// Whether it befalls the answer and not the question.
    pub(crate) fn is_of_the_answer(&self) -> bool {
        matches!(
            self,
            Self::Truncate(_) | Self::Tear(_) | Self::Garble | Self::Lose(_) | Self::Reorder(_)
        )
    }
}

#[derive(Debug, Clone, Copy)]
enum Turns {
    Every,
    Nth(u64),
    First(u64),
    From(u64),
    FirstOfEach(u64),
    Percent { percent: u64, seed: u64 },
}

/// One line of a script.
pub(crate) struct Rule {
    ops: Vec<Op>,
    key: Box<dyn Fn(&str) -> bool + Send + Sync>,
    turns: Turns,
    lands: bool,
    effect: Effect,
    matched: AtomicU64,
    of_each: Mutex<BTreeMap<(Op, String), u64>>,
    struck: Arc<AtomicU64>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("ops", &self.ops)
            .field("turns", &self.turns)
            .finish_non_exhaustive()
    }
}

impl Rule {
    /// A rule for calls of these classes, whatever the key, every time.
    pub(crate) fn on(ops: impl IntoIterator<Item = Op>) -> Self {
        Self {
            ops: ops.into_iter().collect(),
            key: Box::new(|_| true),
            turns: Turns::Every,
            lands: false,
            effect: Effect::Nothing,
            matched: AtomicU64::new(0),
            of_each: Mutex::default(),
            struck: Arc::default(),
        }
    }

    /// Only keys of which this holds.
    pub(crate) fn key(mut self, holds: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.key = Box::new(holds);
        self
    }

    /// Only keys with this in them.
    pub(crate) fn key_contains(self, part: &str) -> Self {
        let part = part.to_owned();
        self.key(move |key| key.contains(&part))
    }

    /// Only keys with this end.
    pub(crate) fn key_ends_with(self, end: &str) -> Self {
        let end = end.to_owned();
        self.key(move |key| key.ends_with(&end))
    }

    /// Only the `nth` call that fits, the first being 1.
    pub(crate) fn nth(mut self, nth: u64) -> Self {
        self.turns = Turns::Nth(nth);
        self
    }

    /// Only the first `calls` calls that fit.
    pub(crate) fn first(mut self, calls: u64) -> Self {
        self.turns = Turns::First(calls);
        self
    }

    /// Only the `nth` call that fits and all later ones.
    pub(crate) fn from(mut self, nth: u64) -> Self {
        self.turns = Turns::From(nth);
        self
    }

    /// Only the first `calls` calls of each class for each key.
    pub(crate) fn first_of_each(mut self, calls: u64) -> Self {
        self.turns = Turns::FirstOfEach(calls);
        self
    }

    /// Only so many of a hundred calls. Which ones follows from the seed, the class, the key
    /// and how often it was called: whoever else calls meanwhile changes nothing.
    pub(crate) fn percent(mut self, percent: u64, seed: u64) -> Self {
        self.turns = Turns::Percent { percent, seed };
        self
    }

    /// The store does what it is asked; what befalls the call befalls its answer.
    pub(crate) fn lands(mut self) -> Self {
        self.lands = true;
        self
    }

    /// The call fails.
    pub(crate) fn fail(self, failure: Failure) -> Self {
        self.effect(Effect::Fail(failure))
    }

    /// The call takes this much longer.
    pub(crate) fn stall(self, delay: Duration) -> Self {
        self.effect(Effect::Stall(delay))
    }

    /// The call panics.
    pub(crate) fn panic(self) -> Self {
        self.effect(Effect::Panic)
    }

    /// A body, and each of several ranges, ends after `num_bytes`.
    pub(crate) fn truncate(self, num_bytes: usize) -> Self {
        self.effect(Effect::Truncate(num_bytes))
    }

    /// A body, and each of several ranges, is as long as it should be and wrong.
    pub(crate) fn garble(self) -> Self {
        self.effect(Effect::Garble)
    }

    /// A body breaks off with an error after `num_bytes`; several ranges fail.
    pub(crate) fn tear(self, num_bytes: usize) -> Self {
        self.effect(Effect::Tear(num_bytes))
    }

    /// The call prints `marker` on a line of stdout and never returns, so that whoever
    /// reads the line can kill the process at a known place.
    pub(crate) fn park(self, marker: &'static str) -> Self {
        self.effect(Effect::Park(marker))
    }

    /// A write, or a deletion, is acknowledged and not done.
    pub(crate) fn forget(self) -> Self {
        self.effect(Effect::Forget)
    }

    /// A listing lacks its entries at these places, and says nothing of it.
    pub(crate) fn lose_places(self, places: Range<usize>) -> Self {
        self.effect(Effect::Lose(Loss::Places(places)))
    }

    /// A listing lacks the entries with such keys, and says nothing of it. Of a listing one
    /// level deep the prefixes are entries, too.
    pub(crate) fn lose_keys(self, holds: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.effect(Effect::Lose(Loss::Keys(Arc::new(holds))))
    }

    /// A listing comes in another order.
    pub(crate) fn reorder(self, seed: u64) -> Self {
        self.effect(Effect::Reorder(seed))
    }

    /// How often the rule has struck so far, for as long as anybody asks.
    pub(crate) fn struck(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.struck)
    }

    fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// What befalls this call, if anything, and whether it lands all the same.
    pub(super) fn strikes(&self, op: Op, key: &str) -> Option<(Effect, bool)> {
        if !self.ops.contains(&op) || !(self.key)(key) || !self.effect.befits(op) {
            return None;
        }
        let turn = self.matched.fetch_add(1, Ordering::SeqCst) + 1;
        let strikes = match self.turns {
            Turns::Every => true,
            Turns::Nth(nth) => turn == nth,
            Turns::First(last) => turn <= last,
            Turns::From(first) => turn >= first,
            Turns::FirstOfEach(last) => self.turn_of(op, key) <= last,
            Turns::Percent { percent, seed } => {
                let turn = self.turn_of(op, key);
                dice_of(seed, &format!("{op:?} {key} {turn}")).comes_up(percent)
            }
        };
        if !strikes {
            return None;
        }
        self.struck.fetch_add(1, Ordering::SeqCst);
        Some((self.effect.clone(), self.lands))
    }

    fn turn_of(&self, op: Op, key: &str) -> u64 {
        let mut turns = self.of_each.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = turns.entry((op, key.to_owned())).or_default();
        *turn += 1;
        *turn
    }
}
