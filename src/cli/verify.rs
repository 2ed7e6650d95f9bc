//! `engine verify`: compares every kernel with the interpreter, or all ops and kernels of one device with those of
//! others.

mod compare;
mod difference;
mod errors;
mod operands;
mod page;
mod parity;
mod part;
mod peer;

use std::path::Path;
use std::sync::Arc;

use engine_core::compile::Compiled;
use engine_core::fusion::{Kernel, Use, fuse};
use engine_core::ir::{InputKind, NodeOp, Value};
use engine_core::plan::{ALIGNMENT, Buffer, Launch, Place, Plan, plan};
use engine_runtime::device::Device;

use super::args::VerifyArgs;
use super::device::compile_options_for;
use super::explain::compile_stages;
use super::open::open;
use super::output::{Failure, print};
use super::selftest::Fault;
use crate::Engine;
use compare::compare;
use errors::Histogram;
use operands::Sort;
use part::{Edges, MOST_ROWS, edges_of, part};

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
    let stages = compile_stages(&opened, registry, &engine.sources, data_dir, options, Some(MOST_ROWS), &[])?;
    let (mut kernels, mut plans) = (Tally::default(), Tally::default());
    for (name, compiled) in &stages {
        print(format!(
            "stage {name}: elements by how many units in the last place (ULP) they are off; many where terms cancel"
        ));
        print(format!("{:<28} {:<13} {}", "kernel", "kind", Histogram::head()));
        for kernel in &compiled.plan.kernels {
            let checked = kernels.counted(check(kernel, compiled, device)?);
            print(format!("{:<28} {:<13} {}", kernel.name, kernel.kind(), checked.text()));
        }
        let checked = plans.counted(check_plan(compiled, device)?);
        print(format!("{:<28} {:<13} {}", "the whole plan", "plan", checked.text()));
    }
    let all = format!("{} kernels and {} plans on {}", kernels.n, plans.n, device.info().name);
    if kernels.n_wrong + plans.n_wrong > 0 {
        let (kernels, plans) = (kernels.n_wrong, plans.n_wrong);
        return Err(Failure::graph(format!("{all}: {kernels} kernels and {plans} plans are wrong")));
    }
    match kernels.n_skipped + plans.n_skipped {
        0 => print(format!("{all}: all as the interpreter has them")),
        n => print(format!("{all}: {n} skipped, all others as the interpreter has them")),
    }
    Ok(())
}

/// The number of checks.
#[derive(Default)]
struct Tally {
    n: usize,
    n_wrong: usize,
    n_skipped: usize,
}

impl Tally {
    fn counted(&mut self, checked: Checked) -> Checked {
        self.n += 1;
        self.n_wrong += usize::from(matches!(checked, Checked::Wrong { .. }));
        self.n_skipped += usize::from(matches!(checked, Checked::Skipped(_)));
        checked
    }
}

/// Runs a plan like a run, in place and with reused memory, and compares only its outputs and next states. A kernel by
/// itself has a buffer per value, so it cannot show that it destroys the data of another.
fn check_plan(compiled: &Compiled, device: &Arc<dyn Device>) -> Result<Checked, Failure> {
    let plan = Arc::new(compiled.plan.clone());
    let sorts = [Sort::Signed, Sort::Positive];
    match compare(&compiled.primitives, &compiled.typed, plan, device, &sorts) {
        Ok(histogram) => Ok(Checked::Right(histogram)),
        Err(Fault::Unsupported(why)) => Ok(Checked::Skipped(why)),
        Err(Fault::Wrong(why)) => Ok(Checked::Wrong { why, smallest: vec![] }),
        Err(Fault::Machine(error)) => Err(error.into()),
    }
}

/// The result of a check.
enum Checked {
    Right(Histogram),
    Wrong {
        why: String,
        smallest: Vec<String>,
    },
    /// The device does not support the kernel, or the kernel has no result of its own.
    Skipped(String),
}

impl Checked {
    fn text(&self) -> String {
        match self {
            Checked::Right(histogram) => histogram.text(),
            Checked::Wrong { why, smallest } if smallest.is_empty() => format!("WRONG: {why}"),
            Checked::Wrong { why, smallest } => {
                format!("WRONG: {why}; the smallest wrong fusion is {}", smallest.join(", "))
            }
            Checked::Skipped(why) => format!("skipped: {why}"),
        }
    }
}

/// Fails only if the computation of the device cannot be judged.
fn check(kernel: &Kernel, compiled: &Compiled, device: &Arc<dyn Device>) -> Result<Checked, Failure> {
    let graph = &compiled.simplified;
    let Some(Edges { sources, results }) = edges_of(kernel, graph) else {
        return Ok(Checked::Skipped("it copies a state".to_string()));
    };
    let part = part(graph, &sources, &results);
    let alone = Arc::new(plan_of(kernel, compiled));
    match compare(&part, &compiled.typed, alone, device, &Sort::ALL) {
        Ok(histogram) => Ok(Checked::Right(histogram)),
        Err(Fault::Unsupported(why)) => Ok(Checked::Skipped(why)),
        Err(Fault::Wrong(why)) => {
            let smallest = shrink(compiled, kernel, &sources, device);
            Ok(Checked::Wrong { why, smallest })
        }
        Err(Fault::Machine(error)) => Err(error.into()),
    }
}

/// The smallest wrong part of a wrong kernel. It consists of the nodes up to the first whose value is wrong when it is
/// fused with its sources.
fn shrink(compiled: &Compiled, kernel: &Kernel, sources: &[Value], device: &Arc<dyn Device>) -> Vec<String> {
    let graph = &compiled.simplified;
    let wrong = kernel.nodes.iter().position(|&node| {
        let part = part(graph, sources, &[Value::of(node)]);
        let fused = plan(&part, fuse(&part, true).kernels, 1);
        matches!(compare(&part, &compiled.typed, Arc::new(fused), device, &Sort::ALL), Err(Fault::Wrong(_)))
    });
    let last = wrong.unwrap_or(kernel.nodes.len().saturating_sub(1));
    kernel.nodes[..=last].iter().map(|&node| format!("`{}`", graph.nodes[node].name())).collect()
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
        assertions: compiled.plan.assertions.clone(),
        places: compiled.plan.places.clone(),
        values: vec![],
        buffers,
    }
}

#[cfg(test)]
mod tests;
