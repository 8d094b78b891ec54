//! A worker that stays for a whole run: for schedulers where one submission has to do for
//! every array, and for workers started by hand.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::assignment::{Assignment, WorkerError};
use super::directory::{ArrayDir, DirectoryError, OpenArray, open_array};
use super::plan::Plan;
use super::taken::Taken;
use crate::error::{Error, FaultKind};
use crate::report::{Ending, Report};
use crate::run::Stopper;
use crate::settings::Settings;
use crate::store::Root;
use crate::store::lease::Sight;
use crate::time::Moment;

/// How often one without work looks for some.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a worker without a part waits to see a beat, of which there is one every second.
const BEAT_WITHIN: Duration = Duration::from_secs(5);

/// How often one with work looks whether it is to end.
pub(super) const HEAR_EVERY: Duration = Duration::from_secs(5);

/// By whom a worker says it was stopped that was told to end.
pub(super) const COORDINATOR: &str = "its coordinator";

/// How long a worker waits for a run to begin.
const PATIENCE: Duration = Duration::from_secs(600);

/// Works on one part after the other of the run whose directory is `run`, until the run is
/// over. Worker `index` begins with the part of that number, so that workers do not crowd.
/// `open` opens the store.
///
/// # Errors
/// What keeps a part from being begun, and a run that does not begin.
pub async fn stay(
    run: Root,
    index: u32,
    open: impl Fn(&str) -> Result<Root, WorkerError>,
    stopper: Stopper,
) -> Result<Report, WorkerError> {
    let began = Instant::now();
    let mut stayed = Stayed::new(&run, stopper);
    let mut has_begun = false;
    loop {
        let open_now = match open_array(&run).await {
            // It is gone between one look and the next when the run ends.
            Err(error) if has_begun && error.kind() == FaultKind::NotFound => None,
            found => found?,
        };
        match open_now {
            Some(open) if open.is_stopping => return Ok(stayed.interrupted(COORDINATOR.to_owned())),
            Some(OpenArray { array, .. }) => {
                has_begun = true;
                let stopper = stayed.stopper.clone();
                let round = stayed.one_round(&array, index, &open);
                if unless_stopping(round, &run, &stopper).await? {
                    continue;
                }
                if !stayed.is_at_its_end()
                    && let Err(error) = stayed.ensure_run_goes_on(&array, &open).await
                    // The lease is given back when the run is over, and its directory before.
                    && open_array(&run).await?.is_some()
                {
                    return Err(error);
                }
            }
            None if has_begun => return Ok(stayed.all),
            None if began.elapsed() >= PATIENCE => {
                return Err(WorkerError::NotBegun {
                    run: run.url().to_owned(),
                    waited_s: PATIENCE.as_secs(),
                });
            }
            None => {}
        }
        if stayed.is_at_its_end() {
            return Ok(stayed.all);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            by = stayed.stopper.stopped() => return Ok(stayed.interrupted(by)),
        }
    }
}

/// Goes on with the work, which is stopped when the coordinator of `run` says so.
async fn unless_stopping<T>(work: impl Future<Output = T>, run: &Root, stopper: &Stopper) -> T {
    let told = async {
        loop {
            tokio::time::sleep(HEAR_EVERY).await;
            // What cannot be read now is read the next time.
            if let Ok(Some(open)) = open_array(run).await
                && open.is_stopping
            {
                return;
            }
        }
    };
    let mut work = pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = told => stopper.stop(COORDINATOR),
    }
    work.await
}

/// A worker that goes from part to part.
pub(super) struct Stayed {
    /// The account of all parts so far.
    pub all: Report,
    pub stopper: Stopper,
    /// What was seen of the lease of the run.
    sight: Option<Sight>,
    /// Since when it has had nothing to do.
    idle_since: Option<Moment>,
    /// The plan that was read last, and the address of its array.
    plan: Option<(String, Arc<Plan>)>,
    /// What was seen of the other workers of its run.
    others: Others,
}

/// What one worker knows of the parts of an array.
#[derive(Default)]
struct Others {
    /// Of which plan.
    run_id: String,
    array: String,
    taken: Taken,
    /// Parts that are done.
    done: HashSet<u32>,
}

impl Stayed {
    pub(super) fn new(run: &Root, stopper: Stopper) -> Self {
        Self {
            all: Report::blank(run.url(), &Settings::default()),
            stopper,
            sight: None,
            idle_since: None,
            plan: None,
            others: Others::default(),
        }
    }

    /// The plan of an array, which is written once.
    pub(super) async fn plan_of(&mut self, array: &ArrayDir) -> Result<Arc<Plan>, DirectoryError> {
        let address = array.root().url();
        if let Some((_, plan)) = self.plan.as_ref().filter(|(known, _)| known == address) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(array.plan().await?);
        self.plan = Some((address.to_owned(), plan.clone()));
        Ok(plan)
    }

    /// The next thing it works on.
    pub(super) fn assign(&mut self, assignment: Assignment) -> Assignment {
        let assignment = assignment.seeing(&mut self.sight);
        assignment.stopped_by(self.stopper.clone())
    }

    /// Makes ready for parts of a run, whose lease is at `root`, until it is asked to end; says
    /// by `looked` when it has seen that for the first time.
    pub(super) async fn join(&mut self, root: &Root, run_id: &str, looked: impl FnOnce()) {
        let sight = Sight::kept(&mut self.sight, run_id);
        let seen = tokio::time::timeout(BEAT_WITHIN, sight.await_beat(root, looked));
        tokio::select! {
            // One that has seen no beat waits for it at its first part.
            _ = seen => {}
            _ = self.stopper.stopped() => {}
        }
    }

