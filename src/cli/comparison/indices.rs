//! The indices of gathers and scatters of a part, computed by the interpreter.
//!
//! A graph that computes an index from a valid one has no check of it. Drawn operands may lead such an index out of
//! range, and a GPU would read and write memory that belongs to others.

use std::collections::HashMap;

use engine_core::ir::{Graph, Node, NodeOp, Requirement, Value};
use engine_core::op::Registry;
use engine_core::oracle::{Oracle, OracleError, OracleTensor, Precision};

use super::part::{SEED, STEP, part};

/// What the indices of a part depend on, with a check of each index.
pub(crate) struct Indices(Graph);

impl Indices {
    pub(crate) fn of(whole: &Graph) -> Indices {
        let mut checked = whole.clone();
        let mut results = vec![];
        for (id, node) in whole.nodes.iter().enumerate() {
            if let Some(bound) = selected_extent(whole, node) {
                let index = node.inputs[1];
                let outputs = vec![whole.nodes[index.node].outputs[index.port].clone()];
                let op = NodeOp::Check(Requirement::Index { bound });
                let check = Node { op, inputs: vec![index], outputs, regions: vec![], ..node.clone() };
                results.push(Value::of(checked.push(check)));
            } else if node.regions.iter().any(selects) {
                results.push(Value::of(id));
            }
        }
        Indices(part(&checked, &[], &results))
    }

    /// Whether an index may depend on an integer operand.
    pub(crate) fn depend_on_integers(&self) -> bool {
        self.0.inputs().any(|(id, _)| self.0.ty(Value::of(id)).dtype.is_int())
    }

    /// Computes all indices.
    ///
    /// # Errors
    /// If one of them is out of range, or a check of the part fails.
    pub(crate) fn check(&self, operands: &HashMap<String, OracleTensor>) -> Result<(), OracleError> {
        let registry = Registry::new();
        let oracle = Oracle { registry: &registry, precision: Precision::F64 };
        oracle.run(&self.0, operands, SEED, i64::from(STEP)).map(|_| ())
    }
}

/// The extent that a gather or a scatter selects from.
fn selected_extent(graph: &Graph, node: &Node) -> Option<usize> {
    match node.op {
        NodeOp::Gather { axis, .. } | NodeOp::Scatter { axis, .. } => {
            Some(graph.ty(node.inputs[0]).extents()[axis])
        }
        _ => None,
    }
}

fn selects(graph: &Graph) -> bool {
    let inside = |node: &Node| selected_extent(graph, node).is_some() || node.regions.iter().any(selects);
    graph.nodes.iter().any(inside)
}
