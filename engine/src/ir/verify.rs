//! The verifier: the invariants of every graph, checked after each pass.
//!
//! At every level:
//! - names of values are unique in their graph, names of outputs among the outputs; a graph has at most one step;
//! - operands, outputs and next states refer to results that exist, operands to results of earlier nodes;
//! - a state link starts at a `param` or `state` input, at most once each, and keeps its type;
//! - each node has the number of operands, results and regions that its operation requires;
//! - calls have exactly the attributes of their form, of the form's kinds, and the types that the form's rule gives;
//! - scalar bodies use earlier steps only, have as many parameters and results as their node has operands and
//!   results, operands that broadcast, and element types that every step takes;
//! - types of primitives follow from those of their operands; axes exist and ascend, slices stay inside, constants and
//!   fills are literals of the element type's kind;
//! - regions have plain inputs (and possibly the step) and no state, and their signatures fit their node.
//!
//! From [`Level::Bound`] on, no extent is named. At [`Level::Primitive`], no call and no scalar body is left.

use super::text::NodeText;
use super::{
    Binary, Body, Call, Contract, DType, Dim, Graph, InputKind, Inst, Literal, Monoid, Node, NodeOp, Scalar,
    StateLink, Symbol, Type, Unary, Value, View, broadcast_shapes,
};
use crate::op::{Lower, TypeIssue};
use std::collections::HashSet;
use std::fmt;

/// The form of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Calls, scalar bodies and primitives; extents may be named.
    Typed,
    /// `Typed` with all extents known.
    Bound,
    /// Primitives only, all extents known.
    Primitive,
}

/// One violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The graph or region.
    pub graph: String,
    /// The line at fault, if the problem concerns one line.
    pub line: Option<String>,
    /// The fault: lower case, no full stop.
    pub message: String,
}

