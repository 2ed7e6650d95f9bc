//! Gradients: reverse mode on the typed, bound graph.
//!
//! An op's own gradient rule takes precedence. Without one, a scalar body is differentiated symbolically, and an
//! expansion is expanded on the spot. So only primitives need rules here. Gradients are ordinary nodes: they simplify,
//! fuse and print like all others, and can be differentiated again.

mod conditions;
mod primitives;
mod scans;

use crate::diag::Span;
use crate::ir::{Body, Builder, Call, Graph, Literal, Node, NodeOp, StateLink, Symbol, Type, Value, View};
use crate::lower::{expand, nested_scope};
use crate::op::{Grad, GradCall, Lower, Registry};
use std::collections::HashMap;
use std::sync::Arc;

/// Why there is no gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GradIssue {
    /// The node without a gradient.
    pub node: Symbol,
    /// The reason, stated by its op.
    pub why: String,
    /// The place of the node in the source, if it has one.
    pub span: Option<Span>,
}

impl GradIssue {
    fn at(node: &Node, why: &str) -> GradIssue {
        GradIssue { node: node.name().clone(), why: why.to_string(), span: node.span }
    }
}

/// A graph with the gradients of one of its values.
#[derive(Clone, Debug)]
pub struct Differentiated {
    /// The graph with some calls expanded and the gradient nodes appended. Outputs and state are those of the original.
    pub graph: Graph,
    /// The new value of each value of the original.
    pub map: Vec<Vec<Value>>,
    /// The gradient of each value of `wrt`, of the same type. It is zero where `loss` does not depend on the value.
    pub grads: Vec<Value>,
    /// For each value of `wrt`, whether any gradient reaches it.
    pub reached: Vec<bool>,
}

/// Appends the gradients of the scalar `loss` with respect to `wrt`.
///
/// # Errors
/// If a path from `wrt` to `loss` leads through a float result of an op without a gradient. Indices and truth values
/// end a path without an error.
pub fn differentiate(
    graph: &Graph,
    registry: &Registry,
    loss: Value,
    wrt: &[Value],
) -> Result<Differentiated, GradIssue> {
    let Forward { mut builder, map, .. } = Forward::of(graph, registry, &[loss], wrt);
    let moved = |value: Value| map[value.node][value.port];
    let wrt: Vec<Value> = wrt.iter().map(|&value| moved(value)).collect();
    builder.set_scope("d.loss", None);
    let seed = builder.full_like(moved(loss), 1.0);
    let found = backward(&mut builder, &[(moved(loss), seed)], &wrt)?;
    let reached = found.iter().map(Option::is_some).collect();
    let grads = or_zeros(&mut builder, found, &wrt);
    let mut result = builder.graph;
    result.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(*value))).collect();
    let link = |l: &StateLink| StateLink { input: moved(Value::of(l.input)).node, next: moved(l.next) };
    result.state = graph.state.iter().map(link).collect();
    Ok(Differentiated { graph: result, map, grads, reached })
}

/// Nodes on a path from `wrt` to one of `ends`.
fn active_nodes(graph: &Graph, ends: &[Value], wrt: &[Value]) -> Vec<bool> {
    let mut depends = vec![false; graph.nodes.len()];
    wrt.iter().for_each(|value| depends[value.node] = true);
    for (id, node) in graph.nodes.iter().enumerate() {
        depends[id] |= node.inputs.iter().any(|input| depends[input.node]);
    }
    let mut needed = vec![false; graph.nodes.len()];
    ends.iter().for_each(|value| needed[value.node] = true);
    for id in (0..graph.nodes.len()).rev() {
        if needed[id] {
            graph.nodes[id].inputs.iter().for_each(|input| needed[input.node] = true);
        }
    }
    depends.iter().zip(&needed).map(|(&a, &b)| a && b).collect()
}

