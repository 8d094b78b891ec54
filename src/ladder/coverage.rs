//! What the coverage at the root is to say (`morton.md` section 8).

use serde_json::{Map, Value, json};

use crate::kernels::words::coverage;

/// Key of the coverage at the root.
pub(crate) const COVERAGE_KEY: &str = "coverage.moc";

const SPEC: &str = "morton-moc/1";
const ENCODING: &str = "ranges";
/// Who wrote the ranges.
const SOURCE: &str = "sweep";

/// Ranges of cells, both ends inclusive.
type Ranges = Vec<[String; 2]>;

/// The stored coverage with these shards in it, and whatever else it says as it is. One
/// that is not of this kind and order, or has impossible ranges, is replaced. `None` when
/// nothing is to be written.
pub(super) fn united(
    stored: Option<&Value>,
    words: &[u64],
    order: u8,
    now: &str,
) -> Option<Map<String, Value>> {
    let kept = stored.and_then(|moc| with_ranges(moc, words, order));
    if let (Some(_), None) = (stored, &kept) {
        tracing::warn!(
            "`{COVERAGE_KEY}` is not a sound list of ranges at order {order}; written anew from the run records"
        );
    }
    let (mut moc, ranges) = kept.unwrap_or_else(|| {
        // The words have been checked; of none there is nothing to say.
        let ranges = coverage::build(words, order).unwrap_or_default();
        (Map::new(), ranges)
    });
    let ranges = json!(ranges);
    let source = json!(SOURCE);
    if moc.get("ranges") == Some(&ranges) && moc.get("source") == Some(&source) {
        return None;
    }
    let members = [
        ("spec", json!(SPEC)),
        ("encoding", json!(ENCODING)),
        ("order", json!(order)),
        ("source", source),
        ("generated_at", json!(now)),
        ("ranges", ranges),
    ];
    moc.extend(members.map(|(key, value)| (key.to_owned(), value)));
    Some(moc)
}

/// The document, and its ranges with these shards; `None` when they cannot be united.
fn with_ranges(moc: &Value, words: &[u64], order: u8) -> Option<(Map<String, Value>, Ranges)> {
    let moc = moc.as_object()?;
    let is = |key: &str, due: Value| moc.get(key) == Some(&due);
    if !(is("spec", json!(SPEC)) && is("encoding", json!(ENCODING)) && is("order", json!(order))) {
        return None;
    }
    let before: Ranges = serde_json::from_value(moc.get("ranges")?.clone()).ok()?;
    let ranges = coverage::union(&before, words, order).ok()?;
    Some((moc.clone(), ranges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::words::decimal;

    const NOW: &str = "2026-12-01T00:00:00+00:00";

    fn words(ids: &[&str]) -> Vec<u64> {
        ids.iter().map(|id| decimal::parse(id).unwrap()).collect()
    }

    fn unite(stored: &Value, ids: &[&str]) -> Option<Value> {
        united(Some(stored), &words(ids), 3, NOW).map(Value::Object)
    }

    fn stored() -> Value {
        json!({
            "spec": "morton-moc/1",
            "encoding": "ranges",
            "order": 3,
            "source": "workers",
            "note": {"by": "hand"},
            "generated_at": "2026-11-01T00:00:00+00:00",
            "ranges": [["1121", "1122"]],
            "time_range": ["2019-01-01T00:00:00+00:00", "2020-01-01T00:00:00+00:00"],
            "temporal": {"shards": {"1121": "7"}},
        })
    }

    #[test]
    fn ranges_are_united_and_all_else_stays_in_its_place() {
        let moc = unite(&stored(), &["1123"]).unwrap();
        let mut due = stored();
        due["source"] = json!("sweep");
        due["generated_at"] = json!(NOW);
        due["ranges"] = json!([["1121", "1123"]]);
        assert_eq!(moc.to_string(), due.to_string());
    }

    #[test]
    fn what_says_so_already_is_not_written() {
        let mut moc = stored();
        moc["source"] = json!("sweep");
        assert_eq!(unite(&moc, &["1122"]), None);
        assert!(unite(&stored(), &["1122"]).is_some());
    }

    #[test]
    fn another_kind_of_coverage_is_replaced() {
        for (key, value) in [
            ("spec", json!("morton-moc/2")),
            ("encoding", json!("cells")),
            ("order", json!(4)),
            ("ranges", json!([["1121"]])),
            ("ranges", json!([["1122", "1121"]])),
            ("ranges", json!([["11211", "11212"]])),
        ] {
            let mut moc = stored();
            moc[key] = value;
            let moc = unite(&moc, &["1123"]).unwrap();
            let due = united(None, &words(&["1123"]), 3, NOW).unwrap();
            assert_eq!(moc.to_string(), Value::Object(due).to_string(), "{key}");
            assert_eq!(moc["ranges"], json!([["1123", "1123"]]));
        }
    }
}
