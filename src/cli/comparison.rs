//! Comparisons of computed results, for `engine selftest` and `engine verify`: operands, devices that compute with them,
//! tolerances, and outcomes.

mod indices;
pub(super) mod operands;
pub(super) mod part;

use std::sync::Arc;

use engine_core::ir::{DType, Graph, Node, NodeOp, Symbol, Value};
use engine_core::plan::Plan;
use engine_core::testing;
use engine_runtime::device::{Device, DeviceError, RunError};
use engine_runtime::plan_runner::Once;
use engine_runtime::tensor::HostTensor;
use indexmap::IndexMap;

use super::output::Failure;
use operands::{Operands, Sort};
use part::SEED;

/// Outputs, and next states under the names of their states.
pub(super) type Results = IndexMap<Symbol, HostTensor>;

/// One run of a comparison.
pub(super) struct Trial<'t> {
    pub(super) operands: Operands,
    pub(super) seed: u64,
    pub(super) step: u32,
    /// The sort of operands, for messages.
    pub(super) sort: &'t str,
}

impl Trial<'static> {
    /// A run on operands of a sort.
    pub(super) fn of(sort: Sort, operands: Operands, step: u32) -> Self {
        Trial { operands, seed: SEED, step, sort: sort.text() }
    }
}

/// Runs one step of a plan and returns its outputs and next states.
pub(super) fn run(
    device: &Arc<dyn Device>,
    plan: &Arc<Plan>,
    trial: &Trial<'_>,
) -> Result<Results, RunError> {
    let mut once = Once::new(device, Arc::clone(plan), &trial.operands, trial.seed)?;
    once.run(trial.step)?;
    let mut found = once.outputs()?;
    for state in plan.launches.iter().flat_map(|launch| plan.states_written(launch)) {
        found.insert(state_name(state), once.input(state)?);
    }
    Ok(found)
}

/// The name of the next value of a state among the results.
pub(super) fn state_name(state: &str) -> Symbol {
    format!("next {state}").into()
}

/// The relative tolerance of the results of a graph. Rounding errors of a sum grow with the root of its length.
pub(super) struct Tolerance {
    n_summed: usize,
}

impl Tolerance {
    pub(super) fn of(graph: &Graph) -> Tolerance {
        Tolerance { n_summed: longest_sum(graph) }
    }

    /// The tolerance of a result of this type.
    pub(super) fn at(&self, dtype: DType) -> f64 {
        testing::tolerance(dtype) * (self.n_summed as f64).sqrt().max(1.0)
    }
}

/// The longest extent that a matmul or a reduction of the graph sums over.
fn longest_sum(graph: &Graph) -> usize {
    let reduced = |node: &Node| {
        let of = |value: Value, axes: &[usize]| {
            let extents = graph.ty(value).extents();
            axes.iter().map(|&axis| extents[axis]).product::<usize>()
        };
        match &node.op {
            NodeOp::Matmul(spec) => {
                let axes: Vec<usize> = spec.contracted.iter().map(|&(axis, _)| axis).collect();
                of(node.inputs[0], &axes)
            }
            NodeOp::Reduce { axes, .. } => of(node.inputs[0], axes),
            NodeOp::Scan { axis, .. } => of(node.inputs[0], &[*axis]),
            _ => 1,
        }
    };
    graph.nodes.iter().map(reduced).max().unwrap_or(1)
}

/// Why the results of a device differ from the expected ones.
#[derive(Debug)]
pub(super) enum Fault {
    /// The device does not support the computation, or there is nothing to compare.
    Unsupported(String),
    /// The device failed or computed a wrong result.
    Wrong(String),
    /// The device is lost or out of memory, which does not judge its computation.
    Machine(DeviceError),
}

impl From<RunError> for Fault {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Device(DeviceError::Unsupported { .. }) => Fault::Unsupported(error.to_string()),
            RunError::Device(error @ (DeviceError::Lost { .. } | DeviceError::OutOfMemory { .. })) => {
                Fault::Machine(error)
            }
            _ => Fault::Wrong(error.to_string()),
        }
    }
}

/// The outcomes of comparisons.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) n: usize,
    /// Comparisons that the device does not support, with the reasons.
    pub(super) skipped: Vec<String>,
    pub(super) wrong: Vec<String>,
}

impl Tally {
    /// Counts the outcome of a comparison and returns its text; `right` is that of a successful one.
    ///
    /// # Errors
    /// If the computation of the device cannot be judged.
    pub(super) fn count<T>(
        &mut self,
        place: &str,
        outcome: Result<T, Fault>,
        right: impl FnOnce(T) -> String,
    ) -> Result<String, Failure> {
        self.n += 1;
        match outcome {
            Ok(found) => Ok(right(found)),
            Err(Fault::Unsupported(why)) => {
                self.skipped.push(format!("{place}: {why}"));
                Ok(format!("skipped: {why}"))
            }
            Err(Fault::Wrong(why)) => {
                self.wrong.push(format!("{place}: {why}"));
                Ok(format!("WRONG: {why}"))
            }
            Err(Fault::Machine(error)) => Err(error.into()),
        }
    }
}
