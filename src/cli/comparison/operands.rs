//! Operands for comparisons: numbers of several sorts, and the operands of examples made larger.

use std::collections::HashMap;
use std::sync::Arc;

use engine_core::ir::{
    Attr, Attrs, Call, DType, Dim, Graph, InputKind, Level, Node, NodeId, NodeOp, Requirement, Symbol, Type,
    Value, verify,
};
use engine_core::oracle::{OracleError, OracleTensor};
use engine_core::testing::Case;
use engine_runtime::philox::WordStream;
use engine_runtime::plan_runner::host_tensor;

use super::indices::{Indices, divisor, source};
use super::part::SEED;

/// Operands by name.
pub(crate) type Operands = HashMap<String, OracleTensor>;

/// Sorts of operands.
#[derive(Clone, Copy)]
pub(crate) enum Sort {
    Signed,
    Positive,
    Zero,
    Large,
    Tiny,
    Special,
}

impl Sort {
    pub(crate) const ALL: [Sort; 6] =
        [Sort::Signed, Sort::Positive, Sort::Zero, Sort::Large, Sort::Tiny, Sort::Special];

    /// Whether intermediate values should not overflow.
    pub(crate) fn is_tame(self) -> bool {
        matches!(self, Sort::Signed | Sort::Positive | Sort::Zero)
    }

    /// Factors by which tame numbers may be scaled down.
    pub(crate) fn scales(self) -> &'static [f64] {
        if matches!(self, Sort::Signed | Sort::Positive) {
            &[1.0, 0.125, 1.0 / 64.0, 1.0 / 512.0]
        } else {
            &[1.0]
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Sort::Signed => "numbers in -2..2",
            Sort::Positive => "numbers in 0..1",
            Sort::Zero => "zeros",
            Sort::Large => "numbers in -1000..1000",
            Sort::Tiny => "numbers below 1e-20",
            Sort::Special => "infinities and NaN among the numbers",
        }
    }

    /// A number of the sort, within `range` if it is given.
    fn number_in(self, range: Option<[f64; 2]>, scale: f64, stream: &mut WordStream) -> f64 {
        match range {
            None => scale * self.number(stream),
            Some([low, f64::INFINITY]) => low + (self.number(stream) - low).abs(),
            Some([low, high]) => low + (high - low) * f64::from(stream.unit()),
        }
    }

    fn number(self, stream: &mut WordStream) -> f64 {
        let unit = f64::from(stream.unit());
        match self {
            Sort::Signed => 4.0 * unit - 2.0,
            Sort::Positive => unit,
            Sort::Zero => 0.0,
            Sort::Large => 2000.0 * unit - 1000.0,
            Sort::Tiny => (unit - 0.5) * 1e-20,
            Sort::Special => match stream.below(64) {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                _ => 4.0 * unit - 2.0,
            },
        }
    }
}

/// Operands for all inputs, rounded to their types. Integers are valid indices for every use in the part, and for all that
/// the part computes from them; they have both signs in a part without indices. No divisor is 0. Operands of an op of `typed`, the graph of the part, lie in the op's
/// ranges. All other numbers are multiplied by `scale`.
///
/// # Errors
/// If an index is out of range, or a divisor is 0, for every range of integers.
pub(crate) fn operands(part: &Graph, typed: &Graph, sort: Sort, scale: f64) -> Result<Operands, OracleError> {
    let ranges = ranges(typed);
    let indices = Indices::of(part);
    let mut bound =
        smallest_axis(part).map_or(LARGEST_INTEGER, |n| n.clamp(1, LARGEST_INTEGER as usize) as u32);
    loop {
        let drawn = drawn(part, &ranges, (sort, scale), bound);
        match indices.check(&drawn) {
            Err(_) if bound > 1 && indices.depend_on_integers() => bound = bound.div_ceil(4),
            outcome => return outcome.map(|()| drawn),
        }
    }
}

/// The bound of integers that are drawn.
const LARGEST_INTEGER: u32 = 128;

/// Operands with integers below `bound`.
fn drawn(
    part: &Graph,
    ranges: &HashMap<Symbol, [f64; 2]>,
    (sort, scale): (Sort, f64),
    bound: u32,
) -> Operands {
    let lowest = u32::from(divides(part));
    let has_signs = lowest == 0 && smallest_axis(part).is_none();
    let divisors = divisors(part);
    let mut stream = WordStream::new(SEED, sort as u32, 0);
    let inputs = part.inputs().filter(|(_, kind)| *kind != InputKind::Step);
    let operand = |(id, _): (NodeId, InputKind)| {
        let (ty, range) = (part.ty(Value::of(id)), ranges.get(part.nodes[id].name()).copied());
        let least = u32::from(divisors.contains(&id));
        let mut number = || match ty.dtype {
            DType::Bool => f64::from(stream.below(2)),
            dtype if dtype.is_float() => sort.number_in(range, scale, &mut stream),
            dtype if has_signs && dtype.int_range().is_some_and(|(low, _)| low < 0) => {
                f64::from(stream.below(2 * bound)) - f64::from(bound)
            }
            _ => f64::from((lowest + stream.below(bound)).min(bound - 1).max(least)),
        };
        let numbers: Vec<f64> = (0..ty.numel()).map(|_| number()).collect();
        (part.nodes[id].name().to_string(), held(ty, numbers))
    };
    inputs.map(operand).collect()
}

/// Whether the part divides integers, in its loops as well.
fn divides(part: &Graph) -> bool {
    part.nodes.iter().any(|node| divisor(part, node).is_some() || node.regions.iter().any(divides))
}

