//! What a scalar means: the implicit types of YAML 1.1, and the explicit tags.

use super::Yaml;

/// The type of a scalar, explicit or found by its look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Time,
    Text,
    /// `<<`, which is only good as a key.
    Merge,
    /// `=`, which is only good as a key, and then is text.
    Default,
}

impl Tag {
    /// The tag with this name in the namespace of `!!`.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "float" => Self::Float,
            "timestamp" => Self::Time,
            "str" => Self::Text,
            "merge" => Self::Merge,
            "value" => Self::Default,
            _ => return None,
        })
    }

    /// The type a plain scalar has by its look.
    pub(super) fn of_plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "<<" => Self::Merge,
            "=" => Self::Default,
            _ if boolean(text).is_some() && is_cased_plainly(text) => Self::Bool,
            _ if looks_like_int(text) => Self::Int,
            _ if looks_like_float(text) => Self::Float,
            _ if Time::parse(text).is_some_and(|time| time.is_implicit) => Self::Time,
            _ => Self::Text,
        }
    }

    /// The value of `text` under this type.
    ///
    /// # Errors
    /// A sentence saying why it has none.
    pub(super) fn value(self, text: &str) -> Result<Yaml, String> {
        let bad = |what: &str| format!("`{text}` is no {what}");
        match self {
            Self::Null => Ok(Yaml::Null),
            Self::Text => Ok(Yaml::Text(text.to_owned())),
            Self::Bool => boolean(text).map(Yaml::Bool).ok_or_else(|| bad("boolean")),
            Self::Int => int(text)
                .map(Yaml::Int)
                .ok_or_else(|| bad("whole number that can be read here")),
            Self::Float => float(text).map(Yaml::Float).ok_or_else(|| bad("number")),
            Self::Time => Time::parse(text)
                .and_then(|time| time.iso())
                .map(Yaml::Time)
                .ok_or_else(|| bad("date")),
            Self::Merge | Self::Default => Err(format!("`{text}` means something as a key only")),
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" => Some(true),
        "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// Whether a word is in lower, Title or UPPER case.
fn is_cased_plainly(text: &str) -> bool {
    let rest = &text[1..];
    let is_lower = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
    is_lower(rest) || text.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

fn is_all(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(allowed)
}

fn is_digit_or_bar(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_digit())
}

/// `:` and two digits of base 60, the first of which may lack, once or more.
fn is_sexagesimal_tail(parts: &[&str]) -> bool {
    !parts.is_empty()
        && parts.iter().all(|part| match part.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [tens, digit] => (b'0'..=b'5').contains(tens) && digit.is_ascii_digit(),
            _ => false,
        })
}

fn looks_like_int(text: &str) -> bool {
    let digits = unsigned(text);
    if let Some(bits) = digits.strip_prefix("0b") {
        return is_all(bits, |byte| matches!(byte, b'0' | b'1' | b'_'));
    }
    if let Some(hex) = digits.strip_prefix("0x") {
        return is_all(hex, |byte| byte.is_ascii_hexdigit() || byte == b'_');
    }
    if let Some(octal) = digits.strip_prefix('0') {
        return octal.bytes().all(|byte| matches!(byte, b'0'..=b'7' | b'_'));
    }
    let parts: Vec<&str> = digits.split(':').collect();
    let (first, rest) = (parts[0], &parts[1..]);
    starts_with_digit(first)
        && is_all(first, is_digit_or_bar)
        && (rest.is_empty() || is_sexagesimal_tail(rest))
}

fn int(text: &str) -> Option<i128> {
    let text = text.replace('_', "");
    let digits = unsigned(&text);
    let magnitude = if digits == "0" {
        0
    } else if let Some(bits) = digits.strip_prefix("0b") {
        radix(bits, 2)?
    } else if let Some(hex) = digits.strip_prefix("0x") {
        radix(hex, 16)?
    } else if digits.starts_with('0') {
        radix(digits, 8)?
    } else if digits.contains(':') {
        digits.split(':').try_fold(0i128, |sum, part| {
            sum.checked_mul(60)?.checked_add(radix(part, 10)?)
        })?
    } else {
        radix(digits, 10)?
    };
    Some(if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    })
}

fn radix(digits: &str, radix: u32) -> Option<i128> {
    // Python takes no second sign either.
    if digits.starts_with(['-', '+']) {
        return None;
    }
    i128::from_str_radix(digits, radix).ok()
}

