//! How a leaf is cut into windows, each read in one go.
//!
//! A window is some whole blocks, or a part of one block: never the end of one block with
//! the start of the next. The budget counts on that, because what is held for a block is
//! only given back when the block is folded.

use std::ops::Range;

/// Cuts a leaf into windows of about `target_bytes`, as ranges of slabs.
///
/// `slab_bytes` are the encoded bytes of each slab, `slabs_per_block` how many slabs make a
/// block; 1 also where a slab spans several blocks.
pub(super) fn cut(
    slab_bytes: &[u64],
    slabs_per_block: usize,
    target_bytes: u64,
) -> Vec<Range<usize>> {
    let mut windows = Vec::new();
    let mut whole_blocks = 0..0;
    let mut held = 0;
    for start in (0..slab_bytes.len()).step_by(slabs_per_block.max(1)) {
        let block = start..(start + slabs_per_block.max(1)).min(slab_bytes.len());
        let size: u64 = slab_bytes[block.clone()].iter().sum();
        if !whole_blocks.is_empty() && held + size > target_bytes {
            windows.push(whole_blocks);
            (whole_blocks, held) = (start..start, 0);
        }
        if size > target_bytes {
            windows.extend(parts(slab_bytes, &block, target_bytes));
            whole_blocks = block.end..block.end;
        } else {
            whole_blocks.end = block.end;
            held += size;
        }
    }
    if !whole_blocks.is_empty() {
        windows.push(whole_blocks);
    }
    windows
}

/// Cuts one block that is larger than a window.
fn parts(slab_bytes: &[u64], block: &Range<usize>, target_bytes: u64) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut held) = (block.start, 0);
    for slab in block.clone() {
        if held > 0 && held + slab_bytes[slab] > target_bytes {
            parts.push(start..slab);
            (start, held) = (slab, 0);
        }
        held += slab_bytes[slab];
    }
    parts.push(start..block.end);
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn windows_cover_the_leaf_and_never_straddle_a_block(
            slab_bytes in prop::collection::vec(prop_oneof![Just(0), 0..50u64], 1..70),
            slabs_per_block in 1..9usize,
            target in 0..120u64,
        ) {
            let windows = cut(&slab_bytes, slabs_per_block, target);
            let mut next = 0;
            for window in &windows {
                prop_assert_eq!(window.start, next);
                prop_assert!(!window.is_empty());
                next = window.end;
                let at_border = |slab: usize| slab.is_multiple_of(slabs_per_block) || slab == slab_bytes.len();
                let one_block = window.start / slabs_per_block == (window.end - 1) / slabs_per_block;
                prop_assert!(one_block || at_border(window.start) && at_border(window.end));
                let bytes: u64 = slab_bytes[window.clone()].iter().sum();
                let data = slab_bytes[window.clone()].iter().filter(|bytes| **bytes > 0).count();
                prop_assert!(bytes <= target || data == 1);
            }
            prop_assert_eq!(next, slab_bytes.len());
        }
    }

    #[test]
    fn small_blocks_share_a_window_and_large_ones_are_cut() {
        assert_eq!(cut(&[1, 1, 1, 1, 1, 1], 2, 4), [0..4, 4..6]);
        assert_eq!(cut(&[1, 1, 5, 5, 1, 1], 2, 4), [0..2, 2..3, 3..4, 4..6]);
        assert_eq!(cut(&[0, 0, 0, 9], 2, 4), [0..2, 2..4]);
        assert_eq!(cut(&[3, 3, 3], 3, 4), [0..1, 1..2, 2..3]);
    }
}
