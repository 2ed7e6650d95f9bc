//! Noise for autotuning: floating-point numbers of both signs with magnitudes between 1/2 and 1.

use engine_core::ir::DType;

/// The bits that turn random words into noise of an element type, for words of even and of odd number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseBits {
    /// The random bits that remain: signs and mantissas.
    pub keep: [u32; 2],
    /// The bits that are set: exponents.
    pub set: [u32; 2],
}

impl NoiseBits {
    /// `None` for types other than floating-point numbers.
    pub fn of(dtype: DType) -> Option<NoiseBits> {
        let same = |keep, set| Some(NoiseBits { keep: [keep; 2], set: [set; 2] });
        match dtype {
            // The even words are the low halves, which are mantissa only.
            DType::F64 => Some(NoiseBits { keep: [0xffff_ffff, 0x800f_ffff], set: [0, 0x3fe0_0000] }),
            DType::F32 => same(0x807f_ffff, 0x3f00_0000),
            DType::F16 => same(0x83ff_83ff, 0x3800_3800),
            DType::BF16 => same(0x807f_807f, 0x3f00_3f00),
            _ => None,
        }
    }

    /// Word `i` of the noise, from a random word.
    #[cfg(any(test, feature = "wgpu"))]
    pub fn word(&self, i: usize, random: u32) -> u32 {
        random & self.keep[i % 2] | self.set[i % 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn noise_is_finite_and_not_small_in_every_type() {
        let word = |dtype, i, random| NoiseBits::of(dtype).map_or(0, |bits| bits.word(i, random));
        for random in [0, u32::MAX, 0x1234_5678, 0xfedc_ba98] {
            let [low, high] = [0, 1].map(|i| u64::from(word(DType::F64, i, random)));
            let numbers = [
                f64::from_bits(high << 32 | low),
                f32::from_bits(word(DType::F32, 0, random)).into(),
                f16::from_bits(word(DType::F16, 0, random) as u16).to_f64(),
                bf16::from_bits((word(DType::BF16, 0, random) >> 16) as u16).to_f64(),
            ];
            assert!(numbers.iter().all(|x| (0.5..1.0).contains(&x.abs())), "{random:x}: {numbers:?}");
        }
        assert_eq!(NoiseBits::of(DType::I32), None);
    }
}
