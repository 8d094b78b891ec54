//! The packed cell word: fields, order, descendants and ancestors (`morton.md` sections 1, 4, 5, 6).

use super::WordError;

/// Deepest order a word can hold.
pub const MAX_ORDER: u8 = 29;
/// Deepest order whose tuples all lie in the body; the last two live in the suffix.
const BODY_ORDER: u8 = 27;
const PREFIX_SHIFT: u32 = 60;
const SUFFIX_BITS: u32 = 6;
const SUFFIX_MASK: u64 = (1 << SUFFIX_BITS) - 1;
/// Every suffix from here up is a point, and no area suffix has both of these bits.
const POINT_BITS: u64 = 48;

/// Order by suffix. A table, because 28 and 29 interleave in steps of five.
const ORDER_OF_SUFFIX: [u8; 64] = {
    let mut table = [MAX_ORDER; 64];
    let mut suffix = 0;
    while suffix <= 27 {
        table[suffix] = suffix as u8;
        suffix += 1;
    }
    while suffix <= 47 {
        if (suffix - 28) % 5 == 0 {
            table[suffix] = 28;
        }
        suffix += 1;
    }
    table
};

/// Tuples of orders 28 and 29 by suffix, as `4a + b`; what a cell has no tuple for is 0.
const TAIL_OF_SUFFIX: [u8; 64] = {
    let mut table = [0; 64];
    let mut suffix = 28;
    while suffix <= 47 {
        let (a, rest) = ((suffix - 28) / 5, (suffix - 28) % 5);
        let b = if rest == 0 { 0 } else { rest - 1 };
        table[suffix] = (4 * a + b) as u8;
        suffix += 1;
    }
    while suffix <= 63 {
        table[suffix] = (suffix - 48) as u8;
        suffix += 1;
    }
    table
};

/// Whether a word claims the extent of its cell (`morton.md` section 1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The cell itself; every order has it.
    Area,
    /// A position on a path of 29 steps, without extent.
    Point,
}

/// One decoded word: nested index, order and kind, always a cell that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell {
    nested: u64,
    order: u8,
    kind: Kind,
}

impl Cell {
    /// The area cell at a HEALPix nested index.
    ///
    /// # Errors
    /// `InvalidCell` for an order above 29 or an index not below `12 * 4^order`.
    pub const fn area(nested: u64, order: u8) -> Result<Self, WordError> {
        if order > MAX_ORDER || nested >= 12 << (2 * order) {
            return Err(WordError::InvalidCell { nested, order });
        }
        Ok(Self {
            nested,
            order,
            kind: Kind::Area,
        })
    }

    /// The point at a HEALPix nested index of order 29.
    ///
    /// # Errors
    /// `InvalidCell` for an index not below `12 * 4^29`.
    pub fn point(nested: u64) -> Result<Self, WordError> {
        Ok(Self {
            kind: Kind::Point,
            ..Self::area(nested, MAX_ORDER)?
        })
    }

    /// Decodes a word; body bits below its order are ignored (`morton.md` sections 1.2, 1.3).
    ///
    /// # Errors
    /// `InvalidWord` when the prefix names no base cell.
    #[inline]
    pub const fn unpack(word: u64) -> Result<Self, WordError> {
        if !is_valid(word) {
            return Err(WordError::InvalidWord { word });
        }
        let suffix = word & SUFFIX_MASK;
        let order = order_of_suffix(suffix);
        // The prefix is one above the base cell, so these bits are the index plus 4^order.
        let nested = if order <= BODY_ORDER {
            (word >> below(order)) - (1 << (2 * order))
        } else {
            let body = (word >> SUFFIX_BITS) - (1 << (2 * BODY_ORDER));
            ((body << 4) | TAIL_OF_SUFFIX[suffix as usize] as u64) >> (2 * (MAX_ORDER - order))
        };
        let kind = if suffix >= POINT_BITS {
            Kind::Point
        } else {
            Kind::Area
        };
        Ok(Self {
            nested,
            order,
            kind,
        })
    }

    /// The canonical word of this cell, by the closed forms of `morton.md` section 1.5.
    #[inline]
    pub const fn pack(self) -> u64 {
        match (self.kind, self.order) {
            (Kind::Point, _) => deep_body(self.nested >> 4) | (POINT_BITS + (self.nested & 15)),
            (Kind::Area, order) => pack_area(self.nested, order),
        }
    }

    /// HEALPix nested index at this cell's order.
    pub const fn nested(self) -> u64 {
        self.nested
    }

    /// Order, 0..=29.
    pub const fn order(self) -> u8 {
        self.order
    }

    /// Area or point.
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// HEALPix nested base cell, 0..=11.
    pub const fn base(self) -> u8 {
        (self.nested >> (2 * self.order)) as u8
    }

