//! The decoded cells of one inner chunk, made from seed, shard and chunk alone.

use super::members::{Layout, Source};
use super::observe::Observer;
use super::rng::SplitMix64;
use super::{DemoConfig, DemoError};
use crate::kernels::cells::CellsRef;
use crate::kernels::ragged::RaggedColumn;
use crate::kernels::tdigest::DigestColumn;
use crate::kernels::words::morton::Cell;

/// Of ten cells in a chunk with data, this many have some.
const FILLED_IN_TEN: u64 = 8;

/// One chunk in so many is left out.
const CHUNKS_PER_GAP: u64 = 8;

/// What a run of cells has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Cells in which something was observed.
    pub cells_with_data: u64,
    /// Rows of all digests.
    pub centroids: u64,
    /// Sum of their weights.
    pub observations: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.cells_with_data += other.cells_with_data;
        self.centroids += other.centroids;
        self.observations += other.observations;
    }
}

/// The cells of one inner chunk.
#[derive(Debug)]
pub(super) struct ChunkCells {
    morton: Vec<u8>,
    count: Vec<u8>,
    composition: Vec<u8>,
    observed: Vec<u8>,
    digests: Vec<DigestColumn>,
    seed: u64,
    mean_rows: u64,
    cell_order: u8,
    chunk_cells: u64,
}

impl ChunkCells {
    /// A chunk without cells, to be filled again and again.
    pub(super) fn new(config: &DemoConfig, layout: &Layout) -> Self {
        let digests = layout.digests.iter();
        Self {
            morton: Vec::new(),
            count: Vec::new(),
            composition: Vec::new(),
            observed: Vec::new(),
            digests: digests
                .map(|channels| DigestColumn::new(*channels))
                .collect(),
            seed: config.seed,
            mean_rows: u64::from(config.centroids),
            cell_order: config.cell_order,
            chunk_cells: layout.chunk_cells(),
        }
    }

    /// Whether a chunk of this shard has no data at all.
    pub(super) fn is_gap(&self, shard: u64, chunk: u64, n_chunks: u64) -> bool {
        let period = CHUNKS_PER_GAP.min(n_chunks);
        // A leaf of one chunk has data.
        period > 1 && chunk % period == SplitMix64::of(&[self.seed, shard]).below(period)
    }

    /// Makes the cells of one chunk.
    ///
    /// # Errors
    /// When a cell or an instant has no word, which the limits of a store rule out.
    pub(super) fn fill(&mut self, shard: u64, chunk: u64) -> Result<Figures, DemoError> {
        self.clear();
        let mut rng = SplitMix64::of(&[self.seed, shard, chunk]);
        let mut observer = Observer::new(SplitMix64::of(&[rng.next_u64()]), self.mean_rows);
        let shard = Cell::unpack(shard)?;
        let first_cell = shard.nested() << (2 * (self.cell_order - shard.order()));
        let first = first_cell + chunk * self.chunk_cells;
        let mut figures = Figures::default();
        for i in 0..self.chunk_cells {
            let cell = Cell::area(first + i, self.cell_order)?;
            self.morton.extend(cell.pack().to_le_bytes());
            // The first cell always has data: only a gap is a chunk without.
            if i == 0 || rng.below(10) < FILLED_IN_TEN {
                figures += self.push_observed(cell, &mut observer)?;
            } else {
                self.push_empty();
            }
        }
        Ok(figures)
    }

    /// The cells an array holds.
    pub(super) fn of(&self, source: Source) -> CellsRef<'_> {
        match source {
            Source::Morton => CellsRef::Dense(&self.morton),
            Source::Count => CellsRef::Dense(&self.count),
            Source::Composition => CellsRef::Dense(&self.composition),
            Source::Observed => CellsRef::Dense(&self.observed),
            Source::Payload(i) => CellsRef::Ragged(&self.digests[i].payload),
            Source::Locations(i) => companion(self.digests[i].locations.as_ref()),
            Source::Times(i) => companion(self.digests[i].times.as_ref()),
        }
    }

    /// Adds a cell with data; of several digests some may be empty, but not all.
    fn push_observed(&mut self, cell: Cell, observer: &mut Observer) -> Result<Figures, DemoError> {
        let present = observer.some_of(self.digests.len());
        let mut figures = Figures {
            cells_with_data: 1,
            ..Figures::default()
        };
        let mut observed = None;
        for (i, column) in self.digests.iter_mut().enumerate() {
            let mut observations = 0;
            if present[i] {
                let digest = observer.observe(cell, column)?;
                figures.centroids += digest.rows;
                observations = digest.observations;
                observed = observed.or(digest.times);
            }
            columns(column).for_each(RaggedColumn::close_cell);
            if i == 0 {
                let lanes = observer.lanes(observations);
                self.composition.extend(lanes.to_le_bytes());
            }
            figures.observations += observations;
        }
        // At most 4 for each of at most 2 * 8191 rows.
        let count = figures.observations as i32;
        self.count.extend(count.to_le_bytes());
        self.observed.extend(observed.unwrap_or(0).to_le_bytes());
        Ok(figures)
    }

    fn push_empty(&mut self) {
        self.count.extend(0i32.to_le_bytes());
        self.composition.extend(0u64.to_le_bytes());
        self.observed.extend(0u64.to_le_bytes());
        for column in self.digests.iter_mut().flat_map(columns) {
            column.close_cell();
        }
    }

    fn clear(&mut self) {
        self.morton.clear();
        self.count.clear();
        self.composition.clear();
        self.observed.clear();
        for column in self.digests.iter_mut().flat_map(columns) {
            column.clear();
        }
    }
}

fn columns(digest: &mut DigestColumn) -> impl Iterator<Item = &mut RaggedColumn> {
    std::iter::once(&mut digest.payload)
        .chain(&mut digest.locations)
        .chain(&mut digest.times)
}

/// The cells of a companion. One that an array was made for is there; were it not, the
/// codec would refuse to make an array of nothing.
fn companion(column: Option<&RaggedColumn>) -> CellsRef<'_> {
    column.map_or(CellsRef::Dense(&[]), CellsRef::Ragged)
}
