//! The object store as this domain sees it: a root, the documents at it, and the
//! requests they cost.

pub mod json;
pub mod lease;
pub mod manifest;
pub mod records;
pub mod retry;
pub mod root;
pub mod status;

pub use lease::{Held, LeaseError, LeaseRecord};
pub use manifest::{Manifest, ManifestError};
pub use records::{RecordError, Records, WorkItem};
pub use retry::RetryPolicy;
pub use root::{Created, Entry, Root, RootError, StoreError, Tally, Version, Versioned};
