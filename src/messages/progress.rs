//! How far a step is.

use crate::messages::Step;

/// How far a step is, and what the run asked of the store so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Progress {
    /// The step.
    pub step: Step,
    /// Pieces of work that have ended, however: leaves, artifacts of the ladder, or what
    /// else the step consists of.
    pub done: u64,
    /// Pieces of work that are known.
    pub total: u64,
    /// Pieces of work that something was written for.
    pub written: u64,
    /// Pieces of work that failed, or that something was found wrong with.
    pub failed: u64,
    /// Pieces of work under way.
    pub in_flight: u64,
    /// Bytes they hold of the memory budget.
    pub in_flight_bytes: u64,
    /// Bytes read by the whole run.
    pub bytes_read: u64,
    /// Bytes written by the whole run.
    pub bytes_written: u64,
    /// Requests made by the whole run.
    pub requests: u64,
}
