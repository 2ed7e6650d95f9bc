#![allow(clippy::unwrap_used)]

use super::*;
use crate::compile::{Compiled, Options, compile};
use crate::ir::{Builder, DType, Type};
use crate::op::Registry;

fn f32s(b: &mut Builder, name: &str, kind: InputKind, extents: &[usize]) -> Value {
    b.input(name, kind, Type::new(DType::F32, extents))
}

fn compiled(fixed: &[&str], build: impl FnOnce(&mut Builder)) -> Compiled {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("g"), &registry);
    build(&mut b);
    let fixed = fixed.iter().map(|&name| name.into()).collect();
    compile(&b.graph, &registry, &Options { once: Some(fixed), ..Options::default() })
}

/// The names of what is computed before the first step.
fn hoisted(compiled: &Compiled) -> Vec<String> {
    compiled.plan.computed_once().map(|value| value.name.to_string()).collect()
}

fn output(b: &mut Builder, name: &str, value: Value) {
    b.graph.outputs.push((name.into(), value));
}

/// `x · half(w)` and its greatest elements.
fn product(b: &mut Builder) -> (Value, Value) {
    let x = f32s(b, "x", InputKind::Data, &[4, 256]);
    let w = f32s(b, "w", InputKind::Param, &[256, 300]);
    let [x, half] = [x, w].map(|v| b.cast(v, DType::BF16));
    (b.mm(x, half), w)
}

#[test]
fn a_rounded_parameter_and_a_sum_of_it_are_computed_once() {
    let compiled = compiled(&[], |b| {
        let (y, w) = product(b);
        let sums = b.sum(w, &[0]);
        let sums = b.cast(sums, DType::BF16);
        let sums = b.broadcast_like(sums, y);
        let y = b.add(y, sums);
        output(b, "y", y);
    });
    assert_eq!(hoisted(&compiled).len(), 2, "{}", compiled.simplified);
    let names: Vec<String> = compiled.plan.inputs().map(|input| input.name.to_string()).collect();
    assert_eq!(names, ["x", "w"]);
    let once = &compiled.once.as_ref().unwrap().compiled;
    assert_eq!(once.simplified.state.len(), 2);
    assert!(once.simplified.inputs().all(|(id, _)| **once.simplified.nodes[id].name() != *"x"));
    assert!(compiled.plan.bytes() >= 256 * 300 * 2 + 300 * 2);
}

#[test]
fn a_rounded_bias_of_a_product_is_computed_once() {
    let with_bias = |is_added: bool| {
        compiled(&[], |b| {
            let (y, _) = product(b);
            let bias = f32s(b, "bias", InputKind::Param, &[300]);
            let bias = b.cast(bias, DType::BF16);
            let bias = b.broadcast_like(bias, y);
            // Sums of halves are computed in f32, as mixed precision does.
            let [wide, bias] = [y, bias].map(|v| b.cast(v, DType::F32));
            let y = if is_added { b.add(wide, bias) } else { b.mul(wide, bias) };
            let y = b.cast(y, DType::BF16);
            output(b, "y", y);
        })
    };
    assert_eq!(hoisted(&with_bias(true)).len(), 2, "{}", with_bias(true).simplified);
    assert_eq!(hoisted(&with_bias(false)).len(), 1);
}

#[test]
fn what_a_step_changes_stays_in_the_step() {
    let changed = compiled(&[], |b| {
        let (y, w) = product(b);
        let next = b.scale(w, 0.5);
        b.graph.state.push(StateLink { input: w.node, next });
        output(b, "y", y);
    });
    assert!(changed.once.is_none());
    let random = compiled(&[], |b| {
        let (y, _) = product(b);
        let bits = b.random_uniform("bits", &[300]);
        let bits = b.cast(bits, DType::BF16);
        let bits = b.broadcast_like(bits, y);
        let y = b.add(y, bits);
        output(b, "y", y);
    });
    assert_eq!(hoisted(&random).len(), 1);
}

#[test]
fn data_stays_in_the_step_unless_it_is_fixed() {
    let norms = |b: &mut Builder| {
        let q = f32s(b, "q", InputKind::Data, &[1, 300]);
        let base = f32s(b, "base", InputKind::Data, &[300, 64]);
        let squares = b.mul(base, base);
        let norms = b.sum(squares, &[1]);
        let norms = b.broadcast_like(norms, q);
        let y = b.add(q, norms);
        output(b, "y", y);
    };
    assert!(compiled(&[], norms).once.is_none());
    assert_eq!(hoisted(&compiled(&["base"], norms)).len(), 1);
    assert!(compiled(&["base", "q"], norms).once.is_none(), "nothing changes, so nothing is hoisted");
}

#[test]
fn results_and_large_values_stay_in_the_step() {
    let result = compiled(&[], |b| {
        let x = f32s(b, "x", InputKind::Data, &[64]);
        let w = f32s(b, "w", InputKind::Param, &[64, 64]);
        let sums = b.sum(w, &[0]);
        let y = b.add(x, sums);
        output(b, "sums", sums);
        output(b, "y", y);
    });
    assert!(result.once.is_none());
    let few_rows = compiled(&[], |b| {
        let x = f32s(b, "x", InputKind::Data, &[64, 256]);
        let table = f32s(b, "table", InputKind::Param, &[10_000, 256]);
        let places = b.iota(0, Type::new(DType::I32, &[64]));
        let places = b.map(&[places], |v| v[0] * v[0]);
        let rows = b.gather(table, places, 0, 0);
        let y = b.add(x, rows);
        output(b, "y", y);
    });
    assert!(few_rows.once.is_none(), "a kernel gathers while it reads");
    let large = compiled(&[], |b| {
        let x = f32s(b, "x", InputKind::Data, &[512, 512]);
        let w = f32s(b, "w", InputKind::Param, &[512, 1]);
        let v = f32s(b, "v", InputKind::Param, &[1, 512]);
        let outer = b.mm(w, v);
        let y = b.add(x, outer);
        output(b, "y", y);
    });
    assert!(large.once.is_none());
}
