//! Takes, keeps and gives back the sweep lease. In: Hold from folds, EndLease from
//! whoever started the run. Out: Held; the run stops when the lease cannot be had or is
//! lost. The beating itself is done by a thread of its own, see [`crate::lease`].

use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AtomicResponse, Context, Handler, WrapFuture};

use crate::error::AbortReason;
use crate::lease::{BeatEvent, BeatThread, Pace};
use crate::messages::{EndLease, Event, Hold};
use crate::run::Run;
use crate::store::lease::{self, Acquired, Claim};
use crate::store::{Held, LeaseError};

/// Target of the tracing events about the lease.
const LEASE: &str = "zagg_stream::lease";

pub(crate) struct LeaseKeeper {
    run: Arc<Run>,
    state: State,
}

enum State {
    /// Nobody needed the lease yet.
    NotAsked,
    Held {
        held: Held,
        beats: BeatThread,
    },
    /// It could not be had, or was given back.
    Over,
}

impl LeaseKeeper {
    pub(crate) fn new(run: Arc<Run>) -> Self {
        Self {
            run,
            state: State::NotAsked,
        }
    }

    /// Starts the beats of a lease just acquired, or stops the run.
    fn keep(&mut self, acquired: Result<Acquired, AbortReason>) -> Option<Held> {
        let Acquired { held, claimed_from } = match acquired {
            Ok(acquired) => acquired,
            Err(reason) => return self.refuse(reason),
        };
        let (run, pace) = (self.run.clone(), Pace::for_ttl(held.ttl()));
        let beats = BeatThread::spawn(&self.run.root, held.clone(), pace, move |event| {
            on_beat(&run, pace, event);
        });
        match beats {
            Ok(beats) => {
                let next_beat_s = pace.every.as_secs();
                tracing::info!(target: LEASE, run_id = held.run_id(), ?claimed_from, next_beat_s, "lease held");
                self.run.announce(Event::LeaseHeld {
                    claimed_from,
                    next_beat_s,
                });
                self.state = State::Held {
                    held: held.clone(),
                    beats,
                };
                Some(held)
            }
            Err(error) => self.refuse(AbortReason::LeaseRefused(Arc::new(error))),
        }
    }

    fn refuse(&mut self, reason: AbortReason) -> Option<Held> {
        self.state = State::Over;
        self.run.stop(reason);
        None
    }
}

/// Takes the lease.
async fn acquire(run: &Run) -> Result<Acquired, AbortReason> {
    let claim = Claim {
        ttl_s: run.settings.lease_ttl.as_secs(),
        ..Claim::new(run.run_id.clone())
    };
    let acquired = lease::acquire(&run.root, &claim, run.clock.clone()).await;
    acquired.map_err(|error| AbortReason::LeaseRefused(Arc::new(error)))
}

fn on_beat(run: &Run, pace: Pace, event: BeatEvent) {
    match event {
        BeatEvent::Confirmed => {
            let next_beat_s = pace.every.as_secs();
            tracing::debug!(target: LEASE, next_beat_s, "lease beat confirmed");
            run.announce(Event::LeaseBeat { next_beat_s });
        }
        BeatEvent::Failed(error) => {
            tracing::warn!(%error, "lease beat failed, trying again");
            let error = error.to_string();
            run.announce(Event::LeaseBeatFailed { error });
        }
        BeatEvent::Ended(error) => {
            run.stop(AbortReason::LeaseLost(error.to_string()));
        }
    }
}

impl Actor for LeaseKeeper {
    type Context = Context<Self>;
}

impl Handler<Hold> for LeaseKeeper {
    type Result = AtomicResponse<Self, Option<Held>>;

    /// Atomic, so that the lease is asked for once however many folds wait for it.
    fn handle(&mut self, _: Hold, _: &mut Context<Self>) -> Self::Result {
        let answer = match &self.state {
            State::Held { held, .. } => Some(Some(held.clone())),
            State::Over => Some(None),
            State::NotAsked => None,
        };
        if let Some(answer) = answer {
            return AtomicResponse::new(Box::pin(actix::fut::ready(answer)));
        }
        let run = self.run.clone();
        let kept = async move { acquire(&run).await }
            .into_actor(self)
            .map(|acquired, keeper, _| keeper.keep(acquired));
        AtomicResponse::new(Box::pin(kept))
    }
}

impl Handler<EndLease> for LeaseKeeper {
    type Result = AtomicResponse<Self, Result<bool, LeaseError>>;

    fn handle(&mut self, end: EndLease, _: &mut Context<Self>) -> Self::Result {
        let state = std::mem::replace(&mut self.state, State::Over);
        let run = self.run.clone();
        let release = async move {
            match state {
                // One that was lost is no longer ours to keep.
                State::Held { held, .. } if end.keep => Ok(held.is_fresh()),
                State::Held { beats, .. } => {
                    beats.release().await?;
                    tracing::debug!(target: LEASE, "lease given back");
                    run.announce(Event::LeaseReleased);
                    Ok(false)
                }
                State::NotAsked | State::Over => Ok(false),
            }
        };
        AtomicResponse::new(Box::pin(release.into_actor(self)))
    }
}
