//! The program on a terminal, as a person sees it.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::common::fleet::wait_for;

/// A run on a terminal of its own; killed when dropped.
pub(crate) struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
}

/// What was drawn.
struct Seen {
    screen: vt100::Parser,
    /// Everything that was ever sent.
    bytes: Vec<u8>,
}

/// Lines kept that have left the screen.
const LINES_KEPT: usize = 1000;

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize {
        rows,
        cols,
        ..PtySize::default()
    }
}

impl Terminal {
    /// Runs the program with these arguments and variables on a terminal of this size.
    pub(crate) fn run(args: &[&str], env: &[(String, String)], rows: u16, cols: u16) -> Self {
        let pty = native_pty_system().openpty(size(rows, cols)).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_zagg-stream"));
        command.args(args);
        command.env_remove("RUST_LOG");
        command.env_remove("NO_COLOR");
        command.env("TERM", "xterm-256color");
        for (name, value) in env {
            command.env(name, value);
        }
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let seen = Arc::new(Mutex::new(Seen {
            screen: vt100::Parser::new(cells(rows), cells(cols), LINES_KEPT),
            bytes: Vec::new(),
        }));
        let mut output = pty.master.try_clone_reader().unwrap();
        let shared = seen.clone();
        let reader = thread::spawn(move || {
            let mut some = [0; 4096];
            // A terminal whose program has ended answers with an error.
            while let Ok(n @ 1..) = output.read(&mut some) {
                let mut seen = shared.lock().unwrap();
                seen.screen.process(&some[..n]);
                seen.bytes.extend_from_slice(&some[..n]);
            }
        });
        Self {
            child,
            master: pty.master,
            seen,
            reader: Some(reader),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// What is on the screen now.
    pub(crate) fn screen(&self) -> String {
        self.seen().screen.screen().contents()
    }

    /// Everything that was ever sent to it.
    pub(crate) fn sent(&self) -> String {
        String::from_utf8_lossy(&self.seen().bytes).into_owned()
    }

    /// Waits until the screen shows something of which this holds; what it then shows.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        wait_for(what, || {
            let screen = self.screen();
            holds(&screen).then_some(screen)
        })
    }

    /// Types Ctrl-C, which the terminal turns into a signal to everybody in front of it.
    pub(crate) fn type_ctrl_c(&self) {
        let mut keys = self.master.take_writer().unwrap();
        keys.write_all(b"\x03").unwrap();
        keys.flush().unwrap();
    }

    /// Makes the terminal another size.
    pub(crate) fn resize(&self, rows: u16, cols: u16) {
        self.master.resize(size(rows, cols)).unwrap();
        self.seen()
            .screen
            .screen_mut()
            .set_size(cells(rows), cells(cols));
    }

    /// Waits for the end; the exit code and what is on the screen then.
    pub(crate) fn end(mut self) -> (u32, String) {
        let status = wait_for("the end", || self.child.try_wait().unwrap());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status.exit_code(), self.screen())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Harmless after the end.
        let _ = self.child.kill();
    }
}
