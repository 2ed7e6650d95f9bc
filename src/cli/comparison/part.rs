//! Parts of graphs that are verified, and the constants of their runs.

use std::collections::HashMap;

use engine_core::fusion::{Kernel, Use};
use engine_core::ir::{Graph, InputKind, Node, NodeOp, Value};

/// The maximum length of data sets, since their rows are computed in double precision.
pub(crate) const MOST_ROWS: usize = 4096;
/// The seed of runs.
pub(crate) const SEED: u64 = 0x5eed;
/// The step of runs.
pub(crate) const STEP: u32 = 3;

/// The values that a kernel reads, and those that it writes. `None` for a kernel that only copies a state.
pub(crate) fn edges_of(kernel: &Kernel, graph: &Graph) -> Option<(Vec<Value>, Vec<Value>)> {
    let of = |usage: Use| kernel.operands.iter().filter(move |operand| operand.usage == usage);
    let values = |usage: Use| of(usage).map(|operand| operand.value).collect::<Vec<Value>>();
    let is_input = |value: &Value| matches!(graph.nodes[value.node].op, NodeOp::Input(_));
    let (sources, results) = (values(Use::Read), values(Use::Write));
    (!results.iter().any(is_input)).then_some((sources, results))
}

/// The part of a graph between some values, which become inputs, and some results.
pub(crate) fn part(graph: &Graph, sources: &[Value], results: &[Value]) -> Graph {
    let is_given =
        |value: Value| sources.contains(&value) || matches!(graph.nodes[value.node].op, NodeOp::Input(_));
    let (mut is_computed, mut given) = (vec![false; graph.nodes.len()], vec![]);
    let mut stack: Vec<Value> = results.to_vec();
    while let Some(value) = stack.pop() {
        if is_given(value) {
            given.push(value);
        } else if !std::mem::replace(&mut is_computed[value.node], true) {
            stack.extend(&graph.nodes[value.node].inputs);
        }
    }
    let mut part = Graph::new("part");
    let mut moved: HashMap<Value, Value> = HashMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        for port in (0..node.outputs.len()).filter(|&port| given.contains(&Value { node: id, port })) {
            let kind =
                if node.op == NodeOp::Input(InputKind::Step) { InputKind::Step } else { InputKind::Data };
            let (op, outputs) = (NodeOp::Input(kind), vec![node.outputs[port].clone()]);
            let input = Node { op, outputs, inputs: vec![], regions: vec![], ..node.clone() };
            moved.insert(Value { node: id, port }, Value::of(part.push(input)));
        }
        if is_computed[id] {
            let inputs = node.inputs.iter().map(|input| moved[input]).collect();
            let computed = part.push(Node { inputs, ..node.clone() });
            for port in 0..node.outputs.len() {
                moved.entry(Value { node: id, port }).or_insert(Value { node: computed, port });
            }
        }
    }
    part.outputs = results.iter().map(|value| (graph.name_of(*value).clone(), moved[value])).collect();
    part
}
