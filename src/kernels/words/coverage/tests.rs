//! Coverage, compared with the runs of `morton.md` section 8 cell by cell.

use proptest::prelude::*;

use super::super::morton::Cell;
use super::super::{coverage, decimal};
use super::CoverageError;

/// The runs of `morton.md` section 8, cell by cell.
fn slow_runs(words: &[u64]) -> Result<Vec<[String; 2]>, CoverageError> {
    let mut words = words.to_vec();
    words.sort_unstable();
    words.dedup();
    let mut runs: Vec<Vec<u64>> = Vec::new();
    for word in words {
        let cell = Cell::unpack(word).unwrap();
        let follows = |run: &&mut Vec<u64>| {
            let last = Cell::unpack(run[run.len() - 1]).unwrap();
            let rank = |cell: Cell| cell.rank(cell.order());
            last.base() == cell.base() && rank(last) + 1 == rank(cell)
        };
        match runs.last_mut().filter(follows) {
            Some(run) => run.push(word),
            None => runs.push(vec![word]),
        }
    }
    let id = |word: u64| decimal::render(word).unwrap();
    match runs[..] {
        [] => Err(CoverageError::Empty),
        _ => Ok(runs
            .iter()
            .map(|run| [id(run[0]), id(run[run.len() - 1])])
            .collect()),
    }
}

proptest! {
    #[test]
    fn coverage_expands_to_the_cells_it_was_built_from(
        order in 0u8..5,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
    ) {
        let cells: Vec<u64> = (0..12 << (2 * order)).collect();
        let mut words: Vec<u64> = picks
            .iter()
            .map(|pick| Cell::area(*pick.get(&cells), order).unwrap().pack())
            .collect();
        let ranges = coverage::build(&words, order).unwrap();
        words.sort_unstable();
        words.dedup();
        prop_assert_eq!(coverage::expand(&ranges, order), Ok(words.clone()));

        // Maximal: a run goes on exactly where the next cell of the base cell is there too.
        let starts = words.iter().filter(|&&word| {
            let cell = Cell::unpack(word).unwrap();
            let before = (cell.rank(order) > 0).then(|| Cell::area(cell.nested() - 1, order).unwrap().pack());
            before.is_none_or(|before| !words.contains(&before))
        });
        prop_assert_eq!(ranges.len(), starts.count());
    }

    #[test]
    fn a_union_is_built_from_the_cells_of_both(
        order in 0u8..4,
        spans in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let cells: Vec<u64> = (0..12 << (2 * order)).map(|n| Cell::area(n, order).unwrap().pack()).collect();
        let id = |cell: usize| decimal::render(cells[cell]).unwrap();
        let per_base = 1 << (2 * order);
        let ranges: Vec<[String; 2]> = spans
            .iter()
            .map(|(from, to)| {
                let from = from.index(cells.len());
                let left_in_base = per_base - from % per_base;
                [id(from), id(from + to.index(left_in_base))]
            })
            .collect();
        let words: Vec<u64> = picks.iter().map(|pick| *pick.get(&cells)).collect();
        let expanded = [coverage::expand(&ranges, order).unwrap(), words.clone()].concat();
        prop_assert_eq!(coverage::union(&ranges, &words, order), slow_runs(&expanded));
        prop_assert_eq!(coverage::build(&words, order), slow_runs(&words));
    }
}

#[test]
fn coverage_of_the_wrong_cells_is_refused() {
    let word = |text| decimal::parse(text).unwrap();
    let pair = |first: &str, last: &str| [first.to_owned(), last.to_owned()];
    assert_eq!(coverage::build(&[], 2), Err(CoverageError::Empty));
    assert!(matches!(
        coverage::build(&[word("11")], 2),
        Err(CoverageError::Word(_))
    ));
    let point = Cell::point(0).unwrap().pack();
    assert!(matches!(
        coverage::build(&[point], 29),
        Err(CoverageError::Word(_))
    ));
    let built = coverage::build(&[word("211"), word("144")], 2).unwrap();
    assert_eq!(built, [pair("144", "144"), pair("211", "211")]);

    let expand = |first, last| coverage::expand(&[pair(first, last)], 2).unwrap_err();
    assert!(matches!(
        expand("144", "211"),
        CoverageError::CrossesBase { .. }
    ));
    assert!(matches!(
        expand("144", "143"),
        CoverageError::Inverted { .. }
    ));
    assert!(matches!(expand("14", "144"), CoverageError::Word(_)));
    assert!(matches!(expand("144", "145"), CoverageError::Word(_)));
}

#[test]
fn a_union_takes_base_cells_whole_and_keeps_them_apart() {
    let deep = |base: &str, digit: &str| format!("{base}{}", digit.repeat(29));
    let base = |base| [deep(base, "1"), deep(base, "4")];
    let word = |text: String| decimal::parse(&text).unwrap();
    let inside = word(format!("1{}", "1234".repeat(8).split_at(29).0));
    let next = word(deep("3", "1"));
    let united = coverage::union(&[base("2"), base("1"), base("1")], &[next, inside], 29);
    let single = [deep("3", "1"), deep("3", "1")];
    assert_eq!(united, Ok(vec![base("1"), base("2"), single]));

    let last = [base("-6")];
    assert_eq!(coverage::union(&last, &[], 29), Ok(last.to_vec()));
}

#[test]
fn a_union_is_refused_for_what_neither_part_may_hold() {
    let pair = |first: &str, last: &str| [first.to_owned(), last.to_owned()];
    let union =
        |first, last, words: &[u64]| coverage::union(&[pair(first, last)], words, 2).unwrap_err();
    assert_eq!(coverage::union(&[], &[], 2), Err(CoverageError::Empty));
    assert!(matches!(
        union("144", "211", &[]),
        CoverageError::CrossesBase { .. }
    ));
    assert!(matches!(
        union("144", "143", &[]),
        CoverageError::Inverted { .. }
    ));
    assert!(matches!(union("14", "144", &[]), CoverageError::Word(_)));
    let coarse = decimal::parse("11").unwrap();
    assert!(matches!(
        union("111", "112", &[coarse]),
        CoverageError::Word(_)
    ));
}
