//! Long reductions across memory.

use super::*;
use crate::device_model::DeviceModel;
use crate::fusion::{Settings, split_columns};
use crate::oracle::{Oracle, OracleTensor};
use std::collections::HashMap;

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
    let [short, rows, many] = [([512, 48], 0), ([48, 8192], 1), ([1031, 1 << 15], 0)]
        .map(|(extents, axis)| reduced(&extents, &[axis], DType::F32));
    assert!(split(&columns, DeviceModel::DESKTOP).is_some() && split(&columns, DeviceModel::CPU).is_none());
    assert!([short, rows, many].iter().all(|graph| split(graph, DeviceModel::H200).is_none()));
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

/// A reduction of twice the elements, whose row of this length has no divisor that fits.
fn uneven(extents: &[usize], axis: usize, monoid: Monoid, dtype: DType) -> Graph {
    with_builder(|b| {
        let x = b.input("x", InputKind::Data, Type::new(dtype, extents));
        let twice = b.add(x, x);
        let y = b.reduce(monoid, twice, &[axis]);
        output(b, "y", y);
    })
}

/// 8191 and 65537 are primes. Bytes are those of the parts, the remainder and the result.
#[test]
fn the_remainder_of_an_uneven_row_is_reduced_apart() {
    let settings = Settings { device: DeviceModel::H200, ..Settings::default() };
    for (extents, axis, most_bytes) in [(vec![8191, 48], 0, 4 * 48 * (63 + 2)), (vec![65537], 0, 4 * 400)] {
        let graph = split(&uneven(&extents, axis, Monoid::Sum, DType::F32), DeviceModel::H200).unwrap();
        let kernels = fuse_with(&graph, &settings).kernels;
        assert_eq!(verify(&graph, &kernels), Vec::<String>::new());
        let written: u64 = kernels.iter().map(|kernel| kernel.bytes_written).sum();
        assert!(kernels.len() <= 3 && written <= most_bytes, "{} kernels, {written} B", kernels.len());
        assert!(split(&graph, DeviceModel::H200).is_none());
    }
    // 8050 is 35 times 230.
    let even = split(&uneven(&[8050, 48], 0, Monoid::Sum, DType::F32), DeviceModel::H200).unwrap();
    assert_eq!(fuse_with(&even, &settings).kernels.len(), 2);
    let long = uneven(&[65537], 0, Monoid::Sum, DType::F32);
    assert!(split(&long, DeviceModel::CPU).is_none());
}

/// A gather that the reduction computes would be stored.
#[test]
fn the_remainder_of_gathered_rows_is_not_reduced_apart() {
    let graph = with_builder(|b| {
        let table = b.input("table", InputKind::Data, f32s(&[10, 48]));
        let rows = b.input("rows", InputKind::Data, Type::new(DType::I32, &[8191]));
        let gathered = b.gather(table, rows, 0, 0);
        let sum = b.sum(gathered, &[0]);
        output(b, "sum", sum);
    });
    assert!(split(&graph, DeviceModel::H200).is_none());
}

/// Remainders of many elements and of one, rows across memory and along it, signs of infinity and NaN.
#[test]
fn uneven_rows_have_the_values_of_whole_ones() {
    let registry = Registry::new();
    let of = |graph: &Graph, x: &OracleTensor| {
        let inputs = HashMap::from([("x".to_owned(), x.clone())]);
        Oracle::new(&registry).run(graph, &inputs, 0, 0).unwrap().outputs[0].to_f64()
    };
    for (extents, axis) in [(vec![8191, 3], 0), (vec![2, 1153, 3], 1), (vec![65537], 0), (vec![2, 65539], 1)]
    {
        for monoid in [Monoid::Sum, Monoid::Max, Monoid::Min] {
            let graph = uneven(&extents, axis, monoid, DType::F64);
            let n: usize = extents.iter().product();
            for last in [-1.0, 5000.0, -5000.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let value = |i: usize| if i == n - 1 { last } else { ((i * 7919) % 1013) as f64 - 700.0 };
                let values: Vec<f64> = (0..n).map(value).collect();
                let x = OracleTensor::new(DType::F64, &extents, &values);
                let parts = split(&graph, DeviceModel::H200).unwrap();
                let bits = |values: Vec<f64>| {
                    values.iter().map(|x| if x.is_nan() { 1 } else { x.to_bits() }).collect::<Vec<_>>()
                };
                assert!(bits(of(&graph, &x)) == bits(of(&parts, &x)), "{monoid:?} of {extents:?}, {last}");
            }
        }
    }
}
