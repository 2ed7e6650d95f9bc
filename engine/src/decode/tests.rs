#![allow(clippy::unwrap_used)]

use super::*;
use crate::ir::{DType, InputKind, Level, Value, parse, verify};
use crate::lower::primitives;
use crate::op::Registry;
use crate::oracle::{Oracle, OracleTensor};
use std::collections::HashMap;

/// Values that are neither equal nor ordered.
fn filled(dtype: DType, extents: &[usize], salt: usize) -> OracleTensor {
    let n: usize = extents.iter().product();
    let element = |i: usize| match dtype.is_int() {
        true => ((i * 7 + salt * 3) % 5) as f64,
        false => ((i * 37 + salt * 11) % 64) as f64 / 32.0 - 1.0,
    };
    OracleTensor::new(dtype, extents, &(0..n).map(element).collect::<Vec<_>>())
}

fn values(graph: &Graph) -> HashMap<String, OracleTensor> {
    let inputs = graph.inputs().filter(|(_, kind)| *kind != InputKind::Step);
    let value = |(id, kind): (usize, InputKind)| {
        let ty = graph.ty(Value::of(id));
        let zeros = OracleTensor::new(ty.dtype, &ty.extents(), &vec![0.0; ty.numel()]);
        let value = if kind == InputKind::State { zeros } else { filled(ty.dtype, &ty.extents(), id) };
        (graph.node(id).name().to_string(), value)
    };
    inputs.map(value).collect()
}

fn step_of(text: &str, n_new: usize) -> Graph {
    let registry = Registry::new();
    let whole = primitives(&parse(text, &registry).unwrap(), &registry);
    let step = decoding(&whole, &Decoding { tokens: "t", n_new }, &registry).unwrap();
    assert_eq!(verify(&step, Level::Primitive), Ok(()), "{step}");
    step
}

/// Decodes all tokens by steps of `n_new` and compares the rows with those of the whole graph.
fn expect_rows(text: &str, n_new: usize) -> Graph {
    let registry = Registry::new();
    let oracle = Oracle::new(&registry);
    let whole = primitives(&parse(text, &registry).unwrap(), &registry);
    let inputs = values(&whole);
    let expected = oracle.run(&whole, &inputs, 0, 0).unwrap().outputs["y"].to_f64();
    let step = step_of(text, n_new);
    let tokens = inputs["t"].to_f64();
    let ty = whole.ty(whole.find("t").unwrap()).clone();
    let [rows, n] = ty.extents()[..] else { panic!("{ty}") };
    let width = expected.len() / (rows * n);
    let mut state = values(&step);
    state.extend(
        inputs
            .iter()
            .filter(|(name, _)| state.contains_key(*name))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<Vec<_>>(),
    );
    for first in (0..n).step_by(n_new) {
        let new: Vec<f64> = (0..rows).flat_map(|row| tokens[row * n + first..][..n_new].to_vec()).collect();
        state.insert("t".into(), OracleTensor::new(ty.dtype, &[rows, n_new], &new));
        let run = oracle.run(&step, &state, 0, first as i64).unwrap();
        let found = run.outputs["y"].to_f64();
        for row in 0..rows {
            let expected = &expected[(row * n + first) * width..][..n_new * width];
            let found = &found[row * n_new * width..][..n_new * width];
            for (a, b) in expected.iter().zip(found) {
                assert!(
                    (a - b).abs() < 1e-12,
                    "token {first} of row {row}: {found:?} instead of {expected:?}\n{step}"
                );
            }
        }
        state.extend(run.state.into_iter().map(|(name, value)| (name.to_string(), value)));
    }
    step
}

fn states(step: &Graph) -> Vec<String> {
    step.state.iter().map(|link| step.node(link.input).to_owned().name().to_string()).collect()
}

fn expect_all(text: &str) -> Graph {
    for n_new in [4, 2] {
        expect_rows(text, n_new);
    }
    expect_rows(text, 1)
}

/// Attention of two heads, with the rows of tokens in the middle of an axis.
const ATTENTION: &str = "
    graph g {
      input t: i32[2, 4]
      param table: f64[5, 6]
      param where: f64[4, 6]
      e: f64[2, 4, 6] = .gather(table, t, axis=0, batch=0)
      w: f64[2, 4, 6] = .broadcast(where, axes=[1, 2])
      x: f64[2, 4, 6] = .add(e, w)
      h: f64[2, 4, 2, 3] = .reshape(x)
      q: f64[2, 2, 4, 3] = .permute(h, perm=[0, 2, 1, 3])
      k: f64[4, 4, 3] = .reshape(q)
      s: f64[4, 4, 4] = .matmul(k, k, batch=[[0, 0]], contracted=[[2, 2]])
      i: i32[4, 4, 4] = .iota(axis=1)
      j: i32[4, 4, 4] = .iota(axis=2)
      seen: bool[4, 4, 4] = .le(j, i)
      low: f64[4, 4, 4] = .const(-1e30)
      m: f64[4, 4, 4] = .select(seen, s, low)
      p: f64[4, 4, 4] = .exp(m)
      total: f64[4, 4] = .sum(p, axes=[2])
      wide: f64[4, 4, 4] = .broadcast(total, axes=[0, 1])
      a: f64[4, 4, 4] = .div(p, wide)
      o: f64[4, 4, 3] = .matmul(a, k, batch=[[0, 0]], contracted=[[2, 1]])
      b: f64[2, 2, 4, 3] = .reshape(o)
      c: f64[2, 4, 2, 3] = .permute(b, perm=[0, 2, 1, 3])
      y: f64[8, 6] = .reshape(c)
      output y = y
    }";

