//! The public face: open a store, start, watch, join.

use std::sync::{Arc, Weak};

use futures::Stream;
use tokio::sync::{broadcast, oneshot};

use crate::error::{AbortReason, Error};
use crate::messages::Event;
use crate::report::Report;
use crate::run::Run;
use crate::settings::Settings;
use crate::steps;
use crate::store::Root;
use crate::time::{Clock, SystemClock};

/// Events kept for a watcher that is behind.
const EVENTS_KEPT: usize = 1024;

/// An upgrade of one store, not yet begun.
#[derive(Debug)]
pub struct Upgrade {
    pub(crate) root: Root,
    pub(crate) settings: Settings,
    pub(crate) steps: Steps,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Which steps of an upgrade a run takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steps {
    /// The columns of the leaves.
    Columns,
    /// The ladder above columns that are all current.
    Ladder,
    /// Both, one after the other under one lease.
    #[default]
    All,
}

impl Steps {
    /// Whether columns are written.
    pub(crate) fn columns(self) -> bool {
        self != Self::Ladder
    }

    /// Whether the ladder is built.
    pub(crate) fn ladder(self) -> bool {
        self != Self::Columns
    }
}

impl Upgrade {
    /// Prepares an upgrade of the store at `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            settings: Settings::default(),
            steps: Steps::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Replaces the default settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Takes only these steps.
    pub fn steps(mut self, steps: Steps) -> Self {
        self.steps = steps;
        self
    }

    /// Admits and starts the run, on a thread and a runtime of its own; returns once
    /// it is admitted. Nothing has been written by then.
    ///
    /// # Errors
    /// Whatever refuses the store: no manifest, no declaration, unreadable roots.
    pub async fn start(self) -> Result<UpgradeHandle, Error> {
        let (admitted, admission) = oneshot::channel();
        let (ended, report) = oneshot::channel();
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        let watched = events.downgrade();
        std::thread::Builder::new()
            .name("zagg-pass".to_owned())
            .spawn(move || run_system(self, events, admitted, ended))
            .map_err(Error::Thread)?;
        let stop = admission.await.map_err(|_| Error::PassVanished)??;
        Ok(UpgradeHandle {
            events: watched,
            stop,
            report,
        })
    }
}

/// A pass under way. Dropping it does not stop the pass; [`UpgradeHandle::abort`] does.
#[derive(Debug)]
pub struct UpgradeHandle {
    /// Weak, so that a stream of events ends with the pass and not with the handle.
    events: broadcast::WeakSender<Event>,
    stop: Stop,
    report: oneshot::Receiver<Report>,
}

/// Stops a run from elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stop(pub(crate) Weak<Run>);

impl Stop {
    /// Stops the run: what is being written is finished, the lease is given back, and the
    /// report says by whom it was stopped. A run that has ended is not concerned.
    pub fn abort(&self, by: &str) {
        if let Some(run) = self.0.upgrade() {
            run.stop(AbortReason::Operator(by.to_owned()));
        }
    }
}

impl UpgradeHandle {
    /// What happens from now on, until the pass ends. A watcher that is behind loses the
    /// oldest events.
    pub fn events(&self) -> impl Stream<Item = Event> + Send + use<> {
        let events = self.events.upgrade().map(|events| events.subscribe());
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

    /// A way to stop the pass while somebody else waits for its end.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Stops the pass, see [`Stop::abort`].
    pub fn abort(&self, by: &str) {
        self.stop().abort(by);
    }

    /// Waits for the end of the pass.
    ///
    /// # Errors
    /// When the thread of the pass ended without a report, which is a fault of the
    /// program.
    pub async fn join(self) -> Result<Report, Error> {
        self.report.await.map_err(|_| Error::PassVanished)
    }
}

fn run_system(
    upgrade: Upgrade,
    events: broadcast::Sender<Event>,
    admitted: oneshot::Sender<Result<Stop, Error>>,
    ended: oneshot::Sender<Report>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("zagg-io")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return drop(admitted.send(Err(Error::Thread(error)))),
    };
    let system = actix::System::with_tokio_rt(|| runtime);
    system.block_on(async {
        let admission = match steps::admit(upgrade, events).await {
            Ok(admission) => admission,
            // Whoever started the run may have gone away, here and below.
            Err(error) => return drop(admitted.send(Err(error))),
        };
        let _ = admitted.send(Ok(Stop(Arc::downgrade(&admission.run))));
        if let Some(report) = steps::take(admission).await {
            let _ = ended.send(report);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{RetryPolicy, RootError};

    async fn refusal(root: &Root, dry_run: bool) -> Error {
        let settings = Settings {
            dry_run,
            retry: RetryPolicy::immediate(1),
            ..Settings::default()
        };
        let upgrade = Upgrade::new(root.clone()).settings(settings);
        let (events, _) = broadcast::channel(1);
        steps::admit(upgrade, events).await.err().unwrap()
    }

    #[tokio::test]
    async fn a_pass_that_cannot_write_is_refused_before_it_asks_for_anything() {
        let root = Root::open("https://127.0.0.1:1/hive").unwrap();
        let error = refusal(&root, false).await;
        assert!(
            matches!(error, Error::Root(RootError::ReadOnly { .. })),
            "{error}"
        );
        assert!(error.to_string().contains("s3://"), "{error}");
        assert_eq!(error.ending().exit_code(), 3);
        assert_eq!(root.tally().requests(), 0);
    }

    #[tokio::test]
    async fn a_dry_run_needs_no_right_to_write() {
        let root = Root::open("https://127.0.0.1:1/hive").unwrap();
        let error = refusal(&root, true).await;
        assert!(matches!(error, Error::Manifest(_)), "{error}");
        assert_eq!(root.tally().requests(), 1);
    }
}
