#![allow(clippy::unwrap_used)]
//! Attention on tensor cores: its text on the host against sums in `f64`, and the attentions that it takes.

use super::online_softmax::guarded;
use super::products::{dtype_bytes, rounded};
use super::*;
use crate::compile::{Options, compile};
use crate::ir::{E, MatmulSpec};

/// Shapes and type of an attention: matrices, queries, keys, and columns of a query and of a value.
#[derive(Clone, Copy)]
pub struct Attention {
    pub shape: [usize; 5],
    pub dtype: DType,
}

/// Positions of a score: matrix, query and key.
pub type Place = [usize; 3];

pub fn by(l: usize, r: usize) -> MatmulSpec {
    MatmulSpec::new(vec![(0, 0)], vec![(l, r)])
}

pub fn input(b: &mut Builder, name: &str, dtype: DType, extents: &[usize]) -> Value {
    b.input(name, InputKind::Data, TensorType::new(dtype, extents))
}

/// Both kinds of tensor cores.
const DEVICES: [DeviceModel; 2] = [DeviceModel::H200, DeviceModel::A100];

/// The kernels of a graph on a GPU with tensor cores.
pub fn kernels(device: DeviceModel, build: impl FnOnce(&mut Builder)) -> Vec<Kernel> {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("attention"), &registry);
    build(&mut b);
    let options = Options { device, ..Options::default() };
    compile(&b.graph.pruned(), &registry, &options).plan.kernels
}

pub fn kinds(kernels: &[Kernel]) -> Vec<&'static str> {
    kernels.iter().map(Kernel::kind).collect()
}

/// `guarded(scores(q · kᵀ)) · v`
pub fn attend(
    b: &mut Builder,
    [q, k, v]: [Value; 3],
    scores: impl FnOnce(&mut Builder, Value) -> Value,
) -> Value {
    let products = b.matmul_wide(q, k, by(2, 2));
    let scores = scores(b, products);
    let weights = guarded(b, scores);
    let weights = b.cast(weights, b.dtype(v));
    b.matmul(weights, v, by(2, 1))
}

/// The coordinates of queries and keys; queries count from 0 again after `period` rows.
fn coordinates(b: &mut Builder, x: Value, period: usize) -> [Value; 2] {
    let extents = b.extents(x);
    let split = TensorType::new(DType::I32, &[extents[0], extents[1] / period, period, extents[2]]);
    [2, 3].map(|axis| {
        let coordinate = b.iota(axis, split.clone());
        b.reshape(coordinate, &extents)
    })
}

/// Hides keys more than `after` after their query, and those `before` or more before it.
pub fn banded(b: &mut Builder, x: Value, after: i64, before: i64) -> Value {
    let period = b.extents(x)[1];
    banded_in(b, x, period, after, before)
}

/// The same, where queries count from 0 again after `period` rows.
pub fn banded_in(b: &mut Builder, x: Value, period: usize, after: i64, before: i64) -> Value {
    let [query, key] = coordinates(b, x, period);
    b.map(&[query, key, x], |v| {
        let seen = v[1].le(v[0] + E::from(after)) & (v[0] - v[1]).lt(E::from(before));
        E::select(seen, v[2], f64::NEG_INFINITY)
    })
}

pub fn is_seen([_, i, j]: Place, after: i64, before: i64) -> bool {
    let gap = j as i64 - i as i64;
    gap <= after && -gap < before
}

impl Attention {
    pub fn kernel(self, device: DeviceModel, scores: impl FnOnce(&mut Builder, Value) -> Value) -> Kernel {
        let Attention { shape: [batch, m, n, k, width], dtype } = self;
        let mut kernels = kernels(device, |b| {
            let q = input(b, "q", dtype, &[batch, m, k]);
            let keys = input(b, "k", dtype, &[batch, n, k]);
            let v = input(b, "v", dtype, &[batch, n, width]);
            let y = attend(b, [q, keys, v], scores);
            b.graph.outputs.push(("y".into(), y));
        });
        assert_eq!(kinds(&kernels), ["attention"]);
        kernels.remove(0)
    }

