//! Choice of the instruction set at run time.
//!
//! A [`Kernel`] is written once, as a generic loop; [`dispatch`] compiles it three times (AVX-512, AVX2 with FMA,
//! and whatever the target guarantees) and runs the widest version this machine has. The compiler vectorises
//! the loop for each, so a kernel body must be `#[inline(always)]` down to its last helper. Loops that no training
//! step spends its time in, such as the arithmetic of integers, are compiled once: versions cost build time.

use super::gemm::Lanes;
use super::math;
use super::prefetch::CHUNK;
use std::sync::LazyLock;

/// A loop to be compiled for every instruction set.
pub trait Kernel {
    /// What the loop returns.
    type Output;
    /// Whether the loop is worth three versions; if not, it is compiled once, for the baseline.
    const IS_HOT: bool = true;
    /// Runs the loop; implementations are `#[inline(always)]`.
    fn run<I: Isa>(self) -> Self::Output;
}

/// An instruction set as seen by a kernel body.
pub trait Isa: Sized + 'static {
    /// Whether `f32::mul_add` is one instruction here; without it, it is a slow library call.
    const FMA: bool;
    /// Vector of f32 for the matrix product.
    type F32: Lanes<Scalar = f32>;
    /// Vector of f64 for the matrix product.
    type F64: Lanes<Scalar = f64>;

    /// [`math::exp`] of each.
    #[inline(always)]
    fn exp(values: &mut [f32; CHUNK]) {
        for value in values {
            *value = math::exp::<Self>(*value);
        }
    }

    /// [`math::log`] of each.
    #[inline(always)]
    fn log(values: &mut [f32; CHUNK]) {
        for value in values {
            *value = math::log::<Self>(*value);
        }
    }
}

/// The instruction sets a kernel is compiled for, from the narrowest to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the build target guarantees (SSE2 on x86-64).
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512,
}

impl Level {
    /// The widest level this machine runs.
    pub fn detected() -> Level {
        static DETECTED: LazyLock<Level> = LazyLock::new(detect);
        *DETECTED
    }

    /// Every level this machine runs, narrowest first; tests walk it.
    pub fn available() -> impl Iterator<Item = Level> {
        [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|level| *level <= Level::detected())
    }
}

/// Runs a kernel on the widest instruction set of this machine.
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_on(Level::detected(), kernel)
}

/// Runs a kernel on a chosen instruction set, or on the widest one if this machine lacks it.
pub fn dispatch_on<K: Kernel>(level: Level, kernel: K) -> K::Output {
    if !K::IS_HOT {
        return kernel.run::<Baseline>();
    }
    match level.min(Level::detected()) {
        Level::Baseline => kernel.run::<Baseline>(),
        // SAFETY: `min` above keeps to the features that `detect` found.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { run_avx2(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { run_avx512(kernel) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => kernel.run::<Baseline>(),
    }
}

/// While it lives, this thread reads and writes subnormal floats as zeros (on x86-64; elsewhere nothing changes). Some
/// processors take a hundred times as long for an operation that meets one, and a moment that decays by a factor ends up
/// as one for good: `0.9·x` rounds to `x` for the smallest of them.
pub struct SubnormalsAreZero {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

impl SubnormalsAreZero {
    /// From now on.
    // The other architectures have nothing to read.
    #[allow(clippy::new_without_default)]
    pub fn new() -> SubnormalsAreZero {
        #[cfg(target_arch = "x86_64")]
        {
            const FLUSH_RESULTS: u32 = 1 << 15;
            const READ_AS_ZERO: u32 = 1 << 6;
            let before = read_mxcsr();
            write_mxcsr(before | FLUSH_RESULTS | READ_AS_ZERO);
            SubnormalsAreZero { before }
        }
        #[cfg(not(target_arch = "x86_64"))]
        SubnormalsAreZero {}
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for SubnormalsAreZero {
    fn drop(&mut self) {
        write_mxcsr(self.before);
    }
}

#[cfg(target_arch = "x86_64")]
fn read_mxcsr() -> u32 {
    let mut bits = 0u32;
    // SAFETY: writes four bytes to where it is told.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut bits, options(nostack, preserves_flags)) };
    bits
}

#[cfg(target_arch = "x86_64")]
fn write_mxcsr(bits: u32) {
    // SAFETY: reads four bytes. Rounding and exceptions stay as they are; what changes is the treatment of subnormals,
    // and only loops over memory run meanwhile, whose results nothing computes at build time.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &bits, options(nostack, preserves_flags)) };
}

/// What the build target guarantees.
pub struct Baseline;
impl Isa for Baseline {
    const FMA: bool = cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64");
    type F32 = [f32; 4];
    type F64 = [f64; 2];
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::avx512_math;
    use super::{CHUNK, Isa, Kernel};
    use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};

    pub struct Avx2;
    impl Isa for Avx2 {
        const FMA: bool = true;
        type F32 = __m256;
        type F64 = __m256d;
    }

    pub struct Avx512;
    impl Isa for Avx512 {
        const FMA: bool = true;
        type F32 = __m512;
        type F64 = __m512d;

        #[inline(always)]
        fn exp(values: &mut [f32; CHUNK]) {
            // SAFETY: loops for this set run where it is.
            unsafe { avx512_math::exp(values) }
        }

        #[inline(always)]
        fn log(values: &mut [f32; CHUNK]) {
            // SAFETY: as above.
            unsafe { avx512_math::log(values) }
        }
    }

    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    pub fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<Avx2>()
    }

    #[target_feature(
        enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
    )]
    pub fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
        kernel.run::<Avx512>()
    }
}
#[cfg(target_arch = "x86_64")]
use x86::{run_avx2, run_avx512};

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Baseline
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    macro_rules! all { ($($feature:tt)*) => { $(std::arch::is_x86_feature_detected!($feature))&&* } }
    let avx2 = all!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt");
    let avx512 = all!("avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        (false, _) => Level::Baseline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn subnormals_are_zero_as_long_as_asked_for() {
        let halved = || black_box(f32::MIN_POSITIVE) * black_box(0.5);
        assert!(halved() > 0.0);
        {
            let _flushed = SubnormalsAreZero::new();
            assert_eq!(halved() == 0.0, cfg!(target_arch = "x86_64"));
        }
        assert!(halved() > 0.0);
    }
}
