//! Retires what a `/1` pyramid left behind (`format.md` section 10): lists the overviews
//! that the `/2` ladder neither owns nor overwrites, and deletes exactly those.
//!
//! An artifact goes only by what its own root document says, read once to list it and
//! once more under the lease before the first of its objects is touched.

use std::sync::Arc;

use crate::abort::AbortSignal;
use crate::lease::{BeatThread, Pace};
use crate::messages::Step;
use crate::pyramid::Declaration;
use crate::report::Ending;
use crate::run::new_run_id;
use crate::settings::Settings;
use crate::store::examine::{Examiner, Writer};
use crate::store::lease::{self, Acquired, Claim};
use crate::store::manifest::Manifest;
use crate::store::records::Records;
use crate::store::{Held, Root};
use crate::time::{Clock, SystemClock};
use crate::watch::{LEASE, Watched, Watchers};
use crate::work::WorkSet;

mod classify;
mod delete;
mod error;
mod scan;
mod summary;

pub use classify::Kept;
pub use error::RetireError;
pub use summary::{Extent, KeptArtifact, Retired, RetiredArtifact, Total};

use delete::{Deletion, Halt};
use scan::{OwnedNames, Scan};

/// Proof that a verify found nothing wrong with a store. Only a verify can make one, and
/// it is good for that store alone.
#[derive(Debug, Clone)]
pub struct CleanVerify {
    root: String,
}

impl CleanVerify {
    /// The proof for the store at `root`.
    pub(crate) fn of(root: &str) -> Self {
        Self {
            root: root.to_owned(),
        }
    }
}

/// A retirement not yet begun; it only lists unless [`Retire::delete`] says otherwise.
#[derive(Debug)]
pub struct Retire {
    root: Root,
    settings: Settings,
    delete: bool,
    verified: Option<CleanVerify>,
    stop: AbortSignal,
    clock: Arc<dyn Clock>,
    examiner: Examiner,
    watchers: Watchers,
}

/// Stops a retirement between two batches of deletions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StopRetire(AbortSignal);

impl StopRetire {
    /// Deletes no more; what is under way is finished, and the lease given back.
    pub fn stop(&self) {
        self.0.raise();
    }
}

impl Retire {
    /// Prepares to list what is to go from the store at `root`.
    pub fn new(root: Root) -> Self {
        Self {
            root,
            settings: Settings::default(),
            delete: false,
            verified: None,
            stop: AbortSignal::new(),
            clock: Arc::new(SystemClock::new()),
            examiner: Examiner::default(),
            watchers: Watchers::none(),
        }
    }

    /// Replaces the default settings, of which it has use for the retries and the ttl of
    /// the lease.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Whether to delete what is listed.
    pub fn delete(mut self, delete: bool) -> Self {
        self.delete = delete;
        self
    }

    /// Shows that the store was verified, without which nothing is deleted.
    pub fn verified(mut self, verified: CleanVerify) -> Self {
        self.verified = Some(verified);
        self
    }

    /// Shares what a step before it has found of the store.
    pub(crate) fn examined_by(mut self, examiner: Examiner) -> Self {
        self.examiner = examiner;
        self
    }

    /// Makes it a part of something that is watched as a whole.
    pub(crate) fn watched_by(mut self, watchers: Watchers) -> Self {
        self.watchers = watchers;
        self
    }

    /// A way to stop it while somebody else waits for its end.
    pub fn stop(&self) -> StopRetire {
        StopRetire(self.stop.clone())
    }

    /// Lists what is to go, and deletes it when that was asked for.
    ///
    /// # Errors
    /// Every refusal, and failed requests before the first deletion: nothing has been
    /// deleted then. Once it has begun to delete it always ends in a [`Retired`].
    pub async fn run(mut self) -> Result<Retired, RetireError> {
        if self.delete {
            self.root.ensure_writable()?;
        }
        self.root = self.watchers.at_work(&self.root, &self.settings);
        let manifest = Manifest::read(&self.root).await?;
        let declaration = Declaration::parse(
            manifest.pyramid(),
            manifest.shard_order(),
            manifest.cell_order(),
        )?;
        if self.delete {
            lease::refuse_if_live(&self.root, &*self.clock).await?;
        }
        let records = Records::read(&self.root, &manifest).await?;
        for warning in &records.warnings {
            tracing::warn!("{warning}");
        }
        let refusal = self.refuse_unread(&records);
        if self.delete {
            refusal?;
            return self.delete_from(&manifest, &declaration, &records).await;
        }
        let scan = self.scan(&manifest, &declaration, &records).await?;
        let refusals = [refusal.err(), self.refuse_unswept(&scan).err()];
        Ok(Retired::listed(
            &self.root,
            scan,
            records.warnings,
            refusals.into_iter().flatten().collect(),
        ))
    }

    async fn scan(
        &self,
        manifest: &Manifest,
        declaration: &Declaration,
        records: &Records,
    ) -> Result<Scan, RetireError> {
        let work = WorkSet::new(records)?;
        let owned = OwnedNames::new(manifest, declaration);
        scan::scan(&self.root, &work, &owned).await
    }

