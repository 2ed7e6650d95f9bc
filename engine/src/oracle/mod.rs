//! The oracle: a slow, plain interpreter of the unfused graph in double precision. All devices are tested against it.
//!
//! It knows only primitives: calls and bodies are lowered first. Nothing is updated in place: next states are returned
//! with the outputs.

mod arithmetic;
mod number;
mod philox;
mod scalar;
mod tensor;
#[cfg(test)]
mod tests;

pub use crate::op::reference::{Elements, OracleTensor};
pub use tensor::Precision;

use crate::ir::{
    Call, Combine, DType, Graph, InputKind, MatmulSpec, Monoid, Node, NodeId, NodeOp, Requirement, Symbol,
    Type, Value, View, dense_strides, written_path,
};
use crate::lower::primitives;
use crate::op::{KernelCall, Lower, Registry};
use arithmetic::{is_arithmetic, operand};
use indexmap::IndexMap;
use std::collections::HashMap;
use tensor::{Offsets, broadcast_strides};

/// Why a graph could not be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OracleError {
    /// An input is missing.
    #[error("input `{name}` is missing")]
    Missing {
        /// The input.
        name: Symbol,
    },
    /// The type of an input differs from its type in the graph.
    #[error("input `{name}` is {found}, the graph needs {expected}")]
    Mismatch {
        /// The input.
        name: Symbol,
        /// The type of the value.
        found: Type,
        /// The type in the graph.
        expected: Type,
    },
    /// A value violates a requirement: an index is out of range, say.
    #[error("`{}`: {}", written_path(.node), .requirement.fault(*.value, *.position))]
    Assertion {
        /// The node that checks the value.
        node: Symbol,
        /// Row-major number of the value in its tensor.
        position: u64,
        /// The value.
        value: i64,
        /// The violated requirement.
        requirement: Requirement,
    },
}

/// The results of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct OracleRun {
    /// Outputs by name, in the graph's order.
    pub outputs: IndexMap<Symbol, OracleTensor>,
    /// Next values of parameters and states by name, in the order of the links.
    pub state: IndexMap<Symbol, OracleTensor>,
}

/// A computed node.
pub struct Computed<'m> {
    /// The graph of primitives that contains the node.
    pub graph: &'m Graph,
    /// The node.
    pub node: NodeId,
    /// Its operands.
    pub operands: Vec<&'m OracleTensor>,
    /// Its results.
    pub results: &'m [OracleTensor],
    /// The trips of the loops around it, from the outermost loop on.
    pub trips: Vec<usize>,
}

/// The interpreter and its settings.
#[derive(Clone, Copy)]
pub struct Oracle<'r> {
    /// The ops that lowerings may call.
    pub registry: &'r Registry,
    /// Whether results are rounded to their types.
    pub precision: Precision,
}

