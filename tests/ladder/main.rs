//! The ladder above the columns: its bytes, odd declarations, and faults on the way.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod edge;
mod faults;
mod levels;
