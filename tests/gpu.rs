#![allow(clippy::unwrap_used, missing_docs)]
//! Plans on GPUs against the same plans on the CPU, through CUDA and through wgpu; for want of a real GPU, wgpu takes one
//! that is emulated on the processor. Where there is none, each test says that it is skipped, and fails if
//! `ENGINE_REQUIRE` names `cuda` or `wgpu`. Graphs are looked for in the working folder, so that the binary can be
//! carried.
#![cfg(all(feature = "cuda", feature = "wgpu"))]

use engine::Engine;
use engine::core::compile::{Compiled, Options, compile};
use engine::core::diag::{Diagnostics, Look, Sources};
use engine::core::front;
use engine::core::ir::*;
use engine::core::op::Registry;
use engine::core::pipeline::{Pipeline, Stage, TrainStage};
use engine::core::plan::{Place, Plan, Precision};
use engine::core::stage::{self, Rows, SplitShape};
use engine::runtime::cpu::CpuDevice;
use engine::runtime::cuda::CudaDevice;
use engine::runtime::device::{
    Device, DeviceBuffer, DeviceError, DeviceInfo, DeviceKind, Executable, RunError,
};
use engine::runtime::init::initial_values;
use engine::runtime::tensor::HostTensor;
use engine::runtime::wgpu::{Adapter, WgpuDevice};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

#[path = "gpu/bad_indices.rs"]
mod bad_indices;
#[path = "gpu/extremes.rs"]
mod extremes;
#[path = "gpu/least.rs"]
mod least;
#[path = "gpu/long_sums.rs"]
mod long_sums;
#[path = "gpu/older.rs"]
mod older;
#[path = "gpu/rows.rs"]
mod rows;
#[path = "gpu/scalars.rs"]
mod scalars;
#[path = "gpu/sessions.rs"]
mod sessions;
#[path = "gpu/types.rs"]
mod types;

/// The GPUs that can be used, with a note on those that cannot.
fn gpus() -> &'static [Arc<dyn Device>] {
    static GPUS: OnceLock<Vec<Arc<dyn Device>>> = OnceLock::new();
    GPUS.get_or_init(|| {
        let cuda = CudaDevice::new(0).map(|device| Arc::new(device) as Arc<dyn Device>);
        let wgpu = WgpuDevice::new(Adapter::Gpu(0)).or_else(|_| WgpuDevice::new(Adapter::Software));
        let wgpu = wgpu.map(|device| Arc::new(device) as Arc<dyn Device>);
        [("cuda", cuda), ("wgpu", wgpu)].into_iter().filter_map(|(name, gpu)| usable(name, gpu)).collect()
    })
}

/// What wgpu takes, used without what WGSL leaves open.
fn plain_gpu() -> Option<Arc<dyn Device>> {
    let gpu = WgpuDevice::plain(Adapter::Gpu(0)).or_else(|_| WgpuDevice::plain(Adapter::Software));
    usable("wgpu", gpu.map(|device| Arc::new(device) as Arc<dyn Device>))
}

/// What wgpu takes, used as the least that WebGPU promises.
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

// ---- Small graphs.

/// Deterministic numbers of both signs that look like nothing.
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
            DType::Bool | DType::U8 => vec![x as u8],
            DType::I32 => (x as i32).to_le_bytes().to_vec(),
            DType::U32 => (x as u32).to_le_bytes().to_vec(),
            DType::I64 => (x as i64).to_le_bytes().to_vec(),
            DType::F16 => half_bits(x, 5, 10).to_le_bytes().to_vec(),
            DType::BF16 => half_bits(x, 8, 7).to_le_bytes().to_vec(),
            DType::F32 => (x as f32).to_le_bytes().to_vec(),
            DType::F64 => x.to_le_bytes().to_vec(),
        })
        .collect()
}

/// Rounds a normal number down to a 16-bit float of so many exponent and mantissa bits; small numbers become 0.
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

