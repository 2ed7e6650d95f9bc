//! Lowering: every op is expanded to primitives.

mod loops;

use crate::ir::{
    Attrs, Body, Builder, Call, DType, Graph, Inst, Node, NodeOp, Output, Scalar, StateLink, Symbol, Target,
    Type, TypeIssue, Value, broadcast_shapes,
};
use crate::op::{Lower, Lowering, Registry};
use std::collections::HashMap;

/// A bound graph in primitives only: calls are expanded, bodies become one node per scalar primitive, and broadcasts
/// become explicit. The value that replaces a node keeps the name that the user gave it.
pub fn primitives(graph: &Graph, registry: &Registry) -> Graph {
    primitives_for(graph, registry, Target::default())
}

/// As [`primitives`], for a certain device.
pub fn primitives_for(graph: &Graph, registry: &Registry, target: Target) -> Graph {
    lowered(graph, registry, target).pruned()
}

fn lowered(graph: &Graph, registry: &Registry, target: Target) -> Graph {
    let mut lowering = Inliner::new(graph, registry);
    lowering.builder.target = target;
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
        // All names of the old graph are reserved, so that derived names differ from them; see `Builder::reserve`.
        let mut builder = Builder::new(Graph::new(old.name.clone()), registry);
        builder.reserve(old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()));
        // The step is made first, so that no expansion makes it. Pruning drops an unused step.
        builder.step();
        Inliner { old, builder, map: vec![] }
    }

    fn lower(&mut self, id: usize) {
        let node = &self.old.nodes[id];
        let inputs: Vec<Value> = node.inputs.iter().map(|input| self.map[input.node][input.port]).collect();
        self.builder.set_scope(node.name(), node.span);
        self.builder.set_no_fuse(node.no_fuse.clone());
        let before = self.builder.graph.nodes.len();
        let values = match &node.op {
            NodeOp::Input(_) => self.copy(node, inputs),
            NodeOp::Cond => self.lower_cond(node, inputs),
            NodeOp::Loop { .. } => lower_loop(&mut self.builder, node, inputs),
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

    /// Both sides are computed, since regions are pure. The condition selects.
    fn lower_cond(&mut self, node: &Node, inputs: Vec<Value>) -> Vec<Value> {
        let (registry, target) = (self.builder.registry(), self.builder.target);
        let sides: Vec<Vec<Value>> = node
            .regions
            .iter()
            .map(|region| inline(&mut self.builder, &lowered(region, registry, target), &inputs[1..]))
            .collect();
        let sides = sides[0].iter().zip(&sides[1]);
        sides.map(|(&a, &b)| self.builder.scalar(Scalar::Select, &[inputs[0], a, b])).collect()
    }

    fn name(&mut self, value: Value, name: &Symbol, before: usize) {
        // A lowering that returns an operand unchanged makes no node that could have the name.
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

/// The region of a loop is lowered by itself.
fn lower_loop(builder: &mut Builder, node: &Node, mut inputs: Vec<Value>) -> Vec<Value> {
    let region = lowered(&node.regions[0], builder.registry(), builder.target);
    let (op, region, takes_step) = loops::counted(&node.op, region, node.outputs.len());
    inputs.extend(takes_step.then(|| builder.step()));
    let id = builder.push_node(op, inputs, node.outputs.clone());
    builder.graph.nodes[id].regions = vec![region];
    (0..node.outputs.len()).map(|port| Value { node: id, port }).collect()
}

/// Appends the nodes of a primitive region whose inputs are `args`, and returns its results.
fn inline(builder: &mut Builder, region: &Graph, args: &[Value]) -> Vec<Value> {
    let mut args = args.iter();
    let mut map: HashMap<Value, Value> = HashMap::new();
    for (id, node) in region.nodes.iter().enumerate() {
        let values = match &node.op {
            NodeOp::Input(crate::ir::InputKind::Step) => vec![builder.step()],
            NodeOp::Input(_) => {
                vec![*args.next().unwrap_or_else(|| crate::bug!("a region has more inputs than operands"))]
            }
            op @ NodeOp::Call(_) => {
                let inputs: Vec<Value> = node.inputs.iter().map(|input| map[input]).collect();
                unchanged(builder, op, &inputs)
            }
            op => {
                let inputs = node.inputs.iter().map(|input| map[input]).collect();
                let outputs: Vec<Output> = node
                    .outputs
                    .iter()
                    .map(|output| Output { name: builder.fresh_name(), ty: output.ty.clone() })
                    .collect();
                let n_outputs = outputs.len();
                let made = builder.push_node(op.clone(), inputs, outputs);
                builder.graph.nodes[made].regions = node.regions.clone();
                (0..n_outputs).map(|port| Value { node: made, port }).collect()
            }
        };
        let ports = values.into_iter().enumerate();
        map.extend(ports.map(|(port, value)| (Value { node: id, port }, value)));
    }
    region.outputs.iter().map(|(_, value)| map[value]).collect()
}

/// The primitives of one call or map. All other nodes are primitives already.
fn lower_node(builder: &mut Builder, op: &NodeOp, inputs: &[Value]) -> Vec<Value> {
    match op {
        NodeOp::Call(call) => match &call.form().lower {
            Lower::Map(body) => lower_body(builder, &body(&call.attrs), inputs),
            Lower::Expand(_) => {
                let first = builder.graph.nodes.len();
                let values = expand(builder, call, inputs);
                lower_from(builder, first, values)
            }
            Lower::Kernel(_) => unchanged(builder, op, inputs),
        },
        NodeOp::Map(body) => lower_body(builder, body, inputs),
        _ => crate::bug!("{op:?} needs no lowering"),
    }
}

/// Copies an opaque call.
fn unchanged(builder: &mut Builder, op: &NodeOp, inputs: &[Value]) -> Vec<Value> {
    let NodeOp::Call(Call { op: called, attrs }) = op else { crate::bug!("{op:?} is no call") };
    let types: Vec<Type> = inputs.iter().map(|&input| builder.ty(input).clone()).collect();
    let types = called
        .infer(&types, attrs)
        .unwrap_or_else(|issue| crate::bug!("`{}` was checked before: {}", called.name(), issue.message));
    let outputs: Vec<Output> =
        types.into_iter().map(|ty| Output { name: builder.fresh_name(), ty }).collect();
    let n_outputs = outputs.len();
    let node = builder.push_node(op.clone(), inputs.to_vec(), outputs);
    (0..n_outputs).map(|port| Value { node, port }).collect()
}

/// One step of an expansion, by the lowering in the op's form.
pub fn expand(builder: &mut Builder, call: &Call, inputs: &[Value]) -> Vec<Value> {
    match &call.form().lower {
        Lower::Expand(rule) => rule(builder, &Lowering { inputs, attrs: &call.attrs }),
        Lower::Map(body) => builder.map_body(inputs, std::sync::Arc::new(body(&call.attrs))),
        Lower::Kernel(_) => unchanged(builder, &NodeOp::Call(call.clone()), inputs),
    }
}

impl Builder<'_> {
    /// A call of a registered op, expanded by one step. What it counts by the step, it counts by this builder's.
    ///
    /// # Errors
    /// If the op is unknown, or operands or attributes do not fit it.
    pub fn expanded(&mut self, name: &str, inputs: &[Value], attrs: Attrs) -> Result<Vec<Value>, TypeIssue> {
        let form = self.registry().expect_op(name)?;
        let attrs = form.fill_attrs(attrs);
        let types: Vec<Type> = inputs.iter().map(|&input| self.ty(input).clone()).collect();
        form.infer(&types, &attrs)?;
        Ok(expand(self, &Call { op: form, attrs }, inputs))
    }
}

/// Lowers the nodes from `first` on, which an expansion has appended.
fn lower_from(builder: &mut Builder, first: usize, values: Vec<Value>) -> Vec<Value> {
    let appended = builder.graph.nodes.split_off(first);
    let (scope, mark) = (builder.scope(), builder.no_fuse());
    let mut map: HashMap<Value, Value> = HashMap::new();
    for (offset, node) in appended.into_iter().enumerate() {
        // An expansion may mark its parts.
        builder.set_no_fuse(node.no_fuse.clone());
        let moved = |value: &Value| map.get(value).copied().unwrap_or(*value);
        let inputs: Vec<Value> = node.inputs.iter().map(moved).collect();
        let lowered = match &node.op {
            NodeOp::Call(call) => {
                // The path of names determines the random streams of nested calls.
                builder.set_scope(&nested_scope(&scope, node.name(), &call.form().name), node.span);
                lower_node(builder, &node.op, &inputs)
            }
            NodeOp::Map(_) => lower_node(builder, &node.op, &inputs),
            NodeOp::Loop { .. } => lower_loop(builder, &node, inputs),
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
    builder.set_no_fuse(mark);
    values.into_iter().map(|value| map.get(&value).copied().unwrap_or(value)).collect()
}

/// The scope of a call within an expansion. It is the call's own name if the expansion gave it one. Otherwise it is the
/// outer scope with the op and the node's number, which is unique there.
pub(crate) fn nested_scope(outer: &str, node: &str, op: &str) -> String {
    let number = node.strip_prefix(outer).and_then(|rest| rest.strip_prefix('.'));
    match number.filter(|number| number.parse::<usize>().is_ok()) {
        Some(number) => format!("{outer}/{op}{number}"),
        None => node.to_owned(),
    }
}

/// A body as nodes of one scalar primitive each. Small floats compute in `f32` and are rounded once, at the end, so
/// constants combined with them keep the digits of `f32`. If the body is discontinuous, constants among its inputs are
/// first rounded to their own type, since the last digit can decide the result.
fn lower_body(builder: &mut Builder, body: &Body, inputs: &[Value]) -> Vec<Value> {
    let types: Vec<Type> = inputs.iter().map(|&input| builder.ty(input).clone()).collect();
    let shape = broadcast_shapes(&types).unwrap_or_else(|| crate::bug!("operands of a map do not broadcast"));
    let outer = body.dtypes(&types.iter().map(|ty| ty.dtype).collect::<Vec<_>>());
    let has_jumps = body.insts.iter().any(Inst::has_jumps);
    let inputs = inputs.iter().map(|&input| if has_jumps { builder.rounded(input) } else { input });
    let inputs: Vec<Value> = inputs.collect();
    let wide: Vec<Value> = inputs.into_iter().map(|input| widened(builder, input)).collect();
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
                        // A constant that is used with several types becomes a constant of each.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::ir::{Attrs, Level, Monoid, parse, verify};
    use crate::op::{Grad, GradCheck, InputSpec, OpForm, Role, Rounding, TypeRule};
    use expect_test::{Expect, expect};

    fn form(name: &str, lower: Lower) -> OpForm {
        OpForm {
            name: name.into(),
            family: "test".into(),
            summary: "A test.".into(),
            inputs: vec![InputSpec::required("x", "the operand")],
            outputs: vec!["y".into()],
            attrs: vec![],
            types: TypeRule::Broadcast { allowed: DType::is_float },
            lower,
            grad: Grad::Derive,
            check: GradCheck::None { why: "a test" },
            examples: vec![],
            role: Role::Plain,
            rounding: Rounding::Never,
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::new();
        registry.add(form("double_plus", Lower::map(1, |x| x[0] * 2.0 + 1.0)));
        registry.add(form("same", Lower::expand(|_, call| vec![call.inputs[0]])));
        registry.add(form(
            "noisy",
            Lower::expand(|b, call| {
                let extents = b.extents(call.inputs[0]);
                let u = b.random_uniform("u", &extents);
                vec![b.mul(call.inputs[0], u)]
            }),
        ));
        registry.add(form(
            "centred",
            Lower::expand(|b, call| {
                let x = b.call("double_plus", call.inputs, Attrs::default()).unwrap()[0];
                let largest = b.reduce(Monoid::Max, x, &[0]);
                let y = b.sub(x, largest);
                b.call("noisy", &[y], Attrs::default()).unwrap()
            }),
        ));
        registry
    }

    fn lower(text: &str) -> Graph {
        let registry = registry();
        let graph = parse(text, &registry).unwrap();
        let lowered = primitives(&graph, &registry);
        assert_eq!(verify(&lowered, Level::Primitive), Ok(()));
        lowered
    }

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&lower(text).to_string());
    }

    #[test]
    fn a_body_becomes_one_node_per_primitive_and_keeps_its_name() {
        check(
            "graph g {\n input x: f32[2]\n h: f32[2] = double_plus(x)\n output y = h\n}",
            expect![[r#"
            graph g {
              input x: f32[2]
              h.1: f32[2] = .const(2.0)
              h.2: f32[2] = .mul(x, h.1)
              h.3: f32[2] = .const(1.0)
              h: f32[2] = .add(h.2, h.3)
              output y = h
            }
        "#]],
        );
    }

    #[test]
    fn small_floats_compute_in_f32_and_are_rounded_once() {
        check(
            "graph g {\n input x: bf16[2]\n h: bf16[2] = double_plus(x)\n output y = h\n}",
            expect![[r#"
            graph g {
              input x: bf16[2]
              h.1: f32[2] = .cast(x, dtype=f32)
              h.2: f32[2] = .const(2.0)
              h.3: f32[2] = .mul(h.1, h.2)
              h.4: f32[2] = .const(1.0)
              h.5: f32[2] = .add(h.3, h.4)
              h: bf16[2] = .cast(h.5, dtype=bf16)
              output y = h
            }
        "#]],
        );
    }

    #[test]
    fn operands_are_broadcast_explicitly() {
        check(
            "graph g {\n input x: f32[2, 3]\n input b: f32[3]\n h: f32[2, 3] = map(x, b) |a, b| a * b\n output y = h\n}",
            expect![[r#"
                graph g {
                  input x: f32[2, 3]
                  input b: f32[3]
                  h.1: f32[2, 3] = .broadcast(b, axes=[1])
                  h: f32[2, 3] = .mul(x, h.1)
                  output y = h
                }
            "#]],
        );
    }

    #[test]
    fn expansions_within_expansions_are_lowered() {
        check(
            "graph g {\n input x: f32[2]\n h: f32[2] = centred(x)\n output y = h\n}",
            expect![[r#"
            graph g {
              step step: i32[]
              input x: f32[2]
              h/double_plus1.1: f32[2] = .const(2.0)
              h/double_plus1.2: f32[2] = .mul(x, h/double_plus1.1)
              h/double_plus1.3: f32[2] = .const(1.0)
              h/double_plus1.4: f32[2] = .add(h/double_plus1.2, h/double_plus1.3)
              h.2: f32[] = .max(h/double_plus1.4, axes=[0])
              h.3: f32[2] = .broadcast(h.2, axes=[])
              h.4: f32[2] = .sub(h/double_plus1.4, h.3)
              h/noisy5.1: u32[2] = .random(step, stream=3339740677)
              h/noisy5.2: u32[2] = .const(9)
              h/noisy5.3: u32[2] = .shr(h/noisy5.1, h/noisy5.2)
              h/noisy5.4: f32[2] = .cast(h/noisy5.3, dtype=f32)
              h/noisy5.7: f32[2] = .const(0.5)
              h/noisy5.8: f32[2] = .add(h/noisy5.4, h/noisy5.7)
              h/noisy5.9: f32[2] = .const(1.1920928955078125e-7)
              h/noisy5.10: f32[2] = .mul(h/noisy5.8, h/noisy5.9)
              h: f32[2] = .mul(h.4, h/noisy5.10)
              output y = h
            }
        "#]],
        );
    }

    #[test]
    fn random_streams_belong_to_the_path_of_names() {
        let streams = |graph: Graph| -> Vec<u32> {
            let stream = |node: &Node| match node.op {
                NodeOp::Random { stream } => Some(stream),
                _ => None,
            };
            graph.nodes.iter().filter_map(stream).collect()
        };
        let plain = |lines: &str| format!("graph g {{\n input x: f32[2]\n {lines} output y = h\n}}");
        let alone = streams(lower(&plain("h: f32[2] = noisy(x)\n")));
        let after = streams(lower(&plain("g: f32[2] = noisy(x)\n h: f32[2] = noisy(g)\n")));
        assert_eq!((alone.len(), after.len()), (1, 2));
        assert_eq!(alone[0], after[1], "what stands before a node does not change its numbers");
        assert_ne!(after[0], after[1]);
    }

    #[test]
    fn an_operand_that_is_passed_through_keeps_its_name() {
        check(
            "graph g {\n input x: f32[2]\n h: f32[2] = same(x)\n output y = h\n}",
            expect![[r#"
            graph g {
              input x: f32[2]
              output y = x
            }
        "#]],
        );
    }

    #[test]
    fn a_condition_computes_both_sides_and_selects() {
        check(
            "graph g {
               input c: bool[]
               input x: f32[]
               y: f32[] = .cond(c, x) {
                 graph yes {
                   input a: f32[]
                   b: f32[] = .exp(a)
                   output b = b
                 }
                 graph no {
                   input a: f32[]
                   output a = a
                 }
               }
               output y = y
             }",
            expect![[r#"
                graph g {
                  input c: bool[]
                  input x: f32[]
                  y.1: f32[] = .exp(x)
                  y: f32[] = .select(c, y.1, x)
                  output y = y
                }
            "#]],
        );
    }
}
