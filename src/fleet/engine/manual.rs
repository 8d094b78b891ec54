//! Workers that somebody else starts, of whom only the run directory tells.

use std::time::{Duration, Instant};

use super::{Hired, quoted};
use crate::fleet::directory::open_phase;
use crate::fleet::stay::HEAR_EVERY;

/// Within what time a worker that follows the run hears that it is to end.
pub(super) const HEAR_WITHIN: Duration = HEAR_EVERY.saturating_add(Duration::from_secs(1));

/// How long a run without a worker waits before it says so, again and again.
const SAY_EVERY: Duration = Duration::from_secs(120);

/// Whoever is there.
pub(in crate::fleet) struct Manual {
    hired: Hired,
    array: String,
    /// Since when no part has had a worker, or when that was said last.
    alone_since: Instant,
}

impl Manual {
    pub(super) fn new(hired: Hired) -> Self {
        Self {
            hired,
            array: String::new(),
            alone_since: Instant::now(),
        }
    }

    pub(super) fn begin(&mut self, array: &str) {
        self.array = array.to_owned();
        self.alone_since = Instant::now();
    }

    pub(super) fn note_alive(&mut self, alive: usize) {
        if alive > 0 {
            self.alone_since = Instant::now();
        }
        if self.alone_since.elapsed() < SAY_EVERY {
            return;
        }
        self.alone_since = Instant::now();
        let run = quoted(&self.hired.run.absolute());
        tracing::warn!(
            "no worker is at work, and the run waits for one: `zagg-stream worker --run {run} --follow --part 0`"
        );
    }

    /// They read it in the run directory.
    pub(super) async fn stop(&mut self) {
        let (run, held) = (&self.hired.run, &self.hired.held);
        if let Err(error) = open_phase(run, held, &self.array, true).await {
            tracing::warn!(%error, "the workers could not be asked to end; they end when they see the lease gone");
        }
    }
}