/// How far apart two devices may be: `|a - b| ≤ tolerance · (1 + |b|)`.
#[derive(Clone, Copy)]
struct Closeness(f64);

impl Closeness {
    /// Of a sum of `n` fractions, or products of such, in `f32` in any order. One after the other, the i-th addition rounds
    /// something of size √(i/3) by some 0.4·2⁻²⁴ of itself; n of these make 2⁻²⁴·n/6, on two devices 2⁻²⁴·n/4. That is a
    /// tenth of 10⁻⁵·√n for 4500 numbers, and a third for 40 000; in several partial sums it is less.
    fn of_sum(n: usize) -> Closeness {
        Closeness(1e-5 * (n as f64).sqrt())
    }

    /// Of a sum of `k` products of fractions.
    ///
    /// Halves are added up in `f32` and rounded once, so devices have neighbours at most, in bf16 2⁻⁷ of themselves; unfused,
    /// a bias of at most 1 is added after that, and rounded again: 2⁻⁶ of 1 + |b| together. That is less than 0.02; in f16,
    /// which has three more bits, an eighth is.
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
    /// Whether sums by indices are taken in their order.
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
        let (abilities, n_streams) = (device.abilities(), device.n_streams());
        let deterministic = self.is_in_order;
        let matmul = self.matmul;
        let options = Options { fuse, abilities, n_streams, deterministic, matmul, ..Options::default() };
        Arc::new(compile(&self.graph, &Engine::new().registry, &options).plan)
    }

    /// The outputs of one step.
    fn run(&self, device: &dyn Device, fuse: bool) -> Result<Vec<Vec<f64>>, RunError> {
        self.runs(device, fuse, 1).map(|mut runs| runs.remove(0))
    }

    /// The outputs of the same step, first by itself; then, where CUDA replays it, as one captured graph, and as the last
    /// of a graph of many.
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

    /// Compares each GPU with the CPU, fused and not, all outputs within the same bound.
    fn check(&self, tolerance: f64) {
        self.check_within(gpus().iter(), &vec![Closeness(tolerance); self.graph.outputs.len()]);
    }

    /// Compares GPUs with the CPU, fused and not, each output within its bound; NaN equals NaN.
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

/// A plan made ready, and what is bound to it.
type Bound = (Box<dyn Executable>, HashMap<String, DeviceBuffer>);

/// A plan made ready, with all that is bound to it, by name; what `value` does not know is zero.
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

// ---- Kinds of kernels.

#[test]
fn maps_and_views_agree() {
    Case::new(|b| {
        let x = data(b, "x", DType::F32, &[37, 50]);
        let y = data(b, "y", DType::F32, &[50]);
        let y = b.broadcast_like(y, x);
        let sum = b.add(x, y);
        let curve = b.unary(Unary::Tanh, sum);
        let turned = b.permute(curve, &[1, 0]);
        let padded = b.pad(turned, &[2, 1], &[0, 3], Literal::Float(-1.5));
        let exp = b.unary(Unary::Exp, x);
        vec![padded, exp]
    })
    .check(1e-5);
}

#[test]
fn rows_of_all_lengths_agree() {
    rows_of_all_lengths(|case, bounds| case.check_within(gpus().iter(), bounds));
}

#[test]
fn rows_agree_where_threads_exchange_values_through_memory() {
    let plain = plain_gpu();
    rows_of_all_lengths(|case, bounds| case.check_within(plain.iter(), bounds));
}

fn rows_of_all_lengths(check: impl Fn(&Case, &[Closeness])) {
    for (rows, length) in [(40, 5), (7, 33), (5, 300), (3, 5000), (2, 20_000), (1, 1)] {
        let case = Case::new(|b| {
            let x = data(b, "x", DType::F32, &[rows, length]);
            let peak = b.reduce(Monoid::Max, x, &[1]);
            let best = b.reduce(Monoid::ArgMax, x, &[1]);
            let peak = b.unreduce(peak, &[1], x);
            let shifted = b.sub(x, peak);
            let exp = b.unary(Unary::Exp, shifted);
            let sum = b.sum(exp, &[1]);
            let sum = b.unreduce(sum, &[1], x);
            let softmax = b.div(exp, sum);
            let columns = b.sum(x, &[0]);
            let all = b.sum(x, &[0, 1]);
            vec![softmax, best, columns, all]
        });
        let sums = [rows, rows * length].map(Closeness::of_sum);
        check(&case, &[Closeness(1e-5), Closeness(0.0), sums[0], sums[1]]);
    }
}

