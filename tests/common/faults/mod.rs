//! An object store that fails, stalls or panics when its script says so, and one that
//! counts.
//!
//! ```ignore
//! // The second stamp is refused, and nothing else.
//! let stamp = Rule::on([Op::Put]).key_ends_with(".pyramid.zarr/zarr.json").nth(2);
//! let store = FaultStore::new(inner, [stamp.fail(Failure::Denied)]);
//! ```

#![allow(
    unused_imports,
    reason = "every test crate compiles all of this and names a part of it"
)]

mod answer;
mod counted;
mod op;
mod rule;
mod script;
mod store;
mod tally;

pub(crate) use counted::Counted;
pub(crate) use op::{Failure, Op};
pub(crate) use rule::{Effect, Rule};
pub(crate) use script::{Fate, Script};
pub(crate) use store::{FaultStore, Read};
pub(crate) use tally::{Count, Tally};
