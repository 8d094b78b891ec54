//! What every group must have in common with what it was folded from: sums of whole
//! numbers, extremes, and the weights of digests. Reckoned cell by cell and apart from the
//! fold kernels, so that a fault of those does not hide itself.

use serde_json::{Value, json};

use crate::kernels::cells::FieldCells;
use crate::kernels::dense::{DenseType, ExactMethod, FillValue};
use crate::kernels::ragged::RaggedColumn;
use crate::pyramid::{Field, FieldClass};

/// Bytes of a digest's row, a mean and a weight.
const ROW_BYTES: usize = 8;

/// A merge stores the sum of weights as one float32, which is off by half of its last
/// place at most.
const FLOAT32_ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;

/// The same of each addition in float64.
const FLOAT64_ROUNDING: f64 = 1.0 / (1u64 << 53) as f64;

/// What the cells of one field come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Tally {
    /// Nothing that is kept by a fold.
    Nothing,
    /// Sum of whole numbers, which wraps at so many bits.
    Sum { total: u64, bits: u32 },
    /// The least or the greatest number; none when every cell is missing.
    Extreme { of: Extreme, value: Option<Number> },
    /// Sum of the weights of so many centroids.
    Weight { total: f64, n_centroids: u64 },
}

/// Which extreme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extreme {
    /// The least.
    Least,
    /// The greatest.
    Greatest,
}

/// A number of any dense type.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) enum Number {
    /// A whole number.
    Whole(i128),
    /// A float.
    Float(f64),
}

impl Tally {
    /// That of no cells of a field.
    ///
    /// A sum that happens to equal its fill is missing to the next fold, so only sums
    /// whose fill is 0 are kept.
    pub(super) fn none(field: &Field) -> Self {
        match &field.class {
            FieldClass::Exact(exact) => {
                let dtype = exact.fill.dtype();
                let is_float = matches!(dtype, DenseType::Float32 | DenseType::Float64);
                let of = match exact.method {
                    ExactMethod::Sum if is_float || exact.fill.bits() != 0 => return Self::Nothing,
                    ExactMethod::Sum => {
                        let bits = u8::BITS * dtype.width() as u32;
                        return Self::Sum { total: 0, bits };
                    }
                    ExactMethod::Min => Extreme::Least,
                    ExactMethod::Max => Extreme::Greatest,
                };
                Self::Extreme { of, value: None }
            }
            FieldClass::Approximate(_) => Self::Weight {
                total: 0.0,
                n_centroids: 0,
            },
            FieldClass::Packed(_) => Self::Nothing,
        }
    }

    /// Takes the next cells of the field.
    pub(super) fn push(&mut self, field: &Field, cells: &FieldCells) {
        match (self, cells) {
            (Self::Weight { total, n_centroids }, FieldCells::Digest(digests)) => {
                for weight in weights(&digests.payload) {
                    *total += weight;
                    *n_centroids += 1;
                }
            }
            (Self::Sum { total, .. }, FieldCells::Dense(bytes)) => {
                for number in present(field.dense_fill(), bytes) {
                    if let Number::Whole(number) = number {
                        *total = total.wrapping_add(number as u64);
                    }
                }
            }
            (Self::Extreme { of, value }, FieldCells::Dense(bytes)) => {
                for number in present(field.dense_fill(), bytes) {
                    *value = of.of(*value, Some(number));
                }
            }
            _ => {}
        }
    }

    /// Adds what other cells of the field come to.
    pub(super) fn add(&mut self, other: &Self) {
        match (self, *other) {
            (Self::Sum { total, .. }, Self::Sum { total: more, .. }) => {
                *total = total.wrapping_add(more);
            }
            (Self::Extreme { of, value }, Self::Extreme { value: more, .. }) => {
                *value = of.of(*value, more);
            }
            (
                Self::Weight { total, n_centroids },
                Self::Weight {
                    total: more,
                    n_centroids: n_more,
                },
            ) => {
                *total += more;
                *n_centroids += n_more;
            }
            _ => {}
        }
    }

    /// What sets `folded` apart from this, its source, when so many merges at most lie
    /// between them; `None` when nothing does.
    pub(super) fn lost(&self, folded: &Self, merges: u8) -> Option<Lost> {
        let (expected, got, bound) = match (*self, *folded) {
            (Self::Sum { total, bits }, Self::Sum { total: got, .. }) => {
                let mask = u64::MAX >> (u64::BITS - bits);
                (json!(total & mask), json!(got & mask), None)
            }
            (Self::Extreme { value, .. }, Self::Extreme { value: got, .. }) => {
                if value == got {
                    return None;
                }
                (to_json(value), to_json(got), None)
            }
            (
                Self::Weight { total, n_centroids },
                Self::Weight {
                    total: got,
                    n_centroids: n_got,
                },
            ) => {
                let additions = (n_centroids + n_got) as f64 * FLOAT64_ROUNDING;
                let bound = total.abs() * (f64::from(merges) * FLOAT32_ROUNDING + additions);
                if (got - total).abs() <= bound {
                    return None;
                }
                (json!(total), json!(got), Some(bound))
            }
            _ => return None,
        };
        (expected != got).then_some(Lost {
            expected,
            got,
            bound,
        })
    }
}

/// What a fold did not keep.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lost {
    /// What the source comes to.
    pub expected: Value,
    /// What the fold comes to.
    pub got: Value,
    /// How far weights may be apart; `None` of what is exact.
    pub bound: Option<f64>,
}

