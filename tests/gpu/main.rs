#![allow(clippy::unwrap_used, missing_docs)]
//! Plans on GPUs compared with the CPU, through CUDA and through wgpu. Without a real GPU, wgpu uses one that is
//! emulated on the CPU. Without any, each test prints that it is skipped, and fails if `ENGINE_REQUIRE` names `cuda` or
//! `wgpu`. Graphs are read from the working folder, so that the binary can run on another machine.
#![cfg(all(feature = "cuda", feature = "wgpu"))]

use engine::Engine;
use engine::core::codegen::ResultTile;
use engine::core::compile::{Compiled, Options, compile};
use engine::core::device_model::TensorCores;
use engine::core::ir::*;
use engine::core::numerics::Precision;
use engine::core::op::Registry;
use engine::core::pipeline::{Pipeline, Stage, TrainStage};
use engine::core::plan::{Place, Plan};
use engine::core::stage::{self, Rows, SplitShape};
use engine::runtime::cpu::CpuDevice;
use engine::runtime::device::{
    Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable, RunError,
};
use engine::runtime::gpu::cuda::CudaDevice;
use engine::runtime::gpu::wgpu::{Adapter, WgpuDevice};
use engine::runtime::init::initial_values;
use engine::runtime::tensor::HostTensor;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

mod attention;
mod bad_indices;
mod convolutions;
mod draws;
mod extremes;
mod folds;
mod kernels;
mod least;
mod long_sums;
mod moved;
mod older;
#[path = "../common/parsed.rs"]
mod parsed;
mod products;
mod rows;
mod scalars;
mod scatters;
mod sessions;
mod small;
#[path = "../common/small_integers.rs"]
mod small_integers;
mod training;
mod types;

use kernels::{called, rows_of_all_lengths, selected_attention};
use parsed::parsed;
use products::{bounds_of_epilogues, epilogues_and_side_sums};
use training::{Trainer, assert_close, load};

/// The usable GPUs, with a note on the others.
fn gpus() -> &'static [Arc<dyn Device>] {
    static GPUS: OnceLock<Vec<Arc<dyn Device>>> = OnceLock::new();
    GPUS.get_or_init(|| {
        let cuda = CudaDevice::new(0).map(|device| Arc::new(device) as Arc<dyn Device>);
        let wgpu = WgpuDevice::new(Adapter::Gpu(0)).or_else(|_| WgpuDevice::new(Adapter::Software));
        let wgpu = wgpu.map(|device| Arc::new(device) as Arc<dyn Device>);
        [("cuda", cuda), ("wgpu", wgpu)].into_iter().filter_map(|(name, gpu)| usable(name, gpu)).collect()
    })
}

/// The GPU of wgpu, used without the optional features of WGSL.
fn plain_gpu() -> Option<Arc<dyn Device>> {
    let gpu = WgpuDevice::plain(Adapter::Gpu(0)).or_else(|_| WgpuDevice::plain(Adapter::Software));
    usable("wgpu", gpu.map(|device| Arc::new(device) as Arc<dyn Device>))
}

/// The GPU of wgpu, used with the least limits that WebGPU promises.
fn least_gpu() -> Option<Arc<dyn Device>> {
    let gpu = WgpuDevice::least(Adapter::Gpu(0)).or_else(|_| WgpuDevice::least(Adapter::Software));
    usable("wgpu", gpu.map(|device| Arc::new(device) as Arc<dyn Device>))
}

fn usable(name: &str, gpu: Result<Arc<dyn Device>, DeviceError>) -> Option<Arc<dyn Device>> {
    let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
    match gpu {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            assert!(!required.split(',').any(|device| device == name), "{error}");
            eprintln!("the tests on {name} are skipped: {error}");
            None
        }
    }
}

fn cpu() -> Arc<dyn Device> {
    Arc::new(CpuDevice::new(Some(2)).unwrap())
}

/// Deterministic noise of both signs.
fn noise(n: usize, seed: u32) -> impl Iterator<Item = f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    (0..n).map(move |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    })
}

