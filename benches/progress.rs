//! What it costs to be watched: the same upgrade by the program with the display on a
//! terminal and the log at its default, and with neither, in turns.
//!
//! `cargo bench --bench progress`

// What it shares with the tests fails as they do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::error::Error;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use common::binary::Zagg;
use common::stores::{Tree, tree_of, write_tree};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use zagg_stream::demo::{self, DemoConfig};

/// Turns, of which the cheapest of each kind counts: what else the machine does only adds.
const TURNS: usize = 21;

/// Seconds of one upgrade.
#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    cpu: f64,
}

impl Spent {
    const INFINITE: Self = Self {
        wall: f64::INFINITY,
        cpu: f64::INFINITY,
    };

    fn least(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            cpu: self.cpu.min(other.cpu),
        }
    }
}

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
    let (mut watched, mut unwatched) = (Spent::INFINITE, Spent::INFINITE);
    for turn in 0..TURNS {
        let store = |kind| dir.path().join(format!("{kind}-{turn}"));
        unwatched = unwatched.least(spent(&tree, &store("unwatched"), |root| {
            let quiet = ["--progress", "none", "--log-level", "off"];
            let upgrade = Zagg::new("upgrade").arg(root).args(&quiet);
            upgrade.run().expect_code(0);
            Ok(())
        })?);
        watched = watched.least(spent(&tree, &store("watched"), on_a_terminal)?);
    }
    let more = |with: f64, without: f64| 100.0 * (with / without - 1.0);
    writeln!(
        std::io::stdout().lock(),
        "upgrade of {} leaves, the cheapest of {TURNS} turns: unwatched, with display and log\n  \
         wall {:.3} s, {:.3} s: {:+.1} %\n  processors {:.2} s, {:.2} s: {:+.1} %",
        config.leaves,
        unwatched.wall,
        watched.wall,
        more(watched.wall, unwatched.wall),
        unwatched.cpu,
        watched.cpu,
        more(watched.cpu, unwatched.cpu),
    )?;
    Ok(())
}

/// Runs `upgrade` as a person does; what is drawn is taken and thrown away, because a
/// terminal's own work is none of the program's.
fn on_a_terminal(root: &Path) -> Result<(), Box<dyn Error>> {
    let size = PtySize {
        rows: 30,
        cols: 120,
        ..PtySize::default()
    };
    let pty = native_pty_system().openpty(size)?;
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_zagg-stream"));
    command.arg("upgrade");
    command.arg(root);
    command.env("TERM", "xterm-256color");
    let mut child = pty.slave.spawn_command(command)?;
    drop(pty.slave);
    let mut drawn = pty.master.try_clone_reader()?;
    let terminal = std::thread::spawn(move || {
        let mut some = [0; 1 << 16];
        // One whose program has ended answers with an error.
        while let Ok(1..) = drawn.read(&mut some) {}
    });
    let status = child.wait()?;
    assert!(status.success(), "{status:?}");
    terminal.join().expect("it only reads");
    Ok(())
}

/// What `upgrade` takes on a fresh copy of the store, which is then removed.
fn spent(
    tree: &Tree,
    root: &Path,
    upgrade: impl Fn(&Path) -> Result<(), Box<dyn Error>>,
) -> Result<Spent, Box<dyn Error>> {
    write_tree(root, tree);
    let (started, before) = (Instant::now(), processors_of_children()?);
    upgrade(root)?;
    let spent = Spent {
        wall: started.elapsed().as_secs_f64(),
        cpu: processors_of_children()? - before,
    };
    std::fs::remove_dir_all(root)?;
    Ok(spent)
}

/// Seconds of processors that ended children of this process have had.
fn processors_of_children() -> Result<f64, Box<dyn Error>> {
    /// Linux counts them in hundredths, whatever the machine.
    const TICKS_PER_SECOND: f64 = 100.0;
    /// Fields of `proc_pid_stat(5)` behind the name, which ends with a parenthesis.
    const OF_CHILDREN: std::ops::Range<usize> = 13..15;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: Result<Vec<f64>, _> = fields[OF_CHILDREN]
        .iter()
        .map(|ticks| ticks.parse())
        .collect();
    Ok(ticks?.iter().sum::<f64>() / TICKS_PER_SECOND)
}
