//! One upgrade by many processes under one lease: every golden case comes out as by one
//! process, and whatever befalls a worker or the coordinator, no byte is wrong and nothing
//! is lost.

#![cfg(test)]

mod common;

#[path = "fleet/faults.rs"]
mod faults;
#[path = "fleet/parity.rs"]
mod parity;
#[path = "fleet/plans.rs"]
mod plans;