    /// Position among the descendants, at this order, of the ancestor `up` orders above:
    /// the last `up` digits read in base 4 (`morton.md` section 8). All digits when `up` exceeds
    /// the order, which makes it the rank within the base cell.
    pub const fn rank(self, up: u8) -> u64 {
        let digits = if up < self.order { up } else { self.order };
        self.nested & ((1 << (2 * digits)) - 1)
    }
}

/// True when the prefix names a base cell, which is all that makes a word valid (`morton.md` section 1.4).
#[inline]
pub const fn is_valid(word: u64) -> bool {
    matches!(word >> PREFIX_SHIFT, 1..=12)
}

/// Order of a word, 0..=29.
///
/// # Errors
/// `InvalidWord` when the prefix names no base cell.
#[inline]
pub const fn order(word: u64) -> Result<u8, WordError> {
    if is_valid(word) {
        Ok(order_of_suffix(word & SUFFIX_MASK))
    } else {
        Err(WordError::InvalidWord { word })
    }
}

/// Accepts a word by its prefix and, where one is given, by its order (`morton.md` section 6).
///
/// # Errors
/// `InvalidWord` or `OrderMismatch`.
pub fn validate(word: u64, expected: Option<u8>) -> Result<(), WordError> {
    let order = order(word)?;
    match expected {
        Some(expected) if expected != order => Err(WordError::OrderMismatch {
            word,
            order,
            expected,
        }),
        _ => Ok(()),
    }
}

/// The ancestor of a word at order `target`, as an area word; a word already that coarse comes back
/// unchanged, kind and stray bits included (`morton.md` section 4).
///
/// # Errors
/// `InvalidWord`.
pub fn coarsen(word: u64, target: u8) -> Result<u64, WordError> {
    let cell = Cell::unpack(word)?;
    if target >= cell.order {
        return Ok(word);
    }
    Ok(pack_area(
        cell.nested >> (2 * (cell.order - target)),
        target,
    ))
}

/// The descendants of a word at order `target`, ascending: `4^(target - order)` area words, or the
/// word itself, bit for bit, when `target` is its own order (`morton.md` section 4).
///
/// Nothing is allocated. [`Children::count_left`] says what collecting them would take.
///
/// # Errors
/// In this order: `InvalidWord`, `TargetCoarser`, `TargetTooDeep`; a point has no descendants, so any
/// target but 29 is one of the last two.
pub fn children(word: u64, target: u8) -> Result<Children, WordError> {
    let cell = Cell::unpack(word)?;
    if target < cell.order {
        return Err(WordError::TargetCoarser {
            order: cell.order,
            target,
        });
    }
    if target > MAX_ORDER {
        return Err(WordError::TargetTooDeep { target });
    }
    if target == cell.order {
        let form = Form::Itself { word };
        return Ok(Children {
            form,
            next: 0,
            end: 1,
        });
    }
    let count = 1u64 << (2 * (target - cell.order));
    let first = cell.nested * count;
    let form = if target <= BODY_ORDER {
        Form::Even {
            first: pack_area(first, target),
            shift: below(target),
        }
    } else {
        Form::Deep {
            first,
            order: target,
        }
    };
    Ok(Children {
        form,
        next: 0,
        end: count,
    })
}

/// Descendants of one word at one order, ascending, made by [`children`].
#[derive(Debug, Clone)]
pub struct Children {
    form: Form,
    next: u64,
    end: u64,
}

/// How child `i` is computed without unpacking anything.
#[derive(Debug, Clone, Copy)]
enum Form {
    Itself { word: u64 },
    Even { first: u64, shift: u32 },
    Deep { first: u64, order: u8 },
}

impl Form {
    #[inline]
    const fn child(self, i: u64) -> u64 {
        match self {
            Self::Itself { word } => word,
            Self::Even { first, shift } => first + (i << shift),
            Self::Deep { first, order } => pack_area(first + i, order),
        }
    }
}

impl Children {
    /// Number of words still to come; at most `4^29`.
    pub const fn count_left(&self) -> u64 {
        self.end - self.next
    }

    /// Appends the remaining words to `out`, faster than one `next` at a time.
    pub fn append_to(self, out: &mut Vec<u64>) {
        let indices = self.next..self.end;
        // Matching outside the loop leaves each arm a plain arithmetic sequence.
        match self.form {
            Form::Itself { word } => out.extend(indices.map(|_| word)),
            Form::Even { first, shift } => out.extend(indices.map(|i| first + (i << shift))),
            Form::Deep { first, order: 28 } => {
                out.extend(indices.map(|i| pack_area(first + i, 28)));
            }
            Form::Deep { first, order } => {
                out.extend(indices.map(|i| pack_area(first + i, order)));
            }
        }
    }
}

