//! Verifies the column of one leaf, however the leaf was found.

use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};

use super::contents::{Contents, Tallies};
use super::finding::{Check, Finding, Subject};
use super::verifier::Verifier;
use super::{leaf, structure};
use crate::error::LeafFault;
use crate::gate;
use crate::messages::{LeafRef, Reason};
use crate::store::artifact::{Artifact, Tier};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::stamp::{ArtifactRoot, GRANULES, Stamp};
use crate::store::template::ColumnTemplate;
use crate::store::{METADATA, json as text};

/// What the root documents of a leaf and its column tell.
#[derive(Debug)]
pub(super) enum Stands {
    /// There is no committed leaf, but there may be a column.
    Uncommitted { has_column: bool },
    /// The column records the other fold law.
    OtherLaw,
    /// The column is stamped without hashes, as those of the other law are.
    Unhashed,
    /// It was found to be no column of the leaf, and is not looked into.
    Unsound,
    /// It can be looked into.
    Column(Box<Column>),
}

/// A column with the stamp of its leaf.
#[derive(Debug)]
pub(super) struct Column {
    leaf: LeafRef,
    leaf_stamp: Stamp,
    stamp: Stamp,
}

/// Reads the root documents of a leaf and its column, and holds them against each other;
/// `other_law` is the template of the law that was not asked for.
///
/// # Errors
/// Failed requests.
pub(super) async fn stands(
    verifier: &Verifier,
    other_law: &ColumnTemplate,
    leaf: &LeafRef,
) -> Result<Stands, LeafFault> {
    let (root, template) = (&verifier.ladder.run.root, verifier.column());
    let subject = Subject::column(leaf);
    let unsound = |finding: Finding| {
        verifier.findings.add(finding);
        Ok(Stands::Unsound)
    };
    let leaf_stamp = match Stamp::read_leaf(root, leaf).await {
        Ok(Some(stamp)) => stamp,
        Ok(None) => {
            let column = ArtifactRoot::read(root, &Artifact::column_of(leaf)).await?;
            let has_column = column.as_ref().and_then(ArtifactRoot::stamped).is_some();
            return Ok(Stands::Uncommitted { has_column });
        }
        Err(error) => return unsound(unreadable_leaf(&subject, error.into())?),
    };
    verifier.count(Tier::Column, true);
    let column = ArtifactRoot::read(root, &Artifact::column_of(leaf)).await?;
    let Some((record, stamp)) = column.as_ref().and_then(ArtifactRoot::stamped) else {
        let what = match column {
            None => "is not there, and its leaf is committed",
            Some(_) => "is not stamped, so it was never finished",
        };
        return unsound(subject.finding(Check::Missing, what));
    };
    if let Some(finding) = foreign(&subject, record, &leaf.id, leaf.window_label()) {
        return unsound(finding);
    }
    match gate::judge_roots(template, &leaf_stamp, column.as_ref()) {
        None => {}
        Some(Reason::DeclarationDrift) if other_law.matches_record(record) => {
            return Ok(Stands::OtherLaw);
        }
        Some(Reason::DeclarationDrift) => {
            let what = "records another declaration than the manifest's";
            let due = template.column_record(&leaf.id, leaf.window_label(), "");
            let (due, got) = first_difference(&due, record);
            let finding = subject.finding(Check::DeclarationDrift, what);
            return unsound(finding.differs(due, got));
        }
        Some(reason) => return unsound(drifted(&subject, reason, &leaf_stamp, &stamp)),
    }
    if template.stamps_hashes() && stamp.get("content_hashes").is_none() {
        return Ok(Stands::Unhashed);
    }
    Ok(Stands::Column(Box::new(Column {
        leaf: leaf.clone(),
        leaf_stamp,
        stamp,
    })))
}

/// What sets the stamp of a column apart from that of its leaf, which goes by the gate's
/// reason.
fn drifted(subject: &Subject, reason: Reason, leaf: &Stamp, column: &Stamp) -> Finding {
    let (check, key, what) = match reason {
        Reason::GranuleDrift => (
            Check::GranuleDrift,
            GRANULES,
            "was made when its leaf held another number of granules",
        ),
        _ => (Check::Stale, "written_at", "was written before its leaf"),
    };
    let finding = subject.finding(check, what);
    finding.differs(leaf.get(key).cloned(), column.get(key).cloned())
}

/// Looks into a column: its structure, its cells, and with `refold` the fold of its leaf.
/// What its groups come to, when they can be read.
///
/// # Errors
/// Failed requests.
pub(super) async fn check(
    verifier: &Verifier,
    column: &Column,
    refold: bool,
) -> Result<Option<Tallies>, LeafFault> {
    let (leaf, subject) = (&column.leaf, Subject::column(&column.leaf));
    let artifact = Artifact::column_of(leaf);
    let template = verifier.column();
    let attributes = match leaf_attributes(verifier, leaf).await {
        Ok(attributes) => attributes,
        Err(fault) => {
            verifier.findings.add(unreadable_leaf(&subject, fault)?);
            return Ok(None);
        }
    };
    if !structure::check(verifier, &subject, &template.groups, Some(&attributes)).await? {
        return Ok(None);
    }
    let contents = Contents::read(verifier, &subject, &artifact, None, &template.groups).await?;
    let sources = Some((
        column.leaf_stamp.granule_count(),
        column.leaf_stamp.time_range(),
    ));
    structure::check_stamp(
        verifier,
        &subject,
        &artifact,
        &column.stamp,
        &contents,
        sources,
    );
    structure::check_sidecar(verifier, &subject, &artifact, &column.stamp, &contents).await?;
    if !contents.is_whole {
        return Ok(None);
    }
    check_groups(verifier, &subject, &contents)?;
    if refold {
        check_leaf(verifier, &subject, leaf, &contents).await?;
    }
    Ok(Some(contents.tallies))
}

