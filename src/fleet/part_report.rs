//! What a worker tells of its part: on the way how far it is, at the end what came of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{AbortReason, FaultKind};
use crate::report::{Ending, Report};
use crate::store::Touched;
use crate::verify::PartVerified;
use crate::watch::Elsewhere;

/// The last word of a part, or the latest. Writing it again changes nothing but itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PartReport {
    pub run_id: String,
    pub part: u32,
    /// Whoever works on it; no two processes have the same.
    pub worker: String,
    pub so_far: Elsewhere,
    /// Pieces of work that are known.
    pub total: u64,
    /// Seconds since its work began.
    pub seconds: f64,
    /// Set at the end.
    pub ended: Option<PartEnded>,
}

/// What came of a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PartEnded {
    pub report: Report,
    /// A fault of the whole store, which concerns every other worker, too.
    pub store_wide: Option<StoreWide>,
    /// The stamps of the leaves as they were when their turn came, by path.
    pub stamps: BTreeMap<String, Value>,
    /// Objects written and deleted.
    pub touched: Touched,
    /// What was found, when it was to verify.
    pub verified: Option<PartVerified>,
}

/// A fault that stops every worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StoreWide {
    pub kind: FaultKind,
    pub error: String,
    pub credentials_end: Option<String>,
}

impl PartEnded {
    /// Whether nothing is left to be done for it.
    pub(crate) fn is_final(&self) -> bool {
        is_final(self.report.outcome)
    }
}

/// Whether a part that ended so has an outcome of every piece of its work.
pub(crate) fn is_final(outcome: Ending) -> bool {
    matches!(outcome, Ending::Done | Ending::NothingToDo | Ending::Failed)
}

impl StoreWide {
    /// The fault a run was stopped for, when it is one of the store.
    pub(crate) fn of(reason: &AbortReason) -> Option<Self> {
        match reason {
            AbortReason::StoreWide {
                kind,
                error,
                credentials_end,
                ..
            } => Some(Self {
                kind: *kind,
                error: error.clone(),
                credentials_end: credentials_end.clone(),
            }),
            _ => None,
        }
    }
}
