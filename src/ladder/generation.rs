//! What a ladder's artifact says of the leaves and children behind it
//! (`format.md` section 9).

use std::cmp::{max_by_key, min_by_key};
use std::collections::BTreeSet;
use std::ops::AddAssign;

use serde_json::{Value, json};

use crate::time::parse_iso;

/// Which leaves an artifact holds, by way of which runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    /// Number of leaf columns.
    pub n_leaves: u64,
    /// The latest time a leaf column was written at, as its stamp has it.
    pub max_leaf_timestamp: Option<String>,
    /// The runs that wrote what lies in between.
    pub run_ids: BTreeSet<String>,
}

impl Generation {
    /// That of a leaf column that was written at this time.
    pub(crate) fn of_leaf_column(written_at: Option<&str>) -> Self {
        Self {
            n_leaves: 1,
            max_leaf_timestamp: written_at.map(str::to_owned),
            run_ids: BTreeSet::new(),
        }
    }

    /// The generation an artifact records; `None` unless it is a whole one.
    pub(crate) fn parse(recorded: &Value) -> Option<Self> {
        let max_leaf_timestamp = match recorded.get("max_leaf_timestamp")? {
            Value::Null => None,
            timestamp => Some(timestamp.as_str()?.to_owned()),
        };
        let run_ids = recorded.get("run_ids")?.as_array()?.iter();
        Some(Self {
            n_leaves: recorded.get("n_leaves")?.as_u64()?,
            max_leaf_timestamp,
            run_ids: run_ids
                .map(|run_id| run_id.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        })
    }

    /// Adds what lies behind another child, in any order of the children.
    pub(crate) fn add(&mut self, other: &Self) {
        self.n_leaves = self.n_leaves.saturating_add(other.n_leaves);
        let latest = self
            .max_leaf_timestamp
            .take()
            .into_iter()
            .chain(other.max_leaf_timestamp.clone())
            .reduce(|a, b| max_by_key(a, b, |text| by_instant(text)));
        self.max_leaf_timestamp = latest;
        self.run_ids.extend(other.run_ids.iter().cloned());
    }

    /// Adds the run that stamped a child.
    pub(crate) fn add_run(&mut self, run_id: &str) {
        self.run_ids.insert(run_id.to_owned());
    }

    /// As an artifact records it.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "n_leaves": self.n_leaves,
            "max_leaf_timestamp": self.max_leaf_timestamp,
            "run_ids": self.run_ids,
        })
    }
}

/// What became of the children of an artifact.
#[derive(serde::Serialize, serde::Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceChildren {
    /// Children whose column was read.
    pub folded: u64,
    /// Children without a column.
    pub missing: u64,
    /// Children whose column could not be read.
    pub unreadable: u64,
}

impl SourceChildren {
    /// The counts an artifact records; `None` unless all three are there.
    pub(crate) fn parse(recorded: &Value) -> Option<Self> {
        let count = |key| recorded.get(key)?.as_u64();
        Some(Self {
            folded: count("folded")?,
            missing: count("missing")?,
            unreadable: count("unreadable")?,
        })
    }

    /// As an artifact records them.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "folded": self.folded,
            "missing": self.missing,
            "unreadable": self.unreadable,
        })
    }
}

impl AddAssign for SourceChildren {
    fn add_assign(&mut self, other: Self) {
        self.folded += other.folded;
        self.missing += other.missing;
        self.unreadable += other.unreadable;
    }
}

/// The `time_range` of an artifact made from two with these: the earlier start and the
/// later end, each spelled as found. What is no pair of times takes no part.
pub(crate) fn union_time_range(a: Option<&Value>, b: Option<&Value>) -> Option<Value> {
    let ranges = a.into_iter().chain(b).filter_map(time_range);
    let (start, end) = ranges.reduce(|a, b| {
        (
            min_by_key(a.0, b.0, |text| by_instant(text)),
            max_by_key(a.1, b.1, |text| by_instant(text)),
        )
    })?;
    Some(json!([start, end]))
}

fn time_range(value: &Value) -> Option<(&str, &str)> {
    let [start, end] = value.as_array()?.as_slice() else {
        return None;
    };
    let time = |value| Value::as_str(value).filter(|text| parse_iso(text).is_some());
    Some((time(start)?, time(end)?))
}

