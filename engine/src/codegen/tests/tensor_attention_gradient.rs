#![allow(clippy::unwrap_used)]
//! The gradient of attention on tensor cores: its text on the host against sums in `f64`, and the gradients that it takes.

use super::products::{dtype_bytes, rounded};
use super::tensor_attention::{banded_in, by, floats, input, is_seen, kinds};
use super::*;
use crate::compile::{Options, compile};

fn f32_bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Factor of the scores.
const SCALE: f64 = 0.125;

/// A GPU with tensor cores and few SMs, so that small gradients fill it.
fn device() -> DeviceModel {
    few(DeviceModel::H200)
}

fn few(model: DeviceModel) -> DeviceModel {
    DeviceModel { n_processors: 4, ..model }
}

/// Shapes and type: matrices, queries, keys, columns of a query and of a value; and which keys a query sees.
#[derive(Clone, Copy)]
struct Gradient {
    shape: [usize; 5],
    dtype: DType,
    band: Option<[i64; 2]>,
    /// The queries after which their numbers start again.
    period: usize,
    /// The matrices that lie side by side in memory: `[matrices / heads, rows, heads, columns]`.
    heads: usize,
}

/// The inputs by name: queries, keys, values, gradients of the result, logarithms of sums, and products of the result and its
/// gradient.
type Inputs = [Vec<f32>; 6];

impl Gradient {
    fn build(self, b: &mut Builder) {
        let Gradient { shape: [batch, m, n, k, width], dtype, .. } = self;
        let all = [("q", m, k), ("k", n, k), ("v", n, width), ("dy", m, width)];
        let [q, keys, v, dy] = all.map(|(name, rows, columns)| {
            let of_rows = input(b, name, dtype, &[batch / self.heads, rows, self.heads, columns]);
            let of_heads = b.permute(of_rows, &[0, 2, 1, 3]);
            b.reshape(of_heads, &[batch, rows, columns])
        });
        let [lse, delta] = ["lse", "delta"].map(|name| input(b, name, DType::F32, &[batch, m]));
        let products = b.matmul_wide(q, keys, by(2, 2));
        let scaled = b.scale(products, SCALE);
        let scores = match self.band {
            Some([after, before]) => banded_in(b, scaled, self.period, after, before),
            None => scaled,
        };
        let [lse, delta] = [lse, delta].map(|row| b.unreduce(row, &[2], scores));
        let p = b.map(&[scores, lse], |v| (v[0] - v[1]).exp());
        let dp = b.matmul_wide(dy, v, by(2, 2));
        let ds = b.map(&[p, dp, delta], |v| v[0] * (v[1] - v[2]));
        let ds = b.scale(ds, SCALE);
        let [p, ds] = [p, ds].map(|x| b.cast(x, dtype));
        let results = [("dq", ds, keys, by(2, 1)), ("dk", ds, q, by(1, 1)), ("dv", p, dy, by(1, 1))];
        for (name, left, right, spec) in results {
            let result = b.matmul(left, right, spec);
            b.graph.outputs.push((name.into(), result));
        }
    }

    fn kernels(self, device: DeviceModel, deterministic: bool) -> Vec<Kernel> {
        let registry = Registry::new();
        let mut b = Builder::new(Graph::new("gradient"), &registry);
        self.build(&mut b);
        let options = Options { device, deterministic, ..Options::default() };
        compile(&b.graph.pruned(), &registry, &options).plan.kernels
    }

