//! A level folded in pieces, compared with the flat folds of all its cells at once.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kernels::tdigest::{DigestCell, fold_flat};
use crate::kernels::words::morton::Cell;
use crate::kernels::words::toc;

/// One source cell of every field of [`fields`]: total, least, and per digest row a mean, a
/// weight, a location and a time; and the packed word.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    total: f32,
    least: i16,
    rows: Vec<(f32, f32, u64, u64)>,
    packed: u64,
}

/// Fields of every class, as a manifest declares them.
pub(crate) fn declared() -> Value {
    json!({
        "total": {"class": "exact", "method": "sum", "dtype": "float32", "fill_value": "NaN"},
        "packed": {"class": "packed", "of": "plain"},
        "least": {"class": "exact", "method": "min", "dtype": "int16", "fill_value": -1},
        "plain": {"class": "approximate", "delta": 4},
        "both": {"class": "approximate", "delta": 7, "location": "leaf_id", "temporal": "shot"},
    })
}

/// The same.
pub(crate) fn fields() -> Vec<Field> {
    let parse = |(name, value): (&String, &_)| Field::parse(name, value).unwrap().unwrap();
    declared().as_object().unwrap().iter().map(parse).collect()
}

fn digests(sources: &[Source], channels: Channels) -> FieldCells {
    let mut column = DigestColumn::new(channels);
    for Source { rows, .. } in sources {
        let payload: Vec<u8> = rows
            .iter()
            .flat_map(|row| [row.0.to_le_bytes(), row.1.to_le_bytes()].concat())
            .collect();
        let locations: Vec<u8> = rows.iter().flat_map(|row| row.2.to_le_bytes()).collect();
        let times: Vec<u8> = rows.iter().flat_map(|row| row.3.to_le_bytes()).collect();
        column.push(DigestCell {
            payload: &payload,
            locations: Some(&locations),
            times: Some(&times),
        });
    }
    FieldCells::Digest(column)
}

/// The cells of every field of [`fields`].
pub(crate) fn cells(sources: &[Source]) -> Vec<FieldCells> {
    let bytes =
        |of: fn(&Source) -> Vec<u8>| FieldCells::Dense(sources.iter().flat_map(of).collect());
    let both = Channels {
        located: true,
        temporal: true,
    };
    vec![
        bytes(|source| source.total.to_le_bytes().to_vec()),
        bytes(|source| source.packed.to_le_bytes().to_vec()),
        bytes(|source| source.least.to_le_bytes().to_vec()),
        digests(sources, Channels::default()),
        digests(sources, both),
    ]
}

/// All cells at once, every `per_target` of them into one.
pub(crate) fn folded(sources: &[Source], per_target: usize) -> Vec<FieldCells> {
    let cells = cells(sources);
    let weights: Vec<f64> = sources
        .iter()
        .map(|source| source.rows.iter().map(|row| f64::from(row.1)).sum())
        .collect();
    let words: Vec<u64> = sources.iter().map(|source| source.packed).collect();
    let fold = |(field, column): (&Field, &FieldCells)| match (&field.class, column) {
        (FieldClass::Exact(exact), FieldCells::Dense(bytes)) => {
            let folded = dense::fold_flat(exact.method, exact.fill, bytes, per_target);
            FieldCells::Dense(folded.unwrap().into_bytes())
        }
        (FieldClass::Approximate(digest), FieldCells::Digest(column)) => {
            FieldCells::Digest(fold_flat(column, per_target, digest.budget).unwrap())
        }
        _ => packed_cells(&composition::fold_flat(&words, &weights, per_target).unwrap()),
    };
    fields().iter().zip(&cells).map(fold).collect()
}

/// A source cell, often empty.
pub(crate) fn any_source() -> impl Strategy<Value = Source> {
    // Whole weights, of which a sum is the same in any order.
    let row = (-50.0..50.0_f32, 1..5_u8, 0..4_u64.pow(5), 0..1_u64 << 50).prop_map(
        |(mean, weight, nested, time)| {
            let word = Cell::area(nested, 5).unwrap().pack();
            (mean, f32::from(weight), word, toc::timestamp(time).unwrap())
        },
    );
    let total = prop_oneof![Just(f32::NAN), -1e6..1e6_f32];
    let rows = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::vec(row, 1..9),
    ];
    (total, -3..3_i16, rows, any::<u64>()).prop_map(|(total, least, rows, packed)| Source {
        total,
        least,
        rows,
        packed,
    })
}

