//! Cubes: what is found, healed, pulled and pushed, and what is refused.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod append;
mod coordinates;
mod faults;
mod generations;
mod meanwhile;
mod orphans;
mod outcomes;
mod pair;
mod pulls;
mod records;
mod refusals;
