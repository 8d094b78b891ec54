//! Throughput of the kernels that run once per cell or once per centroid.
#![allow(missing_docs, reason = "criterion's macros make an undocumented main")]
#![allow(clippy::unwrap_used, reason = "a bench may stop at a fault")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::json;
use std::hint::black_box;
use zagg_stream::kernels::composition::CompositionFold;
use zagg_stream::kernels::dense::{DenseFold, DenseType, ExactMethod};
use zagg_stream::kernels::groups::FoldGroups;
use zagg_stream::kernels::words::{morton, toc};

/// A leaf of 4^9 cells under four groups.
fn leaf_groups() -> FoldGroups {
    FoldGroups::new(15, 6, &[14, 13, 12, 11, 10, 9, 8, 7, 6]).unwrap()
}

/// Numbers without pattern, the same on every run (SplitMix64).
fn scatter(i: u64) -> u64 {
    let mut z = i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn dense(c: &mut Criterion) {
    let groups = leaf_groups();
    let cells = groups.source_cells();
    let mut bench = c.benchmark_group("dense");
    for (dtype, fill) in [
        (DenseType::Float32, json!("NaN")),
        (DenseType::Float64, json!("NaN")),
        (DenseType::Int32, json!(0)),
    ] {
        let fill = dtype.parse_fill(&fill).unwrap();
        let leaf_with = |holes: bool| -> Vec<u8> {
            let value = |i: u64| match dtype {
                _ if holes && scatter(i).is_multiple_of(3) => fill.repeated(1),
                DenseType::Float32 => (scatter(i) as f32).to_le_bytes().to_vec(),
                DenseType::Float64 => (scatter(i) as f64).to_le_bytes().to_vec(),
                _ => (scatter(i) as i32).to_le_bytes().to_vec(),
            };
            (0..cells).flat_map(value).collect()
        };
        for (shape, leaf) in [("full", leaf_with(false)), ("holes", leaf_with(true))] {
            bench.throughput(Throughput::Bytes(leaf.len() as u64));
            for method in [ExactMethod::Sum, ExactMethod::Min] {
                let name = format!("{method:?}/{}/{shape}", dtype.name());
                bench.bench_function(name, |b| {
                    b.iter(|| {
                        let mut fold = DenseFold::new(method, fill, &groups);
                        for slab in leaf.chunks(4096 * dtype.width()) {
                            fold.push(slab).unwrap();
                        }
                        fold.finish().unwrap()
                    });
                });
            }
        }
    }
    bench.finish();
}

fn composition(c: &mut Criterion) {
    let groups = leaf_groups();
    let cells: Vec<(u64, f64)> = (0..groups.source_cells())
        .map(|i| (scatter(i), (scatter(i + 7) % 500) as f64))
        .collect();
    let mut bench = c.benchmark_group("composition");
    bench.throughput(Throughput::Elements(cells.len() as u64));
    bench.bench_function("stream", |b| {
        b.iter(|| {
            let mut fold = CompositionFold::new(&groups);
            for &(word, weight_total) in &cells {
                fold.push_cell(word, weight_total);
            }
            fold.finish().unwrap()
        });
    });
    bench.finish();
}

fn words(c: &mut Criterion) {
    // Runs of points within one order-12 cell, as the rows of a merged centroid are.
    let cell = morton::Cell::area(1234 << 16, 12).unwrap();
    let points: Vec<u64> = (0..300)
        .map(|i| {
            let nested = (cell.nested() << 34) | (scatter(i) >> 30);
            morton::Cell::point(nested).unwrap().pack()
        })
        .collect();
    let areas: Vec<u64> = points
        .iter()
        .enumerate()
        .map(|(i, &word)| morton::coarsen(word, 24 + (i % 5) as u8).unwrap())
        .collect();

    let mut bench = c.benchmark_group("common_ancestor");
    for run in [10, 300] {
        bench.throughput(Throughput::Elements(run as u64));
        for (kind, words) in [("points", &points), ("mixed", &areas)] {
            bench.bench_with_input(BenchmarkId::new(kind, run), &words[..run], |b, words| {
                b.iter(|| morton::common_ancestor(black_box(words)).unwrap());
            });
        }
    }
    bench.finish();

    let times: Vec<u64> = (0..300)
        .map(|i| toc::timestamp(5_301_590_418_000_000_000 + (scatter(i) >> 14)).unwrap())
        .collect();
    let mut bench = c.benchmark_group("toc_merge");
    for run in [10, 300] {
        bench.throughput(Throughput::Elements(run as u64));
        bench.bench_with_input(
            BenchmarkId::from_parameter(run),
            &times[..run],
            |b, words| {
                b.iter(|| toc::merge_all(black_box(words)).unwrap());
            },
        );
    }
    bench.finish();

    let mut bench = c.benchmark_group("children");
    bench.throughput(Throughput::Elements(1 << 16));
    for order in [20, 29] {
        let parent = morton::Cell::area(99, order - 8).unwrap().pack();
        let mut out = Vec::with_capacity(1 << 16);
        bench.bench_function(BenchmarkId::from_parameter(order), |b| {
            b.iter(|| {
                out.clear();
                morton::children(black_box(parent), order)
                    .unwrap()
                    .append_to(&mut out);
                out.last().copied()
            });
        });
    }
    bench.finish();
}

criterion_group!(kernels, dense, composition, words);
criterion_main!(kernels);
