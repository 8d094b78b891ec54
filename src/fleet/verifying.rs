//! The part of a fleet in verifying what it wrote: the coordinator shares the store out by
//! the subtrees of the coarsest order of the ladder, across which no artifact stands, and holds
//! the manifest against what the workers counted.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::coordinator::{Coordinator, Subtrees};
use super::plan::Phase;
use super::worker::{Worked, Worker};
use crate::actors::Search;
use crate::error::{AbortReason, Error};
use crate::ladder::{Ladder, LadderWork};
use crate::messages::Step;
use crate::report::{Bytes, Ending, Report};
use crate::run::Run;
use crate::steps::{self, Admitted};
use crate::store::manifest::Manifest;
use crate::verify::{PartVerified, Verification, Verify, default_sample};
use crate::watch::FLEET;

impl Coordinator {
    /// Has the store verified; `None` when that did not come to its end, of which is told.
    pub(crate) async fn verify(
        &mut self,
        admitted: &Admitted,
        ladder: &Arc<Ladder>,
    ) -> Option<Verification> {
        let started = Instant::now();
        // A verification counts for itself.
        let before = (self.requests, self.bytes_read);
        let verified = self.try_verify(admitted, ladder).await;
        (self.requests, self.bytes_read) = before;
        let verified = match verified {
            Ok(verified) => verified,
            Err(error) => {
                tracing::warn!(%error, "the workers cannot verify, so this process does");
                None
            }
        };
        let mut verified = verified.filter(|_| !self.run.is_stopping())?;
        verified.seconds = started.elapsed().as_secs_f64();
        Some(verified)
    }

    async fn try_verify(
        &mut self,
        admitted: &Admitted,
        ladder: &Arc<Ladder>,
    ) -> Result<Option<Verification>, Error> {
        let work = LadderWork::new(&admitted.all, &self.run.root).await?;
        let sample = default_sample(&work)?;
        let levels = &ladder.template.plan.levels;
        let orders: Vec<u8> = levels.iter().map(|level| level.order).collect();
        let search = Search {
            ladder: ladder.clone(),
            work: work.into(),
            above: Vec::new(),
            orders: Vec::new(),
        };
        let subtrees = Subtrees::of(&search, &orders)?;
        let leaves = |range: &Range<usize>| -> u64 {
            let shards = &search.work.shards_with_windows()[range.clone()];
            shards.iter().map(|(_, windows)| windows.len() as u64).sum()
        };
        // Artifacts are read whole, those of leaves and those of the ladder.
        let ranges = subtrees.ranges.iter().zip(&subtrees.pieces);
        let pieces: Vec<u64> = ranges
            .map(|(range, ladder)| leaves(range) + ladder)
            .collect();
        let watched = steps::watch(&self.run, Step::Verify, pieces.iter().sum());
        tracing::info!(target: FLEET, subtrees = pieces.len(), "verify by workers");
        let cuts = self.cut(&pieces, &pieces, |index| subtrees.ranges[index].clone());
        let of = |range| search.work.of_shards(range);
        let array = self.array(Phase::Verify { sample }, cuts, of, &watched);
        let merged = watched.during(array).await;
        let counts = merged.tally.counts;
        if counts.failed > 0 {
            tracing::warn!("parts of the verification were lost, so this process does it");
        }
        let (0, 0, Some(parts)) = (counts.failed, counts.not_attempted, merged.verified) else {
            return Ok(None);
        };
        let run = &self.run;
        let verify = Verify::new(run.root.clone()).settings(run.settings.clone());
        verify.conclude(parts).await.map(Some)
    }
}

impl Worker {
    /// Verifies what stands at the shards of the part and above them.
    pub(super) async fn verify(
        &self,
        admitted: &Admitted,
        manifest: &Manifest,
        sample: BTreeSet<String>,
    ) -> Worked {
        let run = &admitted.run;
        let verify = Verify::new(self.root.clone())
            .settings(self.plan.settings.clone())
            .watched_by(self.watchers.clone());
        let verified = tokio::select! {
            verified = verify.part(manifest, &admitted.work, sample) => verified,
            () = run.stopping() => return self.verified(run, None),
        };
        let (kind, error) = match verified {
            Ok(Ok(part)) => return self.verified(run, Some(part)),
            Ok(Err(fault)) => (fault.kind(), fault.to_string()),
            Err(error) => (error.kind(), error.to_string()),
        };
        run.stop_fleet(kind, error);
        self.verified(run, None)
    }

    fn verified(&self, run: &Run, verified: Option<PartVerified>) -> Worked {
        let outcome = run.reason().map_or(Ending::Done, AbortReason::ending);
        let requests = self.root.tally();
        let report = Report {
            run_id: run.run_id.clone(),
            outcome,
            exit_code: outcome.exit_code(),
            requests,
            bytes: Bytes {
                read: requests.bytes_read,
                written: 0,
            },
            error: run.reason().map(ToString::to_string),
            ..Report::blank(&self.plan.root, &self.plan.settings)
        };
        Worked { report, verified }
    }
}
