//! The graph builder, with which lowerings and gradients are written.

use super::{
    Attrs, Binary, Body, Call, Combine, DType, Dim, Graph, InputKind, Literal, MatmulSpec, Monoid, Node,
    NodeId, NodeOp, OpSet, Output, Requirement, Scalar, Symbol, Target, Type, TypeIssue, Unary, Value, View,
    broadcast_shapes,
};
use crate::diag::Span;
use std::collections::HashMap;
use std::sync::Arc;

/// Appends typed nodes to a graph.
///
/// Methods panic on operands that do not fit. Type rules check the user's graph before any lowering runs, so a misfit
/// is a bug in the lowering. Names of new nodes derive from the scope: `h.1`, `h.2`, ...
pub struct Builder<'a> {
    /// The graph under construction.
    pub graph: Graph,
    /// The ops that can be called by name.
    pub ops: &'a dyn OpSet,
    scope: Symbol,
    span: Option<Span>,
    no_fuse: Option<Symbol>,
    counters: HashMap<Symbol, usize>,
    /// The device that the graph is lowered for; any until lowering.
    pub target: Target,
    /// The step that new nodes count by, `i32[]`; made on first use.
    pub(crate) step: Option<Value>,
}

impl<'a> Builder<'a> {
    /// Continues an existing graph.
    pub fn new(graph: Graph, ops: &'a dyn OpSet) -> Builder<'a> {
        let step = graph.inputs().find(|(_, kind)| *kind == InputKind::Step).map(|(id, _)| Value::of(id));
        let mut counters = HashMap::new();
        for output in graph.nodes.iter().flat_map(|node| &node.outputs) {
            count_name(&mut counters, &output.name);
        }
        Builder {
            graph,
            ops,
            scope: "t".into(),
            span: None,
            no_fuse: None,
            counters,
            target: Target::default(),
            step,
        }
    }

    /// Sets the scope and the place of the nodes that follow.
    pub fn set_scope(&mut self, scope: &str, span: Option<Span>) {
        self.scope = scope.into();
        self.span = span;
    }

    /// Keeps derived names distinct from these names.
    pub fn reserve(&mut self, names: impl Iterator<Item = Symbol>) {
        names.for_each(|name| count_name(&mut self.counters, &name));
    }

    /// The place of the nodes that follow.
    pub fn span(&self) -> Option<Span> {
        self.span
    }

    /// Sets the place of the nodes that follow.
    pub fn set_span(&mut self, span: Option<Span>) {
        self.span = span;
    }

    /// The `fuse: Never` mark of new nodes; see [`Node::no_fuse`].
    pub fn no_fuse(&self) -> Option<Symbol> {
        self.no_fuse.clone()
    }

    /// Sets or clears the `fuse: Never` mark of the nodes that follow.
    pub fn set_no_fuse(&mut self, no_fuse: Option<Symbol>) {
        self.no_fuse = no_fuse;
    }

    /// The current scope: the path of names in the source.
    pub fn scope(&self) -> Symbol {
        self.scope.clone()
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.graph.ty(value)
    }

    /// The extents of a value.
    pub fn extents(&self, value: Value) -> Vec<usize> {
        self.ty(value).extents()
    }

    /// The element type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.ty(value).dtype
    }

    /// A fresh name, derived from the scope.
    pub fn fresh_name(&mut self) -> Symbol {
        let counter = self.counters.entry(self.scope.clone()).or_insert(0);
        *counter += 1;
        format!("{}.{counter}", self.scope).into()
    }

    /// Appends a node of one result under a derived name.
    pub fn push(&mut self, op: NodeOp, inputs: Vec<Value>, ty: Type) -> Value {
        let name = self.fresh_name();
        self.push_named(name, op, inputs, ty)
    }

    /// Appends a node of one result under a given name.
    pub fn push_named(&mut self, name: Symbol, op: NodeOp, inputs: Vec<Value>, ty: Type) -> Value {
        Value::of(self.push_node(op, inputs, vec![Output { name, ty }]))
    }

