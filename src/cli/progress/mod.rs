//! Live progress on stderr, from what the library tells tracing (`docs/events.md`).
//!
//! [`Layer`] reads the events into a [`State`]; a thread shows it: as a display that is drawn
//! over on a terminal, as a line now and then elsewhere, or as JSON.

mod bar;
mod json;
mod layer;
mod plain;
mod state;
mod text;

use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;

pub(super) use bar::Screen;
pub(super) use layer::{Heard, Layer};
use state::State;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// A display on a terminal, lines elsewhere.
    Auto,
    /// A display that is drawn over.
    Bar,
    /// A line every half minute.
    Plain,
    /// A JSON object a line, as events come.
    Json,
    /// Nothing.
    None,
}

/// What is told between the layer and whoever shows it.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole after every event, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Progress that is shown until this is dropped.
#[derive(Debug)]
struct Shown {
    over: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Time between two drawings of the display.
const DRAWN_EVERY: Duration = Duration::from_millis(200);

/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// What shows progress, until the result is printed.
static SHOWN: Mutex<Option<Shown>> = Mutex::new(None);

/// Starts to show progress; the layer that it is read by, if any is shown.
pub(super) fn start(mode: Mode, screen: &Screen) -> Option<Layer> {
    let shared = Shared::default();
    let screen = screen.clone();
    let (shown, layer) = match resolved(mode) {
        Mode::Bar => (
            Some(Shown::by(
                DRAWN_EVERY,
                bar::Bars::new(shared.clone(), screen),
            )),
            Layer::quiet(shared),
        ),
        Mode::Plain => (
            Some(Shown::by(
                LINE_EVERY,
                plain::Lines::new(shared.clone(), screen),
            )),
            Layer::quiet(shared),
        ),
        Mode::Json => (None, Layer::telling(shared, screen)),
        Mode::None | Mode::Auto => return None,
    };
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    Some(layer)
}

/// Takes away what would be in the way of a result.
pub(super) fn end() {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(shown);
}

/// What `auto` comes to: a display needs a terminal that can move its cursor.
fn resolved(mode: Mode) -> Mode {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    match mode {
        Mode::Auto if io::stderr().is_terminal() && !is_dumb => Mode::Bar,
        Mode::Auto => Mode::Plain,
        mode => mode,
    }
}

/// Something that shows progress again and again.
trait Show: Send + 'static {
    /// Shows how far it is now.
    fn show(&mut self, now: Instant);
    /// Takes away what would be in the way of the result.
    fn end(&mut self);
}

impl Shown {
    fn by(every: Duration, mut show: impl Show) -> Self {
        let (over, told) = mpsc::channel::<()>();
        let body = move || {
            while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(every) {
                show.show(Instant::now());
            }
            show.end();
        };
        let thread = std::thread::Builder::new()
            .name("zagg-progress".to_owned())
            .spawn(body);
        // Without a thread there is no progress to see, which is no reason to stop.
        Self {
            over: Some(over),
            thread: thread.ok(),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to return; a panic in it has been told.
            let _ = thread.join();
        }
    }
}
