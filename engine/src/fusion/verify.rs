//! The verifier of kernels.

use super::kernel::Kernel;
use super::kernel::operand::Use;
use crate::ir::{Graph, NodeOp, Value};
use std::collections::HashSet;

/// Checks that each result of the graph and each value that a kernel reads is an input or written by one kernel, before
/// it is read. Operands must have the types of their values. Returns the first problem of each kernel.
pub fn verify(graph: &Graph, kernels: &[Kernel]) -> Vec<String> {
    let mut written = HashSet::new();
    let mut problems = vec![];
    for kernel in kernels {
        let problem = check_kernel(graph, kernel, &written);
        problems.extend(problem.map(|problem| format!("kernel `{}`: {problem}", kernel.name)));
        for operand in kernel.uses(Use::Write) {
            if !written.insert(operand.value) {
                problems.push(format!("`{}` is written twice", graph.name_of(operand.value)));
            }
        }
    }
    let missing = graph.roots().find(|root| !is_input(graph, *root) && !written.contains(root));
    problems.extend(missing.map(|root| format!("no kernel writes `{}`", graph.name_of(root))));
    problems
}

fn check_kernel(graph: &Graph, kernel: &Kernel, written: &HashSet<Value>) -> Option<String> {
    for operand in &kernel.operands {
        let (name, ty) = (graph.name_of(operand.value), graph.ty(operand.value));
        if operand.ty != *ty {
            return Some(format!("`{name}` has the type {ty}, not {}", operand.ty));
        }
        let is_available = is_input(graph, operand.value) || written.contains(&operand.value);
        if operand.usage == Use::Read && !is_available {
            return Some(format!("`{name}` is read before it is written"));
        }
    }
    None
}

fn is_input(graph: &Graph, value: Value) -> bool {
    matches!(graph.nodes[value.node].op, NodeOp::Input(_))
}
