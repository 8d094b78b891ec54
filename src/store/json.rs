//! JSON whose bytes equal those of Python's `json.dumps` with its defaults.
//!
//! Documents at a store's root are compared and diffed as bytes by their readers, so a
//! rewrite must not move what it does not change: key order is kept, everything outside
//! printable ASCII is escaped, floats are written the way Python's `repr` writes them
//! (`format.md` sections 5 and 8: indent 1).

use std::fmt::Write;

use serde_json::Value;

/// Indentation of a `zarr.json` document.
pub(crate) const ZARR_INDENT: usize = 2;

/// Indent of the documents at the root of a store.
pub(crate) const ROOT_INDENT: usize = 1;

/// Reads a document.
///
/// # Errors
/// When the bytes are not JSON.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// Whether two values are equal to Python, which takes 1 and 1.0 for the same number.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => {
            a.as_f64() == b.as_f64()
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let in_b = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| is_same(a, b));
            a.len() == b.len() && a.iter().all(in_b)
        }
        _ => a == b,
    }
}

/// `value` as `json.dumps(value, indent=indent)`.
pub(crate) fn python_pretty(value: &Value, indent: usize) -> String {
    let mut out = String::new();
    write_value(&mut out, value, Layout::Pretty { indent, depth: 0 });
    out
}

/// `value` as `json.dumps(value)`: one line, separators `, ` and `: `.
pub(crate) fn python_compact(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value, Layout::Compact);
    out
}

#[derive(Clone, Copy)]
enum Layout {
    Compact,
    Pretty { indent: usize, depth: usize },
}

impl Layout {
    fn deeper(self) -> Self {
        match self {
            Self::Compact => Self::Compact,
            Self::Pretty { indent, depth } => Self::Pretty {
                indent,
                depth: depth + 1,
            },
        }
    }

    fn line(self, out: &mut String) {
        if let Self::Pretty { indent, depth } = self {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn comma(self, out: &mut String) {
        out.push_str(match self {
            Self::Compact => ", ",
            Self::Pretty { .. } => ",",
        });
    }
}

fn write_value(out: &mut String, value: &Value, layout: Layout) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&python_float(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => write_string(out, text),
        Value::Array(items) => write_all(out, ('[', ']'), items, layout, |out, item, inner| {
            write_value(out, item, inner);
        }),
        Value::Object(map) => write_all(out, ('{', '}'), map, layout, |out, (key, item), inner| {
            write_string(out, key);
            out.push_str(": ");
            write_value(out, item, inner);
        }),
    }
}

fn write_all<Item>(
    out: &mut String,
    (open, close): (char, char),
    items: impl IntoIterator<Item = Item>,
    layout: Layout,
    write_item: impl Fn(&mut String, Item, Layout),
) {
    out.push(open);
    let inner = layout.deeper();
    let mut empty = true;
    for item in items {
        if !empty {
            inner.comma(out);
        }
        empty = false;
        inner.line(out);
        write_item(out, item, inner);
    }
    if !empty {
        layout.line(out);
    }
    out.push(close);
}

/// `text` as a JSON string in ASCII.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(char),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// A finite `value` as Python's `repr` writes it: the fewest digits that read back to
/// it, with an exponent when that is below -4 or at least 16. The others are `NaN`,
/// `Infinity` and `-Infinity`, as `json.dumps` spells them.
pub(crate) fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let shortest = format!("{value:e}");
    let digits = shortest.split('e').next().map_or(1, count_digits);
    // Of two shortest texts equally far from the value Rust takes the larger, Python the
    // one with an even last digit. Rounding the value to as many digits does so too.
    let even = format!("{value:.*e}", digits - 1);
    let scientific = match even.parse::<f64>() {
        Ok(parsed) if parsed == value => even,
        _ => shortest,
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs());
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits = mantissa.replace('.', "");
    match usize::try_from(exponent) {
        // A negative exponent: zeros before the first digit.
        Err(_) => {
            let zeros = exponent.unsigned_abs() as usize - 1;
            format!("{sign}0.{}{digits}", "0".repeat(zeros))
        }
        Ok(exponent) if exponent + 1 < digits.len() => {
            let (whole, fraction) = digits.split_at(exponent + 1);
            format!("{sign}{whole}.{fraction}")
        }
        Ok(exponent) => format!("{sign}{digits:0<width$}.0", width = exponent + 1),
    }
}

