//! Verifies what the manifest says of the pyramid. `format.md` section 5.

use serde_json::Value;

use super::finding::{Check, Finding};
use super::verifier::Verifier;
use crate::ladder::finish::is_same_but_when;
use crate::pyramid::block;
use crate::store::manifest::{MANIFEST_KEY, Manifest};

const DECLARE: &str = "run `zagg-stream declare ROOT --config FILE --overviews N`";
const SWEEP: &str = "run `zagg-stream sweep ROOT`";

/// The finding that a declaration cannot be followed, whose own words name the cure.
pub(super) fn unsound(error: &impl std::fmt::Display) -> Finding {
    let mut finding = Finding::new(Check::Declaration, MANIFEST_KEY, "", "");
    finding.message = error.to_string();
    finding
}

/// What the manifest says beside the declaration itself.
pub(super) fn check(manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let document = manifest.document();
    let due = manifest
        .pyramid()
        .and_then(|block| block::multiscales(document, block));
    let found = document.get("multiscales");
    if found.is_none() {
        let what = "has no `multiscales`, by which other readers know the pyramid";
        findings.push(Finding::new(Check::Multiscales, MANIFEST_KEY, what, DECLARE).warning());
    } else if found != due.as_ref() {
        let what = "has a `multiscales` that is not the mirror of its pyramid";
        let finding = Finding::new(Check::Multiscales, MANIFEST_KEY, what, DECLARE);
        findings.push(finding.differs(due, found.cloned()));
    }
    if manifest.semantic_hash().is_none() {
        let what = "has no `semantic_hash`, so its config cannot be told";
        findings.push(Finding::new(Check::SemanticHash, MANIFEST_KEY, what, DECLARE).warning());
    }
    findings
}

/// Holds the `actuals` of every entry against what stands. `is_whole` is whether every
/// artifact of the ladder could be counted.
pub(super) fn check_actuals(verifier: &Verifier, manifest: &Manifest, is_whole: bool) {
    let entries = manifest
        .pyramid()
        .and_then(|block| block.get("overviews")?.as_array());
    let levels = verifier.levels();
    for entry in entries.into_iter().flatten() {
        let order = entry.get("node").and_then(Value::as_u64);
        let order = order.and_then(|order| u8::try_from(order).ok());
        let due = order.and_then(|order| verifier.ladder.actuals(order, &levels));
        let (Some(order), Some(due)) = (order, due) else {
            continue;
        };
        let Some(found) = entry.get("actuals") else {
            let what = format!("records no actuals at order {order}");
            let finding = Finding::new(Check::Actuals, MANIFEST_KEY, &what, SWEEP);
            verifier.findings.add(finding.warning());
            continue;
        };
        let is_same = found
            .as_object()
            .is_some_and(|found| is_same_but_when(found, &due));
        if is_whole && !is_same {
            let what = format!("records other actuals at order {order} than stand there");
            let finding = Finding::new(Check::Actuals, MANIFEST_KEY, &what, SWEEP);
            verifier
                .findings
                .add(finding.differs(Some(Value::Object(due)), Some(found.clone())));
        }
    }
}
