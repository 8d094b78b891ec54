//! Chance that falls the same way every time.

/// A die; the same seed throws the same numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// A die of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number: splitmix64, whose every seed is a good one.
    pub(crate) fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end - 1`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.throw() % end
    }

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let nth = self.below(u64::try_from(items.len()).unwrap());
        &items[usize::try_from(nth).unwrap()]
    }

    /// Whether something of this many percent comes about.
    pub(crate) fn comes_up(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Puts these into another order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (2..=items.len()).rev() {
            let nth = self.below(u64::try_from(end).unwrap());
            items.swap(end - 1, usize::try_from(nth).unwrap());
        }
    }
}

/// The die of one matter among those of a seed.
pub(crate) fn dice_of(seed: u64, matter: &str) -> Dice {
    // FNV-1a.
    let hash = matter
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    Dice::new(seed ^ hash)
}
