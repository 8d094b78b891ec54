//! Whether an artifact is made as its template says: its objects, its metadata documents,
//! its stamp and its sidecar. `format.md` section 7.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};

use super::contents::Contents;
use super::finding::{Check, Finding, Subject};
use super::verifier::Verifier;
use crate::error::LeafFault;
use crate::store::artifact::Artifact;
use crate::store::hash;
use crate::store::stamp::{GRANULES, NewStamp, Stamp, granules};
use crate::store::template::GroupTemplate;
use crate::store::{METADATA, Root, StoreError, json as text};

/// Metadata documents of one artifact read at once.
const DOCUMENTS_AT_ONCE: usize = 16;

/// Members of a stamp that follow from the sources and the cells, beside its hashes.
const STAMP_MEMBERS: [&str; 6] = [
    "spec",
    "complete",
    "cells_with_data",
    GRANULES,
    "window",
    "time_range",
];

/// Holds the objects and documents of an artifact against its template. `attributes` are
/// those of the group its cells come from; without them only the arrays are compared.
/// Whether nothing was found.
///
/// # Errors
/// Failed requests.
pub(super) async fn check(
    verifier: &Verifier,
    subject: &Subject,
    groups: &[GroupTemplate],
    attributes: Option<&Map<String, Value>>,
) -> Result<bool, LeafFault> {
    let root = &verifier.ladder.run.root;
    let below = subject.path.len() + 1;
    let listed = root.list_keys(&subject.path).await?;
    let keys: BTreeSet<&str> = listed
        .iter()
        .map(|key| key.get(below..).unwrap_or_default())
        .collect();
    let mut findings = strays(subject, groups, &keys);
    for group in groups {
        findings.extend(check_group(root, subject, group, attributes, &keys).await?);
    }
    let is_sound = findings.is_empty();
    findings
        .into_iter()
        .for_each(|finding| verifier.findings.add(finding));
    Ok(is_sound)
}

/// Objects the template has no place for.
fn strays(subject: &Subject, groups: &[GroupTemplate], keys: &BTreeSet<&str>) -> Vec<Finding> {
    let mut has_place = BTreeSet::from([METADATA.to_owned()]);
    for group in groups {
        has_place.insert(format!("{}/{METADATA}", group.order));
        for array in group.arrays() {
            let path = format!("{}/{}", group.order, array.name);
            let objects = 0..group.n_cells.div_ceil(array.object_cells);
            has_place.extend(objects.map(|index| format!("{path}/c/{index}")));
            has_place.insert(format!("{path}/{METADATA}"));
        }
    }
    let strays = keys.iter().filter(|key| !has_place.contains(**key));
    let finding = |key: &&str| {
        let what = format!("holds `{key}`, which this declaration has no place for");
        let finding = subject.finding(Check::StrayObject, &what);
        finding.key(format!("{}/{key}", subject.path))
    };
    strays.map(finding).collect()
}

