//! The laws of the format as pure functions over slices: no I/O, no async, no clocks.

pub mod cells;
pub mod column;
pub mod composition;
pub mod dense;
pub mod groups;
pub mod level;
pub mod pairwise;
pub mod plan;
pub mod ragged;
pub mod tdigest;
pub mod words;
