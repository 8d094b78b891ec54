//! The runs of the service: queued, under way, and remembered.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::{Semaphore, watch};

use super::ServeError;
use super::config::Config;
use super::feed::Feed;
use super::metrics::Counters;
use super::order::Order;
use super::record::{Record, State, StateDir};
use super::roots::{self, RootRefused};
use crate::messages::Event;
use crate::report::Ending;
use crate::run::Stopper;
use crate::runbook::{Account, Runbook, RunbookError};
use crate::store::Root;
use crate::time::{Clock, SystemClock, iso};

/// Digits of the time in an id, so that ids sort by when they were given.
const ID_DIGITS: usize = 10;

/// Every run. Clones share them.
#[derive(Clone)]
pub(super) struct Runs(Arc<Inner>);

struct Inner {
    config: Config,
    /// Where the credentials of stores come from.
    environment: Vec<(String, String)>,
    state: StateDir,
    known: Mutex<Known>,
    turns: Arc<Semaphore>,
    /// Whether nothing further is taken.
    draining: watch::Sender<bool>,
    counters: Counters,
}

#[derive(Default)]
struct Known {
    runs: BTreeMap<String, Run>,
}

struct Run {
    record: Record,
    feed: Feed,
    /// Of one that waits or works.
    stopper: Option<Stopper>,
}

/// Why a run is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    /// The store may not be worked on, or what is asked for makes no sense.
    #[error(transparent)]
    Root(#[from] RootRefused),
    /// An option cannot be used.
    #[error("{0}")]
    Options(String),
    /// The store cannot be opened.
    #[error("{0}")]
    Open(#[from] crate::RootError),
    /// The store is being worked on.
    #[error(
        "`{root}` is being worked on by run `{id}`; wait for it, or stop it with DELETE /v1/upgrades/{id}"
    )]
    Busy {
        /// The store.
        root: String,
        /// The run.
        id: String,
    },
    /// Too many wait.
    #[error("{0} runs are waiting already, which is as many as may; try again later")]
    Full(usize),
    /// The service is stopping.
    #[error("the service is stopping and takes no further run; try again when it is back")]
    Draining,
    /// The run cannot be remembered, and what is not remembered is not begun.
    #[error("the run cannot be written to the state directory: {0}")]
    State(#[from] std::io::Error),
}

/// How many runs there are in each state.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub queued: usize,
    pub running: usize,
    pub ended: usize,
    pub interrupted: usize,
}

impl Runs {
    /// The runs that are remembered. Those that were under way when the service ended have
    /// been interrupted.
    ///
    /// # Errors
    /// When the state directory cannot be read or written.
    pub(super) fn new(
        config: Config,
        state: StateDir,
        environment: Vec<(String, String)>,
    ) -> Result<Self, ServeError> {
        let mut known = Known::default();
        for mut record in state.load()? {
            if record.is_active() {
                record.state = State::Interrupted;
                record.outcome = Some(Ending::Interrupted.as_str().to_owned());
                record.error = Some(
                    "the service ended while it was under way; start it again to go on".to_owned(),
                );
                state.save(&record).map_err(|error| ServeError::State {
                    dir: config.state_dir.clone(),
                    reason: error.to_string(),
                })?;
            }
            known
                .runs
                .insert(record.id.clone(), Run::remembered(record));
        }
        let runs = Self(Arc::new(Inner {
            turns: Arc::new(Semaphore::new(config.max_running)),
            config,
            environment,
            state,
            known: Mutex::new(known),
            draining: watch::Sender::new(false),
            counters: Counters::default(),
        }));
        runs.forget_old();
        Ok(runs)
    }

    /// Takes a run, which begins when its turn comes.
    ///
    /// # Errors
    /// Why it is not taken.
    pub(super) fn take(&self, order: Order) -> Result<Record, NotTaken> {
        let root = roots::checked(&order.root, &self.0.config.roots)?;
        let store = Root::open_with(&root, self.0.environment.iter().cloned())?;
        let runbook = order.runbook(store, &self.0.config);
        let runbook = runbook.map_err(NotTaken::Options)?;
        let stopper = runbook.stopper();
        let feed = Feed::new(self.0.config.kept_events);
        let record = {
            let mut known = self.known();
            self.ensure_takes(&known, &root)?;
            let record = Record {
                id: new_id(),
                root,
                options: order.options,
                state: State::Queued,
                outcome: None,
                error: None,
                queued_at: now(),
                started_at: None,
                ended_at: None,
                account: None,
            };
            self.0.state.save(&record)?;
            let run = Run {
                record: record.clone(),
                feed: feed.clone(),
                stopper: Some(stopper.clone()),
            };
            known.runs.insert(record.id.clone(), run);
            record
        };
        let (runs, id) = (self.clone(), record.id.clone());
        tokio::spawn(async move { runs.work(&id, runbook, stopper, feed).await });
        Ok(record)
    }

    fn ensure_takes(&self, known: &Known, root: &str) -> Result<(), NotTaken> {
        if self.is_draining() {
            return Err(NotTaken::Draining);
        }
        let active = || known.runs.values().filter(|run| run.record.is_active());
        if let Some(other) = active().find(|run| run.record.root == root) {
            return Err(NotTaken::Busy {
                root: root.to_owned(),
                id: other.record.id.clone(),
            });
        }
        let limit = self.0.config.max_running + self.0.config.max_queued;
        if active().count() >= limit {
            return Err(NotTaken::Full(self.0.config.max_queued));
        }
        Ok(())
    }