impl Iterator for Children {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.nth(0)
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<u64> {
        let at = self.next.saturating_add(n as u64).min(self.end);
        self.next = at;
        (at < self.end).then(|| {
            self.next += 1;
            self.form.child(at)
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.count_left()) {
            Ok(left) => (left, Some(left)),
            Err(_) => (usize::MAX, None),
        }
    }
}

impl std::iter::FusedIterator for Children {}

/// Deepest cell that holds every word of the list (`morton.md` section 5).
///
/// One word comes back unchanged. Two or more always give a canonical area word, also when they are all
/// equal. One pass of XOR and OR over the words, in which stray bits fall away because they lie below the
/// smallest order; a second pass only where orders may be mixed, or all words share 27 tuples.
///
/// # Errors
/// `Empty`; else the first fault from the left, `InvalidWord` or `MixedBaseCells`.
pub fn common_ancestor(words: &[u64]) -> Result<u64, WordError> {
    let first = match *words {
        [] => return Err(WordError::Empty),
        [only] if is_valid(only) => return Ok(only),
        [first, ..] => first,
    };
    let (mut differing, mut common) = (0, first);
    for &word in words {
        differing |= word ^ first;
        common &= word;
    }
    if !is_valid(first) || differing >> PREFIX_SHIFT != 0 {
        one_base_cell(words)?;
    }

    let smallest_suffix = if differing & SUFFIX_MASK == 0 {
        first & SUFFIX_MASK
    } else if common & POINT_BITS == POINT_BITS {
        POINT_BITS
    } else {
        let suffixes = words.iter().map(|&word| word as u8 & SUFFIX_MASK as u8);
        u64::from(suffixes.fold(u8::MAX, u8::min))
    };
    let in_body = differing >> SUFFIX_BITS != 0;
    if smallest_suffix > u64::from(BODY_ORDER) && !in_body {
        return Ok(deep_ancestor(words, first));
    }
    // Orders 28 and 29 may stand as 27 here: the words part within the body.
    let shallowest = (smallest_suffix as u8).min(BODY_ORDER);
    let order = shallowest - unshared(differing >> below(shallowest));
    let cut = below(order);
    Ok(((first >> cut) << cut) | u64::from(order))
}

/// The ancestor of valid words of orders 28 and 29 that agree in all 27 tuples of the body.
fn deep_ancestor(words: &[u64], first: u64) -> u64 {
    let tail = |word: u64| TAIL_OF_SUFFIX[(word & SUFFIX_MASK) as usize];
    let (mut differing, mut shallowest) = (0, MAX_ORDER);
    for &word in words {
        differing |= tail(word) ^ tail(first);
        shallowest = shallowest.min(order_of_suffix(word & SUFFIX_MASK));
    }
    let order = shallowest - unshared(u64::from(differing >> (2 * (MAX_ORDER - shallowest))));
    let body = (first >> SUFFIX_BITS) - (1 << (2 * BODY_ORDER));
    let nested = (body << 4) | u64::from(tail(first));
    pack_area(nested >> (2 * (MAX_ORDER - order)), order)
}

/// Reports the first word that is invalid or lies in another base cell than the first.
fn one_base_cell(words: &[u64]) -> Result<(), WordError> {
    let first = words.first().copied().unwrap_or_default();
    for &word in words {
        if !is_valid(word) {
            return Err(WordError::InvalidWord { word });
        }
        if (word ^ first) >> PREFIX_SHIFT != 0 {
            return Err(WordError::MixedBaseCells { first, other: word });
        }
    }
    Ok(())
}

/// Number of trailing tuples touched by a difference of two indices.
#[inline]
const fn unshared(differing: u64) -> u8 {
    (u64::BITS - differing.leading_zeros()).div_ceil(2) as u8
}

/// Width in bits of what lies below the tuples of a body order, suffix included.
#[inline]
const fn below(order: u8) -> u32 {
    PREFIX_SHIFT - 2 * order as u32
}

#[inline]
const fn order_of_suffix(suffix: u64) -> u8 {
    ORDER_OF_SUFFIX[suffix as usize]
}

/// Prefix and body from an order-27 nested index.
#[inline]
const fn deep_body(nested: u64) -> u64 {
    ((1 << (2 * BODY_ORDER)) + nested) << SUFFIX_BITS
}

#[inline]
const fn pack_area(nested: u64, order: u8) -> u64 {
    match order {
        28 => deep_body(nested >> 2) | (28 + 5 * (nested & 3)),
        29 => deep_body(nested >> 4) | (29 + 5 * ((nested >> 2) & 3) + (nested & 3)),
        _ => (((1 << (2 * order)) + nested) << below(order)) | order as u64,
    }
}
