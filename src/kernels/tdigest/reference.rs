//! The law as `format.md` section 6 states it, slow and obvious, and the inputs to compare it on.

use std::cmp::Ordering;
use std::f64::consts::PI;

use proptest::prelude::*;

use super::cell::{Channels, DigestCell, DigestColumn};

/// Mean, weight, location, time; the words of undeclared companions are 0.
pub(super) type RefRow = (f32, f32, u64, u64);
pub(super) type RefCell = Vec<RefRow>;

/// A row of which also the sign of a zero can be compared.
pub(super) type Bits = (u32, u32, u64, u64);

/// Budgets worth a look: none, few, and as many steps as are used.
pub(super) const DELTAS: &[f64] = &[0.5, 1.0, 2.0, 3.0, 6.0, 20.0, 100.0, 512.0];

pub(super) fn compare(x: &RefRow, y: &RefRow) -> Ordering {
    x.0.partial_cmp(&y.0)
        .unwrap()
        .then(x.1.partial_cmp(&y.1).unwrap())
        .then(x.2.cmp(&y.2))
        .then(x.3.cmp(&y.3))
}

pub(super) fn running_sum(weights: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    weights
        .iter()
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect()
}

pub(super) fn centroid_ends(weights: &[f64], delta: f64) -> Vec<usize> {
    let k = |q: f64| delta * ((2.0 * q.clamp(0.0, 1.0) - 1.0).asin() / PI + 0.5);
    let cumulative = running_sum(weights);
    let total = cumulative[cumulative.len() - 1];
    let right: Vec<f64> = cumulative.iter().map(|sum| k(sum / total)).collect();
    let mut ends = Vec::new();
    let mut start = 0;
    for row in 0..weights.len() {
        let left = if start == 0 { k(0.0) } else { right[start - 1] };
        if row > start && right[row] > left + 1.0 {
            ends.push(row);
            start = row;
        }
    }
    ends.push(weights.len());
    ends
}

fn pairwise(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 8 {
        return values.iter().fold(-0.0, |sum, value| sum + value);
    }
    if n <= 128 {
        let mut r: Vec<f64> = values[..8].to_vec();
        for i in 8..n - n % 8 {
            r[i % 8] += values[i];
        }
        let mut sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for value in &values[n - n % 8..] {
            sum += value;
        }
        return sum;
    }
    let half = n / 2 / 8 * 8;
    pairwise(&values[..half]) + pairwise(&values[half..])
}

/// Base cell and digits of a word, and whether it is a point.
fn path(word: u64) -> (u64, Vec<u64>) {
    let body = (1..=27).map(|order| word >> (60 - 2 * order) & 3);
    let suffix = word & 63;
    let mut digits: Vec<u64> = body.collect();
    match suffix {
        0..28 => digits.truncate(suffix as usize),
        28..48 => {
            digits.push((suffix - 28) / 5);
            if !(suffix - 28).is_multiple_of(5) {
                digits.push((suffix - 28) % 5 - 1);
            }
        }
        _ => digits.extend([(suffix - 48) / 4, suffix % 4]),
    }
    (word >> 60, digits)
}

/// The area word of a nested index.
pub(super) fn area(nested: u64, order: u32) -> u64 {
    match order {
        0..28 => (4_u64.pow(order) + nested) << (60 - 2 * order) | u64::from(order),
        28 => (4_u64.pow(27) + (nested >> 2)) << 6 | (28 + 5 * (nested & 3)),
        _ => (4_u64.pow(27) + (nested >> 4)) << 6 | (29 + 5 * (nested >> 2 & 3) + (nested & 3)),
    }
}

pub(super) fn common_ancestor(words: &[u64]) -> u64 {
    if let [word] = words {
        return *word;
    }
    let (prefix, mut shared) = path(words[0]);
    for word in words {
        let (_, digits) = path(*word);
        let same = shared.iter().zip(&digits).take_while(|(a, b)| a == b);
        shared.truncate(same.count());
    }
    let nested = shared
        .iter()
        .fold(prefix - 1, |nested, digit| nested * 4 + digit);
    area(nested, shared.len() as u32)
}

fn join_times(words: &[u64]) -> u64 {
    let end = |word: u64| match word >> 31 & 1 {
        1 => (word >> 33) + 1,
        _ => word & 0x7fff_ffff,
    };
    let merge = |x: u64, y: u64| match x == y {
        true => x,
        false => (x >> 32).min(y >> 32) << 32 | end(x).max(end(y)),
    };
    words.iter().copied().reduce(merge).unwrap()
}

fn merge(children: &[&RefCell], delta: f64, channels: Channels) -> RefCell {
    let mut rows: RefCell = children.iter().copied().flatten().copied().collect();
    rows.sort_by(compare);
    let weights: Vec<f64> = rows.iter().map(|row| f64::from(row.1)).collect();
    let products: Vec<f64> = rows
        .iter()
        .map(|row| f64::from(row.0) * f64::from(row.1))
        .collect();
    let mut start = 0;
    let mut merged = RefCell::new();
    for end in centroid_ends(&weights, delta) {
        let sum = |values: &[f64]| values[start] + pairwise(&values[start + 1..end]);
        let (weight, product) = (sum(&weights), sum(&products));
        let words = |of: fn(&RefRow) -> u64| rows[start..end].iter().map(of).collect::<Vec<_>>();
        merged.push((
            (product / weight) as f32,
            weight as f32,
            if channels.located {
                common_ancestor(&words(|row| row.2))
            } else {
                0
            },
            if channels.temporal {
                join_times(&words(|row| row.3))
            } else {
                0
            },
        ));
        start = end;
    }
    merged
}

