//! What a loop computes from given values alone is computed before it.

use super::super::hoist::HOIST;
use super::*;
use crate::ir::parse;
use crate::oracle::{Oracle, OracleTensor};
use expect_test::expect;
use std::collections::HashMap;

/// A product of held inputs with its bias, rounded weights, and a table that is larger than what it is made of.
const TEXT: &str = "
    graph g {
      input h: f32[4, 8]
      input x: f32[4, 8]
      input w: f32[8, 8]
      input b: f32[8]
      input k: f32[]
      (y: f32[4, 8]) = .loop(h, x, w, b, k, given=4, trips=200) {
        graph body {
          input c: f32[4, 8]
          input i: i32[]
          input x: f32[4, 8]
          input w: f32[8, 8]
          input b: f32[8]
          input k: f32[]
          p: f32[4, 8] = .matmul(x, w, contracted=[[1, 0]])
          z: f32[4, 8] = map(p, b) |a, b| a + b
          v: bf16[8, 8] = map(w) |a| cast(a, dtype=bf16)
          d: bf16[4, 8] = map(c) |a| cast(a, dtype=bf16)
          q: bf16[4, 8] = .matmul(d, v, contracted=[[1, 0]])
          t: i32[4, 8] = .iota(axis=1)
          table: f32[4, 8] = map(t, k) |a, b| cast(a, dtype=f32) * b
          s: f32[4, 8] = map(q, z, table) |a, b, c| tanh(cast(a, dtype=f32) + b + c)
          output s = s
        }
      }
      output y = y
    }";

fn compiled(text: &str, options: &Options) -> Compiled {
    let registry = Registry::new();
    compile(&parse(text, &registry).unwrap(), &registry, options)
}

fn n_kernels_of_trip(compiled: &Compiled) -> usize {
    compiled.loops.iter().map(|trip| trip.compiled.plan.kernels.len()).sum()
}

#[test]
fn what_does_not_change_is_computed_before_the_loop() {
    let hoisted = compiled(TEXT, &Options::default());
    let text = hoisted.kernels_text();
    let heads = text.lines().filter(|line| line.contains("  # ") || line.contains("read @"));
    let heads: String = heads.map(|line| format!("{line}\n")).collect();
    expect![[r#"
        matmul z  # gemm add
          read @0 x: f32[4, 8]
          read @1 w: f32[8, 8]
          read @2 b: f32[8]
        map v  # cast
          read @0 w: f32[8, 8]
        loop y  # loop
          read @0 h: f32[4, 8]
          read @1 k: f32[]
          read @2 z: f32[4, 8]
          read @3 v: bf16[8, 8]
          map d  # cast
            read @0 c: f32[4, 8]
          matmul q  # gemm
            read @0 d: bf16[4, 8]
            read @1 v: bf16[8, 8]
          map s  # add add tanh
            read @0 q: bf16[4, 8]
            read @1 z: f32[4, 8]
            read @2 k: f32[]
    "#]]
    .assert_eq(&heads);
    let without = Options { without: vec![HOIST.into()], ..Options::default() };
    let kept = compiled(TEXT, &without);
    let (fewer, more) = (n_kernels_of_trip(&hoisted), n_kernels_of_trip(&kept));
    assert!(fewer == 3 && more > fewer, "{fewer} and {more} kernels of a trip");
    assert_eq!(kept.plan.kernels.len(), 1, "nothing beside the loop");
}

/// The interpreter runs the simplified graph with the values of the original one.
#[test]
fn hoisting_changes_no_value() {
    let registry = Registry::new();
    let nested = TEXT.replace("trips=200", "trips=5").replace(
        "output s = s",
        "(r: f32[4, 8]) = .loop(s, x, w, given=2, trips=3) {
           graph inner {
             input e: f32[4, 8]
             input j: i32[]
             input x: f32[4, 8]
             input w: f32[8, 8]
             o: f32[4, 8] = .matmul(x, w, contracted=[[1, 0]])
             f: f32[4, 8] = map(e, o) |a, b| a * 0.5 + b
             output f = f
           }
         }
         output r = r",
    );
    for text in [TEXT, &nested] {
        let graph = parse(text, &registry).unwrap();
        let of = |(id, _): (NodeId, InputKind)| {
            let ty = graph.ty(Value::of(id));
            let numbers: Vec<f64> = (0..ty.numel()).map(|i| ((i * 37 % 19) as f64 - 9.0) / 16.0).collect();
            (graph.node(id).name().to_string(), OracleTensor::new(ty.dtype, &ty.extents(), &numbers))
        };
        let inputs: HashMap<String, OracleTensor> = graph.inputs().map(of).collect();
        let run =
            |graph: &Graph| Oracle::new(&registry).run(graph, &inputs, 1, 0).unwrap().outputs["y"].to_f64();
        let compiled = compile(&graph, &registry, &Options::default());
        let has_product =
            |graph: &Graph| graph.nodes.iter().any(|n| matches!(n.op, crate::ir::NodeOp::Matmul(_)));
        assert!(has_product(&compiled.simplified), "it is hoisted, also from both loops");
        let (found, wanted) = (run(&compiled.simplified), run(&graph));
        assert!(found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}\n{wanted:?}");
    }
}
