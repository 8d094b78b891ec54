//! What an instrument would have seen in a cell: digests that obey the law, with the
//! place and time of every centroid.

use super::DemoError;
use super::rng::SplitMix64;
use crate::kernels::tdigest::DigestColumn;
use crate::kernels::words::morton::{Cell, MAX_ORDER};
use crate::kernels::words::toc;

/// Heights are whole numbers of this fraction of a metre, exact in `f32`, so that
/// neighbouring cells do have equal ones.
const STEPS_PER_METRE: f64 = 512.0;
/// Chunks lie up to 2,048 m high.
const GROUND_STEPS: u64 = 1 << 20;
/// Cells of a chunk begin within 8 m of each other.
const RELIEF_STEPS: u64 = 1 << 12;
/// Neighbouring centroids of a digest lie within 1 m of each other.
const CENTROID_STEPS: u64 = 1 << 9;

/// Largest weight of a centroid; those at the tails have less.
const MAX_WEIGHT: u64 = 4;

const NS_PER_S: u64 = 1_000_000_000;
/// 2018-01-01T00:00:00Z, in nanoseconds of the toc scale.
const FIRST_INSTANT_NS: u64 = 5_301_590_418_000_000_000;
/// Chunks are visited within six years.
const MISSION_NS: u64 = 6 * 365 * 86_400 * NS_PER_S;
/// The cells of a chunk within a day.
const VISIT_NS: u64 = 86_400 * NS_PER_S;
/// What makes up one centroid within ten minutes.
const CENTROID_NS: u64 = 600 * NS_PER_S;

/// Lanes of a composition, and their largest value.
const LANES: u64 = 8;
const LANE_MAX: u64 = 255;

/// Sees the cells of one chunk.
#[derive(Debug)]
pub(super) struct Observer {
    rng: SplitMix64,
    mean_rows: u64,
    ground: u64,
    visit_ns: u64,
}

/// What one digest holds.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its rows.
    pub rows: u64,
    /// The sum of their weights.
    pub observations: u64,
    /// Its time, when its rows have one.
    pub times: Option<u64>,
}

impl Observer {
    /// An observer of a chunk whose digests have `mean_rows` rows on average.
    pub(super) fn new(mut rng: SplitMix64, mean_rows: u64) -> Self {
        Self {
            mean_rows,
            ground: rng.below(GROUND_STEPS),
            visit_ns: FIRST_INSTANT_NS + rng.below(MISSION_NS),
            rng,
        }
    }

    /// Which of a cell's digests have rows: most of them, at least one.
    pub(super) fn some_of(&mut self, digests: usize) -> Vec<bool> {
        // One in four cells lacks one of its digests, if it has two.
        let lacking = self.rng.below(4 * digests as u64) as usize;
        (0..digests).map(|i| digests == 1 || i != lacking).collect()
    }

    /// Writes the rows of one cell, which the caller closes: means ascend, weights are
    /// whole and least at the tails, a row of weight 1 is a point and an instant.
    ///
    /// # Errors
    /// When a place or an instant has no word.
    pub(super) fn observe(
        &mut self,
        cell: Cell,
        column: &mut DigestColumn,
    ) -> Result<Seen, DemoError> {
        let rows = 1 + self.rng.below(2 * self.mean_rows - 1);
        let mut seen = Seen {
            rows,
            observations: 0,
            times: None,
        };
        let mut height = self.ground + self.rng.below(RELIEF_STEPS);
        for row in 0..rows {
            height += 1 + self.rng.below(CENTROID_STEPS);
            let from_tail = (row + 1).min(rows - row);
            let weight = 1 + self.rng.below(from_tail.min(MAX_WEIGHT));
            // A single height is a whole number of steps below 2^23, hence exact; the mean
            // of several lies between two steps, so means ascend.
            let sum = height * weight + self.rng.below(weight);
            let mean = (sum as f64 / (weight as f64 * STEPS_PER_METRE)) as f32;
            column.payload.write(&mean.to_le_bytes());
            column.payload.write(&(weight as f32).to_le_bytes());
            seen.observations += weight;
            if let Some(locations) = &mut column.locations {
                locations.write(&self.location(cell, weight)?.to_le_bytes());
            }
            if let Some(times) = &mut column.times {
                let time = self.time(weight)?;
                times.write(&time.to_le_bytes());
                seen.times = Some(seen.times.map_or(time, |joined| toc::merge(joined, time)));
            }
        }
        Ok(seen)
    }

    /// A composition of so many observations: each lane is a fraction of them.
    pub(super) fn lanes(&mut self, observations: u64) -> u64 {
        if observations == 0 {
            return 0;
        }
        (0..LANES).fold(0, |word, lane| {
            let part = self.rng.below(observations + 1);
            let rounded = (2 * LANE_MAX * part + observations) / (2 * observations);
            word | (rounded << (8 * lane))
        })
    }

    /// A point in the cell, or for several observations a cell that could hold them.
    fn location(&mut self, cell: Cell, weight: u64) -> Result<u64, DemoError> {
        let deeper = u64::from(MAX_ORDER - cell.order());
        let (order, is_point) = if weight == 1 {
            (MAX_ORDER, true)
        } else {
            (cell.order() + self.rng.below(deeper + 1) as u8, false)
        };
        let bits = 2 * (order - cell.order());
        let nested = (cell.nested() << bits) | self.rng.below(1 << bits);
        let place = if is_point {
            Cell::point(nested)?
        } else {
            Cell::area(nested, order)?
        };
        Ok(place.pack())
    }

    /// An instant, or for several observations the envelope of theirs.
    fn time(&mut self, weight: u64) -> Result<u64, DemoError> {
        let start = self.visit_ns + self.rng.below(VISIT_NS);
        Ok(if weight == 1 {
            toc::timestamp(start)?
        } else {
            toc::range(start, start + self.rng.below(CENTROID_NS))?
        })
    }
}
