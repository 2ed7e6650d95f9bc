//! Fused kernels: the work of one launch, in a form that every device can run or translate.

pub mod attention;
pub mod body;
pub mod loops;
pub mod matmul;
pub mod operand;
pub mod row_fold;
pub mod scatter;

use super::domain::Domain;
use crate::ir::{Combine, Literal, Monoid, NodeId, Value};
use crate::op::KernelCall;
use attention::AttentionBody;
use body::{FusedBody, FusedOp};
use loops::LoopBody;
use matmul::MatmulBody;
use operand::{Operand, Use};
use scatter::ScatterBody;

/// One tensor of a segmented map.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// Kernel operand of each operand slot of the body.
    pub operands: Vec<usize>,
    /// Number of points.
    pub points: usize,
    /// Constants that replace the body's constants of the same order where segments differ.
    pub constants: Vec<Literal>,
}

/// An op that brings its own kernel; the kernel's operands are those of the call, then its results.
#[derive(Clone, Debug, PartialEq)]
pub struct OpaqueBody {
    /// The call.
    pub call: KernelCall,
    /// Bytes of its workspace.
    pub workspace_bytes: usize,
}

impl OpaqueBody {
    /// The call, with the workspace that its form asks for.
    pub fn new(call: KernelCall) -> OpaqueBody {
        let workspace_bytes = (call.form().host)(&call).workspace_bytes;
        OpaqueBody { call, workspace_bytes }
    }
}

/// The work of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelBody {
    /// Any DAG of maps, views, gathers and randoms. No `Reduce`; domain `(1, n, 1)`.
    Map(FusedBody),
    /// Maps and reductions over rows.
    Row(FusedBody),
    /// One body over a table of segments; the body's operand numbers are slots. Domain row is the longest segment.
    /// Accesses of the body are identity (`Element`) or uniform.
    Segmented {
        /// The program; `Load`/`Store` accesses are identities over the segment's own points.
        body: FusedBody,
        /// The table.
        segments: Vec<Segment>,
    },
    /// Matmul with epilogue and side sums.
    Matmul(MatmulBody),
    /// Matmul, rows, matmul.
    Attention(Box<AttentionBody>),
    /// Indexed combine.
    Scatter(Box<ScatterBody>),
    /// Inclusive prefix combine along the row of a domain: operand 0 to operand 1.
    Scan {
        /// How to combine.
        monoid: Monoid,
        /// Rows run along `row`.
        domain: Domain,
    },
    /// An op that brings its own kernel.
    Opaque(OpaqueBody),
    /// The kernels of a trip, again and again.
    Loop(LoopBody),
}

impl KernelBody {
    /// The bodies, in the order in which they run.
    pub fn bodies(&self) -> Vec<&FusedBody> {
        match self {
            KernelBody::Map(body) | KernelBody::Row(body) | KernelBody::Segmented { body, .. } => {
                vec![body]
            }
            KernelBody::Matmul(body) => vec![&body.epilogue],
            KernelBody::Attention(body) => body.bodies().to_vec(),
            KernelBody::Scatter(body) => vec![&body.base, &body.updates],
            KernelBody::Scan { .. } | KernelBody::Opaque(_) | KernelBody::Loop(_) => vec![],
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
        self.body.bodies()
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
        let of_trips = match &self.body {
            KernelBody::Loop(body) => &body.checks[..],
            _ => &[],
        };
        self.bodies().into_iter().flat_map(FusedBody::assertions).chain(of_trips.iter().copied())
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
        match &self.body {
            KernelBody::Opaque(body) => body.workspace_bytes,
            KernelBody::Loop(body) => body.workspace_bytes,
            KernelBody::Matmul(MatmulBody { batch, m, rows: Some(rows), .. }) => {
                8 * batch * m * rows.n_pieces * rows.state_words
            }
            _ => 0,
        }
    }

    /// Whether it adds floats at equal indices: a device may have a fast way to do so that keeps no order.
    pub fn adds_where_indices_meet(&self) -> bool {
        let KernelBody::Scatter(body) = &self.body else { return false };
        body.combine == Combine::Add && self.operands[body.result].ty.dtype.is_float()
    }

    /// `map`, `row`, `segmented map`, `matmul`, `attention`, `scatter`, `scan`, `kernel` or `loop`.
    pub fn kind(&self) -> &'static str {
        match self.body {
            KernelBody::Map(_) => "map",
            // A map may compute some of its values once per row; only a reduction makes a row kernel.
            KernelBody::Row(ref body) if !body.has_reductions() => "map",
            KernelBody::Row(_) => "row",
            KernelBody::Segmented { .. } => "segmented map",
            KernelBody::Matmul(_) => "matmul",
            KernelBody::Attention(_) => "attention",
            KernelBody::Scatter(_) => "scatter",
            KernelBody::Scan { .. } => "scan",
            KernelBody::Opaque(_) => "kernel",
            KernelBody::Loop(_) => "loop",
        }
    }
}
