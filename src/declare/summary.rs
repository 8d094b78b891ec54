//! What a declaration came to, for people and for machines.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Declare, Plan, Renewed};
use crate::pyramid::block::{self, Previous};
use crate::pyramid::semantics::{HashVerdict, fingerprint};
use crate::store::json::python_pretty;

/// What was declared, or would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Declared {
    /// The root.
    pub root: String,
    /// Whether this is only a plan.
    pub dry_run: bool,
    /// The levels, as (node, cells); empty when the pyramid is declared off.
    pub overviews: Value,
    /// What ladder levels fold from.
    pub fold_source: Value,
    /// Class of each field.
    pub fields: Map<String, Value>,
    /// What the declaration was held against.
    pub validated: String,
    /// What was declared before.
    pub previous: Previous,
    /// Whether the manifest was written.
    pub updated: bool,
    /// Whether the manifest is to be written, in a dry run.
    pub would_update: bool,
    /// Where the schedule comes from: `overviews`, `chunk-order` or `config`.
    pub declared_via: String,
    /// What the manifest's hash says of the configuration.
    pub semantic_hash: HashVerdict,
    /// First digits of the configuration's hash.
    pub fingerprint: String,
    /// Lines of the pyramid block that go (`-`) and come (`+`).
    pub diff: Vec<String>,
    /// What an operator should know.
    pub warnings: Vec<String>,
    /// What would refuse it, in a dry run.
    pub refusals: Vec<String>,
}

impl Declared {
    /// What came of it in a few words.
    pub fn headline(&self) -> &'static str {
        match (self.dry_run, self.previous) {
            (true, _) if !self.refusals.is_empty() => "dry run, would be refused",
            (true, Previous::Identical) if !self.would_update => {
                "dry run, declared so already, nothing would be written"
            }
            (true, _) => "dry run, nothing written",
            (false, Previous::Identical) if !self.updated => "declared so already, nothing written",
            (false, Previous::Identical) => "declared so already, its hash rewritten",
            (false, Previous::Absent) => "declared",
            (false, Previous::Replaced) => "declared, in place of another declaration",
        }
    }
}

impl Plan {
    pub(super) fn declared(
        self,
        declare: &Declare,
        next: &Renewed,
        updated: bool,
        diff: Vec<String>,
    ) -> Declared {
        Declared {
            root: declare.root.url().to_owned(),
            dry_run: declare.dry_run,
            overviews: self.block.get("overviews").cloned().unwrap_or(json!([])),
            fold_source: self.block["overview"]["fold_source"].clone(),
            fields: block::classes(&self.block),
            validated: self.validated,
            previous: next.previous,
            updated,
            would_update: declare.dry_run && next.is_due && self.refusals.is_empty(),
            declared_via: self.declared_via.to_owned(),
            semantic_hash: self.verdict,
            fingerprint: fingerprint(&self.semantics.hash).to_owned(),
            diff,
            warnings: self.warnings,
            refusals: self.refusals,
        }
    }
}

/// The lines that set the pyramid block of `document` apart from the one before: those
/// between what both begin and end with.
pub(super) fn diff(before: Option<&Value>, document: &Map<String, Value>) -> Vec<String> {
    let lines = |block: Option<&Value>| -> Vec<String> {
        let text = block.map_or_else(String::new, |block| python_pretty(block, 1));
        text.lines().map(str::to_owned).collect()
    };
    let (before, after) = (lines(before), lines(document.get("pyramid")));
    let head = before
        .iter()
        .zip(&after)
        .take_while(|(a, b)| a == b)
        .count();
    let (before, after) = (&before[head..], &after[head..]);
    let tail = before
        .iter()
        .rev()
        .zip(after.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let gone = before[..before.len() - tail]
        .iter()
        .map(|line| format!("-{line}"));
    let new = after[..after.len() - tail]
        .iter()
        .map(|line| format!("+{line}"));
    gone.chain(new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_diff_is_what_changed_between_the_ends() {
        let after = json!({"pyramid": {"a": 1, "b": [3], "c": 4}});
        let after = after.as_object().unwrap();
        let before = json!({"a": 1, "b": [2], "c": 4});
        assert_eq!(diff(Some(&before), after), ["-  2", "+  3"]);
        assert_eq!(diff(after.get("pyramid"), after), Vec::<String>::new());
        assert_eq!(diff(None, after).len(), 7);
    }
}
