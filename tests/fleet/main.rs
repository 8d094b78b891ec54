//! One upgrade by many processes under one lease: every golden case comes out as by one
//! process, and whatever befalls a worker or the coordinator, no byte is wrong and nothing
//! is lost.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod display;
mod faults;
mod parity;
mod plans;
mod scale;
mod script;
mod slow;
mod slurm;
mod stopping;
mod verify;
