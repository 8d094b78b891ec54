//! The lease as a document: what it says, and what it says about the present.

use serde_json::{Map, Value};

use super::{Claim, DEFAULT_TTL_S, LEASE_SPEC};
use crate::store::json::python_pretty;
use crate::time::{iso, parse_iso};

/// One lease as it stands in a store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeaseRecord {
    /// Every key, in order, so that a rewrite keeps those of other writers.
    document: Map<String, Value>,
}

impl LeaseRecord {
    pub(super) fn new(claim: &Claim, now: i64, claimed_from: Option<&str>) -> Self {
        let scope = match &claim.scope {
            None => Value::Null,
            Some(scope) => scope.iter().map(String::as_str).collect(),
        };
        let mut document = Map::new();
        document.insert("spec".to_owned(), LEASE_SPEC.into());
        document.insert("run_id".to_owned(), claim.run_id.as_str().into());
        document.insert("scope".to_owned(), scope);
        document.insert("acquired_at".to_owned(), iso(now).into());
        document.insert("heartbeat_at".to_owned(), iso(now).into());
        document.insert("ttl_s".to_owned(), claim.ttl_s.into());
        if let Some(run_id) = claimed_from {
            document.insert("claimed_from".to_owned(), run_id.into());
        }
        Self { document }
    }

    pub(super) fn confirmed_at(&self, now: i64) -> Self {
        let mut record = self.clone();
        record
            .document
            .insert("heartbeat_at".to_owned(), iso(now).into());
        record
    }

    fn text(&self, key: &str) -> &str {
        self.document
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The run that holds it; empty when none is named.
    pub(crate) fn run_id(&self) -> &str {
        self.text("run_id")
    }

    /// When it was acquired, as recorded.
    pub(crate) fn acquired_at(&self) -> &str {
        self.text("acquired_at")
    }

    /// When it was last confirmed, as recorded.
    pub(crate) fn heartbeat_at(&self) -> &str {
        self.text("heartbeat_at")
    }

    /// Seconds a heartbeat is good for.
    pub(crate) fn ttl_s(&self) -> u64 {
        match self.document.get("ttl_s").and_then(Value::as_u64) {
            None | Some(0) => DEFAULT_TTL_S,
            Some(ttl_s) => ttl_s,
        }
    }

    /// The run whose expired lease this one took over.
    pub(crate) fn claimed_from(&self) -> Option<&str> {
        self.document.get("claimed_from")?.as_str()
    }

    /// The last second, since 1970, at which it is live. `None` when it does not say,
    /// and then it locks nothing.
    pub(crate) fn live_until(&self) -> Option<i64> {
        let ttl_s = i64::try_from(self.ttl_s()).unwrap_or(i64::MAX);
        Some(parse_iso(self.heartbeat_at())?.saturating_add(ttl_s))
    }

    /// Whether it is live at `now`, whole seconds since 1970.
    ///
    /// Both times are cut to whole seconds, so only a difference of more than the ttl
    /// means that more than the ttl has passed.
    pub(crate) fn is_live(&self, now: i64) -> bool {
        self.live_until().is_some_and(|until| now <= until)
    }

    /// The document as it is written: indent 1, keys in order.
    pub(crate) fn to_json(&self) -> String {
        python_pretty(&Value::Object(self.document.clone()), 1)
    }
}

/// What stands at the lease's key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Standing {
    /// Nothing: the store is free.
    Free,
    /// Something that is not JSON or no mapping, left by an accident: free to claim.
    Debris,
    /// A lease of another spec, its `spec` as JSON.
    Foreign(String),
    /// A lease, live or not.
    Lease(LeaseRecord),
}

impl Standing {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let Ok(Value::Object(document)) = serde_json::from_slice(bytes) else {
            return Self::Debris;
        };
        match document.get("spec") {
            Some(Value::String(spec)) if spec == LEASE_SPEC => {
                Self::Lease(LeaseRecord { document })
            }
            Some(spec) => Self::Foreign(spec.to_string()),
            None => Self::Foreign("absent".to_owned()),
        }
    }

    pub(crate) fn holder(&self) -> Option<String> {
        match self {
            Self::Lease(record) => Some(record.run_id().to_owned()),
            _ => None,
        }
    }
}
