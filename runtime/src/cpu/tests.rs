//! Plans on the CPU against the oracle, fused and unfused, on one, two and three threads.

#![allow(clippy::unwrap_used)]

mod attention;
mod attention_tiles;
mod convolution;
mod indices;
mod matmuls;
mod rows;
mod scatter;
mod sections;

use super::CpuDevice;
use crate::device::{Device, DeviceBuffer, Executable};
use crate::tensor::HostTensor;
use engine_core::fusion::fuse;
use engine_core::ir::*;
use engine_core::lower::primitives;
use engine_core::op::Registry;
use engine_core::oracle::{Oracle, OracleTensor};
use engine_core::plan::{Plan, plan, separate_states};
use std::collections::HashMap;
use std::sync::Arc;

const SEED: u64 = 0x1234_5678_9abc_def0;

fn graph(build: impl FnOnce(&mut Builder)) -> Graph {
    let registry = Registry::new();
    let mut builder = Builder::new(Graph::new("test"), &registry);
    build(&mut builder);
    primitives(&builder.graph.pruned(), &registry)
}

fn ty(dtype: DType, extents: &[usize]) -> Type {
    Type::new(dtype, extents)
}

fn data(b: &mut Builder, name: &str, dtype: DType, extents: &[usize]) -> Value {
    b.input(name, InputKind::Data, ty(dtype, extents))
}

fn f32s(b: &mut Builder, name: &str, extents: &[usize]) -> Value {
    data(b, name, DType::F32, extents)
}

fn output(b: &mut Builder, name: &str, value: Value) {
    b.graph.outputs.push((name.into(), value));
}

