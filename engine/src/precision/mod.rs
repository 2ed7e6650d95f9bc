//! Mixed precision: a stage computes in a half type what tolerates it, and all else in `f32`.
//!
//! The pass inserts casts into a bound graph, before gradients are taken. So gradients follow from the casts, and those of
//! parameters arrive in `f32`. Ops decide by their [`Rounding`], primitives by their kind. Inputs, outputs and states keep
//! their types. Only values of `f32` are concerned; those of other types are computed as they are declared.
//!
//! The region of a loop is treated like the graph around it. Carried values keep their types, and given ones have those
//! that they have outside.

mod explain;
mod rule;
#[cfg(test)]
mod tests;

pub use explain::casts;

use crate::ir::{
    DType, Graph, InputKind, Node, NodeId, NodeOp, Output, Scalar, StateLink, Symbol, Type, Value, free_name,
};
use crate::op::Rounding;
use rule::{is_leaf, result_types, rule_of};
use std::collections::{HashMap, HashSet};

/// The graph with casts to `half` and back. Nodes with a name in `full` are computed in `f32`.
pub fn mixed(graph: &Graph, half: DType, full: &HashSet<Symbol>) -> Graph {
    Mixer::of(graph, (half, full), HashMap::new())
}

struct Mixer<'g> {
    old: &'g Graph,
    half: DType,
    /// Names of nodes that are computed in `f32`.
    full: &'g HashSet<Symbol>,
    /// By input of a region that a loop is given: its type, and whether its elements may be rounded.
    given: HashMap<NodeId, (Type, bool)>,
    new: Graph,
    /// The new value of each old one.
    map: Vec<Vec<Value>>,
    /// Whether an old node depends on parameters and constants alone, so that its elements may be rounded.
    is_free: Vec<bool>,
    /// Casts by value and type: each value is cast once.
    casts: HashMap<(Value, DType), Value>,
    names: HashSet<Symbol>,
}