/// Infinities and NaN times zero are NaN, also where a compiler may take all that is multiplied by zero for zero.
#[test]
fn a_product_by_a_constant_zero_is_no_constant() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let mut case = Case::new(|b| {
            let x = data(b, "x", dtype, &[6]);
            vec![b.scale(x, 0.0), b.scale(x, -0.0)]
        });
        let values = HostTensor::from_slice(&[6], &[2.0, -2.0, 0.0, -0.0, f64::INFINITY, f64::NAN]).unwrap();
        case.inputs.insert("x".into(), values.cast(dtype).unwrap().bytes().to_vec());
        case.check(0.0);
    }
}

/// What matrix units take, where there are any.
#[test]
fn products_of_halves_in_whole_blocks_agree() {
    for (lhs_transposed, rhs_transposed) in [(false, false), (true, false), (false, true), (true, true)] {
        let (batch, m, n, k) = (2, 128, 192, 96);
        Case::new(|b| {
            let lhs = if lhs_transposed { [batch, k, m] } else { [batch, m, k] };
            let rhs = if rhs_transposed { [batch, n, k] } else { [batch, k, n] };
            let (lhs, rhs) = (data(b, "lhs", DType::F16, &lhs), data(b, "rhs", DType::F16, &rhs));
            let contracted = vec![(if lhs_transposed { 1 } else { 2 }, if rhs_transposed { 2 } else { 1 })];
            let product = b.contract(lhs, rhs, Contract { batch: vec![(0, 0)], contracted });
            vec![b.unary(Unary::Tanh, product)]
        })
        .check(1e-2);
    }
}

#[test]
fn products_of_all_layouts_and_types_agree() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32] {
        for [batch, m, n, k] in
            [[1, 128, 256, 784], [1, 128, 10, 256], [3, 17, 5, 9], [1, 1, 40, 33], [2, 30, 1, 8]]
        {
            for (lhs_transposed, rhs_transposed) in [(false, false), (true, false), (false, true)] {
                Case::new(|b| {
                    let lhs = if lhs_transposed { [batch, k, m] } else { [batch, m, k] };
                    let rhs = if rhs_transposed { [batch, n, k] } else { [batch, k, n] };
                    let (lhs, rhs) = (data(b, "lhs", dtype, &lhs), data(b, "rhs", dtype, &rhs));
                    let contracted =
                        vec![(if lhs_transposed { 1 } else { 2 }, if rhs_transposed { 2 } else { 1 })];
                    let product = b.contract(lhs, rhs, Contract { batch: vec![(0, 0)], contracted });
                    vec![product]
                })
                .check_within(gpus().iter(), &[Closeness::of_product(dtype, k)]);
            }
        }
    }
}

/// A batch is an axis of the grid, of which there is a most.
#[test]
fn a_product_of_many_small_ones_agrees() {
    // Neighbours in f16 are 2⁻¹⁰ of themselves apart.
    for (dtype, bound) in [(DType::F32, Closeness::of_sum(3)), (DType::F16, Closeness(2e-3))] {
        Case::new(|b| {
            let (lhs, rhs) = (data(b, "lhs", dtype, &[70_000, 2, 3]), data(b, "rhs", dtype, &[70_000, 3, 2]));
            vec![b.contract(lhs, rhs, Contract { batch: vec![(0, 0)], contracted: vec![(2, 1)] })]
        })
        .check_within(gpus().iter(), &[bound]);
    }
}

