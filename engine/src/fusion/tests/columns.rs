//! Long reductions across memory.

use super::*;
use crate::device_model::DeviceModel;
use crate::fusion::{Settings, split_columns};

fn split(graph: &Graph, device: DeviceModel) -> Option<Graph> {
    let settings = Settings { device, ..Settings::default() };
    split_columns(graph, &fuse_with(graph, &settings).kernels, &settings)
}

fn reduced(extents: &[usize], axes: &[usize], dtype: DType) -> Graph {
    with_builder(|b| {
        let x = b.input("x", InputKind::Data, Type::new(dtype, extents));
        let twice = b.add(x, x);
        let sum = b.reduce(Monoid::Sum, twice, axes);
        output(b, "twice", twice);
        output(b, "sum", sum);
    })
}

#[test]
fn a_gpu_sums_long_columns_of_halves_by_parts_in_single_precision() {
    let graph = reduced(&[8, 1024, 48], &[0, 1], DType::BF16);
    expect![[r#"
        graph test {
          input x: bf16[8, 1024, 48]
          t.1: bf16[8, 1024, 48] = .add(x, x)
          t.2.wide: f32[8, 1024, 48] = .cast(t.1, dtype=f32)
          t.2.rows: f32[1, 64, 128, 48] = .reshape(t.2.wide)
          t.2.parts: f32[1, 64, 48] = .sum(t.2.rows, axes=[2])
          t.2.whole: f32[1, 48] = .sum(t.2.parts, axes=[1])
          t.2.narrow: bf16[1, 48] = .cast(t.2.whole, dtype=bf16)
          t.2: bf16[48] = .reshape(t.2.narrow)
          output twice = t.1
          output sum = t.2
        }
    "#]]
    .assert_eq(&split(&graph, DeviceModel::H200).unwrap().to_string());
}

#[test]
fn other_reductions_take_one_step() {
    let columns = reduced(&[8192, 48], &[0], DType::F32);
    let [short, rows, odd] = [([512, 48], 0), ([48, 8192], 1), ([8191, 48], 0)]
        .map(|(extents, axis)| reduced(&extents, &[axis], DType::F32));
    assert!(split(&columns, DeviceModel::DESKTOP).is_some() && split(&columns, DeviceModel::CPU).is_none());
    assert!([short, rows, odd].iter().all(|graph| split(graph, DeviceModel::H200).is_none()));
    // The elements are read again behind the reduction.
    let centred = with_builder(|b| {
        let x = b.input("x", InputKind::Data, f32s(&[8192, 48]));
        let sum = b.sum(x, &[0]);
        let wide = b.unreduce(sum, &[0], x);
        let y = b.sub(x, wide);
        output(b, "y", y);
    });
    assert!(split(&centred, DeviceModel::H200).is_none());
}
