//! The graph under reconstruction, and the interface of rules to it.

use crate::diag::Span;
use crate::ir::{Binary, Graph, InputKind, Literal, Node, NodeOp, Output, Scalar, Symbol, Type, Value};
use std::collections::{HashMap, HashSet};

/// Folds constants and applies rules: the value of a node about to be made, if it is a simpler one.
type Simplify<'r> = dyn Fn(&mut Rewriter, &NodeOp, &[Value], &Type) -> Option<Value> + 'r;

/// The graph under reconstruction.
pub struct Rewriter<'r> {
    pub(super) graph: Graph,
    simplified: &'r Simplify<'r>,
    /// Rule applications that are left.
    pub(super) fuel: usize,
    known: HashMap<Key, Value>,
    taken: HashSet<Symbol>,
    reserved: HashSet<Symbol>,
    name: Symbol,
    span: Option<Span>,
    no_fuse: Option<Symbol>,
    counter: usize,
}

type Key = (String, Vec<Value>, Type, Option<Symbol>);

impl<'r> Rewriter<'r> {
    pub(super) fn new(old: &Graph, simplified: &'r Simplify<'r>, fuel: usize) -> Rewriter<'r> {
        let reserved =
            old.nodes.iter().flat_map(|node| &node.outputs).map(|output| output.name.clone()).collect();
        Rewriter {
            graph: Graph::new(old.name.clone()),
            simplified,
            fuel,
            known: HashMap::new(),
            taken: HashSet::new(),
            reserved,
            name: "".into(),
            span: None,
            no_fuse: None,
            counter: 0,
        }
    }

    /// The simplified counterpart of an old node.
    pub(super) fn rebuild(&mut self, node: &Node, inputs: Vec<Value>) -> Vec<Value> {
        self.name = node.name().clone();
        self.span = node.span;
        self.no_fuse = node.no_fuse.clone();
        self.counter = 0;
        if node.outputs.len() > 1 || !node.regions.is_empty() || matches!(node.op, NodeOp::Input(_)) {
            let id = self.graph.push(Node { inputs, ..node.clone() });
            self.taken.extend(node.outputs.iter().map(|output| output.name.clone()));
            return (0..node.outputs.len()).map(|port| Value { node: id, port }).collect();
        }
        let before = self.graph.nodes.len();
        let value = self.make(node.op.clone(), inputs, node.outputs[0].ty.clone());
        self.keep_name(value, before);
        vec![value]
    }

    /// The value that replaces a node takes its name, if the value is new or its name is derived.
    fn keep_name(&mut self, value: Value, before: usize) {
        let old = self.graph.name_of(value).clone();
        let fresh = value.node >= before;
        let better = old.contains('.') && !self.name.contains('.') && !self.is_input(value);
        if (fresh || better) && !self.taken.contains(&self.name) {
            self.taken.remove(&old);
            self.taken.insert(self.name.clone());
            self.graph.nodes[value.node].outputs[value.port].name = self.name.clone();
        }
    }

    fn is_input(&self, value: Value) -> bool {
        matches!(self.graph.nodes[value.node].op, NodeOp::Input(_))
    }

    // ---- The interface of rules.

    /// The operation of a value's node. A node outside the present `fuse: Never` group looks like an input, so that no
    /// rule reaches across its border.
    pub fn op(&self, value: Value) -> &NodeOp {
        static BEYOND: NodeOp = NodeOp::Input(InputKind::Data);
        let node = &self.graph.nodes[value.node];
        if node.no_fuse == self.no_fuse || is_always_recomputed(&node.op) { &node.op } else { &BEYOND }
    }

    /// The operands of a value's node.
    pub fn operands(&self, value: Value) -> &[Value] {
        &self.graph.nodes[value.node].inputs
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.graph.ty(value)
    }

    /// The number that fills a value, if it is a constant.
    pub fn constant(&self, value: Value) -> Option<Literal> {
        match self.op(value) {
            NodeOp::Const(literal) => Some(*literal),
            _ => None,
        }
    }

    /// A simplified node with that operation and type.
    pub fn make(&mut self, op: NodeOp, inputs: Vec<Value>, ty: Type) -> Value {
        let (op, inputs) = constants_right(self, op, inputs);
        let simplified = self.simplified;
        if let Some(value) = simplified(self, &op, &inputs, &ty) {
            return value;
        }
        self.intern(op, inputs, ty)
    }

    fn intern(&mut self, op: NodeOp, inputs: Vec<Value>, ty: Type) -> Value {
        let no_fuse = if is_always_recomputed(&op) { None } else { self.no_fuse.clone() };
        // Random nodes are never merged: two draws from one distribution are independent.
        let key = (!matches!(op, NodeOp::Random { .. }))
            .then(|| (format!("{op:?}"), inputs.clone(), ty.clone(), no_fuse.clone()));
        if let Some(&value) = key.as_ref().and_then(|key| self.known.get(key)) {
            return value;
        }
        let name = self.derived_name();
        let outputs = vec![Output { name, ty }];
        let node = self.graph.push(Node { op, inputs, outputs, regions: vec![], span: self.span, no_fuse });
        if let Some(key) = key {
            self.known.insert(key, Value::of(node));
        }
        Value::of(node)
    }

    fn derived_name(&mut self) -> Symbol {
        loop {
            self.counter += 1;
            let name: Symbol = format!("{}.{}", self.name, self.counter).into();
            if !self.reserved.contains(&name) && self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// One scalar primitive over operands of one shape.
    pub fn scalar(&mut self, scalar: Scalar, inputs: Vec<Value>) -> Value {
        let dtypes: Vec<_> = inputs.iter().map(|&input| self.ty(input).dtype).collect();
        let ty = self.ty(inputs[0]).with_dtype(scalar.result(&dtypes));
        self.make(NodeOp::Scalar(scalar), inputs, ty)
    }

    /// One binary primitive.
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.scalar(Scalar::Binary(op), vec![a, b])
    }

    /// A constant of that type.
    pub fn full(&mut self, literal: Literal, ty: Type) -> Value {
        self.make(NodeOp::Const(literal.cast(ty.dtype)), vec![], ty)
    }
}

/// Constants and coordinates are in no `fuse: Never` group, since each kernel computes them for itself.
fn is_always_recomputed(op: &NodeOp) -> bool {
    matches!(op, NodeOp::Const(_) | NodeOp::Iota { .. })
}

/// Moves constants to the right of commutative operations, so that rules need one form only.
fn constants_right(rewriter: &Rewriter, op: NodeOp, mut inputs: Vec<Value>) -> (NodeOp, Vec<Value>) {
    if let NodeOp::Scalar(Scalar::Binary(binary)) = op
        && binary.is_commutative()
        && rewriter.constant(inputs[0]).is_some()
        && rewriter.constant(inputs[1]).is_none()
    {
        inputs.swap(0, 1);
    }
    (op, inputs)
}
