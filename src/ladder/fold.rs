//! The fold thread of one group of an artifact: source cells in, encoded blocks out.
//!
//! What is resident is one block of target cells, and for merges the rows of the target
//! cell under way, whatever the size of the level.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::budget::Share;
use crate::cores::Cores;
use crate::error::LeafFault;
use crate::kernels::cells::{CellsRef, FieldCells};
use crate::kernels::level::{LevelFold, cells_with_data};
use crate::kernels::words::morton;
use crate::ladder::targets::Target;
use crate::pyramid::Field;
use crate::report::StageSeconds;
use crate::store::artifact::Artifact;
use crate::store::group::{OpenGroup, Window};
use crate::store::hash::{ArrayHash, OverviewHash};
use crate::store::leaf_error::{LeafError, LeafProblem};
use crate::store::template::{GroupTemplate, MORTON};

/// Source cells on their way to the fold.
pub(crate) enum Piece {
    /// A child, or a part of it, that has no column.
    Absent(u64),
    /// The same cells of a child in every window; `None` where it has no column.
    Cells {
        cells: Range<u64>,
        windows: Vec<Option<(Arc<OpenGroup>, Window)>>,
    },
}

/// The encoded objects of a block of target cells, by their keys below the artifact.
pub(crate) type Block = Vec<(String, Bytes)>;

/// What a group came to.
#[derive(Debug, Default)]
pub(crate) struct FoldedGroup {
    /// Hash of each array, by its path below the artifact.
    pub hashes: Vec<(String, String)>,
    /// The overview hash of the group, when it was resident as a whole.
    pub overview_hash: Option<String>,
    /// Cells that hold anything.
    pub cells_with_data: u64,
    /// Where the time went.
    pub stages: StageSeconds,
}

/// One group under construction.
pub(crate) struct GroupFold<'a> {
    artifact: &'a Artifact,
    order: u8,
    group: &'a GroupTemplate,
    fields: &'a [Field],
    n_windows: usize,
    rows: Rows<'a>,
    /// Target cells that are folded and not yet encoded.
    pending: Vec<FieldCells>,
    n_pending: u64,
    next_object: u64,
    words: morton::Children,
    hashes: BTreeMap<String, ArrayHash>,
    folded: FoldedGroup,
}

/// How source cells become target cells.
enum Rows<'a> {
    /// One of the other.
    Gather,
    /// So many of the first make one of the second.
    Merge(Box<LevelFold<'a>>),
}

impl<'a> GroupFold<'a> {
    /// A fold of `per_target` source cells, of all windows together, into each cell of
    /// the group; `None` gathers.
    ///
    /// # Errors
    /// When the declaration cannot be folded.
    pub(crate) fn new(
        target: &'a Target,
        group: &'a GroupTemplate,
        fields: &'a [Field],
        per_target: Option<usize>,
    ) -> Result<Self, LeafFault> {
        let artifact = &target.artifact;
        let rows = match per_target {
            None => Rows::Gather,
            Some(per_target) => {
                let fold = LevelFold::new(fields, per_target);
                Rows::Merge(Box::new(fold.map_err(|error| fold_error(artifact, error))?))
            }
        };
        Ok(Self {
            rows,
            n_windows: target.windows.len(),
            pending: no_cells(fields),
            n_pending: 0,
            next_object: 0,
            words: morton::children(artifact.word, group.order)?,
            hashes: BTreeMap::new(),
            folded: FoldedGroup::default(),
            artifact,
            order: target.order,
            group,
            fields,
        })
    }

    /// Folds the pieces as they come, and hands every block on as it is complete.
    ///
    /// # Errors
    /// Cells that cannot be decoded or break a law.
    pub(crate) fn run(
        mut self,
        mut pieces: mpsc::Receiver<Piece>,
        blocks: &mpsc::Sender<Block>,
        share: &Share,
        cores: &Cores,
    ) -> Result<FoldedGroup, LeafFault> {
        let mut done = 0;
        while let Some(piece) = pieces.blocking_recv() {
            done += cores.compute(|| self.push(&piece))?;
            drop(piece);
            if let Some(last) = u64::checked_sub(done, 1) {
                share.release_through(last);
            }
            if self.n_pending < self.object_cells() {
                continue;
            }
            // A writer that is gone has failed, and says why.
            if blocks
                .blocking_send(cores.compute(|| self.encode())?)
                .is_err()
            {
                break;
            }
        }
        let hashes = std::mem::take(&mut self.hashes).into_iter();
        self.folded.hashes = hashes.map(|(path, hash)| (path, hash.finish())).collect();
        Ok(self.folded)
    }

    fn object_cells(&self) -> u64 {
        self.group.morton.object_cells
    }

