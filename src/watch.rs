//! What a run shows on its way: to those who watch its events, and to a tracing subscriber.
//!
//! Every step is a [`Watched`]: a span, and counters that are told at its start, every
//! second while it works, and at its end. `docs/events.md` is the contract.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::Stream;
use tokio::sync::broadcast;
use tracing::{Instrument, Span};

use crate::budget::MemoryBudget;
use crate::messages::{Event, Progress, Step};
use crate::settings::Settings;
use crate::store::Root;
use crate::store::root::PaceChange;

/// Target of the tracing events that carry progress, so that a log can leave them out.
pub(crate) const PROGRESS: &str = "zagg_stream::progress";

/// Target of the tracing events about how many requests the store takes.
pub(crate) const REQUESTS: &str = "zagg_stream::requests";

/// Target of the tracing events about the lease.
pub(crate) const LEASE: &str = "zagg_stream::lease";

/// Target of the tracing events about the workers of a fleet.
pub(crate) const FLEET: &str = "zagg_stream::fleet";

/// How often a step says where it is.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Events kept for a watcher that is behind.
const EVENTS_KEPT: usize = 1024;

/// Who watches, of whom there may be none. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Watchers(broadcast::Sender<Event>);

impl Watchers {
    pub(crate) fn none() -> Self {
        Self(broadcast::Sender::new(EVENTS_KEPT))
    }

    /// Tells all of them. A slow one loses the oldest events and holds nobody up.
    pub(crate) fn announce(&self, event: Event) {
        let _ = self.0.send(event);
    }

    /// The root as a run works with it: under its settings, and telling when the store asks
    /// for fewer requests.
    pub(crate) fn at_work(&self, root: &Root, settings: &Settings) -> Root {
        let watchers = self.clone();
        let listener = move |change| watchers.announce(paced(change));
        let root = root.with_retry(settings.retry.clone());
        root.paced(settings.max_requests, listener)
    }

    /// For one who must not keep the events flowing.
    pub(crate) fn downgrade(&self) -> WeakWatchers {
        WeakWatchers(self.0.downgrade())
    }

    /// What happens from now on, until nobody is left to announce anything.
    pub(crate) fn stream(&self) -> impl Stream<Item = Event> + Send + use<> {
        stream_of(Some(self.0.subscribe()))
    }
}

/// The event for a change of pace, which is logged, too.
fn paced(change: PaceChange) -> Event {
    match change {
        PaceChange::Lowered { key, max_requests } => {
            tracing::warn!(target: REQUESTS, key, max_requests, "the store asks for fewer requests");
            Event::Throttled { key, max_requests }
        }
        PaceChange::Restored { max_requests } => {
            tracing::info!(target: REQUESTS, max_requests, "the store keeps up again");
            Event::Eased { max_requests }
        }
    }
}

/// [`Watchers`] that end with whoever announces.
#[derive(Debug, Clone)]
pub(crate) struct WeakWatchers(broadcast::WeakSender<Event>);

impl WeakWatchers {
    /// As [`Watchers::stream`]; nothing when it is all over.
    pub(crate) fn stream(&self) -> impl Stream<Item = Event> + Send + use<> {
        stream_of(self.0.upgrade().map(|events| events.subscribe()))
    }
}

fn stream_of(
    events: Option<broadcast::Receiver<Event>>,
) -> impl Stream<Item = Event> + Send + use<> {
    async_stream::stream! {
        let Some(mut events) = events else { return };
        loop {
            match events.recv().await {
                Ok(event) => yield event,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => break,
            }
        }
    }
}

/// A step under way and how far it is.
#[derive(Debug)]
pub(crate) struct Watched {
    step: Step,
    watchers: Watchers,
    root: Root,
    budget: Option<MemoryBudget>,
    span: Span,
    total: AtomicU64,
    begun: AtomicU64,
    done: AtomicU64,
    written: AtomicU64,
    failed: AtomicU64,
    elsewhere: Mutex<Elsewhere>,
}

/// What other processes did of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Elsewhere {
    /// Pieces of work that have ended.
    pub done: u64,
    /// Of those, the ones that something was written for.
    pub written: u64,
    /// Of those, the ones that failed.
    pub failed: u64,
    /// Pieces of work under way.
    pub in_flight: u64,
    /// Bytes they hold.
    pub in_flight_bytes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Requests made.
    pub requests: u64,
}

