//! Folds stamped leaves. In: FoldJob. Out: FoldedColumn. Reads on the I/O threads and
//! folds on a blocking thread per leaf, one window ahead of each other; at most
//! `max_folds` leaves at once, their bytes bounded by the memory budget, and no more of
//! them computing than there are cores.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, AtomicResponse, Context, Handler};
use tokio::sync::{Semaphore, mpsc};

use super::column_writer::ColumnWriter;
use super::lease_keeper::LeaseKeeper;
use super::{Pass, stage};
use crate::budget::Share;
use crate::error::LeafFault;
use crate::kernels::column::ColumnFold;
use crate::messages::{FoldJob, FoldedColumn, Hold, LeafRef, Outcome};
use crate::report::StageSeconds;
use crate::store::column::EncodedColumn;
use crate::store::group::Window;
use crate::store::leaf::OpenLeaf;
use crate::store::leaf_error::{LeafError, LeafProblem};

/// A byte of decoded digests becomes a byte of rows. Resident beside the decoded bytes
/// are the runs of all levels and their merges, and the sums of the cell being compressed:
/// reckoned from the kernel's buffers, ten to twelve bytes for each byte decoded, and
/// rather too much than too little.
pub(crate) const RESIDENT_PER_DECODED_BYTE: u64 = 12;

/// A window of several blocks is at most this part of the budget, encoded. It is what a
/// fold may hold beside the block it works on.
pub(crate) const BUDGET_PER_WINDOW_BYTE: u64 = 64;

/// Parts of windows paid for and not yet taken by the fold thread.
const WINDOWS_AHEAD: usize = 1;

pub(crate) struct FoldActor {
    pass: Arc<Pass>,
    next: Next,
    slots: Arc<Semaphore>,
}

/// Whom a fold talks to.
#[derive(Clone)]
struct Next {
    keeper: Addr<LeaseKeeper>,
    writer: Addr<ColumnWriter>,
}

impl FoldActor {
    pub(crate) fn new(
        pass: Arc<Pass>,
        keeper: Addr<LeaseKeeper>,
        writer: Addr<ColumnWriter>,
    ) -> Self {
        let slots = Arc::new(Semaphore::new(pass.run.settings.max_folds));
        let next = Next { keeper, writer };
        Self { pass, next, slots }
    }
}

impl Actor for FoldActor {
    type Context = Context<Self>;
}

impl Handler<FoldJob> for FoldActor {
    type Result = AtomicResponse<Self, ()>;

    fn handle(&mut self, job: FoldJob, _: &mut Context<Self>) -> Self::Result {
        let span = job.ticket.span();
        let work = fold_and_pass_on(self.pass.clone(), job, self.next.clone());
        stage::accept(self, &self.slots, span, work)
    }
}

async fn fold_and_pass_on(pass: Arc<Pass>, job: FoldJob, next: Next) {
    let FoldJob {
        ticket,
        stamp,
        reason,
    } = job;
    if pass.run.is_stopping() {
        return ticket.finish(Outcome::NotAttempted);
    }
    // The lease is taken when the first leaf needs it. Without it the pass is over, and
    // the keeper has said so.
    let Ok(Some(held)) = next.keeper.send(Hold).await else {
        return ticket.finish(Outcome::NotAttempted);
    };
    match pass.run.unless_stopped(fold(&pass, ticket.work())).await {
        Some(Ok(Folded {
            column,
            stages,
            share,
        })) => {
            let folded = FoldedColumn {
                ticket,
                stamp,
                reason,
                column,
                stages,
                held,
                share,
            };
            // A writer that is gone drops the ticket, which reports the leaf.
            let _ = next.writer.send(folded).await;
        }
        Some(Err(fault)) => ticket.finish(Outcome::failed(fault)),
        None => ticket.finish(Outcome::NotAttempted),
    }
}

/// A leaf's column, with its share of the budget and where the time went.
struct Folded {
    column: EncodedColumn,
    stages: StageSeconds,
    share: Share,
}