    /// Takes a piece; the number of target cells it completes.
    fn push(&mut self, piece: &Piece) -> Result<u64, LeafFault> {
        let mut clock = Instant::now();
        let cells = match piece {
            Piece::Absent(n_cells) => {
                let n_cells = *n_cells as usize * self.n_windows;
                let fields = self.fields.iter();
                fields.map(|field| field.fill_cells(n_cells)).collect()
            }
            Piece::Cells { cells, windows } => self.decode(cells, windows)?,
        };
        self.folded.stages.decode += lap(&mut clock);
        let (n_done, done) = match &mut self.rows {
            Rows::Gather => {
                let n_cells = match piece {
                    Piece::Absent(n_cells) => *n_cells,
                    Piece::Cells { cells, .. } => cells.end - cells.start,
                };
                (n_cells, cells)
            }
            Rows::Merge(fold) => {
                let failed = |error| fold_error(self.artifact, error);
                fold.push(&cells).map_err(failed)?;
                let (n_done, done) = fold.take();
                (n_done as u64, done)
            }
        };
        for (pending, done) in self.pending.iter_mut().zip(&done) {
            pending.append(done);
        }
        self.n_pending += n_done;
        self.folded.stages.fold += lap(&mut clock);
        Ok(n_done)
    }

    /// The cells of every window; those of several windows cell by cell, each in all of
    /// its windows.
    fn decode(
        &self,
        cells: &Range<u64>,
        windows: &[Option<(Arc<OpenGroup>, Window)>],
    ) -> Result<Vec<FieldCells>, LeafError> {
        let n_cells = (cells.end - cells.start) as usize;
        let mut decoded = Vec::with_capacity(windows.len());
        for window in windows {
            decoded.push(match window {
                Some((group, window)) => group.decode(window, cells)?,
                None => {
                    let fields = self.fields.iter();
                    fields.map(|field| field.fill_cells(n_cells)).collect()
                }
            });
        }
        match <[Vec<FieldCells>; 1]>::try_from(decoded) {
            Ok([only]) => Ok(only),
            Err(several) => Ok(interleave(self.fields, n_cells, &several)),
        }
    }

    /// Encodes and hashes the pending cells, which are one object of every array.
    fn encode(&mut self) -> Result<Block, LeafFault> {
        let mut clock = Instant::now();
        let n_cells = self.n_pending;
        let cells = std::mem::replace(&mut self.pending, no_cells(self.fields));
        self.n_pending = 0;
        self.folded.cells_with_data += cells_with_data(self.fields, &cells, n_cells as usize);
        let words = self.words.by_ref().take(n_cells as usize);
        let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let group = self.group;
        let mut arrays = BTreeMap::from([(
            group.morton.name.as_str(),
            (&group.morton, CellsRef::Dense(&words)),
        )]);
        for (members, cells) in group.fields.iter().zip(&cells) {
            for (array, cells) in members.arrays().zip(cells.arrays()) {
                arrays.insert(array.name.as_str(), (array, cells));
            }
        }
        if n_cells == group.n_cells {
            let mut hash = OverviewHash::new(&self.artifact.id, self.order, group.order);
            for (name, (_, cells)) in arrays.iter().filter(|(name, _)| **name != MORTON) {
                hash.array(name);
                hash.update(*cells);
            }
            self.folded.overview_hash = Some(hash.finish());
        }
        let mut block = Block::new();
        for (name, (array, cells)) in &arrays {
            let path = format!("{}/{name}", group.order);
            if let Some((key, bytes)) = array.encode(self.next_object, *cells)? {
                block.push((format!("{path}/{key}"), bytes));
            }
            self.hashes.entry(path).or_default().update(*cells);
        }
        self.next_object += 1;
        self.folded.stages.encode += lap(&mut clock);
        Ok(block)
    }
}

fn no_cells(fields: &[Field]) -> Vec<FieldCells> {
    fields.iter().map(|field| field.fill_cells(0)).collect()
}

/// The cells of several windows of the same `n_cells` cells: the first cell in each
/// window, then the second, and so on.
fn interleave(fields: &[Field], n_cells: usize, windows: &[Vec<FieldCells>]) -> Vec<FieldCells> {
    let mut interleaved = no_cells(fields);
    for (index, (field, out)) in fields.iter().zip(&mut interleaved).enumerate() {
        let width = field.dense_fill().dtype().width();
        for cell in 0..n_cells {
            for window in windows {
                match (&mut *out, &window[index]) {
                    (FieldCells::Dense(out), FieldCells::Dense(bytes)) => {
                        out.extend_from_slice(&bytes[cell * width..(cell + 1) * width]);
                    }
                    (FieldCells::Digest(out), FieldCells::Digest(digests)) => {
                        out.push(digests.cell(cell));
                    }
                    // Both are of the field's own kind.
                    (FieldCells::Dense(_), FieldCells::Digest(_))
                    | (FieldCells::Digest(_), FieldCells::Dense(_)) => {}
                }
            }
        }
    }
    interleaved
}

fn fold_error(artifact: &Artifact, error: crate::kernels::column::FoldError) -> LeafError {
    LeafError::of_leaf(&artifact.path(), LeafProblem::Fold(error))
}

/// Seconds since `clock`, which starts anew.
fn lap(clock: &mut Instant) -> f64 {
    let now = Instant::now();
    let seconds = (now - *clock).as_secs_f64();
    *clock = now;
    seconds
}

#[cfg(test)]
mod tests;
