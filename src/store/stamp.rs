//! Stamps: what makes a leaf or a column complete (`format.md` sections 3 and 7).

use serde_json::{Map, Value, json};

use crate::messages::LeafRef;
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::ColumnTemplate;
use crate::store::{METADATA, Root, StoreError, json};
use crate::time::parse_iso;

/// The attribute a stamp stands under.
pub(crate) const STAMP: &str = "morton_hive_commit";
const COLUMN: &str = "zagg_column";

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

    /// Number of granules, as recorded.
    pub(crate) fn granule_count(&self) -> Option<&Value> {
        self.record.get("granule_count")
    }

    /// Range of observation times, as recorded.
    pub(crate) fn time_range(&self) -> Option<&Value> {
        self.record.get("time_range")
    }

    /// Whether this was written before `other`. Times that cannot be compared count as
    /// older, so that the artifact is written anew.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        match (self.written_at(), other.written_at()) {
            (Some(this), Some(other)) => this < other,
            _ => true,
        }
    }

    fn written_at(&self) -> Option<i64> {
        parse_iso(self.record.get("written_at")?.as_str()?)
    }

    /// The stamp of a column folded from a leaf with this stamp.
    pub(crate) fn of_column(
        &self,
        template: &ColumnTemplate,
        leaf: &LeafRef,
        cells_with_data: u64,
        content_hashes: Option<&Value>,
        written_at: &str,
    ) -> Value {
        let mut record = Map::new();
        record.insert("spec".to_owned(), json!(template.stamp_spec()));
        record.insert("complete".to_owned(), json!(true));
        record.insert("cells_with_data".to_owned(), json!(cells_with_data));
        let granules = self.granule_count().cloned().unwrap_or(Value::Null);
        record.insert("granule_count".to_owned(), granules);
        if let Some(hashes) = content_hashes {
            record.insert("content_hashes".to_owned(), hashes.clone());
        }
        record.insert("written_at".to_owned(), json!(written_at));
        if template.windowed {
            record.insert("window".to_owned(), json!(leaf.window_label()));
        }
        if let Some(range) = self.time_range() {
            record.insert("time_range".to_owned(), range.clone());
        }
        Value::Object(record)
    }
}

/// The root document of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnRoot {
    document: Value,
}

impl ColumnRoot {
    /// Reads the root document of a leaf's column; `None` when there is none, or none that
    /// is JSON: such a column has no stamp and is written anew.
    ///
    /// # Errors
    /// Failed requests.
    pub(crate) async fn read(root: &Root, leaf: &LeafRef) -> Result<Option<Self>, StoreError> {
        let key = format!("{}/{METADATA}", leaf.column_path());
        let bytes = root.get_if_present(&key).await?;
        let document = bytes.and_then(|bytes| json::parse(&bytes).ok());
        Ok(document.map(|document| Self { document }))
    }

    /// The column's record and stamp, when it has both.
    pub(crate) fn stamped(&self) -> Option<(&Value, Stamp)> {
        let record = self.document.get("attributes")?.get(COLUMN)?;
        Some((record, Stamp::of(&self.document)?))
    }
}

/// Root document of a column in the three states it is written in: bare, with its
/// record, and stamped.
pub(crate) fn column_root_document(record: Option<&Value>, stamp: Option<&Value>) -> Value {
    let mut attributes = Map::new();
    if let Some(record) = record {
        attributes.insert("role".to_owned(), json!("column"));
        attributes.insert(COLUMN.to_owned(), record.clone());
    }
    if let Some(stamp) = stamp {
        attributes.insert(STAMP.to_owned(), stamp.clone());
    }
    group_document(attributes)
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
    fn times_compare_as_instants_and_a_missing_one_is_older() {
        let column = written("2026-11-30T19:50:38+00:00");
        assert!(column.is_older_than(&written("2026-11-30T21:50:39+02:00")));
        assert!(!column.is_older_than(&written("2026-11-30T19:50:38+00:00")));
        assert!(!column.is_older_than(&written("2026-11-30T20:50:38+01:00")));
        assert!(column.is_older_than(&stamped(json!({})).unwrap()));
        assert!(stamped(json!({})).unwrap().is_older_than(&column));
    }
}
