#![allow(clippy::unwrap_used, missing_docs)]
//! The kernels of CUDA compile by NVRTC, on a machine without a GPU. `ENGINE_NVRTC` is a folder with `lib/libnvrtc.so*` and
//! `include`, as the Python packages `nvidia-cuda-nvrtc`, `nvidia-cuda-runtime` and `nvidia-cuda-cccl` fill it.
//!
//! The kernels are those of all variants of all `Run` stages of the shipped graphs and of the benchmarks, and of the training of
//! pictures. A landing compiles a sample. `ENGINE_NVRTC_ALL=1` compiles all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use engine::Engine;
use engine::core::codegen::KernelSpec;
use engine::core::compile::{Compiled, Options, compile};
use engine::core::device_model::DeviceModel;
use engine::core::fusion::Kernel;
use engine::core::ir::{DType, Type};
use engine::core::op::Registry;
use engine::core::pipeline::{Pipeline, RunStage, TrainStage};
use engine::core::program::{
    Action, Capability, MatmulCall, Program, Refusal, Step, TuneKey, Tuner, Variant,
};
use engine::core::stage::{self, Rows, SplitShape};
use engine::runtime::gpu::cuda::compiler_report;

#[path = "common/parsed.rs"]
mod parsed;

/// Architectures with their device models. Of the later ones, kernels on tensor cores alone are of another kind.
const ARCHITECTURES: [(&str, DeviceModel); 2] = [("sm_90a", DeviceModel::H200), ("sm_80", DeviceModel::A100)];
/// The time that a landing spends here.
const TIME: Duration = Duration::from_secs(16);

/// Takes the kernels of every variant.
#[derive(Default)]
struct Every(RefCell<Vec<KernelSpec>>);

impl Every {
    fn take(&self, steps: &[Step]) {
        for step in steps {
            match &step.action {
                Action::Kernel(kernel) => self.0.borrow_mut().push(KernelSpec::clone(&kernel.kernel)),
                Action::Loop { body, .. } => self.take(body),
                _ => {}
            }
        }
    }
}

impl Tuner for Every {
    type Error = Infallible;

    fn capability(&self, call: &MatmulCall) -> Result<Capability, Infallible> {
        Ok(if call.matrices().is_some() { Capability::Open } else { Capability::None })
    }

    fn fastest(
        &self,
        _: &Kernel,
        _: &TuneKey,
        variants: &[Variant],
        program: &mut dyn FnMut(Variant) -> Result<Option<Program>, Refusal<Infallible>>,
    ) -> Result<Option<usize>, Refusal<Infallible>> {
        for &variant in variants {
            if let Ok(Some(program)) = program(variant) {
                self.take(&program.steps);
            }
        }
        Ok(None)
    }
}

/// The texts of kernels: the architecture, whether it is on tensor cores, and a name.
type Texts = BTreeMap<String, (&'static str, bool, String)>;

fn texts() -> Texts {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["graphs", "benches/ops"].map(|folder| std::fs::read_dir(root.join(folder)).unwrap());
    let mut files: Vec<PathBuf> = files.into_iter().flatten().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "ron"));
    files.sort();
    let mut texts = Texts::new();
    let of_file = |file: PathBuf| {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&file).unwrap())
    };
    let gradients = ("gradients".to_string(), GRADIENTS.to_string());
    for (name, text) in files.into_iter().map(of_file).chain([gradients]) {
        let mut registry = Engine::new().registry;
        let pipeline = parsed::parsed(&name, text, &mut registry);
        for (architecture, device) in ARCHITECTURES {
            for (stage, compiled) in compiled(&pipeline, &registry, device) {
                for kernel in kernels(&compiled, device) {
                    let has_frame = kernel.schedule.frame().is_some();
                    let source = kernel.cuda_source().unwrap();
                    let title = format!("{name}.{stage} {} for {architecture}", source.entry);
                    texts.entry(source.text).or_insert((architecture, has_frame, title));
                }
            }
        }
    }
    texts
}

/// The kernels of every variant of a plan, and of the plan before the first step.
fn kernels(compiled: &Compiled, device: DeviceModel) -> Vec<KernelSpec> {
    let every = Every::default();
    for plan in [Some(&compiled.plan), compiled.once.as_ref().map(|once| &once.compiled.plan)] {
        let programs = plan.and_then(|plan| plan.programs(&device, &every).ok());
        programs.iter().flat_map(|programs| &programs.programs).for_each(|p| every.take(&p.steps));
    }
    every.0.into_inner()
}

