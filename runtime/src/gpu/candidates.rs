//! The kernels that autotuning of a plan will time, compiled together.
//!
//! Autotuning times one kernel of the plan after the other. If it compiled each variant on its way, all processors except one
//! would wait.

use super::api::Gpu;
use super::autotune::{Bench, Timed};
use super::bench::GpuBench;
use super::source::Source;
use super::translate;
use crate::device::DeviceError;
use engine_core::fusion::Kernel;
use engine_core::program::{Capability, MatmulCall, Program, Refusal, TuneKey, Tuner, Variant};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A tuner that times nothing, and collects the kernels of all variants without a recorded choice.
pub struct Candidates<'g, G> {
    timed: Timed<GpuBench<'g, G>>,
    found: RefCell<Found>,
}

#[derive(Default)]
struct Found {
    keys: BTreeSet<String>,
    /// With the names of their kernels.
    sources: Vec<(String, Source)>,
}

impl<'g, G: Gpu> Candidates<'g, G> {
    /// None yet.
    pub fn new(gpu: &'g Arc<G>) -> Candidates<'g, G> {
        Candidates { timed: Timed(GpuBench(gpu)), found: RefCell::default() }
    }

    /// Whether all choices are recorded.
    pub fn is_empty(&self) -> bool {
        self.found.borrow().keys.is_empty()
    }

    /// Compiles all kernels. Autotuning finds them in the cache, and reports those that do not compile.
    pub fn compile(self) {
        let gpu = self.timed.0.0;
        let sources = self.found.into_inner().sources;
        let _ = gpu.state().kernels.load(&sources, |owner, source| gpu.compile(owner, source));
    }
}

impl<G: Gpu> Tuner for Candidates<'_, G> {
    type Error = DeviceError;

    fn capability(&self, call: &MatmulCall) -> Result<Capability, DeviceError> {
        self.timed.capability(call)
    }

    fn fastest(
        &self,
        kernel: &Kernel,
        key: &TuneKey,
        variants: &[Variant],
        program: &mut dyn FnMut(Variant) -> Result<Option<Program>, Refusal<DeviceError>>,
    ) -> Result<Option<usize>, Refusal<DeviceError>> {
        let choices = self.timed.0.choices();
        if choices.recall(key, variants) {
            return self.timed.fastest(kernel, key, variants, program);
        }
        if choices.can_time && self.found.borrow_mut().keys.insert(key.details.clone()) {
            for &variant in variants {
                let sources = match program(variant) {
                    Ok(Some(program)) => translate::sources(self.timed.0.0, kernel, &program),
                    _ => continue,
                };
                self.found.borrow_mut().sources.extend(sources.into_iter().flatten());
            }
        }
        Ok(None)
    }
}
