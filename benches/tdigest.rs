//! Throughput of the t-digest kernel, in rows and in digests per second.
//!
//! One leaf is 4^8 cells of about 15 rows, folded into three groups as a column folds them: 256 cells
//! to one, then four, then four.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot fold has nothing to measure"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zagg_stream::kernels::tdigest::{
    Channels, DigestCell, DigestColumn, DigestFold, fold_flat, weight_total,
};

const CELLS: usize = 1 << 16;
const SOURCE_ORDER: u8 = 18;
const GROUPS: [u8; 3] = [14, 13, 12];
const DELTA: f64 = 512.0;

/// A generator that gives the same leaf in every run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Terrain with noise: cells differ in their level, rows of a cell spread around it.
fn leaf(channels: Channels) -> DigestColumn {
    let mut random = Random(7);
    let mut column = DigestColumn::new(channels);
    for cell in 0..CELLS as u64 {
        let level = 800.0 + 300.0 * (cell as f64 / 9e3).sin() + 40.0 * random.unit();
        let count = 5 + random.next() % 21;
        let mut means: Vec<f32> = (0..count)
            .map(|_| (level + 15.0 * (random.unit() + random.unit() - 1.0)) as f32)
            .collect();
        means.sort_by(f32::total_cmp);
        let (mut payload, mut locations, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for mean in means {
            payload.extend(mean.to_le_bytes());
            payload.extend(((1 + random.next() % 8) as f32).to_le_bytes());
            let nested = (4_u64 << 54) | (cell << 22) | (random.next() & 0x3f_ffff);
            locations.extend(((nested << 6) | (48 + random.next() % 16)).to_le_bytes());
            let second = 2_469_000_000 + random.next() % 30_000_000;
            times.extend((second << 32 | 1 << 31 | (random.next() >> 34)).to_le_bytes());
        }
        column.push(DigestCell {
            payload: &payload,
            locations: Some(&locations),
            times: Some(&times),
        });
    }
    column
}

fn num_rows(column: &DigestColumn) -> u64 {
    column.payload.num_bytes() as u64 / 8
}

fn stream(source: &DigestColumn, groups: &[u8]) -> Vec<DigestColumn> {
    let mut fold = DigestFold::new(DELTA, source.channels(), SOURCE_ORDER, groups).unwrap();
    for index in 0..source.len() {
        fold.push_cell(source.cell(index)).unwrap();
    }
    fold.finish().unwrap()
}

fn kinds() -> [(&'static str, Channels); 3] {
    [(false, false), (true, false), (true, true)].map(|(located, temporal)| {
        let name = match (located, temporal) {
            (false, _) => "plain",
            (true, false) => "located",
            (true, true) => "located_temporal",
        };
        (name, Channels { located, temporal })
    })
}

fn streaming(criterion: &mut Criterion) {
    for (name, channels) in kinds() {
        let source = leaf(channels);
        let mut group = criterion.benchmark_group(format!("stream/{name}"));
        group.sample_size(10);
        group.throughput(Throughput::Elements(num_rows(&source)));
        group.bench_function("rows", |b| b.iter(|| stream(black_box(&source), &GROUPS)));
        group.bench_function("rows_finest_only", |b| {
            b.iter(|| stream(black_box(&source), &GROUPS[..1]));
        });
        group.throughput(Throughput::Elements(CELLS as u64));
        group.bench_function("digests", |b| {
            b.iter(|| stream(black_box(&source), &GROUPS))
        });
        group.finish();
    }
}

fn flat(criterion: &mut Criterion) {
    for (name, channels) in kinds() {
        let Some(boundary) = stream(&leaf(channels), &GROUPS).into_iter().next() else {
            continue;
        };
        let mut group = criterion.benchmark_group(format!("flat/{name}"));
        group.sample_size(20);
        group.throughput(Throughput::Elements(num_rows(&boundary)));
        for per_target in [4, 16, 64] {
            group.bench_function(format!("rows_{per_target}_to_1"), |b| {
                b.iter(|| fold_flat(black_box(&boundary), per_target, DELTA));
            });
        }
        group.finish();
    }
}

/// One sorted cell beside one row, so that there is hardly anything but the compression to do.
fn compress(criterion: &mut Criterion) {
    for (name, channels) in kinds() {
        let leaf = leaf(channels);
        let merged = fold_flat(&leaf, CELLS / 16, 1e9).unwrap();
        let mut source = DigestColumn::new(channels);
        for index in 0..merged.len() {
            source.push(merged.cell(index));
            source.push(leaf.cell(index));
        }
        let mut group = criterion.benchmark_group(format!("compress/{name}"));
        group.sample_size(20);
        group.throughput(Throughput::Elements(num_rows(&source)));
        group.bench_function("rows", |b| {
            b.iter(|| fold_flat(black_box(&source), 2, DELTA));
        });
        group.finish();
    }
}

fn totals(criterion: &mut Criterion) {
    let source = leaf(Channels::default());
    let mut group = criterion.benchmark_group("weight_total");
    group.throughput(Throughput::Elements(num_rows(&source)));
    group.bench_function("rows", |b| {
        b.iter(|| {
            let totals = source.payload.iter().map(weight_total);
            totals.sum::<Result<f64, _>>()
        });
    });
    group.finish();
}

criterion_group!(benches, streaming, flat, compress, totals);
criterion_main!(benches);
