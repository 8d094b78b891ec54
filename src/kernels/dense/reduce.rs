//! Element types of dense arrays, and what sum, min and max do with them.

use crate::kernels::pairwise::pairwise_sum;

/// A value of a dense array.
pub(super) trait Element: Copy + PartialEq + PartialOrd + Send + 'static {
    const WIDTH: usize = size_of::<Self>();
    const ZERO: Self;
    /// Below or equal to every value that can be present.
    const LEAST: Self;
    /// Above or equal to every value that can be present.
    const GREATEST: Self;
    /// Whether a sum is the sum of its parts' sums, whatever the parts.
    const SUM_BY_PARTS: bool;

    fn is_nan(self) -> bool;
    /// The quiet NaN that every machine has; 0 where the type has none.
    fn nan() -> Self;
    fn plus(self, other: Self) -> Self;
    fn row_sum(row: &[Self]) -> Self;
    /// The bit pattern, zero-extended.
    fn pattern(self) -> u64;
    fn from_pattern(bits: u64) -> Self;
    /// Decodes little-endian values into as many slots.
    fn load(bytes: &[u8], slots: &mut [Self]);
    /// Appends little-endian values.
    fn store(values: &[Self], bytes: &mut Vec<u8>);

    #[inline(always)]
    fn is_missing(self, fill: Self) -> bool {
        self.is_nan() | (self == fill)
    }
}

macro_rules! codec {
    ($native:ty) => {
        #[inline]
        fn load(bytes: &[u8], slots: &mut [Self]) {
            let (values, _) = bytes.as_chunks::<{ size_of::<$native>() }>();
            for (slot, value) in slots.iter_mut().zip(values) {
                *slot = Self::from_le_bytes(*value);
            }
        }

        #[inline]
        fn store(values: &[Self], bytes: &mut Vec<u8>) {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    };
}

macro_rules! integer {
    ($($native:ty, $unsigned:ty;)+) => {$(
        impl Element for $native {
            const ZERO: Self = 0;
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            const SUM_BY_PARTS: bool = true;

            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }

            fn nan() -> Self {
                0
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn row_sum(row: &[Self]) -> Self {
                row.iter().fold(0, |sum, &value| sum.wrapping_add(value))
            }

            fn pattern(self) -> u64 {
                u64::from(self as $unsigned)
            }

            fn from_pattern(bits: u64) -> Self {
                bits as Self
            }

            codec!($native);
        }
    )+};
}

integer! {
    i8, u8;
    i16, u16;
    i32, u32;
    i64, u64;
    u8, u8;
    u16, u16;
    u32, u32;
    u64, u64;
}

macro_rules! float {
    ($($native:ty, $unsigned:ty;)+) => {$(
        impl Element for $native {
            const ZERO: Self = 0.0;
            const LEAST: Self = Self::NEG_INFINITY;
            const GREATEST: Self = Self::INFINITY;
            const SUM_BY_PARTS: bool = false;

            #[inline(always)]
            fn is_nan(self) -> bool {
                <$native>::is_nan(self)
            }

            fn nan() -> Self {
                Self::NAN
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn row_sum(row: &[Self]) -> Self {
                pairwise_sum(row)
            }

            fn pattern(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn from_pattern(bits: u64) -> Self {
                Self::from_bits(bits as $unsigned)
            }

            codec!($native);
        }
    )+};
}

float! {
    f32, u32;
    f64, u64;
}

/// What a fold does with the present values of a row. Missing ones have been replaced by `neutral`.
pub(super) trait Reduction<T: Element>: Send + 'static {
    /// Stands in for a missing value, and is what a row of nothing but those reduces to.
    const NEUTRAL: T;
    /// Whether rows of any length may be reduced from the results of their quarters; otherwise only rows of
    /// 1024 values and more.
    const BY_PARTS: bool;

    /// One row, which has at least one value.
    fn row(row: &[T]) -> T;
    /// A row from the results of its quarters.
    fn join(quarters: &[T; 4]) -> T;
    /// The value a row with something present is stored as, beside this fill.
    fn settle(reduced: T, fill: T) -> T;
}

#[derive(Debug)]
pub(super) struct Sum;
#[derive(Debug)]
pub(super) struct Min;
#[derive(Debug)]
pub(super) struct Max;

impl<T: Element> Reduction<T> for Sum {
    const NEUTRAL: T = T::ZERO;
    const BY_PARTS: bool = T::SUM_BY_PARTS;

    #[inline(always)]
    fn row(row: &[T]) -> T {
        T::row_sum(row)
    }

    #[inline(always)]
    fn join([a, b, c, d]: &[T; 4]) -> T {
        a.plus(*b).plus(c.plus(*d))
    }

    /// The law adds the row to 0, which turns a sum of -0.0 into 0.0. Once per stored value: partial sums keep
    /// their sign of zero, as the whole row would.
    ///
    /// Both infinities sum to a NaN whose bits are the processor's. It is missing to whoever reads it, so it gets
    /// the bits of a NaN fill, or else those that hash alike everywhere.
    #[inline(always)]
    fn settle(reduced: T, fill: T) -> T {
        let sum = T::ZERO.plus(reduced);
        match (sum.is_nan(), fill.is_nan()) {
            (false, _) => sum,
            (true, true) => fill,
            (true, false) => T::nan(),
        }
    }
}

/// Min and max, which differ in the comparison only. A strict one keeps the first of equal values, which shows
/// in the sign of a float zero.
macro_rules! extreme {
    ($name:ident, $neutral:ident, $beats:tt) => {
        impl<T: Element> Reduction<T> for $name {
            const NEUTRAL: T = T::$neutral;
            const BY_PARTS: bool = true;

            #[inline(always)]
            fn row(row: &[T]) -> T {
                row.iter()
                    .fold(T::$neutral, |best, &value| if value $beats best { value } else { best })
            }

            #[inline(always)]
            fn join(&[a, b, c, d]: &[T; 4]) -> T {
                let left = if b $beats a { b } else { a };
                let right = if d $beats c { d } else { c };
                if right $beats left { right } else { left }
            }

            #[inline(always)]
            fn settle(reduced: T, _: T) -> T {
                reduced
            }
        }
    };
}

extreme!(Min, GREATEST, <);
extreme!(Max, LEAST, >);
