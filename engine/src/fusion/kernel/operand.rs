//! The buffers of a kernel.

use crate::ir::{Graph, NodeId, Type, Value};

/// How a kernel uses a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Only reads.
    Read,
    /// Only writes, every element once.
    Write,
}

/// A buffer that a kernel reads or writes. The plan may place a written buffer in the memory of a read one. Then each
/// point reads before it writes, and only its own element.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// The value in the primitive graph.
    pub value: Value,
    /// Its type, all extents known; dense, row-major.
    pub ty: Type,
    /// Read or written.
    pub usage: Use,
}

impl Operand {
    /// A value that a kernel reads.
    pub fn read(graph: &Graph, value: Value) -> Operand {
        Operand { value, ty: graph.ty(value).clone(), usage: Use::Read }
    }

    /// A value that a kernel writes.
    pub fn write(graph: &Graph, value: Value) -> Operand {
        Operand { value, ty: graph.ty(value).clone(), usage: Use::Write }
    }

    /// All results of a node, written.
    pub fn results(graph: &Graph, node: NodeId) -> impl Iterator<Item = Operand> {
        (0..graph.nodes[node].outputs.len()).map(move |port| Operand::write(graph, Value { node, port }))
    }
}
