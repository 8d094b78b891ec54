//! Upgrades a published morton-hive Zarr store to the `/2` multiresolution pyramid,
//! in place, from its own bytes.

mod error;
pub mod kernels;
#[doc(hidden)]
pub mod lease;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod time;

pub use error::{Error, FaultKind};
