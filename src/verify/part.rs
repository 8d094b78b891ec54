//! A part of a store by itself, for workers of a fleet: the columns of some shards and all of
//! the ladder that stands on them alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::survey::{Sample, Survey};
use super::verifier::Verifier;
use super::{DEFAULT_SAMPLE, Verification, Verify, manifest};
use crate::error::{Error, LeafFault};
use crate::kernels::words::WordError;
use crate::ladder::LadderWork;
use crate::ladder::generation::SourceChildren;
use crate::messages::LeafRef;
use crate::store::manifest::Manifest;
use crate::work::WorkSet;

/// What came of a part, or of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartVerified {
    verification: Verification,
    /// What the overviews record of their children together, by order.
    levels: BTreeMap<u8, SourceChildren>,
}

/// Paths of the leaves that a verification of all of them folds anew by default.
///
/// # Errors
/// When a word names no cell, which the records have been checked for.
pub(crate) fn default_sample(work: &LadderWork) -> Result<BTreeSet<String>, WordError> {
    let leaves: Vec<LeafRef> = work.leaves().collect::<Result<_, _>>()?;
    match Sample::of(&leaves, DEFAULT_SAMPLE, 0) {
        Sample::Some(paths) => Ok(paths),
        Sample::All => Ok(leaves.iter().map(LeafRef::path).collect()),
    }
}

impl PartVerified {
    /// Adds another part.
    pub(crate) fn add(&mut self, other: Self) {
        self.verification.add(other.verification);
        for (order, children) in other.levels {
            *self.levels.entry(order).or_default() += children;
        }
    }
}

impl Verify {
    /// Verifies the columns of `work` and every artifact of the ladder above them, which must
    /// stand on nothing else; the leaves of `sample` are folded anew. What the manifest and the
    /// lease say is left to [`Verify::conclude`].
    ///
    /// # Errors
    /// Whatever keeps it from being begun, and within that a request that failed for good.
    pub(crate) async fn part(
        self,
        manifest: &Manifest,
        work: &WorkSet,
        sample: BTreeSet<String>,
    ) -> Result<Result<PartVerified, LeafFault>, Error> {
        let started = Instant::now();
        let root = self.watchers.at_work(&self.root, &self.settings);
        let before = root.tally();
        let (other_law, ladder) = self.templates(&root, manifest)?;
        let work = LadderWork::new(work, &root).await?;
        let verifier = Verifier::new(Arc::new(ladder));
        let survey = Survey {
            verifier: &verifier,
            other_law: &other_law,
            work: &work,
            sample: Sample::Some(sample),
        };
        let surveyed = match verifier.watched.during(survey.all()).await {
            Ok(surveyed) => surveyed,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut verification = self.verification(&verifier, Ok(surveyed), started);
        verification.requests = root.tally().since(before);
        verification.bytes_read = verification.requests.bytes_read;
        Ok(Ok(PartVerified {
            verification,
            levels: verifier.levels(),
        }))
    }

    /// The verification of a store all of whose parts were verified, with what only the whole
    /// can be held against.
    ///
    /// # Errors
    /// Failed requests.
    pub(crate) async fn conclude(self, parts: PartVerified) -> Result<Verification, Error> {
        let started = Instant::now();
        let root = self.watchers.at_work(&self.root, &self.settings);
        let before = root.tally();
        let manifest = Manifest::read(&root).await?;
        let (_, ladder) = self.templates(&root, &manifest)?;
        let verifier = Verifier::new(Arc::new(ladder));
        for finding in manifest::check(&manifest) {
            verifier.findings.add(finding);
        }
        for (order, children) in &parts.levels {
            verifier.note_children(*order, *children);
        }
        let is_whole = parts.verification.is_clean() && verifier.findings.count() == 0;
        manifest::check_actuals(&verifier, &manifest, is_whole);
        let mut all = self.blank(&root, started);
        all.take(verifier.findings.take());
        all.requests = root.tally().since(before);
        all.bytes_read = all.requests.bytes_read;
        all.add(parts.verification);
        Ok(all)
    }
}