/// Pseudorandom numbers in -2..2; integers in 0..7.
fn numbers(name: &str, ty: &Type) -> Vec<f64> {
    let salt = name.bytes().fold(7u64, |salt, byte| salt * 31 + byte as u64);
    let number = |i: usize| {
        let mixed = (i as u64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match ty.dtype.is_float() {
            true => (mixed as f32 / (1 << 22) as f32 - 2.0) as f64,
            false => (mixed % 7) as f64,
        }
    };
    (0..ty.numel()).map(number).collect()
}

/// The bytes of a tensor of numbers.
fn bytes_of(ty: &Type, numbers: &[f64]) -> Vec<u8> {
    let literal = |&x: &f64| super::interp::view::literal_bits(&Literal::Float(x), ty.dtype).to_le_bytes();
    numbers.iter().flat_map(|x| literal(x)[..ty.dtype.size()].to_vec()).collect()
}

fn numbers_of(ty: &Type, bytes: &[u8]) -> Vec<f64> {
    HostTensor::from_bytes(ty.dtype, &ty.extents(), bytes).unwrap().to_f64()
}

/// A plan on the device, with its inputs.
struct Run {
    device: CpuDevice,
    executable: Box<dyn Executable>,
    buffers: HashMap<String, (Type, DeviceBuffer)>,
    plan: Arc<Plan>,
}

impl Run {
    fn new(graph: &Graph, fused: bool, n_threads: usize, given: &HashMap<String, Vec<f64>>) -> Run {
        let graph = separate_states(graph);
        let plan = Arc::new(plan(&graph, fuse(&graph, fused).kernels, 1));
        let device = CpuDevice::new(Some(n_threads)).unwrap();
        let mut executable = device.prepare(Arc::clone(&plan), SEED).unwrap();
        let mut buffers = HashMap::new();
        for (node, kind) in graph.inputs().filter(|(_, kind)| *kind != InputKind::Step) {
            let (name, ty) = (graph.nodes[node].name().to_string(), graph.ty(Value::of(node)).clone());
            let buffer = device.allocate(ty.bytes()).unwrap();
            let numbers = given.get(&name).cloned().unwrap_or_else(|| match kind {
                InputKind::State => vec![0.0; ty.numel()],
                _ => numbers(&name, &ty),
            });
            device.write(&buffer, 0, &bytes_of(&ty, &numbers)).unwrap();
            executable.bind(&name, &buffer).unwrap();
            buffers.insert(name, (ty, buffer));
        }
        Run { device, executable, buffers, plan }
    }

    fn output(&self, name: &str) -> Vec<u8> {
        let (_, id) = self.plan.outputs.iter().find(|(output, _)| &**output == name).unwrap();
        let mut bytes = vec![0; self.plan.buffers[*id].ty.bytes()];
        self.executable.read_output(name, &mut bytes).unwrap();
        bytes
    }

    fn state(&self, name: &str) -> Vec<u8> {
        let (ty, buffer) = &self.buffers[name];
        let mut bytes = vec![0; ty.bytes()];
        self.device.read(buffer, 0, &mut bytes).unwrap();
        bytes
    }
}

/// Runs two steps and compares all outputs and states with the oracle, to `tolerance` relative to one more than the
/// magnitude. All thread counts must give the same bits.
fn check_given(graph: &Graph, tolerance: f64, given: &[(&str, Vec<f64>)]) {
    let given: HashMap<String, Vec<f64>> =
        given.iter().map(|(name, x)| (name.to_string(), x.clone())).collect();
    let registry = Registry::new();
    let mut inputs: HashMap<String, OracleTensor> = HashMap::new();
    for (node, kind) in graph.inputs().filter(|(_, kind)| *kind != InputKind::Step) {
        let (name, ty) = (graph.nodes[node].name(), graph.ty(Value::of(node)));
        let own = || if kind == InputKind::State { vec![0.0; ty.numel()] } else { numbers(name, ty) };
        let numbers = given.get(&**name).cloned().unwrap_or_else(own);
        let stored = numbers_of(ty, &bytes_of(ty, &numbers));
        inputs.insert(name.to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &stored));
    }
    let mut exact = None;
    for step in 5..7 {
        let run = Oracle::new(&registry).run(graph, &inputs, SEED, step).unwrap();
        inputs.extend(run.state.iter().map(|(name, tensor)| (name.to_string(), tensor.clone())));
        exact = Some(run);
    }
    let exact = exact.unwrap();
    for fused in [true, false] {
        let mut first: Option<Vec<Vec<u8>>> = None;
        for n_threads in [1, 2, 3] {
            let mut run = Run::new(graph, fused, n_threads, &given);
            run.executable.run(5, 2).unwrap();
            let outputs = exact.outputs.iter().map(|(name, tensor)| (name, tensor, run.output(name)));
            let states = exact.state.iter().map(|(name, tensor)| (name, tensor, run.state(name)));
            let mut all = vec![];
            for (name, tensor, bytes) in outputs.chain(states) {
                let what =
                    format!("`{name}`, {} on {n_threads} threads", if fused { "fused" } else { "unfused" });
                assert_close(&numbers_of(&tensor.ty(), &bytes), tensor, tolerance, &what);
                all.push(bytes);
            }
            assert!(first.get_or_insert_with(|| all.clone()) == &all, "bits depend on the number of threads");
        }
    }
}

fn assert_close(got: &[f64], exact: &OracleTensor, tolerance: f64, what: &str) {
    let tolerance = match exact.dtype {
        DType::F32 => tolerance.max(1e-7),
        dtype => tolerance * dtype.is_float() as u8 as f64,
    };
    for (i, &got) in got.iter().enumerate() {
        let exact = exact.float(i);
        let is_close = (got - exact).abs() <= tolerance * (1.0 + exact.abs()) || got == exact;
        assert!(is_close || got.is_nan() && exact.is_nan(), "{what}: {got} for {exact} at {i}");
    }
}

fn check(tolerance: f64, build: impl FnOnce(&mut Builder)) {
    check_given(&graph(build), tolerance, &[]);
}

fn softmax(b: &mut Builder, x: Value, axis: usize) -> Value {
    let m = b.reduce(Monoid::Max, x, &[axis]);
    let m = b.unreduce(m, &[axis], x);
    let shifted = b.sub(x, m);
    let e = b.unary(Unary::Exp, shifted);
    let s = b.sum(e, &[axis]);
    let s = b.unreduce(s, &[axis], x);
    b.div(e, s)
}

// ---- Maps.

#[test]
fn a_chain_of_maps_over_more_points_than_a_chunk() {
    for n in [1, 255, 4096, 40_000, 70_001] {
        check(1e-6, |b| {
            let (x, g) = (f32s(b, "x", &[n]), f32s(b, "g", &[n]));
            let a = f32s(b, "a", &[]);
            let y = b.mul(x, a);
            let y = b.add(y, a);
            let y = b.unary(Unary::Tanh, y);
            let y = b.mul(y, g);
            output(b, "y", y);
            let positive = b.binary(Binary::Gt, y, g);
            output(b, "positive", positive);
        });
    }
}