    /// Appends a node of several results.
    pub fn push_node(&mut self, op: NodeOp, inputs: Vec<Value>, outputs: Vec<Output>) -> NodeId {
        for output in &outputs {
            count_name(&mut self.counters, &output.name);
        }
        let (span, no_fuse) = (self.span, self.no_fuse.clone());
        self.graph.push(Node { op, inputs, outputs, regions: vec![], span, no_fuse })
    }

    /// A graph input.
    pub fn input(&mut self, name: &str, kind: InputKind, ty: Type) -> Value {
        self.push_named(name.into(), NodeOp::Input(kind), vec![], ty)
    }

    /// The current step, `i32[]`, made on first use.
    pub fn step(&mut self) -> Value {
        match self.step {
            Some(step) => step,
            None => {
                let step = self.input("step", InputKind::Step, Type::scalar(DType::I32));
                self.step = Some(step);
                step
            }
        }
    }

    // ---- Leaves.

    /// A tensor of that type filled with one number.
    pub fn full(&mut self, value: Literal, ty: Type) -> Value {
        let value = value.cast(ty.dtype);
        self.push(NodeOp::Const(value), vec![], ty)
    }

    /// A tensor like `like`, filled with one number.
    pub fn full_like(&mut self, like: Value, value: f64) -> Value {
        let ty = self.ty(like).clone();
        self.full(Literal::Float(value), ty)
    }

    /// A scalar constant.
    pub fn constant(&mut self, value: f64, dtype: DType) -> Value {
        self.full(Literal::Float(value), Type::scalar(dtype))
    }

    /// The coordinate along `axis` of a tensor of that type.
    pub fn iota(&mut self, axis: usize, ty: Type) -> Value {
        self.push(NodeOp::Iota { axis }, vec![], ty)
    }

    // ---- Maps. Operands broadcast by the numpy rule.

    /// A one-result scalar body over broadcast operands.
    pub fn map(&mut self, inputs: &[Value], formula: impl FnOnce(&[super::E]) -> super::E) -> Value {
        let body = Body::new(inputs.len(), |args| vec![formula(args)]);
        self.map_body(inputs, Arc::new(body))[0]
    }

    /// A scalar body over broadcast operands.
    pub fn map_body(&mut self, inputs: &[Value], body: Arc<Body>) -> Vec<Value> {
        let types: Vec<Type> = inputs.iter().map(|&v| self.ty(v).clone()).collect();
        let shape = broadcast_shapes(&types).unwrap_or_else(|| {
            let shapes: Vec<String> = types.iter().map(Type::to_string).collect();
            crate::bug!("cannot broadcast {}", shapes.join(" with "))
        });
        let dtypes = body.dtypes(&types.iter().map(|ty| ty.dtype).collect::<Vec<_>>());
        let outputs = body
            .outputs
            .iter()
            .map(|&reg| Output {
                name: self.fresh_name(),
                ty: Type { dtype: dtypes[reg], shape: shape.clone() },
            })
            .collect::<Vec<_>>();
        let n_outputs = outputs.len();
        let node = self.push_node(NodeOp::Map(body), inputs.to_vec(), outputs);
        (0..n_outputs).map(|port| Value { node, port }).collect()
    }

    /// One scalar primitive. Operands are first broadcast to a common shape. Integer divisors are checked for zero.
    pub fn scalar(&mut self, op: Scalar, inputs: &[Value]) -> Value {
        if let (Scalar::Binary(Binary::Div | Binary::Rem), &[a, b]) = (&op, inputs) {
            let b = self.check_divisor(b);
            return self.scalar_of(op, &[a, b]);
        }
        self.scalar_of(op, inputs)
    }

    fn scalar_of(&mut self, op: Scalar, inputs: &[Value]) -> Value {
        let types: Vec<Type> = inputs.iter().map(|&v| self.ty(v).clone()).collect();
        let shape = broadcast_shapes(&types)
            .unwrap_or_else(|| crate::bug!("cannot broadcast {} and {}", types[0], types[types.len() - 1]));
        let inputs: Vec<Value> = inputs.iter().map(|&v| self.broadcast_dims(v, &shape)).collect();
        let op = if types.iter().all(|ty| ty.dtype == DType::Bool) { op.of_truth_values() } else { op };
        let dtype = op.result(&types.iter().map(|ty| ty.dtype).collect::<Vec<_>>());
        self.push(NodeOp::Scalar(op), inputs, Type { dtype, shape })
    }

