//! Choice of the instruction set at run time.
//!
//! A [`Kernel`] is a generic loop. [`dispatch`] compiles it for AVX-512, for AVX2 with FMA and for the build target, and
//! runs the widest version that the machine has. The compiler vectorises each version, so a kernel body must be
//! `#[inline(always)]` down to its last helper. Loops without [`Kernel::IS_HOT`], such as integer arithmetic, are
//! compiled once, because versions cost build time.

use super::lanes::Lanes;
use std::ops::{Add, AddAssign, Mul};
use std::sync::LazyLock;

/// A loop to be compiled for every instruction set.
pub trait Kernel {
    /// The result of the loop.
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
    /// Its level.
    const LEVEL: Level;
    /// The vector of f32.
    type F32: Lanes<Scalar = f32>;
    /// The vector of f64.
    type F64: Lanes<Scalar = f64>;
    /// Runs a part of a kernel as a function of its own. The compiler's time grows faster than the length of a function.
    ///
    /// # Safety
    /// The machine must have the instruction set, as within [`Kernel::run`].
    unsafe fn call<K: Kernel>(part: K) -> K::Output;
}

/// A scalar that every instruction set has a vector of.
pub trait Float:
    Copy + Default + Add<Output = Self> + Mul<Output = Self> + AddAssign + Send + Sync + 'static
{
    /// The vector.
    type Vector<I: Isa>: Lanes<Scalar = Self>;
}

impl Float for f32 {
    type Vector<I: Isa> = I::F32;
}

impl Float for f64 {
    type Vector<I: Isa> = I::F64;
}

/// The instruction sets that a kernel is compiled for, from the narrowest to the widest.
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

/// Whether registers of the machine take pairs of bf16.
pub fn has_pairs() -> bool {
    Level::detected() > Level::Baseline
}

/// Runs a kernel whose factors of `f32` are pairs of bf16, on the widest instruction set of this machine.
///
/// # Panics
/// If the machine has no registers for pairs.
pub fn dispatch_pairs<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if has_bf16() {
        // SAFETY: the features were found.
        return unsafe { run_avx512_bf16(kernel) };
    }
    dispatch_pairs_on(Level::detected(), kernel)
}

/// Like [`dispatch_pairs`] on a chosen instruction set, without the instruction for bf16.
///
/// # Panics
/// As for [`dispatch_pairs`].
pub fn dispatch_pairs_on<K: Kernel>(level: Level, kernel: K) -> K::Output {
    match level.min(Level::detected()) {
        // SAFETY: `min` above keeps to the features that `detect` found.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { run_pairs_avx2(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { run_pairs_avx512(kernel) },
        _ => {
            let _ = kernel;
            crate::bug!("no registers for pairs of bf16")
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_bf16() -> bool {
    static DETECTED: LazyLock<bool> =
        LazyLock::new(|| Level::detected() == Level::Avx512 && is_x86_feature_detected!("avx512bf16"));
    *DETECTED
}

/// The instructions that the build target guarantees.
pub struct Baseline;
impl Isa for Baseline {
    const FMA: bool = cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64");
    const LEVEL: Level = Level::Baseline;
    type F32 = [f32; 4];
    type F64 = [f64; 2];
    #[inline(never)]
    unsafe fn call<K: Kernel>(part: K) -> K::Output {
        part.run::<Baseline>()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::lanes::{Bf16Pairs, Lanes, Pairs};
    use super::{Isa, Kernel, Level};
    use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};
    use std::marker::PhantomData;

    /// An instruction set with registers for pairs of bf16.
    pub trait PairIsa: Isa {
        /// The vector of pairs.
        type Pairs: Lanes<Scalar = f32>;
        /// [`Isa::call`] of a part of a kernel of pairs.
        ///
        /// # Safety
        /// As for [`Isa::call`].
        unsafe fn call_pairs<K: Kernel>(part: K) -> K::Output;
    }

    pub struct Avx2;
    impl Isa for Avx2 {
        const FMA: bool = true;
        const LEVEL: Level = Level::Avx2;
        type F32 = __m256;
        type F64 = __m256d;
        unsafe fn call<K: Kernel>(part: K) -> K::Output {
            // SAFETY: the caller's.
            unsafe { run_avx2(part) }
        }
    }
    impl PairIsa for Avx2 {
        type Pairs = Pairs<__m256>;
        unsafe fn call_pairs<K: Kernel>(part: K) -> K::Output {
            // SAFETY: the caller's.
            unsafe { run_pairs_avx2(part) }
        }
    }

    pub struct Avx512;
    impl Isa for Avx512 {
        const FMA: bool = true;
        const LEVEL: Level = Level::Avx512;
        type F32 = __m512;
        type F64 = __m512d;
        unsafe fn call<K: Kernel>(part: K) -> K::Output {
            // SAFETY: the caller's.
            unsafe { run_avx512(part) }
        }
    }
    impl PairIsa for Avx512 {
        type Pairs = Pairs<__m512>;
        unsafe fn call_pairs<K: Kernel>(part: K) -> K::Output {
            // SAFETY: the caller's.
            unsafe { run_pairs_avx512(part) }
        }
    }

    /// [`Avx512`] with an instruction for pairs of bf16.
    pub struct Avx512Bf16;
    impl Isa for Avx512Bf16 {
        const FMA: bool = true;
        const LEVEL: Level = Level::Avx512;
        type F32 = __m512;
        type F64 = __m512d;
        unsafe fn call<K: Kernel>(part: K) -> K::Output {
            // SAFETY: the caller's.
            unsafe { run_avx512(part) }
        }
    }
    impl PairIsa for Avx512Bf16 {
        type Pairs = Bf16Pairs;
        unsafe fn call_pairs<K: Kernel>(part: K) -> K::Output {
            // SAFETY: the caller's.
            unsafe { run_avx512_bf16(part) }
        }
    }

    /// An instruction set with pairs in place of `f32`.
    pub struct OfPairs<I>(PhantomData<I>);
    impl<I: PairIsa> Isa for OfPairs<I> {
        const FMA: bool = I::FMA;
        const LEVEL: Level = I::LEVEL;
        type F32 = I::Pairs;
        type F64 = I::F64;
        unsafe fn call<K: Kernel>(part: K) -> K::Output {
            // SAFETY: the caller's.
            unsafe { I::call_pairs(part) }
        }
    }

    macro_rules! runs {
        ($($name:ident $features:literal $isa:ty;)*) => { $(
            #[inline(never)]
            #[target_feature(enable = $features)]
            pub fn $name<K: Kernel>(kernel: K) -> K::Output {
                kernel.run::<$isa>()
            }
        )* };
    }
    runs! {
        run_avx2 "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt" Avx2;
        run_pairs_avx2 "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt" OfPairs<Avx2>;
        run_avx512 "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt" Avx512;
        run_pairs_avx512 "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt" OfPairs<Avx512>;
        run_avx512_bf16 "avx512bf16,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt" OfPairs<Avx512Bf16>;
    }
}
#[cfg(target_arch = "x86_64")]
use x86::{run_avx2, run_avx512, run_avx512_bf16, run_pairs_avx2, run_pairs_avx512};

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
