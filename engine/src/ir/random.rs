//! Random numbers of a graph under construction. The stream of a node decides its bits.

use super::{Binary, Builder, DType, NodeOp, Type, Value};

impl Builder<'_> {
    /// Random bits, `u32[extents]`, from the stream that belongs to the current scope and `salt`.
    pub fn random_bits(&mut self, salt: &str, extents: &[usize]) -> Value {
        let stream = stream_of(&format!("{}/{salt}", self.scope()));
        self.bits_of(stream, extents)
    }

    fn bits_of(&mut self, stream: u32, extents: &[usize]) -> Value {
        let step = self.step();
        self.push(NodeOp::Random { stream }, vec![step], Type::new(DType::U32, extents))
    }

    /// Uniform numbers in the open interval (0, 1), `f32[extents]`: (k + ½)·2⁻²³ with k the upper 23 random bits.
    pub fn random_uniform(&mut self, salt: &str, extents: &[usize]) -> Value {
        let bits = self.random_bits(salt, extents);
        self.uniform_of(bits)
    }

    /// As [`Builder::random_uniform`], from the stream that belongs to a number and `salt` in every scope.
    pub fn random_uniform_of(&mut self, seed: i64, salt: &str, extents: &[usize]) -> Value {
        // No path of names has a blank.
        let bits = self.bits_of(stream_of(&format!("seed {seed}/{salt}")), extents);
        self.uniform_of(bits)
    }

    fn uniform_of(&mut self, bits: Value) -> Value {
        let shift = self.full_like(bits, 9.0);
        let top = self.binary(Binary::Shr, bits, shift);
        let k = self.cast(top, DType::F32);
        self.map(&[k], |x| (x[0] + 0.5) * (0.5f64.powi(23)))
    }
}

/// The random stream of a path of names: 32-bit FNV-1a. It decides the random bits, so it never changes.
pub fn stream_of(path: &str) -> u32 {
    path.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ byte as u32).wrapping_mul(0x0100_0193))
}