fn count_digits(mantissa: &str) -> usize {
    mantissa.bytes().filter(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// What `repr` of Python 3.11 printed.
    const FLOATS: &[(f64, &str)] = &[
        // The value, …561.03125 and …669.25, is equally far from two shortest texts.
        (-935584492561.0312, "-935584492561.0312"),
        (802480486451669.2, "802480486451669.2"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (0.3333333333333333, "0.3333333333333333"),
        (0.6666666666666666, "0.6666666666666666"),
        (100.0, "100.0"),
        (1000000000000000.0, "1000000000000000.0"),
        (1e+16, "1e+16"),
        (1e+17, "1e+17"),
        (1.2345678901234568e+17, "1.2345678901234568e+17"),
        (9999999999999998.0, "9999999999999998.0"),
        (9007199254740992.0, "9007199254740992.0"),
        (0.0001, "0.0001"),
        (1e-05, "1e-05"),
        (0.00012345, "0.00012345"),
        (1e-05, "1e-05"),
        (5e-324, "5e-324"),
        (2.2250738585072014e-308, "2.2250738585072014e-308"),
        (1.7976931348623157e+308, "1.7976931348623157e+308"),
        (1e+22, "1e+22"),
        (1e+23, "1e+23"),
        (1e+100, "1e+100"),
        (1e-100, "1e-100"),
        (3.4028234663852886e+38, "3.4028234663852886e+38"),
        (27.4, "27.4"),
        (29.518, "29.518"),
        (9007199254740992.0, "9007199254740992.0"),
        (1.152921504606847e+18, "1.152921504606847e+18"),
        (4.35, "4.35"),
        (0.30000000000000004, "0.30000000000000004"),
        (1e-10, "1e-10"),
        (1.5e-07, "1.5e-07"),
        (12345.6789, "12345.6789"),
        (-1.989032661366619e+244, "-1.989032661366619e+244"),
        (7.761117632285041e+178, "7.761117632285041e+178"),
        (3.980498358697587e-249, "3.980498358697587e-249"),
        (-1.5432835417340557e+88, "-1.5432835417340557e+88"),
        (1.3647584518757569e-192, "1.3647584518757569e-192"),
        (-1.3701135617873088e-206, "-1.3701135617873088e-206"),
        (-1.7160537630466207e+197, "-1.7160537630466207e+197"),
        (6.294675241195386e-44, "6.294675241195386e-44"),
        (1.0613447212142254e-202, "1.0613447212142254e-202"),
        (4.708325160387546e+207, "4.708325160387546e+207"),
        (6.387016158513563e-12, "6.387016158513563e-12"),
        (-9.973130378568733e-246, "-9.973130378568733e-246"),
        (8.779753225680271e-236, "8.779753225680271e-236"),
        (-5.795503248498993e-228, "-5.795503248498993e-228"),
        (-5.988180159386011e+243, "-5.988180159386011e+243"),
        (-1.306052388527796e-147, "-1.306052388527796e-147"),
        (-2.436117699484841e-206, "-2.436117699484841e-206"),
        (2.233386999150174e-232, "2.233386999150174e-232"),
        (-3.51527970626667e-203, "-3.51527970626667e-203"),
        (1.5987381841032883e-247, "1.5987381841032883e-247"),
        (4.6678633181812096e-36, "4.6678633181812096e-36"),
        (-8.441872792105456e-239, "-8.441872792105456e-239"),
        (1.9015657400796622e-144, "1.9015657400796622e-144"),
        (7.370437700706684e+208, "7.370437700706684e+208"),
        (-1.7163996725272777e-258, "-1.7163996725272777e-258"),
    ];

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, expected) in FLOATS {
            assert_eq!(python_float(*value), *expected);
        }
    }

    #[test]
    fn a_document_is_written_as_python_writes_it() {
        let text = "{\"b\": [1, -2, 18446744073709551615, 1.0, 1e16, 0.00001, -0.0], \"a\": {}, \"e\": [], \
                    \"é\": \"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u007f é \\ud83d\\ude00\", \"n\": [null, true, false, [[]], {\"x\": {}}]}";
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            python_compact(&value),
            r#"{"b": [1, -2, 18446744073709551615, 1.0, 1e+16, 1e-05, -0.0], "a": {}, "e": [], "\u00e9": "\"\\/\b\f\n\r\t\u0001\u007f \u00e9 \ud83d\ude00", "n": [null, true, false, [[]], {"x": {}}]}"#
        );
        let small: Value = json!({"a": [1, {"b": []}], "c": {}, "d": "x"});
        assert_eq!(
            python_pretty(&small, 1),
            "{\n \"a\": [\n  1,\n  {\n   \"b\": []\n  }\n ],\n \"c\": {},\n \"d\": \"x\"\n}"
        );
        assert_eq!(python_pretty(&json!([]), 2), "[]");
        assert_eq!(python_pretty(&json!([[1]]), 0), "[\n[\n1\n]\n]");
    }

    proptest! {
        #[test]
        fn any_float_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let text = python_float(value);
            prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
            let parsed: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(python_compact(&parsed), text);
        }

        #[test]
        fn any_text_reads_back_from_ascii(text in any::<String>()) {
            let written = python_compact(&Value::String(text.clone()));
            prop_assert!(written.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}
