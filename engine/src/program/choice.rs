//! Choices that are made by timing: what is recorded of them, and who makes them.

use super::library::MatmulCall;
use super::matrix_units::Block;
use super::{Multiplier, Program};
use crate::codegen::{CodegenError, SplitK};
use crate::fusion::Kernel;
use std::collections::BTreeMap;
use std::convert::Infallible;
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
    /// The library, with as much of the epilogue as it can run.
    Library,
    /// The library on so many parts of the contracted axis, which are summed afterwards.
    LibraryInParts(usize),
    /// One kernel of code generation.
    OwnKernel,
    /// Kernels that compute tiles of the result, cut along the contracted axis.
    Blocked(SplitK),
    /// A kernel on matrix units.
    MatrixUnits(Block),
    /// Panels of a product, each folded before the next one is multiplied.
    PanelsInTurn,
    /// Panels of which one is folded while the next one is multiplied.
    PanelsOverlapped,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variant::Library => f.write_str("library"),
            Variant::LibraryInParts(parts) => write!(f, "library in parts: {parts}"),
            Variant::OwnKernel => f.write_str("own kernel"),
            Variant::Blocked(cut) => write!(f, "blocked {cut}"),
            Variant::MatrixUnits(block) => write!(f, "matrix units {block}"),
            Variant::PanelsInTurn => f.write_str("in turn"),
            Variant::PanelsOverlapped => f.write_str("overlapped"),
        }
    }
}

/// A variant, and those that it was chosen from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The chosen one.
    pub variant: Variant,
    /// All of them, the most likely one first.
    pub variants: Vec<Variant>,
    /// Whether it was timed, now or in an earlier run. If not, it is the most likely one.
    pub is_tuned: bool,
}

/// Whether a device computes a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capability {
    /// No algorithm is known, or none computes it as it should be.
    None,
    /// By an algorithm that is chosen on the device.
    Open,
    /// By this algorithm.
    Algorithm(String),
}

/// Makes the choices of a device, by timing or from a record.
pub trait Tuner {
    /// What can go wrong.
    type Error;

    /// Whether the device computes a call, and how.
    ///
    /// # Errors
    /// If the device fails.
    fn capability(&self, call: &MatmulCall) -> Result<Capability, Self::Error>;

    /// The position of a kernel's fastest variant; none if nothing was timed. `program` makes the program to time of a variant, or
    /// none if the device does not compute it.
    ///
    /// # Errors
    /// If the device fails.
    fn fastest(
        &self,
        kernel: &Kernel,
        key: &TuneKey,
        variants: &[Variant],
        program: &mut dyn FnMut(Variant) -> Result<Option<Program>, Refusal<Self::Error>>,
    ) -> Result<Option<usize>, Refusal<Self::Error>>;
}

/// Why something has no program.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal<E> {
    /// Code generation has no kernel.
    Codegen(CodegenError),
    /// The tuner failed.
    Tuner(E),
}

impl<E> From<CodegenError> for Refusal<E> {
    fn from(error: CodegenError) -> Refusal<E> {
        Refusal::Codegen(error)
    }
}

/// Choices of an earlier run, by their names; it times nothing, so it needs no device.
#[derive(Clone, Debug, Default)]
pub struct Recorded(pub BTreeMap<String, String>);

/// What is recorded where a device computes a call by no algorithm.
pub const NO_ALGORITHM: &str = "none";

impl Tuner for Recorded {
    type Error = Infallible;

    fn capability(&self, call: &MatmulCall) -> Result<Capability, Infallible> {
        if call.multiplier == Multiplier::Library && call.matrices().is_none() {
            return Ok(Capability::None);
        }
        Ok(match self.0.get(&call.key().name()).map(String::as_str) {
            None => Capability::Open,
            Some(NO_ALGORITHM) => Capability::None,
            Some(algorithm) => Capability::Algorithm(algorithm.to_string()),
        })
    }

    fn fastest(
        &self,
        _: &Kernel,
        key: &TuneKey,
        variants: &[Variant],
        _: &mut dyn FnMut(Variant) -> Result<Option<Program>, Refusal<Infallible>>,
    ) -> Result<Option<usize>, Refusal<Infallible>> {
        let recorded = self.0.get(&key.name());
        Ok(recorded.and_then(|text| variants.iter().position(|variant| variant.to_string() == *text)))
    }
}
