use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A dense type as the slow version sees it: the law of `format.md` section 6 over one row.
trait Slow: Copy {
    fn fold(method: ExactMethod, fill: Self, row: &[Self]) -> Self;
    fn le_bytes(values: &[Self]) -> Vec<u8>;
}

fn extreme<T: Copy + PartialOrd>(method: ExactMethod, present: &[T]) -> T {
    let mut best = present[0];
    for &value in present {
        if (method == ExactMethod::Min && value < best)
            || (method == ExactMethod::Max && value > best)
        {
            best = value;
        }
    }
    best
}

/// Pairwise by index, as the law words it.
fn pairwise<T: Copy + std::ops::Add<Output = T>>(negative_zero: T, a: &[T]) -> T {
    let n = a.len();
    if n < 8 {
        return a.iter().fold(negative_zero, |sum, &value| sum + value);
    }
    if n <= 128 {
        let mut r: Vec<T> = a[..8].to_vec();
        for i in 8..n - n % 8 {
            r[i % 8] = r[i % 8] + a[i];
        }
        let sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        return a[n - n % 8..].iter().fold(sum, |sum, &value| sum + value);
    }
    let half = n / 2 / 8 * 8;
    pairwise(negative_zero, &a[..half]) + pairwise(negative_zero, &a[half..])
}

macro_rules! slow {
    ($($native:ty: $missing:expr, $sum:expr;)+) => {$(
        impl Slow for $native {
            fn fold(method: ExactMethod, fill: Self, row: &[Self]) -> Self {
                let missing = |value: Self| $missing(value) || value == fill;
                let present: Vec<Self> = row.iter().copied().filter(|&v| !missing(v)).collect();
                if present.is_empty() {
                    return fill;
                }
                match method {
                    ExactMethod::Sum => {
                        let zeroed: Vec<Self> = row
                            .iter()
                            .map(|&v| if missing(v) { 0 as Self } else { v })
                            .collect();
                        $sum(&zeroed)
                    }
                    _ => extreme(method, &present),
                }
            }

            fn le_bytes(values: &[Self]) -> Vec<u8> {
                values.iter().flat_map(|value| value.to_le_bytes()).collect()
            }
        }
    )+};
}

slow! {
    f32: f32::is_nan, |row: &[f32]| 0.0 + pairwise(-0.0, row);
    f64: f64::is_nan, |row: &[f64]| 0.0 + pairwise(-0.0, row);
    i8: |_| false, |row: &[i8]| row.iter().fold(0, |sum: i8, &v| sum.wrapping_add(v));
    u16: |_| false, |row: &[u16]| row.iter().fold(0, |sum: u16, &v| sum.wrapping_add(v));
    i32: |_| false, |row: &[i32]| row.iter().fold(0, |sum: i32, &v| sum.wrapping_add(v));
    u64: |_| false, |row: &[u64]| row.iter().fold(0, |sum: u64, &v| sum.wrapping_add(v));
}

/// Values drawn from a few awkward ones and a range, over a leaf with holes of every size.
fn a_leaf<T: Copy + std::fmt::Debug + 'static>(
    depth: u32,
    fill: T,
    values: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<T>> {
    let cells = 4usize.pow(depth);
    let holes = prop::collection::vec((0..cells, 1..=cells.min(700)), 0..6);
    (prop::collection::vec(values, cells), holes).prop_map(move |(mut leaf, holes)| {
        for (from, len) in holes {
            // Aligned, so that whole targets are missing too.
            let from = from / len * len;
            for value in leaf.iter_mut().skip(from).take(len) {
                *value = fill;
            }
        }
        leaf
    })
}

fn methods() -> impl Strategy<Value = ExactMethod> {
    prop::sample::select(vec![ExactMethod::Sum, ExactMethod::Min, ExactMethod::Max])
}

