//! The forward graph, as the gradients refer to it.

use super::issue::GradIssue;
use super::keep::parts;
use super::loops::Tape;
use crate::ir::{Builder, Call, Graph, Node, NodeId, NodeOp, Symbol, Value, View};
use crate::lower::{expand, nested_scope};
use crate::op::{Grad, Lower, Registry};
use std::collections::HashMap;

/// Nodes on a path from `wrt` to one of `ends`.
pub(super) fn active_nodes(graph: &Graph, ends: &[Value], wrt: &[Value]) -> Vec<bool> {
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

/// Makes the tape of a loop, some of whose operands want gradients.
pub(super) type Record<'r> = &'r dyn Fn(&Node, &[bool]) -> Result<Tape, GradIssue>;

/// A copy of the forward graph, in which calls without a gradient rule of their own are expanded.
pub(super) struct Forward<'g> {
    old: &'g Graph,
    pub(super) builder: Builder<'g>,
    pub(super) map: Vec<Vec<Value>>,
    /// By old node: the number of new nodes up to it.
    pub(super) ends: Vec<NodeId>,
    /// Loops that keep what their gradients need.
    pub(super) tapes: HashMap<NodeId, Tape>,
}

impl<'g> Forward<'g> {
    /// Copies the graph for gradients of `ends` with respect to `wrt`.
    ///
    /// # Errors
    /// If a loop has no gradient.
    pub(super) fn of(
        old: &'g Graph,
        registry: &'g Registry,
        (ends, wrt): (&[Value], &[Value]),
        record: Record,
    ) -> Result<Forward<'g>, GradIssue> {
        let mut forward = Forward::new(old, registry);
        let active = active_nodes(old, ends, wrt);
        for (id, node) in old.nodes.iter().enumerate() {
            let wanted = |input: &Value| active[input.node] && old.ty(*input).dtype.is_float();
            let mut taped = vec![];
            if matches!(node.op, NodeOp::Loop { until: false, .. }) && active[id] {
                let wanted: Vec<bool> = node.inputs.iter().map(wanted).collect();
                for part in parts(node, registry) {
                    let tape = record(&part, &wanted)?;
                    taped.push((part, tape));
                }
            }
            forward.copy(id, active[id], taped);
            forward.ends.push(forward.builder.graph.nodes.len());
        }
        Ok(forward)
    }

    fn new(old: &'g Graph, registry: &'g Registry) -> Forward<'g> {
        let mut builder = Builder::new(Graph::new(old.name.clone()), registry);
        builder.reserve(old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
        builder.step();
        Forward { old, builder, map: vec![], ends: vec![], tapes: HashMap::new() }
    }

    fn copy(&mut self, id: usize, is_active: bool, taped: Vec<(Node, Tape)>) {
        let node = &self.old.nodes[id];
        if let NodeOp::Input(crate::ir::InputKind::Step) = node.op {
            let step = self.builder.step();
            self.map.push(vec![step]);
            return;
        }
        let inputs: Vec<Value> = node.inputs.iter().map(|input| self.map[input.node][input.port]).collect();
        self.builder.set_scope(node.name(), node.span);
        self.builder.set_no_fuse(node.no_fuse.clone());
        let before = self.builder.graph.nodes.len();
        let mut values = match &node.op {
            NodeOp::Call(call) if is_active && must_expand(call) => {
                expand_fully(&mut self.builder, call, &inputs)
            }
            NodeOp::Loop { .. } if !taped.is_empty() => self.with_tapes(taped, inputs),
            _ => {
                let id = self.builder.graph.push(Node { inputs, ..node.clone() });
                (0..node.outputs.len()).map(|port| Value { node: id, port }).collect()
            }
        };
        for (value, output) in values.iter_mut().zip(&node.outputs) {
            *value = match value.node >= before {
                true => named(&mut self.builder, *value, &output.name),
                false => renamed(&mut self.builder, *value, &output.name),
            };
        }
        self.map.push(values);
    }
}

impl Forward<'_> {
    /// The parts of a loop, which keep what their gradients need.
    fn with_tapes(&mut self, parts: Vec<(Node, Tape)>, mut operands: Vec<Value>) -> Vec<Value> {
        let (n_results, n_parts) = (parts[0].0.outputs.len(), parts.len());
        for (at, (mut part, tape)) in parts.into_iter().enumerate() {
            if at + 1 < n_parts {
                part.outputs.iter_mut().for_each(|output| output.name = self.builder.fresh_name());
            }
            let values = tape.push_forward(&mut self.builder, &part, &operands);
            self.tapes.insert(values[0].node, tape);
            operands[..n_results].copy_from_slice(&values);
        }
        operands[..n_results].to_vec()
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
        return renamed(builder, value, name);
    }
    output.name = name.clone();
    value
}

/// A value under another name. An expansion that returns its operand, such as a reshape to the same shape, is a node of
/// its own in this way. So it can be asked for, and its gradient is not that of its operand.
fn renamed(builder: &mut Builder, value: Value, name: &Symbol) -> Value {
    let ty = builder.ty(value).clone();
    builder.push_named(name.clone(), NodeOp::View(View::Reshape), vec![value], ty)
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
