#![allow(clippy::unwrap_used, missing_docs)]
#![cfg(feature = "wgpu")]
//! Kernels of all shipped pipelines for GPUs that tests cannot use: through Metal, through DX12, and on the least GPU
//! that WebGPU promises. All devices have the same kernels.

use engine::core::codegen::{CodegenError, KernelSpec};
use engine::core::compile::{Compiled, Options};
use engine::core::device_model::{DeviceModel, KernelLimits};
use engine::core::fusion::{Kernel, KernelBody};
use engine::core::ir::Type;
use engine::core::pipeline::{Pipeline, PredictStage, SplitRef, Stage, TrainStage};
use engine::core::plan::{Launch, Plan};
use engine::core::stage::{Rows, SplitShape};
use engine::runtime::session::stages::compile_stage;
use engine::runtime::session::{CompilingPlanner, Request};
use engine::{Engine, Program};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[path = "adapters/languages.rs"]
mod languages;

// ---- Pipelines.

/// Rows of each split: more than the largest batch of any pipeline.
const ROWS: usize = 5000;

/// The files and their texts.
fn shipped() -> Vec<(String, String)> {
    let folders = ["graphs", "benches", "benches/ops"];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|name| name == "ron")).collect();
    paths.sort();
    assert!(paths.len() > 20);
    let read = |path: PathBuf| {
        let file = path.file_name().unwrap().to_str().unwrap().to_string();
        (file, fs::read_to_string(&path).unwrap())
    };
    paths.into_iter().map(read).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows of a split, as the inputs of its pipeline declare them. The data itself is not needed.
fn shape(pipeline: &Pipeline, split: &SplitRef) -> SplitShape {
    let fields = pipeline.inputs.iter().filter_map(|input| {
        let (_, field) = input.from.as_ref().filter(|(data, _)| *data == split.data)?;
        let node = pipeline.graph.nodes.iter().find(|node| *node.name() == input.name).unwrap();
        let ty = &node.outputs[0].ty;
        let row = ty.shape[1..].iter().map(|extent| extent.fixed().unwrap());
        Some((field.clone(), Type::new(ty.dtype, &row.collect::<Vec<_>>())))
    });
    SplitShape { data: split.data.clone(), n_rows: ROWS, n_held: ROWS, fields: fields.collect() }
}

fn batches(batch: usize) -> Rows {
    Rows::Batches { batch, per_epoch: ROWS / batch }
}

/// All stages of a pipeline that compute something, compiled for a device.
fn stages(file: &str, text: &str, device: DeviceModel) -> Vec<(String, Compiled)> {
    let read = Engine::new().read(file, text);
    let Program { pipeline, registry } = read.unwrap_or_else(|faults| panic!("{faults}"));
    let pipeline = Arc::new(pipeline);
    let options = Options { device, ..Options::default() };
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, options);
    let compiled = pipeline.stages.iter().flat_map(|stage| {
        let parts = parts(&planner, &pipeline, stage);
        parts.into_iter().map(|compiled| (format!("{file}, {}", stage.name), compiled))
    });
    compiled.collect()
}

fn parts(planner: &CompilingPlanner, pipeline: &Pipeline, stage: &Stage) -> Vec<Compiled> {
    if stage.get::<PredictStage>().is_some() {
        return vec![];
    }
    let mut parts: Vec<_> = compile_stage(stage, planner, &|split| Ok(shape(pipeline, split)), None)
        .unwrap()
        .into_iter()
        .collect();
    if let Some(evaluation) = stage.get::<TrainStage>().and_then(|train| train.evaluate.as_ref()) {
        let (shape, rows) = (shape(pipeline, &evaluation.data), batches(evaluation.batch));
        let request = Request::Evaluation { scope: &stage.name, evaluation, data: &shape, rows };
        let evaluation = planner.compile(&request);
        parts.push(evaluation.unwrap().compiled);
    }
    parts
}

