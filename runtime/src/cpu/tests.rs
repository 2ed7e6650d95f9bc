//! Plans on the CPU against the oracle, fused and unfused, on one, two and three threads.

#![allow(clippy::unwrap_used)]

mod attention;
mod scatter;

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

mod rows;

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

/// Numbers in -2..2 that look arbitrary; integers in 0..7.
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

/// Bytes of a tensor of numbers.
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

/// Runs two steps and compares all outputs and states with the oracle's, to `tolerance` relative to one more than the
/// magnitude; thread counts must agree to the bit.
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
    for dtype in [DType::U8, DType::I32, DType::I64, DType::U32] {
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
fn infinities_and_nan_pass_through() {
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
fn random_numbers_are_those_of_the_oracle_however_they_are_read() {
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
fn what_varies_by_row_alone_reaches_every_point() {
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

// ---- Indices.

#[test]
fn gathers_of_rows_and_of_elements() {
    for width in [1, 10, 300] {
        check(1e-6, |b| {
            let source = f32s(b, "source", &[7, width]);
            let idx = data(b, "idx", DType::I32, &[90]);
            let idx = b.check_index(idx, 7);
            let rows = b.gather(source, idx, 0, 0);
            let rows = b.unary(Unary::Exp, rows);
            output(b, "rows", rows);
        });
    }
    check(1e-6, |b| {
        let source = f32s(b, "source", &[20, 7]);
        let idx = data(b, "idx", DType::I64, &[20, 3]);
        let picked = b.gather(source, idx, 1, 1);
        let picked = b.add(picked, picked);
        output(b, "picked", picked);
        let across = data(b, "across", DType::U8, &[5]);
        let columns = b.gather(source, across, 1, 0);
        let total = b.sum(columns, &[1]);
        output(b, "total", total);
    });
}

#[test]
fn scatters_in_the_order_of_indices() {
    for (combine, extents) in [(Combine::Add, [7, 300]), (Combine::Add, [20, 1]), (Combine::Set, [9, 5])] {
        for dtype in [DType::F32, DType::I32, DType::F16] {
            check(1e-2, |b| {
                let base = data(b, "base", dtype, &extents);
                let idx = data(b, "idx", DType::I32, &[60]);
                let updates = data(b, "updates", dtype, &[60, extents[1]]);
                let out = b.scatter(base, idx, updates, 0, 0, combine);
                output(b, "out", out);
            });
        }
    }
    check(1e-6, |b| {
        let base = f32s(b, "base", &[3, 4, 8]);
        let idx = data(b, "idx", DType::I32, &[3, 5]);
        let updates = f32s(b, "updates", &[3, 4, 5]);
        let out = b.scatter(base, idx, updates, 2, 1, Combine::Add);
        output(b, "out", out);
    });
}

#[test]
fn scans_along_any_axis() {
    for (axis, monoid) in [(0, Monoid::Sum), (1, Monoid::Prod), (2, Monoid::Max), (1, Monoid::Min)] {
        check(1e-5, |b| {
            let x = f32s(b, "x", &[6, 8, 300]);
            let extents = ty(DType::F32, &[6, 8, 300]);
            let y = b.push(NodeOp::Scan { monoid, axis }, vec![x], extents);
            output(b, "y", y);
        });
    }
}

/// What the oracle says is wrong with a graph's data.
fn violation(graph: &Graph, given: &[(&str, Vec<f64>)]) -> String {
    let registry = Registry::new();
    let mut inputs: HashMap<String, OracleTensor> = HashMap::new();
    for (node, _) in graph.inputs().filter(|(_, kind)| *kind != InputKind::Step) {
        let (name, ty) = (graph.nodes[node].name(), graph.ty(Value::of(node)));
        let given = given.iter().find(|(known, _)| *known == &**name).map(|(_, numbers)| numbers.clone());
        let numbers = given.unwrap_or_else(|| numbers(name, ty));
        inputs.insert(name.to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &numbers));
    }
    Oracle::new(&registry).run(graph, &inputs, SEED, 0).unwrap_err().to_string()
}

/// The position is that in the index tensor, whatever kernel looks at it: beside the gather of whole rows, behind a
/// transposition, in reverse.
#[test]
fn the_position_of_a_bad_index_is_its_own() {
    let graph = graph(|b| {
        let table = f32s(b, "table", &[7, 4]);
        let idx = data(b, "idx", DType::I32, &[6, 5]);
        let checked = b.check_index(idx, 7);
        let turned = b.permute(checked, &[1, 0]);
        let rows = b.gather(table, turned, 0, 0);
        let doubled = b.add(rows, rows);
        output(b, "doubled", doubled);
    });
    let mut idx = vec![3.0; 30];
    (idx[29], idx[13]) = (9.0, 7.0);
    let expected = violation(&graph, &[("idx", idx.clone())]);
    assert!(expected.ends_with("`: index 7 at position 13 is not in 0..7"), "{expected}");
    let given = HashMap::from([("idx".to_string(), idx)]);
    for (fused, n_threads) in [(true, 1), (true, 3), (false, 2)] {
        let mut run = Run::new(&graph, fused, n_threads, &given);
        assert_eq!(run.executable.run(0, 1).unwrap_err().to_string(), expected, "fused: {fused}");
    }
}

#[test]
fn integers_divided_by_zero_are_told_and_floats_are_not() {
    let graph = graph(|b| {
        let a = data(b, "a", DType::I32, &[300]);
        let d = data(b, "d", DType::I32, &[300]);
        let quotient = b.div(a, d);
        let three = b.full_like(a, 3.0);
        let rest = b.binary(Binary::Rem, quotient, three);
        output(b, "rest", rest);
        let x = f32s(b, "x", &[300]);
        let zero = b.full_like(x, 0.0);
        let infinite = b.div(x, zero);
        output(b, "infinite", infinite);
    });
    let mut d = vec![2.0; 300];
    let run = |fused, d: &[f64]| {
        let given = HashMap::from([("d".to_string(), d.to_vec())]);
        Run::new(&graph, fused, 2, &given).executable.run(0, 1)
    };
    assert_eq!((run(true, &d), run(false, &d)), (Ok(()), Ok(())));
    (d[290], d[41]) = (0.0, 0.0);
    let expected = violation(&graph, &[("d", d.clone())]);
    assert!(expected.ends_with("`: the divisor at position 41 is 0"), "{expected}");
    for fused in [true, false] {
        assert_eq!(run(fused, &d).unwrap_err().to_string(), expected);
    }
}

#[test]
fn an_index_out_of_range_is_told_and_no_state_is_written() {
    let graph = graph(|b| {
        let table = b.input("table", InputKind::Param, ty(DType::F32, &[7, 4]));
        let idx = data(b, "idx", DType::I32, &[50]);
        let checked = b.check_index(idx, 7);
        let rows = b.gather(table, checked, 0, 0);
        let total = b.sum(rows, &[0]);
        let total = b.broadcast_dims(total, &[7usize.into(), 4usize.into()]);
        let next = b.add(table, total);
        output(b, "rows", rows);
        b.graph.state.push(StateLink { input: table.node, next });
        let weights = b.input("weights", InputKind::State, ty(DType::F32, &[50]));
        let picked = b.cast(checked, DType::F32);
        let next = b.add(weights, picked);
        b.graph.state.push(StateLink { input: weights.node, next });
    });
    let mut idx = vec![3.0; 50];
    (idx[41], idx[12]) = (9.0, -2.0);
    let expected = violation(&graph, &[("idx", idx.clone())]);
    assert!(expected.ends_with("`: index -2 at position 12 is not in 0..7"), "{expected}");
    let given = HashMap::from([("idx".to_string(), idx)]);
    for (fused, n_threads) in [(true, 1), (true, 2), (false, 2)] {
        let mut run = Run::new(&graph, fused, n_threads, &given);
        let (table, weights) = (run.state("table"), run.state("weights"));
        let error = run.executable.run(0, 3).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(run.state("table") == table && run.state("weights") == weights, "state was written");
    }
}

// ---- Contractions.

#[test]
fn products_with_bias_and_activation() {
    for [m, n, k] in [[1, 1, 1], [128, 10, 256], [33, 300, 70], [130, 520, 40], [5, 7, 0]] {
        check(2e-5, |b| {
            let (x, w) = (f32s(b, "x", &[m, k]), f32s(b, "w", &[k, n]));
            let bias = f32s(b, "bias", &[n]);
            let y = b.matmul(x, w);
            output(b, "bare", y);
            let z = b.add(y, bias);
            let zero = b.full_like(z, 0.0);
            let h = b.binary(Binary::Max, z, zero);
            output(b, "h", h);
        });
    }
}

#[test]
fn products_of_every_layout_and_type() {
    let layouts = [(0, 1), (1, 0)];
    for dtype in [DType::F32, DType::F64, DType::F16, DType::I32] {
        for (l, r) in layouts.into_iter().flat_map(|l| layouts.map(|r| (l, r))) {
            check(if dtype == DType::F16 { 2e-2 } else { 2e-5 }, |b| {
                let shape = |free: usize, at: usize| if at == 0 { [20, free] } else { [free, 20] };
                let x = data(b, "x", dtype, &shape(30, l.0));
                let y = data(b, "y", dtype, &shape(40, r.0));
                let spec = Contract { batch: vec![], contracted: vec![(l.0, r.0)] };
                let product = b.contract(x, y, spec);
                let moved = b.add(product, product);
                output(b, "moved", moved);
            });
        }
    }
    check(2e-5, |b| {
        let (x, y) = (f32s(b, "x", &[3, 20, 30]), f32s(b, "y", &[3, 30, 8]));
        let spec = Contract { batch: vec![(0, 0)], contracted: vec![(2, 1)] };
        let product = b.contract(x, y, spec);
        let half = b.scale(product, 0.5);
        output(b, "half", half);
    });
}

#[test]
fn a_bias_gradient_beside_its_weight_gradient() {
    for [batch, n, m] in [[128, 256, 784], [40, 10, 33]] {
        check(2e-5, |b| {
            let (x, g) = (f32s(b, "x", &[batch, m]), f32s(b, "g", &[batch, n]));
            let g = b.unary(Unary::Sin, g);
            output(b, "g", g);
            let dw = b.contract(x, g, Contract { batch: vec![], contracted: vec![(0, 0)] });
            let db = b.sum(g, &[0]);
            output(b, "dw", dw);
            output(b, "db", db);
        });
    }
}

// ---- Steps.

/// A training step of a 784-256-10 network with momentum.
fn network_step(batch: usize) -> Graph {
    graph(|b| {
        let images = data(b, "images", DType::U8, &[1000, 784]);
        let labels = data(b, "labels", DType::U8, &[1000]);
        let shapes: [(&str, &[usize]); 4] =
            [("w1", &[784, 256]), ("b1", &[256]), ("w2", &[256, 10]), ("b2", &[10])];
        let params = shapes.map(|(name, shape)| b.input(name, InputKind::Param, ty(DType::F32, shape)));
        let [w1, b1, w2, b2] = params;
        let step = b.step();
        let at = b.scale(step, batch as f64);
        let i = b.iota(0, ty(DType::I32, &[batch]));
        let rows = b.add(at, i);
        let n_rows = b.full_like(rows, 1000.0);
        let rows = b.binary(Binary::Rem, rows, n_rows);
        let x = b.gather(images, rows, 0, 0);
        let x = b.cast(x, DType::F32);
        let x = b.scale(x, 1.0 / 255.0);
        let label = b.gather(labels, rows, 0, 0);
        let label = b.cast(label, DType::I32);
        let pre = b.matmul(x, w1);
        let pre = b.add(pre, b1);
        let zero = b.full_like(pre, 0.0);
        let h = b.binary(Binary::Max, pre, zero);
        let logits = b.matmul(h, w2);
        let logits = b.add(logits, b2);
        let p = softmax(b, logits, 1);
        let classes = b.iota(1, ty(DType::I32, &[batch, 10]));
        let label_b = b.broadcast_axes(label, &[0], &[batch.into(), 10usize.into()]);
        let hit = b.binary(Binary::Eq, classes, label_b);
        let hit = b.cast(hit, DType::F32);
        let log = b.unary(Unary::Log, p);
        let nll = b.mul(log, hit);
        let loss = b.sum(nll, &[0, 1]);
        output(b, "loss", loss);
        let d = b.sub(p, hit);
        let d = b.scale(d, 1.0 / batch as f64);
        let contracted = |l, r| Contract { batch: vec![], contracted: vec![(l, r)] };
        let db2 = b.sum(d, &[0]);
        let dw2 = b.contract(h, d, contracted(0, 0));
        let dh = b.contract(d, w2, contracted(1, 1));
        let mask = b.binary(Binary::Gt, h, zero);
        let dh = b.scalar(Scalar::Select, &[mask, dh, zero]);
        let db1 = b.sum(dh, &[0]);
        let dw1 = b.contract(x, dh, contracted(0, 0));
        for ((param, grad), (name, shape)) in params.into_iter().zip([dw1, db1, dw2, db2]).zip(shapes) {
            let moment = b.input(&format!("{name}.m"), InputKind::State, ty(DType::F32, shape));
            let m = b.scale(moment, 0.9);
            let m = b.add(m, grad);
            let delta = b.scale(m, 0.01);
            let next = b.sub(param, delta);
            b.graph.state.push(StateLink { input: param.node, next });
            b.graph.state.push(StateLink { input: moment.node, next: m });
        }
    })
}

#[test]
fn a_training_step_of_a_network() {
    let weights =
        |n: usize, scale: f64| numbers("w", &ty(DType::F32, &[n])).iter().map(|w| w * scale).collect();
    let given = [("w1", weights(784 * 256, 0.03)), ("w2", weights(2560, 0.05))];
    check_given(&network_step(32), 2e-4, &given);
}
