//! The columns of the leaves: their bytes, what needs no writing, leaves and stores that
//! misbehave, processes that are killed, and the lease.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod bad_leaf;
mod bounds;
mod crash;
mod faults;
mod gate;
mod lease;
mod moving_leaf;
mod odd_leaf;
mod parity;