/// Holds the groups of a column against its leaf: what that comes to, and its fold.
async fn check_leaf(
    verifier: &Verifier,
    subject: &Subject,
    leaf: &LeafRef,
    contents: &Contents,
) -> Result<(), LeafFault> {
    let done = &verifier.done.refolded_columns;
    done.fetch_add(1, Ordering::Relaxed);
    let folded = match leaf::fold(verifier, leaf).await {
        Ok(folded) => folded,
        Err(fault) => {
            verifier.findings.add(unreadable_leaf(subject, fault)?);
            return Ok(());
        }
    };
    for (order, tallies) in &contents.tallies {
        let merges = verifier.column().plan.merges_from_raw(*order);
        let pair = (folded.tallies.as_slice(), tallies.as_slice());
        verifier.conserve(subject, "its leaf", *order, pair, merges);
    }
    structure::check_refold(verifier, subject, "its leaf", folded.hashes, contents);
    Ok(())
}

/// Holds the groups of a column against each other: what the finest comes to, and the
/// fold of the boundary.
fn check_groups(
    verifier: &Verifier,
    subject: &Subject,
    contents: &Contents,
) -> Result<(), LeafFault> {
    let template = verifier.column();
    let finest = template.finest();
    let source = format!("group `{finest}`");
    for (order, tallies) in &contents.tallies {
        let Some(expected) = contents.tallies.get(&finest).filter(|_| *order != finest) else {
            continue;
        };
        // Both were folded from the leaf.
        let merges = template.plan.merges_from_raw(*order) + template.plan.merges_from_raw(finest);
        verifier.conserve(subject, &source, *order, (expected, tallies), merges);
    }
    match contents.refold_coarser(template) {
        Ok(hashes) => {
            let source = format!("group `{}`", template.plan.boundary.unwrap_or(finest));
            structure::check_refold(verifier, subject, &source, hashes, contents);
        }
        Err(problem) => {
            let error = LeafError::of_leaf(&subject.path, problem);
            verifier.findings.add(subject.damage(error.into())?);
        }
    }
    Ok(())
}

/// Attributes of the leaf's group of cells, which its column's groups carry on.
async fn leaf_attributes(
    verifier: &Verifier,
    leaf: &LeafRef,
) -> Result<Map<String, Value>, LeafFault> {
    let order = verifier.column().declaration.cell_order;
    let path = leaf.path();
    let failed = |problem| LeafError::of_leaf(&path, problem);
    let key = format!("{path}/{order}/{METADATA}");
    let bytes = verifier.ladder.run.root.get_if_present(&key).await?;
    let bytes = bytes.ok_or_else(|| failed(LeafProblem::NoCellGroup(order.to_string())))?;
    let document =
        text::parse(&bytes).map_err(|error| failed(LeafProblem::Metadata(error.to_string())))?;
    let attributes = document.get("attributes").and_then(Value::as_object);
    Ok(attributes.cloned().unwrap_or_default())
}

/// What a fault of the leaf itself says.
///
/// # Errors
/// The fault, when it says nothing of the leaf.
fn unreadable_leaf(subject: &Subject, fault: LeafFault) -> Result<Finding, LeafFault> {
    let message = fault.to_string();
    let mut finding = subject.damage(fault)?;
    finding.check = Check::Leaf;
    finding.message = message;
    Ok(finding)
}

/// The finding that an artifact says it is of another node or window.
pub(super) fn foreign(
    subject: &Subject,
    record: &Value,
    node: &str,
    window: &str,
) -> Option<Finding> {
    let due = [("node", json!(node)), ("window", json!(window))];
    due.into_iter().find_map(|(key, due)| {
        let found = record.get(key).cloned();
        (found.as_ref() != Some(&due)).then(|| {
            let what = format!("says it is of another {key}, and was moved or copied here");
            subject
                .finding(Check::Foreign, &what)
                .differs(Some(due), found)
        })
    })
}

/// The first member in which a record is not what is due.
fn first_difference(due: &Value, record: &Value) -> (Option<Value>, Option<Value>) {
    let members = due.as_object().into_iter().flatten();
    let differs = members
        .filter(|(key, _)| *key != "generated_at")
        .find(|(key, value)| record.get(*key) != Some(value));
    let named = |key: &String, value: Option<&Value>| json!({ (key.as_str()): value });
    match differs {
        Some((key, value)) => (
            Some(named(key, Some(value))),
            Some(named(key, record.get(key))),
        ),
        None => (None, None),
    }
}
