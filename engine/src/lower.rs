//! Lowering: every op becomes what it is made of.

use crate::ir::{
    Body, Builder, Call, DType, Graph, Inst, Node, NodeOp, Scalar, StateLink, Symbol, Type, Value,
    broadcast_shapes,
};
use crate::op::{Lower, Lowering, Registry};
use std::collections::HashMap;

/// A bound graph in primitives only: calls are expanded, bodies become one node per scalar primitive, and operands are
/// broadcast explicitly. A name that a user gave stays on the value that replaces the node.
pub fn primitives(graph: &Graph, registry: &Registry) -> Graph {
    lowered(graph, registry).pruned()
}

fn lowered(graph: &Graph, registry: &Registry) -> Graph {
    let mut lowering = Inliner::new(graph, registry);
    for id in 0..graph.nodes.len() {
        lowering.lower(id);
    }
    lowering.finish()
}

struct Inliner<'g> {
    old: &'g Graph,
    builder: Builder<'g>,
    map: Vec<Vec<Value>>,
}

impl<'g> Inliner<'g> {
    fn new(old: &'g Graph, registry: &'g Registry) -> Inliner<'g> {
        // Names of the old graph are all reserved, so that derived ones cannot take them; see `Builder::reserve`.
        let mut builder = Builder::new(Graph::new(old.name.clone()), registry);
        builder.reserve(old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
        // Made first, so that no expansion makes it in its midst; pruning drops it if nothing asks for it.
        builder.step();
        Inliner { old, builder, map: vec![] }
    }

    fn lower(&mut self, id: usize) {
        let node = &self.old.nodes[id];
        let inputs: Vec<Value> = node.inputs.iter().map(|input| self.map[input.node][input.port]).collect();
        self.builder.set_scope(node.name(), node.span);
        let before = self.builder.graph.nodes.len();
        let values = match &node.op {
            NodeOp::Input(_) => self.copy(node, inputs),
            NodeOp::Cond => self.lower_cond(node, inputs),
            NodeOp::Call(_) | NodeOp::Map(_) => lower_node(&mut self.builder, &node.op, &inputs),
            _ => self.copy(node, inputs),
        };
        for (value, output) in values.iter().zip(&node.outputs) {
            self.name(*value, &output.name, before);
        }
        self.map.push(values);
    }

    fn copy(&mut self, node: &Node, inputs: Vec<Value>) -> Vec<Value> {
        let n_outputs = node.outputs.len();
        if let NodeOp::Input(crate::ir::InputKind::Step) = node.op {
            return vec![self.builder.step()];
        }
        let id = self.builder.push_node(node.op.clone(), inputs, node.outputs.clone());
        (0..n_outputs).map(|port| Value { node: id, port }).collect()
    }

    /// Both sides are computed, the condition selects: regions are pure.
    fn lower_cond(&mut self, node: &Node, inputs: Vec<Value>) -> Vec<Value> {
        let registry = self.builder.registry;
        let sides: Vec<Vec<Value>> = node
            .regions
            .iter()
            .map(|region| inline(&mut self.builder, &lowered(region, registry), &inputs[1..]))
            .collect();
        let sides = sides[0].iter().zip(&sides[1]);
        sides.map(|(&a, &b)| self.builder.scalar(Scalar::Select, &[inputs[0], a, b])).collect()
    }

    fn name(&mut self, value: Value, name: &Symbol, before: usize) {
        // A lowering that hands an operand through makes nothing that could bear the name.
        if value.node >= before {
            self.builder.graph.nodes[value.node].outputs[value.port].name = name.clone();
        }
    }

    fn finish(self) -> Graph {
        let moved = |value: &Value| self.map[value.node][value.port];
        let mut graph = self.builder.graph;
        graph.outputs = self.old.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
        let link = |l: &StateLink| StateLink { input: self.map[l.input][0].node, next: moved(&l.next) };
        graph.state = self.old.state.iter().map(link).collect();
        graph
    }
}

/// Appends the nodes of a primitive region whose inputs are `args`; its results.
fn inline(builder: &mut Builder, region: &Graph, args: &[Value]) -> Vec<Value> {
    let mut args = args.iter();
    let mut map: HashMap<Value, Value> = HashMap::new();
    for (id, node) in region.nodes.iter().enumerate() {
        let value = match &node.op {
            NodeOp::Input(crate::ir::InputKind::Step) => builder.step(),
            NodeOp::Input(_) => {
                *args.next().unwrap_or_else(|| crate::bug!("a region has more inputs than operands"))
            }
            op => {
                let inputs = node.inputs.iter().map(|input| map[input]).collect();
                builder.push(op.clone(), inputs, node.outputs[0].ty.clone())
            }
        };
        map.insert(Value::of(id), value);
    }
    region.outputs.iter().map(|(_, value)| map[value]).collect()
}