#[test]
fn epilogues_and_sums_beside_products_agree() {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        for shape in [[128, 96, 40], [256, 512, 384]] {
            let bounds = bounds_of_epilogues(dtype, shape);
            epilogues_beside_products(dtype, shape).check_within(gpus().iter(), &bounds);
        }
    }
}

/// Of a product with a bias, the tangent of one that is scaled to about one, one along the other axis, and sums along that.
///
/// The second has the scale of a product along nine. Unfused, three nodes before it are rounded: in bf16 devices are 2⁻⁷ of
/// them apart at most, of which |x|/cosh²x < 0.45 goes on, so 0.011, and its own neighbours are 2⁻⁸ apart.
fn bounds_of_epilogues(dtype: DType, [m, k, _]: [usize; 3]) -> [Closeness; 4] {
    [k, 9, m, m].map(|n| Closeness::of_product(dtype, n))
}

fn epilogues_beside_products(dtype: DType, [m, k, n]: [usize; 3]) -> Case {
    Case::new(|b| {
        let x = data(b, "x", dtype, &[m, k]);
        let w = data(b, "w", dtype, &[k, n]);
        let bias = data(b, "bias", dtype, &[n]);
        let product = b.matmul(x, w);
        let wide = b.broadcast_like(bias, product);
        let biased = b.add(product, wide);
        let zero = b.full_like(biased, 0.0);
        let relu = b.binary(Binary::Max, biased, zero);
        let other = data(b, "other", dtype, &[m, n]);
        let product = b.matmul(x, w);
        let product = b.scale(product, 3.0 / (k as f64).sqrt());
        let mixed = b.mul(product, other);
        let mixed = b.unary(Unary::Tanh, mixed);
        let gradient = b.contract(x, other, Contract { batch: vec![], contracted: vec![(0, 0)] });
        let sums = b.sum(other, &[0]);
        vec![relu, mixed, gradient, sums]
    })
}

/// Ten bits of each factor's mantissa, summed in f32.
#[test]
fn products_in_tf32_agree_as_far_as_that_goes() {
    for [m, k, n] in [[128, 784, 256], [300, 64, 72]] {
        let case = Case::new(|b| {
            let (x, w) = (data(b, "x", DType::F32, &[m, k]), data(b, "w", DType::F32, &[k, n]));
            // The largest of these sums are about one, of which a thousandth is allowed: factors lose up to 2⁻¹⁰ each.
            let product = b.matmul(x, w);
            vec![b.scale(product, 0.7 / (k as f64).sqrt())]
        });
        Case { matmul: Precision::Tf32, ..case }.check(1e-3);
    }
}

/// Each has its memory, kernels and streams; what one has allocated is no memory of the other.
#[test]
fn devices_of_one_process_share_nothing() {
    for gpu in gpus() {
        let again: Arc<dyn Device> = match gpu.info().kind {
            DeviceKind::Cuda => Arc::new(CudaDevice::new(0).unwrap()),
            _ => Arc::new(
                WgpuDevice::new(Adapter::Gpu(0)).or_else(|_| WgpuDevice::new(Adapter::Software)).unwrap(),
            ),
        };
        let shape = [128, 96, 40];
        let case = epilogues_beside_products(DType::F32, shape);
        std::thread::scope(|scope| {
            for device in [gpu, &again] {
                let case = &case;
                let bounds = bounds_of_epilogues(DType::F32, shape);
                scope.spawn(move || case.check_within([device].into_iter(), &bounds));
            }
        });
        let plan = case.plan(&**gpu, true);
        let mut executable = gpu.prepare(Arc::clone(&plan), 7).unwrap();
        let foreign = again.allocate(case.inputs["x"].len()).unwrap();
        assert_eq!(executable.bind("x", &foreign), Err(DeviceError::ForeignBuffer));
    }
}