fn tensor(ty: &Type, values: impl Iterator<Item = f64>) -> Vec<u8> {
    values
        .flat_map(|x| match ty.dtype {
            DType::Bool => vec![x as u8],
            DType::F16 => half_bits(x, 5, 10).to_le_bytes().to_vec(),
            DType::BF16 => half_bits(x, 8, 7).to_le_bytes().to_vec(),
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::F64 => x.to_le_bytes().to_vec(),
            dtype => dtype.saturate(x).to_le_bytes()[..dtype.size()].to_vec(),
        })
        .collect()
}

/// Rounds a normal number down to a 16-bit float with these numbers of exponent and mantissa bits. Small numbers become
/// 0.
fn half_bits(x: f64, exponent_bits: u32, mantissa_bits: u32) -> u16 {
    let bits = x.to_bits();
    let bias = (1i64 << (exponent_bits - 1)) - 1;
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023 + bias;
    if exponent <= 0 {
        return 0;
    }
    let mantissa = (bits >> (52 - mantissa_bits)) & ((1 << mantissa_bits) - 1);
    (((bits >> 63) as u16) << 15) | ((exponent as u16) << mantissa_bits) | mantissa as u16
}

/// The tolerance between devices: `|a - b| ≤ tolerance · (1 + |b|)`.
#[derive(Clone, Copy)]
struct Closeness(f64);

impl Closeness {
    /// The tolerance for a sum of `n` fractions, or products of such, in `f32` in any order. In sequence, the i-th
    /// addition rounds a number of size √(i/3) by some 0.4·2⁻²⁴ of itself. The n roundings sum to 2⁻²⁴·n/6, on two
    /// devices 2⁻²⁴·n/4. That is a tenth of 10⁻⁵·√n for 4500 numbers, and a third for 40 000. Several partial sums have
    /// a smaller error.
    fn of_sum(n: usize) -> Closeness {
        Closeness(1e-5 * (n as f64).sqrt())
    }

    /// The tolerance for a sum of `k` products of fractions.
    ///
    /// Halves are summed in `f32` and rounded once, so results are adjacent halves at most: in bf16, they differ by 2⁻⁷
    /// of themselves. Unfused, a bias of at most 1 is added afterwards, and the result is rounded again: 2⁻⁶ of 1 + |b|
    /// together. That is less than 0.02. In f16, which has three more bits, it is an eighth.
    fn of_product(dtype: DType, k: usize) -> Closeness {
        match dtype {
            DType::F16 => Closeness(2e-2 / 8.0),
            DType::BF16 => Closeness(2e-2),
            DType::F32 => Closeness::of_sum(k),
            DType::F64 => Closeness(1e-12),
            _ => Closeness(0.0),
        }
    }

    fn holds(self, a: f64, b: f64) -> bool {
        let is_near = a == b || (a - b).abs() <= self.0 * (1.0 + b.abs());
        is_near || (a.is_nan() && b.is_nan())
    }
}

/// A graph with the values of its inputs.
struct Case {
    graph: Graph,
    inputs: HashMap<String, Vec<u8>>,
    /// Whether updates with equal indices are added in their order.
    is_in_order: bool,
    matmul: Precision,
}

impl Case {
    /// Inputs are fractions, or small integers.
    fn new(build: impl FnOnce(&mut Builder) -> Vec<Value>) -> Case {
        let registry = Engine::new().registry;
        let mut builder = Builder::new(Graph::new("case"), &registry);
        let outputs = build(&mut builder);
        builder.graph.outputs =
            outputs.into_iter().enumerate().map(|(i, value)| (format!("out{i}").into(), value)).collect();
        Case::of(builder.graph.pruned())
    }

    fn of(graph: Graph) -> Case {
        let mut inputs = HashMap::new();
        for (i, (node, _)) in graph.inputs().enumerate() {
            let ty = graph.ty(Value::of(node));
            let values = noise(ty.numel(), i as u32 + 1);
            let scaled = values.map(|x| if ty.dtype.is_float() { x } else { ((x + 1.0) * 5.0).floor() });
            inputs.insert(graph.nodes[node].name().to_string(), tensor(ty, scaled));
        }
        Case { graph, inputs, is_in_order: false, matmul: Precision::F32 }
    }

