//! Writes folded columns, stamp last. In: FoldedColumn. Out: the outcome `written`.
//! Costs the column's objects as PUTs, one LIST, and a GET of the leaf's root document
//! before the stamp; at most `max_writers` columns at once.

use std::sync::Arc;
use std::time::Instant;

use actix::{Actor, AtomicResponse, Context, Handler};
use tokio::sync::Semaphore;

use super::{Pass, stage};
use crate::messages::{FoldedColumn, Outcome};

pub(crate) struct ColumnWriter {
    pass: Arc<Pass>,
    slots: Arc<Semaphore>,
}

impl ColumnWriter {
    pub(crate) fn new(pass: Arc<Pass>) -> Self {
        let slots = Arc::new(Semaphore::new(pass.run.settings.max_writers));
        Self { pass, slots }
    }
}

impl Actor for ColumnWriter {
    type Context = Context<Self>;
}

impl Handler<FoldedColumn> for ColumnWriter {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, folded: FoldedColumn, _: &mut Context<Self>) -> Self::Result {
        let span = folded.ticket.span();
        let work = write(self.pass.clone(), folded);
        stage::accept(self, &self.slots, span, work)
    }
}

/// A write that has begun is finished even when the pass is stopping: an unstamped
/// column would only have to be written again.
async fn write(pass: Arc<Pass>, folded: FoldedColumn) {
    let FoldedColumn {
        ticket,
        stamp,
        reason,
        column,
        mut stages,
        held,
        share,
    } = folded;
    if pass.run.is_stopping() {
        return ticket.finish(Outcome::NotAttempted);
    }
    let started = Instant::now();
    let written = column
        .write(
            &pass.run.root,
            &pass.template,
            ticket.work(),
            &stamp,
            &held,
            || pass.run.now(),
        )
        .await;
    stages.write = started.elapsed().as_secs_f64();
    let num_bytes = column.num_bytes();
    drop((column, share));
    ticket.finish(match written {
        Ok(()) => Outcome::Written {
            reason,
            num_bytes,
            stages,
        },
        Err(fault) => Outcome::failed(fault),
    });
}