impl Extreme {
    fn of(self, a: Option<Number>, b: Option<Number>) -> Option<Number> {
        let (Some(a), Some(b)) = (a, b) else {
            return a.or(b);
        };
        let takes_b = match self {
            Self::Least => b < a,
            Self::Greatest => b > a,
        };
        Some(if takes_b { b } else { a })
    }
}

fn to_json(number: Option<Number>) -> Value {
    match number {
        None => Value::Null,
        Some(Number::Float(number)) => json!(number),
        Some(Number::Whole(number)) => match (i64::try_from(number), u64::try_from(number)) {
            (Ok(number), _) => json!(number),
            (_, Ok(number)) => json!(number),
            (Err(_), Err(_)) => json!(number.to_string()),
        },
    }
}

/// The numbers that are neither NaN nor the fill.
fn present(fill: FillValue, bytes: &[u8]) -> impl Iterator<Item = Number> + '_ {
    let dtype = fill.dtype();
    let missing = fill.repeated(1);
    let missing = number(dtype, &missing);
    let numbers = bytes
        .chunks_exact(dtype.width())
        .filter_map(move |bytes| number(dtype, bytes));
    numbers.filter(move |number| Some(*number) != missing)
}

/// A little-endian number; `None` for NaN.
fn number(dtype: DenseType, bytes: &[u8]) -> Option<Number> {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let unused = u64::BITS - u8::BITS * dtype.width() as u32;
    let float = match dtype {
        DenseType::Float32 => f64::from(f32::from_bits(bits as u32)),
        DenseType::Float64 => f64::from_bits(bits),
        DenseType::Int8 | DenseType::Int16 | DenseType::Int32 | DenseType::Int64 => {
            let signed = (bits << unused).cast_signed() >> unused;
            return Some(Number::Whole(i128::from(signed)));
        }
        _ => return Some(Number::Whole(i128::from(bits))),
    };
    (!float.is_nan()).then_some(Number::Float(float))
}

fn weights(payload: &RaggedColumn) -> impl Iterator<Item = f64> + '_ {
    let rows = payload.iter().flat_map(|cell| cell.chunks_exact(ROW_BYTES));
    rows.filter_map(|row| {
        let weight: [u8; 4] = row[4..].try_into().ok()?;
        Some(f64::from(f32::from_le_bytes(weight)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(value: Value) -> Field {
        Field::parse("x", &value).unwrap().unwrap()
    }

    fn exact(method: &str, dtype: &str, fill: Value) -> Field {
        field(
            json!({"class": "exact", "method": method, "nan_policy": "skip", "dtype": dtype, "fill_value": fill}),
        )
    }

    fn of(field: &Field, cells: &FieldCells) -> Tally {
        let mut tally = Tally::none(field);
        tally.push(field, cells);
        tally
    }

    fn dense<const N: usize, T>(values: &[T], to_bytes: fn(T) -> [u8; N]) -> FieldCells
    where
        T: Copy,
    {
        FieldCells::Dense(values.iter().flat_map(|value| to_bytes(*value)).collect())
    }

    #[test]
    fn sums_wrap_at_the_width_of_their_type() {
        let count = exact("sum", "int8", json!(0));
        let source = of(&count, &dense(&[100i8, 100, -3], i8::to_le_bytes));
        let same = of(&count, &dense(&[-59i8], i8::to_le_bytes));
        let other = of(&count, &dense(&[-58i8], i8::to_le_bytes));
        assert_eq!(source.lost(&same, 1), None);
        let lost = source.lost(&other, 1).unwrap();
        assert_eq!((lost.expected, lost.got), (json!(197), json!(198)));
    }

    #[test]
    fn sums_of_floats_and_sums_beside_another_fill_are_not_kept() {
        for field in [
            exact("sum", "float32", json!(0)),
            exact("sum", "int32", json!(-1)),
        ] {
            assert_eq!(Tally::none(&field), Tally::Nothing);
        }
    }

    #[test]
    fn extremes_pass_over_what_is_missing() {
        let least = exact("min", "float32", json!("NaN"));
        let source = of(&least, &dense(&[f32::NAN, 2.0, 1.5], f32::to_le_bytes));
        assert_eq!(
            source.lost(&of(&least, &dense(&[1.5f32], f32::to_le_bytes)), 1),
            None
        );
        let lost = source
            .lost(&of(&least, &dense(&[f32::NAN], f32::to_le_bytes)), 1)
            .unwrap();
        assert_eq!((lost.expected, lost.got), (json!(1.5), Value::Null));

        let greatest = exact("max", "float64", json!(-9999.0));
        let mut source = of(&greatest, &dense(&[-9999.0f64], f64::to_le_bytes));
        source.add(&of(&greatest, &dense(&[-10_000.0f64], f64::to_le_bytes)));
        let folded = of(&greatest, &dense(&[-10_000.0f64], f64::to_le_bytes));
        assert_eq!(source.lost(&folded, 1), None);
    }

    #[test]
    fn weights_may_be_off_by_the_rounding_of_each_merge() {
        let source = Tally::Weight {
            total: f64::from(1 << 24),
            n_centroids: 3,
        };
        let off_by = |by: f64| Tally::Weight {
            total: f64::from(1 << 24) + by,
            n_centroids: 1,
        };
        assert_eq!(source.lost(&off_by(1.0), 1), None);
        assert_eq!(source.lost(&off_by(-2.0), 2), None);
        assert!(source.lost(&off_by(-2.0), 1).is_some());
        assert!(source.lost(&off_by(1.0), 0).is_some(), "a gather is exact");
    }
}
