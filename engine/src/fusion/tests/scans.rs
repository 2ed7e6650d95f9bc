//! Long scans.

use super::*;
use crate::fusion::split_scans;
use crate::ir::NodeOp;
use crate::oracle::{Oracle, OracleTensor};
use std::collections::HashMap;

fn split(graph: &Graph, device: DeviceModel) -> Option<Graph> {
    split_scans(graph, &Settings { device, ..Settings::default() })
}

fn scanned(extents: &[usize], axis: usize, monoid: Monoid, dtype: DType) -> Graph {
    with_builder(|b| {
        let ty = Type::new(dtype, extents);
        let x = b.input("x", InputKind::Data, ty.clone());
        let y = b.push(NodeOp::Scan { monoid, axis }, vec![x], ty);
        output(b, "y", y);
    })
}

#[test]
fn a_gpu_scans_parts_of_a_long_row_and_their_totals() {
    let graph = scanned(&[2, 40000], 1, Monoid::Sum, DType::F16);
    expect![[r#"
        graph test {
          input x: f16[2, 40000]
          t.1.wide: f32[2, 40000] = .cast(x, dtype=f32)
          t.1.rows: f32[2, 40000, 1] = .reshape(t.1.wide)
          t.1.parts: f32[2, 20, 2000, 1] = .reshape(t.1.rows)
          t.1.within: f32[2, 20, 2000, 1] = .scan_sum(t.1.parts, axis=2)
          t.1.last: f32[2, 20, 1, 1] = .slice(t.1.within, start=[0, 0, 1999, 0])
          t.1.totals: f32[2, 20, 1] = .reshape(t.1.last)
          t.1.upto: f32[2, 20, 1] = .scan_sum(t.1.totals, axis=1)
          t.1.earlier: f32[2, 19, 1] = .slice(t.1.upto, start=[0, 0, 0])
          t.1.before: f32[2, 20, 1] = .pad(t.1.earlier, fill=0.0, high=[0, 0, 0], low=[0, 1, 0])
          t.1.spread: f32[2, 20, 2000, 1] = .broadcast(t.1.before, axes=[0, 1, 3])
          t.1.all: f32[2, 20, 2000, 1] = .add(t.1.spread, t.1.within)
          t.1.part: i32[2, 20, 2000, 1] = .iota(axis=1)
          t.1.one: i32[2, 20, 2000, 1] = .const(1)
          t.1.first: bool[2, 20, 2000, 1] = .lt(t.1.part, t.1.one)
          t.1.scanned: f32[2, 20, 2000, 1] = .select(t.1.first, t.1.within, t.1.all)
          t.1.narrow: f16[2, 20, 2000, 1] = .cast(t.1.scanned, dtype=f16)
          t.1: f16[2, 40000] = .reshape(t.1.narrow)
          output y = t.1
        }
    "#]]
    .assert_eq(&split(&graph, DeviceModel::H200).unwrap().to_string());
}

#[test]
fn other_scans_take_one_step() {
    let of = |extents: &[usize], axis| scanned(extents, axis, Monoid::Sum, DType::F32);
    let [long, strided, many, short] =
        [of(&[40000], 0), of(&[40000, 3], 0), of(&[4096, 40000], 1), of(&[16384], 0)];
    assert!(split(&long, DeviceModel::DESKTOP).is_some() && split(&strided, DeviceModel::H200).is_some());
    assert!([&many, &short].iter().all(|graph| split(graph, DeviceModel::H200).is_none()));
    assert!(split(&long, DeviceModel::CPU).is_none());
}

/// Lengths with a divisor and without, totals that are split again, signs of zero and NaN.
#[test]
fn parts_have_the_values_of_the_whole() {
    let registry = Registry::new();
    for (extents, axis) in [(vec![2, 40000], 1), (vec![20011, 2], 0), (vec![16385 * 257], 0)] {
        for monoid in [Monoid::Sum, Monoid::Prod, Monoid::Max, Monoid::Min] {
            let graph = scanned(&extents, axis, monoid, DType::F64);
            let n: usize = extents.iter().product();
            let value = |i: usize| match (i * 7919) % 1012 {
                _ if i == 0 && monoid != Monoid::Prod => -0.0,
                0 if i > n - 100 => f64::NAN,
                k if monoid == Monoid::Prod => {
                    if k % 2 == 0 {
                        2.0
                    } else {
                        0.5
                    }
                }
                k => k as f64 - 700.0,
            };
            let values: Vec<f64> = (0..n).map(value).collect();
            let x = OracleTensor::new(DType::F64, &extents, &values);
            let inputs = HashMap::from([("x".to_owned(), x)]);
            let run =
                |graph: &Graph| Oracle::new(&registry).run(graph, &inputs, 0, 0).unwrap().outputs[0].to_f64();
            let mut parts = split(&graph, DeviceModel::H200).unwrap();
            while let Some(further) = split(&parts, DeviceModel::H200) {
                parts = further;
            }
            let bits = |values: Vec<f64>| {
                values.iter().map(|x| if x.is_nan() { 1 } else { x.to_bits() }).collect::<Vec<_>>()
            };
            assert!(bits(run(&graph)) == bits(run(&parts)), "{monoid:?} of {extents:?}");
        }
    }
}
