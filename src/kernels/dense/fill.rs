//! Data types of dense fields and their fill values, as Zarr v3 metadata spells them.

use super::reduce::Element;
use super::{DenseError, with_type};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

/// Largest integer up to which every integer is a float.
const EXACT_IN_F64: f64 = (1u64 << 53) as f64;

/// Type of a dense array, under its Zarr v3 name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the variants are their Zarr names")]
pub enum DenseType {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
}

impl DenseType {
    /// Every type there is.
    pub const ALL: [Self; 10] = [
        Self::Int8,
        Self::Int16,
        Self::Int32,
        Self::Int64,
        Self::Uint8,
        Self::Uint16,
        Self::Uint32,
        Self::Uint64,
        Self::Float32,
        Self::Float64,
    ];

    /// The Zarr v3 name, for example `float32`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
        }
    }

    /// The type of a Zarr v3 name.
    ///
    /// # Errors
    /// `DataType` for every other name.
    pub fn from_name(name: &str) -> Result<Self, DenseError> {
        let known = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| DenseError::DataType {
            name: name.to_owned(),
        })
    }

    /// Bytes per value.
    pub const fn width(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }

    /// Reads the JSON fill value of an array of this type: a number; for floats also `"NaN"`, `"Infinity"`,
    /// `"-Infinity"` or the bit pattern as `"0x"` and two digits per byte. An integer may be spelled with a
    /// fraction of zero, as a manifest written from a configuration can have it.
    ///
    /// # Errors
    /// `Fill` for anything else, and for a number that this type cannot hold.
    pub fn parse_fill(self, value: &Value) -> Result<FillValue, DenseError> {
        let bits = match (self, value) {
            (Self::Float32, Value::Number(number)) => number
                .as_f64()
                .map(|wide| wide as f32)
                .filter(|narrow| narrow.is_finite())
                .map(|narrow| narrow.pattern()),
            (Self::Float64, Value::Number(number)) => number.as_f64().map(Element::pattern),
            (Self::Float32 | Self::Float64, Value::String(text)) => self.parse_float_text(text),
            (_, Value::Number(number)) => integer(number).and_then(|wide| self.integer_bits(wide)),
            _ => None,
        };
        bits.map(|bits| FillValue { dtype: self, bits })
            .ok_or_else(|| DenseError::Fill {
                dtype: self,
                value: value.clone(),
            })
    }

    fn parse_float_text(self, text: &str) -> Option<u64> {
        let special = match text {
            "NaN" => f32::NAN,
            "Infinity" => f32::INFINITY,
            "-Infinity" => f32::NEG_INFINITY,
            _ => {
                let digits = text.strip_prefix("0x")?;
                // `from_str_radix` alone would take a sign.
                let is_pattern = digits.len() == 2 * self.width()
                    && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                return is_pattern
                    .then(|| u64::from_str_radix(digits, 16).ok())
                    .flatten();
            }
        };
        Some(match self {
            Self::Float32 => special.pattern(),
            // Spelled out, because a cast need not keep the bits of a NaN.
            _ if special.is_nan() => f64::NAN.pattern(),
            _ => f64::from(special).pattern(),
        })
    }

    fn integer_bits(self, wide: i128) -> Option<u64> {
        match self {
            Self::Int8 => i8::try_from(wide).ok().map(Element::pattern),
            Self::Int16 => i16::try_from(wide).ok().map(Element::pattern),
            Self::Int32 => i32::try_from(wide).ok().map(Element::pattern),
            Self::Int64 => i64::try_from(wide).ok().map(Element::pattern),
            Self::Uint8 => u8::try_from(wide).ok().map(Element::pattern),
            Self::Uint16 => u16::try_from(wide).ok().map(Element::pattern),
            Self::Uint32 => u32::try_from(wide).ok().map(Element::pattern),
            Self::Uint64 => u64::try_from(wide).ok().map(Element::pattern),
            Self::Float32 | Self::Float64 => None,
        }
    }
}

fn integer(number: &Number) -> Option<i128> {
    let whole = number.as_i64().map(i128::from);
    whole
        .or_else(|| number.as_u64().map(i128::from))
        .or_else(|| {
            let float = number.as_f64()?;
            (float.fract() == 0.0 && float.abs() <= EXACT_IN_F64).then_some(float as i128)
        })
}

fn float_json(value: f64) -> Value {
    if value.is_nan() {
        Value::from("NaN")
    } else if value == f64::INFINITY {
        Value::from("Infinity")
    } else if value == f64::NEG_INFINITY {
        Value::from("-Infinity")
    } else {
        Value::from(value)
    }
}

/// Fill value of a dense array, with its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillValue {
    dtype: DenseType,
    /// The value's own bits, zero-extended.
    bits: u64,
}

impl FillValue {
    /// The fill value 0.
    pub const fn zero(dtype: DenseType) -> Self {
        Self { dtype, bits: 0 }
    }

    /// Type of the array.
    pub const fn dtype(self) -> DenseType {
        self.dtype
    }

    /// The bit pattern, zero-extended to 64 bits.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// The fill value as a metadata document spells it; [`DenseType::parse_fill`] reads it back.
    pub fn to_json(self) -> Value {
        let unused_bits = u64::BITS - 8 * self.dtype.width() as u32;
        match self.dtype {
            DenseType::Float32 => float_json(f64::from(f32::from_bits(self.bits as u32))),
            DenseType::Float64 => float_json(f64::from_bits(self.bits)),
            DenseType::Int8 | DenseType::Int16 | DenseType::Int32 | DenseType::Int64 => {
                Value::from((self.bits << unused_bits).cast_signed() >> unused_bits)
            }
            _ => Value::from(self.bits),
        }
    }

    /// The little-endian bytes of `cells` fill values.
    pub fn repeated(self, cells: usize) -> Vec<u8> {
        self.bits.to_le_bytes()[..self.dtype.width()].repeat(cells)
    }

    /// Whether these bits are the fill value; any NaN is a NaN fill.
    pub(super) fn is(self, bits: u64) -> bool {
        bits == self.bits || (self.is_nan(bits) && self.is_nan(self.bits))
    }

    /// Whether a fold would pass over these bits: NaN, or equal to the fill (`format.md` section 6).
    pub(super) fn is_missing(self, bits: u64) -> bool {
        with_type!(self.dtype, T => T::from_pattern(bits).is_missing(T::from_pattern(self.bits)))
    }

    /// As [`FillValue::is_missing`], of each of these little-endian values.
    pub(crate) fn missing_of(self, bytes: &[u8]) -> Vec<bool> {
        with_type!(self.dtype, T => {
            let fill = T::from_pattern(self.bits);
            let mut values = vec![fill; bytes.len() / T::WIDTH];
            T::load(bytes, &mut values);
            values.into_iter().map(|value| value.is_missing(fill)).collect()
        })
    }

    fn is_nan(self, bits: u64) -> bool {
        with_type!(self.dtype, T => Element::is_nan(T::from_pattern(bits)))
    }
}
