//! What stands under a name at an ancestor node, by its own attributes (`format.md`
//! section 10).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::store::records::is_window;
use crate::store::stamp::Stamp;
use crate::store::{METADATA, json};

/// Role of an overview of either pyramid.
const OVERVIEW_ROLE: &str = "overview";

/// What an overview's record stands under.
const OVERVIEW: &str = "zagg_overview";

/// The only spec that is retired.
const RETIRED_SPEC: &str = "zagg-overview/1";

/// The spec of the ladder.
const LADDER_SPEC: &str = "zagg-overview/2";

/// The stem of an overview without a window.
pub(super) const ALL: &str = "all";

/// Why an artifact at an ancestor node is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Kept {
    /// An overview of the `/2` ladder.
    Ladder,
    /// A column.
    Column,
    /// A leaf: stamped, and without a role.
    Leaf,
    /// A `/1` overview where the ladder writes; the sweep replaces it.
    Unswept,
    /// A `/1` overview whose record is of another node, order or window.
    Misplaced,
    /// There is no root document, so nothing says what it is.
    NoRoot,
    /// The root document is no JSON mapping with attributes.
    Unreadable,
    /// Another role or spec, or none.
    Foreign,
    /// No overview is named so.
    OtherName,
}

impl Kept {
    /// The reason as it is printed and serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Column => "column",
            Self::Leaf => "leaf",
            Self::Unswept => "unswept",
            Self::Misplaced => "misplaced",
            Self::NoRoot => "no-root",
            Self::Unreadable => "unreadable",
            Self::Foreign => "foreign",
            Self::OtherName => "other-name",
        }
    }

    /// Whether every upgraded store has such, so that they are counted and not named.
    pub(super) fn is_usual(self) -> bool {
        matches!(self, Self::Ladder | Self::Column)
    }
}

/// Where an artifact stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Directory of the node below the root.
    pub node: String,
    /// Decimal id of the node.
    pub id: String,
    /// Order of the node.
    pub order: u8,
    /// The name without its `.zarr`: a window label, or `all`.
    pub stem: String,
    /// Whether the ladder writes this name at this node.
    pub is_owned: bool,
}

impl Place {
    /// Path of the artifact below the root.
    pub(super) fn path(&self) -> String {
        format!("{}/{}.zarr", self.node, self.stem)
    }

    /// Key of its root document.
    pub(super) fn root_document(&self) -> String {
        format!("{}/{METADATA}", self.path())
    }

    /// Key of its sidecar.
    pub(super) fn sidecar(&self) -> String {
        format!("{}/{}.stats.json", self.node, self.stem)
    }
}

/// What is to become of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may go, for this.
    Retire(String),
    /// It stays, for this; the text says more.
    Keep(Kept, String),
}

/// Whether a directory of this name leads to another node.
pub(super) fn is_digit(name: &str) -> bool {
    matches!(
        name.strip_prefix('-').unwrap_or(name).as_bytes(),
        [b'1'..=b'6']
    )
}

/// The stem of a name that an overview may have, or why it is kept unread.
pub(super) fn stem_of(name: &str) -> Result<&str, (Kept, String)> {
    if name.ends_with(".pyramid.zarr") {
        return Err((Kept::Column, "it is named as a column".to_owned()));
    }
    match name.strip_suffix(".zarr").filter(|stem| is_window(stem)) {
        Some(stem) => Ok(stem),
        None => Err((Kept::OtherName, "no overview is named so".to_owned())),
    }
}

/// Classifies what stands at `place` by its root document; `None` when that is absent.
pub(super) fn classify(document: Option<&[u8]>, place: &Place) -> Verdict {
    let keep = |kept, why: &str| Verdict::Keep(kept, why.to_owned());
    let Some(bytes) = document else {
        return keep(Kept::NoRoot, "it has no root document");
    };
    let document = match json::parse(bytes) {
        Ok(document) => document,
        Err(error) => {
            return Verdict::Keep(
                Kept::Unreadable,
                format!("its root document is not JSON: {error}"),
            );
        }
    };
    let Some(Value::Object(attributes)) = document.get("attributes") else {
        return keep(Kept::Unreadable, "its root document has no attributes");
    };
    let spec = || attributes.get(OVERVIEW)?.get("spec");
    match attributes.get("role").map(Value::as_str) {
        None if Stamp::of(&document).is_some() => keep(Kept::Leaf, "it is a leaf"),
        None => keep(Kept::Foreign, "it has no role"),
        Some(Some("column")) => keep(Kept::Column, "it is a column"),
        Some(Some(OVERVIEW_ROLE)) => match spec().map(Value::as_str) {
            Some(Some(RETIRED_SPEC)) => classify_retired(attributes, place),
            Some(Some(LADDER_SPEC)) => keep(Kept::Ladder, "it is of the /2 ladder"),
            _ => Verdict::Keep(Kept::Foreign, format!("its spec is {}", shown(spec()))),
        },
        Some(_) => Verdict::Keep(
            Kept::Foreign,
            format!("its role is {}", shown(attributes.get("role"))),
        ),
    }
}