    fn inputs(self) -> Inputs {
        let [batch, m, n, k, width] = self.shape;
        let noise = |i: usize| {
            let mixed = (i as u32 + 1).wrapping_mul(0x9E37_79B1) ^ (i as u32).wrapping_mul(0x85EB_CA6B) >> 13;
            (mixed.wrapping_mul(0xC2B2_AE35) >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let all: Vec<f32> = (0..batch * (m * (k + width) + n * (k + width))).map(noise).collect();
        let all = rounded(&all);
        let mut rest = &all[..];
        let mut next = |n: usize| {
            let (first, others) = rest.split_at(n);
            rest = others;
            first.to_vec()
        };
        let own = [batch * m * k, batch * n * k, batch * n * width, batch * m * width].map(&mut next);
        let [q, keys, v, dy] = own;
        let rows = batch * m;
        let lse = (0..rows).map(|row| 3.0 + (row % 5) as f32 / 4.0).collect();
        let delta = (0..rows).map(|row| (row % 7) as f32 / 8.0 - 0.25).collect();
        [q, keys, v, dy, lse, delta]
    }

    /// The gradients of queries, keys and values, each with the sum of the absolute values of its terms.
    fn expected(self, inputs: &Inputs) -> [Vec<[f64; 2]>; 3] {
        let [batch, m, n, k, width] = self.shape;
        let [q, keys, v, dy, lse, delta] = inputs;
        let mut dq = vec![[0.0; 2]; batch * m * k];
        let mut dk = vec![[0.0; 2]; batch * n * k];
        let mut dv = vec![[0.0; 2]; batch * n * width];
        let add = |sum: &mut [f64; 2], term: f64| *sum = [sum[0] + term, sum[1] + term.abs()];
        for z in 0..batch {
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let (row, key) = (z * m + i, z * n + j);
                if self.band.is_some_and(|[after, before]| !is_seen([z, i % self.period, j], after, before)) {
                    continue;
                }
                let dot = |a: &[f32], b: &[f32]| -> f64 {
                    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
                };
                let s = SCALE * dot(&q[row * k..][..k], &keys[key * k..][..k]);
                let p = (s - f64::from(lse[row])).exp();
                let dp = dot(&dy[row * width..][..width], &v[key * width..][..width]);
                let ds = SCALE * p * (dp - f64::from(delta[row]));
                for d in 0..k {
                    add(&mut dq[row * k + d], ds * f64::from(keys[key * k + d]));
                    add(&mut dk[key * k + d], ds * f64::from(q[row * k + d]));
                }
                for w in 0..width {
                    add(&mut dv[key * width + w], p * f64::from(dy[row * width + w]));
                }
            }
        }
        [dq, dk, dv]
    }

    /// Numbers of matrices, as they lie in memory.
    fn by_row(self, numbers: &[f32]) -> Vec<f32> {
        let [batch, m, n, k, width] = self.shape;
        let (heads, of_matrix) = (self.heads, numbers.len() / batch);
        let rows = if of_matrix == m * k || of_matrix == m * width { m } else { n };
        let columns = of_matrix / rows;
        let place = |at: usize| {
            let (column, head, row) = (at % columns, at / columns % heads, at / (columns * heads) % rows);
            let matrix = at / (columns * heads * rows) * heads + head;
            (matrix * rows + row) * columns + column
        };
        (0..numbers.len()).map(|at| numbers[place(at)]).collect()
    }

    /// Compares the results of the texts for both kinds of tensor cores with sums in `f64`.
    fn check(self) {
        [DeviceModel::H200, DeviceModel::A100].into_iter().for_each(|model| self.check_on(few(model)));
    }

    fn check_on(self, device: DeviceModel) {
        let mut kernels = self.kernels(device, false);
        assert_eq!(kinds(&kernels), ["attention gradient"]);
        let kernel = kernels.remove(0);
        let inputs = self.inputs();
        let of_input = |(at, numbers): (usize, &Vec<f32>)| {
            if at < 4 { dtype_bytes(self.dtype, &self.by_row(numbers)) } else { f32_bytes(numbers) }
        };
        let bytes: Vec<Vec<u8>> = inputs.iter().enumerate().map(of_input).collect();
        // The operands of the two products, then those of the points.
        let given: Vec<Vec<u8>> = [0, 1, 3, 2, 4, 5].iter().map(|&at| bytes[at].clone()).collect();
        let mut memory = on_host::HostMemory::new(&kernel, &given);
        let launches = KernelSpec::launches(&kernel, device).unwrap();
        memory.workspace = vec![0; launches[0].workspace_bytes()];
        for launch in &launches {
            let source = launch.cuda_source().unwrap();
            let (n_blocks, info) = (source.blocks_for(source.points), source.info(source.points, 0));
            if memory.launch(&source, n_blocks, &info).is_none() {
                return;
            }
        }
        let written = kernel.operands.iter().zip(&memory.operands).filter(|(o, _)| o.usage == Use::Write);
        let expected = self.expected(&inputs);
        // Values at the points and results are rounded to halves.
        let step = if self.dtype == DType::F16 { 2f64.powi(-11) } else { 2f64.powi(-8) };
        for ((operand, buffer), expected) in written.zip(&expected) {
            let found = floats(self.dtype, buffer);
            assert_eq!(found.len(), expected.len());
            for (i, (&found, &[sum, size])) in found.iter().zip(expected).enumerate() {
                let error = (f64::from(found) - sum).abs();
                assert!(
                    error <= step * (size + sum.abs()) + 1e-6,
                    "element {i} of {}: {found} instead of {sum}",
                    operand.ty
                );
            }
        }
    }
}

/// Tiles before the diagonal, on it and after it; the last block of keys is ragged.
#[test]
fn causal_gradients_on_tensor_cores() {
    for (shape, dtype) in [([2, 192, 200, 64, 64], DType::BF16), ([1, 256, 256, 128, 128], DType::F16)] {
        let after = (shape[2] - shape[1]) as i64;
        Gradient { shape, dtype, band: Some([after, 10_000]), period: shape[1], heads: 1 }.check();
    }
}

/// Each query sees a window of keys; two heads share their keys.
#[test]
fn gradients_of_windows_on_tensor_cores() {
    Gradient {
        shape: [1, 256, 256, 64, 128],
        dtype: DType::BF16,
        band: Some([0, 40]),
        period: 128,
        heads: 1,
    }
    .check();
}

#[test]
fn gradients_without_a_mask_on_tensor_cores() {
    Gradient { shape: [1, 64, 384, 128, 64], dtype: DType::BF16, band: None, period: 64, heads: 1 }.check();
}

/// Heads that do not fill the lines of shared memory.
#[test]
fn gradients_of_short_heads_on_tensor_cores() {
    for shape in [[1, 128, 136, 96, 96], [1, 128, 200, 32, 40], [1, 64, 384, 80, 8]] {
        let after = (shape[2] - shape[1]) as i64;
        Gradient { shape, dtype: DType::BF16, band: Some([after, 10_000]), period: shape[1], heads: 1 }
            .check();
    }
}

/// The last tile has fewer queries, with and without a mask; keys are as many or more.
#[test]
fn gradients_of_ragged_queries_on_tensor_cores() {
    let bands = [(None, [2, 197, 197, 64, 64]), (Some([100, 10_000]), [1, 100, 200, 64, 32])];
    for (band, shape) in bands {
        Gradient { shape, dtype: DType::BF16, band, period: shape[1], heads: 1 }.check();
    }
}

/// The heads of a sequence, which are read where they lie.
#[test]
fn gradients_of_heads_side_by_side_on_tensor_cores() {
    let shape = [4, 128, 192, 64, 64];
    Gradient { shape, dtype: DType::BF16, band: Some([64, 10_000]), period: 128, heads: 2 }.check();
}

/// What the kernel does not take stays matmuls: sums in a fixed order, heads that end within a tile, long heads, few blocks, and
/// types without tensor cores.
#[test]
fn other_gradients_are_matmuls() {
    let taken =
        Gradient { shape: [2, 256, 256, 64, 64], dtype: DType::BF16, band: None, period: 256, heads: 1 };
    assert_eq!(kinds(&taken.kernels(device(), false)), ["attention gradient"]);
    let short =
        Gradient { shape: [2, 250, 256, 64, 64], band: Some([0, 1000]), period: 125, heads: 1, ..taken };
    let long = Gradient { shape: [2, 256, 256, 256, 256], ..taken };
    let single = Gradient { dtype: DType::F32, ..taken };
    let others = [
        taken.kernels(device(), true),
        short.kernels(device(), false),
        long.kernels(device(), false),
        single.kernels(device(), false),
        taken.kernels(DeviceModel::H200, false),
        taken.kernels(DeviceModel::WEBGPU, false),
    ];
    for kernels in others {
        let n_matmuls = kinds(&kernels).iter().filter(|kind| **kind == "matmul").count();
        assert_eq!(n_matmuls, 5);
    }
}
