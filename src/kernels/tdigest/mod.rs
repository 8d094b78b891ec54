//! Folds t-digests of source cells into t-digests of coarser cells (`format.md` section 6, "approximate").
//!
//! Of the non-empty digests of a target cell, in cell order: none give an empty cell, exactly one
//! gives its own bytes, more are merged. A merge sorts the rows of all of them and closes a centroid
//! before the first row that would make it wider than one step of the k-scale.
//!
//! A digest is `(k, 2)` little-endian `f32` rows of (mean, weight). Its companions hold one `u64` word
//! per row: where the centroid was seen (a morton word) and when (a toc word).
//!
//! | file | |
//! | --- | --- |
//! | `cell` | digests as a ragged array holds them: one cell, one column |
//! | `row` | a row as integers that sort as the law sorts rows |
//! | `sort`, `merge` | rows of many cells into one sorted run |
//! | `scale`, `compress` | where centroids end; a sorted run into a digest |
//! | `channel` | what becomes of companion words |
//! | `level`, `fold` | the order of the work; the folds that others call |

mod cell;
mod channel;
mod compress;
mod error;
mod fold;
mod level;
mod merge;
mod row;
mod scale;
mod sort;

#[cfg(test)]
mod reference;

pub use cell::{Channel, Channels, DigestCell, DigestColumn, weight_total};
pub use error::DigestError;
pub use fold::{DigestFold, fold_flat};
