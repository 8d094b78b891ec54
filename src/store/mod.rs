//! The object store as this domain sees it: a root, the documents at it, leaves,
//! columns, and the requests they cost.

pub mod array;
pub mod column;
pub mod hash;
pub mod json;
pub mod layout;
pub mod leaf;
mod leaf_check;
pub mod leaf_error;
pub mod lease;
pub mod manifest;
mod ragged_chunk;
pub mod records;
pub mod retry;
pub mod root;
pub mod stamp;
pub mod status;
pub mod template;

pub use lease::{Held, LeaseError, LeaseRecord};
pub use manifest::{Manifest, ManifestError};
pub use records::{RecordError, Records, WorkItem};
pub use retry::RetryPolicy;
pub use root::{Created, Entry, Root, RootError, StoreError, Tally, Version, Versioned};

/// Name of the metadata document of every Zarr v3 node.
pub const METADATA: &str = "zarr.json";