/// Prints as ``in `mlp`: h: f32[2] = .add(a, b): `b` is f32[3]``.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in `{}`: ", self.graph)?;
        if let Some(line) = &self.line {
            write!(f, "{line}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Checks all invariants of this module at a level, regions included. It reports the first problem of every node.
pub fn verify(graph: &Graph, level: Level) -> Result<(), Vec<Problem>> {
    let mut problems = vec![];
    check_graph(graph, level, &mut problems);
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

type Check = Result<(), TypeIssue>;

fn ensure(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(TypeIssue::new(message())) }
}

fn check_graph(graph: &Graph, level: Level, problems: &mut Vec<Problem>) {
    let mut report = |node: Option<&Node>, check: Check| {
        if let Err(TypeIssue { message, .. }) = check {
            let line = node.map(|node| NodeText { graph, node }.to_string());
            problems.push(Problem { graph: graph.name.clone(), line, message });
        }
    };
    let values = graph.nodes.iter().flat_map(|node| &node.outputs).map(|output| &output.name);
    report(None, check_unique("value", values));
    report(None, check_unique("output", graph.outputs.iter().map(|(name, _)| name)));
    report(None, check_steps(graph));
    for (id, node) in graph.nodes.iter().enumerate() {
        let check = check_operands(graph, id, node).and_then(|_| check_node(graph, node, level));
        report(Some(node), check);
    }
    let mut carried = HashSet::new();
    for link in &graph.state {
        report(None, check_state(graph, link, carried.insert(link.input)));
    }
    for (name, value) in &graph.outputs {
        report(None, ensure(exists(graph, *value), || format!("output `{name}` is nowhere defined")));
    }
    for region in graph.nodes.iter().flat_map(|node| &node.regions) {
        check_graph(region, level, problems);
    }
}

fn check_unique<'n>(what: &str, names: impl Iterator<Item = &'n Symbol>) -> Check {
    let mut known = HashSet::new();
    for name in names {
        ensure(known.insert(name), || format!("there are two {what}s `{name}`"))?;
    }
    Ok(())
}

fn check_steps(graph: &Graph) -> Check {
    let n_steps = graph.inputs().filter(|(_, kind)| *kind == InputKind::Step).count();
    ensure(n_steps <= 1, || format!("there are {n_steps} step inputs"))
}

fn exists(graph: &Graph, value: Value) -> bool {
    graph.nodes.get(value.node).is_some_and(|node| value.port < node.outputs.len())
}

fn check_state(graph: &Graph, link: &StateLink, is_new: bool) -> Check {
    let input = Value::of(link.input);
    ensure(exists(graph, input) && exists(graph, link.next), || {
        format!("the state link of node {} refers to a value that is nowhere defined", link.input)
    })?;
    let name = graph.name_of(input);
    let is_state = matches!(graph.node(link.input).op, NodeOp::Input(InputKind::Param | InputKind::State));
    ensure(is_state, || format!("`{name}` is carried on but is neither a param nor a state"))?;
    ensure(is_new, || format!("`{name}` has two next values"))?;
    let (now, next) = (graph.ty(input), graph.ty(link.next));
    ensure(now == next, || format!("`{name}` is {now} but its next value is {next}"))
}

fn check_operands(graph: &Graph, id: usize, node: &Node) -> Check {
    for (i, &input) in node.inputs.iter().enumerate() {
        ensure(exists(graph, input) && input.node < id, || {
            format!("operand {i} is not defined before its use")
        })?;
    }
    ensure(!node.outputs.is_empty(), || "a node without results".into())
}

/// Checks one node whose operands exist.
fn check_node(graph: &Graph, node: &Node, level: Level) -> Check {
    let inputs: Vec<Type> = node.inputs.iter().map(|&value| graph.ty(value).clone()).collect();
    let outputs: Vec<Type> = node.outputs.iter().map(|output| output.ty.clone()).collect();
    check_counts(node)?;
    check_level(node, level)?;
    match &node.op {
        NodeOp::Call(call) => check_call(call, &inputs, &outputs),
        NodeOp::Map(body) => check_map(body, &inputs, &outputs),
        NodeOp::Loop { .. } => check_loop(&node.regions[0], &inputs, &outputs),
        NodeOp::Cond => node.regions.iter().try_for_each(|region| check_branch(region, &inputs, &outputs)),
        op => check_primitive(op, &inputs, &outputs[0]),
    }
}

/// Checks the numbers of operands, results and regions.
fn check_counts(node: &Node) -> Check {
    let n_inputs = match &node.op {
        NodeOp::Input(_) | NodeOp::Const(_) | NodeOp::Iota { .. } => Some(0),
        NodeOp::Check(_) | NodeOp::View(_) | NodeOp::Reduce { .. } | NodeOp::Scan { .. } => Some(1),
        // The step, and in an unrolled loop the trip number.
        NodeOp::Random { .. } => Some(node.inputs.len().clamp(1, 2)),
        NodeOp::Gather { .. } | NodeOp::Contract(_) => Some(2),
        NodeOp::Scatter { .. } => Some(3),
        NodeOp::Scalar(scalar) => Some(scalar.arity()),
        NodeOp::Map(body) => Some(body.n_params),
        NodeOp::Loop { .. } => Some(node.outputs.len()),
        NodeOp::Call(_) | NodeOp::Cond => None,
    };
    let given = node.inputs.len();
    if let Some(wanted) = n_inputs {
        ensure(given == wanted, || format!("the number of operands is {given}, not {wanted}"))?;
    }
    let n_regions = match node.op {
        NodeOp::Loop { .. } => 1,
        NodeOp::Cond => 2,
        _ => 0,
    };
    let given = node.regions.len();
    ensure(given == n_regions, || format!("the number of regions is {given}, not {n_regions}"))?;
    let many = matches!(node.op, NodeOp::Call(_) | NodeOp::Map(_) | NodeOp::Loop { .. } | NodeOp::Cond);
    let given = node.outputs.len();
    ensure(many || given == 1, || format!("the number of results is {given}, not 1"))
}

fn check_level(node: &Node, level: Level) -> Check {
    if level >= Level::Bound {
        for output in &node.outputs {
            let (name, ty) = (&output.name, &output.ty);
            ensure(ty.is_bound(), || format!("`{name}` is {ty}, with an extent that is not bound"))?;
        }
    }
    let lowered = match &node.op {
        NodeOp::Call(call) => !matches!(call.form.lower, Lower::Map(_) | Lower::Expand(_)),
        NodeOp::Map(_) => false,
        _ => true,
    };
    ensure(lowered || level < Level::Primitive, || "this is not lowered to primitives".into())
}

fn check_call(call: &Call, inputs: &[Type], outputs: &[Type]) -> Check {
    same_types(&call.form.infer(inputs, &call.attrs)?, outputs)
}

fn same_types(expected: &[Type], given: &[Type]) -> Check {
    ensure(expected == given, || format!("the result is {}, not {}", list(expected), list(given)))
}

fn list(types: &[Type]) -> String {
    types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ")
}

fn same_type(expected: Type, given: &Type) -> Check {
    same_types(&[expected], std::slice::from_ref(given))
}

fn check_map(body: &Body, inputs: &[Type], outputs: &[Type]) -> Check {
    check_steps_of(body)?;
    let shape = broadcast_shapes(inputs).ok_or_else(|| TypeIssue::new("the operands do not broadcast"))?;
    let params: Vec<DType> = inputs.iter().map(|ty| ty.dtype).collect();
    let dtypes = body.dtypes(&params);
    for inst in &body.insts {
        if let Inst::Apply(scalar, operands) = inst {
            check_scalar_dtypes(scalar, &body.operand_dtypes(scalar, operands, &dtypes))?;
        }
    }
    let expected: Vec<Type> =
        body.outputs.iter().map(|&reg| Type { dtype: dtypes[reg], shape: shape.clone() }).collect();
    same_types(&expected, outputs)
}

/// Checks that each step of a body uses earlier steps only.
fn check_steps_of(body: &Body) -> Check {
    for (reg, inst) in body.insts.iter().enumerate() {
        let fits = match inst {
            Inst::Param(i) => *i == reg && reg < body.n_params,
            Inst::Const(_) => reg >= body.n_params,
            Inst::Apply(scalar, operands) => {
                let earlier = operands.iter().all(|&operand| operand < reg);
                reg >= body.n_params && operands.len() == scalar.arity() && earlier
            }
        };
        ensure(fits, || format!("step {reg} of the scalar body is malformed"))?;
    }
    let n_steps = body.insts.len();
    ensure(n_steps >= body.n_params && body.outputs.iter().all(|&reg| reg < n_steps), || {
        "the scalar body lacks a parameter or a result".into()
    })
}

/// Checks that a scalar primitive accepts operands of these element types.
fn check_scalar_dtypes(scalar: &Scalar, dtypes: &[DType]) -> Check {
    let same = |dtypes: &[DType]| dtypes.windows(2).all(|pair| pair[0] == pair[1]);
    let takes = match scalar {
        Scalar::Unary(op) => unary_takes(*op, dtypes[0]),
        Scalar::Binary(op) => same(dtypes) && binary_takes(*op, dtypes[0]),
        Scalar::Select => dtypes[0] == DType::Bool && same(&dtypes[1..]),
        Scalar::MulAdd => same(dtypes) && dtypes[0] != DType::Bool,
        Scalar::Cast(_) => true,
        Scalar::Foreign(_) => same(dtypes) && dtypes.iter().all(|dtype| dtype.is_float()),
    };
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    ensure(takes, || format!("`{}` does not take {}", scalar.name(), names.join(", ")))
}

fn unary_takes(op: Unary, dtype: DType) -> bool {
    match op {
        Unary::Not => !dtype.is_float(),
        Unary::Neg | Unary::Abs | Unary::Sign => dtype != DType::Bool,
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => dtype != DType::Bool,
        _ => dtype.is_float(),
    }
}

fn binary_takes(op: Binary, dtype: DType) -> bool {
    match op {
        Binary::And | Binary::Or | Binary::Xor => !dtype.is_float(),
        Binary::Shl | Binary::Shr => dtype.is_int(),
        Binary::Max | Binary::Min => true,
        op => op.is_comparison() || dtype != DType::Bool,
    }
}

/// Checks operations with one result that are neither calls nor maps and have no regions.
fn check_primitive(op: &NodeOp, inputs: &[Type], output: &Type) -> Check {
    match op {
        NodeOp::Input(InputKind::Step) => same_type(Type::scalar(DType::I32), output),
        NodeOp::Input(_) => Ok(()),
        NodeOp::Const(literal) => check_literal(literal, output.dtype),
        NodeOp::Scalar(scalar) => check_scalar(scalar, inputs, output),
        NodeOp::Iota { axis } => {
            check_axis(*axis, output)?;
            check_index(output)
        }
        NodeOp::Check(_) => {
            check_index(output)?;
            same_type(inputs[0].clone(), output)
        }
        NodeOp::View(view) => check_view(view, &inputs[0], output),
        NodeOp::Reduce { monoid, axes } => check_reduce(*monoid, axes, &inputs[0], output),
        NodeOp::Scan { monoid, axis } => {
            check_axis(*axis, output)?;
            check_monoid(*monoid, output.dtype)?;
            ensure(!monoid.is_index(), || format!("there is no scan by {}", monoid.name()))?;
            same_type(inputs[0].clone(), output)
        }
        NodeOp::Gather { axis, batch } => same_type(gathered(&inputs[0], &inputs[1], *axis, *batch)?, output),
        NodeOp::Scatter { axis, batch, .. } => {
            let updates = gathered(&inputs[0], &inputs[1], *axis, *batch)?;
            ensure(inputs[2] == updates, || format!("the updates are {}, not {updates}", inputs[2]))?;
            same_type(inputs[0].clone(), output)
        }
        NodeOp::Contract(contract) => check_contract(contract, &inputs[0], &inputs[1], output),
        NodeOp::Random { .. } => {
            for (what, ty) in ["step", "trip"].iter().zip(inputs) {
                ensure(*ty == Type::scalar(DType::I32), || format!("the {what} is {ty}"))?;
            }
            ensure(output.dtype == DType::U32, || format!("random bits are u32, not {}", output.dtype))
        }
        NodeOp::Call(_) | NodeOp::Map(_) | NodeOp::Loop { .. } | NodeOp::Cond => Ok(()),
    }
}

fn check_literal(literal: &Literal, dtype: DType) -> Check {
    let fits = literal.cast(dtype) == *literal;
    ensure(fits, || format!("{literal} is not a literal of {dtype}; {} is", literal.cast(dtype)))
}

fn check_scalar(scalar: &Scalar, inputs: &[Type], output: &Type) -> Check {
    let dtypes: Vec<DType> = inputs.iter().map(|ty| ty.dtype).collect();
    check_scalar_dtypes(scalar, &dtypes)?;
    for (i, input) in inputs.iter().enumerate() {
        let same = input.shape == output.shape;
        ensure(same, || format!("operand {i} is {input}, which is not of the result's shape"))?;
    }
    same_type(output.with_dtype(scalar.result(&dtypes)), output)
}

fn check_index(ty: &Type) -> Check {
    ensure(ty.dtype.is_int(), || format!("indices are integers, not {}", ty.dtype))
}

fn check_axis(axis: usize, ty: &Type) -> Check {
    ensure(axis < ty.rank(), || format!("{ty} has no axis {axis}"))
}

/// Checks that axes exist and ascend.
fn check_axes(axes: &[usize], ty: &Type) -> Check {
    axes.iter().try_for_each(|&axis| check_axis(axis, ty))?;
    ensure(axes.windows(2).all(|pair| pair[0] < pair[1]), || format!("axes {axes:?} do not ascend"))
}

fn check_view(view: &View, input: &Type, output: &Type) -> Check {
    ensure(input.dtype == output.dtype, || format!("a view of {input} cannot be {output}"))?;
    match view {
        View::Reshape => {
            ensure(size(input) == size(output), || format!("{input} and {output} differ in size"))
        }
        View::Permute { perm } => {
            let mut sorted = perm.clone();
            sorted.sort_unstable();
            let fits = sorted.into_iter().eq(0..input.rank());
            ensure(fits, || format!("{perm:?} does not permute the axes of {input}"))?;
            let shape = perm.iter().map(|&axis| input.shape[axis].clone()).collect();
            same_type(Type { dtype: input.dtype, shape }, output)
        }
        View::Broadcast { axes } => check_broadcast(axes, input, output),
        View::Slice { start, step } => check_slice(start, step, input, output),
        View::Pad { low, high, fill } => {
            check_literal(fill, input.dtype)?;
            check_pad(low, high, input, output)
        }
    }
}

/// The number of elements: the product of the known extents, and the names of the others.
fn size(ty: &Type) -> (usize, Vec<&Dim>) {
    let mut named: Vec<&Dim> = ty.shape.iter().filter(|dim| dim.fixed().is_none()).collect();
    named.sort_by_key(|dim| dim.to_string());
    (ty.shape.iter().filter_map(Dim::fixed).fold(1, usize::saturating_mul), named)
}

fn check_broadcast(axes: &[usize], input: &Type, output: &Type) -> Check {
    check_axes(axes, output)?;
    ensure(axes.len() == input.rank(), || format!("{input} has {} axes", input.rank()))?;
    for (dim, &axis) in input.shape.iter().zip(axes) {
        let fits = *dim == Dim::Fixed(1) || *dim == output.shape[axis];
        ensure(fits, || format!("{input} does not broadcast to {output} along axes {axes:?}"))?;
    }
    Ok(())
}

fn check_slice(start: &[usize], step: &[i64], input: &Type, output: &Type) -> Check {
    let rank = input.rank();
    let fits = start.len() == rank && step.len() == rank && output.rank() == rank;
    ensure(fits, || format!("a slice of {input} has {rank} starts, steps and extents"))?;
    for axis in 0..rank {
        let inside = match (&input.shape[axis], &output.shape[axis]) {
            (Dim::Fixed(from), Dim::Fixed(count)) => stays_inside(*from, *count, start[axis], step[axis]),
            (from, count) => from == count && start[axis] == 0 && step[axis] == 1,
        };
        ensure(inside, || format!("the slice leaves {input} on axis {axis}"))?;
    }
    Ok(())
}

fn stays_inside(from: usize, count: usize, start: usize, step: i64) -> bool {
    let last = start as i128 + (count as i128 - 1) * step as i128;
    count == 0 || (start < from && (0..from as i128).contains(&last))
}

fn check_pad(low: &[usize], high: &[usize], input: &Type, output: &Type) -> Check {
    let rank = input.rank();
    let fits = low.len() == rank && high.len() == rank && output.rank() == rank;
    ensure(fits, || format!("{input} is padded on {rank} axes"))?;
    let padded = (0..rank).map(|axis| match &input.shape[axis] {
        Dim::Fixed(n) => Dim::Fixed(n.saturating_add(low[axis]).saturating_add(high[axis])),
        named => named.clone(),
    });
    let expected = Type { dtype: input.dtype, shape: padded.collect() };
    let known =
        (0..rank).all(|axis| input.shape[axis].fixed().is_some() || (low[axis], high[axis]) == (0, 0));
    ensure(known, || format!("{input} is padded on an axis of unknown extent"))?;
    same_type(expected, output)
}

fn check_monoid(monoid: Monoid, dtype: DType) -> Check {
    let takes = dtype != DType::Bool || !matches!(monoid, Monoid::Sum | Monoid::Prod);
    ensure(takes, || format!("`{}` does not take {dtype}", monoid.name()))
}

fn check_reduce(monoid: Monoid, axes: &[usize], input: &Type, output: &Type) -> Check {
    check_axes(axes, input)?;
    check_monoid(monoid, input.dtype)?;
    let one_axis = axes.len() == 1 || !monoid.is_index();
    ensure(one_axis, || format!("`{}` goes along one axis, not {}", monoid.name(), axes.len()))?;
    let kept = (0..input.rank()).filter(|axis| !axes.contains(axis));
    let shape = kept.map(|axis| input.shape[axis].clone()).collect();
    let dtype = if monoid.is_index() { DType::I32 } else { input.dtype };
    same_type(Type { dtype, shape }, output)?;
    let is_empty = axes.iter().any(|&axis| input.shape[axis] == Dim::Fixed(0));
    let has_neutral = matches!(monoid, Monoid::Sum | Monoid::Prod) || output.shape.contains(&Dim::Fixed(0));
    ensure(!is_empty || has_neutral, || format!("`{}` of nothing has no value", monoid.name()))
}

/// The type of a gather's result and a scatter's updates: `[B…, P…, I…, Q…]`.
fn gathered(src: &Type, idx: &Type, axis: usize, batch: usize) -> Result<Type, TypeIssue> {
    check_axis(axis, src)?;
    check_index(idx)?;
    ensure(batch <= axis && batch <= idx.rank() && src.shape[..batch] == idx.shape[..batch], || {
        format!("{src} and {idx} do not go along in their first axes, batch={batch} before axis={axis}")
    })?;
    let shape = src.shape[..axis].iter().chain(&idx.shape[batch..]).chain(&src.shape[axis + 1..]);
    Ok(Type { dtype: src.dtype, shape: shape.cloned().collect() })
}

fn check_contract(contract: &Contract, lhs: &Type, rhs: &Type, output: &Type) -> Check {
    let pairs = || contract.batch.iter().chain(&contract.contracted);
    check_distinct(pairs().map(|pair| pair.0), lhs)?;
    check_distinct(pairs().map(|pair| pair.1), rhs)?;
    for &(l, r) in pairs() {
        let agree = lhs.shape[l] == rhs.shape[r];
        ensure(agree, || format!("axis {l} of {lhs} and axis {r} of {rhs} differ in extent"))?;
    }
    let dtype = lhs.dtype;
    ensure(dtype == rhs.dtype && dtype != DType::Bool, || format!("no contraction of {lhs} with {rhs}"))?;
    // Sums of small floats may keep the accumulator type.
    let dtype = if output.dtype == dtype.accumulator() { output.dtype } else { dtype };
    same_type(Type { dtype, shape: contract.shape(lhs, rhs) }, output)
}

fn check_distinct(axes: impl Iterator<Item = usize>, ty: &Type) -> Check {
    let mut known = HashSet::new();
    for axis in axes {
        check_axis(axis, ty)?;
        ensure(known.insert(axis), || format!("axis {axis} of {ty} is named twice"))?;
    }
    Ok(())
}

fn check_loop(region: &Graph, inputs: &[Type], outputs: &[Type]) -> Check {
    same_types(inputs, outputs)?;
    let iteration = [Type::scalar(DType::I32)];
    let expected: Vec<Type> = inputs.iter().chain(&iteration).cloned().collect();
    check_region(region, &expected, outputs)
}

fn check_branch(region: &Graph, inputs: &[Type], outputs: &[Type]) -> Check {
    let [condition, expected @ ..] = inputs else { return Err(TypeIssue::new("there is no condition")) };
    ensure(*condition == Type::scalar(DType::Bool), || format!("the condition is {condition}"))?;
    check_region(region, expected, outputs)
}

/// Checks the signature of a region. The step may be one of its inputs, since it is constant during a run of the
/// program.
fn check_region(region: &Graph, inputs: &[Type], outputs: &[Type]) -> Check {
    let name = &region.name;
    let mut given = vec![];
    for (id, kind) in region.inputs().filter(|(_, kind)| *kind != InputKind::Step) {
        ensure(kind == InputKind::Data, || format!("region `{name}` has a {} input", kind.name()))?;
        given.extend(region.node(id).outputs.iter().map(|output| output.ty.clone()));
    }
    ensure(region.state.is_empty(), || format!("region `{name}` carries state"))?;
    let (wanted, found) = (list(inputs), list(&given));
    ensure(inputs == given, || format!("region `{name}` is given {wanted}, but takes {found}"))?;
    let results = region.outputs.iter().filter(|(_, value)| exists(region, *value));
    let results: Vec<Type> = results.map(|(_, value)| region.ty(*value).clone()).collect();
    let (wanted, found) = (list(outputs), list(&results));
    ensure(outputs == results, || format!("region `{name}` yields {found}, not {wanted}"))
}

#[cfg(test)]
mod tests;
