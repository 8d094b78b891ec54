//! Upgrades a published morton-hive Zarr store to the `/2` multiresolution pyramid,
//! in place, from its own bytes.

pub mod kernels;