    /// Queries, keys and values of eight bits.
    pub fn inputs(self) -> [Vec<f32>; 3] {
        let [batch, m, n, k, width] = self.shape;
        let all = rounded(&numbers(batch * (m * k + n * (k + width))));
        let (queries, rest) = all.split_at(batch * m * k);
        let (keys, values) = rest.split_at(batch * n * k);
        [queries, keys, values].map(<[f32]>::to_vec)
    }

    /// The result and the logarithms of the sums, by matrix and query.
    fn expected(self, inputs: &[Vec<f32>; 3], score: impl Fn(Place, f64) -> f64) -> [Vec<f64>; 2] {
        let [batch, m, n, k, width] = self.shape;
        let [queries, keys, values] = inputs;
        let (mut result, mut logarithms) = (vec![], vec![]);
        for z in 0..batch {
            for i in 0..m {
                let at = |j: usize| -> f64 {
                    let products = (0..k).map(|d| {
                        f64::from(queries[(z * m + i) * k + d]) * f64::from(keys[(z * n + j) * k + d])
                    });
                    score([z, i, j], products.sum())
                };
                let scores: Vec<f64> = (0..n).map(at).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let most = if most == f64::NEG_INFINITY { 0.0 } else { most };
                let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let sum: f64 = weights.iter().sum();
                logarithms.push(sum.ln() + most);
                let divisor = if sum == 0.0 { 1.0 } else { sum };
                result.extend((0..width).map(|w| {
                    let of_key = |j: usize| weights[j] * f64::from(values[(z * n + j) * width + w]);
                    (0..n).map(of_key).sum::<f64>() / divisor
                }));
            }
        }
        [result, logarithms]
    }

    /// Compares the text's results with sums in `f64`; `more` are the operands that scores read.
    pub fn check(
        self,
        inputs: &[Vec<f32>; 3],
        more: &[Vec<u8>],
        scores: impl Fn(&mut Builder, Value) -> Value,
        score: impl Fn(Place, f64) -> f64,
    ) {
        let own = inputs.iter().map(|numbers| dtype_bytes(self.dtype, numbers));
        let bytes: Vec<Vec<u8>> = own.chain(more.iter().cloned()).collect();
        let expected = self.expected(inputs, score);
        for &device in self.devices() {
            let kernel = self.kernel(device, &scores);
            let launches = KernelSpec::launches(&kernel, device).unwrap();
            let Some(buffers) = on_host::run_launches(&kernel, &launches, &bytes, 0) else { return };
            self.compare(&kernel, &buffers, &expected);
        }
    }

    /// The same for scores divided by 8, where a query sees keys up to `after` behind its own place.
    pub fn check_causal(self, after: i64) {
        self.check(
            &self.inputs(),
            &[],
            |b, x| {
                let x = b.scale(x, 0.125);
                banded(b, x, after, 1000)
            },
            |place, x| if is_seen(place, after, 1000) { 0.125 * x } else { f64::NEG_INFINITY },
        );
    }

    /// The devices that take it. Warps have no registers for long rows.
    fn devices(self) -> &'static [DeviceModel] {
        if self.shape[3].max(self.shape[4]) > 128 { &DEVICES[..1] } else { &DEVICES }
    }

    fn compare(self, kernel: &Kernel, buffers: &[Vec<u8>], [result, logarithms]: &[Vec<f64>; 2]) {
        for (operand, buffer) in kernel.operands.iter().zip(buffers).filter(|(o, _)| o.usage == Use::Write) {
            // Weights and results are rounded to halves; values lie between -2 and 2.
            let step = if self.dtype == DType::F16 { 2f64.powi(-11) } else { 2f64.powi(-8) };
            let (found, expected, step) = match operand.ty.dtype {
                DType::F32 => (f32s(buffer), logarithms, 1e-5),
                dtype => (floats(dtype, buffer), result, step),
            };
            assert_eq!(found.len(), expected.len());
            for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
                let is_close = f64::from(found) == expected
                    || (f64::from(found) - expected).abs() <= step * (2.0 + expected.abs())
                    || found.is_nan() && expected.is_nan();
                assert!(is_close, "element {i} of {}: {found} instead of {expected}", operand.ty);
            }
        }
    }
}

