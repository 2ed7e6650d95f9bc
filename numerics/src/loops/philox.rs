//! Slices of random words; [`crate::philox`] is the generator.

use crate::philox::{philox_block, philox_blocks};
use engine_core::op::simd::{Isa, Kernel, dispatch};

/// Fills `out` with the random words of the elements from `first_element` on. The word of element e is word `e mod 4` of
/// a block, whose counter is `[low half of e/4, high half of e/4, step, iteration]`.
pub fn philox_u32(out: &mut [u32], key: [u32; 2], first_element: u64, step: u32, iteration: u32) {
    // Up to three words of a block that begins before the slice, then whole blocks.
    let skipped = (first_element % 4) as usize;
    let (head, body) = out.split_at_mut(((4 - skipped) % 4).min(out.len()));
    if !head.is_empty() {
        let block = philox_block(counter(first_element / 4, step, iteration), key);
        head.copy_from_slice(&block[skipped..][..head.len()]);
    }
    dispatch(Blocks { out: body, key, first_block: first_element.div_ceil(4), step, iteration });
}

/// Fills `out` with the bits of `f32(word >> shift)` for the words of [`philox_u32`].
pub fn philox_f32(out: &mut [u32], shift: u32, key: [u32; 2], first_element: u64, step: u32, iteration: u32) {
    for (i, words) in out.chunks_mut(CONVERTED).enumerate() {
        philox_u32(words, key, first_element + (i * CONVERTED) as u64, step, iteration);
        dispatch(Shifted(words, shift));
    }
}

/// Words that are converted to floats while they are in cache.
const CONVERTED: usize = 1024;

struct Shifted<'a>(&'a mut [u32], u32);
impl Kernel for Shifted<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        for word in self.0 {
            *word = (word.wrapping_shr(self.1) as f32).to_bits();
        }
    }
}

/// Blocks that are computed together.
const N_PARALLEL: usize = 16;

#[inline(always)]
fn counter(block: u64, step: u32, iteration: u32) -> [u32; 4] {
    [block as u32, (block >> 32) as u32, step, iteration]
}

struct Blocks<'a> {
    out: &'a mut [u32],
    key: [u32; 2],
    first_block: u64,
    step: u32,
    iteration: u32,
}
impl Kernel for Blocks<'_> {
    type Output = ();
    #[inline(always)]
    fn run<I: Isa>(self) {
        let (groups, rest) = self.out.as_chunks_mut::<{ 4 * N_PARALLEL }>();
        let mut block = self.first_block;
        for group in groups {
            let mut words =
                [[0; N_PARALLEL], [0; N_PARALLEL], [self.step; N_PARALLEL], [self.iteration; N_PARALLEL]];
            let [low, high, ..] = &mut words;
            for (i, (low, high)) in low.iter_mut().zip(high).enumerate() {
                let block = block.wrapping_add(i as u64);
                (*low, *high) = (block as u32, (block >> 32) as u32);
            }
            let words = philox_blocks(words, self.key);
            for (at, words) in words.iter().enumerate() {
                for (i, &word) in words.iter().enumerate() {
                    group[4 * i + at] = word;
                }
            }
            block = block.wrapping_add(N_PARALLEL as u64);
        }
        for words in rest.chunks_mut(4) {
            words.copy_from_slice(
                &philox_block(counter(block, self.step, self.iteration), self.key)[..words.len()],
            );
            block = block.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine_core::op::simd::{Level, dispatch_on};

    /// Known answers published with the Random123 library (`kat_vectors`, philox4x32 10).
    #[test]
    fn blocks_match_the_published_answers() {
        let published = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, key, expected) in published {
            assert_eq!(philox_block(counter, key), expected);
            // An element number holds 62 bits of the block number.
            let block = counter[0] as u64 | (counter[1] as u64) << 32;
            if block < 1 << 62 {
                let mut out = [0; 4];
                philox_u32(&mut out, key, 4 * block, counter[2], counter[3]);
                assert_eq!(out, expected);
            }
        }
    }

    #[test]
    fn a_word_depends_on_its_element_alone() {
        let key = [7, 11];
        let first = 4 * (u32::MAX as u64) - 100;
        let word = |e: u64| philox_block(counter(e / 4, 3, 5), key)[(e % 4) as usize];
        for (offset, len) in [(0, 400), (1, 2), (2, 1), (3, 131), (5, 64), (6, 0), (99, 300)] {
            let mut out = vec![0; len];
            philox_u32(&mut out, key, first + offset, 3, 5);
            let expected: Vec<u32> = (0..len as u64).map(|i| word(first + offset + i)).collect();
            assert_eq!(out, expected, "offset {offset}, {len} words");
        }
    }

    #[test]
    fn shifted_words_become_floats() {
        let (mut words, mut floats) = (vec![0; 3000], vec![0; 3000]);
        philox_u32(&mut words, [7, 11], 5, 3, 2);
        philox_f32(&mut floats, 9, [7, 11], 5, 3, 2);
        assert!(words.iter().zip(&floats).all(|(word, float)| ((word >> 9) as f32).to_bits() == *float));
    }

    #[test]
    fn every_instruction_set_gives_the_same_words() {
        let words = |level| {
            let mut out = vec![0; 1000];
            dispatch_on(level, Blocks { out: &mut out, key: [1, 2], first_block: 3, step: 4, iteration: 5 });
            out
        };
        assert!(Level::available().all(|level| words(level) == words(Level::Baseline)));
    }
}
