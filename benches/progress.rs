//! What it costs to be watched: the same upgrade by the program with the display on a
//! terminal and the log at its default, and with neither, in turns.
//!
//! `cargo bench --bench progress`

// What it shares with the tests fails as they do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use common::binary::Zagg;
use common::stores::{Tree, tree_of, write_tree};
use common::terminal::Terminal;
use zagg_stream::demo::{self, DemoConfig};

/// Turns, of which the fastest of each kind counts.
const TURNS: usize = 9;

fn main() -> Result<(), Box<dyn Error>> {
    // In memory where that can be had: what a disk does meanwhile is no part of the answer.
    let memory = Path::new("/dev/shm");
    let dir = match memory.is_dir() {
        true => tempfile::tempdir_in(memory)?,
        false => tempfile::tempdir()?,
    };
    let original = dir.path().join("original");
    let config = DemoConfig {
        leaves: 48,
        cell_order: 11,
        centroids: 20,
        ..DemoConfig::default()
    };
    demo::write(&config, &original)?;
    let tree = tree_of(&original);
    let (mut watched, mut unwatched) = (f64::INFINITY, f64::INFINITY);
    for turn in 0..TURNS {
        let store = |kind| dir.path().join(format!("{kind}-{turn}"));
        unwatched = unwatched.min(seconds(&tree, &store("unwatched"), |root| {
            let quiet = ["--progress", "none", "--log-level", "off"];
            Zagg::new("upgrade")
                .arg(root)
                .args(&quiet)
                .run()
                .expect_code(0);
        })?);
        watched = watched.min(seconds(&tree, &store("watched"), |root| {
            let terminal = Terminal::run(&["upgrade", &root.display().to_string()], &[], 30, 120);
            let (code, screen) = terminal.end();
            assert_eq!(code, 0, "{screen}");
        })?);
    }
    writeln!(
        std::io::stdout().lock(),
        "upgrade of {} leaves, the fastest of {TURNS} turns\n  unwatched {unwatched:.3} s, with display and log {watched:.3} s: {:+.1} %",
        config.leaves,
        100.0 * (watched / unwatched - 1.0)
    )?;
    Ok(())
}

/// Seconds that `upgrade` takes on a fresh copy of the store, which is then removed.
fn seconds(tree: &Tree, root: &Path, upgrade: impl Fn(&Path)) -> Result<f64, Box<dyn Error>> {
    write_tree(root, tree);
    let started = Instant::now();
    upgrade(root);
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_dir_all(root)?;
    Ok(seconds)
}