#[test]
fn operands_that_broadcast_transpose_slice_and_pad() {
    check(1e-6, |b| {
        let x = f32s(b, "x", &[37, 50]);
        let row = f32s(b, "row", &[50]);
        let column = f32s(b, "column", &[37]);
        let t = f32s(b, "t", &[50, 37]);
        let row = b.broadcast_like(row, x);
        let column = b.unreduce(column, &[1], x);
        let t = b.permute(t, &[1, 0]);
        let y = b.mul(x, row);
        let y = b.add(y, column);
        let y = b.sub(y, t);
        let part = b.slice(y, &[30, 1], &[10, 20], &[-3, 2]);
        let padded = b.pad(part, &[2, 0], &[0, 3], Literal::Float(-7.5));
        let flat = b.reshape(padded, &[12 * 23]);
        let doubled = b.add(flat, flat);
        output(b, "y", y);
        output(b, "doubled", doubled);
    });
}

#[test]
fn every_type_is_computed_in_its_own_arithmetic() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_int()) {
        check(0.0, |b| {
            let (x, y) = (data(b, "x", dtype, &[300]), data(b, "y", dtype, &[300]));
            let sum = b.add(x, y);
            let product = b.mul(sum, sum);
            let three = b.full_like(x, 3.0);
            let shifted = b.binary(Binary::Shl, product, three);
            let rest = b.binary(Binary::Rem, shifted, three);
            let smaller = b.binary(Binary::Min, rest, y);
            output(b, "smaller", smaller);
            let wide = b.cast(shifted, DType::F64);
            output(b, "wide", wide);
            let nonzero = b.cast(x, DType::Bool);
            let zero = b.unary(Unary::Not, nonzero);
            let picked = b.scalar(Scalar::Select, &[zero, y, x]);
            output(b, "picked", picked);
        });
    }
    for (dtype, tolerance) in [(DType::F64, 1e-14), (DType::F16, 4e-3), (DType::BF16, 3e-2)] {
        check(tolerance, |b| {
            let (x, y) = (data(b, "x", dtype, &[300]), data(b, "y", dtype, &[300]));
            let product = b.mul(x, y);
            let sum = b.add(product, x);
            let shape = b.unary(Unary::Erf, sum);
            output(b, "shape", shape);
            let single = b.cast(shape, DType::F32);
            output(b, "single", single);
            let double = b.cast(shape, DType::F64);
            output(b, "double", double);
            let total = b.sum(shape, &[0]);
            output(b, "total", total);
        });
    }
}

#[test]
fn infinities_and_nan_are_kept() {
    let graph = graph(|b| {
        let x = f32s(b, "x", &[8]);
        let zero = b.full_like(x, 0.0);
        let relu = b.binary(Binary::Max, x, zero);
        output(b, "relu", relu);
        let is_nan = b.unary(Unary::IsNan, x);
        output(b, "is_nan", is_nan);
        let largest = b.reduce(Monoid::Max, x, &[0]);
        output(b, "largest", largest);
        let at = b.reduce(Monoid::ArgMax, x, &[0]);
        output(b, "at", at);
        let cut = b.cast(x, DType::I32);
        output(b, "cut", cut);
    });
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    check_given(&graph, 0.0, &[("x", vec![1.0, -inf, inf, nan, -2.5, nan, 1e30, 0.0])]);
    check_given(&graph, 0.0, &[("x", vec![1.0, -inf, 3.0, 3.0, -2.5, 2.0, 1.5, 0.0])]);
}

#[test]
fn random_numbers_are_those_of_the_oracle_through_any_view() {
    check(1e-6, |b| {
        let bits = b.random_bits("bits", &[70, 33]);
        output(b, "bits", bits);
        let turned = b.permute(bits, &[1, 0]);
        let turned = b.add(turned, turned);
        output(b, "turned", turned);
        let uniform = b.random_uniform("uniform", &[5000]);
        let log = b.unary(Unary::Log, uniform);
        output(b, "log", log);
    });
}

