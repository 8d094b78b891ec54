//! Takes, keeps and gives back the sweep lease. In: Hold from folds, EndLease from
//! whoever started the run. Out: Held; the run stops when the lease cannot be had or is
//! lost. The beating itself is done by a thread of its own, see [`crate::lease`].

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AtomicResponse, Context, Handler, WrapFuture};
use tracing::{Instrument, Span};

use crate::error::{AbortReason, FaultKind};
use crate::lease::{BeatEvent, BeatThread, Pace};
use crate::messages::{EndLease, Event, Hold};
use crate::run::Run;
use crate::store::Held;
use crate::store::examine::{Examiner, Writer};
use crate::store::lease::{self, Acquired, Claim, Membership};
use crate::watch::LEASE;

pub(crate) struct LeaseKeeper {
    run: Arc<Run>,
    role: Role,
    /// Of the run.
    span: Span,
    state: State,
    /// What an operator should know of the store and of the lease.
    warnings: Vec<String>,
}

/// What a run has to do with the lease of its store.
#[derive(Debug, Clone)]
pub(crate) enum Role {
    /// It holds the lease, once the examiner finds the store fit.
    Holder(Examiner),
    /// As [`Role::Holder`], and others work under its lease.
    Coordinator(Examiner),
    /// It works under the lease of another process.
    Member(Membership),
}

impl Role {
    fn pace(&self, ttl: Duration) -> Pace {
        match self {
            Self::Holder(_) => Pace::for_ttl(ttl),
            Self::Coordinator(_) => Pace::for_fleet(ttl),
            Self::Member(_) => Pace::for_member(ttl),
        }
    }
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
    /// The keeper of a run.
    pub(crate) fn new(run: Arc<Run>, role: Role) -> Self {
        Self {
            run,
            role,
            span: Span::current(),
            state: State::NotAsked,
            warnings: Vec::new(),
        }
    }

    /// Starts the beats of a lease just acquired, or stops the run.
    fn keep(&mut self, taken: Result<Taken, AbortReason>) -> Option<Held> {
        let Taken { acquired, warning } = match taken {
            Ok(taken) => taken,
            Err(reason) => return self.refuse(reason),
        };
        self.warnings.extend(warning);
        let Acquired { held, claimed_from } = acquired;
        let (run, pace) = (self.run.clone(), self.role.pace(held.ttl()));
        let on_event = move |event| on_beat(&run, pace, event);
        let spawn = || BeatThread::spawn(&self.run.root, held.clone(), pace, on_event);
        let beats = self.span.in_scope(spawn);
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

/// A lease that was taken, and what there is to say of the store's clock.
struct Taken {
    acquired: Acquired,
    warning: Option<String>,
}

/// Has the store examined and takes the lease, or joins it.
async fn take(run: &Run, role: &Role) -> Result<Taken, AbortReason> {
    let examiner = match role {
        Role::Holder(examiner) | Role::Coordinator(examiner) => examiner,
        Role::Member(membership) => return join(run, membership).await,
    };
    let lease_ttl = run.settings.lease_ttl;
    let writer = Writer {
        run_id: &run.run_id,
        lease_ttl,
    };
    let examined = examiner
        .before_writing(&run.root, &*run.clock, writer)
        .await;
    let examined = examined.map_err(|error| AbortReason::Unfit(Arc::new(error)))?;
    let claim = Claim {
        ttl_s: lease_ttl.as_secs(),
        ..Claim::new(run.run_id.clone()).of_examined(examined)
    };
    let acquired = lease::acquire(&run.root, &claim, run.clock.clone()).await;
    Ok(Taken {
        acquired: acquired.map_err(|error| AbortReason::LeaseRefused(Arc::new(error)))?,
        warning: examined.clock_warning(),
    })
}

async fn join(run: &Run, membership: &Membership) -> Result<Taken, AbortReason> {
    let joined = lease::join(&run.root, membership).await;
    let held = joined.map_err(|error| match error.kind() {
        FaultKind::LeaseLost => AbortReason::LeaseLost(error.to_string()),
        _ => AbortReason::LeaseRefused(Arc::new(error)),
    })?;
    Ok(Taken {
        acquired: Acquired {
            held,
            claimed_from: None,
        },
        warning: None,
    })
}

fn on_beat(run: &Run, pace: Pace, event: BeatEvent) {
    match event {
        BeatEvent::Confirmed => {
            let next_beat_s = pace.every.as_secs();
            tracing::debug!(target: LEASE, next_beat_s, "lease beat confirmed");
            run.announce(Event::LeaseBeat { next_beat_s });
        }
        BeatEvent::Failed(error) => {
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
        let (run, role) = (self.run.clone(), self.role.clone());
        let kept = async move { take(&run, &role).await }
            .instrument(self.span.clone())
            .into_actor(self)
            .map(|taken, keeper, _| keeper.keep(taken));
        AtomicResponse::new(Box::pin(kept))
    }
}

impl Handler<EndLease> for LeaseKeeper {
    type Result = AtomicResponse<Self, Vec<String>>;

    fn handle(&mut self, end: EndLease, _: &mut Context<Self>) -> Self::Result {
        let state = std::mem::replace(&mut self.state, State::Over);
        let mut warnings = std::mem::take(&mut self.warnings);
        let run = self.run.clone();
        let ended = async move {
            match state {
                State::Held { held, beats } => warnings.extend(leave(&run, held, beats, end).await),
                State::NotAsked | State::Over => {}
            }
            warnings
        };
        let ended = ended.instrument(self.span.clone());
        AtomicResponse::new(Box::pin(ended.into_actor(self)))
    }
}

/// Gives the lease back, or leaves it; what to tell an operator of one that stands.
async fn leave(run: &Run, held: Held, beats: BeatThread, end: EndLease) -> Option<String> {
    if let Some(why) = end.stands_because {
        // One that was lost is no longer ours to keep.
        return held.is_fresh().then(|| held.stands(why));
    }
    match beats.release().await {
        Ok(_) => {
            tracing::debug!(target: LEASE, "lease given back");
            run.announce(Event::LeaseReleased);
            None
        }
        Err(error) => Some(held.stands(&format!("it could not be given back ({error})"))),
    }
}