#[test]
fn attention_caches_what_all_queries_read() {
    let step = expect_all(ATTENTION);
    assert_eq!(states(&step), ["cache.k"]);
    let new = step.nodes.iter().find(|node| &**node.name() == "s").unwrap();
    assert_eq!(new.outputs[0].ty.to_string(), "f64[4, 1, 4]");
}

#[test]
fn a_second_layer_has_a_cache_of_its_own() {
    let two = ATTENTION.replace(
        "y: f64[8, 6] = .reshape(c)",
        "
      x2: f64[2, 4, 6] = .reshape(c)
      s2: f64[2, 4, 4] = .matmul(x2, x2, batch=[[0, 0]], contracted=[[2, 2]])
      i2: i32[2, 4, 4] = .iota(axis=1)
      j2: i32[2, 4, 4] = .iota(axis=2)
      seen2: bool[2, 4, 4] = .le(j2, i2)
      zero: f64[2, 4, 4] = .const(0.0)
      m2: f64[2, 4, 4] = .select(seen2, s2, zero)
      o2: f64[2, 4, 6] = .matmul(m2, x2, batch=[[0, 0]], contracted=[[2, 1]])
      y: f64[8, 6] = .reshape(o2)",
    );
    assert_eq!(states(&expect_all(&two)), ["cache.k", "cache.x2"]);
}

#[test]
fn a_scan_over_tokens_and_the_token_before_read_all_rows() {
    let step = expect_all(
        "graph g {
           input t: i32[2, 4]
           param table: f64[5, 3]
           x: f64[2, 4, 3] = .gather(table, t, axis=0, batch=0)
           sums: f64[2, 4, 3] = .scan_sum(x, axis=1)
           shifted: f64[2, 3, 3] = .slice(x, start=[0, 0, 0], step=[1, 1, 1])
           before: f64[2, 4, 3] = .pad(shifted, low=[0, 1, 0], high=[0, 0, 0], fill=0.0)
           both: f64[2, 4, 3] = .add(sums, before)
           y: f64[2, 4, 3] = .mul(both, x)
           output y = y
         }",
    );
    assert_eq!(states(&step), ["cache.x"]);
}

/// The second result of a loop, and a third one without rows.
#[test]
fn rows_of_all_results_are_taken() {
    let step = expect_all(
        "graph g {
           input t: i32[2, 4]
           param table: f64[5, 3]
           x: f64[2, 4, 3] = .gather(table, t, axis=0, batch=0)
           zero: i32[] = .const(0)
           (a: f64[2, 4, 3], b: f64[2, 4, 3], n: i32[]) = .loop(x, x, zero, trips=2) {
             graph body {
               input p: f64[2, 4, 3]
               input q: f64[2, 4, 3]
               input m: i32[]
               input i: i32[]
               r: f64[2, 4, 3] = .add(p, q)
               output p = r
               output q = p
               output m = i
             }
           }
           both: f64[2, 4, 3] = .sub(a, b)
           y: f64[2, 4, 3] = .mul(both, b)
           output y = y
         }",
    );
    assert_eq!(states(&step), ["cache.x"]);
}

#[test]
fn a_graph_of_single_tokens_needs_no_cache() {
    let step = expect_all(
        "graph g {
           input t: i32[2, 4]
           param w: f64[4]
           i: i32[8] = .iota(axis=0)
           f: i32[8] = .reshape(t)
           s: i32[8] = .add(f, i)
           d: f64[8] = .cast(s, dtype=f64)
           q: f64[2, 4] = .reshape(d)
           v: f64[2, 4] = .broadcast(w, axes=[1])
           y: f64[2, 4] = .mul(q, v)
           output y = y
         }",
    );
    assert!(step.state.is_empty());
}

#[test]
fn coordinates_count_tokens_within_longer_axes() {
    // Tokens repeat along an axis, and have two elements each on another.
    expect_all(
        "graph g {
           input t: i32[1, 4]
           a: i32[4] = .reshape(t)
           b: i32[3, 4, 2] = .broadcast(a, axes=[1])
           c: i32[24] = .reshape(b)
           i: i32[24] = .iota(axis=0)
           s: i32[24] = .mul(c, i)
           d: f64[24] = .cast(s, dtype=f64)
           e: f64[3, 4, 2] = .reshape(d)
           f: f64[4, 3, 2] = .permute(e, perm=[1, 0, 2])
           y: f64[4, 6] = .reshape(f)
           output y = y
         }",
    );
}

#[test]
fn results_that_are_no_rows_of_tokens_are_not_decoded() {
    let registry = Registry::new();
    for text in [
        "graph g {\n input t: i32[4, 4]\n y: i32[4, 4] = .permute(t, perm=[1, 0])\n output y = y\n}",
        "graph g {\n input t: i32[1, 4]\n i: i32[1, 4] = .iota(axis=1)\n output y = i\n}",
    ] {
        let graph = parse(text, &registry).unwrap();
        assert!(decoding(&graph, &Decoding { tokens: "t", n_new: 1 }, &registry).is_none(), "{text}");
    }
}
