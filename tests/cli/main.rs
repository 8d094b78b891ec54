//! The program as an operator meets it: arguments, refusals, messages, documents and exit
//! codes.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod backfill;
mod declare;
mod demo;
mod json_exits;
mod plan;
