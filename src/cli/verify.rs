//! `engine verify`: every kernel against the interpreter, or every op and kernel of one device against those of others.

mod apart;
mod errors;
mod operands;
mod page;
mod parity;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use engine_core::compile::Compiled;
use engine_core::fuse::{Kernel, RowConsumer, Use, fuse};
use engine_core::ir::{Graph, InputKind, Node, NodeOp, Symbol, Value};
use engine_core::op::{Registry, Selected};
use engine_core::oracle::{Oracle, Precision};
use engine_core::plan::{self, ALIGNMENT, Buffer, Launch, Place, Plan, plan};
use engine_runtime::device::{Device, DeviceKind};
use engine_runtime::once::Once;

use super::VerifyArgs;
use super::device::compile_options_for;
use super::explain::compile_stages;
use super::open::open;
use super::output::{Failure, print};
use super::selftest::{Fault, tolerance};
use crate::Engine;
use errors::{Histogram, nearer};
use operands::{Sort, operands};

/// Data sets are taken to be no longer than this, as their rows are computed in double precision.
const MOST_ROWS: usize = 4096;
const SEED: u64 = 0x5eed;
const STEP: u32 = 3;

pub(super) fn verify(engine: Engine, args: &VerifyArgs) -> Result<(), Failure> {
    let devices = args.open_devices()?;
    match &devices[..] {
        [device] => args.graphs.iter().try_for_each(|graph| verify_graph(&engine, args, graph, device)),
        _ => parity::compare_devices(&engine, args, &devices),
    }
}

fn verify_graph(
    engine: &Engine,
    args: &VerifyArgs,
    graph: &Path,
    device: &Arc<dyn Device>,
) -> Result<(), Failure> {
    let mut registry = engine.registry.clone();
    let opened = open(&args.graph(graph), &mut registry)?;
    let options = compile_options_for(&args.compile, &**device);
    let data_dir = args.data_dir.as_deref();
    let stages = compile_stages(&opened, registry, &engine.sources, data_dir, options, Some(MOST_ROWS))?;
    let (mut n_kernels, mut n_wrong, mut n_skipped) = (0, 0, 0);
    for (name, compiled) in &stages {
        print(format!(
            "stage {name}: elements by how many units in the last place (ULP) they are off; many where terms cancel"
        ));
        print(format!("{:<28} {:<13} {}", "kernel", "kind", Histogram::head()));
        for kernel in &compiled.plan.kernels {
            n_kernels += 1;
            let checked = check(kernel, compiled, device)?;
            print(format!("{:<28} {:<13} {}", kernel.name, kernel.kind(), checked.text()));
            n_wrong += usize::from(matches!(checked, Checked::Wrong { .. }));
            n_skipped += usize::from(matches!(checked, Checked::Skipped(_)));
        }
    }
    let device = device.info().name;
    match n_wrong {
        0 => print(summary(n_kernels, n_skipped, &device)),
        _ => return Err(Failure::graph(format!("{n_kernels} kernels on {device}: {n_wrong} are wrong"))),
    }
    Ok(())
}

