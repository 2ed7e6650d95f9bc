//! The indices of gathers and scatters of a part, and its integer divisors, computed by the interpreter.
//!
//! A graph that computes an index from a valid one has no check of it. Drawn operands may lead such an index out of
//! range, and a GPU would read and write memory that belongs to others. A divisor is checked before, perhaps in another
//! kernel, so the result of a division by 0 is undefined.

use std::collections::HashMap;

use engine_core::ir::{Binary, Graph, Node, NodeId, NodeOp, Requirement, Scalar, Value};
use engine_core::op::Registry;
use engine_core::oracle::{Oracle, OracleError, OracleTensor, Precision};

use super::part::{SEED, STEP, part};

/// What the indices and divisors of a part depend on, with a check of each.
pub(crate) struct Indices(Graph);

impl Indices {
    pub(crate) fn of(whole: &Graph) -> Indices {
        let mut checked = whole.clone();
        let mut results = vec![];
        for (id, node) in whole.nodes.iter().enumerate() {
            if let Some((value, requirement)) = required(whole, node) {
                let outputs = vec![whole.nodes[value.node].outputs[value.port].clone()];
                let op = NodeOp::Check(requirement);
                let check = Node { op, inputs: vec![value], outputs, regions: vec![], ..node.clone() };
                results.push(Value::of(checked.push(check)));
            } else if node.regions.iter().any(requires) {
                results.push(Value::of(id));
            }
        }
        Indices(part(&checked, &[], &results))
    }

    /// Whether an index or a divisor may depend on an integer operand.
    pub(crate) fn depend_on_integers(&self) -> bool {
        self.0.inputs().any(|(id, _)| self.0.ty(Value::of(id)).dtype.is_int())
    }

    /// Computes all indices and divisors.
    ///
    /// # Errors
    /// If an index is out of range, a divisor is 0, or a check of the part fails.
    pub(crate) fn check(&self, operands: &HashMap<String, OracleTensor>) -> Result<(), OracleError> {
        let registry = Registry::new();
        let oracle = Oracle { registry: &registry, precision: Precision::F64 };
        oracle.run(&self.0, operands, SEED, i64::from(STEP)).map(|_| ())
    }
}

/// The integers that a node takes, and what they have to be.
fn required(graph: &Graph, node: &Node) -> Option<(Value, Requirement)> {
    match node.op {
        NodeOp::Gather { axis, .. } | NodeOp::Scatter { axis, .. } => {
            let bound = graph.ty(node.inputs[0]).extents()[axis];
            Some((node.inputs[1], Requirement::Index { bound }))
        }
        _ => divisor(graph, node).map(|divisor| (divisor, Requirement::Divisor)),
    }
}

fn requires(graph: &Graph) -> bool {
    let inside = |node: &Node| required(graph, node).is_some() || node.regions.iter().any(requires);
    graph.nodes.iter().any(inside)
}

/// The integers, no constant, by which a node divides, or which it checks for divisions.
pub(super) fn divisor(graph: &Graph, node: &Node) -> Option<Value> {
    let value = match node.op {
        NodeOp::Scalar(Scalar::Binary(Binary::Div | Binary::Rem)) => node.inputs[1],
        NodeOp::Check(Requirement::Divisor) => node.inputs[0],
        _ => return None,
    };
    let is_constant = matches!(graph.nodes[source(graph, value)].op, NodeOp::Const(_));
    (graph.ty(value).dtype.is_int() && !is_constant).then_some(value)
}

/// The node whose numbers a value has, through views and checks.
pub(super) fn source(graph: &Graph, value: Value) -> NodeId {
    let node = &graph.nodes[value.node];
    match node.op {
        NodeOp::View(_) | NodeOp::Check(_) => source(graph, node.inputs[0]),
        _ => value.node,
    }
}
