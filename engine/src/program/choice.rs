//! Choices that are made by timing: what is recorded of them, and who makes them.

use super::Program;
use super::library::{MatmulCall, Multiplier};
use super::variant::{TuneKey, Variant};
use crate::codegen::CodegenError;
use crate::fusion::Kernel;
use std::collections::BTreeMap;
use std::convert::Infallible;

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

/// Why a launch has no program.
#[derive(Debug)]
pub struct NoProgram<E> {
    /// Position in the plan's launches.
    pub launch: usize,
    /// The cause.
    pub refusal: Refusal<E>,
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
