//! Decimal ranges at one order, the body of `coverage.moc` (`morton.md` section 8).

use std::ops::RangeInclusive;

use super::morton::Cell;
use super::{WordError, decimal, morton};

/// Why a set of words has no ranges, or a list of ranges no set of words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoverageError {
    /// Nothing is covered.
    #[error("coverage of no cells has no ranges")]
    Empty,
    /// A word or an id is none, or is not an area word of the coverage order.
    #[error("coverage holds a cell that does not belong in it")]
    Word(#[from] WordError),
    /// The two ends lie in different base cells.
    #[error("range `{first}`..`{last}` crosses a base cell")]
    CrossesBase {
        /// First id of the range.
        first: String,
        /// Last id of the range.
        last: String,
    },
    /// The last id comes before the first.
    #[error("range `{first}`..`{last}` ends before it starts")]
    Inverted {
        /// First id of the range.
        first: String,
        /// Last id of the range.
        last: String,
    },
}

/// The maximal runs of a set of area words of one order, both ends inclusive, in word order. Takes the
/// words in any order and with repeats. A run never crosses a base cell.
///
/// # Errors
/// `Empty`; `Word` for an invalid word, one of another order, or a point.
pub fn build(words: &[u64], order: u8) -> Result<Vec<[String; 2]>, CoverageError> {
    union(&[], words, order)
}

/// The maximal runs of a list of ranges and a set of area words, all of one order, as [`build`] gives
/// them. Takes ranges that overlap, and needs memory for the ranges and words but not for the cells
/// within a range.
///
/// # Errors
/// `Empty` for neither range nor word; those of [`expand`] for a range and of [`build`] for a word.
pub fn union(
    ranges: &[[String; 2]],
    words: &[u64],
    order: u8,
) -> Result<Vec<[String; 2]>, CoverageError> {
    let singles = words.iter().map(|&word| {
        let nested = area_cell(word, order)?.nested();
        Ok(nested..=nested)
    });
    let mut runs = ranges
        .iter()
        .map(|range| nested_range(range, order))
        .chain(singles)
        .collect::<Result<Vec<_>, CoverageError>>()?;
    if runs.is_empty() {
        return Err(CoverageError::Empty);
    }
    runs.sort_unstable_by_key(|run| *run.start());
    runs.dedup_by(|next, run| {
        let base = |nested: &u64| nested >> (2 * order);
        let joins = base(next.start()) == base(run.end()) && *next.start() <= run.end() + 1;
        if joins {
            *run = *run.start()..=*run.end().max(next.end());
        }
        joins
    });
    let id = |nested: &u64| decimal::render(Cell::area(*nested, order)?.pack());
    runs.iter()
        .map(|run| Ok([id(run.start())?, id(run.end())?]))
        .collect()
}

/// The words of a list of ranges, ascending and unique. The caller bounds `order`, and with it the
/// memory, by the order of its store.
///
/// # Errors
/// `Word` for an id that is no strict decimal of an area cell of this order; `CrossesBase`, `Inverted`.
pub fn expand(ranges: &[[String; 2]], order: u8) -> Result<Vec<u64>, CoverageError> {
    let mut words = Vec::new();
    for range in ranges {
        for nested in nested_range(range, order)? {
            words.push(Cell::area(nested, order)?.pack());
        }
    }
    words.sort_unstable();
    words.dedup();
    Ok(words)
}

/// The nested indices of a range, which lie in one base cell.
fn nested_range(
    [first, last]: &[String; 2],
    order: u8,
) -> Result<RangeInclusive<u64>, CoverageError> {
    let from = area_cell(decimal::parse(first)?, order)?;
    let to = area_cell(decimal::parse(last)?, order)?;
    let (first, last) = (first.clone(), last.clone());
    if from.base() != to.base() {
        return Err(CoverageError::CrossesBase { first, last });
    }
    if from.nested() > to.nested() {
        return Err(CoverageError::Inverted { first, last });
    }
    Ok(from.nested()..=to.nested())
}

fn area_cell(word: u64, order: u8) -> Result<Cell, WordError> {
    morton::validate(word, Some(order))?;
    let cell = Cell::unpack(word)?;
    match cell.kind() {
        morton::Kind::Area => Ok(cell),
        morton::Kind::Point => Err(WordError::Point { word }),
    }
}

#[cfg(test)]
mod tests;
