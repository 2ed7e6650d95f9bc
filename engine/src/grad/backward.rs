//! The walk from the ends of a graph back to its inputs, into the regions of conditions as well.

use super::forward::{Forward, active_nodes};
use super::issue::GradIssue;
use super::loops::{Joint, Tape};
use super::maps::map_gradients;
use super::primitives;
use crate::ir::{Builder, Call, Graph, InputKind, Node, NodeId, NodeOp, Output, Type, Value};
use crate::op::{Grad, GradCall, Lower, Registry};
use std::collections::HashMap;

/// Replaces missing gradients by zeros.
pub(super) fn or_zeros(builder: &mut Builder, grads: Vec<Option<Value>>, wrt: &[Value]) -> Vec<Value> {
    let pairs = grads.into_iter().zip(wrt);
    pairs.map(|(grad, &value)| grad.unwrap_or_else(|| builder.full_like(value, 0.0))).collect()
}

/// Gradients with respect to `wrt`, given the gradients of some values. `None` where no gradient arrives. `owners` gets, for
/// each node, the node whose gradients it computes.
pub(super) fn backward(
    builder: &mut Builder,
    tapes: &HashMap<NodeId, Tape>,
    (seeds, wrt): (&[(Value, Value)], &[Value]),
    owners: &mut Vec<NodeId>,
) -> Result<Vec<Option<Value>>, GradIssue> {
    let ends: Vec<Value> = seeds.iter().map(|(value, _)| *value).collect();
    let active = active_nodes(&builder.graph, &ends, wrt);
    let mut grads: HashMap<Value, Value> = HashMap::new();
    builder.set_no_fuse(None);
    for &(value, seed) in seeds {
        accumulate(builder, &mut grads, value, seed);
        owners.resize(builder.graph.nodes.len(), value.node);
    }
    for id in (0..active.len()).rev() {
        let node = builder.graph.nodes[id].clone();
        if !active[id] || matches!(node.op, NodeOp::Input(_)) {
            continue;
        }
        let upstream: Vec<Option<Value>> =
            (0..node.outputs.len()).map(|port| grads.get(&Value { node: id, port }).copied()).collect();
        if upstream.iter().all(Option::is_none) {
            continue;
        }
        builder.set_scope(&format!("d.{}", node.name()), node.span);
        let partials = match tapes.get(&id) {
            Some(tape) => tape.gradients(builder, id, &upstream),
            None => node_gradients(builder, id, &node, &upstream, &active)?,
        };
        for (&input, partial) in node.inputs.iter().zip(partials) {
            if let (Some(partial), true) = (partial, active[input.node] && builder.dtype(input).is_float()) {
                accumulate(builder, &mut grads, input, partial);
            }
        }
        owners.resize(builder.graph.nodes.len(), id);
    }
    Ok(wrt.iter().map(|value| grads.get(value).copied()).collect())
}

fn accumulate(builder: &mut Builder, grads: &mut HashMap<Value, Value>, value: Value, partial: Value) {
    debug_assert_eq!(
        builder.ty(value),
        builder.ty(partial),
        "gradient of `{}`",
        builder.graph.name_of(value)
    );
    let sum = match grads.get(&value) {
        Some(&known) => builder.add(known, partial),
        None => partial,
    };
    grads.insert(value, sum);
}

/// Gradients of a node by operand; `None` where there is none.
fn node_gradients(
    builder: &mut Builder,
    id: usize,
    node: &Node,
    upstream: &[Option<Value>],
    active: &[bool],
) -> Result<Vec<Option<Value>>, GradIssue> {
    let wanted: Vec<bool> =
        node.inputs.iter().map(|input| active[input.node] && builder.dtype(*input).is_float()).collect();
    match &node.op {
        NodeOp::Call(call) => call_gradients(builder, id, node, call, upstream, &wanted),
        NodeOp::Map(body) => {
            Ok(map_gradients(builder, body, &node.inputs, upstream, &node.outputs[0].ty, &wanted))
        }
        NodeOp::Cond => condition_gradients(builder, node, upstream, &wanted),
        NodeOp::Loop { .. } => {
            let why = "only a run knows how often it is called; use `over`, or `detach` its result";
            Err(GradIssue::at(node, why))
        }
        _ => Ok(primitives::gradients(builder, id, node, upstream, &wanted)),
    }
}

