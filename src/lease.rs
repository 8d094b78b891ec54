//! Keeps a sweep lease alive from a thread of its own.
//!
//! Beats are due every third of the ttl by the clock, whatever the rest of the process
//! does (`format.md` section 8): the thread has its own runtime and its own connections,
//! so neither a fold that holds every worker nor a stalled client holds up a beat.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::{Instrument, Span};

use crate::store::lease::{Held, LeaseError, Released, confirm, give_back};
use crate::store::retry::RetryPolicy;
use crate::store::root::Root;
use crate::watch::LEASE;

/// The longest time between two beats of a lease that others work under. Some stores take no
/// more than one write of an object in a second.
const FLEET_BEAT: Duration = Duration::from_millis(1100);

/// Beats of such a lease within a ttl, at least.
const FLEET_BEATS: u32 = 60;

/// How soon a beat is made that is asked for.
const FLEET_TICK: Duration = Duration::from_millis(50);

/// The longest time between two looks of one that works under another's lease.
const MEMBER_LOOK: Duration = Duration::from_secs(5);

/// How often a lease is confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Time from one confirmed beat to the next.
    pub every: Duration,
    /// Time from a failed beat to the next try.
    pub retry: Duration,
    /// Longest time one beat may take.
    pub timeout: Duration,
    /// How often the clock is looked at. Timers stand still while a machine is suspended
    /// and the lease does not, so no sleep may be longer than this.
    pub tick: Duration,
}

impl Pace {
    /// The pace of a lease under which others work, who must see it move soon after they begin.
    pub(crate) fn for_fleet(ttl: Duration) -> Self {
        let usual = Self::for_ttl(ttl);
        let every = (ttl / FLEET_BEATS).min(FLEET_BEAT);
        Self {
            every,
            tick: usual.tick.min(every / 2).min(FLEET_TICK),
            ..usual
        }
    }

    /// How often one that works under another's lease of `ttl` looks at it.
    pub(crate) fn for_member(ttl: Duration) -> Self {
        let usual = Self::for_ttl(ttl);
        Self {
            every: usual.every.min(MEMBER_LOOK),
            ..usual
        }
    }

    /// The usual pace for a lease of `ttl`: a beat every third of it, so that two may fail.
    pub(crate) fn for_ttl(ttl: Duration) -> Self {
        Self {
            every: ttl / 3,
            retry: (ttl / 60).clamp(Duration::from_millis(50), Duration::from_secs(5)),
            timeout: (ttl / 6).min(Duration::from_secs(60)),
            tick: (ttl / 100).clamp(Duration::from_millis(10), Duration::from_secs(1)),
        }
    }
}

/// What the keeper has to tell.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum BeatEvent {
    /// The lease was confirmed.
    Confirmed,
    /// A beat failed and is tried again while the lease is fresh.
    Failed(LeaseError),
    /// The lease is lost or stale, for good. Told once.
    Ended(LeaseError),
}

enum Command {
    Stop,
    Release(oneshot::Sender<Result<Released, LeaseError>>),
}

/// What came in while a beat was under way.
enum Interrupt {
    None,
    Stop,
    Release(oneshot::Sender<Result<Released, LeaseError>>),
}

