//! How far the workers of a fleet are.

/// How far the parts of a step are that is shared out to workers.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Parts {
    /// All of them.
    pub total: u64,
    /// Those that have ended, however.
    pub ended: u64,
    /// Those that somebody works on.
    pub at_work: u64,
    /// Pieces of work that each of their workers ends in a second, on average.
    pub per_second: f64,
    /// A few of those, the one that has the longest to go first.
    pub slowest: Vec<PartAtWork>,
}

/// A part that a worker is at.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct PartAtWork {
    /// Its number.
    pub part: u32,
    /// Who is at it.
    pub worker: String,
    /// Pieces of work that have ended.
    pub done: u64,
    /// Pieces of work in all.
    pub total: u64,
    /// Pieces of work ended in a second, so far.
    pub per_second: f64,
}