    fn plan(&self, device: &dyn Device, fuse: bool) -> Arc<Plan> {
        let model = device.model();
        let deterministic = self.is_in_order;
        let matmul = self.matmul;
        let options = Options { fuse, device: model, deterministic, matmul, ..Options::default() };
        Arc::new(compile(&self.graph, &Engine::new().registry, &options).plan)
    }

    /// The outputs of one step.
    fn run(&self, device: &dyn Device, fuse: bool) -> Result<Vec<Vec<f64>>, RunError> {
        self.runs(device, fuse, 1).map(|mut runs| runs.remove(0))
    }

    /// The outputs of the step, run several times: first by itself. Where CUDA replays it, then as one captured graph,
    /// and as the last step of a graph of many.
    fn runs(&self, device: &dyn Device, fuse: bool, n_runs: usize) -> Result<Vec<Vec<Vec<f64>>>, RunError> {
        let plan = self.plan(device, fuse);
        let (mut executable, _) = bound(device, &plan, 7, |name| self.inputs.get(name).cloned())?;
        let mut runs = vec![];
        for n_steps in [1, 1, 16].into_iter().take(n_runs) {
            executable.run(19 - n_steps, n_steps)?;
            let read = |(name, buffer): &(Symbol, usize)| {
                let ty = &plan.buffers[*buffer].ty;
                let mut result = HostTensor::zeros(ty.dtype, &ty.extents()).unwrap();
                executable.read_output(name, result.bytes_mut()).unwrap();
                result.to_f64()
            };
            runs.push(plan.outputs.iter().map(read).collect());
        }
        Ok(runs)
    }

    /// Compares each GPU with the CPU, fused and not, with one tolerance for all outputs.
    fn check(&self, tolerance: f64) {
        self.check_within(gpus().iter(), &vec![Closeness(tolerance); self.graph.outputs.len()]);
    }

    /// Compares GPUs with the CPU, fused and not, with a tolerance per output. NaN equals NaN.
    fn check_within<'g>(&self, gpus: impl Iterator<Item = &'g Arc<dyn Device>>, bounds: &[Closeness]) {
        assert_eq!(self.graph.outputs.len(), bounds.len());
        for (gpu, fuse) in gpus.flat_map(|gpu| [(gpu, true), (gpu, false)]) {
            let DeviceInfo { name, kind, .. } = gpu.info();
            let is_stateless = self.graph.state.is_empty();
            let n_runs = if kind == DeviceKind::Cuda && is_stateless { 3 } else { 1 };
            let runs = self.runs(&**gpu, fuse, n_runs).unwrap();
            let expected = self.run(&*cpu(), fuse).unwrap();
            for (run, found) in runs.iter().enumerate() {
                for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
                    assert_eq!(found.len(), expected.len());
                    for (i, (&a, &b)) in found.iter().zip(expected).enumerate() {
                        assert!(
                            bounds[output].holds(a, b),
                            "out{output}[{i}], fuse: {fuse}, run {run}: {a} on {name}, {b} on the CPU"
                        );
                    }
                }
            }
        }
    }
}

/// A compiled plan and its bindings.
type Bound = (Box<dyn Executable>, HashMap<String, DeviceBuffer>);

/// A compiled plan with all its bindings, by name. An input without a `value` is zero.
fn bound(
    device: &dyn Device,
    plan: &Arc<Plan>,
    seed: u64,
    value: impl Fn(&str) -> Option<Vec<u8>>,
) -> Result<Bound, DeviceError> {
    let mut executable = device.prepare(Arc::clone(plan), seed)?;
    let mut buffers = HashMap::new();
    for buffer in &plan.buffers {
        if matches!(buffer.place, Place::Arena(_) | Place::Input(InputKind::Step)) {
            continue;
        }
        let bytes = value(&buffer.name).unwrap_or_else(|| vec![0; buffer.ty.bytes()]);
        let memory = device.allocate(bytes.len())?;
        device.write(&memory, 0, &bytes)?;
        executable.bind(&buffer.name, &memory)?;
        buffers.insert(buffer.name.to_string(), memory);
    }
    Ok((executable, buffers))
}

fn data(b: &mut Builder, name: &str, dtype: DType, extents: &[usize]) -> Value {
    b.input(name, InputKind::Data, Type::new(dtype, extents))
}