fn call_gradients(
    builder: &mut Builder,
    id: usize,
    node: &Node,
    call: &Call,
    upstream: &[Option<Value>],
    wanted: &[bool],
) -> Result<Vec<Option<Value>>, GradIssue> {
    match (&call.form().grad, &call.form().lower) {
        (Grad::Rule(rule), _) => {
            let outputs: Vec<Value> = (0..node.outputs.len()).map(|port| Value { node: id, port }).collect();
            let call =
                GradCall { inputs: &node.inputs, outputs: &outputs, grads: upstream, attrs: &call.attrs };
            Ok(rule(builder, &call))
        }
        (Grad::None { why }, _) => {
            let is_float =
                node.outputs.iter().zip(upstream).any(|(o, g)| g.is_some() && o.ty.dtype.is_float());
            match is_float && wanted.contains(&true) {
                true => Err(GradIssue::at(node, why)),
                false => Ok(vec![None; node.inputs.len()]),
            }
        }
        (Grad::Derive, Lower::Map(body)) => {
            let body = body(&call.attrs);
            Ok(map_gradients(builder, &body, &node.inputs, upstream, &node.outputs[0].ty, wanted))
        }
        (Grad::Derive, Lower::Kernel(_)) => {
            crate::bug!("`{}` is opaque and has no gradient rule", node.name())
        }
        (Grad::Derive, Lower::Expand(_)) => crate::bug!("`{}` should have been expanded", node.name()),
    }
}

/// Gradients of a condition by operand. The selector has none, and unwanted operands get none.
///
/// The gradient of `.cond(c, x…) { yes } { no }` is again a condition, whose regions are the gradients of the regions.
/// The selection comes last. So values of the side not taken, even NaN, never reach the result.
fn condition_gradients(
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
    let forward =
        Forward::of(region, registry, (&ends, &wrt), &|node, wanted| taped(node, wanted, registry))?;
    let Forward { builder: mut b, map, tapes, .. } = forward;
    let moved = |value: Value| map[value.node][value.port];
    b.set_scope("upstream", None);
    let mut seeds = vec![];
    for end in ends {
        let (name, ty) = (b.fresh_name(), b.ty(moved(end)).clone());
        seeds.push((moved(end), b.input(&name, InputKind::Data, ty)));
    }
    let wrt: Vec<Value> = wrt.into_iter().map(moved).collect();
    let grads = backward(&mut b, &tapes, (&seeds, &wrt), &mut vec![])?;
    let grads = or_zeros(&mut b, grads, &wrt);
    let name = |i: usize| format!("d.{i}").into();
    Ok(Graph { outputs: grads.into_iter().enumerate().map(|(i, g)| (name(i), g)).collect(), ..b.graph })
}

/// The tape of a loop. `wanted` says which operands want gradients; carried values that are floats all have them.
pub(super) fn taped(node: &Node, wanted: &[bool], registry: &Registry) -> Result<Tape, GradIssue> {
    let &NodeOp::Loop { n_given, .. } = &node.op else { crate::bug!("{:?} is no loop", node.op) };
    let region = &node.regions[0];
    let n_carried = node.inputs.len() - n_given;
    let inputs: Vec<Value> =
        region.inputs().filter(|(_, kind)| *kind != InputKind::Step).map(|(id, _)| Value::of(id)).collect();
    let floats: Vec<usize> = (0..n_carried).filter(|&port| node.outputs[port].ty.dtype.is_float()).collect();
    let given = (n_carried..node.inputs.len()).filter(|&operand| wanted[operand]);
    let operands: Vec<usize> = floats.iter().copied().chain(given).collect();
    // The input of a given value comes behind the number of the trip.
    let input_of = |&operand: &usize| inputs[operand + usize::from(operand >= n_carried)];
    let ends: Vec<Value> = floats.iter().map(|&port| region.outputs[port].1).collect();
    let wrt: Vec<Value> = operands.iter().map(input_of).collect();
    let forward =
        Forward::of(region, registry, (&ends, &wrt), &|node, wanted| taped(node, wanted, registry))?;
    let Forward { builder: mut b, map, tapes, .. } = forward;
    let moved = |value: Value| map[value.node][value.port];
    b.graph.outputs = region.outputs.iter().map(|(name, value)| (name.clone(), moved(*value))).collect();
    let n_forward = b.graph.nodes.len();
    b.set_scope("upstream", None);
    let mut seeds = vec![];
    for (&port, &end) in floats.iter().zip(&ends) {
        let (name, ty) = (b.fresh_name(), b.ty(moved(end)).clone());
        seeds.push((port, b.input(&name, InputKind::Data, ty)));
    }
    let upstream: Vec<(Value, Value)> =
        ends.iter().zip(&seeds).map(|(&end, &(_, seed))| (moved(end), seed)).collect();
    let wrt: Vec<Value> = wrt.into_iter().map(moved).collect();
    let found = backward(&mut b, &tapes, (&upstream, &wrt), &mut vec![])?;
    let mut grads = vec![None; node.inputs.len()];
    operands.iter().zip(found).for_each(|(&operand, grad)| grads[operand] = grad);
    let inputs = inputs.into_iter().map(moved).collect();
    Ok(Tape::new(node, Joint { graph: b.graph, n_forward, inputs, seeds, grads }))
}
