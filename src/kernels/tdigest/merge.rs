//! Two sorted runs into one.

use super::row::{Row, is_less, sentinel};

/// Parts of the output that are written at the same time.
///
/// Each step of a merge waits for the comparison of the step before. Four merges that are independent
/// of each other keep the processor busy meanwhile.
const CHAINS: usize = 4;

/// Rows below which finding the parts costs more than it gains.
const MIN_CHAINED: usize = 64;

/// Merges two sorted runs, of equal rows those of `a` first.
///
/// Both runs end with a sentinel, which is not part of them; `out` gets their rows and one sentinel.
pub(super) fn merge<const N: usize, const SIGNED: bool>(
    a: &[Row<N>],
    b: &[Row<N>],
    out: &mut Vec<Row<N>>,
) {
    let total = (a.len() + b.len()).saturating_sub(2);
    out.resize(total + 1, sentinel());
    out[total] = sentinel();
    let out = &mut out[..total];
    if total < MIN_CHAINED {
        merge_from::<N, SIGNED>(a, b, Cursor { a: 0, b: 0 }, out);
        return;
    }
    let part = total / CHAINS;
    let mut cursors = [1, 2, 3].map(|chain| split::<N, SIGNED>(a, b, part * chain));
    let (out0, rest) = out.split_at_mut(part);
    let (out1, rest) = rest.split_at_mut(part);
    let (out2, rest) = rest.split_at_mut(part);
    let (out3, tail) = rest.split_at_mut(part);
    let mut cursor0 = Cursor { a: 0, b: 0 };
    for (((row0, row1), row2), row3) in out0.iter_mut().zip(out1).zip(out2).zip(out3) {
        *row0 = *cursor0.next::<N, SIGNED>(a, b);
        *row1 = *cursors[0].next::<N, SIGNED>(a, b);
        *row2 = *cursors[1].next::<N, SIGNED>(a, b);
        *row3 = *cursors[2].next::<N, SIGNED>(a, b);
    }
    merge_from::<N, SIGNED>(a, b, cursors[2], tail);
}

fn merge_from<const N: usize, const SIGNED: bool>(
    a: &[Row<N>],
    b: &[Row<N>],
    mut cursor: Cursor,
    out: &mut [Row<N>],
) {
    for row in out {
        *row = *cursor.next::<N, SIGNED>(a, b);
    }
}

/// How many rows of either run have been written.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    a: usize,
    b: usize,
}

impl Cursor {
    /// Takes the smaller of the two next rows. A run that is used up shows its sentinel, which is
    /// never smaller, so nothing but the outcome of the comparison decides.
    #[inline(always)]
    fn next<'a, const N: usize, const SIGNED: bool>(
        &mut self,
        a: &'a [Row<N>],
        b: &'a [Row<N>],
    ) -> &'a Row<N> {
        let (x, y) = (&a[self.a], &b[self.b]);
        let second = is_less::<N, SIGNED>(y, x);
        self.a += usize::from(!second);
        self.b += usize::from(second);
        std::hint::select_unpredictable(second, y, x)
    }
}

/// Where a merge stands after `rank` rows, found without doing it.
fn split<const N: usize, const SIGNED: bool>(a: &[Row<N>], b: &[Row<N>], rank: usize) -> Cursor {
    let mut low = rank.saturating_sub(b.len() - 1);
    let mut high = rank.min(a.len() - 1);
    while low < high {
        let middle = low.midpoint(high);
        if is_less::<N, SIGNED>(&b[rank - middle - 1], &a[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Cursor {
        a: low,
        b: rank - low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows of two lanes whose first takes part in the order without its bit 31.
    fn any_run() -> impl Strategy<Value = Vec<Row<2>>> {
        prop::collection::vec((0..40_u64, 0..2_u64, 0..3_u64), 0..200).prop_map(|rows| {
            let mut run: Vec<Row<2>> = rows
                .into_iter()
                .map(|(mean, flag, word)| [mean << 32 | flag << 31, word])
                .collect();
            run.sort_by_key(|row| [row[0] >> 32, row[1]]);
            run
        })
    }

    fn ended<const N: usize>(run: &[Row<N>]) -> Vec<Row<N>> {
        [run, &[sentinel()]].concat()
    }

    proptest! {
        #[test]
        fn a_merge_is_a_stable_sort_of_both(a in any_run(), b in any_run()) {
            let mut out = vec![[7; 2]; 3];
            merge::<2, true>(&ended(&a), &ended(&b), &mut out);
            let mut sorted = [a, b].concat();
            sorted.sort_by_key(|row| [row[0] >> 32, row[1]]);
            prop_assert_eq!(out, ended(&sorted));
        }

        #[test]
        fn a_merge_of_single_lanes_is_sorted(
            mut a in prop::collection::vec(0..u64::MAX, 0..300),
            mut b in prop::collection::vec(0..u64::MAX, 0..300),
        ) {
            a.sort_unstable();
            b.sort_unstable();
            let rows = |run: &[u64]| run.iter().map(|&lane| [lane]).collect::<Vec<Row<1>>>();
            let mut out = Vec::new();
            merge::<1, false>(&ended(&rows(&a)), &ended(&rows(&b)), &mut out);
            let mut sorted = [a, b].concat();
            sorted.sort_unstable();
            prop_assert_eq!(out, ended(&rows(&sorted)));
        }
    }

    #[test]
    fn one_run_may_be_empty_or_all_before_the_other() {
        let low: Vec<Row<1>> = (0..100).map(|lane| [lane]).collect();
        let high: Vec<Row<1>> = (100..140).map(|lane| [lane]).collect();
        let mut out = Vec::new();
        for (a, b) in [
            (&low, &high),
            (&high, &low),
            (&low, &vec![]),
            (&vec![], &high),
        ] {
            merge::<1, false>(&ended(a), &ended(b), &mut out);
            let mut sorted = [a.as_slice(), b].concat();
            sorted.sort_unstable();
            assert_eq!(out, ended(&sorted));
        }
    }
}
