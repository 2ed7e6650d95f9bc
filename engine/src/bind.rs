//! Binding: named extents become numbers, and loops of few trips are unrolled.

use crate::diag::Span;
use crate::ir::{
    Attr, DType, Dim, Graph, InputKind, Keep, Literal, Node, NodeOp, Output, StateLink, Symbol, Type, Value,
};
use crate::op::TypeIssue;

/// Why extents cannot be bound: the node, and the issue of its type rule.
#[derive(Clone, Debug, PartialEq)]
pub struct BindIssue {
    /// The node's name.
    pub node: Symbol,
    /// The issue.
    pub issue: TypeIssue,
}

/// Replaces named extents everywhere and infers all types anew.
///
/// # Errors
/// If a call's operands do not fit once the extents are known, or a name stays unbound.
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
            let types = call.op.infer(&inputs, &call.attrs).map_err(at_node)?;
            node.outputs.iter_mut().zip(types).for_each(|(output, ty)| output.ty = ty);
        }
        for region in &mut node.regions {
            *region = bind(region, dims)?;
        }
        if let Some(large) = node.outputs.iter().map(|output| &output.ty).find(|ty| !ty.is_holdable()) {
            let issue = TypeIssue::new(format!("{large} has more elements than a machine can hold"));
            return Err(BindIssue { node: node.name().clone(), issue: issue.help("the limit is 2^40") });
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
        if let Some(bound) = dim.bind(dims) {
            *dim = bound;
        }
    }
}

/// The most trips of a loop that is unrolled.
pub const MOST_UNROLLED: usize = 128;

/// Replaces loops of few trips by as many copies of their regions. Other loops stay. So do those that may end early, and
/// those whose gradients keep less.
pub fn unroll(graph: &Graph) -> Graph {
    unroll_most(graph, MOST_UNROLLED)
}

/// As [`unroll`], with another limit.
pub(crate) fn unroll_most(graph: &Graph, most: usize) -> Graph {
    let mut flat = Graph::new(graph.name.clone());
    let map = copy_into(&mut flat, graph, None, (None, most), "");
    connect(&mut flat, graph, &map);
    flat
}

/// Sets outputs and state of a graph whose nodes have been copied.
fn connect(flat: &mut Graph, graph: &Graph, map: &[Vec<Value>]) {
    let moved = |value: &Value| map[value.node][value.port];
    flat.outputs = graph.outputs.iter().map(|(name, value)| (name.clone(), moved(value))).collect();
    let link = |l: &StateLink| StateLink { input: map[l.input][0].node, next: moved(&l.next) };
    flat.state = graph.state.iter().map(link).collect();
}

/// Unrolls the loops in a region. Inside an unrolled loop, its random nodes also take the trip number.
fn unroll_region(region: &Graph, (trip, most): (Option<Trip>, usize), suffix: &str) -> Graph {
    let mut flat = Graph::new(region.name.clone());
    let inner = trip.map(|trip| {
        let name = format!("trips{suffix}");
        Trip { value: push_number(&mut flat, None, name, trip.number), ..trip }
    });
    let map = copy_into(&mut flat, region, None, (inner, most), suffix);
    connect(&mut flat, region, &map);
    flat
}

/// The trips of all enclosing loops for which a region is copied.
#[derive(Clone, Copy)]
struct Trip {
    /// The trip of the innermost loop, counted through all trips of the loops around it.
    number: usize,
    /// The number as an `i32[]`.
    value: Value,
}

/// Appends the nodes of `graph`. Its inputs become `args` if they are given, except the step. Names get `suffix`.
/// Random nodes take the trip number as their second operand.
fn copy_into(
    flat: &mut Graph,
    graph: &Graph,
    args: Option<&[Value]>,
    (trip, most): (Option<Trip>, usize),
    suffix: &str,
) -> Vec<Vec<Value>> {
    let mut map: Vec<Vec<Value>> = vec![];
    let mut args = args.map(|args| args.iter());
    for node in &graph.nodes {
        match (&node.op, &mut args) {
            (NodeOp::Input(InputKind::Step), _) => {
                map.push(vec![step_of(flat, node)]);
                continue;
            }
            (NodeOp::Input(_), Some(args)) => {
                map.push(args.next().copied().into_iter().collect());
                continue;
            }
            _ => {}
        }
        let mut inputs: Vec<Value> = node.inputs.iter().map(|input| map[input.node][input.port]).collect();
        if let NodeOp::Loop { trips, until: false, keep, .. } = node.op
            && trips <= most
            && keep == Keep::All
        {
            map.push(unroll_loop(flat, node, inputs, (trips, trip, most), suffix));
            continue;
        }
        if let (NodeOp::Random { .. }, 1, Some(trip)) = (&node.op, inputs.len(), trip) {
            inputs.push(trip.value);
        }
        let rename = |output: &Output| Output {
            name: format!("{}{suffix}", output.name).into(),
            ty: output.ty.clone(),
        };
        let outputs: Vec<Output> = node.outputs.iter().map(rename).collect();
        let n_outputs = outputs.len();
        let no_fuse = node.no_fuse.as_ref().map(|no_fuse| format!("{no_fuse}{suffix}").into());
        let regions = node.regions.iter().map(|region| unroll_region(region, (trip, most), suffix)).collect();
        let copy = Node { op: node.op.clone(), inputs, outputs, regions, span: node.span, no_fuse };
        let id = flat.push(copy);
        map.push((0..n_outputs).map(|port| Value { node: id, port }).collect());
    }
    map
}

