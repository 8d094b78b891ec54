//! What is wrong with a cube, and what that means for a heal.

use serde::Serialize;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The cube breaks a rule of its layout.
    Finding,
    /// Nothing is broken, but an operator should know.
    Warning,
}

/// Which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Rule {
    /// There is a cube: a root group and an orbit in it.
    Cube,
    /// Every metadata document describes a node that can be where it is.
    Metadata,
    /// Every declared level is there and has slices, or arrays for them.
    Layout,
    /// Every level has `time`.
    MissingTime,
    /// The finest level has a `time` that the others can be copied from.
    Source,
    /// Every array along `time` is as long as the finest level's `time`.
    Lengths,
    /// Every level's `time` says the same.
    Times,
    /// Objects below a level that lacks `time` do not stand in the way of a copy.
    Leftover,
    /// Consolidated metadata agrees with the nodes.
    Consolidated,
    /// An append after a minimal fetch touches no object that was not fetched.
    Fetch,
    /// No object of an array with slices lies past its end.
    PastEnd,
    /// No object is named like a chunk of an array that has no document.
    Orphan,
    /// Every object belongs to a node.
    Foreign,
}

/// What a finding means for a heal of the orbit it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Heal {
    /// It is what a heal mends.
    Mends,
    /// It has to be mended by hand before a heal does anything.
    Refused,
    /// It is no business of a heal.
    Unaffected,
}

/// One thing that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Which rule it is about.
    pub rule: Rule,
    /// What it means for a heal.
    pub heal: Heal,
    /// Path of the node below the root; empty for the root.
    pub path: String,
    /// What is wrong, and with what.
    pub message: String,
}

impl Finding {
    /// Something a heal mends.
    pub(crate) fn mendable(rule: Rule, path: &str, message: String) -> Self {
        Self::new(Severity::Finding, rule, Heal::Mends, path, message)
    }

    /// Something a heal refuses to go on from.
    pub(crate) fn refusal(rule: Rule, path: &str, message: String) -> Self {
        Self::new(Severity::Finding, rule, Heal::Refused, path, message)
    }

    /// Something that is wrong and that a heal leaves as it is.
    pub(crate) fn aside(rule: Rule, path: &str, message: String) -> Self {
        Self::new(Severity::Finding, rule, Heal::Unaffected, path, message)
    }

    /// Something worth knowing.
    pub(crate) fn warning(rule: Rule, path: &str, message: String) -> Self {
        Self::new(Severity::Warning, rule, Heal::Unaffected, path, message)
    }

    fn new(severity: Severity, rule: Rule, heal: Heal, path: &str, message: String) -> Self {
        Self {
            severity,
            rule,
            heal,
            path: path.to_owned(),
            message,
        }
    }
}