    /// One run from its queue to its end.
    async fn work(&self, id: &str, runbook: Runbook, stopper: Stopper, feed: Feed) {
        let turn = tokio::select! {
            biased;
            by = stopper.stopped() => Err(by),
            turn = self.0.turns.acquire() => Ok(turn),
        };
        match turn {
            Ok(_turn) => {
                self.change(id, |record| {
                    record.state = State::Running;
                    record.started_at = Some(now());
                });
                let ended = self.run(runbook, &feed).await;
                self.change(id, |record| record.end(ended));
            }
            Err(by) => self.change(id, |record| {
                record.state = State::Interrupted;
                record.outcome = Some(Ending::Interrupted.as_str().to_owned());
                record.error = Some(format!("stopped by {by} before its turn came"));
                record.ended_at = Some(now());
            }),
        }
        feed.end();
        self.forget_old();
    }

    async fn run(&self, runbook: Runbook, feed: &Feed) -> Result<Account, RunbookError> {
        let mut events = pin!(runbook.events());
        let mut run = pin!(runbook.run());
        let ended = loop {
            tokio::select! {
                Some(event) = events.next() => self.note(&event, feed),
                ended = &mut run => break ended,
            }
        };
        // What was announced before the end is still to come.
        while let Some(event) = events.next().await {
            self.note(&event, feed);
        }
        ended
    }

    fn note(&self, event: &Event, feed: &Feed) {
        self.0.counters.note(event);
        let Ok(json) = serde_json::to_value(event) else {
            return;
        };
        let name = json["event"].as_str().unwrap_or("message").to_owned();
        feed.push(&name, &json.to_string());
    }

    /// Changes what is known of a run, and remembers it.
    fn change(&self, id: &str, change: impl FnOnce(&mut Record)) {
        let mut known = self.known();
        let Some(run) = known.runs.get_mut(id) else {
            return;
        };
        change(&mut run.record);
        if !run.record.is_active() {
            run.stopper = None;
        }
        if let Err(error) = self.0.state.save(&run.record) {
            tracing::error!(id, %error, "what became of the run cannot be written to the state directory");
        }
    }

    /// Forgets the oldest runs that have ended when there are too many.
    fn forget_old(&self) {
        let mut known = self.known();
        let ended = known.runs.values().filter(|run| !run.record.is_active());
        let ended: Vec<String> = ended.map(|run| run.record.id.clone()).collect();
        let surplus = ended.len().saturating_sub(self.0.config.kept_runs);
        for id in &ended[..surplus] {
            known.runs.remove(id);
            self.0.state.forget(id);
        }
    }

    /// Every run, the latest first, without its account.
    pub(super) fn list(&self) -> Vec<Record> {
        let known = self.known();
        let records = known.runs.values().rev().map(|run| Record {
            account: None,
            ..run.record.clone()
        });
        records.collect()
    }

    pub(super) fn one(&self, id: &str) -> Option<Record> {
        Some(self.known().runs.get(id)?.record.clone())
    }

    pub(super) fn feed(&self, id: &str) -> Option<Feed> {
        Some(self.known().runs.get(id)?.feed.clone())
    }

    /// Stops a run; `None` when there is none, `false` when it has ended already.
    pub(super) fn stop(&self, id: &str, by: &str) -> Option<bool> {
        let known = self.known();
        let run = known.runs.get(id)?;
        if let Some(stopper) = &run.stopper {
            stopper.stop(by);
        }
        Some(run.stopper.is_some())
    }

    pub(super) fn is_draining(&self) -> bool {
        *self.0.draining.borrow()
    }

    /// Stops every run, and waits until they have ended, but not for ever.
    pub(super) async fn drain(&self, patience: Duration) {
        const LOOK_EVERY: Duration = Duration::from_millis(50);
        self.0.draining.send_replace(true);
        let ids: Vec<String> = self.known().runs.keys().cloned().collect();
        for id in ids {
            self.stop(&id, "the service, which is stopping");
        }
        let ended = async {
            while self.known().runs.values().any(|run| run.record.is_active()) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        if tokio::time::timeout(patience, ended).await.is_err() {
            tracing::warn!(
                "runs are still at what they were writing; the service ends without them"
            );
        }
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for run in self.known().runs.values() {
            match run.record.state {
                State::Queued => tally.queued += 1,
                State::Running => tally.running += 1,
                State::Ended => tally.ended += 1,
                State::Interrupted => tally.interrupted += 1,
            }
        }
        tally
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What is known is whole after every change, so a panic elsewhere does not spoil it.
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// One from before, whose events are gone.
    fn remembered(record: Record) -> Self {
        let feed = Feed::new(1);
        let outcome = record.outcome.clone().unwrap_or_default();
        let finished = serde_json::json!({"event": "finished", "outcome": outcome});
        feed.push("finished", &finished.to_string());
        feed.end();
        Self {
            record,
            feed,
            stopper: None,
        }
    }
}

impl Record {
    fn end(&mut self, ended: Result<Account, RunbookError>) {
        let (ending, error) = match &ended {
            Ok(account) => (account.report.outcome, account.report.error.clone()),
            Err(error) => (error.ending(), Some(error.to_string())),
        };
        self.state = match ending {
            Ending::Interrupted => State::Interrupted,
            _ => State::Ended,
        };
        self.outcome = Some(ending.as_str().to_owned());
        self.error = error;
        self.ended_at = Some(now());
        self.account = ended
            .ok()
            .and_then(|account| serde_json::to_value(account).ok());
    }
}

fn now() -> String {
    iso(SystemClock::new().now().unix_seconds())
}

/// An id no other run has, which sorts by when it was given.
fn new_id() -> String {
    let seconds = SystemClock::new().now().unix_seconds();
    let drawn = RandomState::new().build_hasher().finish();
    format!("{seconds:0ID_DIGITS$}-{drawn:016x}")
}
