//! Binding: named extents become numbers, loops of fixed trip count become straight lines.

use crate::ir::{Attr, Dim, Graph, Literal, Node, NodeOp, Output, StateLink, Symbol, Type, Value};
use crate::op::TypeIssue;

/// Why extents cannot be bound: at which node, and what its type rule says.
#[derive(Clone, Debug, PartialEq)]
pub struct BindIssue {
    /// The node's name.
    pub node: Symbol,
    /// What does not fit.
    pub issue: TypeIssue,
}

/// Replaces named extents everywhere and infers all types anew.
///
/// # Errors
/// If a call's operands do not fit once the numbers are known, or a name is left open.
pub fn bind(graph: &Graph, dims: &[(Symbol, usize)]) -> Result<Graph, BindIssue> {
    let mut bound = graph.clone();
    for id in 0..bound.nodes.len() {
        let mut node = bound.nodes[id].clone();
        for output in &mut node.outputs {
            bind_shape(&mut output.ty.shape, dims);
        }
        if let NodeOp::Call(call) = &mut node.op {
            for attr in call.attrs.0.values_mut() {
                if let Attr::Shape(shape) = attr {
                    bind_shape(shape, dims);
                }
            }
            let inputs: Vec<Type> = node.inputs.iter().map(|&input| bound.ty(input).clone()).collect();
            let at_node = |issue| BindIssue { node: node.outputs[0].name.clone(), issue };
            let types = call.form.infer(&inputs, &call.attrs).map_err(at_node)?;
            node.outputs.iter_mut().zip(types).for_each(|(output, ty)| output.ty = ty);
        }
        for region in &mut node.regions {
            *region = bind(region, dims)?;
        }
        if let Some(open) =
            node.outputs.iter().flat_map(|output| &output.ty.shape).find(|dim| dim.fixed().is_none())
        {
            let issue = TypeIssue::new(format!("the extent `{open}` has no value"))
                .help("a stage binds it by `batch` or `dims`, the pipeline by `dims`");
            return Err(BindIssue { node: node.name().clone(), issue });
        }
        bound.nodes[id] = node;
    }
    Ok(bound)
}

fn bind_shape(shape: &mut [Dim], dims: &[(Symbol, usize)]) {
    for dim in shape {
        if let Dim::Named(name) = dim
            && let Some((_, extent)) = dims.iter().find(|(known, _)| known == name)
        {
            *dim = Dim::Fixed(*extent);
        }
    }
}

/// Replaces every `Loop` by as many copies of its region as it has trips.
pub fn unroll(graph: &Graph) -> Graph {
    let mut flat = Graph::new(graph.name.clone());
    let map = copy_into(&mut flat, graph, None, "");
    let moved = |value: &Value| map[value.node][value.port];
    flat.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
    let link = |l: &StateLink| StateLink { input: map[l.input][0].node, next: moved(&l.next) };
    flat.state = graph.state.iter().map(link).collect();
    flat
}

/// Appends the nodes of `graph`; its inputs become `args` if given. Names get `suffix`.
fn copy_into(flat: &mut Graph, graph: &Graph, args: Option<&[Value]>, suffix: &str) -> Vec<Vec<Value>> {
    let mut map: Vec<Vec<Value>> = vec![];
    let mut args = args.map(|args| args.iter());
    let iteration = args.as_ref().and_then(|args| args.clone().next_back().copied());
    for node in &graph.nodes {
        if let (NodeOp::Input(_), Some(args)) = (&node.op, &mut args) {
            map.push(args.next().copied().into_iter().collect());
            continue;
        }
        let mut inputs: Vec<Value> = node.inputs.iter().map(|input| map[input.node][input.port]).collect();
        if let NodeOp::Loop { trips } = node.op {
            map.push(unroll_loop(flat, node, inputs, trips, suffix));
            continue;
        }
        if let (NodeOp::Random { .. }, 1, Some(iteration)) = (&node.op, inputs.len(), iteration) {
            inputs.push(iteration);
        }
        let rename = |output: &Output| Output {
            name: format!("{}{suffix}", output.name).into(),
            ty: output.ty.clone(),
        };
        let outputs: Vec<Output> = node.outputs.iter().map(rename).collect();
        let n_outputs = outputs.len();
        let copy = Node { inputs, outputs, ..node.clone() };
        let id = flat.push(copy);
        map.push((0..n_outputs).map(|port| Value { node: id, port }).collect());
    }
    map
}

fn unroll_loop(flat: &mut Graph, node: &Node, init: Vec<Value>, trips: usize, suffix: &str) -> Vec<Value> {
    let mut carried = init;
    for trip in 0..trips {
        let suffix = format!("{suffix}.{}.{trip}", node.name());
        let ty = Type::scalar(crate::ir::DType::I32);
        let output = Output { name: format!("trip{suffix}").into(), ty };
        let op = NodeOp::Const(Literal::Int(trip as i64));
        let iteration =
            flat.push(Node { op, inputs: vec![], outputs: vec![output], regions: vec![], span: node.span });
        let args: Vec<Value> = carried.iter().copied().chain([Value::of(iteration)]).collect();
        let region = &node.regions[0];
        let map = copy_into(flat, region, Some(&args), &suffix);
        carried = region.outputs.iter().map(|(_, value)| map[value.node][value.port]).collect();
    }
    carried
}
