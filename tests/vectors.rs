//! Every record of the morton vector file (`morton.md` section 9) against `kernels::words`.
#![allow(
    clippy::unwrap_used,
    reason = "a record of another shape fails the test"
)]

use serde_json::{Map, Value};
use zagg_stream::kernels::words::coverage;
use zagg_stream::kernels::words::morton::{self, Cell, Kind};
use zagg_stream::kernels::words::toc::{self, TocError};
use zagg_stream::kernels::words::{WordError, decimal, utc};

type Record = Map<String, Value>;
type Check = fn(&Record);

const SECTIONS: [(&str, Check); 11] = [
    ("words", words),
    ("noncanonical", noncanonical),
    ("decimal_parse", decimal_parse),
    ("paths", paths),
    ("children", children),
    ("ancestors", ancestors),
    ("validate", validate),
    ("toc_encode", toc_encode),
    ("toc_merge", toc_merge),
    ("toc_utc", toc_utc),
    ("coverage_ranges", coverage_ranges),
];

#[test]
fn every_record_of_every_section_holds() {
    let file: Record = serde_json::from_str(include_str!("data/morton_vectors.json")).unwrap();
    let mut named: Vec<&str> = SECTIONS.iter().map(|section| section.0).collect();
    named.push("meta");
    for section in file.keys() {
        assert!(
            named.contains(&section.as_str()),
            "unknown section `{section}`"
        );
    }
    for (section, check) in SECTIONS {
        let records = file[section].as_array().unwrap();
        assert!(!records.is_empty(), "empty section `{section}`");
        for (i, record) in records.iter().enumerate() {
            let outcome = std::panic::catch_unwind(|| check(record.as_object().unwrap()));
            assert!(outcome.is_ok(), "{section}[{i}]: {record}");
        }
    }
}

fn u64_of(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn u64s(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(u64_of).collect()
}

fn order_of(record: &Record) -> u8 {
    record["order"].as_u64().unwrap().try_into().unwrap()
}

fn text<'a>(record: &'a Record, key: &str) -> &'a str {
    record[key].as_str().unwrap()
}

/// The label the vector file gives an error.
fn label(error: &WordError) -> &'static str {
    match error {
        WordError::InvalidWord { .. } => "invalid_word",
        WordError::Malformed { .. } => "malformed",
        WordError::BaseDigit { .. } => "base_digit",
        WordError::OrderTooDeep { .. } => "order_too_deep",
        WordError::PointSuffix { .. } => "point_suffix",
        WordError::OrderDigit { .. } => "order_digit",
        WordError::Point { .. } => "point",
        WordError::TargetCoarser { .. } => "target_coarser",
        WordError::TargetTooDeep { .. } => "target_too_deep",
        WordError::Empty => "empty",
        WordError::MixedBaseCells { .. } => "mixed_base_cells",
        _ => "other",
    }
}

fn toc_label(error: &TocError) -> &'static str {
    match error {
        TocError::Domain { .. } => "domain",
        TocError::Inverted { .. } => "inverted",
        TocError::Empty => "empty",
        _ => "other",
    }
}

fn words(record: &Record) {
    let (word, order) = (u64_of(&record["word"]), order_of(record));
    let base = record["base"].as_u64().unwrap();
    let nested = text(record, "digits")
        .bytes()
        .fold(base, |nested, digit| 4 * nested + u64::from(digit - b'1'));
    let cell = match text(record, "kind") {
        "area" => Cell::area(nested, order).unwrap(),
        _ => Cell::point(nested).unwrap(),
    };
    assert_eq!(cell.pack(), word);
    assert_eq!(Cell::unpack(word), Ok(cell));
    assert_eq!(u64::from(cell.base()), base);
    assert_eq!(cell.kind() == Kind::Point, text(record, "kind") == "point");
    assert_eq!(morton::order(word), Ok(order));
    assert_eq!(decimal::render(word).unwrap(), text(record, "decimal"));
    assert_eq!(decimal::parse(text(record, "decimal")), Ok(word));
}

fn noncanonical(record: &Record) {
    let word = u64_of(&record["word"]);
    let canonical = u64_of(&record["canonical"]);
    assert_eq!(Cell::unpack(word).unwrap().pack(), canonical);
    assert_eq!(decimal::render(word).unwrap(), text(record, "decimal"));
    assert_eq!(morton::is_valid(word), record["valid"].as_bool().unwrap());
    assert_eq!(morton::validate(word, None).is_ok(), morton::is_valid(word));
}

