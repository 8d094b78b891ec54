//! Sums up the levels of a ladder, and writes the objects at the root when every artifact
//! stands. In: TargetStands, Finish. Out: the report of the ladder. Costs two GETs, and
//! three PUTs when anything changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr, AtomicResponse, Context, Handler, WrapFuture};
use tracing::{Instrument, Span};

use super::lease_keeper::LeaseKeeper;
use crate::error::AbortReason;
use crate::ladder::finish::{FinishError, Levels};
use crate::ladder::{Ladder, LadderWork};
use crate::messages::{Finish, Hold, TargetStands};
use crate::report::{LadderReport, LevelReport};
use crate::store::artifact::Tier;

pub(crate) struct Finisher {
    ladder: Arc<Ladder>,
    work: Arc<LadderWork>,
    keeper: Addr<LeaseKeeper>,
    levels: BTreeMap<u8, LevelReport>,
    /// Of the run.
    span: Span,
}

impl Finisher {
    pub(crate) fn new(
        ladder: Arc<Ladder>,
        work: Arc<LadderWork>,
        keeper: Addr<LeaseKeeper>,
    ) -> Self {
        let levels = ladder.template.plan.levels.iter();
        Self {
            levels: levels
                .map(|level| (level.order, LevelReport::new(level)))
                .collect(),
            ladder,
            work,
            keeper,
            span: Span::current(),
        }
    }
}

impl Actor for Finisher {
    type Context = Context<Self>;
}

impl Handler<TargetStands> for Finisher {
    type Result = ();

    fn handle(&mut self, stands: TargetStands, _: &mut Context<Self>) {
        let Some(level) = self.levels.get_mut(&stands.order) else {
            return;
        };
        match stands.written {
            Some(num_bytes) => {
                level.written += 1;
                level.bytes_written += num_bytes;
            }
            None => level.current += 1,
        }
        if stands.tier == Tier::Overview && !stands.is_all_time {
            level.source_children += stands.children;
        }
    }
}

impl Handler<Finish> for Finisher {
    type Result = AtomicResponse<Self, LadderReport>;

    fn handle(&mut self, finish: Finish, _: &mut Context<Self>) -> Self::Result {
        for level in finish.elsewhere {
            if let Some(known) = self.levels.get_mut(&level.order) {
                known.add(&level);
            }
        }
        let mut report = LadderReport {
            levels: self.levels.values().rev().cloned().collect(),
            ..LadderReport::default()
        };
        let (ladder, work, keeper) = (self.ladder.clone(), self.work.clone(), self.keeper.clone());
        let finished = async move {
            if finish.is_complete && !ladder.run.settings.dry_run {
                match finish_root(&ladder, &work, &keeper, &report.levels).await {
                    Ok(record) => {
                        report.finished = true;
                        report.record = record;
                    }
                    Err(error) => ladder.run.stop(AbortReason::Unfinished(error.to_string())),
                }
            }
            report
        };
        let finished = finished.instrument(self.span.clone());
        AtomicResponse::new(Box::pin(finished.into_actor(self)))
    }
}

/// Writes what is due at the root; the key of the sweep's record, if one was written.
async fn finish_root(
    ladder: &Ladder,
    work: &LadderWork,
    keeper: &Addr<LeaseKeeper>,
    reports: &[LevelReport],
) -> Result<Option<String>, FinishError> {
    let levels: Levels = reports
        .iter()
        .map(|level| (level.order, level.source_children))
        .collect();
    let is_due = reports.iter().any(|level| level.written > 0)
        || ladder.finish_coverage(work, None).await?
        || ladder.finish_manifest(&levels, None).await?;
    if !is_due {
        return Ok(None);
    }
    // Without the lease the run is stopping, and the keeper has said so.
    let Ok(Some(held)) = keeper.send(Hold).await else {
        return Ok(None);
    };
    ladder.finish_coverage(work, Some(&held)).await?;
    ladder.finish_manifest(&levels, Some(&held)).await?;
    let width = ladder.run.settings.tuple_width;
    ladder.finish_record(reports, width, &held).await.map(Some)
}
