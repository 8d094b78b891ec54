//! Upgrades that are watched: on a terminal, in a pipe, and by a host.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod embedding;
mod progress;
