//! The pyramid a store declares: its fields, its levels, and which cells each level
//! folds from. `format.md` sections 4 and 5.

mod declaration;
mod field;

pub use declaration::{Declaration, DeclarationError};
pub use field::{Approximate, Field, FieldClass, Packed};