/// The step of the whole graph, shared by all regions.
fn step_of(flat: &mut Graph, node: &Node) -> Value {
    let known = flat.inputs().find(|(_, kind)| *kind == InputKind::Step).map(|(id, _)| id);
    Value::of(known.unwrap_or_else(|| flat.push(node.clone())))
}

fn unroll_loop(
    flat: &mut Graph,
    node: &Node,
    mut carried: Vec<Value>,
    (trips, outer, most): (usize, Option<Trip>, usize),
    suffix: &str,
) -> Vec<Value> {
    let given = carried.split_off(node.outputs.len());
    let is_reverse = matches!(node.op, NodeOp::Loop { reverse: true, .. });
    for trip in 0..trips {
        let trip = if is_reverse { trips - 1 - trip } else { trip };
        let suffix = format!("{suffix}.{}.{trip}", node.name());
        let iteration = push_number(flat, node.span, format!("trip{suffix}"), trip);
        let number = outer.map_or(trip, |outer| outer.number * trips + trip);
        let value = match outer {
            Some(_) => push_number(flat, node.span, format!("trips{suffix}"), number),
            None => iteration,
        };
        let args: Vec<Value> = carried.iter().copied().chain([iteration]).chain(given.clone()).collect();
        let region = &node.regions[0];
        let map = copy_into(flat, region, Some(&args), (Some(Trip { number, value }), most), &suffix);
        carried = region.outputs.iter().map(|(_, value)| map[value.node][value.port]).collect();
    }
    carried
}

