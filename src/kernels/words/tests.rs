//! The word kernels against `morton.md` read literally, digit by digit.

use super::morton::{Cell, Kind};
use super::toc::{END_NS, TocError};
use super::utc::UtcError;
use super::{WordError, decimal, morton, toc, utc};
use proptest::prelude::*;

/// A cell as its base and tuples, which is all a word says beside its kind.
#[derive(Debug, Clone, PartialEq)]
struct Path {
    base: u64,
    tuples: Vec<u64>,
    kind: Kind,
}

/// Section 1.2, field by field.
fn slow_unpack(word: u64) -> Option<Path> {
    let base = (word >> 60).checked_sub(1).filter(|&base| base < 12)?;
    let body = |n: u64| (word >> (60 - 2 * n)) & 3;
    let suffix = word & 63;
    let (order, tail, kind) = match suffix {
        0..=27 => (suffix, vec![], Kind::Area),
        28..=47 if (suffix - 28).is_multiple_of(5) => (27, vec![(suffix - 28) / 5], Kind::Area),
        28..=47 => (
            27,
            vec![(suffix - 28) / 5, (suffix - 28) % 5 - 1],
            Kind::Area,
        ),
        _ => (27, vec![(suffix - 48) / 4, (suffix - 48) % 4], Kind::Point),
    };
    let tuples = (1..=order).map(body).chain(tail).collect();
    Some(Path { base, tuples, kind })
}

fn slow_pack(path: &Path) -> u64 {
    let mut word = (path.base + 1) << 60;
    for (n, tuple) in path.tuples.iter().take(27).enumerate() {
        word |= tuple << (58 - 2 * n);
    }
    word | match (path.kind, &path.tuples[path.tuples.len().min(27)..]) {
        (Kind::Point, [a, b]) => 48 + 4 * a + b,
        (_, [a, b]) => 28 + 5 * a + 1 + b,
        (_, [a]) => 28 + 5 * a,
        _ => path.tuples.len() as u64,
    }
}

/// Section 5 as written, on tuples.
fn slow_ancestor(words: &[u64]) -> Result<u64, &'static str> {
    let mut paths: Vec<Path> = Vec::new();
    for &word in words {
        let path = slow_unpack(word).ok_or("invalid")?;
        if paths.first().is_some_and(|first| first.base != path.base) {
            return Err("mixed");
        }
        paths.push(path);
    }
    match (&paths[..], words) {
        ([], _) => Err("empty"),
        ([_], &[word]) => Ok(word),
        ([first, ..], _) => {
            let shortest = paths.iter().map(|path| path.tuples.len()).min().unwrap();
            let shared = (0..shortest)
                .take_while(|&n| paths.iter().all(|path| path.tuples[n] == first.tuples[n]))
                .count();
            let tuples = first.tuples[..shared].to_vec();
            Ok(slow_pack(&Path {
                base: first.base,
                tuples,
                kind: Kind::Area,
            }))
        }
    }
}

fn path_of(base: u64, mut tuples: Vec<u64>, order: usize, point: bool) -> Path {
    let order = if point { 29 } else { order };
    tuples.truncate(order);
    let kind = if point { Kind::Point } else { Kind::Area };
    Path { base, tuples, kind }
}

fn a_path() -> impl Strategy<Value = Path> {
    (
        0u64..12,
        prop::collection::vec(0u64..4, 29),
        0usize..30,
        any::<bool>(),
    )
        .prop_map(|(base, tuples, order, point)| path_of(base, tuples, order, point))
}

/// Words that share digits: each leaves one path somewhere, at any order, of any kind, with or without stray bits.
fn a_family() -> impl Strategy<Value = Vec<u64>> {
    let trunk = (0u64..12, prop::collection::vec(0u64..4, 29), 0usize..30);
    let member = (
        prop::collection::vec(0u64..4, 29),
        0usize..4,
        0usize..30,
        0u8..4,
        any::<u64>(),
    );
    (trunk, 0usize..30, prop::collection::vec(member, 0..20)).prop_map(
        |((base, trunk, leave), least_order, members)| {
            let word =
                |(mut tuples, later, order, kind, stray): (Vec<u64>, usize, usize, u8, u64)| {
                    let leave = (leave + later).min(29);
                    tuples[..leave].copy_from_slice(&trunk[..leave]);
                    let path = path_of(base, tuples, order.max(least_order), kind == 3);
                    let below = 60 - 2 * path.tuples.len().min(27) as u32;
                    let stray = if kind == 2 {
                        stray & ((1 << below) - 1) & !63
                    } else {
                        0
                    };
                    slow_pack(&path) | stray
                };
            members.into_iter().map(word).collect()
        },
    )
}

fn ancestor_label(result: Result<u64, WordError>) -> Result<u64, &'static str> {
    result.map_err(|error| match error {
        WordError::Empty => "empty",
        WordError::InvalidWord { .. } => "invalid",
        WordError::MixedBaseCells { .. } => "mixed",
        _ => "other",
    })
}

