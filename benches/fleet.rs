//! What a fleet is worth: real processes over an S3 server that takes 25 ms for every
//! request, four workers against one, and one against none; and the planning of a million
//! leaves.
//!
//! `cargo bench --bench fleet`

// What it shares with the tests fails as they do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use common::binary::{Output, Zagg};
use common::faults::{Op, Rule};
use common::fleet::{settings_file, wait_for};
use common::many::{Many, record};
use common::s3::S3Server;
use serde_json::{Value, json};
use tempfile::TempDir;
use zagg_stream::kernels::words::decimal;

/// Of every request.
const LATENCY: Duration = Duration::from_millis(25);

/// Leaves of the store that is upgraded.
const LEAVES: usize = 192;

/// What each worker has, so little that it waits for the store and not for the machine.
const SETTINGS: &str = "max_in_flight = 2\nmax_folds = 2\nmax_writers = 2\nlease_ttl_s = 60";

/// Leaves of the store that is only planned, at order 10.
const PLANNED: usize = 1_000_000;
const PLANNED_ORDER: u8 = 10;

const OPS: [Op; 5] = [
    Op::Get,
    Op::Put,
    Op::Delete,
    Op::List,
    Op::ListWithDelimiter,
];

fn main() {
    let mut out = std::io::stdout().lock();
    let plain = columns_seconds("plain", &[]);
    let one = columns_seconds("one", &["--fleet", "local:1"]);
    let four = columns_seconds("four", &["--fleet", "local:4"]);
    writeln!(
        out,
        "columns of {LEAVES} leaves, {} ms a request, two leaves in flight in each process\n  \
         no fleet {plain:.1} s, one worker {one:.1} s ({:.1} % more), four workers {four:.1} s ({:.2} times as fast as one)",
        LATENCY.as_millis(),
        100.0 * (one / plain - 1.0),
        one / four,
    )
    .unwrap();
    let (seconds, peak_mb) = plan_a_million();
    writeln!(
        out,
        "plan of {PLANNED} leaves for 250 workers: {seconds:.1} s from the start of the program, {peak_mb} MB at most"
    )
    .unwrap();
}

/// Seconds the columns of a fresh store take.
fn columns_seconds(name: &str, args: &[&str]) -> f64 {
    let server = S3Server::start();
    let mut many = Many::leaves(LEAVES + 1);
    // The ladder waits for a leaf that cannot be read, so the run ends with the columns.
    let unreadable = format!("{}/6/count/c/0", many.leaves[0]);
    many.tree.insert(unreadable, b"nothing".to_vec());
    let bucket = server.bucket(name, &many.tree);
    let dir = TempDir::new().unwrap();
    let settings = settings_file(dir.path(), SETTINGS);
    server.follow([Rule::on(OPS).stall(LATENCY)]);
    let upgrade = bucket.command("upgrade").arg("--settings").arg(settings);
    let output: Output = upgrade.args(args).run().expect_code(1);
    assert_eq!(output.number("/counts/written"), LEAVES as u64);
    let steps = output.json()["steps"].clone();
    let steps = steps.as_array().unwrap();
    let columns = steps.iter().find(|step| step["step"] == "columns");
    columns.unwrap()["seconds"].as_f64().unwrap()
}

/// Seconds until the plan of a store of a million leaves can be read, and the greatest
/// resident size of the coordinator in megabytes.
fn plan_a_million() -> (f64, u64) {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let run_dir = dir.path().join("run");
    write_store(&store);
    let started = Instant::now();
    let coordinator = Zagg::new("upgrade")
        .arg(&store)
        .args(&["--json", "--fleet", "manual:250", "--run-dir"])
        .arg(&run_dir)
        .start();
    let plan = run_dir.join("columns/plan.json");
    wait_for("the plan", || std::fs::exists(&plan).unwrap().then_some(()));
    let seconds = started.elapsed().as_secs_f64();
    let status = std::fs::read_to_string(format!("/proc/{}/status", coordinator.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().trim_end_matches(" kB");
    (seconds, peak.parse::<u64>().unwrap() / 1024)
}

/// A store that has nothing but a manifest and the record of a million leaves.
fn write_store(store: &Path) {
    let many = Many::leaves(1);
    let mut manifest: Value = serde_json::from_slice(&many.tree["morton_hive.json"]).unwrap();
    manifest["shard_order"] = PLANNED_ORDER.into();
    manifest["cell_order"] = (PLANNED_ORDER + 2).into();
    manifest["split_schedule"] = vec![1; PLANNED_ORDER.into()].into();
    let level = |node: u8| json!({"node": node, "cells": [node + 1]});
    let levels: Vec<Value> = (0..=PLANNED_ORDER).rev().map(level).collect();
    manifest["pyramid"]["overviews"] = levels.into();
    std::fs::create_dir(store).unwrap();
    std::fs::write(store.join("morton_hive.json"), manifest.to_string()).unwrap();
    let mut words: Vec<u64> = (0..PLANNED).map(word).collect();
    words.sort_unstable();
    std::fs::write(
        store.join("stats_20260825T101500Z_many.parquet"),
        record(&words),
    )
    .unwrap();
}

/// The `nth` cell of the order, by its decimal id.
fn word(nth: usize) -> u64 {
    let digits = (0..PLANNED_ORDER).rev().map(|place| {
        let digit = nth >> (2 * u32::from(place)) & 3;
        (b'1' + digit as u8) as char
    });
    let id: String = std::iter::once('1').chain(digits).collect();
    decimal::parse(&id).unwrap()
}
