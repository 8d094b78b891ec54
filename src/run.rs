//! What the steps of one run share: the store, the settings, the clock, and the one
//! abort.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::Value;
use tokio::sync::watch::Sender;

use crate::abort::AbortSignal;
use crate::budget::MemoryBudget;
use crate::cores::Cores;
use crate::error::{AbortReason, FaultKind};
use crate::messages::Event;
use crate::settings::Settings;
use crate::store::Root;
use crate::time::Clock;
use crate::watch::Watchers;

/// One run of the program on one store, from its admission to its report.
pub(crate) struct Run {
    pub root: Root,
    pub settings: Settings,
    /// As in the lease.
    pub run_id: String,
    pub clock: Arc<dyn Clock>,
    pub budget: MemoryBudget,
    pub cores: Cores,
    pub watchers: Watchers,
    /// Whether it is a part of a run of several processes, whose coordinator judges the whole.
    pub is_part: bool,
    stopping: AbortSignal,
    reason: OnceLock<AbortReason>,
    /// The stamps of the leaves as they were when their turn came, by path.
    stamps: Mutex<BTreeMap<String, Value>>,
}

impl Run {
    pub(crate) fn new(
        root: Root,
        settings: Settings,
        run_id: String,
        clock: Arc<dyn Clock>,
        watchers: Watchers,
    ) -> Self {
        Self {
            budget: MemoryBudget::new(settings.memory_budget),
            cores: Cores::all(),
            root,
            settings,
            run_id,
            clock,
            watchers,
            is_part: false,
            stopping: AbortSignal::new(),
            reason: OnceLock::new(),
            stamps: Mutex::default(),
        }
    }

    /// The present as a store writes it.
    pub(crate) fn now(&self) -> String {
        crate::time::iso(self.clock.now().unix_seconds())
    }

    /// Stops the run. The first reason counts, and is the only one told.
    pub(crate) fn stop(&self, reason: AbortReason) {
        let text = reason.to_string();
        if self.reason.set(reason).is_ok() {
            tracing::error!(reason = text, "stopping");
            self.announce(Event::Aborted { reason: text });
            self.stopping.raise();
        }
    }

    /// Stops the run because of what befell its fleet.
    pub(crate) fn stop_fleet(&self, kind: FaultKind, error: String) {
        self.stop(match kind.is_store_wide() {
            true => AbortReason::StoreWide {
                kind,
                error,
                credentials_end: self.root.credentials_end(),
                so_far: None,
            },
            false => AbortReason::Fleet(error),
        });
    }

    /// Whether the run is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_raised()
    }

    /// Waits until the run is stopping.
    pub(crate) async fn stopping(&self) {
        self.stopping.raised().await;
    }

    /// Why the run is stopping.
    pub(crate) fn reason(&self) -> Option<&AbortReason> {
        self.reason.get()
    }

    /// Notes the stamp of a leaf as it was when its turn came.
    pub(crate) fn note_stamp(&self, leaf: String, stamp: Value) {
        self.stamps().insert(leaf, stamp);
    }

    /// The stamps noted, which are then forgotten.
    pub(crate) fn take_stamps(&self) -> BTreeMap<String, Value> {
        std::mem::take(&mut self.stamps())
    }

    fn stamps(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        // The map is whole after every change, so a panic elsewhere does not spoil it.
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does work that may be left undone; `None` when the run was stopped on the way.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stopping() => None,
            done = work => Some(done),
        }
    }

    /// Tells the watchers, of whom there may be none.
    pub(crate) fn announce(&self, event: Event) {
        self.watchers.announce(event);
    }
}

/// Stops a run from elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stopper(Sender<Option<String>>);

impl Stopper {
    pub(crate) fn new() -> Self {
        Self(Sender::new(None))
    }

    /// Stops the run: what is being written is finished, the lease is given back, and the
    /// report says by whom it was stopped.
    pub fn stop(&self, by: &str) {
        self.0.send_replace(Some(by.to_owned()));
    }

    /// By whom it was stopped, if it was.
    pub(crate) fn by(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits for a stop; by whom.
    pub(crate) async fn stopped(&self) -> String {
        let mut stopped = self.0.subscribe();
        let by = stopped.wait_for(Option::is_some).await;
        // The sender is held here, so the only way out is a stop.
        by.ok().and_then(|by| by.clone()).unwrap_or_default()
    }
}

/// An id no other process has: when, and a number the system drew at random.
pub(crate) fn new_run_id(clock: &dyn Clock) -> String {
    let drawn = RandomState::new().build_hasher().finish();
    format!("zagg-stream-{}-{drawn:016x}", clock.now().unix_seconds())
}