/// By the engine's own kernels, which take small products, and by a library, of whose algorithms some turn NaN into 0.
#[test]
fn a_relu_beside_a_product_keeps_nan() {
    let types = [
        (DType::F32, Precision::F32),
        (DType::F32, Precision::Tf32),
        (DType::F16, Precision::F32),
        (DType::BF16, Precision::F32),
    ];
    for (dtype, matmul) in types {
        for [m, k, n] in [[16, 32, 64], [64, 64, 64], [40, 72, 1028], [128, 784, 256]] {
            for is_biased in [true, false] {
                let case = Case { matmul, ..linear_with_relu(dtype, [m, k, n], is_biased, 2) };
                for gpu in gpus() {
                    let relu = case.run(&**gpu, true).unwrap().remove(0);
                    let is_nan: Vec<bool> = relu.iter().map(|x| x.is_nan()).collect();
                    let is_expected: Vec<bool> = (0..m * n).map(|i| i / n == 2).collect();
                    let name = gpu.info().name;
                    assert!(is_nan == is_expected, "{dtype} {matmul:?} {m}x{k}x{n} {is_biased} on {name}");
                }
            }
        }
    }
}

/// A library may split long sums, and must not keep the parts as halves: these overflow, and cancel each other.
#[test]
fn parts_of_sums_of_halves_are_kept_in_single_precision() {
    for [m, k, n] in [[64, 8192, 64], [40, 1028, 1028], [256, 4096, 32]] {
        for has_relu in [true, false] {
            let mut case = Case::new(|b| {
                let (x, w) = (data(b, "x", DType::F16, &[m, k]), data(b, "w", DType::F16, &[k, n]));
                let product = b.matmul(x, w);
                let zero = b.full_like(product, 0.0);
                vec![if has_relu { b.binary(Binary::Max, product, zero) } else { product }]
            });
            let values = (0..m * k).map(|i| if i % k < k / 2 { 64.0 } else { -64.0 });
            case.inputs.insert("x".into(), tensor(&Type::new(DType::F16, &[m, k]), values));
            let values = std::iter::repeat_n(64.0, k * n);
            case.inputs.insert("w".into(), tensor(&Type::new(DType::F16, &[k, n]), values));
            for gpu in gpus() {
                let found = case.run(&**gpu, true).unwrap().remove(0);
                let name = gpu.info().name;
                assert!(found.iter().all(|&x| x == 0.0), "{m}x{k}x{n} on {name}: {:?}", &found[..4]);
            }
        }
    }
}

/// One element of `x` in row `nan_row` is NaN.
fn linear_with_relu(dtype: DType, [m, k, n]: [usize; 3], is_biased: bool, nan_row: usize) -> Case {
    let mut case = Case::new(|b| {
        let (x, w) = (data(b, "x", dtype, &[m, k]), data(b, "w", dtype, &[k, n]));
        let mut product = b.matmul(x, w);
        if is_biased {
            let bias = data(b, "bias", dtype, &[n]);
            let wide = b.broadcast_like(bias, product);
            product = b.add(product, wide);
        }
        let zero = b.full_like(product, 0.0);
        vec![b.binary(Binary::Max, product, zero)]
    });
    // Of all ones, every float is NaN.
    let element = nan_row * k * dtype.size();
    case.inputs.get_mut("x").unwrap()[element..][..dtype.size()].fill(0xFF);
    case
}

#[test]
fn attention_to_selected_keys_agrees() {
    for (dtype, tolerance) in [(DType::F32, 1e-4), (DType::BF16, 2e-2)] {
        for (n_selected, depth, width) in [(2, 8, 8), (33, 20, 12), (300, 128, 128), (5000, 64, 40)] {
            selected_attention(dtype, n_selected, depth, width).check(tolerance);
        }
    }
}

