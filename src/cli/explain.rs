//! `engine explain` and `engine why`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use engine_core::codegen::cuda_sources;
use engine_core::compile::{Compiled, Options};
use engine_core::device_model::DeviceModel;
use engine_core::diag::{Code, Diagnostic, Sources as Texts, nearest};
use engine_core::fusion::{Kernel, KernelBody};
use engine_core::ir::{Graph, NodeId, Symbol, written_path};
use engine_core::op::Registry;
use engine_core::pipeline::SplitRef;
use engine_core::precision::casts;
use engine_core::program::{NoProgram, Recorded, Refusal};
use engine_core::stage::SplitShape;
use engine_runtime::data::source::{DataError, LoadContext, Sources};
use engine_runtime::session::stages::{compile_plans, compile_stage};
use engine_runtime::session::{CompilingPlanner, Fault, SessionError, load_data, split_shape};
use indexmap::IndexSet;
use serde_json::{Value, json};

use super::args::{CompileArgs, ExplainArgs, WhyArgs};
use super::device::compile_options_of;
use super::form::Form;
use super::open::{Opened, open};
use super::output::{Failure, print};
use crate::Engine;

pub(super) fn explain(engine: Engine, args: &ExplainArgs) -> Result<(), Failure> {
    let Engine { mut registry, sources } = engine;
    let opened = open(&args.pipeline.graph, &mut registry)?;
    if args.stage == [Form::Typed] && !args.json {
        print(&opened.pipeline.graph);
        return Ok(());
    }
    let mut options = compile_options_of(&args.compile, args.device)?;
    if let Some(file) = &args.model {
        options.device = read_model(file)?;
    }
    let target = Target { device: options.device, choices: read_choices(args.choices.as_deref())? };
    let data_dir = args.pipeline.data_dir();
    let stages = compile_stages(&opened, registry, &sources, data_dir, options, None, &[])?;
    if args.json {
        let stages: Vec<Value> = stages.iter().map(|(name, compiled)| stage_json(name, compiled)).collect();
        print(format!("{:#}", json!({ "stages": stages })));
        return Ok(());
    }
    for &form in &args.stage {
        for (name, compiled) in &stages {
            print(format!("# stage {name}\n{}", form_text(form, compiled, &target)));
        }
    }
    Ok(())
}

/// The device and the autotuned choices of programs.
struct Target {
    device: DeviceModel,
    choices: Recorded,
}

/// A device model from a file of one model, as `engine devices --models` prints it.
fn read_model(file: &Path) -> Result<DeviceModel, Failure> {
    let wrong = |why: String| {
        let file = file.display();
        Failure::graph(format!("{file} is no device model, as `engine devices --models` prints it: {why}"))
    };
    let models = ron::from_str::<BTreeMap<String, DeviceModel>>(&read(file)?);
    let models: Vec<DeviceModel> = models.map_err(|error| wrong(error.to_string()))?.into_values().collect();
    match models[..] {
        [model] => Ok(model),
        _ => Err(wrong(format!("it has {} models", models.len()))),
    }
}

/// The choices of a report, or of its part `tuning`; none without a file.
fn read_choices(file: Option<&Path>) -> Result<Recorded, Failure> {
    let Some(file) = file else { return Ok(Recorded::default()) };
    let wrong = |error: serde_json::Error| {
        Failure::graph(format!("{} holds no autotuned choices, as reports do: {error}", file.display()))
    };
    let value: Value = serde_json::from_str(&read(file)?).map_err(wrong)?;
    let choices = &value.get("tuning").unwrap_or(&value)["choices"];
    let choices = serde_json::from_value::<BTreeMap<String, String>>(choices.clone()).map_err(wrong)?;
    Ok(Recorded(choices))
}

fn read(file: &Path) -> Result<String, Failure> {
    let unread = |error| Failure::graph(format!("{} cannot be read: {error}", file.display()));
    std::fs::read_to_string(file).map_err(unread)
}

pub(super) fn why(engine: Engine, args: &WhyArgs) -> Result<(), Failure> {
    let Engine { mut registry, sources } = engine;
    let opened = open(&args.pipeline.graph, &mut registry)?;
    let options = compile_options_of(&CompileArgs::default(), args.device)?;
    let stages = compile_stages(&opened, registry, &sources, args.pipeline.data_dir(), options, None, &[])?;
    let (from, to) = (&opened.pipeline.name_at(&args.from), &opened.pipeline.name_at(&args.to));
    let graphs: Vec<(String, &Compiled)> =
        stages.iter().flat_map(|(name, compiled)| with_loops(name, compiled)).collect();
    let answers: Vec<String> =
        graphs.iter().filter_map(|(name, compiled)| answer(name, compiled, from, to)).collect();
    if answers.is_empty() {
        let simplified: Vec<&Graph> = graphs.iter().map(|(_, compiled)| &compiled.simplified).collect();
        for name in [from, to] {
            if simplified.iter().all(|graph| graph.find(name).is_none()) {
                return Err(unknown_node(name, &simplified));
            }
        }
        let is_reversed = graphs.iter().any(|(name, compiled)| answer(name, compiled, to, from).is_some());
        return Err(Failure::graph(match is_reversed {
            true => format!(
                "`{to}` does not use `{from}`, but `{from}` uses `{to}`; the node that is used comes first: \
                 `engine why {} {} {}`",
                args.pipeline.graph.graph.display(),
                args.to,
                args.from
            ),
            false => format!("no stage has nodes `{from}` and `{to}` where one uses the other"),
        }));
    }
    answers.iter().for_each(print);
    Ok(())
}

