//! `demo`: a store to try an upgrade on.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::args::{DemoArgs, DemoFields};
use super::output;
use crate::demo::{self, DemoConfig, DemoError, DemoStore, FieldSet};
use crate::report::Ending;

/// Exit code of numbers no store can be made of.
const USAGE: u8 = 2;

pub(super) async fn run(args: DemoArgs) -> ExitCode {
    let config = config(&args);
    let dir = args.dir.clone();
    // Making cells is work for a processor; a panic in it is no panic here.
    let made = tokio::task::spawn_blocking(move || demo::write(&config, &dir)).await;
    let (error, exit_code) = match made {
        Ok(Ok(store)) => {
            if args.json {
                output::print_json("demo", &store);
            } else {
                output::print(summary(&store).trim_end());
            }
            return ExitCode::SUCCESS;
        }
        Ok(Err(error)) => (error.to_string(), exit_code(&error)),
        Err(error) => (error.to_string(), Ending::Aborted.exit_code()),
    };
    if args.json {
        let refusal = json!({"root": args.dir, "exit_code": exit_code, "error": error});
        output::print_json("demo", &refusal);
    }
    output::complain(&error);
    ExitCode::from(exit_code)
}

fn config(args: &DemoArgs) -> DemoConfig {
    DemoConfig {
        leaves: args.leaves,
        cell_order: args.cell_order,
        fields: match args.fields {
            DemoFields::Plain => FieldSet::Plain,
            DemoFields::Strata => FieldSet::Strata,
            DemoFields::Temporal => FieldSet::Temporal,
        },
        seed: args.seed,
        centroids: args.centroids,
        ..DemoConfig::default()
    }
}

fn exit_code(error: &DemoError) -> u8 {
    match error {
        DemoError::Config { .. } => USAGE,
        DemoError::Occupied { .. } => Ending::Refused.exit_code(),
        _ => Ending::Aborted.exit_code(),
    }
}

fn summary(store: &DemoStore) -> String {
    let mut text = String::new();
    let root = store.root.display();
    let plural = if store.leaves == 1 { "leaf" } else { "leaves" };
    let groups: Vec<String> = store.column_orders.iter().map(u8::to_string).collect();
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "demo {root}: {} {plural} at order {}, cells at order {}, fields {}",
        store.leaves,
        store.shard_order,
        store.cell_order,
        store.fields.name(),
    );
    let _ = writeln!(
        text,
        "  {} of {} cells have data: {} observations in {} centroids",
        store.cells_with_data, store.cells, store.observations, store.centroids,
    );
    let _ = writeln!(
        text,
        "  {} in {} objects",
        output::bytes(store.num_bytes),
        store.objects,
    );
    let _ = writeln!(
        text,
        "  the manifest declares a pyramid whose columns have cells of orders {}; none is written yet",
        groups.join(", "),
    );
    let _ = writeln!(text, "next: zagg-stream upgrade {}", quoted(&store.root));
    text
}

/// A path as it can be typed.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+,:=@%".contains(char);
    if !path.is_empty() && path.chars().all(is_plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
