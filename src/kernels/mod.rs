//! Pure functions over slices: no I/O, no async, no clocks.

pub mod pairwise;
pub mod ragged;
pub mod tdigest;
