//! `engine verify`: every kernel against the interpreter.

use std::collections::HashMap;
use std::sync::Arc;

use engine_core::compile::Compiled;
use engine_core::fuse::{Kernel, Use, fuse};
use engine_core::ir::{DType, Graph, InputKind, Node, NodeId, NodeOp, Requirement, Type, Value};
use engine_core::op::Registry;
use engine_core::oracle::{Oracle, OracleTensor, Precision};
use engine_core::plan::{ALIGNMENT, Buffer, Launch, Place, Plan, plan};
use engine_runtime::device::Device;
use engine_runtime::once::{Once, host_tensor};
use engine_runtime::philox::WordStream;
use engine_runtime::tensor::HostTensor;

use super::VerifyArgs;
use super::explain::compile_stages;
use super::open::open;
use super::output::{Failure, print};
use super::run::{compile_options_for, open_device};
use super::selftest::{Fault, tolerance};
use crate::Engine;

/// Data sets are taken to be no longer than this, as their rows are computed in double precision.
const MOST_ROWS: usize = 4096;
const SEED: u64 = 0x5eed;
const STEP: u32 = 3;

pub(super) fn verify(engine: Engine, args: &VerifyArgs) -> Result<(), Failure> {
    let Engine { mut registry, sources } = engine;
    let opened = open(&args.pipeline.graph, &mut registry)?;
    let device = open_device(&args.machine.place, true)?;
    let (options, data_dir) =
        (compile_options_for(&args.machine.compile, &*device), args.pipeline.data_dir());
    let stages = compile_stages(&opened, registry, &sources, data_dir, options, Some(MOST_ROWS))?;
    let (mut n_kernels, mut n_wrong) = (0, 0);
    for (name, compiled) in &stages {
        print(format!(
            "stage {name}: elements by how many units in the last place (ULP) they are off; many where terms cancel"
        ));
        print(format!("{:<28} {:<13} {}", "kernel", "kind", Histogram::head()));
        for kernel in &compiled.plan.kernels {
            n_kernels += 1;
            let checked = check(kernel, compiled, &device);
            print(format!("{:<28} {:<13} {}", kernel.name, kernel.kind(), checked.text()));
            n_wrong += usize::from(matches!(checked, Checked::Wrong { .. }));
        }
    }
    let device = device.info().name;
    match n_wrong {
        0 => print(format!("{n_kernels} kernels on {device}: all as the interpreter has them")),
        _ => return Err(Failure::graph(format!("{n_kernels} kernels on {device}: {n_wrong} are wrong"))),
    }
    Ok(())
}

/// What became of a kernel.
enum Checked {
    Right(Histogram),
    Wrong {
        why: String,
        smallest: Vec<String>,
    },
    /// The device cannot run it, or it has no result of its own.
    Skipped(String),
}

impl Checked {
    fn text(&self) -> String {
        match self {
            Checked::Right(histogram) => histogram.text(),
            Checked::Wrong { why, smallest } => {
                format!("WRONG: {why}; the smallest wrong fusion is {}", smallest.join(", "))
            }
            Checked::Skipped(why) => format!("skipped: {why}"),
        }
    }
}

fn check(kernel: &Kernel, compiled: &Compiled, device: &Arc<dyn Device>) -> Checked {
    let graph = &compiled.simplified;
    let is_input = |value: Value| matches!(graph.nodes[value.node].op, NodeOp::Input(_));
    let of = |usage: Use| kernel.operands.iter().filter(move |operand| operand.usage == usage);
    let results: Vec<Value> = of(Use::Write).map(|operand| operand.value).collect();
    if results.iter().any(|&value| is_input(value)) {
        return Checked::Skipped("it copies a state".to_string());
    }
    let sources: Vec<Value> = of(Use::Read).map(|operand| operand.value).collect();
    let part = part(graph, &sources, &results);
    let alone = Arc::new(plan_of(kernel, compiled));
    match compare(&part, alone, device) {
        Ok(histogram) => Checked::Right(histogram),
        Err(Fault::Unsupported(why)) => Checked::Skipped(why),
        Err(Fault::Wrong(why)) => {
            let smallest = shrink(graph, kernel, &sources, device);
            Checked::Wrong { why, smallest }
        }
    }
}