/// All kernels that a launch of a plan may use on a GPU, for every variant of a matmul.
fn forms(plan: &Plan, launch: &Launch, target: DeviceModel) -> Result<Vec<KernelSpec>, CodegenError> {
    let kernel = &plan.kernels[launch.kernel];
    let splits = KernelSpec::splits(kernel, target);
    let mut forms: Vec<KernelSpec> =
        splits.iter().flat_map(|&cut| KernelSpec::split_k_product(kernel, target, cut)).collect();
    if forms.is_empty() {
        forms = KernelSpec::launches(kernel, target)?;
    } else {
        forms.extend(KernelSpec::side_sums(kernel, target));
    }
    if plan.assertions.is_empty() || !plan.writes_state(launch) {
        return Ok(forms);
    }
    // A kernel that writes state has a guard, and its checks run before.
    let checks: Vec<KernelSpec> = forms.iter().filter_map(KernelSpec::checks_only).collect();
    Ok(forms.into_iter().map(KernelSpec::guarded).chain(checks).collect())
}

/// Visits every launch of all shipped pipelines on a GPU, each with its name.
fn each_form(target: DeviceModel, mut look: impl FnMut(&str, &KernelSpec)) {
    for (file, text) in shipped() {
        each_form_of(&file, &text, target, &mut look);
    }
}

/// Visits every launch of one pipeline.
fn each_form_of(file: &str, text: &str, target: DeviceModel, mut look: impl FnMut(&str, &KernelSpec)) {
    for (stage, compiled) in stages(file, text, target.with_kernel_limits()) {
        each_form_in(&stage, &compiled.plan, target, &mut look);
    }
}

/// Visits the launches of a plan, and in the place of a loop those of a trip.
fn each_form_in(stage: &str, plan: &Plan, target: DeviceModel, look: &mut dyn FnMut(&str, &KernelSpec)) {
    for launch in &plan.launches {
        let kernel = &plan.kernels[launch.kernel];
        if let KernelBody::Loop(body) = &kernel.body {
            each_form_in(stage, &plan.loop_of(body).step, target, look);
            continue;
        }
        let name = format!("{stage}, {}", kernel.label());
        let forms = forms(plan, launch, target);
        let forms = forms.unwrap_or_else(|error| panic!("{name}: {error}"));
        forms.iter().for_each(|fused| look(&name, fused));
    }
}

// ---- The least GPU.

/// Storage buffers of a kernel that WebGPU promises.
const LEAST_BINDINGS: usize = 8;

/// No kernel is refused for its number of tensors. One more binding holds its scalars.
#[test]
fn no_kernel_takes_more_buffers_than_every_gpu_binds() {
    let mut most = 0;
    let mut refused = vec![];
    each_form(DeviceModel::WEBGPU, |name, fused| {
        let n_bindings = fused.arguments().len() + 1;
        most = most.max(n_bindings);
        if n_bindings > LEAST_BINDINGS {
            refused.push(format!("{name}: {n_bindings}"));
        }
    });
    assert!(refused.is_empty(), "{} of more than {LEAST_BINDINGS}:\n{}", refused.len(), refused.join("\n"));
    assert!(most + 1 >= LEAST_BINDINGS, "no kernel comes near the limit: {most}");
}

// ---- The same kernels on all devices.

/// The kernels of a stage in order: what each computes, reads and writes.
fn kernels(compiled: &Compiled) -> Vec<String> {
    let plan = &compiled.plan;
    let line = |kernel: &Kernel| {
        let operands: Vec<&str> =
            kernel.operands.iter().map(|operand| &**compiled.name(operand.value)).collect();
        format!("{} [{}]: {}", kernel.kind(), kernel.ops.join(" "), operands.join(" "))
    };
    plan.launches.iter().map(|launch| line(&plan.kernels[launch.kernel])).collect()
}

/// GPUs compute attention of more queries than its kernel supports with separate kernels, since matmuls are faster
/// there. All else fuses like on the CPU.
#[test]
fn gpus_fuse_as_the_cpu_does() {
    check_fusion("wgpu", DeviceModel::DESKTOP);
    #[cfg(feature = "cuda")]
    check_fusion("cuda", DeviceModel { n_streams: 1, ..DeviceModel::H200 });
}

/// Kernels that others lack, without their operands. A product on a GPU reads copies in place of views, so copies are left
/// out, and names differ.
fn surplus(these: &[String], others: &[String]) -> Vec<String> {
    let bare = |kernels: &[String]| -> Vec<String> {
        let heads = kernels.iter().map(|kernel| kernel.split(':').next().unwrap().to_owned());
        heads.filter(|head| head != "map [copy]").collect()
    };
    let mut others = bare(others);
    let mut surplus = bare(these);
    surplus.retain(|head| match others.iter().position(|other| other == head) {
        Some(found) => {
            others.swap_remove(found);
            false
        }
        None => true,
    });
    surplus
}

