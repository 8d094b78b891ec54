//! What was found of a store, for people and for machines.

use std::fmt;

use serde::Serialize;

/// Seconds by which two clocks may differ without a word.
const SKEW_UNSAID_S: u64 = 5;

/// Whether a store can do one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It did.
    Yes,
    /// It did not, and a run can do without.
    No,
    /// It was not asked.
    NotTried,
}

/// What was found of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ability {
    /// Whether the store can do it.
    pub answer: Answer,
    /// What that means, in words.
    pub detail: &'static str,
}

/// What a store can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Examination {
    /// The root, as it was given.
    pub root: String,
    /// Whether it can be listed.
    pub list: Ability,
    /// Whether an object can be read.
    pub read: Ability,
    /// Whether an object is created only where there is none.
    pub create: Ability,
    /// Whether an object is rewritten only while it is the one that was read.
    pub replace: Ability,
    /// Whether an object can be deleted.
    pub delete: Ability,
    /// Seconds by which the store's clock is ahead of this machine's, negative when it is
    /// behind; `None` when nothing was written that would tell.
    pub clock_skew_s: Option<i64>,
}

pub(super) const fn yes(detail: &'static str) -> Ability {
    let answer = Answer::Yes;
    Ability { answer, detail }
}

pub(super) const fn no(detail: &'static str) -> Ability {
    let answer = Answer::No;
    Ability { answer, detail }
}

pub(super) const fn not_tried(detail: &'static str) -> Ability {
    let answer = Answer::NotTried;
    Ability { answer, detail }
}

impl Examination {
    pub(super) fn abilities(&self) -> [(&'static str, Ability); 5] {
        [
            ("list", self.list),
            ("read", self.read),
            ("create", self.create),
            ("replace", self.replace),
            ("delete", self.delete),
        ]
    }

    /// What an operator should know of a clock that is off but not too far.
    pub(crate) fn clock_warning(&self) -> Option<String> {
        let skew_s = self.clock_skew_s?;
        (skew_s.unsigned_abs() > SKEW_UNSAID_S).then(|| {
            format!(
                "the clock of the store of `{}` is {} this machine's, so a lease is good for less here, or \
                 claimed later, by as much; set this machine's clock, as with `chronyc makestep`",
                self.root,
                apart(skew_s),
            )
        })
    }
}

/// `skew_s` in words, to be followed by whose clock it is held against.
pub(super) fn apart(skew_s: i64) -> String {
    let side = if skew_s > 0 { "ahead of" } else { "behind" };
    format!("{} s {side}", skew_s.unsigned_abs())
}

impl fmt::Display for Examination {
    /// One line, with the reasons only of what a store cannot do or was not asked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let abilities = self.abilities();
        let alike = abilities.chunk_by(|(_, one), (_, next)| one == next);
        for (nth, group) in alike.enumerate() {
            let names: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            let separator = if nth > 0 { "; " } else { "" };
            let Ability { answer, detail } = group[0].1;
            match answer {
                Answer::Yes => write!(f, "{separator}{names} yes")?,
                Answer::No => write!(f, "{separator}{names} no ({detail})")?,
                Answer::NotTried => write!(f, "{separator}{names}: {detail}")?,
            }
        }
        match self.clock_skew_s {
            None => Ok(()),
            Some(0) => write!(f, "; clock as here"),
            Some(skew_s) => write!(f, "; clock {} this machine's", apart(skew_s)),
        }
    }
}
