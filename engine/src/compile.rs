//! Compilation: the passes from a bound graph to a plan. Each pass is verified, and each form is kept for printing.

use crate::device_model::DeviceModel;
use crate::fusion::{self, NotFused, fuse_with, separate_scores};
use crate::ir::{Graph, Level, Symbol};
use crate::lower::primitives;
use crate::numerics::{Numerics, Precision};
use crate::op::Registry;
use crate::pass::checked;
use crate::plan::{self, Plan, plan, separate_states};
use crate::rules::{Settings, rules, simplify_counting};

/// Settings of the compiler.
#[derive(Clone, Debug)]
pub struct Options {
    /// The classes of rules that the simplifier applies.
    pub numerics: Numerics,
    /// Whether nodes are fused. If not, every materialized node is a kernel.
    pub fuse: bool,
    /// Names of [`switches`] that are off.
    pub without: Vec<String>,
    /// The maximum number of rewrites and joins of kernels, in the order in which they are made. It bisects a
    /// miscompile.
    pub fuel: usize,
    /// The device to compile for.
    pub device: DeviceModel,
    /// The precision of matmuls.
    pub matmul: Precision,
    /// Whether results are bit-identical in each run, even if the device has a faster way.
    pub deterministic: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            numerics: Numerics::Default,
            fuse: true,
            without: vec![],
            fuel: usize::MAX,
            device: DeviceModel::default(),
            matmul: Precision::default(),
            deterministic: false,
        }
    }
}

/// Names that can be switched off: rules of the simplifier, and passes of the fuser.
pub fn switches() -> Vec<&'static str> {
    let optional = rules().into_iter().filter(|rule| !rule.is_needed).map(|rule| rule.name);
    optional.chain(fusion::PASSES.iter().map(|pass| pass.name())).collect()
}

/// The forms of a compiled graph.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The bound and typed graph, with its gradient if it trains.
    pub typed: Graph,
    /// The lowered graph.
    pub primitives: Graph,
    /// The simplified graph.
    pub simplified: Graph,
    /// Kernels, launches and memory.
    pub plan: Plan,
    /// Edges between kernels, with the reason why they are not fused.
    pub not_fused: Vec<NotFused>,
}

/// Runs all passes on a bound graph.
///
/// # Panics
/// If a pass yields an unsound graph. The message names the pass.
pub fn compile(graph: &Graph, registry: &Registry, options: &Options) -> Compiled {
    let pass = |name, graph: &Graph, run: &mut dyn FnMut(&Graph) -> Graph| {
        checked(name, Level::Primitive, graph, run).unwrap_or_else(|broken| crate::bug!("{broken}"))
    };
    let mut fuel = options.fuel;
    let primitives = pass("lower", graph, &mut |graph| primitives(graph, registry));
    let simplified = pass("simplify", &primitives, &mut |graph| {
        let (numerics, without) = (options.numerics, options.without.clone());
        let (simplified, left) = simplify_counting(graph, &Settings { numerics, without, fuel });
        fuel = left;
        simplified
    });
    let simplified = pass("separate-states", &simplified, &mut separate_states);
    let simplified = match options.fuse {
        true => pass("separate-scores", &simplified, &mut separate_scores),
        false => simplified,
    };
    let (fuse, without, device) = (options.fuse, options.without.clone(), options.device);
    let settings = fusion::Settings { fuse, without, fuel, device, deterministic: options.deterministic };
    let fused = fuse_with(&simplified, &settings);
    expect_none("fuse", fusion::verify(&simplified, &fused.kernels));
    let plan = plan(&simplified, fused.kernels, options.device.n_streams);
    let plan = Plan { matmul: options.matmul, numerics: options.numerics, ..plan };
    expect_none("plan", plan::verify(&simplified, &plan));
    Compiled { typed: graph.clone(), primitives, simplified, plan, not_fused: fused.not_fused }
}

fn expect_none(pass: &str, problems: Vec<String>) {
    if let Some(first) = problems.first() {
        crate::bug!("pass `{pass}` has made what cannot run: {first}");
    }
}

impl Compiled {
    /// The kernels in launch order as text.
    pub fn kernels_text(&self) -> String {
        let launches = self.plan.launches.iter();
        let texts = launches.map(|launch| self.plan.kernels[launch.kernel].describe(&self.simplified));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// One line per kernel: its kind, its reads and writes, and bytes. Graphs with equal plans have equal signatures,
    /// except for names.
    pub fn signature(&self) -> Vec<Signature> {
        let kernels = self.plan.launches.iter().map(|launch| &self.plan.kernels[launch.kernel]);
        kernels.map(Signature::of).collect()
    }

    /// The name of a value in the simplified graph.
    pub fn name(&self, value: crate::ir::Value) -> &Symbol {
        self.simplified.name_of(value)
    }
}

/// The memory traffic of a kernel: its kind, the types that it reads and writes, and bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// The kernel kind.
    pub kind: &'static str,
    /// Element types and numbers of elements read, sorted.
    pub reads: Vec<String>,
    /// Element types and numbers of elements written, sorted.
    pub writes: Vec<String>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

impl Signature {
    fn of(kernel: &crate::fusion::Kernel) -> Signature {
        use crate::fusion::Use;
        let types = |usage: Use| {
            let operands = kernel.operands.iter().filter(|operand| operand.usage == usage);
            // Buffers are flat: an additional axis of extent 1 does not change the memory.
            let flat =
                |operand: &crate::fusion::Operand| format!("{} x {}", operand.ty.dtype, operand.ty.numel());
            let mut types: Vec<String> = operands.map(flat).collect();
            types.sort();
            types
        };
        Signature {
            kind: kernel.kind(),
            reads: types(Use::Read),
            writes: types(Use::Write),
            bytes_read: kernel.bytes_read,
            bytes_written: kernel.bytes_written,
        }
    }
}

#[cfg(test)]
mod tests;
