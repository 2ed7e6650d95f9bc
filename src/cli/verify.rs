//! `engine verify`: compares every kernel with the interpreter, or all ops and kernels of one device with those of
//! others.

mod difference;
mod errors;
mod oracle;
mod page;
mod parity;
mod stages;

use std::path::Path;
use std::sync::Arc;

use engine_core::compile::Compiled;
use engine_core::fusion::{Kernel, Use, fuse};
use engine_core::ir::{InputKind, NodeOp, Value};
use engine_core::plan::{ALIGNMENT, Buffer, Launch, Place, Plan, plan};
use engine_runtime::device::Device;

use super::args::VerifyArgs;
use super::comparison::operands::Sort;
use super::comparison::part::{edges_of, part};
use super::comparison::{Fault, Tally};
use super::device::compile_options_for;
use super::output::{Failure, print};
use crate::Engine;
use errors::Histogram;
use oracle::compare;
use stages::stages_of;

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
    let (stages, _) = stages_of(engine, args, graph, compile_options_for(&args.compile, &**device))?;
    let (mut kernels, mut plans) = (Tally::default(), Tally::default());
    let row = |tally: &mut Tally, name: &str, kind: &str, outcome: Result<Histogram, Fault>| {
        let text = tally.count(name, outcome, |histogram| histogram.text())?;
        print(format!("{name:<28} {kind:<13} {text}"));
        Ok::<(), Failure>(())
    };
    for (name, compiled) in &stages {
        print(format!(
            "stage {name}: elements by how many units in the last place (ULP) they are off; many where terms cancel"
        ));
        print(format!("{:<28} {:<13} {}", "kernel", "kind", Histogram::head()));
        for (kernel, compiled) in compiled.all_kernels() {
            row(&mut kernels, &kernel.name, kernel.kind(), check(kernel, compiled, device))?;
        }
        row(&mut plans, "the whole plan", "plan", check_plan(compiled, device))?;
    }
    let all = format!("{} kernels and {} plans on {}", kernels.n, plans.n, device.info().name);
    match (kernels.wrong.len(), plans.wrong.len(), kernels.skipped.len() + plans.skipped.len()) {
        (0, 0, 0) => print(format!("{all}: all as the interpreter has them")),
        (0, 0, n) => print(format!("{all}: {n} skipped, all others as the interpreter has them")),
        (kernels, plans, _) => {
            return Err(Failure::graph(format!("{all}: {kernels} kernels and {plans} plans are wrong")));
        }
    }
    Ok(())
}

/// Runs a plan like a run, in place and with reused memory, and compares only its outputs and next states. A kernel by
/// itself has a buffer per value, so it cannot show that it destroys the data of another.
fn check_plan(compiled: &Compiled, device: &Arc<dyn Device>) -> Result<Histogram, Fault> {
    let sorts = [Sort::Signed, Sort::Positive];
    compare(&compiled.primitives, &compiled.typed, compiled.plan.clone(), device, &sorts)
}

/// Runs a kernel by itself and compares its results. The fault of a wrong kernel names its smallest wrong part.
fn check(kernel: &Kernel, compiled: &Compiled, device: &Arc<dyn Device>) -> Result<Histogram, Fault> {
    if kernel.writes_rows() {
        return Err(Fault::Unsupported("it writes a row of a state in place".to_string()));
    }
    let Some((sources, results)) = edges_of(kernel, &compiled.simplified) else {
        return Err(Fault::Unsupported("it copies a state".to_string()));
    };
    let part = part(&compiled.simplified, &sources, &results);
    let outcome = compare(&part, &compiled.typed, plan_of(kernel, compiled), device, &Sort::ALL);
    outcome.map_err(|fault| match fault {
        Fault::Wrong(why) => {
            let smallest = shrink(compiled, kernel, &sources, device).join(", ");
            Fault::Wrong(format!("{why}; the smallest wrong fusion is {smallest}"))
        }
        fault => fault,
    })
}

/// The smallest wrong part of a wrong kernel. It consists of the nodes up to the first whose value is wrong when it is
/// fused with its sources.
fn shrink(compiled: &Compiled, kernel: &Kernel, sources: &[Value], device: &Arc<dyn Device>) -> Vec<String> {
    let graph = &compiled.simplified;
    let wrong = kernel.nodes.iter().position(|&node| {
        let part = part(graph, sources, &[Value::of(node)]);
        let fused = plan(&part, fuse(&part, true).kernels, 1);
        matches!(compare(&part, &compiled.typed, fused, device, &Sort::ALL), Err(Fault::Wrong(_)))
    });
    let last = wrong.unwrap_or(kernel.nodes.len().saturating_sub(1));
    kernel.nodes[..=last].iter().map(|&node| format!("`{}`", graph.nodes[node].name())).collect()
}

/// A plan of one launch of a kernel, with a buffer for each operand.
fn plan_of(kernel: &Kernel, compiled: &Compiled) -> Plan {
    let graph = &compiled.simplified;
    let mut end = 0;
    let (mut buffers, mut ids): (Vec<Buffer>, Vec<usize>) = (vec![], vec![]);
    for operand in &kernel.operands {
        // A loop may take one value several times.
        let read = &kernel.operands[..ids.len()];
        let known =
            read.iter().position(|known| known.value == operand.value && known.usage == operand.usage);
        if let Some(known) = known {
            ids.push(ids[known]);
            continue;
        }
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
        ids.push(buffers.len());
        buffers.push(Buffer { name, ty: operand.ty.clone(), place, life: (0, 0) });
    }
    let written = ids.iter().zip(&kernel.operands).filter(|(_, operand)| operand.usage == Use::Write);
    let written: Vec<usize> = written.map(|(&id, _)| id).collect();
    let workspace = end..end + kernel.workspace_bytes();
    let launch = Launch { kernel: 0, buffers: ids, stream: 0, waits: vec![], workspace };
    Plan {
        name: kernel.name.clone(),
        outputs: written.into_iter().map(|i| (buffers[i].name.clone(), i)).collect(),
        arena_bytes: launch.workspace.end,
        launches: vec![launch],
        kernels: vec![kernel.clone()],
        matmul: compiled.plan.matmul,
        numerics: compiled.plan.numerics,
        n_streams: 1,
        assertions: compiled.plan.assertions.clone(),
        places: compiled.plan.places.clone(),
        loops: compiled.plan.loops.clone(),
        values: vec![],
        once: None,
        buffers,
    }
}

#[cfg(test)]
mod tests;