fn classify_retired(attributes: &Map<String, Value>, place: &Place) -> Verdict {
    if place.is_owned {
        let why = format!("it says {RETIRED_SPEC} where the ladder writes");
        return Verdict::Keep(Kept::Unswept, why);
    }
    let recorded = |key: &str| attributes.get(OVERVIEW)?.get(key);
    let misplaced = |key: &str, stands: &str| {
        let why = format!("it records {key} {}, and {stands}", shown(recorded(key)));
        Verdict::Keep(Kept::Misplaced, why)
    };
    if recorded("node").and_then(Value::as_str) != Some(place.id.as_str()) {
        return misplaced("node", &format!("stands at {}", place.id));
    }
    if recorded("order").and_then(Value::as_u64) != Some(place.order.into()) {
        return misplaced("order", &format!("stands at order {}", place.order));
    }
    // A record need not name a window; one that does must name this one.
    let window = recorded("window").filter(|window| !window.is_null());
    if window.is_some_and(|window| window.as_str() != Some(place.stem.as_str())) {
        return misplaced("window", &format!("is named `{}`", place.stem));
    }
    Verdict::Retire(format!(
        "it says {RETIRED_SPEC}, and the /2 ladder writes no `{}.zarr` at this node",
        place.stem
    ))
}

fn shown(value: Option<&Value>) -> String {
    value.map_or("absent".to_owned(), Value::to_string)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place() -> Place {
        Place {
            node: "-3/1".to_owned(),
            id: "-31".to_owned(),
            order: 1,
            stem: "2018".to_owned(),
            is_owned: false,
        }
    }

    fn kept(attributes: Value, place: &Place) -> Option<Kept> {
        let document = json!({"attributes": attributes}).to_string();
        match classify(Some(document.as_bytes()), place) {
            Verdict::Retire(_) => None,
            Verdict::Keep(kept, _) => Some(kept),
        }
    }

    fn overview(record: Value) -> Value {
        json!({"role": "overview", "zagg_overview": record})
    }

    #[test]
    fn only_an_overview_of_the_old_spec_at_its_own_place_goes() {
        let good = json!({"spec": "zagg-overview/1", "node": "-31", "order": 1});
        assert_eq!(kept(overview(good.clone()), &place()), None);
        for window in [Value::Null, json!("2018")] {
            let mut record = good.clone();
            record["window"] = window;
            assert_eq!(kept(overview(record), &place()), None);
        }
        for (key, value, reason) in [
            ("node", json!("31"), Kept::Misplaced),
            ("node", Value::Null, Kept::Misplaced),
            ("order", json!(2), Kept::Misplaced),
            ("order", json!("1"), Kept::Misplaced),
            ("window", json!("2019"), Kept::Misplaced),
            ("window", json!(2018), Kept::Misplaced),
            ("spec", json!("zagg-overview/2"), Kept::Ladder),
            ("spec", json!("zagg-overview/11"), Kept::Foreign),
            ("spec", json!(1), Kept::Foreign),
        ] {
            let mut record = good.clone();
            record[key] = value;
            assert_eq!(kept(overview(record), &place()), Some(reason), "{key}");
        }
        let owned = Place {
            is_owned: true,
            ..place()
        };
        assert_eq!(kept(overview(good), &owned), Some(Kept::Unswept));
    }

    #[test]
    fn what_says_something_else_or_nothing_is_kept() {
        let record = json!({"spec": "zagg-overview/1", "node": "-31", "order": 1});
        for (attributes, reason) in [
            (json!({}), Kept::Foreign),
            (json!({"zagg_overview": record}), Kept::Foreign),
            (json!({"role": "overview"}), Kept::Foreign),
            (
                json!({"role": ["overview"], "zagg_overview": record}),
                Kept::Foreign,
            ),
            (
                json!({"role": "mosaic", "zagg_overview": record}),
                Kept::Foreign,
            ),
            (
                json!({"role": "column", "zagg_overview": record}),
                Kept::Column,
            ),
            (json!({"morton_hive_commit": {}}), Kept::Leaf),
            (json!([]), Kept::Unreadable),
        ] {
            assert_eq!(
                kept(attributes.clone(), &place()),
                Some(reason),
                "{attributes}"
            );
        }
        let verdict = |bytes| match classify(bytes, &place()) {
            Verdict::Keep(kept, _) => kept,
            Verdict::Retire(why) => panic!("{why}"),
        };
        assert_eq!(verdict(None), Kept::NoRoot);
        assert_eq!(verdict(Some(b"{\"attributes\": {")), Kept::Unreadable);
    }

    #[test]
    fn names_are_told_apart() {
        for name in ["1", "4", "6", "-3"] {
            assert!(is_digit(name), "{name}");
        }
        for name in ["7", "0", "-", "", "11", "1.zarr"] {
            assert!(!is_digit(name), "{name}");
        }
        assert_eq!(stem_of("2018.zarr"), Ok("2018"));
        assert_eq!(stem_of("all.zarr"), Ok("all"));
        let reason = |name| stem_of(name).unwrap_err().0;
        assert_eq!(reason("all.pyramid.zarr"), Kept::Column);
        for name in ["112_2018.zarr", ".zarr", "notes", "a.b.zarr"] {
            assert_eq!(reason(name), Kept::OtherName);
        }
    }
}
