#![allow(clippy::unwrap_used)]
//! Tests of the device on a software adapter. `tests/gpu.rs` of the root package compares results of kernels.

use super::memory::Staging;
use super::*;

use crate::autotune::Tuning;
use crate::cache::DiskCache;
use crate::cpu::CpuDevice;
use crate::device::{Device, DeviceBuffer, Executable, RunError};
use crate::gpu::executable::{GpuExecutable, choose};
use engine_core::device_model::DeviceModel;
use engine_core::fusion::{Kernel, fuse, fuse_with};
use engine_core::ir::*;
use engine_core::op::Registry;
use engine_core::plan::{Place as Home, Plan, plan};
use engine_core::program::Variant;
use engine_core::program::matrix_units::BLOCKS;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod buffers;
mod limits;
mod matrix_units;
mod tuning;
mod windows;

/// A software GPU; `None`, with a note, if there is none.
fn gpu() -> Option<WgpuDevice> {
    usable(WgpuDevice::new(Adapter::Software))
}

/// A software GPU without features and with these limits.
fn gpu_within(limits: wgpu::Limits) -> Option<WgpuDevice> {
    let context = open(Adapter::Software, Request::Within(Box::new(limits)));
    usable(context.map(|context| GpuDevice { gpu: context }))
}

fn usable(gpu: Result<WgpuDevice, DeviceError>) -> Option<WgpuDevice> {
    match gpu {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|device| device == "wgpu"), "{error}");
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// A reset of the driver or an unplugged GPU has the same effect.
#[test]
fn every_call_reports_a_lost_gpu() {
    let Some(gpu) = gpu() else { return };
    let buffer = gpu.allocate(16).unwrap();
    let tensors = |unary| {
        planned(&DeviceModel::CPU, |b| {
            let x = square(b, "x", 8);
            vec![b.unary(unary, x)]
        })
    };
    let (known, unknown) = (tensors(Unary::Tanh), tensors(Unary::Exp));
    let memory = gpu.allocate(256).unwrap();
    let [mut fresh, mut used] = [(); 2].map(|()| {
        let mut executable = gpu.prepare(Arc::clone(&known), 1).unwrap();
        executable.bind("x", &memory).unwrap();
        executable
    });
    used.run(0, 1).unwrap();
    gpu.gpu.device.destroy();
    let of_device = |outcome: Result<(), RunError>| {
        outcome.map_err(|error| match error {
            RunError::Device(error) => error,
            other => panic!("{other}"),
        })
    };
    // The first wait detects the loss.
    let outcomes = [
        gpu.gpu.wait(),
        gpu.write(&buffer, 0, &[0; 16]),
        gpu.read(&buffer, 0, &mut [0; 16]),
        gpu.allocate(16).map(drop),
        of_device(used.run(1, 2)),
        used.read_output("out0", &mut [0; 256]),
        of_device(used.profile(3).map(drop)),
        of_device(fresh.run(0, 1)),
        of_device(fresh.profile(0).map(drop)),
        gpu.prepare(known, 1).map(drop),
        gpu.prepare(unknown, 1).map(drop),
        gpu.gpu.wait(),
    ];
    for (call, outcome) in outcomes.into_iter().enumerate() {
        let error = outcome.unwrap_err();
        assert!(matches!(error, DeviceError::Lost { .. }), "call {call}: {error}");
        assert!(error.to_string().contains(" was lost: "), "{error}");
    }
}

/// wgpu panics if it detects a lost GPU during a wait. The loss was recorded before, and is the reported error.
#[test]
fn a_panic_during_a_wait_is_an_error() {
    let Some(gpu) = gpu() else { return };
    let error = gpu.gpu.wait_by(|_| panic!("Error in Device::poll")).unwrap_err();
    let message = format!("waiting for {}: Error in Device::poll", gpu.gpu.state.name);
    assert_eq!(error, DeviceError::Failed(message));
    gpu.gpu.wait().unwrap();
    let lost = gpu.gpu.wait_by(|device| {
        device.destroy();
        let _ = device.poll(wgpu::PollType::wait_indefinitely());
        panic!("Error in Device::poll")
    });
    assert!(matches!(lost, Err(DeviceError::Lost { .. })), "{lost:?}");
}