impl<'r> Oracle<'r> {
    /// An interpreter without rounding.
    pub fn new(registry: &'r Registry) -> Oracle<'r> {
        Oracle { registry, precision: Precision::F64 }
    }

    /// An interpreter that rounds the result of every primitive to its type.
    pub fn rounded(registry: &'r Registry) -> Oracle<'r> {
        Oracle { registry, precision: Precision::Rounded }
    }

    /// An interpreter that rounds like [`rounded`](Self::rounded) and flushes subnormal numbers to zero, as WGSL allows
    /// devices to do ("Floating point evaluation").
    pub fn flushed(registry: &'r Registry) -> Oracle<'r> {
        Oracle { registry, precision: Precision::Flushed }
    }

    /// An interpreter that moves the results of arithmetic by a few units in the last place. `seed` determines the
    /// moves.
    pub fn perturbed(registry: &'r Registry, seed: u64) -> Oracle<'r> {
        Oracle { registry, precision: Precision::Perturbed(seed) }
    }

    /// Computes a bound graph on inputs by name. Omitted states are zero.
    ///
    /// # Errors
    /// If a data input or parameter is missing, an input has the wrong type, or an index is out of range.
    pub fn run(
        &self,
        graph: &Graph,
        inputs: &HashMap<String, OracleTensor>,
        seed: u64,
        step: i64,
    ) -> Result<OracleRun, OracleError> {
        self.watch(graph, inputs, seed, step, &mut |_| {})
    }

    /// Like [`run`](Self::run), and calls `see` for every node after its computation, in the order of the graph.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn watch(
        &self,
        graph: &Graph,
        inputs: &HashMap<String, OracleTensor>,
        seed: u64,
        step: i64,
        see: &mut dyn FnMut(&Computed<'_>),
    ) -> Result<OracleRun, OracleError> {
        let graph = primitives(graph, self.registry);
        let machine = self.computed(&graph, seed, see, &mut |node, kind| given(node, kind, inputs, step))?;
        let outputs =
            graph.outputs.iter().map(|(name, v)| (name.clone(), machine.value(*v).clone())).collect();
        let state = graph
            .state
            .iter()
            .map(|link| (graph.node(link.input).name().clone(), machine.value(link.next).clone()));
        Ok(OracleRun { outputs, state: state.collect() })
    }

    /// The values of all nodes of a graph of primitives.
    fn computed<'g>(
        &self,
        graph: &'g Graph,
        seed: u64,
        see: &mut dyn FnMut(&Computed<'_>),
        given: &mut dyn FnMut(&Node, InputKind) -> Result<OracleTensor, OracleError>,
    ) -> Result<Machine<'g>, OracleError> {
        let mut machine = Machine { graph, precision: self.precision, seed, values: vec![] };
        for (id, node) in graph.nodes.iter().enumerate() {
            let values = match &node.op {
                NodeOp::Input(kind) => vec![given(node, *kind)?],
                NodeOp::Call(call) => machine.compute_call(node, call),
                NodeOp::Loop { .. } => self.run_loop(node, &machine, see)?,
                _ => vec![machine.compute(node)?],
            };
            let held = |value: OracleTensor| match self.precision {
                Precision::Perturbed(seed) if is_arithmetic(&node.op) => {
                    let dtype = value.dtype;
                    value.perturbed(dtype, seed.wrapping_add(id as u64).wrapping_mul(0x2545_f491_4f6c_dd1d))
                }
                precision => value.rounded(precision),
            };
            machine.values.push(values.into_iter().map(held).collect());
            let operands = node.inputs.iter().map(|&input| machine.value(input)).collect();
            see(&Computed { graph, node: id, operands, results: &machine.values[id], trips: vec![] });
        }
        Ok(machine)
    }

    /// The results of a loop.
    fn run_loop(
        &self,
        node: &Node,
        machine: &Machine,
        see: &mut dyn FnMut(&Computed<'_>),
    ) -> Result<Vec<OracleTensor>, OracleError> {
        let &NodeOp::Loop { trips, n_given, until, .. } = &node.op else {
            crate::bug!("{:?} is no loop", node.op)
        };
        let operands: Vec<OracleTensor> =
            node.inputs.iter().map(|&input| machine.value(input).clone()).collect();
        let (initial, fixed) = operands.split_at(operands.len() - n_given);
        let (mut carried, region) = (initial.to_vec(), &node.regions[0]);
        let number = |trip: usize| OracleTensor::ints(DType::I32, &[], vec![trip as i64]);
        let mut n_trips = 0;
        while n_trips < trips {
            let mut args = carried.drain(..).chain([number(n_trips)]).chain(fixed.iter().cloned());
            let missing = || crate::bug!("the region of `{}` has more inputs than it is given", node.name());
            let mut see = |of_trip: &Computed<'_>| {
                let trips = [&[n_trips], &of_trip.trips[..]].concat();
                see(&Computed { operands: of_trip.operands.clone(), trips, ..*of_trip });
            };
            let mut given = |_: &Node, _| Ok(args.next().unwrap_or_else(missing));
            let inner = self.computed(region, machine.seed, &mut see, &mut given)?;
            drop(args);
            carried = region.outputs.iter().map(|(_, value)| inner.value(*value).clone()).collect();
            n_trips += 1;
            if until && carried.pop().is_some_and(|ends| ends.int(0) != 0) {
                break;
            }
        }
        carried.extend(until.then(|| number(n_trips)));
        Ok(carried)
    }
}

fn given(
    node: &Node,
    kind: InputKind,
    inputs: &HashMap<String, OracleTensor>,
    step: i64,
) -> Result<OracleTensor, OracleError> {
    let (name, expected) = (node.name(), &node.outputs[0].ty);
    match (inputs.get(&**name), kind) {
        (_, InputKind::Step) => Ok(OracleTensor::ints(DType::I32, &[], vec![step])),
        (Some(tensor), _) if tensor.ty() == *expected => Ok(tensor.clone()),
        (Some(tensor), _) => {
            Err(OracleError::Mismatch { name: name.clone(), found: tensor.ty(), expected: expected.clone() })
        }
        (None, InputKind::State) => Ok(OracleTensor::filled(expected, 0.0)),
        (None, _) => Err(OracleError::Missing { name: name.clone() }),
    }
}

struct Machine<'g> {
    graph: &'g Graph,
    precision: Precision,
    seed: u64,
    /// The results of each node.
    values: Vec<Vec<OracleTensor>>,
}

impl Machine<'_> {
    fn value(&self, value: Value) -> &OracleTensor {
        &self.values[value.node][value.port]
    }

    /// An opaque op has an oracle in its form.
    fn compute_call(&self, node: &Node, call: &Call) -> Vec<OracleTensor> {
        let Lower::Kernel(kernel) = &call.form().lower else {
            crate::bug!("`{}` of `{}` is not lowered", node.name(), self.graph.name)
        };
        let args: Vec<&OracleTensor> = node.inputs.iter().map(|&input| self.value(input)).collect();
        (kernel.oracle)(&KernelCall::new(self.graph, node, call), &args)
    }

    fn compute(&self, node: &Node) -> Result<OracleTensor, OracleError> {
        let ty = &node.outputs[0].ty;
        let values = node.inputs.iter().map(|&input| self.value(input)).enumerate();
        let operands: Vec<_> = values.map(|(i, value)| operand(&node.op, i, value, self.precision)).collect();
        let args: Vec<&OracleTensor> = operands.iter().map(|operand| &**operand).collect();
        Ok(match &node.op {
            NodeOp::Const(literal) => OracleTensor::of_literal(ty, *literal),
            NodeOp::Scalar(op) => scalar::apply(op, &args, ty, self.precision),
            NodeOp::Iota { axis } => iota(ty, *axis),
            NodeOp::Check(requirement) => {
                require(node.name(), args[0], *requirement)?;
                args[0].clone()
            }
            NodeOp::View(view) => viewed(view, args[0], ty),
            NodeOp::Reduce { monoid, axes } if monoid.is_index() => {
                arg_reduced(*monoid, axes[0], args[0], ty)
            }
            NodeOp::Reduce { monoid, axes } => reduced(*monoid, axes, args[0], ty),
            NodeOp::Scan { monoid, axis } => scanned(*monoid, *axis, args[0]),
            NodeOp::Gather { axis, batch } => gathered(node.name(), *axis, *batch, args[0], args[1], ty)?,
            NodeOp::Scatter { axis, batch, combine } => {
                scattered(node.name(), *axis, *batch, *combine, [args[0], args[1], args[2]])?
            }
            NodeOp::Matmul(spec) => contracted(spec, args[0], args[1], ty),
            NodeOp::Random { stream } => {
                let word = |i: usize| args.get(i).map_or(0, |arg| arg.int(0) as u32);
                let words = philox::words(self.seed, *stream, word(0), word(1), ty.numel());
                OracleTensor::ints(DType::U32, &ty.extents(), words.into_iter().map(i64::from).collect())
            }
            NodeOp::Input(_) | NodeOp::Call(_) | NodeOp::Map(_) | NodeOp::Loop { .. } | NodeOp::Cond => {
                crate::bug!("`{}` of `{}` is no primitive", node.name(), self.graph.name)
            }
        })
    }
}

fn iota(ty: &Type, axis: usize) -> OracleTensor {
    let extents = ty.extents();
    let stride = dense_strides(&extents)[axis];
    let coordinates = (0..ty.numel()).map(|i| ((i / stride) % extents[axis]) as i64).collect();
    OracleTensor::ints(ty.dtype, &extents, coordinates)
}

fn require(name: &Symbol, x: &OracleTensor, requirement: Requirement) -> Result<(), OracleError> {
    match (0..x.len()).find(|&i| !requirement.holds(x.int(i))) {
        None => Ok(()),
        Some(i) => {
            let (node, value) = (name.clone(), x.int(i));
            Err(OracleError::Assertion { node, position: i as u64, value, requirement })
        }
    }
}

fn in_range(name: &Symbol, idx: &OracleTensor, bound: usize) -> Result<(), OracleError> {
    require(name, idx, Requirement::Index { bound })
}

// ---- Views.

fn viewed(view: &View, x: &OracleTensor, ty: &Type) -> OracleTensor {
    let extents = ty.extents();
    let strides = strides_of(x);
    match view {
        View::Reshape => x.picked(&extents, 0..x.len()),
        View::Permute { perm } => {
            let strides: Vec<i64> = perm.iter().map(|&axis| strides[axis]).collect();
            x.picked(&extents, Offsets::new(&extents, 0, &strides))
        }
        View::Broadcast { axes } => {
            let strides = broadcast_strides(&x.extents, axes, extents.len());
            x.picked(&extents, Offsets::new(&extents, 0, &strides))
        }
        View::Slice { start, step } => {
            let base = start.iter().zip(&strides).map(|(&s, &stride)| s as i64 * stride).sum();
            let steps: Vec<i64> = step.iter().zip(&strides).map(|(&s, &stride)| s * stride).collect();
            x.picked(&extents, Offsets::new(&extents, base, &steps))
        }
        View::Window { axis, step, dilation } => {
            let mut strides = strides.clone();
            let parts = [step, dilation].map(|&step| step as i64 * strides[*axis]);
            strides.splice(axis..=axis, parts);
            x.picked(&extents, Offsets::new(&extents, 0, &strides))
        }
        View::Pad { low, fill, .. } => {
            let mut padded = OracleTensor::of_literal(ty, *fill);
            let outer = strides_of(&padded);
            let base = low.iter().zip(&outer).map(|(&l, &stride)| l as i64 * stride).sum();
            for (from, to) in Offsets::new(&x.extents, base, &outer).enumerate() {
                padded.copy_from(to, x, from);
            }
            padded
        }
    }
}

// ---- Reductions.

/// The offset in the reduced tensor of each element of the operand.
fn reduced_offsets(extents: &[usize], axes: &[usize]) -> Offsets {
    let kept: Vec<usize> = (0..extents.len()).filter(|axis| !axes.contains(axis)).collect();
    let kept_extents: Vec<usize> = kept.iter().map(|&axis| extents[axis]).collect();
    let mut strides = vec![0; extents.len()];
    for (&axis, stride) in kept.iter().zip(dense_strides(&kept_extents)) {
        strides[axis] = stride as i64;
    }
    Offsets::new(extents, 0, &strides)
}

fn reduced(monoid: Monoid, axes: &[usize], x: &OracleTensor, ty: &Type) -> OracleTensor {
    let mut result = OracleTensor::of_literal(ty, scalar::neutral(monoid, ty.dtype));
    for (from, to) in reduced_offsets(&x.extents, axes).enumerate() {
        result.combine(monoid, to, x, from);
    }
    result
}

fn arg_reduced(monoid: Monoid, axis: usize, x: &OracleTensor, ty: &Type) -> OracleTensor {
    let stride = dense_strides(&x.extents)[axis];
    let mut best: Vec<Option<usize>> = vec![None; ty.numel()];
    for (from, to) in reduced_offsets(&x.extents, &[axis]).enumerate() {
        if best[to].is_none_or(|known| scalar::beats(monoid, x, from, known)) {
            best[to] = Some(from);
        }
    }
    let coordinate = |from: Option<usize>| from.map_or(0, |from| ((from / stride) % x.extents[axis]) as i64);
    OracleTensor::ints(ty.dtype, &ty.extents(), best.into_iter().map(coordinate).collect())
}

fn scanned(monoid: Monoid, axis: usize, x: &OracleTensor) -> OracleTensor {
    let mut result = x.clone();
    let stride = dense_strides(&x.extents)[axis];
    for to in 0..x.len() {
        if !(to / stride).is_multiple_of(x.extents[axis]) {
            let before = result.clone_element(to - stride);
            result.combine_value(monoid, to, before);
        }
    }
    result
}

// ---- Indexing and matmuls.

/// The extents of a gather in groups: batch, before the axis, the axis, indices, after the axis.
struct Groups {
    batch: usize,
    outer: usize,
    axis: usize,
    n_indices: usize,
    inner: usize,
}

impl Groups {
    fn new(axis: usize, batch: usize, base: &OracleTensor, idx: &OracleTensor) -> Groups {
        let product = |extents: &[usize]| extents.iter().product();
        Groups {
            batch: product(&base.extents[..batch]),
            outer: product(&base.extents[batch..axis]),
            axis: base.extents[axis],
            n_indices: product(&idx.extents[batch..]),
            inner: product(&base.extents[axis + 1..]),
        }
    }

