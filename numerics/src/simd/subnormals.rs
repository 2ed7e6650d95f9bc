//! Flushing subnormal numbers to zero.

/// While the value lives, its thread reads and writes subnormal floats as zeros; on other machines than x86-64 nothing
/// changes. Some processors take a hundred times as long for an operation on a subnormal. A decaying moment would stay
/// subnormal for good: `0.9·x` rounds to `x` for the smallest of them.
pub struct SubnormalsAreZero {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

impl SubnormalsAreZero {
    /// Sets the mode of this thread.
    // Other architectures have no mode to set.
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
    // SAFETY: the instruction writes the four bytes of `bits`.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut bits, options(nostack, preserves_flags)) };
    bits
}

#[cfg(target_arch = "x86_64")]
fn write_mxcsr(bits: u32) {
    // SAFETY: the instruction reads four bytes. Rounding and exceptions stay as they are; only the treatment of
    // subnormals changes. Only loops over memory run meanwhile, and the compiler evaluates none of them.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &bits, options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn subnormals_are_zero_while_the_guard_lives() {
        let halved = || black_box(f32::MIN_POSITIVE) * black_box(0.5);
        assert!(halved() > 0.0);
        {
            let _flushed = SubnormalsAreZero::new();
            assert_eq!(halved() == 0.0, cfg!(target_arch = "x86_64"));
        }
        assert!(halved() > 0.0);
    }
}
