//! The display on a terminal: a bar and three lines below it, drawn over in place.

use std::io::{self, Write};
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

use super::state::State;
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

/// What is to be drawn. It is put together apart, because whoever has the state is waited
/// for by the run, and a terminal may be slow.
struct View {
    step: String,
    done: u64,
    total: u64,
    pace: String,
    traffic: String,
    standing: String,
    warning: Option<String>,
}

impl View {
    /// `None` between two steps.
    fn of(state: &State, now: Instant) -> Option<Self> {
        let step = state.step.as_ref()?;
        let warning = state.last_warning.as_deref();
        Some(Self {
            step: step.name.clone(),
            done: step.now.done,
            total: step.now.total,
            pace: text::pace(step),
            traffic: text::traffic(step),
            standing: text::standing(state, now),
            warning: warning.map(|warning| format!("last warning: {}", text::one_line(warning))),
        })
    }
}

impl Show for Bars {
    fn show(&mut self, now: Instant) {
        let view = View::of(&self.shared.state(), now);
        let Some(view) = view else {
            return self.clear();
        };
        let screen = &self.screen;
        let drawn = self.drawn.get_or_insert_with(|| Drawn::new(screen));
        drawn.step.set_prefix(view.step);
        drawn.step.set_length(view.total);
        drawn.step.set_position(view.done);
        drawn.step.set_message(view.pace);
        drawn.traffic.set_message(view.traffic);
        drawn.standing.set_message(view.standing);
        if let Some(warning) = view.warning {
            let line = drawn.warning.get_or_insert_with(|| add(screen, LINE));
            line.set_message(warning);
        }
    }

    fn end(&mut self) {
        self.clear();
    }
}