fn decimal_parse(record: &Record) {
    match decimal::parse(text(record, "text")) {
        Ok(word) => assert_eq!(word, u64_of(&record["word"])),
        Err(error) => assert_eq!(label(&error), text(record, "error")),
    }
}

fn paths(record: &Record) {
    let word = u64_of(&record["word"]);
    assert_eq!(decimal::render(word).unwrap(), text(record, "decimal"));
    match decimal::node_path(word) {
        Ok(node) => {
            assert_eq!(node, text(record, "node"));
            assert_eq!(
                decimal::leaf_path(word, None).unwrap(),
                text(record, "path")
            );
        }
        Err(error) => {
            assert_eq!(label(&error), text(record, "error"));
            assert_eq!(decimal::leaf_path(word, None), Err(error));
        }
    }
}

fn children(record: &Record) {
    let made = morton::children(u64_of(&record["parent"]), order_of(record));
    let made = match made {
        Ok(made) => made,
        Err(error) => return assert_eq!(label(&error), text(record, "error")),
    };
    assert_eq!(made.count_left(), record["count"].as_u64().unwrap());
    if let Some(all) = record.get("children") {
        let mut filled = Vec::new();
        made.clone().append_to(&mut filled);
        assert_eq!(filled, u64s(all));
        assert_eq!(made.collect::<Vec<_>>(), filled);
    } else {
        for sample in record["samples"].as_array().unwrap() {
            let i = sample[0].as_u64().unwrap().try_into().unwrap();
            assert_eq!(made.clone().nth(i), Some(u64_of(&sample[1])));
        }
    }
}

fn ancestors(record: &Record) {
    match morton::common_ancestor(&u64s(&record["inputs"])) {
        Ok(word) => {
            assert_eq!(word, u64_of(&record["output"]));
            assert_eq!(
                decimal::render(word).unwrap(),
                text(record, "output_decimal")
            );
        }
        Err(error) => assert_eq!(label(&error), text(record, "error")),
    }
}

fn validate(record: &Record) {
    let expected = record.get("order").map(|_| order_of(record));
    let outcome = morton::validate(u64_of(&record["word"]), expected);
    assert_eq!(outcome.is_ok(), record["ok"].as_bool().unwrap());
}

fn toc_encode(record: &Record) {
    let ns = |key: &str| u64_of(&record[key]);
    let made = match text(record, "kind") {
        "timestamp" => toc::timestamp(ns("t_ns")),
        _ => toc::range(ns("start_ns"), ns("end_ns")),
    };
    match made {
        Ok(word) => {
            assert_eq!(word, ns("word"));
            let (start, end) = toc::decode(word);
            assert_eq!(vec![start, end], u64s(&record["decoded"]));
            assert_eq!(toc::is_timestamp(word), text(record, "kind") == "timestamp");
        }
        Err(error) => assert_eq!(toc_label(&error), text(record, "error")),
    }
}

fn toc_merge(record: &Record) {
    let inputs = u64s(&record["inputs"]);
    let kind = |word: u64| {
        if toc::is_timestamp(word) {
            "timestamp"
        } else {
            "range"
        }
    };
    for (&word, expected) in inputs.iter().zip(record["kinds"].as_array().unwrap()) {
        assert_eq!(kind(word), expected.as_str().unwrap());
    }
    match toc::merge_all(&inputs) {
        Ok(word) => {
            assert_eq!(word, u64_of(&record["output"]));
            assert_eq!(kind(word), text(record, "output_kind"));
            assert_eq!(inputs.into_iter().reduce(toc::merge), Some(word));
        }
        Err(error) => assert_eq!(toc_label(&error), text(record, "error")),
    }
}

fn toc_utc(record: &Record) {
    let t_ns = u64_of(&record["t_ns"]);
    let naive_ns = utc::parse(text(record, "utc")).unwrap();
    assert_eq!(utc::from_utc(naive_ns), Ok(t_ns));
    let back = utc::to_utc(t_ns).unwrap();
    assert_eq!(utc::render(back), text(record, "back"));
    assert_eq!(utc::parse(text(record, "back")), Ok(back));
    assert_eq!(toc::timestamp(t_ns), Ok(u64_of(&record["word"])));
}

fn coverage_ranges(record: &Record) {
    let order = order_of(record);
    let mut words = u64s(&record["words"]);
    let ranges = coverage::build(&words, order).unwrap();
    assert_eq!(serde_json::to_value(&ranges).unwrap(), record["ranges"]);
    words.sort_unstable();
    words.dedup();
    assert_eq!(coverage::expand(&ranges, order), Ok(words));
}
