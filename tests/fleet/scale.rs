//! The request model of `docs/scale.md`, held against requests that were counted.

use std::collections::BTreeMap;

use crate::common::binary::Output;
use crate::common::bucket::Bucket;
use crate::common::faults::Op;
use crate::common::fleet::settings_file;
use crate::common::many::Many;
use crate::common::s3::S3Server;

/// Leaves of the stores that are compared: what they differ in is what each leaf costs.
const FEW: usize = 64;
const MANY: usize = 256;

/// Classes of requests, as the columns of the table have them.
const CLASSES: [&str; 4] = ["get", "list", "put", "delete"];

/// Requests of a leaf or a part by class.
type Requests = [f64; CLASSES.len()];

/// The rows of the table of the model.
fn model() -> BTreeMap<String, Requests> {
    let document = include_str!("../../docs/scale.md");
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let row = |line: &str| {
        let cells = cells(line);
        let (name, numbers) = cells.split_first()?;
        let numbers: Vec<f64> = numbers
            .iter()
            .map(|cell| cell.parse().ok())
            .collect::<Option<_>>()?;
        Some((name.clone(), numbers.try_into().ok()?))
    };
    document
        .lines()
        .filter(|line| line.starts_with("| "))
        .filter_map(row)
        .collect()
}

fn asked(output: &Output) -> Requests {
    CLASSES.map(|class| output.number(&format!("/requests/{class}")) as f64)
}

/// What each step asks over a store of so many leaves.
fn counted(leaves: usize) -> Vec<(&'static str, Requests)> {
    let server = S3Server::start();
    let bucket = server.bucket("counted", &Many::leaves(leaves).tree);
    let run = |step: &'static str, command: &str| {
        let output = bucket.command(command).run().expect_code(0);
        (step, asked(&output))
    };
    vec![
        run("columns, a leaf", "backfill"),
        run("columns that are current, a leaf", "backfill"),
        run("ladder, a leaf", "sweep"),
        run("verify, a leaf", "verify"),
    ]
}

#[test]
fn a_leaf_costs_what_the_model_says() {
    let model = model();
    let (few, many) = (counted(FEW), counted(MANY));
    let mut wrong = Vec::new();
    for ((step, few), (_, many)) in few.iter().zip(&many) {
        let each = |class: usize| (many[class] - few[class]) / (MANY - FEW) as f64;
        let counted: Requests = std::array::from_fn(each);
        let said = model[*step];
        // The model is in tenths.
        let is_said = |class: usize| (counted[class] - said[class]).abs() < 0.06;
        if !(0..CLASSES.len()).all(is_said) {
            wrong.push(format!("{step}: {counted:?}, not {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{CLASSES:?}\n{}", wrong.join("\n"));
}

fn in_the_run_directory(server: &S3Server, op: Op) -> u64 {
    let below = |key: &str| key.contains("/.zagg-stream/fleet-");
    server.tally().of(op, below).calls
}

#[test]
fn a_part_costs_no_more_than_the_model_says() {
    let server = S3Server::start();
    let bucket: Bucket = server.bucket("parts", &Many::leaves(FEW).tree);
    let dir = tempfile::tempdir().unwrap();
    // Nothing is beaten or looked at in so short a time but what has to be.
    let settings = settings_file(dir.path(), "lease_ttl_s = 900");
    let upgrade = bucket.command("upgrade").args(&["--fleet", "local:2"]);
    upgrade.arg("--settings").arg(settings).run().expect_code(0);
    let parts = server
        .tally()
        .of(Op::Put, |key| key.contains("/parts/"))
        .calls as f64;
    let said = model()["a part of the fleet"];
    let ops = [Op::Get, Op::List, Op::Put, Op::Delete];
    let counted = ops.map(|op| in_the_run_directory(&server, op) as f64 / parts);
    let is_less = counted
        .iter()
        .zip(&said)
        .all(|(counted, said)| counted <= said);
    assert!(is_less, "{counted:?}, more than {said:?}");
    assert!(counted.iter().all(|counted| *counted > 0.0), "{counted:?}");
}
