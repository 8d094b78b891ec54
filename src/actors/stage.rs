//! How a stage takes work over: it replies when the work has a slot, not when it is done.

use std::future::Future;
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AtomicResponse, WrapFuture};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{Instrument, Span};

use crate::run::Run;

/// The next place in flight; `None` when the run is stopping.
pub(crate) async fn free_place(run: &Run, places: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    tokio::select! {
        biased;
        () = run.stopping() => None,
        place = places.clone().acquire_owned() => place.ok(),
    }
}

/// Accepts one message of a stage: waits for a slot, starts `work` on the I/O threads as
/// a part of `span`, and replies.
///
/// An `AtomicResponse` holds the mailbox while it waits, so a full stage makes its
/// sender wait. The work runs in a task of its own: a panic ends the task and drops
/// the ticket, and the stage lives on.
pub(crate) fn accept<A: Actor>(
    stage: &A,
    slots: &Arc<Semaphore>,
    span: Span,
    work: impl Future<Output = ()> + Send + 'static,
) -> AtomicResponse<A, ()> {
    let slots = slots.clone();
    let accepted = async move {
        // The semaphore is never closed; if it were, dropping the work reports it.
        if let Ok(slot) = slots.acquire_owned().await {
            let work = async move {
                work.await;
                drop(slot);
            };
            tokio::spawn(work.instrument(span));
        }
    };
    AtomicResponse::new(Box::pin(accepted.into_actor(stage).map(|(), _, _| ())))
}