/// The nodes of the smallest part of a wrong kernel that is wrong by itself: those up to the first whose own value, fused
/// with what it is computed from, is not as it should be.
fn shrink(graph: &Graph, kernel: &Kernel, sources: &[Value], device: &Arc<dyn Device>) -> Vec<String> {
    let wrong = kernel.nodes.iter().position(|&node| {
        let part = part(graph, sources, &[Value::of(node)]);
        let fused = plan(&part, fuse(&part, true).kernels, 1);
        matches!(compare(&part, Arc::new(fused), device), Err(Fault::Wrong(_)))
    });
    let last = wrong.unwrap_or(kernel.nodes.len().saturating_sub(1));
    kernel.nodes[..=last].iter().map(|&node| format!("`{}`", graph.nodes[node].name())).collect()
}

/// The part of a graph between some values, which become inputs, and some results.
fn part(graph: &Graph, sources: &[Value], results: &[Value]) -> Graph {
    let is_given =
        |value: Value| sources.contains(&value) || matches!(graph.nodes[value.node].op, NodeOp::Input(_));
    let (mut is_computed, mut given) = (vec![false; graph.nodes.len()], vec![]);
    let mut stack: Vec<Value> = results.to_vec();
    while let Some(value) = stack.pop() {
        if is_given(value) {
            given.push(value);
        } else if !std::mem::replace(&mut is_computed[value.node], true) {
            stack.extend(&graph.nodes[value.node].inputs);
        }
    }
    let mut part = Graph::new("part");
    let mut moved: HashMap<Value, Value> = HashMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        for port in (0..node.outputs.len()).filter(|&port| given.contains(&Value { node: id, port })) {
            let kind =
                if node.op == NodeOp::Input(InputKind::Step) { InputKind::Step } else { InputKind::Data };
            let (op, outputs) = (NodeOp::Input(kind), vec![node.outputs[port].clone()]);
            let input = Node { op, outputs, inputs: vec![], regions: vec![], ..node.clone() };
            moved.insert(Value { node: id, port }, Value::of(part.push(input)));
        }
        if is_computed[id] {
            let inputs = node.inputs.iter().map(|input| moved[input]).collect();
            let computed = part.push(Node { inputs, ..node.clone() });
            for port in 0..node.outputs.len() {
                moved.entry(Value { node: id, port }).or_insert(Value { node: computed, port });
            }
        }
    }
    part.outputs = results.iter().map(|value| (graph.name_of(*value).clone(), moved[value])).collect();
    part
}

/// A plan of one launch of a kernel, with a buffer for each operand.
fn plan_of(kernel: &Kernel, compiled: &Compiled) -> Plan {
    let graph = &compiled.simplified;
    let mut end = 0;
    let mut buffers = vec![];
    for operand in &kernel.operands {
        let place = match (operand.usage, &graph.nodes[operand.value.node].op) {
            (Use::Read, NodeOp::Input(InputKind::Step)) => Place::Input(InputKind::Step),
            (Use::Read, _) => Place::Input(InputKind::Data),
            (Use::Write, _) => {
                let offset = end;
                end = (end + operand.ty.bytes()).next_multiple_of(ALIGNMENT);
                Place::Arena(offset)
            }
        };
        let name = graph.name_of(operand.value).clone();
        buffers.push(Buffer { name, ty: operand.ty.clone(), place, life: (0, 0) });
    }
    let written = (0..buffers.len()).filter(|&i| kernel.operands[i].usage == Use::Write);
    let workspace = end..end + kernel.workspace_bytes();
    let launch =
        Launch { kernel: 0, buffers: (0..buffers.len()).collect(), stream: 0, waits: vec![], workspace };
    Plan {
        name: kernel.name.clone(),
        outputs: written.map(|i| (buffers[i].name.clone(), i)).collect(),
        arena_bytes: launch.workspace.end,
        launches: vec![launch],
        kernels: vec![kernel.clone()],
        matmul: compiled.plan.matmul,
        n_streams: 1,
        check_sites: compiled.plan.check_sites.clone(),
        values: vec![],
        buffers,
    }
}

