//! Stores: what is examined before the first write, what fails and how it is weathered,
//! real servers, and local disk.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod credentials;
mod deletions;
mod examine;
mod faults;
mod local;
mod servers;
mod throttling;
