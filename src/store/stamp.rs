//! Stamps: what makes a leaf or a column complete (`format.md` sections 3 and 7).

use serde_json::{Map, Value, json};

use crate::messages::LeafRef;
use crate::store::artifact::{Artifact, Tier};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::{METADATA, Root, StoreError, json};
use crate::time::parse_iso;

/// Attribute of a root document that holds the stamp.
pub(crate) const STAMP: &str = "morton_hive_commit";

/// Member of a stamp that holds the number of granules.
pub(crate) const GRANULES: &str = "granule_count";

/// A recorded number of granules: a count without a fraction, and 0 when nothing or no
/// number is recorded. Two records that differ but not in this are the same.
pub(crate) fn granules(recorded: Option<&Value>) -> u64 {
    let whole = |value: &Value| value.as_u64().or_else(|| value.as_f64().map(|n| n as u64));
    recorded.and_then(whole).unwrap_or(0)
}

/// The stamp of a leaf or a column, as recorded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stamp {
    record: Map<String, Value>,
}

impl Stamp {
    /// The stamp in the attributes of a root document, if there is one and it is a mapping.
    pub(crate) fn of(document: &Value) -> Option<Self> {
        match document.get("attributes")?.get(STAMP)? {
            Value::Object(record) => Some(Self {
                record: record.clone(),
            }),
            _ => None,
        }
    }

    /// Reads the stamp of a leaf; `None` when the leaf is absent or was never
    /// finished, which is debris and not a leaf.
    ///
    /// # Errors
    /// Failed requests, and a root document that cannot be read: it may well be a
    /// committed leaf's.
    pub(crate) async fn read_leaf(root: &Root, leaf: &LeafRef) -> Result<Option<Self>, LeafError> {
        let path = leaf.path();
        let failed = |problem| LeafError::of_leaf(&path, problem);
        let bytes = root
            .get_if_present(&format!("{path}/{METADATA}"))
            .await
            .map_err(|error| failed(LeafProblem::Store(error)))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let document = json::parse(&bytes)
            .map_err(|error| failed(LeafProblem::Metadata(error.to_string())))?;
        Ok(Self::of(&document))
    }

    /// The stamp as recorded.
    pub(crate) fn to_json(&self) -> Value {
        Value::Object(self.record.clone())
    }

    /// Hash of all arrays together, where the stamp has it.
    pub(crate) fn combined_hash(&self) -> Option<&str> {
        self.record.get("content_hashes")?.get("combined")?.as_str()
    }

    /// Number of granules, see [`granules`].
    pub(crate) fn granule_count(&self) -> u64 {
        granules(self.record.get(GRANULES))
    }

    /// A member, as recorded.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.record.get(key)
    }

    /// Range of observation times, as recorded.
    pub(crate) fn time_range(&self) -> Option<&Value> {
        self.record.get("time_range")
    }

    /// Whether this was written before `other`. Times that cannot be compared count as
    /// older, so that the artifact is written anew.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        match (self.instant(), other.instant()) {
            (Some(this), Some(other)) => this < other,
            _ => true,
        }
    }

    /// When it was stamped, as recorded.
    pub(crate) fn written_at(&self) -> Option<&str> {
        self.record.get("written_at")?.as_str()
    }

    /// The sweep that stamped it, if it was one.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.record.get("run_id")?.as_str()
    }

    /// When it was stamped, in seconds since the epoch.
    pub(crate) fn instant(&self) -> Option<i64> {
        parse_iso(self.written_at()?)
    }
}

/// A stamp to be written.
#[derive(Debug)]
pub(crate) struct NewStamp<'a> {
    /// The specification it names.
    pub spec: &'a str,
    /// Cells of the finest group that hold anything.
    pub cells_with_data: u64,
    /// Number of granules of the sources.
    pub granule_count: u64,
    /// Hashes of the decoded arrays, where the store keeps them in stamps.
    pub content_hashes: Option<&'a Value>,
    /// The moment of writing.
    pub written_at: &'a str,
    /// Window label, on a windowed store.
    pub window: Option<&'a str>,
    /// Range of observation times, when the sources record one.
    pub time_range: Option<&'a Value>,
    /// The sweep that writes; columns of leaves have none.
    pub run_id: Option<&'a str>,
}