    /// Calls `visit` with an offset in the indexed tensor and one in the other tensor, in the order of the latter.
    fn pairs(&self, idx: &OracleTensor, mut visit: impl FnMut(usize, usize)) {
        let mut there = 0;
        for batch in 0..self.batch {
            for outer in 0..self.outer {
                for i in 0..self.n_indices {
                    let row = idx.int(batch * self.n_indices + i) as usize;
                    let here = ((batch * self.outer + outer) * self.axis + row) * self.inner;
                    for inner in 0..self.inner {
                        visit(here + inner, there);
                        there += 1;
                    }
                }
            }
        }
    }
}

fn gathered(
    name: &Symbol,
    axis: usize,
    batch: usize,
    src: &OracleTensor,
    idx: &OracleTensor,
    ty: &Type,
) -> Result<OracleTensor, OracleError> {
    in_range(name, idx, src.extents[axis])?;
    let mut result = OracleTensor::filled(ty, 0.0);
    Groups::new(axis, batch, src, idx).pairs(idx, |from, to| result.copy_from(to, src, from));
    Ok(result)
}

fn scattered(
    name: &Symbol,
    axis: usize,
    batch: usize,
    combine: Combine,
    [base, idx, updates]: [&OracleTensor; 3],
) -> Result<OracleTensor, OracleError> {
    in_range(name, idx, base.extents[axis])?;
    let mut result = base.clone();
    Groups::new(axis, batch, base, idx).pairs(idx, |to, from| match combine {
        Combine::Add => result.combine(Monoid::Sum, to, updates, from),
        Combine::Set => result.copy_from(to, updates, from),
    });
    Ok(result)
}

fn contracted(spec: &MatmulSpec, lhs: &OracleTensor, rhs: &OracleTensor, ty: &Type) -> OracleTensor {
    let (l, r) = (strides_of(lhs), strides_of(rhs));
    let zero = |axes: Vec<usize>| axes.into_iter().map(|_| 0i64).collect::<Vec<_>>();
    let (l_free, r_free) = (spec.lhs_free(l.len()), spec.rhs_free(r.len()));
    let batch = &spec.batch;
    let left: Vec<i64> = batch.iter().map(|&(a, _)| l[a]).chain(l_free.iter().map(|&a| l[a])).collect();
    let left: Vec<i64> = left.into_iter().chain(zero(r_free.clone())).collect();
    let right: Vec<i64> = batch.iter().map(|&(_, b)| r[b]).chain(zero(l_free)).collect();
    let right: Vec<i64> = right.into_iter().chain(r_free.iter().map(|&a| r[a])).collect();
    let summed: Vec<usize> = spec.contracted.iter().map(|&(a, _)| lhs.extents[a]).collect();
    let steps = |strides: Vec<i64>| Offsets::new(&summed, 0, &strides).collect::<Vec<usize>>();
    let left_steps = steps(spec.contracted.iter().map(|&(a, _)| l[a]).collect());
    let right_steps = steps(spec.contracted.iter().map(|&(_, b)| r[b]).collect());
    let extents = ty.extents();
    let starts = Offsets::new(&extents, 0, &left).zip(Offsets::new(&extents, 0, &right));
    let mut result = OracleTensor::filled(ty, 0.0);
    for (to, (a, b)) in starts.enumerate() {
        result.set_dot(to, (lhs, a, &left_steps), (rhs, b, &right_steps));
    }
    result
}

fn strides_of(x: &OracleTensor) -> Vec<i64> {
    dense_strides(&x.extents).into_iter().map(|stride| stride as i64).collect()
}