/// Toc words an encoder can give.
fn a_time() -> impl Strategy<Value = u64> {
    let near = 5_301_590_418_000_000_000u64;
    prop_oneof![
        (0..END_NS).prop_map(|t| toc::timestamp(t).unwrap()),
        (near..near + 20_000_000_000).prop_map(|t| toc::timestamp(t).unwrap()),
        (near..near + 20_000_000_000, 0u64..20_000_000_000).prop_map(|(a, len)| toc::range(
            a,
            a + len
        )
        .unwrap()),
        Just(toc::timestamp(END_NS - 1).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_word_is_its_path(path in a_path()) {
        let word = slow_pack(&path);
        let cell = Cell::unpack(word).unwrap();
        let nested = path.tuples.iter().fold(path.base, |nested, tuple| 4 * nested + tuple);
        prop_assert_eq!((cell.nested(), cell.kind()), (nested, path.kind));
        prop_assert_eq!(usize::from(cell.order()), path.tuples.len());
        prop_assert_eq!(u64::from(cell.base()), path.base);
        prop_assert_eq!(cell.pack(), word);
        let last_two = path.tuples.iter().rev().take(2).rev().fold(0, |rank, tuple| 4 * rank + tuple);
        prop_assert_eq!(cell.rank(2), last_two);

        let text = decimal::render(word).unwrap();
        prop_assert_eq!(decimal::parse(&text), Ok(word));
        let digits: Vec<u64> = text.bytes().filter(u8::is_ascii_digit).map(|b| u64::from(b - b'1')).collect();
        prop_assert_eq!(&digits[1..], &path.tuples[..]);
        match decimal::node_path(word) {
            Ok(node) => prop_assert_eq!(node.replace('/', ""), text),
            Err(error) => prop_assert_eq!((error, path.kind), (WordError::Point { word }, Kind::Point)),
        }
    }

    #[test]
    fn any_bits_decode_as_the_fields_say(word: u64) {
        let cell = Cell::unpack(word).ok();
        let path = slow_unpack(word);
        prop_assert_eq!(cell.is_some(), path.is_some());
        prop_assert_eq!(morton::order(word).is_ok(), path.is_some());
        if let (Some(cell), Some(path)) = (cell, path) {
            prop_assert_eq!(cell.pack(), slow_pack(&path));
        }
    }

    #[test]
    fn the_common_ancestor_is_the_shared_path(words in a_family()) {
        prop_assert_eq!(ancestor_label(morton::common_ancestor(&words)), slow_ancestor(&words));
    }

    #[test]
    fn the_common_ancestor_of_any_bits_is_the_shared_path(
        mut words in a_family(),
        intruder: u64,
        at: prop::sample::Index,
    ) {
        words.insert(at.index(words.len() + 1), intruder);
        prop_assert_eq!(ancestor_label(morton::common_ancestor(&words)), slow_ancestor(&words));
    }

    #[test]
    fn coarsening_drops_digits(path in a_path(), order in 0usize..32) {
        let word = slow_pack(&path);
        let expected = if order >= path.tuples.len() {
            word
        } else {
            slow_pack(&path_of(path.base, path.tuples, order, false))
        };
        prop_assert_eq!(morton::coarsen(word, order as u8), Ok(expected));
    }

    #[test]
    fn children_append_digits(path in a_path(), further in 0u8..4, skip in 0usize..70) {
        let word = slow_pack(&path);
        let order = path.tuples.len() as u8 + further;
        let made = morton::children(word, order);
        if further == 0 {
            prop_assert_eq!(made.unwrap().collect::<Vec<_>>(), [word]);
        } else if order > 29 {
            prop_assert_eq!(made.unwrap_err(), WordError::TargetTooDeep { target: order });
        } else {
            let expected: Vec<u64> = (0..4u64.pow(u32::from(further)))
                .map(|i| {
                    let mut tuples = path.tuples.clone();
                    tuples.extend((0..further).rev().map(|n| (i >> (2 * n)) & 3));
                    slow_pack(&Path { base: path.base, tuples, kind: Kind::Area })
                })
                .collect();
            let made = made.unwrap();
            let mut filled = vec![7];
            made.clone().append_to(&mut filled);
            prop_assert_eq!(&filled[1..], &expected[..]);
            prop_assert_eq!(made.size_hint(), (expected.len(), Some(expected.len())));
            prop_assert_eq!(made.clone().nth(skip), expected.get(skip).copied());
            prop_assert_eq!(made.skip(skip).count(), expected.len().saturating_sub(skip));
        }
    }

    #[test]
    fn merging_all_is_merging_left_to_right(
        words in prop::collection::vec(prop_oneof![4 => a_time(), 1 => any::<u64>()], 1..12),
        repeats in 1usize..3,
    ) {
        let words: Vec<u64> = words.into_iter().flat_map(|word| vec![word; repeats]).collect();
        prop_assert_eq!(toc::merge_all(&words).ok(), words.iter().copied().reduce(toc::merge));
    }

    #[test]
    fn a_merge_covers_what_it_joins(x in a_time(), y in a_time()) {
        let joined = toc::merge(x, y);
        prop_assert_eq!(joined, toc::merge(y, x));
        for word in [x, y] {
            prop_assert_eq!(toc::merge(joined, word), joined);
            let ((from, to), (start, end)) = (toc::decode(word), toc::decode(joined));
            let inside = joined == word || (start <= from && to <= end);
            prop_assert!(inside);
        }
    }

    #[test]
    fn encoding_keeps_an_instant_and_covers_an_interval(a in 0..END_NS, b in 0..END_NS) {
        let (a, b) = (a.min(b), a.max(b));
        prop_assert_eq!(toc::decode(toc::timestamp(a).unwrap()), (a, a));
        let word = toc::range(a, b).unwrap();
        let (start, end) = toc::decode(word);
        prop_assert!(!toc::is_timestamp(word) && start <= a && b < end);
        prop_assert!(end - start - (b - a) <= (1 << 31) + (1 << 32));
    }

    #[test]
    fn utc_goes_there_and_back(naive_ns in 0..END_NS - 18_000_000_000) {
        let t_ns = utc::from_utc(naive_ns).unwrap();
        // The scale steps back 9 s at the start of 1972.
        if !(3_849_897_591_000_000_000..3_849_897_600_000_000_000).contains(&t_ns) {
            prop_assert_eq!(utc::to_utc(t_ns), Ok(naive_ns));
        }
        prop_assert_eq!(utc::parse(&utc::render(naive_ns)), Ok(naive_ns));
    }
}

#[test]
fn two_equal_points_are_an_area() {
    let point = decimal::parse("412144321223114442411244142324p").unwrap();
    let area = decimal::parse("412144321223114442411244142324").unwrap();
    assert_eq!(morton::common_ancestor(&[point]), Ok(point));
    for words in [[point, point], [point, area], [area, point]] {
        assert_eq!(morton::common_ancestor(&words), Ok(area));
    }
}

#[test]
fn a_cell_that_is_none_is_refused() {
    assert!(Cell::area(12, 0).is_err() && Cell::area(0, 30).is_err());
    assert!(Cell::point(12 << 58).is_err());
    assert!(Cell::area((12 << 58) - 1, 29).is_ok());
    let point = Cell::point(5).unwrap().pack();
    assert!(matches!(
        morton::children(point, 28),
        Err(WordError::TargetCoarser { .. })
    ));
    assert!(matches!(
        morton::children(point, 30),
        Err(WordError::TargetTooDeep { .. })
    ));
}

#[test]
fn a_windowed_leaf_carries_its_label() {
    let word = decimal::parse("-31123").unwrap();
    assert_eq!(
        decimal::leaf_path(word, Some("2019-Q1")).unwrap(),
        "-3/1/1/2/3/-31123_2019-Q1.zarr"
    );
}

#[test]
fn utc_text_is_read_strictly() {
    let second = 1_000_000_000;
    assert_eq!(utc::parse("1850-01-01T00:00:01Z"), Ok(second));
    assert_eq!(
        utc::parse("1850-01-01T00:00:01.5+00:00"),
        Ok(second + second / 2)
    );
    for text in [
        "",
        "2018-01-01",
        "2018-13-01T00:00:00",
        "2018-02-29T00:00:00",
        "1900-02-29T00:00:00",
        "2016-12-31T23:59:60",
        "2018-01-01T00:00:00.",
        "2018-01-01T00:00:00.1234567890",
        "2018-01-01T00:00:00+01:00",
        "2018-01-01 00:00:00",
        "2018-01-00T00:00:00",
        "２018-01-01T00:00:0",
    ] {
        assert!(
            matches!(utc::parse(text), Err(UtcError::Malformed { .. })),
            "{text}"
        );
    }
    for text in [
        "1849-12-31T23:59:59",
        "0000-01-01T00:00:00",
        "9999-12-31T23:59:59",
    ] {
        assert!(
            matches!(utc::parse(text), Err(UtcError::Domain { .. })),
            "{text}"
        );
    }
}

#[test]
fn the_scale_ends() {
    assert_eq!(
        utc::render(utc::to_utc(END_NS - 1).unwrap()),
        "2142-04-11T23:46:54.559808511"
    );
    assert_eq!(utc::to_utc(END_NS), Err(TocError::Domain { t_ns: END_NS }));
    assert!(utc::from_utc(END_NS - 18_000_000_000).is_err());
    assert_eq!(utc::to_gps(4_102_790_400_000_000_001), 1);
    assert_eq!(utc::to_gps(0), -4_102_790_400_000_000_000);
}