fn selected_attention(dtype: DType, n_selected: usize, depth: usize, width: usize) -> Case {
    Case::new(|b| {
        let query = data(b, "query", dtype, &[6, 1, depth]);
        let (keys, values) = (data(b, "keys", dtype, &[11, depth]), data(b, "values", dtype, &[11, width]));
        let selected = data(b, "selected", DType::I32, &[6, n_selected]);
        let selected = b.check_index(selected, 11);
        let (keys, values) = (b.gather(keys, selected, 0, 0), b.gather(values, selected, 0, 0));
        let by = |left, right| Contract { batch: vec![(0, 0)], contracted: vec![(left, right)] };
        let scores = b.contract(query, keys, by(2, 2));
        let scores = b.cast(scores, DType::F32);
        let peak = b.reduce(Monoid::Max, scores, &[2]);
        let peak = b.unreduce(peak, &[2], scores);
        let shifted = b.sub(scores, peak);
        let weights = b.unary(Unary::Exp, shifted);
        let total = b.sum(weights, &[2]);
        let total = b.unreduce(total, &[2], weights);
        let weights = b.div(weights, total);
        let weights = b.cast(weights, dtype);
        vec![b.contract(weights, values, by(2, 1))]
    })
}

/// The results of an op with attributes.
fn called(b: &mut Builder, op: &str, x: Value, attrs: &[(&str, Attr)]) -> Vec<Value> {
    let attrs = attrs.iter().fold(Attrs::default(), |attrs, (name, value)| attrs.with(name, value.clone()));
    b.call(op, &[x], attrs).unwrap()
}

#[test]
fn sorts_and_selections_agree() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::U8] {
        let falls = [("descending", Attr::from(true))];
        let k = |k: i64| [("k", Attr::from(k)), ("largest", Attr::from(k % 2 == 0))];
        let check = |op: &str, extents: [usize; 2], attrs: &[(&'static str, Attr)]| {
            let called = |b: &mut Builder| {
                let x = data(b, "x", dtype, &extents);
                called(b, op, x, attrs)
            };
            Case::new(called).check(0.0);
        };
        let (short, long) = ([37, 50], [3, 40001]);
        check("sort_rows", short, &[]);
        check("sort_rows", long, &falls);
        check("topk_rows", short, &k(7));
        [64, 1024, 3001].into_iter().for_each(|n| check("topk_rows", long, &k(n)));
    }
}

#[test]
fn rows_of_a_product_are_folded_panel_by_panel() {
    for [batch, m, n] in [[1, 3000, 9001], [1, 1, 100_000], [2, 300, 30_000]] {
        Case::new(|b| {
            let (q, x) =
                (data(b, "q", DType::F32, &[batch, m, 40]), data(b, "x", DType::F32, &[batch, n, 40]));
            let squares = data(b, "squares", DType::F32, &[n]);
            let products = b.contract(q, x, Contract { batch: vec![(0, 0)], contracted: vec![(2, 2)] });
            let squares = b.broadcast_like(squares, products);
            let scores = b.map(&[products, squares], |v| v[1] - 2.0 * v[0]);
            // Products are rounded differently, so neighbours may change places: their values may not.
            let best =
                called(b, "topk_rows", scores, &[("k", Attr::from(18)), ("largest", Attr::from(false))]);
            vec![best[0]]
        })
        .check_within(gpus().iter(), &[Closeness::of_product(DType::F32, 40)]);
    }
    Case::new(|b| {
        let (q, x) = (data(b, "q", DType::F32, &[2000, 16]), data(b, "x", DType::F32, &[16, 8000]));
        let products = b.matmul(q, x);
        vec![b.reduce(Monoid::Max, products, &[1])]
    })
    .check_within(gpus().iter(), &[Closeness::of_product(DType::F32, 16)]);
}

#[test]
fn random_bits_are_the_same() {
    Case::new(|b| {
        let bits = b.random_bits("bits", &[1000]);
        let uniform = b.random_uniform("uniform", &[33, 7]);
        vec![bits, uniform]
    })
    .check(0.0);
}

// ---- Indices.

