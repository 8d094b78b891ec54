//! Numbers that look random and are the same everywhere: SplitMix64 (Steele, Lea and
//! Flood, 2014), whose output is part of what a seed means here.

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of numbers.
#[derive(Debug, Clone)]
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of a path of numbers, such as seed, shard and chunk. Any chunk can be
    /// made without those before it.
    pub(super) fn of(path: &[u64]) -> Self {
        let mut state = 0;
        for part in path {
            state = mix(state ^ part).wrapping_add(GOLDEN_GAMMA);
        }
        Self(state)
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// A number below `bound`; 0 when `bound` is 0. The bias is below `bound / 2^64`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_the_paper() {
        // First outputs of the reference implementation from state 1234567.
        let mut rng = SplitMix64(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_it() {
        let mut rng = SplitMix64::of(&[1, 2]);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[rng.below(5) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.below(0), 0);
    }
}
