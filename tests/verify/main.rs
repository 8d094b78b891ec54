//! What comes after the ladder: verification, retiring what `/1` left, and the receipt.

#![cfg(test)]

#[path = "../common/mod.rs"]
mod common;

mod findings;
mod planted;
mod receipt;
mod retire;
