//! The run directory: where a coordinator and its workers leave word for each other.

use futures::TryStreamExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part_report::PartReport;
use super::plan::{Phase, Plan};
use crate::error::FaultKind;
use crate::kernels::words::WordError;
use crate::store::examine::SCRATCH;
use crate::store::lease::{self, Held, LEASE_KEY, LeaseError};
use crate::store::root::Entry;
use crate::store::{Root, StoreError};
use crate::time::SystemClock;
use crate::work::{ShardWork, WorkSet};

/// Key of the plan of an array.
const PLAN_KEY: &str = "plan.json";

/// Where an array has the shards of its parts.
const PARTS: &str = "parts";

/// Where it has what workers report.
const REPORTS: &str = "reports";

/// Where it has the leases of its parts.
const LEASES: &str = "leases";

/// The least digits of a part in a key.
const PART_DIGITS: usize = 5;

/// Why what was left in a run directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// A request failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The lease of the store is not held any more.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// A document is not what this program writes.
    #[error(
        "`{root}/{key}` is no document of a fleet: {reason}; give the address that `upgrade --fleet` printed or that is in its script"
    )]
    Document {
        /// The directory.
        root: String,
        /// The document below it.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something else is where a run is to leave word.
    #[error(
        "`{root}` is no run directory: it holds `{found}`; give --run-dir a place of its own, such as `{root}/fleet`"
    )]
    NotEmpty {
        /// The directory.
        root: String,
        /// Something in it that no run leaves.
        found: String,
    },
    /// A run of another store leaves word there.
    #[error(
        "`{root}` is the run directory of an upgrade of `{store}`; give --run-dir another place, or delete it if that upgrade is over"
    )]
    OtherStore {
        /// The directory.
        root: String,
        /// The other store.
        store: String,
    },
}

impl DirectoryError {
    /// What kind of fault this is.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Lease(error) => error.kind(),
            Self::Document { .. } | Self::NotEmpty { .. } | Self::OtherStore { .. } => {
                FaultKind::Declaration
            }
        }
    }
}

/// The shards of a part, as they are written.
#[derive(Debug, Serialize, Deserialize)]
struct PartDocument {
    shards: Vec<ShardWork>,
}

/// Where a run leaves word when it is not told where: below the store, beside what else is
/// scratch there.
pub(super) fn below_store(root: &Root, run_id: &str) -> Root {
    root.unjournaled()
        .below(&format!("{SCRATCH}/fleet-{run_id}"))
}

/// The directory of one array.
#[derive(Debug, Clone)]
pub(super) struct ArrayDir(Root);

impl ArrayDir {
    pub(super) fn new(root: Root) -> Self {
        Self(root)
    }

    pub(super) fn root(&self) -> &Root {
        &self.0
    }

    pub(super) async fn plan(&self) -> Result<Plan, DirectoryError> {
        self.read(PLAN_KEY).await
    }

    /// Writes the plan, which comes last: a plan that can be read has all its parts.
    pub(super) async fn write_plan(&self, held: &Held, plan: &Plan) -> Result<(), DirectoryError> {
        self.write(held, PLAN_KEY, plan).await
    }

    pub(super) async fn part(&self, part: u32) -> Result<WorkSet, DirectoryError> {
        let key = part_key(PARTS, part);
        let document: PartDocument = self.read(&key).await?;
        let work = WorkSet::of(document.shards);
        work.map_err(|error: WordError| self.unusable(&key, &error))
    }

    pub(super) async fn write_part(
        &self,
        held: &Held,
        part: u32,
        shards: Vec<ShardWork>,
    ) -> Result<(), DirectoryError> {
        let key = part_key(PARTS, part);
        self.write(held, &key, &PartDocument { shards }).await
    }

    /// The root of the lease of a part.
    pub(super) fn lease(&self, part: u32) -> Root {
        self.0.below(&format!("{LEASES}/{part:0PART_DIGITS$}"))
    }

    /// Gives a part back whose worker is gone.
    ///
    /// # Errors
    /// Failed requests.
    pub(super) async fn free(&self, part: u32) -> Result<(), LeaseError> {
        let root = self.lease(part);
        if let Some(worker) = lease::show(&root).await?.holder() {
            lease::release(&root, &worker, &SystemClock::new()).await?;
        }
        Ok(())
    }

