//! Which leaves are due: the questions a column pass asks, without what follows from them.

use std::collections::BTreeMap;
use std::pin::pin;

use futures::StreamExt;
use futures::future::try_join;

use super::planned::PlannedColumns;
use crate::error::LeafFault;
use crate::gate::{self, Verdict};
use crate::messages::{LeafRef, Reason};
use crate::report::{FailedLeaf, Tally};
use crate::settings::Settings;
use crate::store::Root;
use crate::store::artifact::Artifact;
use crate::store::stamp::{ArtifactRoot, Stamp};
use crate::store::template::ColumnTemplate;
use crate::work::{Found, WorkSet};

/// A node and a window, which name one column.
pub(super) type ColumnKey = (u64, Option<String>);

/// A column that will stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Whether it is to be written first.
    pub is_due: bool,
    /// Leaf columns it goes back to, itself among them.
    pub n_leaves: u64,
}

/// The columns that will stand, by node and window.
pub(super) type Columns = BTreeMap<ColumnKey, Standing>;

/// What the leaves were found to be.
#[derive(Debug, Default)]
pub(super) struct Judged {
    tally: Tally,
    /// The committed leaves' columns.
    pub columns: Columns,
    /// The fault of the store that ended the judging early.
    pub stopped_by: Option<String>,
}

/// What a leaf is: not committed, or committed with this verdict.
type Judgement = Option<Verdict>;

impl Judged {
    /// The leaves that are due, or those that are not, in word order.
    pub(super) fn keys(&self, is_due: bool) -> Vec<&ColumnKey> {
        let wanted = self
            .columns
            .iter()
            .filter(|(_, column)| column.is_due == is_due);
        wanted.map(|(key, _)| key).collect()
    }

    /// The counts, with rows that are no shards of this store among them.
    pub(super) fn planned(&self, skipped: u64, listed: u64) -> PlannedColumns {
        let mut counts = self.tally.counts;
        counts.skipped = skipped;
        PlannedColumns {
            counts,
            verdicts: self.tally.reasons.clone(),
            failed_leaves: self.tally.failed_leaves.clone(),
            listed,
        }
    }

    /// Leaves that could not be judged.
    pub(super) fn num_failed(&self) -> u64 {
        self.tally.counts.failed
    }

    fn count(&mut self, leaf: LeafRef, judgement: Judgement) {
        let counts = &mut self.tally.counts;
        let is_due = match judgement {
            None => {
                counts.empty += 1;
                return;
            }
            Some(Verdict::Current) => {
                counts.current += 1;
                false
            }
            Some(Verdict::Due(reason)) => {
                counts.planned += 1;
                self.tally.reasons.count(reason);
                true
            }
        };
        let column = Standing {
            is_due,
            n_leaves: 1,
        };
        self.columns.insert((leaf.shard, leaf.window), column);
    }

    fn fail(&mut self, leaf: &LeafRef, fault: &LeafFault) {
        self.tally.push_failure(FailedLeaf {
            leaf: leaf.path(),
            array: fault.array().map(str::to_owned),
            kind: fault.kind(),
            error: fault.to_string(),
        });
    }
}

/// Judges every leaf of the work set, and ends as a pass would when the same fault of the
/// store meets it again and again.
pub(super) async fn judge(
    root: &Root,
    template: &ColumnTemplate,
    work: &WorkSet,
    settings: &Settings,
) -> Judged {
    let mut judged = Judged::default();
    let mut in_a_row = 0;
    let judgements = work
        .leaves(root)
        .map(|found| judge_found(root, template, settings.force, found))
        .buffered(settings.max_in_flight);
    let mut judgements = pin!(judgements);
    while let Some((leaf, judgement)) = judgements.next().await {
        let fault = match judgement {
            Ok(judgement) => {
                in_a_row = 0;
                judged.count(leaf, judgement);
                continue;
            }
            Err(fault) => fault,
        };
        judged.fail(&leaf, &fault);
        in_a_row = match fault.kind().is_store_wide() {
            true => in_a_row + 1,
            false => 0,
        };
        if in_a_row >= settings.abort_after {
            judged.stopped_by = Some(fault.to_string());
            break;
        }
    }
    if judged.columns.is_empty() && judged.stopped_by.is_none() {
        let last = judged.tally.failed_leaves.last();
        judged.stopped_by = last.map(|leaf| leaf.error.clone());
    }
    judged
}

async fn judge_found(
    root: &Root,
    template: &ColumnTemplate,
    force: bool,
    found: Found,
) -> (LeafRef, Result<Judgement, LeafFault>) {
    let leaf = found.leaf;
    let judgement = match found.listed {
        Ok(()) => judge_leaf(root, template, force, &leaf).await,
        Err(error) => Err(error.into()),
    };
    (leaf, judgement)
}

/// A forced pass does not ask what its columns are like.
async fn judge_leaf(
    root: &Root,
    template: &ColumnTemplate,
    force: bool,
    leaf: &LeafRef,
) -> Result<Judgement, LeafFault> {
    if force {
        let stamp = Stamp::read_leaf(root, leaf).await?;
        return Ok(stamp.map(|_| Verdict::Due(Reason::Forced)));
    }
    let artifact = Artifact::column_of(leaf);
    let (stamp, column) = try_join(
        async { Ok::<_, LeafFault>(Stamp::read_leaf(root, leaf).await?) },
        async { Ok(ArtifactRoot::read(root, &artifact).await?) },
    )
    .await?;
    match stamp {
        None => Ok(None),
        Some(stamp) => {
            let verdict = gate::judge(root, template, leaf, &stamp, column.as_ref()).await?;
            Ok(Some(verdict))
        }
    }
}