/// Parts over a tensor as a sum of padded ones. Zeros have the sign that this sum gives them.
#[test]
fn sums_of_padded_parts() {
    let names: Vec<String> = (0..12).map(|i| format!("part{i}")).collect();
    let graph = graph(|b| {
        let mut sum = f32s(b, "whole", &[20, 12, 200]);
        for (i, name) in names.iter().enumerate() {
            let part = f32s(b, name, &[20, 1, 200]);
            let part = b.pad(part, &[0, i, 0], &[0, 11 - i, 0], Literal::Float(0.0));
            sum = b.add(sum, part);
        }
        output(b, "sum", sum);
        let columns = b.sum(sum, &[0, 1]);
        output(b, "columns", columns);
    });
    check_given(&graph, 1e-5, &[]);
    let mut given: HashMap<String, Vec<f64>> =
        names.iter().map(|name| (name.clone(), vec![-0.0; 20 * 200])).collect();
    given.insert("whole".into(), vec![-0.0; 20 * 12 * 200]);
    let mut run = Run::new(&graph, true, 2, &given);
    run.executable.run(5, 1).unwrap();
    assert!(run.output("sum").iter().all(|&byte| byte == 0));
}

// ---- Rows.

#[test]
fn softmax_along_short_long_and_very_long_rows() {
    for extents in [[1000, 1], [333, 10], [70, 255], [40, 256], [9, 4097], [3, 20_000], [1, 200_000]] {
        check(2e-6, |b| {
            let x = f32s(b, "x", &extents);
            let y = softmax(b, x, 1);
            output(b, "y", y);
        });
    }
}

#[test]
fn softmax_across_rows() {
    for extents in [[1, 300], [10, 3], [1000, 7], [2000, 130], [50, 1500], [9000, 2]] {
        check(2e-6, |b| {
            let x = f32s(b, "x", &extents);
            let y = softmax(b, x, 0);
            output(b, "y", y);
        });
    }
    check(2e-6, |b| {
        let x = f32s(b, "x", &[5, 40, 6]);
        let y = softmax(b, x, 1);
        output(b, "y", y);
    });
}

#[test]
fn every_reduction_along_every_axis() {
    for extents in [[3, 5, 4], [2, 300, 140], [300, 4, 1], [1, 70_000, 1], [1, 1500, 130]] {
        for axis in 0..3 {
            check(1e-5, |b| {
                let x = f32s(b, "x", &extents);
                // Products stay near one.
                let damped = b.scale(x, 1e-3);
                let one = b.full_like(x, 1.0);
                let near_one = b.add(damped, one);
                // Sums do not cancel.
                let square = b.mul(x, x);
                for monoid in Monoid::ALL {
                    let of = match monoid {
                        Monoid::Prod => near_one,
                        Monoid::Sum => square,
                        _ => x,
                    };
                    let reduced = b.reduce(monoid, of, &[axis]);
                    output(b, monoid.name(), reduced);
                }
            });
        }
    }
}

#[test]
fn a_sum_of_everything_is_accurate_and_has_one_order() {
    check(3e-6, |b| {
        let x = f32s(b, "x", &[1 << 20]);
        let square = b.mul(x, x);
        let total = b.mean(square, &[0]);
        output(b, "total", total);
    });
}

#[test]
fn integer_reductions_wrap_and_empty_sums_are_zero() {
    check(0.0, |b| {
        let x = data(b, "x", DType::I32, &[40, 500]);
        let big = b.scale(x, 1e8);
        let rows = b.sum(big, &[1]);
        output(b, "rows", rows);
        let best = b.reduce(Monoid::ArgMin, x, &[0]);
        output(b, "best", best);
        let empty = f32s(b, "empty", &[4, 0]);
        let nothing = b.sum(empty, &[1]);
        output(b, "nothing", nothing);
    });
}

#[test]
fn row_values_reach_every_point() {
    for extents in [[300, 10], [20, 700], [3, 40_000]] {
        check(2e-6, |b| {
            let x = f32s(b, "x", &extents);
            let scale = f32s(b, "scale", &[extents[0]]);
            let inverse = b.unary(Unary::Recip, scale);
            let mean = b.mean(x, &[1]);
            let shift = b.mul(mean, inverse);
            let shift = b.unreduce(shift, &[1], x);
            let y = b.add(x, shift);
            output(b, "y", y);
            output(b, "mean", mean);
        });
    }
}