/// A compiled graph and the trips of its loops, with their names.
fn with_loops<'c>(name: &str, compiled: &'c Compiled) -> Vec<(String, &'c Compiled)> {
    let inside = compiled.loops.iter().flat_map(|trip| {
        let looped = written_path(compiled.simplified.node(trip.node).name());
        with_loops(&format!("{name}, in a trip of `{looped}`"), &trip.compiled)
    });
    [(name.to_string(), compiled)].into_iter().chain(inside).collect()
}

/// The failure for a name that no stage has a node of.
pub(super) fn unknown_node(name: &str, graphs: &[&Graph]) -> Failure {
    let names = graphs.iter().flat_map(|graph| &graph.nodes).flat_map(|node| &node.outputs);
    let mut diagnostic = Diagnostic::error(Code::E0101, format!("no stage has a node `{name}`"));
    diagnostic.help(match nearest(name, names.map(|output| &*output.name)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`engine explain GRAPH --stage grad` shows them all".to_string(),
    });
    Failure::diagnostic(Fault::Graph, diagnostic, &Texts::new())
}

/// Every stage that computes something, compiled for whole batches. `most_rows` limits the length of data sets. With nodes
/// to keep, a step of several batches has two plans.
pub(super) fn compile_stages(
    opened: &Opened,
    registry: Registry,
    sources: &Sources,
    data_dir: Option<&Path>,
    options: Options,
    most_rows: Option<usize>,
    kept: &[String],
) -> Result<Vec<(Symbol, Compiled)>, Failure> {
    let pipeline = &opened.pipeline;
    // Stages follow from the types and numbers of rows; nothing is downloaded.
    let context = LoadContext { offline: true, types_only: true, ..LoadContext::from_env(data_dir) };
    let sets = load_data(pipeline, sources, &context, &mut |_| {}).map_err(|error| opened.failure(error))?;
    let shape = |split: &SplitRef| {
        let no_data = |source| SessionError::Data { data: split.data.clone(), source: Box::new(source) };
        let set = sets.get(&split.data).ok_or_else(|| DataError::NoSet { data: split.data.to_string() });
        let rows = set.and_then(|set| set.split(&split.split)).map_err(no_data)?;
        let shape = split_shape(&split.data, rows);
        let n_rows = shape.n_rows.min(most_rows.unwrap_or(usize::MAX));
        Ok(SplitShape { n_rows, n_held: n_rows, ..shape })
    };
    let all_plans = !kept.is_empty();
    let kept = kept.iter().map(|node| node.as_str().into()).collect();
    let planner = CompilingPlanner::new(Arc::clone(pipeline), registry, options).keeping(kept);
    let mut stages = vec![];
    for stage in &pipeline.stages {
        let compiled = match all_plans {
            true => compile_plans(stage, &planner, &shape, most_rows),
            false => compile_stage(stage, &planner, &shape, most_rows).map(|plan| plan.into_iter().collect()),
        };
        let compiled = compiled.map_err(|error| opened.failure(error))?;
        stages.extend(compiled.into_iter().map(|compiled| (stage.name.clone(), compiled)));
    }
    Ok(stages)
}

fn form_text(form: Form, compiled: &Compiled, target: &Target) -> String {
    match form {
        Form::Typed | Form::Grad => compiled.typed.to_string(),
        Form::Precision => casts(&compiled.typed),
        Form::Primitive => compiled.primitives.to_string(),
        Form::Simplified => compiled.simplified.to_string(),
        Form::Kernels => compiled.kernels_text(),
        Form::Plan => compiled.plan.to_string(),
        Form::Once => match &compiled.once {
            Some(once) => format!("{}\n{}", once.compiled.kernels_text(), once.compiled.plan),
            None => "nothing is computed before the first step\n".to_string(),
        },
        Form::Programs => programs_text(compiled, target),
        Form::Source => source_text(compiled, cuda_texts),
        Form::Wgsl => source_text(compiled, wgsl_texts),
    }
}

fn programs_text(compiled: &Compiled, Target { device, choices }: &Target) -> String {
    if *device == DeviceModel::CPU {
        return "the CPU runs the kernels of its plan as they are; see `--device cuda` or `--device wgpu`\n"
            .to_string();
    }
    match compiled.plan.programs(device, choices) {
        Ok(programs) => programs.describe(&compiled.plan, device),
        Err(NoProgram { launch, refusal: Refusal::Codegen(error) }) => {
            let kernel = &compiled.plan.kernels[compiled.plan.launches[launch].kernel];
            format!("no program for `{}`: {error}\n", kernel.name)
        }
        Err(NoProgram { refusal: Refusal::Tuner(never), .. }) => match never {},
    }
}

