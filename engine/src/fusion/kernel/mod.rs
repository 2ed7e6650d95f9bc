//! Fused kernels: the work of one launch, in a form that every device can run or translate.

pub(super) mod attention;
pub(super) mod attention_gradient;
pub(super) mod body;
pub(super) mod loops;
pub(super) mod matmul;
pub(super) mod opaque;
pub(super) mod operand;
pub(super) mod row_fold;
pub(super) mod scan;
pub(super) mod scatter;
pub(super) mod segmented;
pub(super) mod work;

pub use attention::{AttentionBody, Source, Window};
pub use attention_gradient::{AttentionGradientBody, PointProduct, PointSum};
pub use body::{FusedBody, FusedInst, FusedOp, Reg};
pub use loops::LoopBody;
pub use matmul::{MatmulBody, MatrixOperand, Side, SideSum, UnevenAxes};
pub use opaque::OpaqueBody;
pub use operand::{Operand, Use};
pub use row_fold::{RowConsumer, RowsBody};
pub use scan::ScanBody;
pub use scatter::ScatterBody;
pub use segmented::{Segment, SegmentedBody};
pub use work::Work;

use crate::fusion::domain::Class;
use crate::ir::{Combine, Graph, NodeId, NodeOp, Value};
use crate::op::KernelCall;
use std::collections::HashSet;

/// The work of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelBody {
    /// Any DAG of maps, views, gathers and randoms. No `Reduce`; domain `(1, n, 1)`.
    Map(FusedBody),
    /// Maps and reductions over rows.
    Row(FusedBody),
    /// One map over several tensors.
    Segmented(SegmentedBody),
    /// Matmul with epilogue and side sums.
    Matmul(MatmulBody),
    /// Matmul, rows, matmul.
    Attention(Box<AttentionBody>),
    /// Two matmuls, maps, and matmuls of their results.
    AttentionGradient(Box<AttentionGradientBody>),
    /// Indexed combine.
    Scatter(Box<ScatterBody>),
    /// Prefixes of rows.
    Scan(ScanBody),
    /// An op that brings its own kernel.
    Opaque(OpaqueBody),
    /// The kernels of a trip, again and again.
    Loop(LoopBody),
}

impl KernelBody {
    /// The kernel of one node that reads and writes whole tensors ([`NodeOp::is_whole`]). Its operands are the node's, then
    /// its results.
    pub fn of_node(graph: &Graph, id: NodeId) -> KernelBody {
        let node = &graph.nodes[id];
        match &node.op {
            NodeOp::Call(call) => KernelBody::Opaque(OpaqueBody::new(KernelCall::new(graph, node, call))),
            &NodeOp::Scan { monoid, axis } => {
                KernelBody::Scan(ScanBody::new(graph, node.inputs[0], monoid, axis))
            }
            &NodeOp::Loop { trips, n_given, until, .. } => {
                KernelBody::Loop(LoopBody::new(id, trips, node.inputs.len() - n_given, n_given, until))
            }
            op => crate::bug!("{op:?} has no kernel of its own"),
        }
    }

    /// The work, by the interface of all kinds.
    pub fn work(&self) -> &dyn Work {
        match self {
            KernelBody::Map(body) | KernelBody::Row(body) => body,
            KernelBody::Segmented(body) => body,
            KernelBody::Matmul(body) => body,
            KernelBody::Attention(body) => &**body,
            KernelBody::AttentionGradient(body) => &**body,
            KernelBody::Scatter(body) => &**body,
            KernelBody::Scan(body) => body,
            KernelBody::Opaque(body) => body,
            KernelBody::Loop(body) => body,
        }
    }
}

/// One launch, or one parallel region on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Unique in its list; the name of a tensor that it writes.
    pub name: String,
    /// Its work.
    pub body: KernelBody,
    /// The buffers: reads first, then writes.
    pub operands: Vec<Operand>,
    /// Primitive nodes that it computes, ascending.
    pub nodes: Vec<NodeId>,
    /// The names of their ops, for users.
    pub ops: Vec<String>,
    /// Bytes that it reads: each operand, or the part of it that is reached, once.
    pub bytes_read: u64,
    /// Bytes that it writes.
    pub bytes_written: u64,
    /// Floating-point operations; a transcendental counts as one.
    pub flops: u64,
}

impl Kernel {
    /// Its name with its ops, for users.
    pub fn label(&self) -> String {
        format!("{}: {}", self.name, self.ops.join(" "))
    }

    /// Its bodies, in the order in which they run.
    pub fn bodies(&self) -> Vec<&FusedBody> {
        self.body.work().bodies()
    }

    /// Its operands of one usage.
    pub fn uses(&self, usage: Use) -> impl Iterator<Item = &Operand> {
        self.operands.iter().filter(move |operand| operand.usage == usage)
    }

    /// Whether any of its bodies has assertions.
    pub fn has_checks(&self) -> bool {
        self.assertions().next().is_some()
    }

    /// The nodes of its assertions.
    pub fn assertions(&self) -> impl Iterator<Item = NodeId> {
        let more = self.body.work().more_assertions().iter().copied();
        self.bodies().into_iter().flat_map(FusedBody::assertions).chain(more)
    }

    /// The nodes of assertions that do not depend on points, and that each launch runs. Those of loops and segments have no
    /// nodes of their own.
    fn certain_assertions(&self) -> impl Iterator<Item = NodeId> {
        let has_sites = !matches!(self.body, KernelBody::Loop(_) | KernelBody::Segmented(_));
        let runs = move |body: &&FusedBody| has_sites && body.domain.points(Class::Element) > 0;
        let insts = self.bodies().into_iter().filter(runs).flat_map(|body| &body.insts);
        insts.filter(|inst| inst.class == Class::Uniform).filter_map(FusedInst::assertion)
    }

    /// Whether it writes rows in place, whose number it computes.
    pub fn writes_rows(&self) -> bool {
        self.bodies().into_iter().any(FusedBody::writes_rows)
    }

    /// Whether it writes a row of a value in place.
    pub fn writes_rows_of(&self, value: &Value) -> bool {
        let mut insts = self.bodies().into_iter().flat_map(|body| &body.insts);
        insts.any(|inst| match inst.op {
            FusedOp::Store { operand, index: Some(_), .. } => self.operands[operand].value == *value,
            _ => false,
        })
    }

    /// Bytes of the workspace that the plan places for the kernel.
    pub fn workspace_bytes(&self) -> usize {
        self.body.work().workspace_bytes()
    }

    /// Whether it adds floats at equal indices: a device may have a fast way to do so that keeps no order.
    pub fn adds_where_indices_meet(&self) -> bool {
        let KernelBody::Scatter(body) = &self.body else { return false };
        body.combine == Combine::Add && self.operands[body.result].ty.dtype.is_float()
    }

    /// `map`, `row`, `segmented map`, `matmul`, `attention`, `attention gradient`, `scatter`, `scan`, `kernel` or `loop`.
    pub fn kind(&self) -> &'static str {
        self.body.work().kind()
    }
}

/// The positions of the kernels that may fail a check. A kernel is left out if the others surely run all of its checks.
pub fn checkers(kernels: &[Kernel]) -> Vec<usize> {
    let mut certain: HashSet<NodeId> = HashSet::new();
    let mut found = vec![];
    for (id, kernel) in kernels.iter().enumerate().filter(|(_, kernel)| kernel.has_checks()) {
        let is_loop = matches!(kernel.body, KernelBody::Loop(_));
        if is_loop || !kernel.assertions().all(|site| certain.contains(&site)) {
            found.push(id);
            certain.extend(kernel.certain_assertions());
        }
    }
    found
}