impl std::ops::AddAssign for Elsewhere {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.written += other.written;
        self.failed += other.failed;
        self.in_flight += other.in_flight;
        self.in_flight_bytes += other.in_flight_bytes;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.requests += other.requests;
    }
}

impl Watched {
    /// A step of a run on `root` that has `total` pieces of work, as far as is known.
    pub(crate) fn new(step: Step, watchers: Watchers, root: &Root, total: u64) -> Self {
        Self {
            step,
            watchers,
            root: root.clone(),
            budget: None,
            span: tracing::info_span!("step", name = step.as_str(), total),
            total: AtomicU64::new(total),
            begun: AtomicU64::new(0),
            done: AtomicU64::new(0),
            written: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            elsewhere: Mutex::default(),
        }
    }

    /// The budget whose bytes are told.
    pub(crate) fn budget(self, budget: &MemoryBudget) -> Self {
        Self {
            budget: Some(budget.clone()),
            ..self
        }
    }

    /// The span that its work is a part of.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Which step it is.
    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// Notes that there are so many pieces of work, once that is known.
    pub(crate) fn expect(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Pieces of work that are known; windows listed on the way come on top.
    pub(crate) fn total(&self) -> u64 {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        read(&self.total).max(read(&self.begun))
    }

    /// A piece of work, from now until this is dropped.
    pub(crate) fn piece(&self) -> Piece<'_> {
        self.begin();
        Piece(self)
    }

    /// Notes a piece of work that begins.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a piece of work that ends.
    pub(crate) fn end(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that something was written.
    pub(crate) fn wrote(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes what other processes did of the step so far.
    pub(crate) fn note_elsewhere(&self, elsewhere: Elsewhere) {
        *self
            .elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = elsewhere;
    }

    /// Notes that something is wrong with a piece of work.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Does the work of the step, telling how far it is.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let (step, started) = (self.step, Instant::now());
        let total = self.progress().total;
        self.watchers.announce(Event::StepStarted { step, total });
        tracing::debug!(target: PROGRESS, step = step.as_str(), total, "step started");
        let done = self.telling(work).instrument(self.span.clone()).await;
        self.tell();
        let seconds = started.elapsed().as_secs_f64();
        self.watchers.announce(Event::StepEnded { step, seconds });
        tracing::debug!(target: PROGRESS, step = step.as_str(), seconds, "step ended");
        done
    }

    async fn telling<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep(TOLD_EVERY) => self.tell(),
            }
        }
    }

    fn tell(&self) {
        let progress = self.progress();
        tracing::debug!(
            target: PROGRESS,
            step = progress.step.as_str(),
            done = progress.done,
            total = progress.total,
            written = progress.written,
            failed = progress.failed,
            in_flight = progress.in_flight,
            in_flight_bytes = progress.in_flight_bytes,
            bytes_read = progress.bytes_read,
            bytes_written = progress.bytes_written,
            requests = progress.requests,
            "progress"
        );
        self.watchers.announce(Event::Progress(progress));
    }

    fn progress(&self) -> Progress {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (done, tally) = (read(&self.done), self.root.tally());
        let mut all = Elsewhere {
            done,
            written: read(&self.written),
            failed: read(&self.failed),
            in_flight: read(&self.begun).saturating_sub(done),
            in_flight_bytes: self.budget.as_ref().map_or(0, MemoryBudget::in_use),
            bytes_read: tally.bytes_read,
            bytes_written: tally.bytes_written,
            requests: tally.requests(),
        };
        all += *self
            .elsewhere
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Progress {
            step: self.step,
            done: all.done,
            total: self.total(),
            written: all.written,
            failed: all.failed,
            in_flight: all.in_flight,
            in_flight_bytes: all.in_flight_bytes,
            bytes_read: all.bytes_read,
            bytes_written: all.bytes_written,
            requests: all.requests,
        }
    }
}

/// A piece of work under way.
pub(crate) struct Piece<'a>(&'a Watched);

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Does work that is one piece, as a step of its own.
pub(crate) async fn as_step<T>(
    step: Step,
    watchers: &Watchers,
    root: &Root,
    work: impl Future<Output = T>,
) -> T {
    let watched = Watched::new(step, watchers.clone(), root, 1);
    let counted = async {
        let _piece = watched.piece();
        work.await
    };
    watched.during(counted).await
}