impl NewStamp<'_> {
    /// The stamp as a root document holds it.
    pub(crate) fn to_json(&self) -> Value {
        let members = [
            ("spec", Some(json!(self.spec))),
            ("complete", Some(json!(true))),
            ("cells_with_data", Some(json!(self.cells_with_data))),
            (GRANULES, Some(json!(self.granule_count))),
            ("content_hashes", self.content_hashes.cloned()),
            ("written_at", Some(json!(self.written_at))),
            ("window", self.window.map(|window| json!(window))),
            ("time_range", self.time_range.cloned()),
            ("run_id", self.run_id.map(|run_id| json!(run_id))),
        ];
        let present = members
            .into_iter()
            .filter_map(|(key, value)| value.map(|value| (key.to_owned(), value)));
        Value::Object(present.collect())
    }
}

/// The root document of a column or an overview.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArtifactRoot {
    tier: Tier,
    document: Value,
}

impl ArtifactRoot {
    /// Reads the root document of an artifact; `None` when there is none, or none that is
    /// JSON: such an artifact has no stamp and is written anew.
    ///
    /// # Errors
    /// Failed requests.
    pub(crate) async fn read(root: &Root, artifact: &Artifact) -> Result<Option<Self>, StoreError> {
        let bytes = root.get_if_present(&artifact.root_key()).await?;
        let document = bytes.and_then(|bytes| json::parse(&bytes).ok());
        let tier = artifact.tier;
        Ok(document.map(|document| Self { tier, document }))
    }

    /// The artifact's record and stamp, when it has both.
    pub(crate) fn stamped(&self) -> Option<(&Value, Stamp)> {
        let attributes = self.document.get("attributes")?;
        let record = attributes.get(self.tier.record_key())?;
        Some((record, Stamp::of(&self.document)?))
    }
}

/// The metadata document of a group.
pub(crate) fn group_document(attributes: Map<String, Value>) -> Value {
    json!({"attributes": attributes, "zarr_format": 3, "node_type": "group"})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamped(stamp: Value) -> Option<Stamp> {
        Stamp::of(&json!({"attributes": {STAMP: stamp}}))
    }

    fn written(at: &str) -> Stamp {
        stamped(json!({"written_at": at})).unwrap()
    }

    #[test]
    fn a_stamp_that_is_no_mapping_is_no_stamp() {
        assert!(stamped(json!({"complete": true})).is_some());
        assert!(stamped(json!("yes")).is_none());
        assert!(stamped(Value::Null).is_none());
        assert!(Stamp::of(&json!({"attributes": {}})).is_none());
        assert!(Stamp::of(&json!([])).is_none());
    }

    #[test]
    fn granules_are_counted_as_whole_numbers_and_none_are_0() {
        for (stamp, due) in [
            (json!({}), 0),
            (json!({"granule_count": null}), 0),
            (json!({"granule_count": 0}), 0),
            (json!({"granule_count": "many"}), 0),
            (json!({"granule_count": 3}), 3),
            (json!({"granule_count": 3.0}), 3),
        ] {
            let count = stamped(stamp.clone()).unwrap().granule_count();
            assert_eq!(count, due, "{stamp}");
        }
    }

    #[test]
    fn times_compare_as_instants_and_a_missing_one_is_older() {
        let column = written("2026-11-30T19:50:38+00:00");
        assert!(column.is_older_than(&written("2026-11-30T21:50:39+02:00")));
        assert!(!column.is_older_than(&written("2026-11-30T19:50:38+00:00")));
        assert!(!column.is_older_than(&written("2026-11-30T20:50:38+01:00")));
        assert!(column.is_older_than(&stamped(json!({})).unwrap()));
        assert!(stamped(json!({})).unwrap().is_older_than(&column));
    }
}
