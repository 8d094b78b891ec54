//! What the whole-program tests share: golden cases, comparison, the program, faults.

#![allow(
    dead_code,
    reason = "every test crate compiles all of this and uses a part of it"
)]

pub(crate) mod array;
pub(crate) mod binary;
pub(crate) mod browser;
pub(crate) mod bucket;
pub(crate) mod cases;
pub(crate) mod child;
pub(crate) mod compare;
pub(crate) mod cubes;
pub(crate) mod dice;
pub(crate) mod faults;
pub(crate) mod fleet;
pub(crate) mod http;
pub(crate) mod ladder;
pub(crate) mod leaf;
pub(crate) mod library;
pub(crate) mod many;
pub(crate) mod moto;
pub(crate) mod old;
pub(crate) mod published;
pub(crate) mod python;
pub(crate) mod s3;
pub(crate) mod served;
pub(crate) mod shard;
pub(crate) mod slurm;
pub(crate) mod stores;
pub(crate) mod terminal;
pub(crate) mod times;
pub(crate) mod verified;
