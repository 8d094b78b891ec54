//! The public face: open a store, start, watch, join.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

use actix::Addr;
use futures::Stream;
use tokio::sync::{broadcast, oneshot};

use crate::abort::AbortSignal;
use crate::actors::{self, Pass, Supervisor};
use crate::budget::MemoryBudget;
use crate::error::{AbortReason, Error};
use crate::messages::{AbortPass, Event};
use crate::pyramid::Declaration;
use crate::report::{Bytes, Ending, Report, Tally};
use crate::settings::Settings;
use crate::store::manifest::Manifest;
use crate::store::records::Records;
use crate::store::template::ColumnTemplate;
use crate::store::{Root, lease, status};
use crate::time::{Clock, SystemClock};
use crate::work::WorkSet;

/// Events kept for a watcher that is behind.
const EVENTS_KEPT: usize = 1024;

/// An upgrade of one store, not yet begun.
#[derive(Debug)]
pub struct Upgrade {
    root: Root,
    settings: Settings,
    clock: Arc<dyn Clock>,
}

impl Upgrade {
    /// Prepares an upgrade of the store at `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            settings: Settings::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }

    /// Replaces the default settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Admits and starts the pass, on a thread and a runtime of its own; returns once
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
    stop: Option<Addr<Supervisor>>,
    report: oneshot::Receiver<Report>,
}

/// Stops a pass from elsewhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stop(Option<Addr<Supervisor>>);

impl Stop {
    /// Stops the pass: leaves that are being written are finished, the lease is given
    /// back, and the report says by whom it was stopped.
    pub fn abort(&self, by: &str) {
        if let Some(supervisor) = &self.0 {
            supervisor.do_send(AbortPass(AbortReason::Operator(by.to_owned())));
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
        Stop(self.stop.clone())
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

type Admission = Result<Option<Addr<Supervisor>>, Error>;

fn run_system(
    upgrade: Upgrade,
    events: broadcast::Sender<Event>,
    admitted: oneshot::Sender<Admission>,
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
    system.block_on(run(upgrade, events, admitted, ended));
}

async fn run(
    upgrade: Upgrade,
    events: broadcast::Sender<Event>,
    admitted: oneshot::Sender<Admission>,
    ended: oneshot::Sender<Report>,
) {
    let started = Instant::now();
    let admission = match admit(upgrade, events).await {
        Ok(admission) => admission,
        // Whoever started the pass may have gone away, here and below.
        Err(error) => return drop(admitted.send(Err(error))),
    };
    let Admitted {
        pass,
        work,
        skipped,
        warnings,
    } = admission;
    let has_work = work.num_leaves() > 0;
    let mut tally = if has_work {
        let stages = actors::start(pass.clone(), work);
        let _ = admitted.send(Ok(Some(stages.supervisor)));
        match stages.tally.await {
            Ok(tally) => tally,
            Err(_) => return,
        }
    } else {
        let _ = admitted.send(Ok(None));
        Tally::default()
    };
    tally.counts.skipped = skipped;
    tally.warnings.splice(0..0, warnings);
    let outcome = if has_work {
        tally.ending()
    } else {
        Ending::NothingToDo
    };
    let _ = ended.send(report(&pass, tally, outcome, started));
}

struct Admitted {
    pass: Arc<Pass>,
    work: WorkSet,
    /// Record rows that are not shards of this store.
    skipped: u64,
    warnings: Vec<String>,
}

/// Everything that can refuse the pass, before anything is written.
async fn admit(upgrade: Upgrade, events: broadcast::Sender<Event>) -> Result<Admitted, Error> {
    let Upgrade {
        root,
        settings,
        clock,
    } = upgrade;
    if !settings.dry_run {
        root.ensure_writable()?;
    }
    let root = root.with_retry(settings.retry.clone());
    let manifest = Manifest::read(&root).await?;
    let declaration = Declaration::parse(
        manifest.pyramid(),
        manifest.shard_order(),
        manifest.cell_order(),
    )?;
    let template = ColumnTemplate::new(declaration, settings.fold_law, manifest.is_windowed())?;
    let records = Records::read(&root, &manifest).await?;
    let mut work = WorkSet::new(&records)?;
    if !settings.shards.is_empty() {
        work.keep_shards(&settings.shards)?;
    }
    if !settings.dry_run {
        lease::refuse_if_live(&root, &*clock).await?;
    }
    let in_flight = status::in_flight(&root, &*clock).await;
    let mut warnings = records.warnings.clone();
    warnings.extend(in_flight.iter().map(|run_id| {
        format!("run `{run_id}` reported lately and may still be writing to this store")
    }));
    for warning in &records.warnings {
        tracing::warn!("{warning}");
    }
    Ok(Admitted {
        pass: Arc::new(Pass {
            abort: AbortSignal::new(),
            enough: AbortSignal::new(),
            budget: MemoryBudget::new(settings.memory_budget),
            num_leaves: work.num_leaves(),
            run_id: new_run_id(&*clock),
            template: Arc::new(template),
            root,
            settings,
            clock,
            events,
        }),
        work,
        skipped: records.skipped.len() as u64,
        warnings,
    })
}

fn report(pass: &Pass, tally: Tally, outcome: Ending, started: Instant) -> Report {
    Report {
        outcome,
        exit_code: outcome.exit_code(),
        run_id: pass.run_id.clone(),
        counts: tally.counts,
        verdicts: tally.reasons,
        failed_leaves: tally.failed_leaves,
        requests: pass.root.tally(),
        bytes: Bytes {
            read: pass.root.tally().bytes_read,
            written: tally.bytes_of_columns,
        },
        peak_in_flight_bytes: pass.budget.peak(),
        seconds: started.elapsed().as_secs_f64(),
        stage_seconds: tally.stages,
        warnings: tally.warnings,
        error: tally.abort.map(|reason| reason.to_string()),
        ..Report::blank(pass.root.url(), &pass.settings)
    }
}

/// An id no other process has: when, and a number the system drew at random.
pub(crate) fn new_run_id(clock: &dyn Clock) -> String {
    let drawn = RandomState::new().build_hasher().finish();
    format!("zagg-stream-{}-{drawn:016x}", clock.now().unix_seconds())
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
        admit(upgrade, events).await.err().unwrap()
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