/// What is wrong with the documents of one group; a group without any is one finding.
async fn check_group(
    root: &Root,
    subject: &Subject,
    group: &GroupTemplate,
    attributes: Option<&Map<String, Value>>,
    keys: &BTreeSet<&str>,
) -> Result<Vec<Finding>, StoreError> {
    let compares_group = attributes.is_some();
    let documents = group.documents(attributes.unwrap_or(&Map::new()));
    if !documents.iter().any(|(key, _)| keys.contains(key.as_str())) {
        let what = format!("has no group `{}`", group.order);
        let finding = subject.finding(Check::StructureDrift, &what);
        return Ok(vec![
            finding.key(format!("{}/{}", subject.path, group.order)),
        ]);
    }
    let group_key = format!("{}/{METADATA}", group.order);
    let checks: Vec<_> = documents
        .into_iter()
        .map(|(key, due)| {
            let compares = compares_group || key != group_key;
            let is_listed = keys.contains(key.as_str());
            async move {
                let due = text::parse(&due).ok();
                let full = format!("{}/{key}", subject.path);
                let found = match is_listed {
                    true => root.get_if_present(&full).await?,
                    false => None,
                };
                let found: Option<Value> = found.and_then(|bytes| text::parse(&bytes).ok());
                if found == due || !compares && found.is_some() {
                    return Ok(None);
                }
                let what = match found {
                    None => format!("lacks `{key}`, or it is not JSON"),
                    Some(_) => format!("has another `{key}` than its template"),
                };
                let finding = subject.finding(Check::StructureDrift, &what).key(full);
                let array = key.strip_suffix(METADATA).unwrap_or_default();
                Ok::<_, StoreError>(Some(
                    finding
                        .array(array.trim_end_matches('/'))
                        .differs(due, found),
                ))
            }
        })
        .collect();
    let found: Vec<Option<Finding>> = stream::iter(checks)
        .buffered(DOCUMENTS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

/// Holds the stamp against what is due: hashes array by array, then its other members.
/// Granules and times are compared when `sources` tells them.
pub(super) fn check_stamp(
    verifier: &Verifier,
    subject: &Subject,
    artifact: &Artifact,
    stamp: &Stamp,
    contents: &Contents,
    sources: Option<(u64, Option<&Value>)>,
) {
    let column = verifier.column();
    if let Some(recorded) = stamp.get("content_hashes") {
        check_hashes(verifier, subject, "stamp", recorded, contents);
    } else if column.stamps_hashes() {
        let finding = subject.finding(Check::ContentHash, "is stamped without content hashes");
        verifier.findings.add(finding);
    }
    let (granule_count, time_range) = match sources {
        Some(sources) => sources,
        None => (stamp.granule_count(), stamp.time_range()),
    };
    let recorded = |key: &str| stamp.get(key).cloned();
    let due = NewStamp {
        spec: column.stamp_spec(),
        cells_with_data: contents.cells_with_data,
        granule_count,
        content_hashes: None,
        written_at: stamp.written_at().unwrap_or_default(),
        window: column.windowed.then(|| artifact.label()),
        time_range,
        run_id: None,
    };
    let due = due.to_json();
    for key in STAMP_MEMBERS {
        let (expected, got) = (due.get(key).cloned(), recorded(key));
        let is_known = key != "cells_with_data" || contents.is_whole;
        let is_same = match key {
            GRANULES => granules(expected.as_ref()) == granules(got.as_ref()),
            _ => expected == got,
        };
        if is_known && !is_same {
            let what = format!("is stamped with another `{key}` than it has");
            let finding = subject.finding(Check::Stamp, &what);
            verifier.findings.add(finding.differs(expected, got));
        }
    }
}

/// Holds recorded `content_hashes` against those of the decoded arrays.
fn check_hashes(
    verifier: &Verifier,
    subject: &Subject,
    recorder: &str,
    recorded: &Value,
    contents: &Contents,
) {
    let empty = Map::new();
    let arrays = recorded.get("arrays").and_then(Value::as_object);
    let arrays = arrays.unwrap_or(&empty);
    let mut is_same = true;
    let mut differs = |array: &str, due: Option<Value>, found: Option<Value>| {
        is_same = false;
        let what = format!("holds another `{array}` than its {recorder} has a hash of");
        let finding = subject.finding(Check::ContentHash, &what).array(array);
        verifier.findings.add(finding.differs(due, found));
    };
    for (array, hash) in &contents.hashes {
        let hash = json!(hash);
        if arrays.get(array) != Some(&hash) {
            differs(array, arrays.get(array).cloned(), Some(hash));
        }
    }
    if !contents.is_whole {
        return;
    }
    for (array, hash) in arrays {
        if !contents.hashes.contains_key(array) {
            differs(array, Some(hash.clone()), None);
        }
    }
    let computed = hash::document(contents.hashes.clone().into_iter().collect());
    if is_same && computed != *recorded {
        let what = format!("has a {recorder} whose combined hash is not that of its arrays");
        let finding = subject.finding(Check::ContentHash, &what);
        let combined = |document: &Value| document.get("combined").cloned();
        verifier
            .findings
            .add(finding.differs(combined(&computed), combined(recorded)));
    }
}

/// Holds the sidecar against the stamp; where stamps have no hashes, its hashes against
/// the decoded arrays. One that is absent is a warning: the artifact is complete.
///
/// # Errors
/// Failed requests.
pub(super) async fn check_sidecar(
    verifier: &Verifier,
    subject: &Subject,
    artifact: &Artifact,
    stamp: &Stamp,
    contents: &Contents,
) -> Result<(), LeafFault> {
    let key = artifact.sidecar_path();
    let bytes = verifier.ladder.run.root.get_if_present(&key).await?;
    let finding = |what: &str| subject.finding(Check::Sidecar, what).key(key.clone());
    let Some(bytes) = bytes else {
        verifier.findings.add(finding("has no sidecar").warning());
        return Ok(());
    };
    let Ok(sidecar) = text::parse(&bytes) else {
        verifier
            .findings
            .add(finding("has a sidecar that is not JSON"));
        return Ok(());
    };
    let mut due = vec![
        ("shard_key", json!(artifact.word)),
        ("window", json!(artifact.window)),
        ("n_granules", json!(stamp.granule_count())),
        (
            "cells_with_data",
            stamp.get("cells_with_data").cloned().unwrap_or_default(),
        ),
    ];
    match stamp.get("content_hashes") {
        Some(hashes) => due.push(("content_hashes", hashes.clone())),
        None => {
            let recorded = sidecar.get("content_hashes").unwrap_or(&Value::Null);
            check_hashes(verifier, subject, "sidecar", recorded, contents);
        }
    }
    for (field, due) in due {
        let found = sidecar.get(field).cloned().unwrap_or_default();
        let is_same = match field {
            "n_granules" => granules(Some(&found)) == granules(Some(&due)),
            _ => found == due,
        };
        if !is_same {
            let finding = finding(&format!(
                "has a sidecar with another `{field}` than its stamp"
            ));
            verifier
                .findings
                .add(finding.differs(Some(due), Some(found)));
        }
    }
    Ok(())
}

/// Arrays by path whose fold is not what they hold.
pub(super) fn check_refold(
    verifier: &Verifier,
    subject: &Subject,
    source: &str,
    refolded: impl IntoIterator<Item = (String, String)>,
    contents: &Contents,
) {
    let folded: BTreeMap<String, String> = refolded.into_iter().collect();
    for (array, due) in folded {
        let Some(found) = contents.hashes.get(&array) else {
            continue;
        };
        if *found != due {
            let what = format!("holds another `{array}` than a fold of {source} makes");
            let finding = subject.finding(Check::Refold, &what).array(&array);
            verifier
                .findings
                .add(finding.differs(Some(json!(due)), Some(json!(found))));
        }
    }
}
