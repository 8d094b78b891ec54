//! The public face: open a store, start, watch, join.

use std::io;
use std::sync::{Arc, Weak};

use futures::Stream;
use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::error::{AbortReason, Error};
use crate::fleet::Fleet;
use crate::messages::Event;
use crate::report::Report;
use crate::run::Run;
use crate::settings::Settings;
use crate::steps;
use crate::store::Root;
use crate::store::examine::Examiner;
use crate::time::{Clock, SystemClock};
use crate::watch::{Watchers, WeakWatchers};

/// An upgrade of one store, not yet begun.
#[derive(Debug)]
pub struct Upgrade {
    pub(crate) root: Root,
    pub(crate) settings: Settings,
    pub(crate) steps: Steps,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) examiner: Examiner,
    /// Whom the work is given to.
    pub(crate) fleet: Option<Fleet>,
    /// Of the whole that this is a part of.
    part_of: Option<(Watchers, Span)>,
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
            examiner: Examiner::default(),
            fleet: None,
            part_of: None,
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

    /// Shares what a step before it has found of the store.
    pub(crate) fn examined_by(mut self, examiner: Examiner) -> Self {
        self.examiner = examiner;
        self
    }

    /// Gives the work to a fleet.
    pub(crate) fn worked_by(mut self, fleet: Option<Fleet>) -> Self {
        self.fleet = fleet;
        self
    }

    /// Makes it a part of something that is watched as a whole, within this span.
    pub(crate) fn part_of(mut self, watchers: Watchers, span: Span) -> Self {
        self.part_of = Some((watchers, span));
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
        let is_whole = self.part_of.is_none();
        let (watchers, span) = self
            .part_of
            .clone()
            .unwrap_or_else(|| (Watchers::none(), run_span(&self.root)));
        let events = watchers.downgrade();
        let run_id = span.clone();
        let work = move || async move {
            let admission = match steps::admit(self, watchers.clone()).await {
                Ok(admission) => admission,
                // Whoever started the run may have gone away, here and below.
                Err(error) => return drop(admitted.send(Err(error))),
            };
            run_id.record("run_id", &admission.run.run_id);
            let _ = admitted.send(Ok(Stop(Arc::downgrade(&admission.run))));
            if let Some(report) = steps::take(admission).await {
                if is_whole {
                    let outcome = report.outcome;
                    watchers.announce(Event::Finished { outcome });
                }
                let _ = ended.send(report);
            }
        };
        on_own_threads("zagg-pass", span, work).map_err(Error::Thread)?;
        let stop = admission.await.map_err(|_| Error::PassVanished)??;
        Ok(UpgradeHandle {
            events,
            stop,
            report,
        })
    }
}

/// A run under way. Dropping it, or what waits for its end, stops the run as
/// [`UpgradeHandle::abort`] does.
#[derive(Debug)]
pub struct UpgradeHandle {
    /// Weak, so that a stream of events ends with the pass and not with the handle.
    events: WeakWatchers,
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
        self.events.stream()
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
    pub async fn join(mut self) -> Result<Report, Error> {
        (&mut self.report).await.map_err(|_| Error::PassVanished)
    }
}

impl Drop for UpgradeHandle {
    fn drop(&mut self) {
        // Once there is a report, or nobody who could make one, there is nothing to stop.
        if !self.report.is_terminated() {
            self.abort("the one who started it, who has gone away");
        }
    }
}

/// The span of one run, whose id is known once it is admitted.
pub(crate) fn run_span(root: &Root) -> Span {
    tracing::info_span!("run", root = root.url(), run_id = tracing::field::Empty)
}

/// Does `work` within `span` on a thread called `name`, which is an actix system on a
/// multi-thread runtime of its own.
///
/// # Errors
/// When the threads cannot be had.
pub(crate) fn on_own_threads<Work>(
    name: &str,
    span: Span,
    work: impl FnOnce() -> Work + Send + 'static,
) -> io::Result<()>
where
    Work: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("zagg-io")
        .enable_all()
        .build()?;
    let body = move || {
        let system = actix::System::with_tokio_rt(|| runtime);
        system.block_on(async { work().await }.instrument(span));
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map(drop)
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
        steps::admit(upgrade, Watchers::none()).await.err().unwrap()
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