    /// The last report of a part, if it is one of this run: a worker of an earlier one, and of
    /// an earlier version, may still be there to write its own.
    pub(super) async fn report(
        &self,
        part: u32,
        run_id: &str,
    ) -> Result<Option<PartReport>, DirectoryError> {
        let key = report_key(part);
        let Some(bytes) = self.0.get_if_present(&key).await? else {
            return Ok(None);
        };
        let report: Value =
            serde_json::from_slice(&bytes).map_err(|error| self.unusable(&key, &error))?;
        if report["run_id"] != run_id {
            return Ok(None);
        }
        let report = serde_json::from_value(report);
        report
            .map(Some)
            .map_err(|error| self.unusable(&key, &error))
    }

    /// Whether a part has an outcome of every piece of its work.
    pub(super) async fn is_done(&self, part: u32, run_id: &str) -> Result<bool, DirectoryError> {
        let report = self.report(part, run_id).await?;
        Ok(report.is_some_and(|report| report.ended.is_some_and(|ended| ended.is_final())))
    }

    /// The reports as they stand, by part: what tells one writing from the next.
    pub(super) async fn reports(&self) -> Result<Vec<(u32, Entry)>, DirectoryError> {
        let listed = self.0.list_shallow(REPORTS).await?;
        let part = |entry: &Entry| entry.name().strip_suffix(".json")?.parse().ok();
        let reports = listed.objects.into_iter();
        Ok(reports
            .filter_map(|entry| Some((part(&entry)?, entry)))
            .collect())
    }

    /// The leases of the parts as they stand.
    pub(super) async fn leases(&self) -> Result<Vec<(u32, Entry)>, DirectoryError> {
        let part = |entry: &Entry| {
            let names: Vec<&str> = entry.key.split('/').collect();
            match names.as_slice() {
                [LEASES, part, LEASE_KEY] => part.parse().ok(),
                _ => None,
            }
        };
        let listed = self
            .0
            .list(LEASES)
            .map_ok(|entry| Some((part(&entry)?, entry)));
        let leases: Vec<Option<(u32, Entry)>> = listed.try_collect().await?;
        Ok(leases.into_iter().flatten().collect())
    }

