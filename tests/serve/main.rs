//! The service: its API by an HTTP client, and its page in a browser.

#![cfg(test)]
#![cfg(feature = "serve")]

#[path = "../common/mod.rs"]
mod common;

mod api;
mod page;