/// Folds one leaf. Dropped on the way, it ends the fold thread too, which then finds no
/// more windows.
async fn fold(pass: &Arc<Pass>, leaf: &LeafRef) -> Result<Folded, LeafFault> {
    let started = Instant::now();
    let root = &pass.run.root;
    let open = OpenLeaf::open(root, pass.template.clone(), leaf.clone()).await?;
    let open = Arc::new(open.measured(root).await?);
    let share = Arc::new(pass.run.budget.share());
    let (sender, receiver) = mpsc::channel(WINDOWS_AHEAD);
    let folding = {
        let (pass, open, share) = (pass.clone(), open.clone(), share.clone());
        tokio::task::spawn_blocking(move || fold_windows(&pass, &open, receiver, &share))
    };
    let mut read = started.elapsed();
    read_windows(pass, &open, &share, sender, &mut read).await?;
    let folded = folding
        .await
        .map_err(|error| LeafError::panicked(&leaf.path(), error))?;
    let (column, mut stages) = folded?;
    stages.read = read.as_secs_f64();
    drop(share);
    let share = pass.run.budget.share();
    share.grow(0, column.num_bytes()).await;
    Ok(Folded {
        column,
        stages,
        share,
    })
}

/// Reads the leaf's windows in order, adding the time its requests take to `read`. A fold
/// that takes no more has refused the leaf, or has panicked: it gives no budget back that
/// the next window could wait for, and its answer says why.
async fn read_windows(
    pass: &Pass,
    leaf: &OpenLeaf,
    share: &Share,
    sender: mpsc::Sender<Window>,
    read: &mut Duration,
) -> Result<(), LeafError> {
    let settings = &pass.run.settings;
    let target = settings.memory_budget / BUDGET_PER_WINDOW_BYTE;
    for cells in leaf.windows(settings.read_window.min(target)) {
        let read_and_pass_on = async {
            let window = read_window(pass, leaf, share, cells, read).await?;
            for part in leaf.by_block(window) {
                let resident = part.decoded_bytes() * RESIDENT_PER_DECODED_BYTE;
                share.grow(block_of(pass, &part.cells), resident).await;
                // A fold that takes no more closes the channel, which ends this below.
                let _ = sender.send(part).await;
            }
            Ok::<_, LeafError>(())
        };
        tokio::select! {
            done = read_and_pass_on => done?,
            () = sender.closed() => break,
        }
    }
    Ok(())
}

/// Reads one window, once its share of the budget is taken.
async fn read_window(
    pass: &Pass,
    leaf: &OpenLeaf,
    share: &Share,
    cells: Range<u64>,
    read: &mut Duration,
) -> Result<Window, LeafError> {
    let encoded = leaf.indexed_bytes(&cells);
    let last_block = block_of(pass, &cells);
    if leaf.is_one_block(&cells) {
        share.grow(last_block, encoded).await;
    } else {
        share.read_ahead(last_block, encoded).await;
    }
    let asked = Instant::now();
    let window = leaf.fetch(&pass.run.root, cells).await?;
    *read += asked.elapsed();
    Ok(window)
}

/// The last block that cells lie in, with which they are folded.
fn block_of(pass: &Pass, cells: &Range<u64>) -> u64 {
    (cells.end - 1) / pass.template.plan.block_cells()
}

/// The fold thread: decodes, folds, encodes, and says how long each took.
fn fold_windows(
    pass: &Pass,
    leaf: &OpenLeaf,
    mut windows: mpsc::Receiver<Window>,
    share: &Share,
) -> Result<(EncodedColumn, StageSeconds), LeafFault> {
    let (template, cores) = (&*pass.template, &pass.run.cores);
    let mut stages = StageSeconds::default();
    let path = leaf.leaf.path();
    let failed = |error| LeafError::of_leaf(&path, LeafProblem::Fold(error));
    let mut fold = ColumnFold::new(&template.plan, &template.declaration.fields).map_err(failed)?;
    while let Some(window) = windows.blocking_recv() {
        let blocks_done = window.cells.end / template.plan.block_cells();
        cores.compute(|| {
            let mut clock = Instant::now();
            for slab in leaf.slabs(window) {
                let (cells, fields) = slab?;
                stages.decode += lap(&mut clock);
                fold.push(cells, &fields).map_err(failed)?;
                stages.fold += lap(&mut clock);
            }
            Ok::<_, LeafError>(())
        })?;
        if let Some(last) = blocks_done.checked_sub(1) {
            share.release_through(last);
        }
    }
    cores.compute(|| {
        let mut clock = Instant::now();
        let folded = fold.finish().map_err(failed)?;
        stages.fold += lap(&mut clock);
        let column = EncodedColumn::encode(template, &leaf.leaf, leaf.group_attributes(), &folded)?;
        stages.encode += lap(&mut clock);
        Ok((column, stages))
    })
}

/// Seconds since `clock`, which starts anew.
fn lap(clock: &mut Instant) -> f64 {
    let now = Instant::now();
    let seconds = (now - *clock).as_secs_f64();
    *clock = now;
    seconds
}
