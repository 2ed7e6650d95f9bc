#![allow(clippy::unwrap_used, missing_docs)]
#![cfg(feature = "wgpu")]
//! The kernels of all shipped pipelines as GPUs get them that are not here: through Metal, through DX12, and where no more
//! than WebGPU's least is promised; and that kernels are the same on all devices.

use engine::Engine;
use engine::core::codegen::{CodegenError, KernelSpec, Target};
use engine::core::compile::{Compiled, Options};
use engine::core::fusion::{Abilities, Kernel, MAX_OPERANDS};
use engine::core::ir::{DType, Type};
use engine::core::pipeline::{PredictStage, SplitRef, Stage, TrainStage};
use engine::core::plan::{Launch, Plan};
use engine::core::stage::{Rows, SplitShape};
use engine::runtime::session::CompilingPlanner;
use engine::runtime::session::stages::compile_stage;
use engine::runtime::wgpu;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[path = "adapters/languages.rs"]
mod languages;

// ---- Pipelines.

/// Rows of each split: as many as the pipelines' largest batches, and some.
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

/// What a row of a data set of the shipped pipelines is; the data itself is not needed.
fn shape(split: &SplitRef) -> SplitShape {
    let field = |name: &str, dtype, extents: &[usize]| (name.into(), Type::new(dtype, extents));
    let fields = match &*split.data {
        "digits" => vec![field("images", DType::U8, &[784]), field("labels", DType::U8, &[])],
        "text" => vec![field("context", DType::U8, &[16]), field("next", DType::U8, &[])],
        "queries" => vec![field("number", DType::I32, &[])],
        "sift" => vec![field(&split.split, DType::F32, &[128])],
        other => panic!("say here what a row of `{other}` is"),
    };
    SplitShape { data: split.data.clone(), n_rows: ROWS, n_held: ROWS, fields }
}

fn batches(batch: usize) -> Rows {
    Rows::Batches { batch, per_epoch: ROWS / batch }
}

/// All stages of a pipeline that compute something, as they are compiled for a device of these abilities.
fn stages(file: &str, text: &str, abilities: Abilities) -> Vec<(String, Compiled)> {
    let mut engine = Engine::new();
    let pipeline = engine.read(file, text);
    let pipeline = Arc::new(pipeline.unwrap_or_else(|faults| panic!("{faults}")));
    let options = Options { abilities, ..Options::default() };
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), engine.registry, options);
    let compiled = pipeline.stages.iter().flat_map(|stage| {
        let parts = parts(&planner, stage);
        parts.into_iter().map(|compiled| (format!("{file}, {}", stage.name), compiled))
    });
    compiled.collect()
}

fn parts(planner: &CompilingPlanner, stage: &Stage) -> Vec<Compiled> {
    if stage.get::<PredictStage>().is_some() {
        return vec![];
    }
    let mut parts: Vec<_> =
        compile_stage(stage, planner, &|split| Ok(shape(split)), None).unwrap().into_iter().collect();
    if let Some(evaluation) = stage.get::<TrainStage>().and_then(|train| train.evaluate.as_ref()) {
        let (shape, rows) = (shape(&evaluation.data), batches(evaluation.batch));
        let evaluation = planner.compile_evaluation(&stage.name, evaluation, &shape, rows);
        parts.push(evaluation.unwrap().compiled);
    }
    parts
}

/// All that a launch of a plan may come to on a GPU, whichever way is taken for a product.
fn forms(plan: &Plan, launch: &Launch, target: Target) -> Result<Vec<KernelSpec>, CodegenError> {
    let kernel = &plan.kernels[launch.kernel];
    let splits = KernelSpec::splits(kernel, target);
    let mut forms: Vec<KernelSpec> =
        splits.iter().flat_map(|&cut| KernelSpec::split_k_product(kernel, target, cut)).collect();
    if forms.is_empty() {
        forms = KernelSpec::launches(kernel, target)?;
    } else {
        forms.extend(KernelSpec::side_sums(kernel).into_iter().map(|fused| fused.on(target)));
    }
    if plan.assertions.is_empty() || !plan.writes_state(launch) {
        return Ok(forms);
    }
    // What writes state does so where nothing was wrong, and checks before.
    let checks: Vec<KernelSpec> = forms.iter().filter_map(KernelSpec::checks_only).collect();
    Ok(forms.into_iter().map(KernelSpec::guarded).chain(checks).collect())
}