/// What times are ordered by: the instant, and for the same instant the text, so that the
/// order in which they come does not show.
fn by_instant(text: &str) -> (Option<i64>, String) {
    (parse_iso(text), text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn generation(n_leaves: u64, latest: Option<&str>, run_ids: &[&str]) -> Generation {
        Generation {
            n_leaves,
            max_leaf_timestamp: latest.map(str::to_owned),
            run_ids: run_ids.iter().map(|run_id| (*run_id).to_owned()).collect(),
        }
    }

    #[test]
    fn a_generation_reads_back_and_is_recorded_in_order() {
        let mut generation = Generation::of_leaf_column(Some("2026-11-30T19:50:38+00:00"));
        generation.add_run("stage-2");
        generation.add_run("stage-10");
        generation.add_run("stage-2");
        let recorded = generation.to_json();
        assert_eq!(
            recorded.to_string(),
            r#"{"n_leaves":1,"max_leaf_timestamp":"2026-11-30T19:50:38+00:00","run_ids":["stage-10","stage-2"]}"#
        );
        assert_eq!(Generation::parse(&recorded), Some(generation));

        let unstamped = Generation::of_leaf_column(None);
        assert_eq!(unstamped.to_json()["max_leaf_timestamp"], Value::Null);
        assert_eq!(Generation::parse(&unstamped.to_json()), Some(unstamped));
    }

    #[test]
    fn half_a_generation_is_none() {
        let whole = generation(2, Some("2026-11-30T19:50:38Z"), &["a"]).to_json();
        for (key, bad) in [
            ("n_leaves", json!(-1)),
            ("n_leaves", json!("2")),
            ("max_leaf_timestamp", json!(7)),
            ("run_ids", json!("a")),
            ("run_ids", json!(["a", 1])),
        ] {
            let mut recorded = whole.clone();
            recorded[key] = bad;
            assert_eq!(Generation::parse(&recorded), None, "{recorded}");
            recorded.as_object_mut().unwrap().remove(key);
            assert_eq!(Generation::parse(&recorded), None, "{recorded}");
        }
        assert_eq!(Generation::parse(&json!([])), None);
    }

    #[test]
    fn generations_add_up_by_instant() {
        let early = "2026-11-30T23:00:00+05:00";
        let late = "2026-11-30T19:00:00+00:00";
        let mut sum = Generation::default();
        sum.add(&generation(2, Some(late), &["b"]));
        sum.add(&generation(3, Some(early), &["a", "b"]));
        sum.add(&generation(1, None, &[]));
        sum.add(&generation(1, Some("yesterday"), &[]));
        assert_eq!(sum, generation(7, Some(late), &["a", "b"]));
    }

    #[test]
    fn source_children_add_up_and_read_back() {
        let mut sum = SourceChildren::default();
        for (folded, missing, unreadable) in [(4, 12, 0), (1, 0, 3)] {
            sum += SourceChildren {
                folded,
                missing,
                unreadable,
            };
        }
        let recorded = sum.to_json();
        assert_eq!(
            recorded.to_string(),
            r#"{"folded":5,"missing":12,"unreadable":3}"#
        );
        assert_eq!(SourceChildren::parse(&recorded), Some(sum));
        assert_eq!(SourceChildren::parse(&json!({"folded": 5})), None);
    }

    #[test]
    fn a_time_range_reaches_from_the_earliest_to_the_latest_as_written() {
        let a = json!(["2019-01-01T02:00:00+02:00", "2019-01-01T01:00:00Z"]);
        let b = json!(["2019-01-01T00:00:01+00:00", "2019-01-01T05:59:59+05:00"]);
        let both = Some(a.clone());
        assert_eq!(union_time_range(Some(&a), Some(&b)), both);
        assert_eq!(union_time_range(Some(&b), Some(&a)), both);

        let later = json!(["2018-12-31T23:59:59Z", "2019-01-01T00:00:00-02:00"]);
        let union = union_time_range(Some(&later), Some(&a));
        assert_eq!(union, Some(later.clone()));
        assert_eq!(union_time_range(None, Some(&b)), Some(b.clone()));
        assert_eq!(union_time_range(None, None), None);
        for bad in [
            json!(null),
            json!(["2019-01-01T00:00:00Z"]),
            json!(["a", "b"]),
        ] {
            assert_eq!(union_time_range(Some(&bad), Some(&b)), Some(b.clone()));
            assert_eq!(union_time_range(Some(&bad), None), None);
        }
    }

    fn any_generation() -> impl Strategy<Value = Generation> {
        let times = [
            "2026-11-30T19:00:00+00:00",
            "2026-11-30T19:00:00Z",
            "2026-11-30T23:00:00+04:00",
            "2026-11-30T18:59:59-01:00",
            "not a time",
        ];
        let latest = prop::option::of(prop::sample::select(times.to_vec()));
        let run_ids = prop::collection::vec(prop::sample::select(vec!["a", "b", "c"]), 0..3);
        (0..9_u64, latest, run_ids)
            .prop_map(|(n_leaves, latest, run_ids)| generation(n_leaves, latest, &run_ids))
    }

    proptest! {
        #[test]
        fn the_order_of_the_children_does_not_show(
            (children, shuffled) in prop::collection::vec(any_generation(), 0..7)
                .prop_flat_map(|children| (Just(children.clone()), Just(children).prop_shuffle())),
            cut in any::<prop::sample::Index>(),
        ) {
            let sum = |children: &[Generation]| {
                children.iter().fold(Generation::default(), |mut sum, child| {
                    sum.add(child);
                    sum
                })
            };
            let (left, right) = shuffled.split_at(cut.index(shuffled.len() + 1));
            let mut nested = sum(left);
            nested.add(&sum(right));
            prop_assert_eq!(nested, sum(&children));
        }
    }
}