    async fn read<T: DeserializeOwned>(&self, key: &str) -> Result<T, DirectoryError> {
        let bytes = self.0.get(key).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.unusable(key, &error))
    }

    /// Only whoever holds the lease of the store plans: a run directory may be used again, and
    /// is then the next run's.
    async fn write(
        &self,
        held: &Held,
        key: &str,
        document: &impl Serialize,
    ) -> Result<(), DirectoryError> {
        let bytes = serde_json::to_vec(document).map_err(|error| self.unusable(key, &error))?;
        Ok(held.put(&self.0, key, bytes).await?)
    }

    fn unusable(&self, key: &str, reason: &dyn std::fmt::Display) -> DirectoryError {
        DirectoryError::Document {
            root: self.0.url().to_owned(),
            key: key.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// Key of the report of a part.
pub(super) fn report_key(part: u32) -> String {
    part_key(REPORTS, part)
}

fn part_key(of: &str, part: u32) -> String {
    format!("{of}/{part:0PART_DIGITS$}.json")
}

/// Makes a run directory ready that may have served before: removes what a run of `store`
/// left that did not come to its end. Whoever calls it holds the lease of that store.
///
/// # Errors
/// Failed requests, and a directory that serves something else.
pub(super) async fn make_ready(run: &Root, store: &str) -> Result<(), DirectoryError> {
    let keys = run.list_keys("").await?;
    if let Some(foreign) = keys.iter().find(|key| !is_of_a_run(key)) {
        return Err(DirectoryError::NotEmpty {
            root: run.url().to_owned(),
            found: foreign.clone(),
        });
    }
    for plan in keys.iter().filter(|key| key.ends_with(PLAN_KEY)) {
        // Also of another version, of whose plan only this much need be known.
        let plan: Value = serde_json::from_slice(&run.get(plan).await?).unwrap_or_default();
        if let Some(other) = plan["root"].as_str().filter(|other| *other != store) {
            return Err(DirectoryError::OtherStore {
                root: run.url().to_owned(),
                store: other.to_owned(),
            });
        }
    }
    Ok(run.delete_all(keys).await?)
}

/// Deletes from a run directory what a run left there.
///
/// # Errors
/// Failed requests.
pub(super) async fn remove(run: &Root) -> Result<(), StoreError> {
    let mut keys = run.list_keys("").await?;
    keys.retain(|key| is_of_a_run(key));
    run.delete_all(keys).await
}

/// Whether this is a key that runs leave in their directory, to the last part of it: what is
/// deleted must be nobody else's.
fn is_of_a_run(key: &str) -> bool {
    let names: Vec<&str> = key.split('/').collect();
    match names.as_slice() {
        [OPEN_KEY] => true,
        [array, PLAN_KEY] => Phase::is_name(array),
        [array, PARTS | REPORTS, part] => {
            Phase::is_name(array) && part.strip_suffix(".json").is_some_and(is_part)
        }
        [array, LEASES, part, LEASE_KEY] => Phase::is_name(array) && is_part(part),
        _ => false,
    }
}

fn is_part(name: &str) -> bool {
    name.len() >= PART_DIGITS && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Key of the name of the array that is open.
const OPEN_KEY: &str = "open.json";

/// Which array of a run is worked on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenDocument {
    array: String,
    /// Whether workers are to finish what they are writing, and to end.
    is_stopping: bool,
}

/// The array of a run that is worked on.
#[derive(Debug)]
pub(super) struct OpenArray {
    pub array: ArrayDir,
    /// Whether workers are to finish what they are writing, and to end.
    pub is_stopping: bool,
}

/// Says which array is worked on from now on, or is to be left, for workers that stay for all
/// of them.
///
/// # Errors
/// Failed requests, and a lease that is not held any more.
pub(super) async fn open_phase(
    run: &Root,
    held: &Held,
    array: &str,
    is_stopping: bool,
) -> Result<(), DirectoryError> {
    let document = OpenDocument {
        array: array.to_owned(),
        is_stopping,
    };
    let dir = ArrayDir::new(run.clone());
    dir.write(held, OPEN_KEY, &document).await
}

/// The array of a run that is worked on; `None` before the first and after the last one.
///
/// # Errors
/// Failed requests, and a document that is none.
pub(super) async fn open_array(run: &Root) -> Result<Option<OpenArray>, DirectoryError> {
    let dir = ArrayDir::new(run.clone());
    match dir.read::<OpenDocument>(OPEN_KEY).await {
        Ok(open) => Ok(Some(OpenArray {
            array: ArrayDir::new(run.below(&open.array)),
            is_stopping: open.is_stopping,
        })),
        Err(error) if error.kind() == FaultKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn only_what_runs_leave_is_theirs() {
        for theirs in [
            "open.json",
            "columns/plan.json",
            "columns/parts/00000.json",
            "ladder-5-4/reports/00017.json",
            "ladder-0/leases/100000/sweep.lease.json",
        ] {
            assert!(is_of_a_run(theirs), "{theirs}");
        }
        for foreign in [
            "columns",
            "columns/data.json",
            "columns/parts/7.json",
            "columns/parts/0000x.json",
            "columns/parts/00000.json/x",
            "other/plan.json",
            "morton_hive.json",
        ] {
            assert!(!is_of_a_run(foreign), "{foreign}");
        }
    }

    async fn holding(key: &str, text: &str) -> Root {
        let run = Root::new(Arc::new(InMemory::new()), "memory://run");
        run.put(key, text.to_owned()).await.unwrap();
        run
    }

    #[tokio::test]
    async fn what_a_run_of_the_same_store_left_is_removed() {
        let run = holding("columns/plan.json", r#"{"root": "s3://b/p"}"#).await;
        run.put("columns/reports/00000.json", "{").await.unwrap();
        make_ready(&run, "s3://b/p").await.unwrap();
        assert_eq!(run.list_keys("").await.unwrap(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn the_directory_of_another_store_or_of_something_else_is_refused_and_kept() {
        for (key, text) in [
            ("columns/plan.json", r#"{"root": "s3://b/other"}"#),
            ("columns/table.parquet", ""),
        ] {
            let run = holding(key, text).await;
            let refused = make_ready(&run, "s3://b/p").await.unwrap_err();
            let is_refused = matches!(
                refused,
                DirectoryError::NotEmpty { .. } | DirectoryError::OtherStore { .. }
            );
            assert!(is_refused, "{refused:?}");
            assert_eq!(run.list_keys("").await.unwrap(), [key]);
        }
    }
}
