//! Gradients of a condition.
//!
//! The gradient of `.cond(c, x…) { yes } { no }` is again a condition, whose regions are the gradients of the regions.
//! The selection comes last. So values of the side not taken, even NaN, never reach the result.

use super::{Forward, GradIssue, backward, or_zeros};
use crate::ir::{Builder, Graph, InputKind, Node, NodeOp, Output, Type, Value};
use crate::op::Registry;

/// Gradients of a condition by operand. The selector has none, and unwanted operands get none.
pub fn gradients(
    b: &mut Builder,
    node: &Node,
    upstream: &[Option<Value>],
    wanted: &[bool],
) -> Result<Vec<Option<Value>>, GradIssue> {
    let is_float = |port: &usize| node.outputs[*port].ty.dtype.is_float();
    let given: Vec<(usize, Value)> =
        upstream.iter().enumerate().filter_map(|(port, g)| Some((port, (*g)?))).collect();
    let given: Vec<(usize, Value)> = given.into_iter().filter(|(port, _)| is_float(port)).collect();
    let picked: Vec<usize> = (1..node.inputs.len()).filter(|&operand| wanted[operand]).collect();
    let mut grads = vec![None; node.inputs.len()];
    if given.is_empty() || picked.is_empty() {
        return Ok(grads);
    }
    let ports: Vec<usize> = given.iter().map(|(port, _)| *port).collect();
    let operands: Vec<usize> = picked.iter().map(|operand| operand - 1).collect();
    let sides = node.regions.iter().map(|region| side(region, b.registry(), &ports, &operands));
    let regions = sides.collect::<Result<Vec<Graph>, GradIssue>>()?;
    let inputs = node.inputs.iter().copied().chain(given.into_iter().map(|(_, g)| g)).collect();
    let types: Vec<Type> = picked.iter().map(|&operand| b.ty(node.inputs[operand]).clone()).collect();
    let outputs: Vec<Output> = types.into_iter().map(|ty| Output { name: b.fresh_name(), ty }).collect();
    let id = b.push_node(NodeOp::Cond, inputs, outputs);
    b.graph.nodes[id].regions = regions;
    for (port, operand) in picked.into_iter().enumerate() {
        grads[operand] = Some(Value { node: id, port });
    }
    Ok(grads)
}

/// The gradient of a region. Its inputs are those of the region, then the gradients of the results `ports`. Its results
/// are the gradients of the inputs `operands`.
fn side(
    region: &Graph,
    registry: &Registry,
    ports: &[usize],
    operands: &[usize],
) -> Result<Graph, GradIssue> {
    let inputs: Vec<Value> =
        region.inputs().filter(|(_, kind)| *kind != InputKind::Step).map(|(id, _)| Value::of(id)).collect();
    let ends: Vec<Value> = ports.iter().map(|&port| region.outputs[port].1).collect();
    let wrt: Vec<Value> = operands.iter().map(|&operand| inputs[operand]).collect();
    let Forward { builder: mut b, map, .. } = Forward::of(region, registry, &ends, &wrt);
    let moved = |value: Value| map[value.node][value.port];
    b.set_scope("upstream", None);
    let mut seeds = vec![];
    for end in ends {
        let (name, ty) = (b.fresh_name(), b.ty(moved(end)).clone());
        seeds.push((moved(end), b.input(&name, InputKind::Data, ty)));
    }
    let wrt: Vec<Value> = wrt.into_iter().map(moved).collect();
    let grads = backward(&mut b, &seeds, &wrt)?;
    let grads = or_zeros(&mut b, grads, &wrt);
    let name = |i: usize| format!("d.{i}").into();
    Ok(Graph { outputs: grads.into_iter().enumerate().map(|(i, g)| (name(i), g)).collect(), ..b.graph })
}