/// Without the feature for subgroups, the probe of subgroups does not compile.
#[test]
fn a_probe_that_does_not_compile_answers_no() {
    let Some(gpu) = gpu_within(wgpu::Limits::default()) else { return };
    let target = probe::found(&gpu.gpu, Some(4)).unwrap();
    assert_eq!(target.plane, 1);
    gpu.gpu.device.destroy();
    gpu.gpu.wait().unwrap_err();
    let lost = probe::found(&gpu.gpu, Some(4));
    assert!(matches!(lost, Err(DeviceError::Lost { .. })), "{lost:?}");
}

#[test]
fn a_compile_error_names_the_kernel() {
    let Some(gpu) = gpu() else { return };
    let text = "@compute @workgroup_size(1) fn broken() { let x: f32 = 1u; }".to_string();
    let source = Source { text, entry: "broken".into(), ..Source::default() };
    let error = gpu.gpu.compile("map y: add exp", &source).map(drop).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, DeviceError::NotCompiled { .. }), "{message}");
    assert!(message.starts_with("the kernel of `map y: add exp` does not compile; "), "{message}");
    assert!(message.lines().count() <= 5 && message.len() < 1000, "{message}");
    assert!(gpu.allocate(16).is_ok(), "the GPU goes on");
}

mod foreign {
    use cubecl_core as cubecl;
    use cubecl_core::prelude::*;

    #[cube]
    pub fn as_bf16(x: f32) -> f32 {
        f32::cast_from(half::bf16::cast_from(x))
    }
}

/// WGSL has no `bf16`, and CubeCL panics on it.
#[test]
fn a_function_with_a_type_that_wgsl_lacks_is_an_error() {
    let Some(gpu) = gpu() else { return };
    let rounded = Foreign {
        key: "test.as_bf16@1".into(),
        arity: 1,
        f64: |x| x[0],
        f32_slice: |x, out| out.copy_from_slice(x[0]),
        partials: |_| vec![],
        cube: |scope, x| foreign::as_bf16::expand(scope, x[0].clone()),
    };
    let plan = planned(&gpu.model(), |b| {
        let x = square(b, "x", 8);
        vec![b.scalar(Scalar::Foreign(Arc::new(rounded)), &[x])]
    });
    let error = gpu.prepare(Arc::clone(&plan), 1).map(drop).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, DeviceError::NotCompiled { .. }), "{message}");
    let kernel = &plan.kernels[0].name;
    assert!(message.starts_with(&format!("the kernel of `{kernel}` does not compile; ")), "{message}");
    assert!(message.contains("the compiler panicked: bf16 is not a valid"), "{message}");
    let explained = super::texts(&plan.kernels[0]).unwrap_err().to_string();
    assert!(explained.contains("bf16 is not a valid"), "{explained}");
    assert!(gpu.allocate(16).is_ok(), "the GPU goes on");
}