// ---- Running both.

/// Runs a part of a graph on operands of all sorts and counts how far the device is off.
fn compare(part: &Graph, plan: Arc<Plan>, device: &Arc<dyn Device>) -> Result<Histogram, Fault> {
    let registry = Registry::new();
    let n_summed = longest_sum(part) as f64;
    let mut histogram = Histogram::default();
    for sort in Sort::ALL {
        let inputs = operands(part, sort);
        let precision = if sort.is_tame() { Precision::F64 } else { Precision::Rounded };
        let oracle = Oracle { registry: &registry, precision };
        let exact = oracle.run(part, &inputs, SEED, i64::from(STEP));
        let exact = exact.map_err(|error| Fault::Unsupported(error.to_string()))?;
        let mut once = Once::new(device, Arc::clone(&plan), &inputs, SEED)?;
        once.run(STEP)?;
        let found = once.outputs()?;
        for (name, expected) in &exact.outputs {
            let Some(found) = found.get(name) else { continue };
            let allowed = tolerance(expected.dtype) * n_summed.sqrt().max(1.0);
            histogram
                .count(found, expected, allowed)
                .map_err(|why| Fault::Wrong(format!("`{name}`{why} ({})", sort.text())))?;
        }
    }
    Ok(histogram)
}

/// The longest extent that a contraction or a reduction of the part runs over.
fn longest_sum(part: &Graph) -> usize {
    let reduced = |node: &Node| {
        let of = |value: Value, axes: &[usize]| {
            let extents = part.ty(value).extents();
            axes.iter().map(|&axis| extents[axis]).product::<usize>()
        };
        match &node.op {
            NodeOp::Contract(contract) => {
                let axes: Vec<usize> = contract.contracted.iter().map(|&(axis, _)| axis).collect();
                of(node.inputs[0], &axes)
            }
            NodeOp::Reduce { axes, .. } => of(node.inputs[0], axes),
            NodeOp::Scan { axis, .. } => of(node.inputs[0], &[*axis]),
            _ => 1,
        }
    };
    part.nodes.iter().map(reduced).max().unwrap_or(1)
}

/// Kinds of operands.
#[derive(Clone, Copy)]
enum Sort {
    Signed,
    Positive,
    Zero,
    Large,
    Tiny,
    Special,
}

impl Sort {
    const ALL: [Sort; 6] = [Sort::Signed, Sort::Positive, Sort::Zero, Sort::Large, Sort::Tiny, Sort::Special];

    /// Whether nothing overflows on the way.
    fn is_tame(self) -> bool {
        matches!(self, Sort::Signed | Sort::Positive | Sort::Zero)
    }

