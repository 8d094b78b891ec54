//! Why digests are refused.

use super::cell::Channel;

/// What is wrong with a digest, or with what was asked of the fold.
///
/// A row index counts from 0 within the cell that was pushed last; which leaf, array and cell that
/// was, the caller knows. The rules are those of `format.md` section 6.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// A payload is not made of whole rows.
    #[error("digest payload of `{num_bytes}` bytes is not a multiple of 8 bytes per row")]
    PayloadLength {
        /// Length of the payload in bytes.
        num_bytes: usize,
    },
    /// A companion is not made of whole words.
    #[error("{channel} of `{num_bytes}` bytes are not a multiple of 8 bytes per row")]
    CompanionLength {
        /// The companion.
        channel: Channel,
        /// Its length in bytes.
        num_bytes: usize,
    },
    /// A payload and a companion of the same cell have different numbers of rows.
    #[error("digest has `{rows}` rows but its {channel} have `{words}` words")]
    RowCount {
        /// The companion.
        channel: Channel,
        /// Rows of the payload.
        rows: usize,
        /// Words of the companion.
        words: usize,
    },
    /// A declared companion was not given, or an undeclared one was.
    #[error("{channel} are {}", if *.declared { "declared but missing" } else { "present but not declared" })]
    Companion {
        /// The companion.
        channel: Channel,
        /// Whether the fold was told that there is such a companion.
        declared: bool,
    },
    /// A mean is NaN or infinite.
    #[error("mean `{mean}` of row `{row}` is not finite")]
    Mean {
        /// Index of the row.
        row: usize,
        /// The mean.
        mean: f32,
    },
    /// A weight is NaN, infinite, zero or negative.
    #[error("weight `{weight}` of row `{row}` is not positive and finite")]
    Weight {
        /// Index of the row.
        row: usize,
        /// The weight.
        weight: f32,
    },
    /// A companion word is 0, or names no cell.
    #[error("word `{word:#018x}` of row `{row}` of the {channel} is not valid")]
    Word {
        /// The companion.
        channel: Channel,
        /// Index of the row.
        row: usize,
        /// The word.
        word: u64,
    },
    /// Rows to be merged lie in different base cells, which have no common ancestor.
    #[error("locations `{first:#018x}` and `{other:#018x}` have no common ancestor")]
    NoCommonAncestor {
        /// A location word.
        first: u64,
        /// One in another base cell.
        other: u64,
    },
    /// The fold budget is not a positive number.
    #[error("fold budget `{delta}` is not a positive finite number")]
    Delta {
        /// The budget.
        delta: f64,
    },
    /// The groups to fold to are not a contiguous descent below the source cells.
    #[error("groups `{groups:?}` do not descend by one from below order `{source_order}`")]
    Groups {
        /// Order of the source cells.
        source_order: u8,
        /// Orders of the groups, as given.
        groups: Vec<u8>,
    },
    /// The cells that were pushed do not fill the last target cell.
    #[error("`{cells}` cells do not fill target cells of `{per_target}`")]
    CellCount {
        /// Cells that were pushed.
        cells: usize,
        /// Source cells of one cell of the coarsest group.
        per_target: usize,
    },
}