/// The second start reads the pipeline cache of the first. Invalid data of a cache file is ignored.
#[test]
fn pipeline_caches_are_stored_on_disk() {
    let Some(gpu) = gpu() else { return };
    if gpu.gpu.pipeline_files.is_none() {
        eprintln!("skipped: the driver has no pipeline caches");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = PipelineFiles::within(folder.path());
    let open = |text: &str| files.open(&gpu.gpu.device, text);
    let first = open("text");
    assert!(!first.is_from_disk);
    files.store("text", &first);
    assert!(open("text").is_from_disk);
    assert!(!open("another text").is_from_disk);
    for nonsense in [&b""[..], b"nonsense", &[0; 4096]] {
        files.disk.write(&files.key("text"), nonsense);
        assert!(open("text").cache.get_data().is_some());
    }
    assert!(gpu.allocate(16).is_ok(), "the GPU goes on");
}

#[test]
fn a_missing_gpu_is_named() {
    let Err(error) = WgpuDevice::new(Adapter::Gpu(1000)) else { panic!("a thousand GPUs") };
    let error = error.to_string();
    let known = ["no GPU is found", "only a software adapter", "there is no GPU of number 1000"];
    assert!(known.iter().any(|text| error.contains(text)), "{error}");
}

/// Results do not depend on the submissions: many steps, a few steps or a part of a step.
#[test]
fn slow_steps_have_the_results_of_quick_ones() {
    let Some(gpu) = gpu() else { return };
    let plan = planned_steps(&gpu.model());
    let state = |step_time: Option<f64>| {
        let mut executable = GpuExecutable::new(&gpu.gpu, Arc::clone(&plan), 1).unwrap();
        let memory = gpu.allocate(4 * 64).unwrap();
        executable.bind("x", &memory).unwrap();
        executable.queue.step_time = step_time.map(Duration::from_secs_f64);
        executable.run(5, 20).unwrap();
        assert!(executable.queue.step_time.is_some_and(|time| time > Duration::ZERO));
        let mut bytes = [0; 4 * 64];
        gpu.read(&memory, 0, &mut bytes).unwrap();
        bytes
    };
    let quick = state(Some(0.0));
    assert!(quick.iter().any(|&byte| byte != 0));
    for step_time in [None, Some(0.08), Some(60.0)] {
        assert_eq!(state(step_time), quick, "{step_time:?}");
    }
}

/// The numbers of several steps lie in memory at the same time.
#[test]
fn an_output_of_the_step_number_is_that_of_the_last_step() {
    let Some(gpu) = gpu() else { return };
    let plan = planned(&gpu.model(), |b| {
        let step = b.input("step", InputKind::Step, Type::scalar(DType::I32));
        let x = square(b, "x", 8);
        vec![step, b.unary(Unary::Exp, x)]
    });
    let mut executable = gpu.prepare(plan, 1).unwrap();
    executable.bind("x", &gpu.allocate(256).unwrap()).unwrap();
    executable.run(5, 20).unwrap();
    let mut bytes = [0; 4];
    executable.read_output("out0", &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), 24);
}

/// A step of several launches, one of which draws random bits from the step number.
fn planned_steps(device: &DeviceModel) -> Arc<Plan> {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("steps"), &registry);
    let x = b.input("x", InputKind::State, Type::new(DType::F32, &[8, 8]));
    let product = b.mm(x, x);
    let drawn = b.random_bits("drawn", &[8, 8]);
    let drawn = b.cast(drawn, DType::F32);
    let drawn = b.scale(drawn, 1e-10);
    let sum = b.add(product, drawn);
    let next = b.unary(Unary::Tanh, sum);
    b.graph.state = vec![StateLink { input: x.node, next }];
    let graph = b.graph.pruned();
    let settings = engine_core::fusion::Settings { device: *device, ..Default::default() };
    Arc::new(plan(&graph, fuse_with(&graph, &settings).kernels, 1))
}

/// A plan for a device, with outputs `out0`, `out1`, ….
fn planned(device: &DeviceModel, build: impl FnOnce(&mut Builder) -> Vec<Value>) -> Arc<Plan> {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("small"), &registry);
    let outputs = build(&mut b);
    let numbered = outputs.into_iter().enumerate();
    b.graph.outputs = numbered.map(|(i, value)| (format!("out{i}").into(), value)).collect();
    let graph = b.graph.pruned();
    let settings = engine_core::fusion::Settings { device: *device, ..Default::default() };
    Arc::new(plan(&graph, fuse_with(&graph, &settings).kernels, 1))
}

fn square(b: &mut Builder, name: &str, extent: usize) -> Value {
    b.input(name, InputKind::Data, Type::new(DType::F32, &[extent, extent]))
}
