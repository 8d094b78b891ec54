//! The pyramid a store declares: its fields, its levels, and which cells each level
//! folds from; and how a declaration follows from the configuration the store was
//! written with. `format.md` sections 4 and 5.

pub(crate) mod block;
pub(crate) mod classify;
pub(crate) mod config;
mod declaration;
mod field;
mod ladder;
pub(crate) mod schedule;
pub(crate) mod semantics;

pub use block::Previous;
pub use config::ConfigError;
pub use declaration::{Declaration, DeclarationError};
pub use field::{Approximate, Field, FieldClass, Packed};
pub use ladder::Regime;
pub(crate) use ladder::{LadderPlan, Level};
pub use schedule::{Lever, ScheduleError};
pub use semantics::{HashVerdict, semantic_core};