pub fn floats(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let halves = bytes.chunks_exact(2).map(|half| u16::from_le_bytes([half[0], half[1]]));
    let float = |half: u16| match dtype {
        DType::F16 => half::f16::from_bits(half).to_f32(),
        _ => f32::from_bits(u32::from(half) << 16),
    };
    halves.map(float).collect()
}

/// Tiles before the diagonal, on it and after it; the last block and the last tile are ragged.
#[test]
fn causal_attention_on_tensor_cores() {
    for (shape, dtype) in [([2, 200, 200, 64, 64], DType::BF16), ([1, 150, 300, 128, 128], DType::F16)] {
        let after = (shape[2] - shape[1]) as i64;
        Attention { shape, dtype }.check_causal(after);
    }
}

/// Heads of 72 and 40 columns: the last line of queries, keys and values is not full.
#[test]
fn heads_of_any_eight_columns_on_tensor_cores() {
    for (shape, dtype) in [([1, 130, 140, 72, 72], DType::BF16), ([2, 66, 70, 80, 40], DType::F16)] {
        let attention = Attention { shape, dtype };
        attention.check(&attention.inputs(), &[], |b, x| b.scale(x, 0.125), |_, x| 0.125 * x);
    }
}

/// NaN stays in its row, and the keys before a window are left out.
#[test]
fn windows_and_nan_on_tensor_cores() {
    let attention = Attention { shape: [1, 300, 300, 40, 96], dtype: DType::BF16 };
    let mut inputs = attention.inputs();
    inputs[0][17 * 40] = f32::NAN;
    attention.check(
        &inputs,
        &[],
        |b, x| banded(b, x, 3, 20),
        |place, x| if is_seen(place, 3, 20) { x } else { f64::NEG_INFINITY },
    );
}

/// An odd number of keys, so that no two scores are read together, and wide rows in tiles of 64 keys.
#[test]
fn biases_and_soft_caps_on_tensor_cores() {
    let attention = Attention { shape: [2, 70, 131, 192, 160], dtype: DType::F16 };
    let bias = rounded(&numbers(70 * 131));
    attention.check(
        &attention.inputs(),
        &[dtype_bytes(DType::F16, &bias)],
        |b, x| {
            let bias = input(b, "bias", DType::F16, &[70, 131]);
            let shape = b.ty(x).shape.clone();
            let bias = b.cast(bias, DType::F32);
            let bias = b.broadcast_dims(bias, &shape);
            b.map(&[x, bias], |v| (v[0] * 0.0625).tanh() * 4.0 + v[1])
        },
        |[_, i, j], x| 4.0 * (x * 0.0625).tanh() + f64::from(bias[i * 131 + j]),
    );
}

/// A mask that hides all keys of some rows: they yield 0, and `-inf`.
#[test]
fn rows_without_keys_on_tensor_cores() {
    let attention = Attention { shape: [2, 64, 200, 64, 32], dtype: DType::BF16 };
    let mask: Vec<u8> = (0..64 * 200).map(|at| u8::from(at / 200 % 5 != 2 && at * 7 % 3 != 1)).collect();
    attention.check(
        &attention.inputs(),
        std::slice::from_ref(&mask),
        |b, x| {
            let seen = input(b, "mask", DType::Bool, &[64, 200]);
            let shape = b.ty(x).shape.clone();
            let seen = b.broadcast_dims(seen, &shape);
            b.map(&[seen, x], |v| E::select(v[0], v[1] * 0.25, f64::NEG_INFINITY))
        },
        |[_, i, j], x| if mask[i * 200 + j] != 0 { 0.25 * x } else { f64::NEG_INFINITY },
    );
}