/// A copy of the forward graph, in which calls without a gradient rule of their own are expanded.
struct Forward<'g> {
    old: &'g Graph,
    builder: Builder<'g>,
    map: Vec<Vec<Value>>,
}

impl<'g> Forward<'g> {
    /// Copies the graph for gradients of `ends` with respect to `wrt`.
    fn of(old: &'g Graph, registry: &'g Registry, ends: &[Value], wrt: &[Value]) -> Forward<'g> {
        let mut forward = Forward::new(old, registry);
        for (id, is_active) in active_nodes(old, ends, wrt).into_iter().enumerate() {
            forward.copy(id, is_active);
        }
        forward
    }

    fn new(old: &'g Graph, registry: &'g Registry) -> Forward<'g> {
        let mut builder = Builder::new(Graph::new(old.name.clone()), registry);
        builder.reserve(old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
        builder.step();
        Forward { old, builder, map: vec![] }
    }

    fn copy(&mut self, id: usize, is_active: bool) {
        let node = &self.old.nodes[id];
        if let NodeOp::Input(crate::ir::InputKind::Step) = node.op {
            let step = self.builder.step();
            self.map.push(vec![step]);
            return;
        }
        let inputs: Vec<Value> = node.inputs.iter().map(|input| self.map[input.node][input.port]).collect();
        self.builder.set_scope(node.name(), node.span);
        self.builder.set_apart(node.apart.clone());
        let before = self.builder.graph.nodes.len();
        let mut values = match &node.op {
            NodeOp::Call(call) if is_active && must_expand(call) => {
                expand_fully(&mut self.builder, call, &inputs)
            }
            _ => {
                let id = self.builder.graph.push(Node { inputs, ..node.clone() });
                (0..node.outputs.len()).map(|port| Value { node: id, port }).collect()
            }
        };
        for (value, output) in values.iter_mut().zip(&node.outputs).filter(|(value, _)| value.node >= before)
        {
            *value = named(&mut self.builder, *value, &output.name);
        }
        self.map.push(values);
    }
}

/// Names a new value. A call that an expansion left draws its random numbers by its own name. So it keeps that name,
/// and a view of it gets the new one.
pub(crate) fn named(builder: &mut Builder, value: Value, name: &Symbol) -> Value {
    let node = &mut builder.graph.nodes[value.node];
    let output = &mut node.outputs[value.port];
    if let NodeOp::Call(call) = &node.op
        && matches!(call.form().lower, Lower::Expand(_))
        && output.name != *name
    {
        let ty = output.ty.clone();
        return builder.push_named(name.clone(), NodeOp::View(View::Reshape), vec![value], ty);
    }
    output.name = name.clone();
    value
}

fn must_expand(call: &Call) -> bool {
    matches!((&call.form().grad, &call.form().lower), (Grad::Derive, Lower::Expand(_)))
}

/// Expands a call, and calls within it, until each has a rule or is a map. Scopes are those of the lowering, so
/// differentiating a graph does not change its random streams.
fn expand_fully(builder: &mut Builder, call: &Call, inputs: &[Value]) -> Vec<Value> {
    let first = builder.graph.nodes.len();
    let values = expand(builder, call, inputs);
    let appended = builder.graph.nodes.split_off(first);
    let scope = builder.scope();
    let mut map: HashMap<Value, Value> = HashMap::new();
    for (offset, mut node) in appended.into_iter().enumerate() {
        let inputs: Vec<Value> = node.inputs.iter().map(|v| map.get(v).copied().unwrap_or(*v)).collect();
        let copies = match &node.op {
            NodeOp::Call(inner) if must_expand(inner) => {
                builder.set_scope(&nested_scope(&scope, node.name(), &inner.form().name), node.span);
                let values = expand_fully(builder, inner, &inputs);
                builder.set_scope(&scope, node.span);
                values
            }
            op => {
                if let NodeOp::Call(inner) = op {
                    // The lowering derives the scope of a remaining call from its name.
                    node.outputs[0].name = nested_scope(&scope, node.name(), &inner.form().name).into();
                }
                let n_outputs = node.outputs.len();
                let id = builder.graph.push(Node { inputs, ..node });
                (0..n_outputs).map(|port| Value { node: id, port }).collect()
            }
        };
        for (port, value) in copies.into_iter().enumerate() {
            map.insert(Value { node: first + offset, port }, value);
        }
    }
    values.into_iter().map(|value| map.get(&value).copied().unwrap_or(value)).collect()
}