/// The nodes whose numbers are divisors.
fn divisors(part: &Graph) -> Vec<NodeId> {
    let values = part.nodes.iter().filter_map(|node| divisor(part, node));
    values.map(|value| source(part, value)).collect()
}

/// The numbers rounded to the type. A device gets rounded numbers, so the interpreter does as well.
fn held(ty: &Type, numbers: Vec<f64>) -> OracleTensor {
    let tensor = OracleTensor::new(ty.dtype, &ty.extents(), &numbers);
    let held = host_tensor(&tensor).map_or(numbers, |held| held.to_f64());
    OracleTensor::new(ty.dtype, &ty.extents(), &held)
}

/// The smallest extent that an index of the part selects from, in its loops as well; none without indices.
fn smallest_axis(part: &Graph) -> Option<usize> {
    let axis_of = |node: &Node| match node.op {
        NodeOp::Check(Requirement::Index { bound }) => Some(bound),
        NodeOp::Gather { axis, .. } | NodeOp::Scatter { axis, .. } => {
            Some(part.ty(node.inputs[0]).extents()[axis])
        }
        _ => node.regions.iter().filter_map(smallest_axis).min(),
    };
    part.nodes.iter().filter_map(axis_of).min()
}

// ---- Examples of ops, larger.

/// The maximum number of elements of a tensor in an enlarged example.
const MOST_ELEMENTS: usize = 1 << 16;

/// The call of an example on the longest operands that the type rules of its ops accept.
pub(crate) fn enlarged(graph: &Graph) -> Option<Graph> {
    [4096, 1024, 256, 64, 16, 4].into_iter().find_map(|factor| stretched(graph, factor))
}

/// The graph with all axes of its operands `factor` times as long. Axes of one element stay, since they broadcast.
fn stretched(graph: &Graph, factor: usize) -> Option<Graph> {
    let longer = |ty: &Type| {
        let extents = ty.extents().into_iter().map(|n| if n > 1 { n * factor } else { n });
        Type::new(ty.dtype, &extents.collect::<Vec<_>>())
    };
    let mut larger = graph.clone();
    for id in 0..larger.nodes.len() {
        let node = &larger.nodes[id];
        let types = match &node.op {
            NodeOp::Input(InputKind::Step) => vec![node.outputs[0].ty.clone()],
            NodeOp::Input(_) => vec![longer(&node.outputs[0].ty)],
            NodeOp::Call(call) => {
                let operands: Vec<Type> = node.inputs.iter().map(|&input| larger.ty(input).clone()).collect();
                let call = if operands.is_empty() { longer_call(call, factor) } else { call.clone() };
                let types = call.op.infer(&operands, &call.attrs).ok()?;
                larger.nodes[id].op = NodeOp::Call(call);
                types
            }
            _ => return None,
        };
        let is_small = |ty: &Type| {
            let n = ty.shape.iter().try_fold(1usize, |n, dim| n.checked_mul(dim.fixed()?));
            n.is_some_and(|n| n <= MOST_ELEMENTS)
        };
        if !types.iter().all(is_small) {
            return None;
        }
        larger.nodes[id].outputs.iter_mut().zip(types).for_each(|(output, ty)| output.ty = ty);
    }
    (larger != *graph && verify(&larger, Level::Bound).is_ok()).then_some(larger)
}

/// A call without operands has its extents from an attribute.
fn longer_call(call: &Call, factor: usize) -> Call {
    let longer = |dim: &Dim| dim.fixed().map_or(dim.clone(), |n| Dim::Fixed(n.max(1) * factor));
    let attrs = call.attrs.0.iter().map(|(name, attr)| match attr {
        Attr::Shape(dims) => (name.clone(), Attr::Shape(dims.iter().map(longer).collect())),
        _ => (name.clone(), attr.clone()),
    });
    Call { op: Arc::clone(&call.op), attrs: Attrs(attrs.collect()) }
}

/// Operands for an enlarged example. Floats are of a sort. Integers and truth values repeat those of the example, and
/// so do single elements, which are often bounded. Operands with a range lie in it.
pub(crate) fn enlarged_operands(case: &Case, larger: &Graph, sort: Sort) -> Operands {
    let mut stream = WordStream::new(SEED, sort as u32, 1);
    let inputs = larger.inputs().filter(|(_, kind)| *kind != InputKind::Step);
    let operand = |(id, _): (NodeId, InputKind)| {
        let (ty, name) = (larger.ty(Value::of(id)), larger.nodes[id].name().to_string());
        let small = case.inputs.get(&name).map(OracleTensor::to_f64).unwrap_or_default();
        let range = range(larger, Value::of(id));
        let mut number = |i: usize| match (ty.dtype.is_float() && ty.numel() > 1 || small.is_empty(), range) {
            (true, range) => sort.number_in(range, 1.0, &mut stream),
            (false, _) => small[i % small.len()],
        };
        let numbers = (0..ty.numel()).map(&mut number).collect();
        (name, held(ty, numbers))
    };
    inputs.map(operand).collect()
}

/// The ranges of the inputs of a graph, by name, from the ops that use them.
fn ranges(graph: &Graph) -> HashMap<Symbol, [f64; 2]> {
    let inputs = graph.inputs().map(|(id, _)| (graph.nodes[id].name().clone(), range(graph, Value::of(id))));
    inputs.filter_map(|(name, range)| Some((name, range?))).collect()
}

/// The range of a value from the ops that use it.
fn range(graph: &Graph, value: Value) -> Option<[f64; 2]> {
    graph.nodes.iter().find_map(|node| {
        let NodeOp::Call(call) = &node.op else { return None };
        let specs = node.inputs.iter().zip(&call.form().inputs);
        specs.filter(|(input, _)| **input == value).find_map(|(_, spec)| spec.range)
    })
}
