//! Words: cells and instants as plain `u64`, and the text forms a store gives them (`morton.md`).

pub mod coverage;
pub mod decimal;
pub mod morton;
pub mod toc;
pub mod utc;

/// Why a morton word, a list of them, or the text of one was refused.
///
/// The five parse faults carry the names of `morton.md` section 2 and are tested in that order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WordError {
    /// The prefix is 0, 13, 14 or 15 (`morton.md` section 1.4).
    #[error("word `{word:#018x}` names no cell: its prefix is not 1..12")]
    InvalidWord {
        /// The refused word.
        word: u64,
    },
    /// A nested index, order and kind that no cell has (`morton.md` sections 1.1 and 1.5).
    #[error("no cell has nested index {nested} at order {order}")]
    InvalidCell {
        /// Nested index within the order.
        nested: u64,
        /// The order asked for.
        order: u8,
    },
    /// The text is empty or holds a character that is not an ASCII digit.
    #[error("`{text}` is not a morton decimal")]
    Malformed {
        /// The refused text.
        text: String,
    },
    /// The base digit is not 1..6.
    #[error("the base digit of `{text}` is not 1..6")]
    BaseDigit {
        /// The refused text.
        text: String,
    },
    /// More than 29 digits follow the base digit.
    #[error("`{text}` is deeper than order 29")]
    OrderTooDeep {
        /// The refused text.
        text: String,
    },
    /// `p` on an id that is not of order 29.
    #[error("`{text}` marks a point but is not of order 29")]
    PointSuffix {
        /// The refused text.
        text: String,
    },
    /// A digit after the base digit is not 1..4.
    #[error("`{text}` has an order digit that is not 1..4")]
    OrderDigit {
        /// The refused text.
        text: String,
    },
    /// A point has no place in the tree (`morton.md` section 3).
    #[error("word `{word:#018x}` is a point, and a point has no path")]
    Point {
        /// The refused word.
        word: u64,
    },
    /// The target order is above the cell's own (`morton.md` section 4).
    #[error("target order {target} is coarser than order {order} of the cell")]
    TargetCoarser {
        /// Order of the cell.
        order: u8,
        /// Order asked for.
        target: u8,
    },
    /// The target order is beyond 29 (`morton.md` section 4).
    #[error("target order {target} is deeper than order 29")]
    TargetTooDeep {
        /// Order asked for.
        target: u8,
    },
    /// Nothing has no ancestor (`morton.md` section 5).
    #[error("an empty list of words has no common ancestor")]
    Empty,
    /// Base cells never join (`morton.md` section 5).
    #[error("words `{first:#018x}` and `{other:#018x}` lie in different base cells")]
    MixedBaseCells {
        /// First word of the list.
        first: u64,
        /// First word whose base cell is another.
        other: u64,
    },
    /// The word is of another order than expected (`morton.md` section 6).
    #[error("word `{word:#018x}` is of order {order}, not {expected}")]
    OrderMismatch {
        /// The refused word.
        word: u64,
        /// Its order.
        order: u8,
        /// The order expected of it.
        expected: u8,
    },
}

#[cfg(test)]
mod tests;
