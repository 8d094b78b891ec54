//! The display on a terminal: a bar and three lines below it, drawn over in place.

use std::io::{self, Write};
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use super::{Shared, Show, text};

/// What is drawn of a step: its name, a bar and how far it is.
const STEP: &str = "{prefix} [{bar:20}] {pos}/{len} {wide_msg}";

/// What is drawn of everything else, cut to the terminal.
const LINE: &str = "  {wide_msg}";

/// Stderr, which a display and the log share: what is written goes above the display.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Screen(MultiProgress);

impl Screen {
    pub(in crate::cli) fn new() -> Self {
        // Drawn by a clock of its own, and not at all until something is added.
        Self(MultiProgress::with_draw_target(ProgressDrawTarget::stderr()))
    }

    /// Writes one line.
    pub(super) fn line(&self, line: &str) {
        // A reader that has gone away is no fault.
        self.0
            .suspend(|| drop(writeln!(io::stderr().lock(), "{line}")));
    }
}

/// What the log of one event is written to.
pub(in crate::cli) struct AboveDisplay {
    screen: Screen,
    written: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Screen {
    type Writer = AboveDisplay;

    fn make_writer(&'a self) -> AboveDisplay {
        AboveDisplay {
            screen: self.clone(),
            written: Vec::new(),
        }
    }
}

impl Write for AboveDisplay {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for AboveDisplay {
    fn drop(&mut self) {
        let written = std::mem::take(&mut self.written);
        self.screen
            .0
            .suspend(|| drop(io::stderr().lock().write_all(&written)));
    }
}

/// Draws the display while a step is under way.
pub(super) struct Bars {
    shared: Shared,
    screen: Screen,
    drawn: Option<Drawn>,
}

struct Drawn {
    step: ProgressBar,
    traffic: ProgressBar,
    standing: ProgressBar,
    warning: Option<ProgressBar>,
}

impl Bars {
    pub(super) fn new(shared: Shared, screen: Screen) -> Self {
        Self {
            shared,
            screen,
            drawn: None,
        }
    }

    fn clear(&mut self) {
        if let Some(drawn) = self.drawn.take() {
            let lines = [
                Some(drawn.step),
                Some(drawn.traffic),
                Some(drawn.standing),
                drawn.warning,
            ];
            for line in lines.into_iter().flatten() {
                line.finish_and_clear();
                self.screen.0.remove(&line);
            }
        }
    }
}

impl Drawn {
    fn new(screen: &Screen) -> Self {
        Self {
            step: add(screen, STEP),
            traffic: add(screen, LINE),
            standing: add(screen, LINE),
            warning: None,
        }
    }
}

fn add(screen: &Screen, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
    screen.0.add(bar)
}

impl Show for Bars {
    fn show(&mut self, now: Instant) {
        let shared = self.shared.clone();
        let state = shared.state();
        let Some(step) = &state.step else {
            drop(state);
            return self.clear();
        };
        let screen = &self.screen;
        let drawn = self.drawn.get_or_insert_with(|| Drawn::new(screen));
        drawn.step.set_prefix(step.name.clone());
        drawn.step.set_length(step.now.total);
        drawn.step.set_position(step.now.done);
        drawn.step.set_message(text::pace(step));
        drawn.traffic.set_message(text::traffic(step));
        drawn.standing.set_message(text::standing(&state, now));
        if let Some(warning) = &state.last_warning {
            let line = drawn.warning.get_or_insert_with(|| add(screen, LINE));
            line.set_message(format!("last warning: {}", text::one_line(warning)));
        }
    }

    fn end(&mut self) {
        self.clear();
    }
}