/// Streams a leaf in uneven slabs and compares every group with rows folded in one piece.
fn check<T: Slow>(
    method: ExactMethod,
    dtype: &str,
    fill_json: &Value,
    fill: T,
    leaf: &[T],
    finest_depth: u8,
    slab_seed: usize,
) {
    let depth = leaf.len().ilog2() as u8 / 2;
    let (cell_order, block_order) = (3 + depth, 3);
    let finest = cell_order - finest_depth.clamp(1, depth);
    let orders: Vec<u8> = (block_order..=finest).rev().collect();
    let groups = FoldGroups::new(cell_order, block_order, &orders).unwrap();
    let fill_value = DenseType::from_name(dtype)
        .unwrap()
        .parse_fill(fill_json)
        .unwrap();
    let mut fold = DenseFold::new(method, fill_value, &groups);
    let piece = leaf.len().min(256);
    let mut rest = leaf;
    let mut slab = slab_seed;
    while !rest.is_empty() {
        let take = (slab % 5 + 1).min(rest.len() / piece) * piece;
        fold.push(&T::le_bytes(&rest[..take])).unwrap();
        rest = &rest[take..];
        slab = slab * 7 + 3;
    }
    let columns = fold.finish().unwrap();
    assert_eq!(columns.len(), orders.len());
    for (column, &order) in columns.iter().zip(&orders) {
        let per_target = 4usize.pow(u32::from(cell_order - order));
        let rows = leaf.chunks(per_target);
        let expected: Vec<T> = rows.map(|row| T::fold(method, fill, row)).collect();
        assert_eq!(
            column.bytes(),
            T::le_bytes(&expected),
            "{method:?} {dtype} order {order}"
        );
        let flat = fold_flat(method, fill_value, &T::le_bytes(leaf), per_target).unwrap();
        assert_eq!(&flat, column);
    }
}

fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => -1e6..1e6f64,
        1 => Just(0.0),
        1 => Just(-0.0),
        1 => Just(f64::NAN),
        1 => prop::sample::select(vec![1e30, -1e30, 1e-30, 7.0]),
    ]
}

fn zeros() -> impl Strategy<Value = f64> {
    prop::sample::select(vec![0.0, -0.0, -0.0, -0.0, f64::NAN])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn float64_groups_equal_whole_rows(
        (method, finest, seed) in (methods(), 1u8..7, 0usize..100),
        leaf in (1u32..7).prop_flat_map(|depth| a_leaf(depth, f64::NAN, floats())),
    ) {
        check(method, "float64", &json!("NaN"), f64::NAN, &leaf, finest, seed);
    }

    #[test]
    fn float32_groups_equal_whole_rows(
        (method, finest, seed) in (methods(), 1u8..7, 0usize..100),
        leaf in (1u32..7).prop_flat_map(|depth| a_leaf(depth, 7.0, floats().prop_map(|v| v as f32))),
    ) {
        check(method, "float32", &json!(7), 7.0f32, &leaf, finest, seed);
    }

    #[test]
    fn signed_zeros_come_out_as_of_whole_rows(
        (method, finest, seed) in (methods(), 1u8..7, 0usize..100),
        leaf in (1u32..7).prop_flat_map(|depth| a_leaf(depth, f64::NAN, zeros())),
    ) {
        check(method, "float64", &json!("NaN"), f64::NAN, &leaf, finest, seed);
    }

    #[test]
    fn infinities_are_present(
        method in methods(),
        leaf in a_leaf(5, f64::NAN, prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN])),
    ) {
        // A sum of both infinities is a NaN of unspecified bits; one sign at a time is not.
        let positive: Vec<f64> = leaf.iter().map(|v| v.abs()).collect();
        let negative: Vec<f64> = leaf.iter().map(|v| -v.abs()).collect();
        let positive: Vec<f64> = positive.iter().map(|&v| if v.is_nan() { f64::NAN } else { v }).collect();
        check(method, "float64", &json!("NaN"), f64::NAN, &positive, 1, 1);
        check(method, "float64", &json!("NaN"), f64::NAN, &negative, 1, 1);
    }

    #[test]
    fn integer_groups_equal_whole_rows(
        (method, finest, seed) in (methods(), 1u8..7, 0usize..100),
        small in (1u32..7).prop_flat_map(|depth| a_leaf(depth, -1i8, any::<i8>())),
        short in (1u32..6).prop_flat_map(|depth| a_leaf(depth, 0u16, 0u16..4)),
        word in (1u32..6).prop_flat_map(|depth| a_leaf(depth, i32::MIN, any::<i32>())),
        long in (1u32..6).prop_flat_map(|depth| a_leaf(depth, u64::MAX, any::<u64>())),
    ) {
        check(method, "int8", &json!(-1), -1i8, &small, finest, seed);
        check(method, "uint16", &json!(0), 0u16, &short, finest, seed);
        check(method, "int32", &json!(i32::MIN), i32::MIN, &word, finest, seed);
        check(method, "uint64", &json!(u64::MAX), u64::MAX, &long, finest, seed);
    }

    #[test]
    fn flat_folds_take_rows_of_any_length(
        method in methods(),
        per_target in 1usize..700,
        rows in 0usize..4,
        seed in prop::collection::vec(floats(), 700 * 4),
    ) {
        let values = &seed[..per_target * rows];
        let fill = DenseType::Float64.parse_fill(&json!("NaN")).unwrap();
        let made = fold_flat(method, fill, &f64::le_bytes(values), per_target).unwrap();
        let expected: Vec<f64> = values
            .chunks(per_target)
            .map(|row| f64::fold(method, f64::NAN, row))
            .collect();
        prop_assert_eq!(made.bytes(), f64::le_bytes(&expected));
    }

    #[test]
    fn unwritten_cells_fold_as_fill(method in methods(), filled in prop::collection::vec(any::<bool>(), 16)) {
        let fill = DenseType::Int32.parse_fill(&json!(0)).unwrap();
        let groups = FoldGroups::new(9, 3, &[7, 6, 5, 4, 3]).unwrap();
        let (mut spelled, mut skipped) =
            (DenseFold::new(method, fill, &groups), DenseFold::new(method, fill, &groups));
        for (i, filled) in filled.into_iter().enumerate() {
            let value = if filled { 0 } else { i as i32 - 5 };
            let slab = i32::le_bytes(&[value; 256]);
            spelled.push(&slab).unwrap();
            if filled {
                skipped.push_fill(256).unwrap();
            } else {
                skipped.push(&slab).unwrap();
            }
        }
        prop_assert_eq!(spelled.finish().unwrap(), skipped.finish().unwrap());
    }
}