fn push_number(flat: &mut Graph, span: Option<Span>, name: String, number: usize) -> Value {
    let op = NodeOp::Const(Literal::Int(number as i64));
    let output = Output { name: name.into(), ty: Type::scalar(DType::I32) };
    let outputs = vec![output];
    Value::of(flat.push(Node { op, inputs: vec![], outputs, regions: vec![], span, no_fuse: None }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::ir::{Level, parse, verify};
    use crate::op::Registry;
    use crate::oracle::{Oracle, OracleTensor};
    use expect_test::expect;
    use std::collections::HashMap;

    fn read(text: &str) -> Graph {
        parse(text, &Registry::new()).unwrap()
    }

    #[test]
    fn named_extents_become_numbers_in_regions_too() {
        let graph = read(
            "graph g {
               input x: f32[B, 3]
               y: f32[B, 3] = .loop(x, trips=2) {
                 graph body {
                   input a: f32[B, 3]
                   input i: i32[]
                   b: f32[B, 3] = .neg(a)
                   output b = b
                 }
               }
               output y = y
             }",
        );
        let bound = bind(&graph, &[("B".into(), 4)]).unwrap();
        assert_eq!(verify(&bound, Level::Bound), Ok(()));
        assert_eq!(bound.to_string(), graph.to_string().replace("[B, 3]", "[4, 3]"));
    }

    #[test]
    fn an_open_extent_is_named() {
        let graph = read("graph g {\n input x: f32[B]\n y: f32[B] = .neg(x)\n output y = y\n}");
        let issue = bind(&graph, &[("C".into(), 4)]).unwrap_err();
        assert_eq!((&*issue.node, &*issue.issue.message), ("x", "the extent `B` has no value"));
    }

    /// Three trips of a ← 2·a + i, and the sum of fresh uniform bits of each trip.
    const LOOP: &str = "
        graph g {
          input x: f32[2]
          step step: i32[]
          first: u32[2] = .const(0)
          (y: f32[2], bits: u32[2]) = .loop(x, first, trips=3) {
            graph body {
              input a: f32[2]
              input sum: u32[2]
              input i: i32[]
              step step: i32[]
              r: u32[2] = .random(step, stream=5)
              next: u32[2] = .xor(sum, r)
              b: f32[2] = map(a, i) |a, b| a * 2.0 + cast(b, dtype=f32)
              output b = b
              output next = next
            }
          }
          output y = y
          output bits = bits
        }";

    #[test]
    fn a_loop_is_as_many_copies_of_its_region() {
        let graph = read(LOOP);
        assert_eq!(verify(&graph, Level::Bound), Ok(()));
        let flat = unroll(&graph);
        assert_eq!(verify(&flat, Level::Bound), Ok(()));
        expect![[r#"
            graph g {
              input x: f32[2]
              step step: i32[]
              first: u32[2] = .const(0)
              trip.y.0: i32[] = .const(0)
              r.y.0: u32[2] = .random(step, trip.y.0, stream=5)
              next.y.0: u32[2] = .xor(first, r.y.0)
              b.y.0: f32[2] = map(x, trip.y.0) |a, b| a * 2.0 + cast(b, dtype=f32)
              trip.y.1: i32[] = .const(1)
              r.y.1: u32[2] = .random(step, trip.y.1, stream=5)
              next.y.1: u32[2] = .xor(next.y.0, r.y.1)
              b.y.1: f32[2] = map(b.y.0, trip.y.1) |a, b| a * 2.0 + cast(b, dtype=f32)
              trip.y.2: i32[] = .const(2)
              r.y.2: u32[2] = .random(step, trip.y.2, stream=5)
              next.y.2: u32[2] = .xor(next.y.1, r.y.2)
              b.y.2: f32[2] = map(b.y.1, trip.y.2) |a, b| a * 2.0 + cast(b, dtype=f32)
              output y = b.y.2
              output bits = next.y.2
            }
        "#]]
        .assert_eq(&flat.to_string());
        let registry = Registry::new();
        let inputs = HashMap::from([("x".into(), OracleTensor::new(DType::F32, &[2], &[1.0, 10.0]))]);
        let run = Oracle::new(&registry).run(&graph, &inputs, 9, 4).unwrap();
        // ((1·2 + 0)·2 + 1)·2 + 2
        assert_eq!(run.outputs["y"].to_f64(), [12.0, 84.0]);
    }

    #[test]
    fn conditions_in_loops_draw_anew_in_every_trip_and_have_no_loops() {
        let graph = read(
            "graph g {
               input c: bool[]
               sum: u32[1] = .const(0)
               bits: u32[1] = .loop(sum, trips=2) {
                 graph body {
                   input a: u32[1]
                   input i: i32[]
                   t: bool[] = .const(true)
                   b: u32[1] = .cond(t, a) {
                     graph yes {
                       step step: i32[]
                       input d: u32[1]
                       e: u32[1] = .random(step, stream=5)
                       f: u32[1] = .loop(e, trips=1) {
                         graph once {
                           input h: u32[1]
                           input j: i32[]
                           k: u32[1] = .xor(h, h)
                           output k = k
                         }
                       }
                       g: u32[1] = .add(e, f)
                       output g = g
                     }
                     graph no {
                       input d: u32[1]
                       output d = d
                     }
                   }
                   output b = b
                 }
               }
               output bits = bits
             }",
        );
        assert_eq!(verify(&graph, Level::Bound), Ok(()));
        let flat = unroll(&graph);
        assert_eq!(verify(&flat, Level::Bound), Ok(()));
        let conditions: Vec<&Node> = flat.nodes.iter().filter(|node| node.op == NodeOp::Cond).collect();
        let trip = |node: &&Node| {
            let region = &node.regions[0];
            let draw = region.nodes.iter().find(|node| matches!(node.op, NodeOp::Random { .. })).unwrap();
            region.node(draw.inputs[1].node).op.clone()
        };
        let trips: Vec<NodeOp> = conditions.iter().map(trip).collect();
        assert_eq!(trips, [0, 1].map(|i| NodeOp::Const(Literal::Int(i))));
        let has_loop = |node: &Node| matches!(node.op, NodeOp::Loop { .. });
        assert!(!conditions.iter().any(|node| node.regions[0].nodes.iter().any(has_loop)));
    }

    #[test]
    fn nested_loops_draw_anew_in_every_trip() {
        let graph = read(
            "graph g {
               sum: u32[1] = .const(0)
               bits: u32[1] = .loop(sum, trips=2) {
                 graph outer {
                   input a: u32[1]
                   input i: i32[]
                   b: u32[1] = .loop(a, trips=3) {
                     graph inner {
                       input c: u32[1]
                       input j: i32[]
                       step step: i32[]
                       d: u32[1] = .random(step, stream=5)
                       output d = d
                     }
                   }
                   output b = b
                 }
               }
               output bits = bits
             }",
        );
        let flat = unroll(&graph);
        assert_eq!(verify(&flat, Level::Bound), Ok(()));
        let trip = |node: &Node| match (&node.op, &node.inputs[..]) {
            (NodeOp::Random { .. }, [_, trip]) => Some(flat.node(trip.node).op.clone()),
            _ => None,
        };
        let trips: Vec<NodeOp> = flat.nodes.iter().filter_map(trip).collect();
        let expected: Vec<NodeOp> = (0..6).map(|i| NodeOp::Const(Literal::Int(i))).collect();
        assert_eq!(trips, expected);
    }
}