/// Kernels without their operands and without the ops that move heads: a device copies what it packs, or reads heads where they
/// lie.
fn without_copies(kernels: &[String]) -> Vec<String> {
    let heads = kernels.iter().map(|kernel| kernel.split(':').next().unwrap());
    let heads = heads.filter(|&head| head != "map [copy]");
    heads.map(|head| head.replace("copy ", "").replace(" copy]", "]")).collect()
}

/// Whether the difference is attention: three kernels for each on a GPU.
fn is_apart(cpu: &[String], gpu: &[String]) -> bool {
    let [of_cpu, of_gpu] = [(cpu, gpu), (gpu, cpu)]
        .map(|(these, others)| these.iter().filter(|kernel| !others.contains(kernel)).collect::<Vec<_>>());
    of_cpu.iter().all(|kernel| kernel.starts_with("attention ["))
        && of_gpu.len() == 3 * of_cpu.len()
        && of_gpu.iter().all(|kernel| kernel.starts_with("matmul [") || kernel.starts_with("row ["))
}

/// Whether the difference is a matmul that also reduces what it computes. It is a matmul and a row kernel on the GPU.
fn is_folded(cpu: &[String], gpu: &[String]) -> bool {
    let [of_cpu, of_gpu] = [surplus(cpu, gpu), surplus(gpu, cpu)];
    let [matmul, row] = &of_gpu[..] else { return false };
    let [folded] = &of_cpu[..] else { return false };
    let are = [(matmul, "matmul ["), (row, "row ["), (folded, "matmul [")];
    are.into_iter().all(|(kernel, kind)| kernel.starts_with(kind)) && folded.contains(" reduce_")
}

/// Whether the difference is attention that also computes the ends of the products around it. Those are whole matmuls,
/// rows and maps on a GPU, beside one kernel or at least three for each attention.
fn is_absorbed(cpu: &[String], gpu: &[String]) -> bool {
    let [of_cpu, of_gpu] = [surplus(cpu, gpu), surplus(gpu, cpu)];
    let is = |kernel: &String, kinds: &[&str]| kinds.iter().any(|kind| kernel.starts_with(kind));
    let (attention, around): (Vec<_>, Vec<_>) =
        of_cpu.iter().partition(|kernel| is(kernel, &["attention ["]));
    let kinds = ["matmul [", "row [", "map [", "segmented map ["];
    let (whole, parts): (Vec<_>, Vec<_>) = of_gpu.iter().partition(|kernel| is(kernel, &["attention ["]));
    !attention.is_empty()
        && parts.len() >= 3 * (attention.len() - whole.len())
        && around.into_iter().chain(parts).all(|kernel| is(kernel, &kinds))
}

/// Whether tensor cores have gradients of attention where the plan of the CPU, without its own kernel for them, has matmuls and
/// maps. Where attention is spelled out, the CPU without that kernel stores the weights for the gradient, so it has no kernel of
/// attention either.
fn is_gradient(cpu: &[String], gpu: &[String]) -> bool {
    let is = |kernel: &String, kinds: &[&str]| kinds.iter().any(|kind| kernel.starts_with(kind));
    let of_gpu = surplus(gpu, cpu);
    of_gpu.iter().any(|kernel| is(kernel, &["attention gradient ["]))
        && of_gpu.iter().all(|kernel| is(kernel, &["attention gradient [", "attention [", "row ["]))
        && surplus(cpu, gpu).iter().all(|kernel| is(kernel, &["matmul [", "map [", "row ["]))
}

/// The stages that a GPU does not lower as the CPU does, which are searches. On the CPU, queries that are not certain list all
/// rows, and blocks of columns are reduced in every precision.
const LOWERED_APART: [&str; 14] = [
    "large_selection.ron, nearest2048",
    "search.ron, search_l2",
    "search.ron, search_bf16",
    "search.ron, search_ip",
    "retrieval.ron, ten_of_all",
    "retrieval.ron, ten_by_axes",
    "retrieval.ron, range",
    "retrieval.ron, one_query",
    "retrieval.ron, kmeans_step",
    "index_online.ron, compare",
    "kmeans.ron, fit",
    "range_search.ron, search",
    "search.ron, search",
    "search_images.ron, search",
];

