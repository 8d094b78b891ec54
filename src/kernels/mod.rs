//! Pure functions over slices: no I/O, no async, no clocks.

pub mod composition;
pub mod dense;
pub mod groups;
pub mod pairwise;
pub mod words;
