//! The decimal text of a word and the path it takes in the tree (`morton.md` sections 2 and 3).

use super::WordError;
use super::morton::{Cell, Kind, MAX_ORDER};

/// Sign, base digit, 29 order digits and `p`.
const MAX_TEXT: usize = 32;

/// The decimal of a word; a point ends in `p` (`morton.md` section 2). Stray bits do not show.
///
/// # Errors
/// `InvalidWord`.
pub fn render(word: u64) -> Result<String, WordError> {
    let cell = Cell::unpack(word)?;
    let mut text = String::with_capacity(MAX_TEXT);
    push_base(&mut text, cell);
    text.extend(digits(cell));
    if cell.kind() == Kind::Point {
        text.push('p');
    }
    Ok(text)
}

/// The word of a decimal, strictly: an area word, or a point word when the text ends in `p`
/// (`morton.md` section 2).
///
/// # Errors
/// The first that applies of `Malformed`, `BaseDigit`, `OrderTooDeep`, `PointSuffix`, `OrderDigit`.
pub fn parse(text: &str) -> Result<u64, WordError> {
    let refused = || text.to_owned();
    let (unmarked, is_point) = match text.strip_suffix('p') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (unsigned, is_negative) = match unmarked.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (unmarked, false),
    };
    let bytes = unsigned.as_bytes();
    let [base_digit, order_digits @ ..] = bytes else {
        return Err(WordError::Malformed { text: refused() });
    };
    if !bytes.iter().all(u8::is_ascii_digit) {
        return Err(WordError::Malformed { text: refused() });
    }
    if !matches!(base_digit, b'1'..=b'6') {
        return Err(WordError::BaseDigit { text: refused() });
    }
    if order_digits.len() > usize::from(MAX_ORDER) {
        return Err(WordError::OrderTooDeep { text: refused() });
    }
    if is_point && order_digits.len() != usize::from(MAX_ORDER) {
        return Err(WordError::PointSuffix { text: refused() });
    }
    if !order_digits
        .iter()
        .all(|digit| matches!(digit, b'1'..=b'4'))
    {
        return Err(WordError::OrderDigit { text: refused() });
    }
    let base = u64::from(base_digit - b'1') + if is_negative { 6 } else { 0 };
    let nested = order_digits
        .iter()
        .fold(base, |index, digit| 4 * index + u64::from(digit - b'1'));
    let cell = if is_point {
        Cell::point(nested)?
    } else {
        Cell::area(nested, order_digits.len() as u8)?
    };
    Ok(cell.pack())
}

/// Directory of a cell relative to the store root, one component per digit and the sign with the base:
/// `-3/1/1/2/3` (`morton.md` section 3, `path_grouping` 1).
///
/// # Errors
/// `InvalidWord`, or `Point`, which has no place in the tree.
pub fn node_path(word: u64) -> Result<String, WordError> {
    let cell = Cell::unpack(word)?;
    if cell.kind() == Kind::Point {
        return Err(WordError::Point { word });
    }
    let mut path = String::with_capacity(2 * MAX_TEXT);
    push_base(&mut path, cell);
    for digit in digits(cell) {
        path.push('/');
        path.push(digit);
    }
    Ok(path)
}

/// Path of a leaf relative to the store root: `{node}/{id}.zarr`, or `{node}/{id}_{window}.zarr` in a
/// windowed store (`format.md` section 1). The window is taken as a legal label.
///
/// # Errors
/// As [`node_path`].
pub fn leaf_path(word: u64, window: Option<&str>) -> Result<String, WordError> {
    let (node, id) = (node_path(word)?, render(word)?);
    Ok(match window {
        Some(window) => format!("{node}/{id}_{window}.zarr"),
        None => format!("{node}/{id}.zarr"),
    })
}

fn push_base(text: &mut String, cell: Cell) {
    let base = cell.base();
    if base >= 6 {
        text.push('-');
    }
    text.push(char::from(b'1' + base % 6));
}

/// Printed digits of orders 1 and up.
fn digits(cell: Cell) -> impl Iterator<Item = char> {
    let order = cell.order();
    (1..=order).map(move |k| {
        let tuple = (cell.nested() >> (2 * (order - k))) & 3;
        char::from(b'1' + tuple as u8)
    })
}