/// Few and many of them, of few and many rows, more than one of which has most.
#[test]
fn updates_in_the_order_of_their_indices_have_the_bits_of_the_cpu() {
    for [n_rows, n, columns] in [[10, 200, 48], [70_000, 3000, 3], [300, 70_000, 1], [40, 5000, 64]] {
        for (dtype, combine) in
            [(DType::F32, Combine::Add), (DType::F16, Combine::Add), (DType::F32, Combine::Set)]
        {
            let mut case = Case::new(|b| {
                let base = data(b, "base", dtype, &[n_rows, columns]);
                let updates = data(b, "updates", dtype, &[n, columns]);
                let idx = data(b, "idx", DType::I32, &[n]);
                let updates = b.add(updates, updates);
                vec![b.scatter(base, idx, updates, 0, 0, combine)]
            });
            let most = n_rows as f64 / 2.0;
            let row = |x: f64| if x < -0.5 { most } else { ((x + 0.5) * most).floor() };
            let rows = tensor(&Type::new(DType::I32, &[n]), noise(n, 9).map(row));
            case.inputs.insert("idx".to_string(), rows);
            Case { is_in_order: true, ..case }.check(0.0);
        }
    }
}

// ---- Shipped pipelines.

const ROWS: usize = 60_000;

fn load(file: &str) -> (Pipeline, Registry) {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let id = sources.add(file, std::fs::read_to_string(format!("graphs/{file}")).unwrap());
    let mut registry = Engine::new().registry;
    let pipeline = front::load(&mut sources, id, &mut registry, &[], &[], &mut diags);
    let pipeline = pipeline.unwrap_or_else(|| panic!("{}", diags.render(&sources, Look::Plain)));
    (pipeline, registry)
}

fn train_stage(pipeline: &Pipeline) -> &TrainStage {
    pipeline.stages.iter().find_map(Stage::get).unwrap()
}

fn training(file: &str, fuse: bool, device: &dyn Device) -> (Compiled, Pipeline) {
    let (pipeline, registry) = load(file);
    let fields =
        vec![("images".into(), Type::new(DType::U8, &[784])), ("labels".into(), Type::scalar(DType::U8))];
    let digits = SplitShape { data: "digits".into(), n_rows: ROWS, n_held: ROWS, fields };
    let rows = Rows::Batches { batch: 128, per_epoch: ROWS.div_ceil(128) };
    let step = stage::training(&pipeline, train_stage(&pipeline), &digits, rows, &registry).unwrap();
    let (abilities, n_streams) = (device.abilities(), device.n_streams());
    let options = Options { fuse, abilities, n_streams, ..Options::default() };
    (compile(&step.graph, &registry, &options), pipeline)
}

/// A training stage made ready on a device.
struct Trainer {
    executable: Box<dyn Executable>,
    buffers: HashMap<String, DeviceBuffer>,
    device: Arc<dyn Device>,
}

impl Trainer {
    fn new(file: &str, fuse: bool, device: Arc<dyn Device>) -> Trainer {
        let (compiled, pipeline) = training(file, fuse, &*device);
        let bytes = |n: usize, most: f64, seed| noise(n, seed).map(move |x| ((x + 1.0) / 2.0 * most) as u8);
        let plan = Arc::new(compiled.plan);
        let (executable, buffers) = bound(&*device, &plan, pipeline.seed, |name| match name {
            "digits.images" => Some(bytes(ROWS * 784, 256.0, 1).collect()),
            "digits.labels" => Some(bytes(ROWS, 10.0, 2).collect()),
            "order" => {
                Some((0..ROWS as i32).flat_map(|i| ((i * 7919) % ROWS as i32).to_le_bytes()).collect())
            }
            _ => {
                let param = pipeline.params.iter().find(|param| *param.name == *name)?;
                Some(initial_values(param, pipeline.seed).unwrap().bytes().to_vec())
            }
        })
        .unwrap();
        Trainer { executable, buffers, device }
    }

    fn losses(&mut self, n_steps: u32) -> Vec<f32> {
        let mut step = |step| {
            self.executable.run(step, 1).unwrap();
            let mut loss = [0; 4];
            self.executable.read_output("loss", &mut loss).unwrap();
            f32::from_le_bytes(loss)
        };
        (0..n_steps).map(&mut step).collect()
    }

