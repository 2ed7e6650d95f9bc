//! Philox4x32-10, the random number generator of the engine.
//!
//! The generator of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
//! It is a bijection of 128-bit counters with a 64-bit key, so any block can be drawn without the blocks before it.

/// One block: four random words of a counter.
#[inline(always)]
pub fn philox_block(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [[a], [b], [c], [d]] = philox_blocks(counter.map(|word| [word]), key);
    [a, b, c, d]
}

const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// `N` blocks, one per lane of the four counter words. Words are held in 64 bits with an undefined upper half. So
/// products need no shuffles between 32-bit and 64-bit lanes.
#[inline(always)]
pub fn philox_blocks<const N: usize>(counter: [[u32; N]; 4], key: [u32; 2]) -> [[u32; N]; 4] {
    // Loops rather than `map`, which is not inlined for arrays of this size.
    let mut wide = [[0u64; N]; 4];
    for (wide, words) in wide.iter_mut().zip(&counter) {
        for (wide, &word) in wide.iter_mut().zip(words) {
            *wide = word as u64;
        }
    }
    let [mut c0, mut c1, mut c2, mut c3] = wide;
    let mut key = key;
    for _ in 0..10 {
        for i in 0..N {
            let product0 = (c0[i] & 0xFFFF_FFFF) * MULTIPLIERS[0];
            let product1 = (c2[i] & 0xFFFF_FFFF) * MULTIPLIERS[1];
            c0[i] = (product1 >> 32) ^ c1[i] ^ key[0] as u64;
            c1[i] = product1;
            c2[i] = (product0 >> 32) ^ c3[i] ^ key[1] as u64;
            c3[i] = product0;
        }
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    let mut narrow = [[0; N]; 4];
    for (narrow, words) in narrow.iter_mut().zip(&[c0, c1, c2, c3]) {
        for (narrow, &word) in narrow.iter_mut().zip(words) {
            *narrow = word as u32;
        }
    }
    narrow
}

/// The words of successive blocks, for host code that draws a variable number of them.
///
/// The key is the seed. The upper counter words identify the use, so that two uses of one seed have different words.
#[derive(Clone, Debug)]
pub struct WordStream {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    n_used: usize,
}

impl WordStream {
    /// The stream for `item` (an epoch, a sample, ...) of the use called `domain`.
    pub fn new(seed: u64, domain: u32, item: u64) -> Self {
        let key = [seed as u32, (seed >> 32) as u32];
        let counter = [0, domain, item as u32, (item >> 32) as u32];
        WordStream { key, counter, block: [0; 4], n_used: 4 }
    }

    /// The next 32 random bits. A stream has a period of 2³⁴ words.
    pub fn word(&mut self) -> u32 {
        if self.n_used == 4 {
            self.block = philox_block(self.counter, self.key);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.n_used = 0;
        }
        self.n_used += 1;
        self.block[self.n_used - 1]
    }

    /// An integer below `bound`, each with the same probability; `bound` must not be 0.
    ///
    /// D. Lemire, "Fast random integer generation in an interval" (2019): the upper half of a product is the result,
    /// and the few biased words are drawn again.
    pub fn below(&mut self, bound: u32) -> u32 {
        let mut product = u64::from(self.word()) * u64::from(bound);
        if (product as u32) < bound {
            let n_surplus = bound.wrapping_neg() % bound;
            while (product as u32) < n_surplus {
                product = u64::from(self.word()) * u64::from(bound);
            }
        }
        (product >> 32) as u32
    }

    /// A multiple of 2⁻²⁴ in `[0, 1)`.
    pub fn unit(&mut self) -> f32 {
        (self.word() >> 8) as f32 * (1.0 / 16_777_216.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors of the Random123 distribution.
    #[test]
    fn known_answers() {
        let all = u32::MAX;
        let zeros = philox_block([0; 4], [0; 2]);
        let ones = philox_block([all; 4], [all; 2]);
        let pi = philox_block([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]);
        assert_eq!(zeros, [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(ones, [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        assert_eq!(pi, [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    #[test]
    fn a_stream_is_its_blocks_in_order() {
        let mut stream = WordStream::new(7 << 32 | 5, 3, 9 << 32 | 8);
        let words: Vec<u32> = (0..8).map(|_| stream.word()).collect();
        assert_eq!(words[..4], philox_block([0, 3, 8, 9], [5, 7]));
        assert_eq!(words[4..], philox_block([1, 3, 8, 9], [5, 7]));
    }

    /// With a bound of 3·2³⁰, words modulo the bound would give the lower third twice its share.
    #[test]
    fn integers_below_a_bound_are_unbiased() {
        let mut stream = WordStream::new(1, 0, 0);
        let bound = 3 << 30;
        let mut counts = [0u32; 3];
        (0..30_000).for_each(|_| counts[(stream.below(bound) >> 30) as usize] += 1);
        // Each count has a standard deviation of 82.
        assert!(counts.iter().all(|&count| count.abs_diff(10_000) < 410), "{counts:?}");
    }

    #[test]
    fn units_fill_the_half_open_interval() {
        let mut stream = WordStream::new(2, 0, 0);
        let units: Vec<f32> = (0..10_000).map(|_| stream.unit()).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f32>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.015, "{mean}");
    }
}