impl<'g> Mixer<'g> {
    fn of(
        graph: &'g Graph,
        (half, full): (DType, &'g HashSet<Symbol>),
        given: HashMap<NodeId, (Type, bool)>,
    ) -> Graph {
        let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
        let names = outputs.map(|output| output.name.clone()).collect();
        let (new, casts) = (Graph::new(graph.name.clone()), HashMap::new());
        let mut mixer =
            Mixer { old: graph, half, full, given, new, map: vec![], is_free: vec![], casts, names };
        for (id, node) in graph.nodes.iter().enumerate() {
            match (&node.op, mixer.given.get(&id).cloned()) {
                (_, Some((ty, is_free))) => mixer.add_given(node, ty, is_free),
                (NodeOp::Loop { n_given, .. }, _) => mixer.add_loop(node, node.inputs.len() - n_given),
                _ => {
                    mixer.add(node, if full.contains(node.name()) { Rounding::Never } else { rule_of(node) })
                }
            }
        }
        mixer.finish()
    }

    /// An input of a region that a loop is given.
    fn add_given(&mut self, node: &Node, ty: Type, is_free: bool) {
        let outputs = vec![Output { ty, ..node.outputs[0].clone() }];
        let id = self.new.push(Node { outputs, ..node.clone() });
        self.map.push(vec![Value::of(id)]);
        self.is_free.push(is_free);
    }

    /// A loop whose carried values keep their types.
    fn add_loop(&mut self, node: &Node, n_carried: usize) {
        let (carried, given) = node.inputs.split_at(n_carried);
        let mut inputs: Vec<Value> = carried.iter().map(|&input| self.as_before(input)).collect();
        inputs.extend(given.iter().map(|given| self.map[given.node][given.port]));
        let region = &node.regions[0];
        let taken = region.inputs().filter(|(_, kind)| *kind != InputKind::Step).skip(n_carried + 1);
        let types = given.iter().zip(&inputs[n_carried..]);
        let types = types.map(|(old, new)| (self.new.ty(*new).clone(), self.is_free[old.node]));
        let region = Mixer::of(region, (self.half, self.full), taken.map(|(id, _)| id).zip(types).collect());
        let id = self.new.push(Node { inputs, regions: vec![region], ..node.clone() });
        self.map.push((0..node.outputs.len()).map(|port| Value { node: id, port }).collect());
        self.is_free.push(false);
    }

    fn add(&mut self, node: &Node, rule: Rounding) {
        let depends_on_free = || node.inputs.iter().all(|input| self.is_free[input.node]);
        let is_free = is_leaf(node) || rule == Rounding::Follows && depends_on_free();
        let types = self.takes_half(node, rule).then(|| self.half_results(node)).flatten();
        let wanted = |dtype| if types.is_some() { self.in_half(dtype) } else { dtype };
        let wanted: Vec<DType> = node.inputs.iter().map(|&input| wanted(self.old.ty(input).dtype)).collect();
        let pairs = node.inputs.iter().zip(wanted);
        let inputs = pairs.map(|(input, dtype)| self.cast(self.map[input.node][input.port], dtype)).collect();
        let mut outputs = node.outputs.clone();
        for (output, ty) in outputs.iter_mut().zip(types.into_iter().flatten()) {
            output.ty = ty;
        }
        let id = self.new.push(Node { inputs, outputs, ..node.clone() });
        self.map.push((0..node.outputs.len()).map(|port| Value { node: id, port }).collect());
        self.is_free.push(is_free);
    }

    /// The element type in a node that is computed in the half type.
    fn in_half(&self, dtype: DType) -> DType {
        if dtype == DType::F32 { self.half } else { dtype }
    }

    /// Whether the rule lets a node compute in the half type.
    fn takes_half(&self, node: &Node, rule: Rounding) -> bool {
        let singles = node.inputs.iter().filter(|input| self.old.ty(**input).dtype == DType::F32);
        let singles: Vec<(bool, bool)> =
            singles.map(|input| (self.is_half(*input), self.is_free[input.node])).collect();
        match rule {
            Rounding::Never => false,
            Rounding::Operands => !singles.is_empty(),
            Rounding::Follows => {
                singles.iter().any(|(is_half, _)| *is_half)
                    && singles.iter().all(|(is_half, is_free)| *is_half || *is_free)
            }
        }
    }

    /// Whether an old value of `f32` is now of the half type.
    fn is_half(&self, old: Value) -> bool {
        self.new.ty(self.map[old.node][old.port]).dtype == self.half
    }

    /// Types of the results of a node whose operands of `f32` are rounded, if it takes such operands.
    fn half_results(&self, node: &Node) -> Option<Vec<Type>> {
        let rounded = |input: &Value| {
            let ty = self.old.ty(*input);
            ty.with_dtype(self.in_half(ty.dtype))
        };
        let inputs: Vec<Type> = node.inputs.iter().map(rounded).collect();
        let types = result_types(node, &inputs)?;
        let fits = |(ty, output): (&Type, &Output)| {
            let dtypes = [output.ty.dtype, self.in_half(output.ty.dtype)];
            ty.shape == output.ty.shape && dtypes.contains(&ty.dtype)
        };
        types.iter().zip(&node.outputs).all(fits).then_some(types)
    }

    fn cast(&mut self, value: Value, dtype: DType) -> Value {
        if self.new.ty(value).dtype == dtype {
            return value;
        }
        if let Some(&known) = self.casts.get(&(value, dtype)) {
            return known;
        }
        let node = &self.new.nodes[value.node];
        // A constant beside halves keeps its digits, as a number in an expression does.
        let (op, inputs) = match &node.op {
            NodeOp::Const(literal) => (NodeOp::Const(literal.cast(dtype)), vec![]),
            _ => (NodeOp::Scalar(Scalar::Cast(dtype)), vec![value]),
        };
        let (span, ty) = (node.span, self.new.ty(value).with_dtype(dtype));
        let name = free_name(&mut self.names, &format!("{}.{dtype}", self.new.name_of(value)));
        let outputs = vec![Output { name, ty }];
        let id = self.new.push(Node { op, inputs, outputs, regions: vec![], span, no_fuse: None });
        self.casts.insert((value, dtype), Value::of(id));
        Value::of(id)
    }

    fn finish(mut self) -> Graph {
        for (name, value) in &self.old.outputs {
            let value = self.as_before(*value);
            self.new.outputs.push((name.clone(), value));
        }
        for link in &self.old.state {
            let next = self.as_before(link.next);
            self.new.state.push(StateLink { input: self.map[link.input][0].node, next });
        }
        self.new
    }

    /// The value in its old type.
    fn as_before(&mut self, old: Value) -> Value {
        self.cast(self.map[old.node][old.port], self.old.ty(old).dtype)
    }
}