/// Stages with attention to all keys among other kernels.
const ABSORBED: [&str; 5] = [
    "gpt.ron, test",
    "gpt_sample.ron, check",
    "sparse_attention.ron, sweep",
    "tiny_gpt.ron, test",
    "tiny_gpt.ron, test_reverse",
];

/// Stages with attention whose scores are stored on CUDA.
const STORED: [&str; 6] = [
    "attention.ron, dense",
    "attention.ron, causal",
    "gpt.ron, train",
    "sparse_attention.ron, compare",
    "tiny_gpt.ron, train",
    "tiny_gpt.ron, reverse",
];

/// The CPU with those limits of a GPU that decide which kernels a plan has. The CPU reads windows of images in place, which a GPU
/// copies. Scatters on CUDA check few indices themselves. A gradient of attention in f32 is no kernel on CUDA. GPUs compute
/// maps that are read in another order, join short sums, scan long rows in parts, and find larger tensors in cache.
fn cpu_beside(device: &DeviceModel) -> DeviceModel {
    let kernels_of_cpu = KernelLimits {
        uneven_matrices: false,
        attention_gradients: device.kernels.columns_in_tiles > 0,
        most_rows_checked: device.kernels.most_rows_checked,
        longest_column: device.kernels.longest_column,
        longest_scan: device.kernels.longest_scan,
        moved_maps: device.kernels.moved_maps,
        joined_sums: device.kernels.joined_sums,
        ..DeviceModel::CPU.kernels
    };
    DeviceModel { kernels: kernels_of_cpu, cached_elements: device.cached_elements, ..DeviceModel::CPU }
}

fn check_fusion(name: &str, device: DeviceModel) {
    let (mut with_attention, mut absorbed, mut folded) = (vec![], vec![], vec![]);
    let (mut lowered_apart, mut gradients) = (vec![], vec![]);
    for (file, text) in shipped() {
        let cpu = cpu_beside(&device);
        let [on_cpu, on_gpu] = [cpu, device].map(|device| stages(&file, &text, device));
        for ((stage, cpu), (_, gpu)) in on_cpu.iter().zip(&on_gpu) {
            // A search is lowered by what the device folds and how it multiplies, and attention by what the device stores.
            if cpu.primitives != gpu.primitives {
                lowered_apart.push(stage.clone());
                continue;
            }
            let [cpu, gpu] = [cpu, gpu].map(kernels);
            let has_attention = cpu.iter().any(|kernel| kernel.starts_with("attention"));
            if cpu == gpu || has_attention && without_copies(&cpu) == without_copies(&gpu) {
                continue;
            }
            let list = if is_apart(&cpu, &gpu) {
                &mut with_attention
            } else if is_gradient(&cpu, &gpu) {
                &mut gradients
            } else if is_folded(&cpu, &gpu) {
                &mut folded
            } else {
                assert!(is_absorbed(&cpu, &gpu), "{stage} on {name}: {gpu:#?} instead of {cpu:#?}");
                &mut absorbed
            };
            list.push(stage.clone());
        }
        assert_eq!(on_cpu.len(), on_gpu.len());
    }
    // The CPU and tensor cores reduce blocks of columns behind a product.
    let blocks = ["clusters.ron, blocks_tf32", "clusters.ron, blocks_bf16"];
    let blocks: Vec<&str> = blocks.into_iter().filter(|_| device.tensor_cores.is_none()).collect();
    assert_eq!(folded, blocks, "{name}");
    let of_halves = [
        "causal.ron, gradient",
        "spelled_attention.ron, gradient_rounded",
        "spelled_attention.ron, gradient_wide",
    ];
    let of_halves = of_halves.into_iter().filter(|_| device.tensor_cores.is_some());
    assert_eq!(gradients, of_halves.collect::<Vec<_>>(), "{name}");
    assert_eq!(lowered_apart, LOWERED_APART, "{name}");
    let has_tiles = device.kernels.columns_in_tiles > 0;
    assert_eq!(with_attention, if has_tiles { &[][..] } else { &STORED }, "{name}");
    // In tiles, attention alone is a kernel as on the CPU.
    let is_whole = |stage: &&str| has_tiles && *stage == "sparse_attention.ron, sweep";
    let parts: Vec<&str> = ABSORBED.into_iter().filter(|stage| !is_whole(stage)).collect();
    assert_eq!(absorbed, parts, "{name}");
}