fn looks_like_float(text: &str) -> bool {
    let digits = unsigned(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let Some((whole, rest)) = digits.split_once('.') else {
        return false;
    };
    let (fraction, exponent) = match rest.split_once(['e', 'E']) {
        Some((fraction, exponent)) => (fraction, Some(exponent)),
        None => (rest, None),
    };
    let exponent_fits = exponent.is_none_or(|exponent| {
        exponent
            .strip_prefix(['-', '+'])
            .is_some_and(|digits| is_all(digits, |byte| byte.is_ascii_digit()))
    });
    if !exponent_fits || !fraction.bytes().all(is_digit_or_bar) {
        return false;
    }
    if whole.is_empty() {
        return digits.len() == text.len() && starts_with_digit(fraction);
    }
    let parts: Vec<&str> = whole.split(':').collect();
    let sexagesimal = parts.len() > 1;
    starts_with_digit(parts[0])
        && is_all(parts[0], is_digit_or_bar)
        && (!sexagesimal || exponent.is_none() && is_sexagesimal_tail(&parts[1..]))
}

fn float(text: &str) -> Option<f64> {
    let text = text.replace('_', "").to_ascii_lowercase();
    let digits = unsigned(&text);
    let magnitude = match digits {
        ".inf" => f64::INFINITY,
        ".nan" => f64::NAN,
        _ if digits.contains(':') => digits.split(':').try_fold(0.0, |sum, part| {
            Some(sum * 60.0 + part.parse::<f64>().ok()?)
        })?,
        _ => digits.parse().ok()?,
    };
    Some(if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    })
}

/// A date, perhaps with a time of day.
struct Time<'a> {
    date: [u32; 3],
    clock: Option<Clock<'a>>,
    /// Whether a plain scalar of this look is a time without a tag.
    is_implicit: bool,
}

struct Clock<'a> {
    time: [u32; 3],
    fraction: &'a str,
    /// `Z`, an offset in minutes, or neither.
    offset: Option<i32>,
}

impl<'a> Time<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (year, rest) = digits(text, 4, 4)?;
        let (month, rest) = digits(rest.strip_prefix('-')?, 1, 2)?;
        let (day, rest) = digits(rest.strip_prefix('-')?, 1, 2)?;
        let is_full = text.len() - rest.len() == "2026-11-30".len();
        let clock = if rest.is_empty() {
            None
        } else {
            Some(Clock::parse(rest)?)
        };
        Some(Self {
            date: [year, month, day],
            is_implicit: is_full || clock.is_some(),
            clock,
        })
    }

    fn iso(&self) -> Option<String> {
        let [year, month, day] = self.date;
        let date = chrono::NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)
            .filter(|_| year > 0)?;
        let Some(clock) = &self.clock else {
            return Some(date.format("%Y-%m-%d").to_string());
        };
        let [hour, minute, second] = clock.time;
        let microseconds: u32 = format!("{:0<6.6}", clock.fraction).parse().ok()?;
        let time = date.and_hms_micro_opt(hour, minute, second, microseconds)?;
        let format = if microseconds == 0 {
            "%Y-%m-%dT%H:%M:%S"
        } else {
            "%Y-%m-%dT%H:%M:%S%.6f"
        };
        let offset = clock.offset.map_or_else(String::new, |minutes| {
            let sign = if minutes < 0 { '-' } else { '+' };
            let minutes = minutes.unsigned_abs();
            format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        });
        Some(format!("{}{offset}", time.format(format)))
    }
}

impl<'a> Clock<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let rest = match text.strip_prefix(['T', 't']) {
            Some(rest) => rest,
            None => {
                let rest = text.trim_start_matches([' ', '\t']);
                (rest.len() < text.len()).then_some(rest)?
            }
        };
        let (hour, rest) = digits(rest, 1, 2)?;
        let (minute, rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
        let (second, rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(
                rest.find(|char: char| !char.is_ascii_digit())
                    .unwrap_or(rest.len()),
            ),
            None => ("", rest),
        };
        let offset = match rest.trim_start_matches([' ', '\t']) {
            "" if rest.is_empty() => None,
            "Z" => Some(0),
            rest => Some(offset(rest)?),
        };
        Some(Self {
            time: [hour, minute, second],
            fraction,
            offset,
        })
    }
}

/// `+2`, `-02:30`, in minutes.
fn offset(text: &str) -> Option<i32> {
    let (hours, rest) = digits(text.strip_prefix(['-', '+'])?, 1, 2)?;
    let (minutes, rest) = match rest.strip_prefix(':') {
        Some(rest) => digits(rest, 2, 2)?,
        None => (0, rest),
    };
    let minutes = i32::try_from(hours * 60 + minutes).ok()?;
    (rest.is_empty() && minutes < 24 * 60).then_some(if text.starts_with('-') {
        -minutes
    } else {
        minutes
    })
}

/// `least` to `most` digits at the start, and what follows.
fn digits(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let count = text
        .bytes()
        .take(most)
        .take_while(u8::is_ascii_digit)
        .count();
    if count < least {
        return None;
    }
    let (number, rest) = text.split_at(count);
    Some((number.parse().ok()?, rest))
}