    /// Tries every part of an array once that has no worker, its own first; whether it worked on
    /// any.
    async fn one_round(
        &mut self,
        array: &ArrayDir,
        index: u32,
        open: &impl Fn(&str) -> Result<Root, WorkerError>,
    ) -> Result<bool, WorkerError> {
        // Of another run, perhaps, in a directory that has served before.
        self.plan = None;
        match self.try_round(array, index, open).await {
            Err(WorkerError::Directory(error)) if is_over(&error) => Ok(false),
            worked => worked,
        }
    }

    async fn try_round(
        &mut self,
        array: &ArrayDir,
        index: u32,
        open: &impl Fn(&str) -> Result<Root, WorkerError>,
    ) -> Result<bool, WorkerError> {
        let plan = self.plan_of(array).await?;
        self.others.look(array, &plan).await?;
        let parts = plan.parts.len() as u32;
        let mut worked = false;
        for part in (0..parts).map(|offset| (index + offset) % parts) {
            if self.others.have(part, &plan) || self.others.have_done(array, part, &plan).await? {
                continue;
            }
            let assignment = Assignment::planned(array.clone(), plan.clone(), part)?;
            let assignment = self.assign(assignment);
            let root = open(assignment.store())?;
            let Some(report) = assignment.work_unless_taken(root).await? else {
                continue;
            };
            worked = true;
            self.add(report);
            if self.is_at_its_end() {
                return Ok(false);
            }
            self.others.look(array, &plan).await?;
        }
        Ok(worked)
    }

    /// What others do not finish is free again at some time, but only while the run goes on.
    async fn ensure_run_goes_on(
        &mut self,
        array: &ArrayDir,
        open: &impl Fn(&str) -> Result<Root, WorkerError>,
    ) -> Result<(), WorkerError> {
        let plan = match self.plan_of(array).await {
            Err(error) if is_over(&error) => return Ok(()),
            plan => plan?,
        };
        let sight = Sight::kept(&mut self.sight, &plan.run_id);
        let since = *self.idle_since.get_or_insert_with(|| sight.clock().now());
        let root = open(&plan.root)?;
        let goes_on = sight.ensure_run_goes_on(&root, plan.ttl_s, since).await;
        Ok(goes_on.map_err(Error::from)?)
    }

    /// Whether what came of a part concerns every other one.
    pub(super) fn is_at_its_end(&self) -> bool {
        matches!(self.all.outcome, Ending::Aborted | Ending::Interrupted)
    }

    /// The account of one that was asked to end between two parts.
    pub(super) fn interrupted(mut self, by: String) -> Report {
        self.all.error = Some(format!("stopped by {by}"));
        self.end(Ending::Interrupted);
        self.all
    }

    /// Adds the account of a part.
    pub(super) fn add(&mut self, part: Report) {
        self.idle_since = None;
        let all = &mut self.all;
        all.root = part.root;
        all.run_id = part.run_id;
        all.fold_law = part.fold_law;
        all.counts += part.counts;
        if let Some(ladder) = part.ladder {
            all.counts += ladder.counts;
        }
        all.requests += part.requests;
        all.bytes.read += part.bytes.read;
        all.bytes.written += part.bytes.written;
        all.seconds += part.seconds;
        all.failed_leaves.extend(part.failed_leaves);
        all.error = part.error.or(all.error.take());
        let outcome = worse(all.outcome, part.outcome);
        self.end(outcome);
    }

    fn end(&mut self, outcome: Ending) {
        self.all.outcome = outcome;
        self.all.exit_code = outcome.exit_code();
    }
}

impl Others {
    /// Looks at who is at work.
    async fn look(&mut self, array: &ArrayDir, plan: &Plan) -> Result<(), DirectoryError> {
        let address = array.root().url();
        if (self.run_id.as_str(), self.array.as_str()) != (plan.run_id.as_str(), address) {
            *self = Self {
                run_id: plan.run_id.clone(),
                array: address.to_owned(),
                ..Self::default()
            };
        }
        self.taken.look(array).await
    }

    /// Whether a part is known to be done, or has a worker.
    fn have(&self, part: u32, plan: &Plan) -> bool {
        self.done.contains(&part) || self.taken.may_have_worker(part, plan.part_ttl())
    }

    /// Asks whether a part is done that has no worker.
    async fn have_done(
        &mut self,
        array: &ArrayDir,
        part: u32,
        plan: &Plan,
    ) -> Result<bool, DirectoryError> {
        let is_done = array.is_done(part, &plan.run_id).await?;
        if is_done {
            self.done.insert(part);
        }
        Ok(is_done)
    }
}

/// Whether the run has removed its directory.
fn is_over(error: &DirectoryError) -> bool {
    error.kind() == FaultKind::NotFound
}

/// Of two endings the one that more is to be said about.
fn worse(one: Ending, other: Ending) -> Ending {
    let weight = |ending: Ending| match ending {
        Ending::NothingToDo => 0,
        Ending::Done => 1,
        Ending::Failed => 2,
        Ending::Refused => 3,
        Ending::Interrupted => 4,
        Ending::Aborted => 5,
    };
    if weight(other) > weight(one) {
        other
    } else {
        one
    }
}