    fn text(self) -> &'static str {
        match self {
            Sort::Signed => "numbers in -2..2",
            Sort::Positive => "numbers in 0..1",
            Sort::Zero => "zeros",
            Sort::Large => "numbers in -1000..1000",
            Sort::Tiny => "numbers below 1e-20",
            Sort::Special => "infinities and NaN among the numbers",
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

/// Operands for all inputs, as their types hold them; integers are indices that everything in the part can take.
fn operands(part: &Graph, sort: Sort) -> HashMap<String, OracleTensor> {
    let bound = smallest_axis(part).max(1) as u32;
    let divides = |node: &Node| node.op == NodeOp::Check(Requirement::Divisor);
    let lowest = u32::from(part.nodes.iter().any(divides));
    let mut stream = WordStream::new(SEED, sort as u32, 0);
    let inputs = part.inputs().filter(|(_, kind)| *kind != InputKind::Step);
    let operand = |(id, _): (NodeId, InputKind)| {
        let ty: &Type = part.ty(Value::of(id));
        let mut number = || match ty.dtype {
            DType::Bool => f64::from(stream.below(2)),
            dtype if dtype.is_float() => sort.number(&mut stream),
            _ => f64::from((lowest + stream.below(bound)).min(bound - 1)),
        };
        let numbers: Vec<f64> = (0..ty.numel()).map(|_| number()).collect();
        let tensor = OracleTensor::new(ty.dtype, &ty.extents(), &numbers);
        // What the device gets is rounded; the interpreter gets the same.
        let held = host_tensor(&tensor).map_or(numbers, |held| held.to_f64());
        (part.nodes[id].name().to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &held))
    };
    inputs.map(operand).collect()
}

/// The smallest extent that an index of the part selects from.
fn smallest_axis(part: &Graph) -> usize {
    let axis_of = |node: &Node| match node.op {
        NodeOp::Check(Requirement::Index { bound }) => Some(bound),
        NodeOp::Gather { axis, .. } | NodeOp::Scatter { axis, .. } => {
            Some(part.ty(node.inputs[0]).extents()[axis])
        }
        _ => None,
    };
    part.nodes.iter().filter_map(axis_of).min().unwrap_or(128).min(128)
}

// ---- Errors.

/// How many elements are off by how many units in the last place.
#[derive(Default)]
struct Histogram {
    counts: [usize; 6],
}

impl Histogram {
    const LIMITS: [f64; 5] = [0.0, 1.0, 4.0, 16.0, 256.0];

    fn head() -> String {
        let limits = Histogram::LIMITS.iter().skip(1).map(|limit| format!("≤ {limit}"));
        let heads: Vec<String> =
            ["0".to_string()].into_iter().chain(limits).chain(["more".to_string()]).collect();
        heads.iter().map(|head| format!("{head:>9}")).collect::<Vec<String>>().join(" ")
    }

    fn text(&self) -> String {
        let counts: Vec<String> = self.counts.iter().map(|count| format!("{count:>9}")).collect();
        counts.join(" ")
    }

    /// Counts all elements; fails with the first that is off by more than `allowed` of itself and of the largest one.
    fn count(&mut self, found: &HostTensor, expected: &OracleTensor, allowed: f64) -> Result<(), String> {
        let expected_numbers = expected.to_f64();
        let finite = expected_numbers.iter().filter(|x| x.is_finite());
        let largest = finite.fold(0.0f64, |largest, x| largest.max(x.abs()));
        for (i, (a, &b)) in found.to_f64().into_iter().zip(&expected_numbers).enumerate() {
            let error = (a - b).abs();
            let is_equal = a == b || (a.is_nan() && b.is_nan());
            // Near the end of the range, the order of operations decides whether there is an overflow.
            let overflows = !b.is_finite() || b.abs() > 1e30;
            // Below the normal numbers, roundings are as large as the numbers.
            let vanishes = error < smallest_normal(expected.dtype);
            let is_near = is_equal
                || (expected.dtype.is_float()
                    && (overflows || vanishes || error <= allowed * (b.abs() + largest)));
            if !is_near {
                return Err(format!("[{i}] is {a} instead of {b}"));
            }
            let units = if is_equal { 0.0 } else { error / unit_in_last_place(b, expected.dtype) };
            let bucket = Histogram::LIMITS.iter().position(|&limit| units <= limit);
            self.counts[bucket.unwrap_or(Histogram::LIMITS.len())] += 1;
        }
        Ok(())
    }
}

fn smallest_normal(dtype: DType) -> f64 {
    let exponent = match dtype {
        DType::F16 => -14,
        DType::F64 => -1022,
        _ => -126,
    };
    f64::powi(2.0, exponent)
}

fn unit_in_last_place(x: f64, dtype: DType) -> f64 {
    let (bits, smallest) = match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        _ => (52, -1022),
    };
    let exponent = if x == 0.0 { smallest } else { (x.abs().log2().floor() as i32).max(smallest) };
    f64::powi(2.0, exponent - bits)
}

#[cfg(test)]
mod tests;
