//! Graphs as text.

use super::written_name;
use crate::ir::{Call, Combine, Graph, Keep, Node, NodeOp, Output, Requirement, Value, View};
use std::fmt::{self, Display, Formatter};

/// Prints the whole graph, ending in a newline. A graph that the verifier refuses prints as well.
impl Display for Graph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_graph(f, self, 0)
    }
}

/// One node of a graph, as its line in the graph's text, without the regions.
pub(crate) struct NodeText<'g> {
    /// The graph that the node's operands are in.
    pub graph: &'g Graph,
    /// The node.
    pub node: &'g Node,
}

impl Display for NodeText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(no_fuse) = &self.node.no_fuse {
            write!(f, "[{}] ", written_name(no_fuse))?;
        }
        let binder = binder(&self.node.outputs);
        match &self.node.op {
            NodeOp::Input(kind) => write!(f, "{} {binder}", kind.name()),
            op => {
                let operands = self.node.inputs.iter().map(|&value| value_name(self.graph, value));
                let args: Vec<String> = operands.chain(settings(op)).collect();
                write!(f, "{binder} = {}({})", op_name(op), args.join(", "))?;
                if let NodeOp::Map(body) = op { write!(f, " {body}") } else { Ok(()) }
            }
        }
    }
}

fn write_graph(f: &mut Formatter<'_>, graph: &Graph, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    writeln!(f, "{indent}graph {} {{", written_name(&graph.name))?;
    for node in &graph.nodes {
        write_node(f, graph, node, depth + 1)?;
    }
    for link in &graph.state {
        let input = value_name(graph, Value::of(link.input));
        writeln!(f, "{indent}  state {input} = {}", value_name(graph, link.next))?;
    }
    for (name, value) in &graph.outputs {
        writeln!(f, "{indent}  output {} = {}", written_name(name), value_name(graph, *value))?;
    }
    writeln!(f, "{indent}}}")
}

fn write_node(f: &mut Formatter<'_>, graph: &Graph, node: &Node, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    write!(f, "{indent}{}", NodeText { graph, node })?;
    if node.regions.is_empty() {
        return writeln!(f);
    }
    writeln!(f, " {{")?;
    for region in &node.regions {
        write_graph(f, region, depth + 1)?;
    }
    writeln!(f, "{indent}}}")
}

fn binder(outputs: &[Output]) -> String {
    let typed: Vec<String> =
        outputs.iter().map(|output| format!("{}: {}", written_name(&output.name), output.ty)).collect();
    match typed.len() {
        1 => typed.concat(),
        _ => format!("({})", typed.join(", ")),
    }
}

/// The name of a value. A missing value prints as `?node.port`, for the verifier's messages.
fn value_name(graph: &Graph, value: Value) -> String {
    match graph.nodes.get(value.node).and_then(|node| node.outputs.get(value.port)) {
        Some(output) => written_name(&output.name).into_owned(),
        None => format!("?{}.{}", value.node, value.port),
    }
}

fn op_name(op: &NodeOp) -> String {
    match op {
        NodeOp::Input(kind) => kind.name().into(),
        NodeOp::Const(_) => ".const".into(),
        NodeOp::Call(call) => call.op.name().into(),
        NodeOp::Map(_) => "map".into(),
        NodeOp::Scalar(scalar) => format!(".{}", scalar.word()),
        NodeOp::Iota { .. } => ".iota".into(),
        NodeOp::Check(Requirement::Index { .. }) => ".check".into(),
        NodeOp::Check(Requirement::Divisor) => ".nonzero".into(),
        NodeOp::Check(Requirement::Capacity { .. }) => ".capacity".into(),
        NodeOp::Check(Requirement::Distance) => ".distance".into(),
        NodeOp::Check(Requirement::Condition) => ".condition".into(),
        NodeOp::View(View::Reshape) => ".reshape".into(),
        NodeOp::View(View::Permute { .. }) => ".permute".into(),
        NodeOp::View(View::Broadcast { .. }) => ".broadcast".into(),
        NodeOp::View(View::Slice { .. }) => ".slice".into(),
        NodeOp::View(View::Window { .. }) => ".window".into(),
        NodeOp::View(View::Pad { .. }) => ".pad".into(),
        NodeOp::Reduce { monoid, .. } => format!(".{}", monoid.name()),
        NodeOp::Scan { monoid, .. } => format!(".scan_{}", monoid.name()),
        NodeOp::Gather { .. } => ".gather".into(),
        NodeOp::Scatter { combine: Combine::Add, .. } => ".scatter_add".into(),
        NodeOp::Scatter { combine: Combine::Set, .. } => ".scatter_set".into(),
        NodeOp::Matmul(_) => ".matmul".into(),
        NodeOp::Random { .. } => ".random".into(),
        NodeOp::Loop { .. } => ".loop".into(),
        NodeOp::Cond => ".cond".into(),
    }
}