    fn state(&self, name: &str) -> Vec<u8> {
        let mut bytes = vec![0; self.buffers[name].bytes()];
        self.device.read(&self.buffers[name], 0, &mut bytes).unwrap();
        bytes
    }
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    for (step, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= tolerance * y.abs(), "step {step}: {x} and {y}");
    }
}

#[test]
fn training_steps_have_the_losses_of_the_cpu() {
    for file in ["mnist.ron", "mnist_decomposed.ron"] {
        for (gpu, fuse) in gpus().iter().flat_map(|gpu| [(gpu, true), (gpu, false)]) {
            let on_gpu = Trainer::new(file, fuse, Arc::clone(gpu)).losses(20);
            let on_cpu = Trainer::new(file, fuse, cpu()).losses(20);
            // What a product over 784 is allowed: 1e-5·√784. Adam makes steps of the rate out of the smallest differences, so
            // later losses part.
            assert_close(&on_gpu, &on_cpu, 2.8e-4);
        }
    }
}

#[test]
fn many_steps_at_once_are_many_steps() {
    for gpu in gpus() {
        let mut one_by_one = Trainer::new("mnist.ron", true, Arc::clone(gpu));
        (0..36).for_each(|step| one_by_one.executable.run(step, 1).unwrap());
        let mut at_once = Trainer::new("mnist.ron", true, Arc::clone(gpu));
        at_once.executable.run(0, 36).unwrap();
        for name in ["w1", "b1", "w2", "b2"] {
            assert_eq!(one_by_one.state(name), at_once.state(name), "{name}");
        }
    }
}

/// Thousands, for which CUDA makes graphs of hundreds.
#[test]
fn every_one_of_thousands_of_steps_has_its_number() {
    let case = Case::of({
        let registry = Registry::new();
        let mut builder = Builder::new(Graph::new("case"), &registry);
        let b = &mut builder;
        let sum = b.input("sum", InputKind::Param, Type::new(DType::F32, &[64]));
        let kept = b.full_like(sum, 0.9999);
        let kept = b.mul(sum, kept);
        let drawn = b.random_uniform("drawn", &[64]);
        let next = b.add(kept, drawn);
        b.graph.state = vec![StateLink { input: sum.node, next }];
        builder.graph.pruned()
    });
    let sums = |device: &dyn Device, runs: &[(u32, u32)]| {
        let (mut executable, buffers) = bound(device, &case.plan(device, true), 7, |_| None).unwrap();
        runs.iter().for_each(|&(first, n_steps)| executable.run(first, n_steps).unwrap());
        let mut bytes = vec![0; 4 * 64];
        device.read(&buffers["sum"], 0, &mut bytes).unwrap();
        bytes
    };
    // Going back ends it: what comes next is not always what was numbered ahead. Runs that end alike get a graph for that.
    let by_sixteen: Vec<_> = (0..375).map(|i| (16 * i, 16)).chain([(3, 320), (323, 20)]).collect();
    let by_hundred: Vec<_> = (0..60).map(|i| (100 * i, 100)).chain([(3, 340)]).collect();
    for gpu in gpus() {
        let expected = sums(&**gpu, &by_sixteen);
        assert_eq!(sums(&**gpu, &[(0, 5130), (5130, 870), (3, 340)]), expected);
        assert_eq!(sums(&**gpu, &by_hundred), expected);
    }
}

#[test]
fn a_profile_names_every_launch() {
    for gpu in gpus() {
        let mut trainer = Trainer::new("mnist.ron", true, Arc::clone(gpu));
        trainer.executable.run(0, 3).unwrap();
        let times = trainer.executable.profile(3).unwrap();
        assert_eq!(times.len(), training("mnist.ron", true, &**gpu).0.plan.launches.len());
        // The emulated ones are slow.
        assert!(times.iter().all(|time| time.seconds > 0.0 && time.seconds < 5.0), "{times:?}");
    }
}