pub(super) fn fold(
    cells: &[RefCell],
    per_target: usize,
    delta: f64,
    channels: Channels,
) -> Vec<Vec<Bits>> {
    let declared = |row: &RefRow| {
        let location = if channels.located { row.2 } else { 0 };
        let time = if channels.temporal { row.3 } else { 0 };
        (row.0, row.1, location, time)
    };
    let cells: Vec<RefCell> = cells
        .iter()
        .map(|cell| cell.iter().map(declared).collect())
        .collect();
    cells
        .chunks(per_target)
        .map(|children| {
            let filled: Vec<&RefCell> = children.iter().filter(|cell| !cell.is_empty()).collect();
            match filled[..] {
                [] => Vec::new(),
                [only] => bits(only),
                _ => bits(&merge(&filled, delta, channels)),
            }
        })
        .collect()
}

pub(super) fn bits(cell: &RefCell) -> Vec<Bits> {
    cell.iter()
        .map(|row| (row.0.to_bits(), row.1.to_bits(), row.2, row.3))
        .collect()
}

pub(super) fn column(cells: &[RefCell], channels: Channels) -> DigestColumn {
    let mut column = DigestColumn::new(channels);
    for cell in cells {
        let bytes = |of: fn(&RefRow) -> [u8; 8]| cell.iter().flat_map(of).collect::<Vec<u8>>();
        column.push(DigestCell {
            payload: &bytes(|row| {
                let (mean, weight) = (row.0.to_le_bytes(), row.1.to_le_bytes());
                [mean, weight].concat().try_into().unwrap()
            }),
            locations: Some(&bytes(|row| row.2.to_le_bytes())),
            times: Some(&bytes(|row| row.3.to_le_bytes())),
        });
    }
    column
}

pub(super) fn cells(column: &DigestColumn) -> Vec<Vec<Bits>> {
    let word = |bytes: Option<&[u8]>, row: usize| {
        bytes.map_or(0, |bytes| {
            u64::from_le_bytes(bytes[8 * row..8 * row + 8].try_into().unwrap())
        })
    };
    (0..column.len())
        .map(|index| {
            let cell = column.cell(index);
            (0..cell.payload.len() / 8)
                .map(|row| {
                    let pair = word(Some(cell.payload), row);
                    (
                        pair as u32,
                        (pair >> 32) as u32,
                        word(cell.locations, row),
                        word(cell.times, row),
                    )
                })
                .collect()
        })
        .collect()
}

/// A word of base cell 4 of any order and kind, in one of the first 2^`bits` cells of order 29.
fn location_within(bits: u32) -> impl Strategy<Value = u64> {
    let order = prop_oneof![6 => 28..31_u32, 2 => 25..28_u32, 1 => 0..25_u32];
    (0..1_u64 << bits, order).prop_map(|(within, order)| {
        let nested = 4 * 4_u64.pow(29) + within;
        match order {
            30 => (4_u64.pow(27) + (nested >> 4)) << 6 | (48 + (nested & 15)),
            _ => area(nested >> (2 * (29 - order)), order),
        }
    })
}

/// A word of base cell 4, of any order and kind.
fn any_location() -> impl Strategy<Value = u64> {
    prop_oneof![Just(area(4, 0)), location_within(4), location_within(58)]
}

/// Words of base cell 4 that share few or many orders.
pub(super) fn any_locations() -> impl Strategy<Value = Vec<u64>> {
    prop::sample::select(&[0, 1, 2, 4, 6, 10, 40, 58][..])
        .prop_flat_map(|bits| prop::collection::vec(location_within(bits), 1..8))
}

/// Exact times and ranges, some of them the same.
pub(super) fn any_time() -> impl Strategy<Value = u64> {
    let exact = |t: u64| t >> 31 << 32 | 1 << 31 | (t & 0x7fff_ffff);
    prop_oneof![
        (0..4_u64).prop_map(move |t| exact(5_301_590_418_000_000_000 + t)),
        (0..9_223_372_032_559_808_512_u64).prop_map(exact),
        (0..1_u64 << 62, 0..1_u64 << 40).prop_map(|(a, length)| {
            let b = a + length;
            a >> 31 << 32 | ((b >> 32) + 1)
        }),
    ]
}

/// A legal row; equal ones and zeros of both signs are common.
pub(super) fn any_row() -> impl Strategy<Value = RefRow> {
    let mean = prop_oneof![
        3 => prop::sample::select(&[-0.0_f32, 0.0, 1.5, -1.5, f32::MIN_POSITIVE][..]),
        3 => -100.0..100.0_f32,
        1 => any::<f32>().prop_filter("finite", |mean| mean.is_finite()),
    ];
    let weight = prop_oneof![
        4 => prop::sample::select(&[1.0_f32, 2.0, 3.0][..]),
        2 => 0.001..1e5_f32,
        1 => (1..0x7e00_0000_u32).prop_map(f32::from_bits),
    ];
    (mean, weight, any_location(), any_time())
}

/// `count` cells, many of them empty or with one row; in some cases nearly all.
pub(super) fn any_cells(count: usize) -> impl Strategy<Value = Vec<RefCell>> {
    (0..4_usize).prop_flat_map(move |fill| {
        let cell = prop_oneof![
            4 => Just(RefCell::new()).boxed(),
            fill as u32 => prop::collection::vec(any_row(), 0..10).boxed(),
            1 => prop::collection::vec(any_row(), 0..2).boxed(),
        ];
        let sparse = prop::collection::vec(cell, count);
        (sparse, 0..5_usize).prop_map(|(mut cells, only)| {
            if only == 0 {
                let kept = cells.len() / 3;
                for (index, cell) in cells.iter_mut().enumerate() {
                    if index != kept {
                        cell.clear();
                    }
                }
            }
            cells
        })
    })
}
