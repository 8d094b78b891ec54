//! What stands in the way of an upgrade, each with what to do about it.

use serde::Serialize;

use super::planned::PlannedColumns;
use crate::store::lease::{self, Standing};
use crate::store::records::Records;
use crate::store::{Root, status};
use crate::time::Clock;

/// What to do when an error does not say it itself.
const LOOK: &str =
    "see that the address, the network and the rights are as they should be, then plan again";

/// Whether an upgrade could begin all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bearing {
    /// It would be refused.
    Blocking,
    /// It would begin, and somebody should know.
    Warning,
}

/// Something that stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Obstacle {
    /// Whether it blocks.
    pub severity: Bearing,
    /// What it is about: `root`, `store`, `manifest`, `declaration`, `lease`, `records`,
    /// `runs`, `leaves` or `ladder`.
    pub about: &'static str,
    /// What is in the way.
    pub problem: String,
    /// What to do about it.
    pub cure: String,
}

impl Obstacle {
    /// An obstacle an upgrade would be refused for. Errors say `problem; cure`.
    pub(super) fn blocking(about: &'static str, error: &impl ToString) -> Self {
        let text = error.to_string();
        let (problem, cure) = text.split_once("; ").unwrap_or((&text, LOOK));
        Self {
            severity: Bearing::Blocking,
            about,
            problem: problem.to_owned(),
            cure: cure.to_owned(),
        }
    }

    /// An obstacle an upgrade would begin in spite of.
    pub(super) fn warning(about: &'static str, problem: String, cure: &str) -> Self {
        Self {
            severity: Bearing::Warning,
            about,
            problem,
            cure: cure.to_owned(),
        }
    }
}

/// What the lease says of the present.
pub(super) async fn of_lease(root: &Root, clock: &dyn Clock) -> Option<Obstacle> {
    if let Err(error) = lease::refuse_if_live(root, clock).await {
        return Some(Obstacle::blocking("lease", &error));
    }
    match lease::show(root).await {
        Ok(standing) => claimable(&standing, root),
        Err(error) => Some(Obstacle::blocking("lease", &error)),
    }
}

/// A lease that locks nothing and will be taken over.
fn claimable(standing: &Standing, root: &Root) -> Option<Obstacle> {
    let problem = match standing {
        Standing::Free | Standing::Foreign(_) => return None,
        Standing::Debris => "what stands in the place of the lease is none".to_owned(),
        Standing::Lease(record) => format!(
            "the lease of run `{}` has expired (last heartbeat {}, ttl {} s)",
            record.run_id(),
            record.heartbeat_at(),
            record.ttl_s(),
        ),
    };
    let cure = format!(
        "nothing: the upgrade claims it by itself; if that run may still be alive, look first: zagg-stream lease show {root}"
    );
    Some(Obstacle::warning("lease", problem, &cure))
}

/// What discovery has to tell.
pub(super) fn of_records(records: &Records) -> impl Iterator<Item = Obstacle> {
    records.warnings.iter().map(|warning| {
        let cure =
            "leaves that no other record names are passed over; restore the record and plan again";
        Obstacle::warning("records", warning.clone(), cure)
    })
}

/// Runs that may be writing leaves right now.
pub(super) async fn of_runs(root: &Root, clock: &dyn Clock) -> Vec<Obstacle> {
    let runs = status::in_flight(root, clock).await;
    let obstacle = |run_id: String| {
        let problem =
            format!("run `{run_id}` reported lately and may still be writing to this store");
        let cure = "wait for its end, or upgrade again after it for the leaves it still writes";
        Obstacle::warning("runs", problem, cure)
    };
    runs.into_iter().map(obstacle).collect()
}

/// What the leaves came to, where it is not what an upgrade is for.
pub(super) fn of_leaves(columns: &PlannedColumns) -> Option<Obstacle> {
    let counts = &columns.counts;
    if let Some(first) = columns.failed_leaves.first() {
        let problem = format!(
            "{} leaves cannot be judged and would fail; the first: {}",
            counts.failed, first.error
        );
        let cure = "mend them as the runbook says under \"Failed leaves\"; the others would be done, and the ladder would wait";
        return Some(Obstacle::warning("leaves", problem, cure));
    }
    if counts.planned + counts.current == 0 {
        let problem = "no run record names a committed leaf, so there is nothing to do".to_owned();
        let cure = "check that the root is the store's and that it holds stats_*.parquet";
        return Some(Obstacle::warning("leaves", problem, cure));
    }
    (counts.empty > 0).then(|| {
        let problem = format!(
            "{} leaves the run records name are not committed",
            counts.empty
        );
        let cure = "nothing, if their workers are still at it or gave up; they are passed over";
        Obstacle::warning("leaves", problem, cure)
    })
}