/// The primitives of one call or map; other nodes are primitives already.
fn lower_node(builder: &mut Builder, op: &NodeOp, inputs: &[Value]) -> Vec<Value> {
    match op {
        NodeOp::Call(Call { form, attrs }) => match &form.lower {
            Lower::Map(body) => lower_body(builder, &body(attrs), inputs),
            Lower::Expand(_) => {
                let first = builder.graph.nodes.len();
                let values = expand(builder, &Call { form: form.clone(), attrs: attrs.clone() }, inputs);
                lower_from(builder, first, values)
            }
        },
        NodeOp::Map(body) => lower_body(builder, body, inputs),
        _ => crate::bug!("{op:?} needs no lowering"),
    }
}

/// One step of an expansion: what the op's form says it is made of.
pub fn expand(builder: &mut Builder, call: &Call, inputs: &[Value]) -> Vec<Value> {
    match &call.form.lower {
        Lower::Expand(rule) => rule(builder, &Lowering { inputs, attrs: &call.attrs }),
        Lower::Map(body) => builder.map_body(inputs, std::sync::Arc::new(body(&call.attrs))),
    }
}

/// Lowers the nodes from `first` on, which an expansion has just appended.
fn lower_from(builder: &mut Builder, first: usize, values: Vec<Value>) -> Vec<Value> {
    let appended = builder.graph.nodes.split_off(first);
    let scope = builder.scope();
    let mut map: HashMap<Value, Value> = HashMap::new();
    for (offset, node) in appended.into_iter().enumerate() {
        let moved = |value: &Value| map.get(value).copied().unwrap_or(*value);
        let inputs: Vec<Value> = node.inputs.iter().map(moved).collect();
        let lowered = match &node.op {
            NodeOp::Call(call) => {
                // The path of names fixes the random streams of nested calls.
                builder.set_scope(&nested_scope(&scope, node.name(), &call.form.name), node.span);
                lower_node(builder, &node.op, &inputs)
            }
            NodeOp::Map(_) => lower_node(builder, &node.op, &inputs),
            _ => {
                let n_outputs = node.outputs.len();
                let id = builder.push_node(node.op.clone(), inputs, node.outputs.clone());
                (0..n_outputs).map(|port| Value { node: id, port }).collect()
            }
        };
        builder.set_scope(&scope, node.span);
        for (port, value) in lowered.into_iter().enumerate() {
            map.insert(Value { node: first + offset, port }, value);
        }
    }
    values.into_iter().map(|value| map.get(&value).copied().unwrap_or(value)).collect()
}

/// The scope of a call within an expansion, from the outer scope, the name of its node and its op.
pub(crate) fn nested_scope(outer: &str, node: &str, op: &str) -> String {
    match node.rsplit_once('.') {
        Some((_, number)) => format!("{outer}/{op}{number}"),
        None => format!("{outer}/{op}"),
    }
}

/// A body as nodes of one scalar primitive each. Small floats compute in `f32` and are rounded once at the end.
fn lower_body(builder: &mut Builder, body: &Body, inputs: &[Value]) -> Vec<Value> {
    let types: Vec<Type> = inputs.iter().map(|&input| builder.ty(input).clone()).collect();
    let shape = broadcast_shapes(&types).unwrap_or_else(|| crate::bug!("operands of a map do not broadcast"));
    let outer = body.dtypes(&types.iter().map(|ty| ty.dtype).collect::<Vec<_>>());
    let wide: Vec<Value> = inputs.iter().map(|&input| widened(builder, input)).collect();
    let dtypes = body.dtypes(&wide.iter().map(|&value| builder.dtype(value)).collect::<Vec<_>>());
    let wide: Vec<Value> = wide.into_iter().map(|value| builder.broadcast_dims(value, &shape)).collect();
    let mut values: Vec<Value> = vec![];
    for (reg, inst) in body.insts.iter().enumerate() {
        values.push(match inst {
            Inst::Param(i) => wide[*i],
            Inst::Const(literal) => builder.full(*literal, Type { dtype: dtypes[reg], shape: shape.clone() }),
            Inst::Apply(op, args) => {
                let taken = body.operand_dtypes(op, args, &dtypes).into_iter().zip(args);
                let args: Vec<Value> = taken
                    .map(|(dtype, &arg)| match body.insts[arg] {
                        // A constant that meets operands of several types is a constant of each.
                        Inst::Const(literal) if dtype != dtypes[arg] => {
                            builder.full(literal, Type { dtype, shape: shape.clone() })
                        }
                        _ => values[arg],
                    })
                    .collect();
                builder.scalar(op.clone(), &args)
            }
        });
    }
    body.outputs.iter().map(|&reg| builder.cast(values[reg], outer[reg])).collect()
}

fn widened(builder: &mut Builder, value: Value) -> Value {
    match builder.dtype(value) {
        DType::F16 | DType::BF16 => builder.cast(value, DType::F32),
        _ => value,
    }
}
