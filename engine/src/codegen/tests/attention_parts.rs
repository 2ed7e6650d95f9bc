//! Attention of few rows in parts of the keys: its text on the host against sums in `f64`.

use super::attention::{check_kernel, selected_by};
use super::products::{dtype_bytes, rounded};
use super::tensor_attention::{Attention, attend, input, kernels, kinds};
use super::*;

const FEW: Attention = Attention { shape: [2, 3, 512, 32, 16], dtype: DType::BF16 };

#[test]
fn few_rows_have_a_block_for_each_part_and_one_that_joins_them() {
    let kernel = FEW.kernel(DeviceModel::H200, |_, x| x);
    let launches = KernelSpec::launches(&kernel, DeviceModel::H200).unwrap();
    let [parts, joined] = &launches[..] else { panic!("{} launches", launches.len()) };
    assert_eq!([parts.entry(), joined.entry()], ["attention", "row"]);
    // 8 parts of 64 keys.
    assert_eq!(parts.blocks_for(parts.n_points()), 2 * 3 * 8);
    assert_eq!(parts.workspace_bytes(), 2 * 3 * 8 * (16 + 2) * 4);
}

/// Most parts have no key that their row sees.
#[test]
fn hidden_parts_count_nothing() {
    for after in [0, 400] {
        FEW.check_causal(after);
    }
}

/// A row without keys yields 0 and `-inf`; NaN and infinity stay in their rows.
#[test]
fn rows_without_keys_nan_and_infinity_in_parts() {
    let mut inputs = FEW.inputs();
    inputs[0][5 * 32] = f32::NAN;
    let mut bias = rounded(&numbers(3 * 512));
    bias[512..1024].fill(f32::NEG_INFINITY);
    bias[500] = f32::INFINITY;
    FEW.check(
        &inputs,
        &[dtype_bytes(DType::BF16, &bias)],
        |b, x| {
            let bias = input(b, "bias", DType::BF16, &[3, 512]);
            let shape = b.ty(x).shape.clone();
            let bias = b.cast(bias, DType::F32);
            let bias = b.broadcast_dims(bias, &shape);
            b.add(x, bias)
        },
        |[_, i, j], x| x + f64::from(bias[i * 512 + j]),
    );
}

/// A value of each row is part of its scores.
#[test]
fn values_of_rows_are_read_by_part() {
    let steps = rounded(&numbers(6));
    FEW.check(
        &FEW.inputs(),
        &[dtype_bytes(DType::BF16, &steps)],
        |b, x| {
            let step = input(b, "step", DType::BF16, &[2, 3, 1]);
            let shape = b.ty(x).shape.clone();
            let step = b.cast(step, DType::F32);
            let step = b.map(&[step], |v| v[0] * 3.0);
            let step = b.broadcast_dims(step, &shape);
            b.mul(x, step)
        },
        |[z, i, _], x| x * f64::from(steps[z * 3 + i] * 3.0),
    );
}

#[test]
fn keys_that_no_block_holds_come_in_parts() {
    let long = |n: usize| Attention { shape: [1, 2, n, 8, 16], dtype: DType::F16 };
    long(20_000).check(&long(20_000).inputs(), &[], |_, x| x, |_, x| x);
    let of = |n: usize| {
        kinds(&kernels(DeviceModel::H200, |b| {
            let [q, k, v] = [2, n, n].map(|rows| [1, rows, 8]);
            let [q, k, v] =
                [("q", q), ("k", k), ("v", v)].map(|(name, extents)| input(b, name, DType::F32, &extents));
            let y = attend(b, [q, k, v], |_, x| x);
            b.graph.outputs.push(("y".into(), y));
        }))
    };
    assert_eq!(of(20_000), ["attention"]);
    assert_eq!(of(20_011), ["matmul", "row", "matmul"], "a prime number of keys has no parts");
}

/// A softmax without a shift is shifted by the simplifier, unless its largest score is infinite.
#[test]
fn selected_keys_in_parts() {
    for n_selected in [300, 5000] {
        check_kernel(&selected_by(n_selected, DType::I32, |_, scores| scores), n_selected, DType::I32);
        let by_largest = |b: &mut Builder, scores: Value| {
            let peak = b.reduce(Monoid::Max, scores, &[2]);
            let peak = b.unreduce(peak, &[2], scores);
            b.sub(scores, peak)
        };
        check_kernel(&selected_by(n_selected, DType::I32, by_largest), n_selected, DType::I32);
    }
}
