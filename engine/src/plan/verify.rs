//! The invariants of every plan.

use super::{Place, Plan};
use crate::fusion::Use;
use crate::ir::{Graph, NodeOp, Symbol, Value};
use std::collections::HashSet;

/// Checks the launches: every kernel is launched once, and a launch waits for earlier ones only. Each value must be
/// written before it is read, and the outputs of the graph must exist. Returns the violations.
pub fn verify(graph: &Graph, plan: &Plan) -> Vec<String> {
    let mut problems = vec![];
    let mut launched = vec![false; plan.kernels.len()];
    let mut written: HashSet<Value> = graph.inputs().map(|(id, _)| Value::of(id)).collect();
    for (at, launch) in plan.launches.iter().enumerate() {
        let kernel = &plan.kernels[launch.kernel];
        if std::mem::replace(&mut launched[launch.kernel], true) {
            problems.push(format!("kernel `{}` is launched twice", kernel.name));
        }
        if launch.waits.iter().any(|&wait| wait >= at) {
            problems.push(format!("launch {at} of `{}` waits for a later one", kernel.name));
        }
        for (operand, &buffer) in kernel.operands.iter().zip(&launch.buffers) {
            let name = graph.name_of(operand.value);
            if operand.usage == Use::Write {
                written.insert(operand.value);
            } else if !written.contains(&operand.value) && operand.ty.numel() > 0 {
                problems.push(format!("kernel `{}` reads `{name}` before it is written", kernel.name));
            }
            if operand.usage == Use::Write
                && kernel.writes_rows_of(&operand.value)
                && !matches!(plan.buffers[buffer].place, Place::Input(_))
            {
                problems.push(format!(
                    "kernel `{}` writes a row of `{name}`, which is not in place",
                    kernel.name
                ));
            }
            if plan.buffers[buffer].ty.bytes() < operand.ty.bytes() {
                problems.push(format!("the buffer of `{name}` is too small"));
            }
        }
    }
    let idle = launched.iter().position(|launched| !launched);
    problems.extend(idle.map(|kernel| format!("kernel `{}` is never launched", plan.kernels[kernel].name)));
    let outputs: HashSet<&Symbol> = plan.outputs.iter().map(|(name, _)| name).collect();
    for (name, value) in &graph.outputs {
        let is_input = matches!(graph.nodes[value.node].op, NodeOp::Input(_));
        if !is_input && !outputs.contains(name) {
            problems.push(format!("output `{name}` has no buffer"));
        }
    }
    problems
}