/// The text after the operands, in alphabetical order.
fn settings(op: &NodeOp) -> Vec<String> {
    match op {
        NodeOp::Const(literal) => vec![literal.to_string()],
        NodeOp::Call(call) => call_settings(call),
        NodeOp::Scalar(scalar) => scalar.setting().into_iter().collect(),
        NodeOp::Iota { axis } | NodeOp::Scan { axis, .. } => vec![format!("axis={axis}")],
        NodeOp::Check(Requirement::Index { bound }) => vec![format!("bound={bound}")],
        NodeOp::Check(Requirement::Capacity { room }) => vec![format!("room={room}")],
        NodeOp::View(view) => view_settings(view),
        NodeOp::Reduce { axes, .. } => vec![format!("axes={axes:?}")],
        NodeOp::Gather { axis, batch } | NodeOp::Scatter { axis, batch, .. } => {
            let batch = (*batch != 0).then(|| format!("batch={batch}"));
            [format!("axis={axis}")].into_iter().chain(batch).collect()
        }
        NodeOp::Matmul(spec) => {
            let batch = (!spec.batch.is_empty()).then(|| format!("batch={}", pairs(&spec.batch)));
            let precision = spec.precision.map(|precision| format!("precision={}", precision.name()));
            let contracted = format!("contracted={}", pairs(&spec.contracted));
            batch.into_iter().chain([contracted]).chain(precision).collect()
        }
        NodeOp::Random { stream } => vec![format!("stream={stream}")],
        NodeOp::Loop { trips, n_given, until, counted, reverse, keep } => {
            let flag = |name: &str, on: bool| on.then(|| format!("{name}=true"));
            let given = (*n_given != 0).then(|| format!("given={n_given}"));
            let keep = (*keep != Keep::All).then(|| format!("keep={}", keep.name()));
            let trips = Some(format!("trips={trips}"));
            let all = [
                flag("counted", *counted),
                given,
                keep,
                flag("reverse", *reverse),
                trips,
                flag("until", *until),
            ];
            all.into_iter().flatten().collect()
        }
        NodeOp::Check(Requirement::Divisor | Requirement::Distance | Requirement::Condition)
        | NodeOp::Input(_)
        | NodeOp::Map(_)
        | NodeOp::Cond => vec![],
    }
}

fn call_settings(call: &Call) -> Vec<String> {
    let is_default = |name: &str, value| {
        let spec = call.op.attrs().iter().find(|spec| spec.name == name);
        spec.is_some_and(|spec| spec.default.as_ref() == Some(value))
    };
    let given = call.attrs.0.iter().filter(|(name, value)| !is_default(name, value));
    given.map(|(name, value)| format!("{name}={value}")).collect()
}

fn view_settings(view: &View) -> Vec<String> {
    match view {
        View::Reshape => vec![],
        View::Permute { perm } => vec![format!("perm={perm:?}")],
        View::Broadcast { axes } => vec![format!("axes={axes:?}")],
        View::Slice { start, step } if *step == vec![1; start.len()] => vec![format!("start={start:?}")],
        View::Slice { start, step } => vec![format!("start={start:?}"), format!("step={step:?}")],
        View::Pad { low, high, fill } => {
            vec![format!("fill={fill}"), format!("high={high:?}"), format!("low={low:?}")]
        }
        View::Window { axis, step, dilation } => {
            vec![format!("axis={axis}"), format!("dilation={dilation}"), format!("step={step}")]
        }
    }
}

fn pairs(pairs: &[(usize, usize)]) -> String {
    let items: Vec<String> = pairs.iter().map(|(left, right)| format!("[{left}, {right}]")).collect();
    format!("[{}]", items.join(", "))
}
