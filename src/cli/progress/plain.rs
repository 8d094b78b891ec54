//! Progress as a line now and then, for logs and pipes.

use std::time::Instant;

use super::{Screen, Shared, Show, text};

/// Writes lines.
pub(super) struct Lines {
    shared: Shared,
    screen: Screen,
}

impl Lines {
    pub(super) fn new(shared: Shared, screen: Screen) -> Self {
        Self { shared, screen }
    }
}

impl Show for Lines {
    fn show(&mut self, now: Instant) {
        let line = text::line(&self.shared.state(), now);
        if let Some(line) = line {
            self.screen.line(&line);
        }
    }

    fn end(&mut self) {}
}