fn summary(n_kernels: usize, n_skipped: usize, device: &str) -> String {
    match n_skipped {
        0 => format!("{n_kernels} kernels on {device}: all as the interpreter has them"),
        _ => format!(
            "{n_kernels} kernels on {device}: {} as the interpreter has them, {n_skipped} skipped",
            n_kernels - n_skipped
        ),
    }
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

/// Fails only if nothing can be said of what the device computes.
fn check(kernel: &Kernel, compiled: &Compiled, device: &Arc<dyn Device>) -> Result<Checked, Failure> {
    let graph = &compiled.simplified;
    let Some(Edges { sources, results }) = edges_of(kernel, graph) else {
        return Ok(Checked::Skipped("it copies a state".to_string()));
    };
    let part = part(graph, &sources, &results);
    let alone = Arc::new(plan_of(kernel, compiled));
    match compare(&part, &compiled.typed, alone, device) {
        Ok(histogram) => Ok(Checked::Right(histogram)),
        Err(Fault::Unsupported(why)) => Ok(Checked::Skipped(why)),
        Err(Fault::Wrong(why)) => {
            let smallest = shrink(compiled, kernel, &sources, device);
            Ok(Checked::Wrong { why, smallest })
        }
        Err(Fault::Machine(error)) => Err(error.into()),
    }
}

/// What a kernel reads and writes.
struct Edges {
    sources: Vec<Value>,
    results: Vec<Value>,
}

/// None for a kernel that computes nothing: it copies a state.
fn edges_of(kernel: &Kernel, graph: &Graph) -> Option<Edges> {
    let of = |usage: Use| kernel.operands.iter().filter(move |operand| operand.usage == usage);
    let values = |usage: Use| of(usage).map(|operand| operand.value).collect::<Vec<Value>>();
    let is_input = |value: &Value| matches!(graph.nodes[value.node].op, NodeOp::Input(_));
    let (sources, results) = (values(Use::Read), values(Use::Write));
    (!results.iter().any(is_input)).then_some(Edges { sources, results })
}

/// The nodes of the smallest part of a wrong kernel that is wrong by itself: those up to the first whose own value, fused
/// with what it is computed from, is not as it should be.
fn shrink(compiled: &Compiled, kernel: &Kernel, sources: &[Value], device: &Arc<dyn Device>) -> Vec<String> {
    let graph = &compiled.simplified;
    let wrong = kernel.nodes.iter().position(|&node| {
        let part = part(graph, sources, &[Value::of(node)]);
        let fused = plan(&part, fuse(&part, true).kernels, 1);
        matches!(compare(&part, &compiled.typed, Arc::new(fused), device), Err(Fault::Wrong(_)))
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
        numerics: compiled.plan.numerics,
        n_streams: 1,
        check_sites: compiled.plan.check_sites.clone(),
        places: compiled.plan.places.clone(),
        values: vec![],
        buffers,
    }
}

// ---- Running both.

/// Runs a part of a graph on operands of all sorts and counts how far the device is off. One that may take subnormal
/// numbers for zeros may do so where it likes.
fn compare(
    part: &Graph,
    typed: &Graph,
    plan: Arc<Plan>,
    device: &Arc<dyn Device>,
) -> Result<Histogram, Fault> {
    let registry = Registry::new();
    let n_summed = longest_sum(part) as f64;
    let of_products = product_tolerance(part, &plan, &**device);
    let (part, selections) = (&with_sources(part), selections(part));
    let mut histogram = Histogram::default();
    for sort in Sort::ALL {
        let inputs = operands(part, typed, sort);
        let precision = if sort.is_tame() { Precision::F64 } else { Precision::Rounded };
        let oracle = Oracle { registry: &registry, precision };
        let exact = oracle.run(part, &inputs, SEED, i64::from(STEP));
        let exact = exact.map_err(|error| Fault::Unsupported(error.to_string()))?;
        let mut once = Once::new(device, Arc::clone(&plan), &inputs, SEED)?;
        once.run(STEP)?;
        let found = once.outputs()?;
        for (name, expected) in &exact.outputs {
            let Some(found) = found.get(name) else { continue };
            let source = selections.get(name).and_then(|_| exact.outputs.get(&source_name(name)));
            let allowed = tolerance(source.unwrap_or(expected).dtype) * n_summed.sqrt().max(1.0);
            let allowed = allowed.max(of_products);
            let mut counts = histogram.clone();
            let mut counted = match source {
                Some(source) => counts.count_places(found, expected, source, allowed),
                None => counts.count(found, expected, allowed),
            };
            if counted.is_err() && device.may_flush() && source.is_none() {
                let flushed = Oracle::flushed(&registry).run(part, &inputs, SEED, i64::from(STEP));
                let flushed = flushed.map_err(|error| Fault::Unsupported(error.to_string()))?;
                counts = histogram.clone();
                counted = counts.count(found, &nearer(found, expected, &flushed.outputs[name]), allowed);
            }
            histogram = counts;
            counted.map_err(|why| Fault::Wrong(format!("`{name}`{why} ({})", sort.text())))?;
        }
    }
    Ok(histogram)
}

/// How far results may be off because products are computed in TF32, if any are: its factors have ten bits.
fn product_tolerance(part: &Graph, plan: &Plan, device: &dyn Device) -> f64 {
    let is_rough = plan.matmul == plan::Precision::Tf32 && device.info().kind == DeviceKind::Cuda;
    let has_products = part.nodes.iter().any(|node| matches!(node.op, NodeOp::Contract(_)));
    if is_rough && has_products { 1e-3 } else { 0.0 }
}

/// Results that say where in the rows of a computed value something was found, by name, with that value.
fn selections(part: &Graph) -> HashMap<Symbol, Value> {
    let source = |result: Value| {
        let consumer = RowConsumer::of(part, result.node)?;
        let selected = consumer.selection()?.results;
        let source = part.nodes[result.node].inputs[0];
        let is_given = matches!(part.nodes[source.node].op, NodeOp::Input(_));
        let last = part.ty(source).rank().checked_sub(1)?;
        let is_along_rows = match &part.nodes[result.node].op {
            NodeOp::Reduce { axes, .. } => axes[..] == [last],
            _ => true,
        };
        (selected.get(result.port) == Some(&Selected::Indices) && !is_given && is_along_rows)
            .then_some(source)
    };
    part.outputs.iter().filter_map(|(name, value)| Some((name.clone(), source(*value)?))).collect()
}

/// The part with what was selected from among its results.
fn with_sources(part: &Graph) -> Graph {
    let mut part = part.clone();
    part.outputs.extend(selections(&part).into_iter().map(|(name, value)| (source_name(&name), value)));
    part
}

fn source_name(result: &Symbol) -> Symbol {
    format!("what {result} is of").into()
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

#[cfg(test)]
mod tests;