    /// A record that cannot be read may name the very windows whose overviews the ladder
    /// owns.
    fn refuse_unread(&self, records: &Records) -> Result<(), RetireError> {
        if records.unreadable.is_empty() {
            return Ok(());
        }
        Err(RetireError::UnreadableRecords {
            root: self.root.url().to_owned(),
            names: records.unreadable.clone(),
        })
    }

    /// Where the ladder writes and `/1` still stands, the ladder has not been.
    fn refuse_unswept(&self, scan: &Scan) -> Result<(), RetireError> {
        match &scan.unswept {
            None => Ok(()),
            Some(first) => Err(RetireError::NotSwept {
                root: self.root.url().to_owned(),
                first: first.clone(),
                count: scan.kept.get(&Kept::Unswept).copied().unwrap_or(0),
            }),
        }
    }

    fn refuse_unverified(&self) -> Result<(), RetireError> {
        let root = self.root.url();
        match &self.verified {
            Some(verified) if verified.root == root => Ok(()),
            _ => Err(RetireError::Unverified {
                root: root.to_owned(),
            }),
        }
    }

    async fn delete_from(
        self,
        manifest: &Manifest,
        declaration: &Declaration,
        records: &Records,
    ) -> Result<Retired, RetireError> {
        let scan = self.scan(manifest, declaration, records).await?;
        self.refuse_unswept(&scan)?;
        self.refuse_unverified()?;
        let mut retired = Retired::begun(&self.root, scan, records.warnings.clone());
        if retired.artifacts.is_empty() {
            return Ok(retired.ended(Ending::NothingToDo, None));
        }
        let (held, beats) = self.acquire(&mut retired.warnings).await?;
        let n_artifacts = retired.artifacts.len() as u64;
        let watchers = self.watchers.clone();
        let watched = Watched::new(Step::Retire, watchers, &self.root, n_artifacts);
        let deletion = self.delete_all(&mut retired, held.clone(), &watched);
        let halt = watched.during(deletion).await;
        let uncounted = delete::count_what_is_left(&self.root, &mut retired).await;
        if let Err(error) = beats.release().await {
            let warning = held.stands(&format!("it could not be given back ({error})"));
            tracing::warn!("{warning}");
            retired.warnings.push(warning);
        }
        Ok(match (halt, uncounted) {
            (Some(Halt::Failed(error)), _) => retired.ended(Ending::Aborted, Some(error)),
            (_, Err(error)) => retired.ended(
                Ending::Aborted,
                Some(format!("what is left cannot be counted: {error}")),
            ),
            (Some(Halt::Stopped), Ok(())) => retired.ended(Ending::Interrupted, None),
            (None, Ok(())) => retired.counted(),
        })
    }

    /// Has the store examined, and takes the lease; what there is to say of the store's clock
    /// joins the warnings.
    async fn acquire(&self, warnings: &mut Vec<String>) -> Result<(Held, BeatThread), RetireError> {
        let run_id = new_run_id(&*self.clock);
        let lease_ttl = self.settings.lease_ttl;
        let writer = Writer {
            run_id: &run_id,
            lease_ttl,
        };
        let examiner = &self.examiner;
        let found = examiner.before_writing(&self.root, &*self.clock, writer);
        let found = found.await?;
        warnings.extend(found.clock_warning());
        let claim = Claim {
            ttl_s: lease_ttl.as_secs(),
            ..Claim::new(run_id.clone()).of_examined(found)
        };
        let Acquired { held, claimed_from } =
            lease::acquire(&self.root, &claim, self.clock.clone()).await?;
        let pace = Pace::for_ttl(held.ttl());
        let next_beat_s = pace.every.as_secs();
        tracing::info!(target: LEASE, run_id = held.run_id(), ?claimed_from, next_beat_s, "lease held");
        // Whoever is about to delete asks the token itself, so no event is waited for.
        let beats = BeatThread::spawn(&self.root, held.clone(), pace, |_| {})?;
        Ok((held, beats))
    }

    /// Deletes one artifact after the other; says what stopped it short of the last.
    async fn delete_all(
        &self,
        retired: &mut Retired,
        held: Held,
        watched: &Watched,
    ) -> Option<Halt> {
        let deletion = Deletion {
            root: &self.root,
            held,
            stop: &self.stop,
        };
        let mut halt = None;
        let mut listed = std::mem::take(&mut retired.artifacts).into_iter();
        for mut artifact in listed.by_ref() {
            let _piece = watched.piece();
            match deletion.delete(&mut artifact).await {
                Ok(None) => retired.artifacts.push(artifact),
                Ok(Some(kept)) => retired.keep(kept),
                Err(reason) => {
                    retired.artifacts.push(artifact);
                    halt = Some(reason);
                    break;
                }
            }
        }
        retired.artifacts.extend(listed);
        halt
    }
}

#[cfg(test)]
mod tests;
