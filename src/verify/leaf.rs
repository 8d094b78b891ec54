//! Folds a leaf into the column it must have, and writes nothing.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::contents::Hashes;
use super::tally::Tally;
use super::verifier::Verifier;
use crate::budget::Share;
use crate::error::LeafFault;
use crate::kernels::column::ColumnFold;
use crate::messages::LeafRef;
use crate::store::group::Window;
use crate::store::hash::of_cells;
use crate::store::leaf::OpenLeaf;
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::ColumnTemplate;

/// Resident bytes for each decoded byte; see the fold of a pass.
const RESIDENT_PER_DECODED_BYTE: u64 = 12;

/// A window of several blocks is at most this part of the budget, encoded; see there.
const BUDGET_PER_WINDOW_BYTE: u64 = 64;

/// Parts of windows paid for and not yet taken by the fold thread.
const WINDOWS_AHEAD: usize = 1;

/// What a leaf folds to.
#[derive(Debug)]
pub(super) struct FoldedLeaf {
    /// Hashes of the arrays of every group, but for the cell words.
    pub hashes: Hashes,
    /// What the fields of the leaf itself come to.
    pub tallies: Vec<Tally>,
}

/// Reads and folds a leaf, window by window.
///
/// # Errors
/// Failed requests, and a leaf that cannot be read or folded.
pub(super) async fn fold(verifier: &Verifier, leaf: &LeafRef) -> Result<FoldedLeaf, LeafFault> {
    let (run, template) = (&verifier.ladder.run, verifier.column().clone());
    let open = Arc::new(OpenLeaf::open(&run.root, template.clone(), leaf.clone()).await?);
    let share = Arc::new(run.budget.share());
    let (sender, windows) = mpsc::channel(WINDOWS_AHEAD);
    let folding = {
        let (open, share) = (open.clone(), share.clone());
        tokio::task::spawn_blocking(move || fold_windows(&open, &template, windows, &share))
    };
    read_windows(verifier, &open, &share, sender).await?;
    folding
        .await
        .map_err(|error| LeafError::panicked(&leaf.path(), error))?
}

/// Reads the leaf's windows in order. A fold that takes no more has refused the leaf, and
/// its answer says why.
async fn read_windows(
    verifier: &Verifier,
    leaf: &OpenLeaf,
    share: &Share,
    sender: mpsc::Sender<Window>,
) -> Result<(), LeafError> {
    let block_cells = verifier.column().plan.block_cells();
    let block_of = |cells: &Range<u64>| (cells.end - 1) / block_cells;
    let settings = &verifier.ladder.run.settings;
    let target = settings.memory_budget / BUDGET_PER_WINDOW_BYTE;
    for cells in leaf.windows(settings.read_window.min(target)) {
        let read_and_pass_on = async {
            let (last_block, encoded) = (block_of(&cells), leaf.indexed_bytes(&cells));
            if leaf.is_one_block(&cells) {
                share.grow(last_block, encoded).await;
            } else {
                share.read_ahead(last_block, encoded).await;
            }
            let window = leaf.fetch(&verifier.ladder.run.root, cells.clone()).await?;
            for part in leaf.by_block(window) {
                let resident = part.decoded_bytes() * RESIDENT_PER_DECODED_BYTE;
                share.grow(block_of(&part.cells), resident).await;
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

/// The fold thread.
fn fold_windows(
    leaf: &OpenLeaf,
    template: &ColumnTemplate,
    mut windows: mpsc::Receiver<Window>,
    share: &Share,
) -> Result<FoldedLeaf, LeafFault> {
    let path = leaf.leaf.path();
    let failed = |error| LeafError::of_leaf(&path, LeafProblem::Fold(error));
    let fields = &template.declaration.fields;
    let mut fold = ColumnFold::new(&template.plan, fields).map_err(failed)?;
    let mut tallies: Vec<Tally> = fields.iter().map(Tally::none).collect();
    while let Some(window) = windows.blocking_recv() {
        let blocks_done = window.cells.end / template.plan.block_cells();
        for slab in leaf.slabs(window) {
            let (cells, columns) = slab?;
            for (tally, (field, column)) in tallies.iter_mut().zip(fields.iter().zip(&columns)) {
                tally.push(field, column);
            }
            fold.push(cells, &columns).map_err(failed)?;
        }
        if let Some(last) = blocks_done.checked_sub(1) {
            share.release_through(last);
        }
    }
    let folded = fold.finish().map_err(failed)?;
    let mut hashes = Hashes::new();
    for (group, folded) in template.groups.iter().zip(&folded.groups) {
        for (members, cells) in group.fields.iter().zip(&folded.fields) {
            for (array, cells) in members.arrays().zip(cells.arrays()) {
                hashes.insert(format!("{}/{}", group.order, array.name), of_cells(cells));
            }
        }
    }
    Ok(FoldedLeaf { hashes, tallies })
}