#[test]
fn a_sum_of_negative_zeros_is_stored_as_zero() {
    let fill = DenseType::Float32.parse_fill(&json!("NaN")).unwrap();
    for per_target in [1, 4, 16, 1024] {
        let bytes = f32::le_bytes(&vec![-0.0; per_target]);
        let folded = fold_flat(ExactMethod::Sum, fill, &bytes, per_target).unwrap();
        assert_eq!(folded.bytes(), 0.0f32.to_le_bytes());
    }
}

#[test]
fn the_first_of_equal_zeros_is_kept() {
    let fill = DenseType::Float64.parse_fill(&json!("NaN")).unwrap();
    for method in [ExactMethod::Min, ExactMethod::Max] {
        for first in [0.0, -0.0] {
            let row = [f64::NAN, first, -first, first];
            let folded = fold_flat(method, fill, &f64::le_bytes(&row), 4).unwrap();
            assert_eq!(folded.bytes(), first.to_le_bytes());
        }
    }
}

#[test]
fn names_are_one_list() {
    for dtype in DenseType::ALL {
        assert_eq!(DenseType::from_name(dtype.name()), Ok(dtype));
        assert_eq!(serde_json::to_value(dtype).unwrap(), json!(dtype.name()));
        assert_eq!(
            dtype.parse_fill(&json!(0)).unwrap().repeated(3),
            vec![0; 3 * dtype.width()]
        );
    }
    assert!(DenseType::from_name("complex64").is_err());
    assert_eq!(
        serde_json::from_value::<ExactMethod>(json!("min")).unwrap(),
        ExactMethod::Min
    );
}

#[test]
fn fill_values_are_read_as_zarr_spells_them() {
    use DenseType::*;
    let accepted = [
        (Float32, json!("NaN"), 0x7fc0_0000),
        (Float64, json!("NaN"), 0x7ff8_0000_0000_0000),
        (Float32, json!("-Infinity"), 0xff80_0000),
        (Float64, json!("Infinity"), 0x7ff0_0000_0000_0000),
        (Float32, json!(1.5), 0x3fc0_0000),
        (Float64, json!(-0.0), 0x8000_0000_0000_0000),
        (Float32, json!("0x7fc00001"), 0x7fc0_0001),
        (Float64, json!("0x7FF8000000000001"), 0x7ff8_0000_0000_0001),
        (Int8, json!(-128), 0x80),
        (Int64, json!(i64::MIN), 1 << 63),
        (Uint64, json!(u64::MAX), u64::MAX),
        (Int32, json!(-0.0), 0),
        (Uint16, json!(3.0), 3),
    ];
    for (dtype, value, bits) in accepted {
        let fill = dtype.parse_fill(&value).unwrap();
        assert_eq!((fill.dtype(), fill.bits()), (dtype, bits), "{value}");
    }
    let refused = [
        (Int8, json!(128)),
        (Uint8, json!(-1)),
        (Int64, json!(u64::MAX)),
        (Int32, json!(0.5)),
        (Uint64, json!(1.8446744073709552e19)),
        (Int32, json!("NaN")),
        (Int32, json!("0x00000000")),
        (Float32, json!(1e300)),
        (Float32, json!("0x7fc000")),
        (Float32, json!("0x+fc00001")),
        (Float32, json!("nan")),
        (Float64, json!(null)),
        (Float64, json!(true)),
    ];
    for (dtype, value) in refused {
        let error = DenseError::Fill {
            dtype,
            value: value.clone(),
        };
        assert_eq!(dtype.parse_fill(&value), Err(error), "{value}");
    }
}

