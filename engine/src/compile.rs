//! The pipeline of passes: from a bound graph to a plan, with every stage kept for printing.

use crate::fuse::{NotFused, fuse, separate_scores};
use crate::ir::{Graph, Symbol};
use crate::lower::primitives;
use crate::op::Registry;
use crate::plan::{Plan, Precision, plan, separate_states};
use crate::rules::{Settings, simplify};

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the simplifier may do.
    pub simplify: Settings,
    /// Whether nodes share kernels; off, every node that has work to do is a kernel.
    pub fuse: bool,
    /// Streams of the device.
    pub n_streams: usize,
    /// How matrices are multiplied.
    pub matmul: Precision,
}

impl Default for Options {
    fn default() -> Options {
        Options { simplify: Settings::default(), fuse: true, n_streams: 1, matmul: Precision::default() }
    }
}

/// What became of a graph, stage by stage.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Bound and typed, with its gradient if it trains.
    pub typed: Graph,
    /// Lowered.
    pub primitives: Graph,
    /// Simplified.
    pub simplified: Graph,
    /// Kernels, launches and memory.
    pub plan: Plan,
    /// Edges between kernels, with the reason why they are not one.
    pub not_fused: Vec<NotFused>,
}

/// Runs all passes on a bound graph.
pub fn compile(graph: &Graph, registry: &Registry, options: &Options) -> Compiled {
    let primitives = primitives(graph, registry);
    let simplified = separate_states(&simplify(&primitives, &options.simplify));
    let simplified = if options.fuse { separate_scores(&simplified) } else { simplified };
    let fused = fuse(&simplified, options.fuse);
    let plan = plan(&simplified, fused.kernels, options.n_streams);
    let plan = Plan { matmul: options.matmul, ..plan };
    Compiled { typed: graph.clone(), primitives, simplified, plan, not_fused: fused.not_fused }
}

impl Compiled {
    /// The kernels in launch order as text.
    pub fn kernels_text(&self) -> String {
        let launches = self.plan.launches.iter();
        let texts = launches.map(|launch| self.plan.kernels[launch.kernel].describe(&self.simplified));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// One line per kernel: kind, what it reads and writes, bytes. Two graphs that plan alike have the same signature
    /// up to names.
    pub fn signature(&self) -> Vec<Signature> {
        let kernels = self.plan.launches.iter().map(|launch| &self.plan.kernels[launch.kernel]);
        kernels.map(Signature::of).collect()
    }

    /// The name of a value in the simplified graph.
    pub fn name(&self, value: crate::ir::Value) -> &Symbol {
        self.simplified.name_of(value)
    }
}

/// What a kernel is to memory: its kind, the types it reads and writes, and how many bytes.
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
    fn of(kernel: &crate::fuse::Kernel) -> Signature {
        use crate::fuse::Use;
        let types = |usage: Use| {
            let operands = kernel.operands.iter().filter(|operand| operand.usage == usage);
            // Buffers are flat: a shape with an axis of extent 1 more is the same memory.
            let flat =
                |operand: &crate::fuse::Operand| format!("{} x {}", operand.ty.dtype, operand.ty.numel());
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