/// Replaces missing gradients by zeros.
fn or_zeros(builder: &mut Builder, grads: Vec<Option<Value>>, wrt: &[Value]) -> Vec<Value> {
    let pairs = grads.into_iter().zip(wrt);
    pairs.map(|(grad, &value)| grad.unwrap_or_else(|| builder.full_like(value, 0.0))).collect()
}

/// Gradients with respect to `wrt`, given the gradients of some values. `None` where no gradient arrives.
fn backward(
    builder: &mut Builder,
    seeds: &[(Value, Value)],
    wrt: &[Value],
) -> Result<Vec<Option<Value>>, GradIssue> {
    let ends: Vec<Value> = seeds.iter().map(|(value, _)| *value).collect();
    let active = active_nodes(&builder.graph, &ends, wrt);
    let mut grads: HashMap<Value, Value> = HashMap::new();
    builder.set_apart(None);
    for &(value, seed) in seeds {
        accumulate(builder, &mut grads, value, seed);
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
        let partials = node_gradients(builder, id, &node, &upstream, &active)?;
        for (&input, partial) in node.inputs.iter().zip(partials) {
            if let (Some(partial), true) = (partial, active[input.node] && builder.dtype(input).is_float()) {
                accumulate(builder, &mut grads, input, partial);
            }
        }
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
        _ => primitives::gradients(builder, id, node, upstream, &wanted),
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

/// Gradients of a scalar body: one map for all operands, then sums over the broadcast axes.
fn map_gradients(
    builder: &mut Builder,
    body: &Body,
    inputs: &[Value],
    upstream: &[Option<Value>],
    result: &Type,
    wanted: &[bool],
) -> Vec<Option<Value>> {
    let (vjp, live) = body.vjp();
    let picked: Vec<usize> = (0..inputs.len()).filter(|&i| live[i] && wanted[i]).collect();
    let mut grads = vec![None; inputs.len()];
    if picked.is_empty() {
        return grads;
    }
    let rank_of = |operand: usize| live[..operand].iter().filter(|&&is_live| is_live).count();
    let outputs: Vec<usize> = picked.iter().map(|&operand| rank_of(operand)).collect();
    let body = Body::new(vjp.n_params, |args| {
        let all = vjp.inline(args);
        outputs.iter().map(|&output| all[output]).collect()
    });
    let mut operands = inputs.to_vec();
    for grad in upstream {
        operands.push(grad.unwrap_or_else(|| builder.full(Literal::Float(0.0), result.clone())));
    }
    let values = builder.map_body(&operands, Arc::new(body));
    for (&operand, value) in picked.iter().zip(values) {
        grads[operand] = Some(unbroadcast(builder, value, inputs[operand]));
    }
    grads
}

/// Sums a gradient over the axes along which `like` was broadcast, and converts it to the type of `like`.
pub fn unbroadcast(builder: &mut Builder, grad: Value, like: Value) -> Value {
    let (from, to) = (builder.extents(grad), builder.extents(like));
    let lead = from.len() - to.len();
    let repeated = |axis: usize| axis < lead || (to[axis - lead] == 1 && from[axis] != 1);
    let axes: Vec<usize> = (0..from.len()).filter(|&axis| repeated(axis)).collect();
    let sum = builder.sum(grad, &axes);
    let shaped = builder.reshape(sum, &to);
    let dtype = builder.dtype(like);
    builder.cast(shaped, dtype)
}

#[cfg(test)]
mod tests;