/// Every launch of all shipped pipelines on a GPU, each with what it is called.
fn each_form(target: Target, mut look: impl FnMut(&str, &KernelSpec)) {
    for (file, text) in shipped() {
        each_form_of(&file, &text, target, &mut look);
    }
}

/// The same of one pipeline.
fn each_form_of(file: &str, text: &str, target: Target, mut look: impl FnMut(&str, &KernelSpec)) {
    for (stage, compiled) in stages(file, text, wgpu::abilities(&target)) {
        for launch in &compiled.plan.launches {
            let kernel = &compiled.plan.kernels[launch.kernel];
            let name = format!("{stage}, {}", kernel.label());
            let forms = forms(&compiled.plan, launch, target);
            let forms = forms.unwrap_or_else(|error| panic!("{name}: {error}"));
            forms.iter().for_each(|fused| look(&name, fused));
        }
    }
}

// ---- The least GPU.

/// Storage buffers of a kernel that WebGPU promises.
const LEAST_BINDINGS: usize = 8;

/// No kernel is refused because it takes too many tensors. One more binding holds its scalars.
#[test]
fn no_kernel_takes_more_buffers_than_every_gpu_binds() {
    let mut most = 0;
    let mut refused = vec![];
    each_form(Target::WGSL, |name, fused| {
        let n_bindings = fused.arguments().len() + 1;
        most = most.max(n_bindings);
        if n_bindings > LEAST_BINDINGS {
            refused.push(format!("{name}: {n_bindings}"));
        }
    });
    assert!(refused.is_empty(), "{} of more than {LEAST_BINDINGS}:\n{}", refused.len(), refused.join("\n"));
    // Five tensors, the error flag and the scalars.
    assert_eq!(most, 7, "the limit is made use of");
}

// ---- The same kernels on all devices.

/// What the kernels of a stage are, in their order: what they compute, read and write.
fn kernels(compiled: &Compiled) -> Vec<String> {
    let plan = &compiled.plan;
    let line = |kernel: &Kernel| {
        let operands: Vec<&str> =
            kernel.operands.iter().map(|operand| &**compiled.name(operand.value)).collect();
        format!("{} [{}]: {}", kernel.kind(), kernel.ops.join(" "), operands.join(" "))
    };
    plan.launches.iter().map(|launch| line(&plan.kernels[launch.kernel])).collect()
}

/// Only attention of more queries than its kernel takes is apart on GPUs: products are faster for it.
#[test]
fn gpus_fuse_as_the_cpu_does() {
    // A GPU that binds as many tensors, and shares as much memory, as NVIDIA's do.
    let usual = Target { most_tensors: MAX_OPERANDS, shared_bytes: 48 << 10, ..wgpu::USUAL };
    check_fusion("wgpu", wgpu::abilities(&usual));
    #[cfg(feature = "cuda")]
    check_fusion("cuda", engine::runtime::cuda::abilities());
}

fn check_fusion(device: &str, abilities: Abilities) {
    let mut with_attention = vec![];
    for (file, text) in shipped() {
        let [on_cpu, on_gpu] = [Abilities::default(), abilities].map(|able| stages(&file, &text, able));
        for ((stage, cpu), (_, gpu)) in on_cpu.iter().zip(&on_gpu) {
            let [cpu, gpu] = [cpu, gpu].map(kernels);
            if cpu == gpu {
                continue;
            }
            let [of_cpu, of_gpu] = [(&cpu, &gpu), (&gpu, &cpu)].map(|(these, others)| {
                these.iter().filter(|kernel| !others.contains(kernel)).collect::<Vec<_>>()
            });
            let is_apart = of_cpu.iter().all(|kernel| kernel.starts_with("attend ["))
                && of_gpu.len() == 3 * of_cpu.len()
                && of_gpu
                    .iter()
                    .all(|kernel| kernel.starts_with("contract [") || kernel.starts_with("row ["));
            assert!(is_apart, "{stage} on {device}: {gpu:#?} instead of {cpu:#?}");
            with_attention.push(stage.clone());
        }
        assert_eq!(on_cpu.len(), on_gpu.len());
    }
    let expected = ["attention.ron, dense", "attention.ron, causal", "sparse_attention.ron, compare"];
    assert_eq!(with_attention, expected, "{device}");
}