fn append(all: &mut [FieldCells], taken: &[FieldCells]) {
    all.iter_mut()
        .zip(taken)
        .for_each(|(all, taken)| all.append(taken));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_cutting_folds_as_all_at_once(
        sources in prop::collection::vec(any_source(), 60),
        per_target in prop::sample::select(&[1_usize, 2, 4, 5, 12, 60][..]),
        cuts in prop::collection::vec((0..=60_usize, any::<bool>()), 0..8),
    ) {
        let fields = fields();
        let mut fold = LevelFold::new(&fields, per_target).unwrap();
        let (mut n_taken, mut all) = (0, no_cells(&fields));
        let mut cuts = cuts;
        cuts.push((60, false));
        cuts.sort_unstable();
        let mut start = 0;
        for (end, take) in cuts {
            fold.push(&cells(&sources[start..end])).unwrap();
            start = end;
            if take {
                let (n_done, done) = fold.take();
                n_taken += n_done;
                prop_assert_eq!(n_taken, end / per_target);
                append(&mut all, &done);
            }
        }
        let (n_done, done) = fold.finish().unwrap();
        append(&mut all, &done);
        prop_assert_eq!(n_taken + n_done, 60 / per_target);
        prop_assert_eq!(all, folded(&sources, per_target));
    }

    #[test]
    fn a_cell_with_data_counts_once(sources in prop::collection::vec(any_source(), 30)) {
        let has_data = |source: &&Source| {
            !source.total.is_nan() || source.least != -1 || !source.rows.is_empty() || source.packed != 0
        };
        let expected = sources.iter().filter(has_data).count() as u64;
        prop_assert_eq!(cells_with_data(&fields(), &cells(&sources), 30), expected);
    }
}

/// A source cell of fill.
pub(crate) fn empty_source() -> Source {
    Source {
        total: f32::NAN,
        least: -1,
        rows: Vec::new(),
        packed: 0,
    }
}

#[test]
fn a_nan_of_other_bits_than_the_fill_is_no_data() {
    let negative = Source {
        total: f32::from_bits(0xffc0_0000),
        ..empty_source()
    };
    let infinite = Source {
        total: f32::INFINITY,
        ..empty_source()
    };
    let sources = [negative, infinite, empty_source()];
    assert_eq!(cells_with_data(&fields(), &cells(&sources), 3), 1);
}

#[test]
fn cells_of_fill_hold_no_data() {
    let fields = fields();
    let fill: Vec<FieldCells> = fields.iter().map(|field| field.fill_cells(3)).collect();
    assert_eq!(fill, cells(&vec![empty_source(); 3]));
    assert_eq!(cells_with_data(&fields, &fill, 3), 0);
    let widths = fields
        .iter()
        .map(|field| field.dense_fill().dtype().width());
    assert!(
        fill.iter()
            .zip(widths)
            .all(|(cells, width)| cells.n_cells(width) == 3)
    );
}

#[test]
fn an_unfinished_target_is_refused() {
    let fields = fields();
    let mut fold = LevelFold::new(&fields, 4).unwrap();
    fold.push(&cells(&vec![empty_source(); 6])).unwrap();
    assert_eq!(fold.take().0, 1);
    let error = fold.finish().unwrap_err();
    assert!(matches!(
        error,
        FoldError::Targets {
            cells: 6,
            per_target: 4
        }
    ));
    assert!(matches!(
        LevelFold::new(&fields, 0),
        Err(FoldError::Targets { .. })
    ));
}

#[test]
fn cells_that_do_not_fit_their_fields_are_refused_by_name() {
    let fields = fields();
    let push = |change: fn(&mut Vec<FieldCells>)| {
        let mut given = cells(&vec![empty_source(); 2]);
        change(&mut given);
        LevelFold::new(&fields, 4)
            .unwrap()
            .push(&given)
            .unwrap_err()
    };
    let short = push(|given| given[2] = FieldCells::Dense(vec![0; 2]));
    assert!(matches!(
        short,
        FoldError::Uneven {
            given: 1,
            expected: 2,
            ..
        }
    ));
    assert_eq!(short.array(), Some("least"));
    let torn = push(|given| given[2] = FieldCells::Dense(vec![0; 3]));
    assert!(matches!(torn, FoldError::Dense { .. }));
    let no_digest = push(|given| given[3] = FieldCells::Dense(vec![0; 16]));
    assert!(matches!(no_digest, FoldError::Class { ref array } if array == "plain"));
    let too_few = push(|given| given.truncate(4));
    assert!(matches!(too_few, FoldError::Class { ref array } if array == "both"));
    let companion_short = push(|given| {
        if let FieldCells::Digest(column) = &mut given[4] {
            column.times.as_mut().unwrap().truncate(1);
        }
    });
    assert!(matches!(companion_short, FoldError::Uneven { ref array, .. } if array == "both"));
}

#[test]
fn a_bad_digest_is_named_by_its_rank_among_all_cells() {
    let fields = fields();
    let mut fold = LevelFold::new(&fields, 4).unwrap();
    fold.push(&cells(&vec![empty_source(); 3])).unwrap();
    let mut bad = empty_source();
    bad.rows = vec![(
        1.0,
        0.0,
        Cell::area(1, 5).unwrap().pack(),
        toc::timestamp(1).unwrap(),
    )];
    let sources = [empty_source(), empty_source(), bad];
    let error = fold.push(&cells(&sources)).unwrap_err();
    assert!(
        matches!(error, FoldError::Digest { ref array, cell: 5, .. } if array == "plain"),
        "{error}"
    );
}