fn cuda_texts(kernel: &Kernel) -> Result<Vec<String>, String> {
    let sources = cuda_sources(kernel).map_err(|error| error.to_string())?;
    Ok(sources.into_iter().map(|source| source.text).collect())
}

#[cfg(feature = "wgpu")]
fn wgsl_texts(kernel: &Kernel) -> Result<Vec<String>, String> {
    engine_runtime::gpu::wgpu::texts(kernel).map_err(|error| error.to_string())
}

#[cfg(not(feature = "wgpu"))]
fn wgsl_texts(_: &Kernel) -> Result<Vec<String>, String> {
    Err("this build has no driver for wgpu".to_string())
}

fn source_text(compiled: &Compiled, texts_of: fn(&Kernel) -> Result<Vec<String>, String>) -> String {
    let plan = &compiled.plan;
    let kernels = plan.launches.iter().map(|launch| &plan.kernels[launch.kernel]);
    let texts = kernels.map(|kernel| {
        let text = match &kernel.body {
            KernelBody::Loop(_) => "// the kernels of its trips\n".to_string(),
            _ => match texts_of(kernel) {
                Ok(texts) => texts.join("\n"),
                Err(error) => format!("// no source: {error}\n"),
            },
        };
        format!("// {} {}\n{text}", kernel.kind(), kernel.name)
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn stage_json(name: &str, compiled: &Compiled) -> Value {
    let plan = &compiled.plan;
    let kernels = plan.launches.iter().map(|launch| {
        let kernel = &plan.kernels[launch.kernel];
        json!({
            "name": kernel.name, "kind": kernel.kind(), "ops": kernel.ops,
            "bytes_read": kernel.bytes_read, "bytes_written": kernel.bytes_written, "flops": kernel.flops,
        })
    });
    let not_fused = compiled.not_fused.iter().map(|edge| {
        let to = compiled.simplified.node(edge.to).name();
        json!({ "from": &**compiled.name(edge.from), "to": &**to, "reason": edge.reason })
    });
    json!({
        "name": name,
        "kernels": kernels.collect::<Vec<_>>(),
        "peak_bytes": plan.arena_bytes,
        "not_fused": not_fused.collect::<Vec<_>>(),
    })
}

/// Why two nodes are not fused in this stage, or the kernel that they share. `None` if neither uses the other.
fn answer(stage: &str, compiled: &Compiled, from: &str, to: &str) -> Option<String> {
    let graph = &compiled.simplified;
    let (from_node, to_node) = (graph.find(from)?.node, graph.find(to)?.node);
    let apart = compiled.not_fused.iter().find(|edge| edge.from.node == from_node && edge.to == to_node);
    if let Some(edge) = apart {
        return Some(format!("{stage}: `{from}` and `{to}` are two kernels: {}", edge.reason));
    }
    let together = compiled
        .plan
        .kernels
        .iter()
        .find(|kernel| kernel.nodes.contains(&from_node) && kernel.nodes.contains(&to_node));
    if let Some(kernel) = together {
        return Some(format!(
            "{stage}: `{from}` and `{to}` are one kernel, {} {}",
            kernel.kind(),
            kernel.name
        ));
    }
    // The nodes are not adjacent after lowering: list the reasons between the kernels on the paths from one to the
    // other.
    let on_the_way = between(graph, from_node, to_node)?;
    let apart = compiled.not_fused.iter().filter(|edge| on_the_way[edge.from.node] && on_the_way[edge.to]);
    let lines = apart.map(|edge| {
        let (from, to) = (compiled.name(edge.from), graph.node(edge.to).name());
        format!("\n  `{from}` and `{to}`: {}", edge.reason)
    });
    let lines: IndexSet<String> = lines.collect();
    let lines: String = lines.into_iter().collect();
    Some(format!("{stage}: between `{from}` and `{to}`:{lines}"))
}

/// Marks the nodes on paths from one node to another, both included. `None` if there is no path.
fn between(graph: &Graph, from: NodeId, to: NodeId) -> Option<Vec<bool>> {
    let mut reached = vec![false; graph.nodes.len()];
    reached[from] = true;
    for id in from + 1..graph.nodes.len() {
        reached[id] = graph.nodes[id].inputs.iter().any(|input| reached[input.node]);
    }
    let mut leads = vec![false; graph.nodes.len()];
    leads[to] = true;
    for id in (0..=to).rev() {
        if leads[id] {
            graph.nodes[id].inputs.iter().for_each(|input| leads[input.node] = true);
        }
    }
    let both = |(reached, leads): (&bool, &bool)| *reached && *leads;
    reached[to].then(|| reached.iter().zip(&leads).map(both).collect())
}