#[test]
fn a_sum_of_both_infinities_is_the_nan_of_the_fill_or_else_the_common_one() {
    let mut leaf = vec![1.0f64; 16];
    (leaf[0], leaf[1]) = (f64::INFINITY, f64::NEG_INFINITY);
    let narrow: Vec<f32> = leaf.iter().map(|&value| value as f32).collect();
    let (wide, narrow) = (f64::le_bytes(&leaf), f32::le_bytes(&narrow));
    let groups = FoldGroups::new(6, 4, &[5, 4]).unwrap();
    for (dtype, bytes, fill, due) in [
        (DenseType::Float32, &narrow, json!("NaN"), 0x7fc0_0000),
        (DenseType::Float32, &narrow, json!(0), 0x7fc0_0000),
        (
            DenseType::Float32,
            &narrow,
            json!("0xffc00001"),
            0xffc0_0001,
        ),
        (
            DenseType::Float64,
            &wide,
            json!("NaN"),
            0x7ff8_0000_0000_0000,
        ),
        (DenseType::Float64, &wide, json!(-1), 0x7ff8_0000_0000_0000),
    ] {
        let fill_value = dtype.parse_fill(&fill).unwrap();
        let due = &u64::to_le_bytes(due)[..dtype.width()];
        let mut fold = DenseFold::new(ExactMethod::Sum, fill_value, &groups);
        fold.push(bytes).unwrap();
        for column in fold.finish().unwrap() {
            assert_eq!(&column.bytes()[..dtype.width()], due, "{dtype:?} {fill}");
        }
        let flat = fold_flat(ExactMethod::Sum, fill_value, bytes, 4).unwrap();
        assert_eq!(&flat.bytes()[..dtype.width()], due, "{dtype:?} {fill}");
        assert!(flat.is_missing(0) && flat.count_present() == 3);
        assert_eq!(
            fill_value.missing_of(flat.bytes()),
            [true, false, false, false]
        );
    }
}

#[test]
fn a_column_knows_fill_from_missing() {
    let nan = DenseType::Float32.parse_fill(&json!("NaN")).unwrap();
    let column = DenseColumn::new(nan, f32::le_bytes(&[f32::NAN, -f32::NAN, 0.0])).unwrap();
    assert_eq!(column.n_cells(), 3);
    assert!(column.all_fill(0..2) && !column.all_fill(0..3) && !column.is_fill(3));
    assert_eq!(column.count_present(), 1);

    let zero = DenseType::Float32.parse_fill(&json!(0)).unwrap();
    let column = DenseColumn::new(zero, f32::le_bytes(&[0.0, f32::NAN, -0.0, 1.0])).unwrap();
    let is_fill: Vec<bool> = (0..4).map(|cell| column.is_fill(cell)).collect();
    assert_eq!(is_fill, [true, false, false, false]);
    assert_eq!(column.count_present(), 1);
    assert!(DenseColumn::new(zero, vec![0; 5]).is_err());
}

#[test]
fn a_wrong_number_of_cells_is_refused() {
    let fill = DenseType::Uint8.parse_fill(&json!(0)).unwrap();
    let groups = FoldGroups::new(6, 1, &[5, 1]).unwrap();
    let mut fold = DenseFold::new(ExactMethod::Sum, fill, &groups);
    let length = DenseError::Length {
        num_bytes: 255,
        piece_bytes: 256,
    };
    assert_eq!(fold.push(&[0; 255]), Err(length.clone()));
    assert_eq!(fold.push_fill(255), Err(length));
    let count = DenseError::CellCount {
        given: 1280,
        expected: 1024,
    };
    assert_eq!(fold.push(&[0; 1280]), Err(count.clone()));
    assert_eq!(fold.push_fill(1280), Err(count));
    fold.push(&[1; 768]).unwrap();
    let count = DenseError::CellCount {
        given: 768,
        expected: 1024,
    };
    assert_eq!(fold.finish(), Err(count));
    assert!(fold_flat(ExactMethod::Sum, fill, &[0; 5], 2).is_err());
    assert!(fold_flat(ExactMethod::Sum, fill, &[], 0).is_err());
}