/// Gradients of attention, which no other `Run` stage has.
const GRADIENTS: &str = r#"(
    name: "gradients",
    dims: {"B": 8, "H": 12, "T": 1024, "D": 64},
    params: {
        "q": (type: "bf16[B, H, T, D]", init: Normal(0, 1)), "k": (type: "bf16[B, H, T, D]", init: Normal(0, 1)),
        "v": (type: "bf16[B, H, T, D]", init: Normal(0, 1)), "g": (type: "bf16[B, H, T, D]", init: Normal(0, 1)),
    },
    nodes: {
        "causal": "attention(q, k, v, causal=true)",
        "all": "attention(q, k, v)",
        "of_causal": "sum(cast(causal, dtype=f32) * cast(g, dtype=f32))",
        "of_all": "sum(cast(all, dtype=f32) * cast(g, dtype=f32))",
    },
    stages: {
        "causal": Run(outputs: ["d.q", "d.k", "d.v"], loss: "of_causal"),
        "all_keys": Run(outputs: ["d.q", "d.k", "d.v"], loss: "of_all"),
    },
)"#;

/// The compiled `Run` stages, and the training of pictures.
fn compiled(pipeline: &Pipeline, registry: &Registry, device: DeviceModel) -> Vec<(String, Compiled)> {
    let options = Options { device, matmul: pipeline.matmul, ..Options::default() };
    let fields = [("images", Type::new(DType::U8, &[784])), ("labels", Type::new(DType::U8, &[]))];
    let fields = fields.map(|(name, ty)| (name.into(), ty)).to_vec();
    let digits = SplitShape { data: "digits".into(), n_rows: 60_000, n_held: 60_000, fields };
    let rows = Rows::Batches { batch: 128, per_epoch: 469 };
    let graphs = pipeline.stages.iter().filter_map(|stage| {
        let graph = match (stage.get::<RunStage>(), stage.get::<TrainStage>()) {
            (Some(run), _) => stage::running(pipeline, run, registry).ok(),
            (_, Some(train)) => {
                let made = stage::training(pipeline, train, &digits, rows, registry);
                made.ok().map(|made| made.graph)
            }
            _ => None,
        };
        Some((stage.name.to_string(), compile(&graph?, registry, &options)))
    });
    graphs.collect()
}

#[test]
fn kernels_compile_without_spills() {
    let Some(toolkit) = std::env::var_os("ENGINE_NVRTC").map(PathBuf::from) else {
        let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|what| what == "nvrtc"), "ENGINE_NVRTC is not set");
        eprintln!("skipped: ENGINE_NVRTC is not set");
        return;
    };
    let takes_all = std::env::var_os("ENGINE_NVRTC_ALL").is_some();
    let texts: Vec<_> = texts().into_iter().collect();
    // Making the texts takes longer than that beside a build.
    let start = Instant::now();
    // Far neighbours in turn: a part of all texts is spread over all of them.
    let stride = (1..).map(|n| texts.len() * 5 / 8 + n).find(|&n| gcd(n, texts.len()) == 1).unwrap();
    let (next, done, faults) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(vec![]));
    let work = || loop {
        let number = next.fetch_add(1, Relaxed);
        if number >= texts.len() || !takes_all && start.elapsed() > TIME {
            return;
        }
        let (text, (architecture, has_frame, name)) = &texts[number * stride % texts.len()];
        let fault = match compiler_report(text, architecture, &toolkit) {
            Err(error) => Some(error.to_string()),
            Ok(report) => fault_in(&report, most_spilled(name)).filter(|_| *has_frame),
        };
        faults.lock().unwrap().extend(fault.map(|fault| format!("{name}: {fault}")));
        done.fetch_add(1, Relaxed);
    };
    std::thread::scope(|scope| (0..2).for_each(|_| _ = scope.spawn(work)));
    let faults = faults.into_inner().unwrap();
    let done = done.into_inner();
    println!("{done} of {} kernels compiled in {:.0} s", texts.len(), start.elapsed().as_secs_f64());
    assert!(done > 20 && faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Bytes that a thread may spill: none, except for gradients of attention on warps, whose threads have 168 registers. The one
/// that rounds scores before a softmax in `f32` spills 148.
fn most_spilled(name: &str) -> usize {
    match name {
        "spelled_attention.gradient_wide attention_gradient for sm_80" => 148,
        _ if name.ends_with("attention_gradient for sm_80") => 100,
        _ => 0,
    }
}

/// What a report on a kernel on tensor cores must not say.
fn fault_in(report: &str, most_spilled: usize) -> Option<String> {
    let is_serial = |line: &str| line.contains("wgmma") && line.contains("serialized");
    let spilled = |line: &str| {
        let (before, _) = line.split_once(" bytes spill stores")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    };
    let spills = |line: &str| spilled(line).is_some_and(|bytes| bytes > most_spilled);
    report.lines().find(|line| is_serial(line) || spills(line)).map(str::to_string)
}