/// Adjacent heads of keys in memory, two of queries for each, and a gate behind the result.
#[test]
fn shared_heads_on_tensor_cores() {
    const T: usize = 150;
    const HEADS: usize = 4;
    const GROUPS: usize = 2;
    const K: usize = 64;
    let queries = [GROUPS, HEADS / GROUPS * T, K];
    let all = kernels(DeviceModel::H200, |b| {
        let q = input(b, "q", DType::BF16, &queries);
        let [k, v] = ["k", "v"].map(|name| {
            let x = input(b, name, DType::BF16, &[T, GROUPS, K]);
            b.permute(x, &[1, 0, 2])
        });
        let gate = input(b, "gate", DType::BF16, &queries);
        let y = attend(b, [q, k, v], |b, x| {
            let [query, key] = coordinates(b, x, T);
            let seen = b.map(&[query, key], |v| v[1].le(v[0]));
            b.map(&[seen, x], |v| E::select(v[0], v[1] * 0.125, f64::NEG_INFINITY))
        });
        let y = b.mul(y, gate);
        b.graph.outputs.push(("y".into(), y));
    });
    assert_eq!(kinds(&all), ["attention"]);
    let flat = Attention { shape: [HEADS, T, T, K, K], dtype: DType::BF16 };
    let of = |n: usize, first: usize| rounded(&numbers(first + T * n * K)[first..]);
    // Keys of each head of queries.
    let by_head = |x: &[f32]| -> Vec<f32> {
        let number = |at: usize| x[(at / K % T * GROUPS + at / (T * K) * GROUPS / HEADS) * K + at % K];
        (0..HEADS * T * K).map(number).collect()
    };
    let [q, k, v, gate] = [of(HEADS, 0), of(GROUPS, 5), of(GROUPS, 11), of(HEADS, 3)];
    let bytes: Vec<Vec<u8>> = [&q, &k, &v, &gate].map(|x| dtype_bytes(DType::BF16, x)).into();
    let Some(buffers) = on_host::run(&all[0], &bytes, 0) else { return };
    let score = |place: Place, x: f64| if is_seen(place, 0, 1000) { 0.125 * x } else { f64::NEG_INFINITY };
    let [result, logarithms] = flat.expected(&[q, by_head(&k), by_head(&v)], score);
    let gated = result.iter().zip(&gate).map(|(y, &gate)| y * f64::from(gate));
    flat.compare(&all[0], &buffers, &[gated.collect(), logarithms]);
}

