//! Calls of opaque ops.

use crate::ir::{Attrs, Call, Graph, Node, Type};

/// One call of an opaque op, all extents known.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelCall {
    /// The op and its attributes.
    pub call: Call,
    /// Types of the operands.
    pub inputs: Vec<Type>,
    /// Types of the results.
    pub outputs: Vec<Type>,
}

impl KernelCall {
    /// A call in a bound graph.
    pub fn new(graph: &Graph, node: &Node, call: &Call) -> KernelCall {
        KernelCall {
            call: call.clone(),
            inputs: node.inputs.iter().map(|&input| graph.ty(input).clone()).collect(),
            outputs: node.outputs.iter().map(|output| output.ty.clone()).collect(),
        }
    }

    /// The attributes, defaults filled in.
    pub fn attrs(&self) -> &Attrs {
        &self.call.attrs
    }

    /// Operand 0 as rows along its last axis: their number and their length.
    pub fn rows(&self) -> (usize, usize) {
        let extents = self.inputs[0].extents();
        let (&n, lead) = extents.split_last().unwrap_or((&1, &[]));
        (lead.iter().product(), n)
    }
}
