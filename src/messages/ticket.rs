//! The right to work on one thing of a step, and the duty to say how it ended.

use std::fmt;

use actix::Addr;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Span;

use crate::actors::Supervisor;
use crate::messages::outcome::{Outcome, WorkEnded};

/// The right to work on one leaf, or one level's artifact: one of the step's places in
/// flight, and the duty to report exactly one outcome. A ticket that is dropped without
/// one, as by a panic, reports that.
pub(crate) struct Ticket<W: fmt::Display> {
    work: W,
    supervisor: Option<Addr<Supervisor>>,
    span: Span,
    _place: OwnedSemaphorePermit,
}

impl<W: fmt::Display> fmt::Debug for Ticket<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({})", self.work)
    }
}

impl<W: fmt::Display> Ticket<W> {
    /// A ticket whose span is a child of the current one.
    pub(crate) fn new(work: W, supervisor: Addr<Supervisor>, place: OwnedSemaphorePermit) -> Self {
        Self {
            span: tracing::debug_span!("leaf", path = %work),
            work,
            supervisor: Some(supervisor),
            _place: place,
        }
    }

    pub(crate) fn work(&self) -> &W {
        &self.work
    }

    /// The span of the work.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Reports how the work ended.
    pub(crate) fn finish(mut self, outcome: Outcome) {
        self.report(outcome);
    }

    /// `do_send` escapes the mailbox's capacity, but there are never more tickets than
    /// places in flight.
    fn report(&mut self, outcome: Outcome) {
        if let Some(supervisor) = self.supervisor.take() {
            let ended = WorkEnded {
                path: self.work.to_string(),
                outcome,
                supervisor: supervisor.clone(),
            };
            supervisor.do_send(ended);
        }
    }
}

impl<W: fmt::Display> Drop for Ticket<W> {
    fn drop(&mut self) {
        let outcome = Outcome::dropped(&self.work);
        self.report(outcome);
    }
}