/// The heads of two sequences lie side by side in the rows of one matrix, as one matmul makes them. No copy is made.
#[test]
fn heads_of_sequences_on_tensor_cores() {
    const N: usize = 2;
    const T: usize = 70;
    const HEADS: usize = 3;
    const K: usize = 64;
    let flat = Attention { shape: [N * HEADS, T, T, K, K], dtype: DType::BF16 };
    let inputs = flat.inputs();
    let in_rows =
        |n: usize, t: usize, part: usize, h: usize, k: usize| inputs[part][((n * HEADS + h) * T + t) * K + k];
    let rows = (0..N).flat_map(|n| (0..T).map(move |t| (n, t)));
    let columns = (0..3).flat_map(|part| (0..HEADS).flat_map(move |h| (0..K).map(move |k| (part, h, k))));
    let columns: Vec<_> = columns.collect();
    let all = rows.flat_map(|(n, t)| columns.iter().map(move |&(part, h, k)| in_rows(n, t, part, h, k)));
    let bytes = dtype_bytes(DType::BF16, &all.collect::<Vec<f32>>());
    let expected = flat.expected(&inputs, |place, x| match is_seen(place, 0, 1000) {
        true => 0.125 * x,
        false => f64::NEG_INFINITY,
    });
    for &device in &DEVICES {
        let all = kernels(device, |b| {
            let z = input(b, "z", DType::BF16, &[N, T, 3, HEADS, K]);
            let heads = [0, 1, 2].map(|part| {
                let own = b.slice(z, &[0, 0, part, 0, 0], &[N, T, 1, HEADS, K], &[1; 5]);
                let own = b.reshape(own, &[N, T, HEADS, K]);
                let own = b.permute(own, &[0, 2, 1, 3]);
                b.reshape(own, &[N * HEADS, T, K])
            });
            let y = attend(b, heads, |b, x| {
                let x = b.scale(x, 0.125);
                banded(b, x, 0, 1000)
            });
            b.graph.outputs.push(("y".into(), y));
        });
        assert_eq!(kinds(&all), ["attention"]);
        let launches = KernelSpec::launches(&all[0], device).unwrap();
        let given = std::slice::from_ref(&bytes);
        let Some(buffers) = on_host::run_launches(&all[0], &launches, given, 0) else { return };
        flat.compare(&all[0], &buffers, &expected);
    }
}

/// One tile of keys and one block of rows, with a causal mask.
#[test]
fn the_text_of_attention_on_tensor_cores() {
    let attention = Attention { shape: [3, 100, 130, 64, 32], dtype: DType::BF16 };
    let text = |device: DeviceModel| {
        let kernel = attention.kernel(device, |b, x| {
            let x = b.scale(x, 0.125);
            banded(b, x, 30, 1000)
        });
        kernel_text(&KernelSpec::launches(&kernel, device).unwrap()[0])
    };
    let [warpgroups, warps] = DEVICES.map(text);
    expect_file!["../../../../tests/golden/attention_tensor_cores.cu"].assert_eq(&warpgroups);
    expect_file!["../../../../tests/golden/attention_tensor_cores_of_warps.cu"].assert_eq(&warps);
}

#[test]
fn attention_that_tensor_cores_do_not_take_is_three_kernels() {
    let of = |dtype: DType, [m, k, width]: [usize; 3]| {
        kinds(&kernels(DeviceModel::H200, |b| {
            let q = input(b, "q", dtype, &[4, m, k]);
            let [k, v] =
                [("k", k), ("v", width)].map(|(name, extent)| input(b, name, dtype, &[4, 200, extent]));
            let y = attend(b, [q, k, v], |_, x| x);
            b.graph.outputs.push(("y".into(), y));
        }))
    };
    let apart = ["matmul", "row", "matmul"];
    assert_eq!(of(DType::BF16, [100, 64, 64]), ["attention"]);
    assert_eq!(of(DType::BF16, [4, 64, 64]), ["attention"], "one block per row");
    assert_eq!(of(DType::F32, [100, 64, 64]), apart, "exact products");
    assert_eq!(of(DType::BF16, [100, 60, 64]), apart, "rows of 120 bytes");
    assert_eq!(of(DType::BF16, [100, 64, 40]), ["attention"]);
    assert_eq!(of(DType::BF16, [100, 64, 36]), apart, "values of 72 bytes");
    assert_eq!(of(DType::BF16, [100, 64, 320]), apart, "wide values");
}

#[test]
fn queries_are_computed_before_attention_on_tensor_cores() {
    let all = kernels(DeviceModel::H200, |b| {
        let [q, k, v] = ["q", "k", "v"].map(|name| input(b, name, DType::BF16, &[4, 200, 64]));
        let q = b.map(&[q], |q| q[0] * 2.0 + 1.0);
        let y = attend(b, [q, k, v], |_, x| x);
        b.graph.outputs.push(("y".into(), y));
    });
    assert_eq!(kinds(&all), ["map", "attention"]);
}
