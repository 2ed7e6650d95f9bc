//! The load that warms a GPU up, and noise for autotuning: floating-point numbers of both signs with magnitudes between 1/2 and 1.

use super::api::{Gpu, GpuMemory};
use crate::device::DeviceError;
use engine_core::ir::DType;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The bits that turn random words into noise of an element type, for words of even and of odd number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NoiseBits {
    /// The random bits that remain: signs and mantissas.
    keep: [u32; 2],
    /// The bits that are set: exponents.
    set: [u32; 2],
}

impl NoiseBits {
    /// `None` for types other than floating-point numbers.
    fn of(dtype: DType) -> Option<NoiseBits> {
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
    fn word(&self, i: usize, random: u32) -> u32 {
        random & self.keep[i % 2] | self.set[i % 2]
    }
}

/// The load after which a GPU runs at its full clock rate.
const WARM_UP: Duration = Duration::from_millis(60);
/// Bytes that the load writes at a time: more than caches hold.
const WARM_UP_BYTES: usize = 64 << 20;

/// Keeps a GPU busy until it reaches its full clock rate, once. An idle GPU runs at a fraction of that rate.
///
/// # Errors
/// If the device fails.
pub fn warm_up<G: Gpu>(gpu: &Arc<G>) -> Result<(), DeviceError> {
    if gpu.state().is_warmed_up.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let memory = G::Memory::new(gpu, WARM_UP_BYTES)?;
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        memory.clear()?;
    }
    Ok(())
}

/// The period of the noise in words. It is even, so that the halves of `f64` keep their places.
const PERIOD: usize = 1 << 20;

/// Fills memory with noise of an element type. Integers stay as they are.
///
/// # Errors
/// If the device fails.
pub fn fill<M: GpuMemory>(memory: &M, dtype: DType) -> Result<(), DeviceError> {
    let Some(bits) = NoiseBits::of(dtype) else { return Ok(()) };
    let n_bytes = memory.bytes();
    let words = (0..PERIOD.min(n_bytes.div_ceil(4))).map(|i| bits.word(i, hashed(i as u32)));
    let noise: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    for start in (0..n_bytes).step_by(noise.len().max(1)) {
        memory.write(start, &noise[..noise.len().min(n_bytes - start)])?;
    }
    Ok(())
}

/// The hash "lowbias32" of C. Wellons, "Hash Prospector", 2018.
fn hashed(x: u32) -> u32 {
    let x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
    let x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
    x ^ x >> 16
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