/// A running keeper. Dropping it ends the thread and leaves the lease to expire.
pub(crate) struct BeatThread {
    root: String,
    commands: mpsc::UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for BeatThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeatThread")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl BeatThread {
    /// Starts keeping the lease `held` of `root` at `pace`. `on_event` is called on the
    /// keeper's thread and must not block; a panic in it is not passed on.
    ///
    /// # Errors
    /// [`LeaseError::Keeper`] when the thread or its runtime cannot be had.
    pub(crate) fn spawn(
        root: &Root,
        held: Held,
        pace: Pace,
        on_event: impl FnMut(BeatEvent) + Send + 'static,
    ) -> Result<Self, LeaseError> {
        let keeper_error = |error: std::io::Error| LeaseError::Keeper {
            root: root.url().to_owned(),
            reason: error.to_string(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(keeper_error)?;
        let (commands, inbox) = mpsc::unbounded_channel();
        // A failed beat is tried again here, where the clock is watched.
        let patient = root.detached().unpaced();
        let keeper = Keeper {
            root: patient.with_retry(RetryPolicy::never()),
            patient,
            held,
            pace,
            on_event: Box::new(on_event),
        };
        let span = Span::current();
        let thread = std::thread::Builder::new()
            .name("lease-keeper".to_owned())
            .spawn(move || {
                runtime.block_on(keeper.run(inbox).instrument(span));
                // A request that hangs must not hold up whoever joins this thread.
                runtime.shutdown_background();
            })
            .map_err(keeper_error)?;
        Ok(Self {
            root: root.url().to_owned(),
            commands,
            thread: Some(thread),
        })
    }

    /// Stops beating, then deletes the lease if it is still ours.
    ///
    /// # Errors
    /// The failed request; the lease then stands until it expires, see [`Held::stands`].
    pub(crate) async fn release(self) -> Result<Released, LeaseError> {
        let gone = || LeaseError::Keeper {
            root: self.root.clone(),
            reason: "its thread has ended".to_owned(),
        };
        let (answer, answered) = oneshot::channel();
        self.commands
            .send(Command::Release(answer))
            .map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl Drop for BeatThread {
    fn drop(&mut self) {
        // An error says that the thread has ended already.
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Keeper {
    root: Root,
    /// The same root, whose requests are tried again, for the release.
    patient: Root,
    held: Held,
    pace: Pace,
    on_event: Box<dyn FnMut(BeatEvent) + Send>,
}

impl Keeper {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut ended = false;
        let mut last_try = self.held.clock().now();
        let mut failing = false;
        loop {
            let command = tokio::select! {
                biased;
                command = inbox.recv() => Some(command),
                () = tokio::time::sleep(self.pace.tick) => None,
            };
            match command {
                None => {}
                Some(None | Some(Command::Stop)) => return,
                Some(Some(Command::Release(answer))) => {
                    // Nobody may be waiting any more.
                    let _ = answer.send(give_back(&self.patient, &self.held).await);
                    return;
                }
            }
            if ended {
                continue;
            }
            let now = self.held.clock().now();
            let wanted = self.held.grant_beat(now);
            let due = (wanted || self.held.silent_for() >= self.pace.every)
                && (!failing || now.since(last_try) >= self.pace.retry);
            if !due && self.held.is_fresh() {
                continue;
            }
            last_try = now;
            let (result, interrupt) = self.beat_once(&mut inbox).await;
            match interrupt {
                Interrupt::None => {}
                Interrupt::Stop => return,
                Interrupt::Release(answer) => {
                    let _ = answer.send(give_back(&self.patient, &self.held).await);
                    return;
                }
            }
            failing = result.is_err();
            match result {
                Ok(()) => self.tell(BeatEvent::Confirmed),
                Err(error) if self.held.is_fresh() => {
                    tracing::warn!(target: LEASE, root = %self.root, %error, "lease beat failed, trying again");
                    self.tell(BeatEvent::Failed(error));
                }
                Err(error) => {
                    ended = true;
                    // The token has the reason even when the last request failed for another.
                    let error = self.held.ensure_fresh().err().unwrap_or(error);
                    tracing::error!(root = %self.root, error = %error, "lease ended");
                    self.tell(BeatEvent::Ended(error));
                }
            }
        }
    }

    /// One beat, listening for commands meanwhile. A stop cuts it off; a release waits for
    /// its end, because a beat cut off half way could land after the delete.
    async fn beat_once(
        &self,
        inbox: &mut mpsc::UnboundedReceiver<Command>,
    ) -> (Result<(), LeaseError>, Interrupt) {
        let beat = tokio::time::timeout(self.pace.timeout, confirm(&self.root, &self.held));
        tokio::pin!(beat);
        let mut interrupt = Interrupt::None;
        loop {
            tokio::select! {
                result = &mut beat => {
                    let result = result.unwrap_or_else(|_| Err(LeaseError::Keeper {
                        root: self.root.url().to_owned(),
                        reason: format!("no answer within {:?}", self.pace.timeout),
                    }));
                    return (result, interrupt);
                }
                command = inbox.recv(), if matches!(interrupt, Interrupt::None) => match command {
                    Some(Command::Release(answer)) => interrupt = Interrupt::Release(answer),
                    Some(Command::Stop) | None => return (Ok(()), Interrupt::Stop),
                }
            }
        }
    }

    fn tell(&mut self, event: BeatEvent) {
        let on_event = &mut self.on_event;
        if catch_unwind(AssertUnwindSafe(|| on_event(event))).is_err() {
            tracing::error!(root = %self.root, "a lease event was not taken: its receiver panicked");
        }
    }
}

#[cfg(test)]
mod tests;
