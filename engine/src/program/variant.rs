//! Variants of a program, and what the choice between them is recorded under.

use super::matrix_units::Block;
use crate::codegen::{ResultTile, SplitK};
use std::fmt;

/// What a choice is recorded under: a few words for people, and all that it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuneKey {
    /// For people.
    pub subject: String,
    /// All that the choice depends on.
    pub details: String,
}

impl TuneKey {
    /// The name of the choice in a file: the subject, and a hash of the details.
    pub fn name(&self) -> String {
        format!("{} #{:016x}", self.subject, fnv1a(self.details.as_bytes()))
    }
}

/// FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// One way to compute a kernel. Its text is what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// The library of convolutions, with a kernel behind it where the matmul has an epilogue.
    Convolution,
    /// A kernel that reads windows of an image where they lie.
    Windows,
    /// The library, with as much of the epilogue as it can run.
    Library,
    /// The library on so many parts of the contracted axis, which are summed afterwards.
    LibraryInParts(usize),
    /// One kernel whose blocks slice the contracted axis.
    Sliced,
    /// One kernel of code generation.
    OwnKernel,
    /// Kernels that compute tiles of the result, cut along the contracted axis.
    Blocked(SplitK),
    /// A kernel on matrix units.
    MatrixUnits(Block),
    /// A kernel on tensor cores with tiles of this size.
    TensorCores(ResultTile),
    /// A kernel on tensor cores with tiles of this size, after those that split factors in `f32` into terms in bf16.
    Terms(ResultTile),
    /// Panels of a product, each folded before the next one is multiplied.
    PanelsInTurn,
    /// Panels of whole rows, each folded before the next one is multiplied.
    PanelsOfRows,
    /// Panels of which one is folded while the next one is multiplied.
    PanelsOverlapped,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::Convolution => f.write_str("convolution"),
            Variant::Windows => f.write_str("windows"),
            Variant::Library => f.write_str("library"),
            Variant::LibraryInParts(parts) => write!(f, "library in parts: {parts}"),
            Variant::Sliced => f.write_str("sliced"),
            Variant::OwnKernel => f.write_str("own kernel"),
            Variant::Blocked(cut) => write!(f, "blocked {cut}"),
            Variant::MatrixUnits(block) => write!(f, "matrix units {block}"),
            Variant::TensorCores(tile) => write!(f, "tensor cores {tile}"),
            Variant::Terms(tile) => write!(f, "terms on tensor cores {tile}"),
            Variant::PanelsInTurn => f.write_str("in turn"),
            Variant::PanelsOfRows => f.write_str("whole rows"),
            Variant::PanelsOverlapped => f.write_str("overlapped"),
        }
    }
}

/// A variant, and those that it was chosen from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The chosen one.
    pub variant: Variant,
    /// All of them, the most likely one first.
    pub variants: Vec<Variant>,
    /// Whether it was timed, now or in an earlier run. If not, it is the most likely one.
    pub is_tuned: bool,
}