    /// A constant rounded to its type; any other value unchanged.
    pub(crate) fn rounded(&mut self, value: Value) -> Value {
        let ty = self.ty(value).clone();
        match self.literal(value) {
            Some(literal) if literal.rounded(ty.dtype) != literal => self.full(literal.rounded(ty.dtype), ty),
            _ => value,
        }
    }

    /// One unary primitive.
    pub fn unary(&mut self, op: Unary, x: Value) -> Value {
        self.scalar(Scalar::Unary(op), &[x])
    }

    /// One binary primitive.
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.scalar(Scalar::Binary(op), &[a, b])
    }

    /// `a + b`
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Add, a, b)
    }

    /// `a - b`
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Sub, a, b)
    }

    /// `a · b`
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Mul, a, b)
    }

    /// `a / b`
    pub fn div(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Div, a, b)
    }

    /// `x · k` for a constant k.
    pub fn scale(&mut self, x: Value, k: f64) -> Value {
        let k = self.full_like(x, k);
        self.mul(x, k)
    }

    /// Conversion; the value itself if it already has the type.
    pub fn cast(&mut self, x: Value, dtype: DType) -> Value {
        if self.dtype(x) == dtype { x } else { self.scalar(Scalar::Cast(dtype), &[x]) }
    }

    /// Converts to the accumulator type, so that sums of small floats are rounded once, at the end.
    pub fn widen(&mut self, x: Value) -> Value {
        let wide = self.dtype(x).accumulator();
        self.cast(x, wide)
    }

    /// Passes indices in `0..bound` through. Any other index raises the out-of-bounds error.
    pub fn check_index(&mut self, idx: Value, bound: usize) -> Value {
        self.check(idx, Requirement::Index { bound })
    }

    /// Passes integers through that meet a requirement. Any other integer raises the error of the requirement.
    pub fn check(&mut self, x: Value, requirement: Requirement) -> Value {
        let ty = self.ty(x).clone();
        self.push(NodeOp::Check(requirement), vec![x], ty)
    }

    /// Passes non-zero integers through. A zero raises the division-by-zero error. Float divisors need no check, and a
    /// constant divisor is checked here.
    fn check_divisor(&mut self, divisor: Value) -> Value {
        let ty = self.ty(divisor).clone();
        if !ty.dtype.is_int() || self.literal(divisor).is_some_and(|literal| literal.as_i64() != 0) {
            return divisor;
        }
        self.push(NodeOp::Check(Requirement::Divisor), vec![divisor], ty)
    }

    /// The literal of a constant, also through views that repeat it.
    fn literal(&self, value: Value) -> Option<Literal> {
        let node = &self.graph.nodes[value.node];
        match &node.op {
            NodeOp::Const(literal) => Some(*literal),
            NodeOp::View(View::Reshape | View::Broadcast { .. }) => self.literal(node.inputs[0]),
            _ => None,
        }
    }

    // ---- Views.

    /// The elements under another shape.
    pub fn reshape(&mut self, x: Value, extents: &[usize]) -> Value {
        let ty = Type::new(self.dtype(x), extents);
        if *self.ty(x) == ty {
            return x;
        }
        assert_eq!(ty.numel(), self.ty(x).numel(), "bug: reshape of {} to {ty}", self.ty(x));
        self.push(NodeOp::View(View::Reshape), vec![x], ty)
    }

    /// Result axis `i` is operand axis `perm[i]`.
    pub fn permute(&mut self, x: Value, perm: &[usize]) -> Value {
        if perm.iter().enumerate().all(|(i, &axis)| i == axis) {
            return x;
        }
        let ty = self.ty(x);
        let ty = Type { dtype: ty.dtype, shape: perm.iter().map(|&axis| ty.shape[axis].clone()).collect() };
        self.push(NodeOp::View(View::Permute { perm: perm.to_vec() }), vec![x], ty)
    }

    /// Operand axis `i` becomes result axis `axes[i]`. All other result axes repeat.
    pub fn broadcast_axes(&mut self, x: Value, axes: &[usize], shape: &[Dim]) -> Value {
        let ty = Type { dtype: self.dtype(x), shape: shape.to_vec() };
        if *self.ty(x) == ty {
            return x;
        }
        self.push(NodeOp::View(View::Broadcast { axes: axes.to_vec() }), vec![x], ty)
    }

    /// Broadcast by the numpy rule: trailing axes align.
    pub fn broadcast_dims(&mut self, x: Value, shape: &[Dim]) -> Value {
        let lead = shape.len() - self.ty(x).rank();
        let axes: Vec<usize> = (lead..shape.len()).collect();
        self.broadcast_axes(x, &axes, shape)
    }

    /// Broadcast to the shape of `like` by the numpy rule.
    pub fn broadcast_like(&mut self, x: Value, like: Value) -> Value {
        let shape = self.ty(like).shape.clone();
        self.broadcast_dims(x, &shape)
    }

    /// Restores reduced axes by repetition: the inverse of a reduction of `like` over `axes`.
    pub fn unreduce(&mut self, x: Value, axes: &[usize], like: Value) -> Value {
        let shape = self.ty(like).shape.clone();
        let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
        self.broadcast_axes(x, &kept, &shape)
    }

    /// `count[i]` elements of each axis `i`, from `start[i]` with stride `step[i]`.
    pub fn slice(&mut self, x: Value, start: &[usize], count: &[usize], step: &[i64]) -> Value {
        let ty = Type::new(self.dtype(x), count);
        self.push(NodeOp::View(View::Slice { start: start.to_vec(), step: step.to_vec() }), vec![x], ty)
    }

    /// Pads with a fill value.
    pub fn pad(&mut self, x: Value, low: &[usize], high: &[usize], fill: Literal) -> Value {
        let extents: Vec<usize> =
            self.extents(x).iter().zip(low.iter().zip(high)).map(|(n, (l, h))| n + l + h).collect();
        let ty = Type::new(self.dtype(x), &extents);
        let fill = fill.cast(ty.dtype);
        self.push(NodeOp::View(View::Pad { low: low.to_vec(), high: high.to_vec(), fill }), vec![x], ty)
    }

    /// Windows of `size` elements on an axis, `step` apart, of elements that are `dilation` apart: all that fit. The axis
    /// becomes two: the number of the window, and the place in it. Adjacent windows are a reshape.
    pub fn window(&mut self, x: Value, axis: usize, size: usize, [step, dilation]: [usize; 2]) -> Value {
        let mut extents = self.extents(x);
        let span = (size - 1) * dilation + 1;
        let count = extents[axis].checked_sub(span).map_or(0, |rest| rest / step + 1);
        if step == size && dilation == 1 {
            extents[axis] = count * size;
            let whole = self.slice(x, &vec![0; extents.len()], &extents, &vec![1; extents.len()]);
            extents.splice(axis..=axis, [count, size]);
            return self.reshape(whole, &extents);
        }
        extents.splice(axis..=axis, [count, size]);
        let ty = Type::new(self.dtype(x), &extents);
        self.push(NodeOp::View(View::Window { axis, step, dilation }), vec![x], ty)
    }

    // ---- Reductions, indexing, matmuls.

    /// A reduction, which removes the axes. Sums of small floats accumulate in a wider type, and the result has the
    /// operand's type.
    pub fn reduce(&mut self, monoid: Monoid, x: Value, axes: &[usize]) -> Value {
        if axes.is_empty() && !monoid.is_index() {
            return x;
        }
        let ty = self.ty(x);
        let dtype = if monoid.is_index() { DType::I32 } else { ty.dtype };
        let shape =
            (0..ty.rank()).filter(|axis| !axes.contains(axis)).map(|axis| ty.shape[axis].clone()).collect();
        self.push(NodeOp::Reduce { monoid, axes: axes.to_vec() }, vec![x], Type { dtype, shape })
    }

    /// Sum over axes.
    pub fn sum(&mut self, x: Value, axes: &[usize]) -> Value {
        self.reduce(Monoid::Sum, x, axes)
    }

    /// Mean over axes; NaN when empty.
    pub fn mean(&mut self, x: Value, axes: &[usize]) -> Value {
        let extents = self.extents(x);
        let count: usize = axes.iter().map(|&axis| extents[axis]).product();
        let sum = self.sum(x, axes);
        let count = self.full_like(sum, count as f64);
        self.div(sum, count)
    }

    /// Indexed read; see [`NodeOp::Gather`].
    pub fn gather(&mut self, src: Value, idx: Value, axis: usize, batch: usize) -> Value {
        let (s, i) = (self.ty(src), self.ty(idx));
        let shape = s.shape[..axis]
            .iter()
            .chain(&i.shape[batch..])
            .chain(&s.shape[axis + 1..])
            .cloned()
            .collect::<Vec<_>>();
        let ty = Type { dtype: s.dtype, shape };
        self.push(NodeOp::Gather { axis, batch }, vec![src, idx], ty)
    }

    /// Indexed combine; see [`NodeOp::Scatter`].
    pub fn scatter(
        &mut self,
        base: Value,
        idx: Value,
        updates: Value,
        axis: usize,
        batch: usize,
        combine: Combine,
    ) -> Value {
        let ty = self.ty(base).clone();
        self.push(NodeOp::Scatter { axis, batch, combine }, vec![base, idx, updates], ty)
    }

    /// A matmul over any axes: a general dot product.
    pub fn matmul(&mut self, lhs: Value, rhs: Value, spec: MatmulSpec) -> Value {
        let dtype = self.dtype(lhs);
        self.matmul_as(dtype, lhs, rhs, spec)
    }

    /// A matmul whose result has the accumulator type: products of small floats are not rounded to their type.
    pub fn matmul_wide(&mut self, lhs: Value, rhs: Value, spec: MatmulSpec) -> Value {
        let dtype = self.dtype(lhs).accumulator();
        self.matmul_as(dtype, lhs, rhs, spec)
    }

    fn matmul_as(&mut self, dtype: DType, lhs: Value, rhs: Value, spec: MatmulSpec) -> Value {
        let ty = Type { dtype, shape: spec.shape(self.ty(lhs), self.ty(rhs)) };
        self.push(NodeOp::Matmul(spec), vec![lhs, rhs], ty)
    }

    /// The matmul of two matrices, `[m, k] · [k, n]`.
    pub fn mm(&mut self, lhs: Value, rhs: Value) -> Value {
        self.matmul(lhs, rhs, MatmulSpec::of_matrices())
    }

    // ---- Calls of registered ops.

    /// A call of a registered op. The op's type rule gives the types of the results, and omitted attributes have their
    /// defaults. Names derive from the scope.
    ///
    /// # Errors
    /// If the op is unknown, or operands or attributes do not fit it.
    pub fn call(&mut self, name: &str, inputs: &[Value], attrs: Attrs) -> Result<Vec<Value>, TypeIssue> {
        let op = self.ops.find(name).ok_or_else(|| self.ops.unknown(name))?;
        let call = Call { attrs: attrs.filled(op.attrs()), op };
        let types: Vec<Type> = inputs.iter().map(|&v| self.ty(v).clone()).collect();
        let types = call.op.infer(&types, &call.attrs)?;
        let outputs: Vec<Output> =
            types.into_iter().map(|ty| Output { name: self.fresh_name(), ty }).collect();
        let n_outputs = outputs.len();
        let node = self.push_node(NodeOp::Call(call), inputs.to_vec(), outputs);
        Ok((0..n_outputs).map(|port| Value { node, port }).collect())
    }
}

/// Keeps derived names distinct from existing ones: `h.7` moves the counter of `h` to at least 7.
fn count_name(counters: &mut HashMap<Symbol, usize>, name: &str) {
    if let Some((scope, number)) = name.rsplit_once('.')
        && let Ok(number) = number.parse::<usize>()
    {
        let counter = counters.entry(scope.into()).or_insert(0);
        *counter = (*counter).max(number);
    }
}
