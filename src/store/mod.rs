//! The object store as this domain sees it: a root, the documents at it, leaves,
//! columns, and the requests they cost.

pub(crate) mod array;
pub(crate) mod artifact;
pub(crate) mod column;
pub(crate) mod content;
pub(crate) mod document;
pub(crate) mod examine;
pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod json;
pub(crate) mod layout;
pub(crate) mod leaf;
mod leaf_check;
pub(crate) mod leaf_error;
pub(crate) mod lease;
pub(crate) mod manifest;
pub(crate) mod probe;
mod ragged_chunk;
pub(crate) mod records;
pub(crate) mod retry;
pub(crate) mod root;
pub(crate) mod stamp;
pub(crate) mod status;
pub(crate) mod template;
mod windows;

pub(crate) use lease::{Held, LeaseRecord};
pub(crate) use manifest::Manifest;

pub use examine::{Ability, Answer, Examination, ExamineError};
pub use leaf_error::LeafError;
pub use lease::LeaseError;
pub use manifest::ManifestError;
pub use records::RecordError;
pub use retry::RetryPolicy;
pub use root::{CredentialsError, Root, RootError, StoreError, Tally, Touched};

/// Name of the metadata document of every Zarr v3 node.
pub(crate) const METADATA: &str = "zarr.json";
