//! The verifier: the invariants of every graph, checked after each pass.
//!
//! At every level:
//! - names of values are unique in their graph, names of outputs among the outputs; a graph has at most one step;
//! - operands, outputs and next states refer to results that exist, operands to results of earlier nodes;
//! - a state link starts at a `param` or `state` input, at most once each, and keeps its type;
//! - each node has the number of operands, results and regions that its operation requires;
//! - calls have exactly the attributes of their form, of the form's kinds, and the types that the form's rule gives;
//! - scalar bodies use earlier steps only, and have as many parameters and results as their node has operands and
//!   results;
//! - the operands of a scalar body broadcast, and every step accepts their element types;
//! - types of primitives follow from those of their operands; axes exist and ascend, slices stay inside, constants and
//!   fills are literals of the element type's kind;
//! - regions have plain inputs (and possibly the step) and no state, and their signatures fit their node.
//!
//! From [`Level::Bound`] on, no extent is named. At [`Level::Primitive`], no call and no scalar body is left.

mod body;
mod check;
mod primitive;

use self::body::check_map;
use self::check::{Check, ensure, list, same_types};
use self::primitive::check_primitive;
use super::text::NodeText;
use super::{Call, DType, Graph, InputKind, Node, NodeOp, StateLink, Symbol, Type, TypeIssue, Value};
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
        &NodeOp::Loop { n_given, until, .. } => {
            let (initial, given) = inputs.split_at(inputs.len() - n_given);
            check_loop(&node.regions[0], (initial, given), &outputs, until)
        }
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
        NodeOp::Gather { .. } | NodeOp::Matmul(_) => Some(2),
        NodeOp::Scatter { .. } => Some(3),
        NodeOp::Scalar(scalar) => Some(scalar.arity()),
        NodeOp::Map(body) => Some(body.n_params),
        NodeOp::Loop { n_given, until, .. } => {
            let n_carried = node.outputs.len().checked_sub(usize::from(*until));
            Some(n_carried.unwrap_or(0).saturating_add(*n_given))
        }
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
        NodeOp::Call(call) => call.op.is_opaque(),
        NodeOp::Map(_) => false,
        _ => true,
    };
    ensure(lowered || level < Level::Primitive, || "this is not lowered to primitives".into())
}

fn check_call(call: &Call, inputs: &[Type], outputs: &[Type]) -> Check {
    same_types(&call.op.infer(inputs, &call.attrs)?, outputs)
}

fn check_loop(region: &Graph, (initial, given): (&[Type], &[Type]), outputs: &[Type], until: bool) -> Check {
    let (carried, n_trips) = outputs.split_at(initial.len());
    same_types(initial, carried)?;
    let number = [Type::scalar(DType::I32)];
    ensure(!until || *n_trips == number, || "the number of trips is not an i32[]".into())?;
    let expected: Vec<Type> = initial.iter().chain(&number).chain(given).cloned().collect();
    let ends = until.then(|| Type::scalar(DType::Bool));
    let results: Vec<Type> = initial.iter().cloned().chain(ends).collect();
    check_region(region, &expected, &results)
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
