//! The shared helpers that the crate's own tests use, too: all but those that run the
//! program, which cannot be had from within.

#![allow(
    dead_code,
    reason = "the crate's own tests use a part of what the whole-program tests do"
)]

pub(crate) mod cases;
pub(crate) mod cubes;
pub(crate) mod dice;
pub(crate) mod faults;
pub(crate) mod library;
pub(crate) mod old;
pub(crate) mod stores;
