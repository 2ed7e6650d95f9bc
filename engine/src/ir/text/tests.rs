#![allow(clippy::unwrap_used)]
//! Graphs to text and back.

use crate::ir::*;
use crate::op::Registry;
use expect_test::expect;

#[test]
fn a_training_step_prints_one_node_per_line() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("step"), &registry);
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[8, 4]));
    let w = b.input("w", InputKind::Param, Type::new(DType::F32, &[4, 2]));
    let h = b.matmul(x, w);
    let relu = b.map(&[h], |a| E::select(a[0].gt(0.0), a[0], 0.0));
    let norms = b.reduce(Monoid::Max, relu, &[1]);
    let t = b.permute(x, &[1, 0]);
    let top = b.slice(t, &[3, 0], &[2, 8], &[-1, 1]);
    let framed = b.pad(top, &[0, 1], &[0, 1], Literal::Int(0));
    let noise = b.random_bits("noise", &[4, 2]);
    let noise = b.cast(noise, DType::F32);
    let next = b.add(w, noise);
    b.graph.state.push(StateLink { input: w.node, next });
    b.graph.outputs.push(("norms".into(), norms));
    b.graph.outputs.push(("framed x".into(), framed));

    expect![[r#"
        graph step {
          input x: f32[8, 4]
          param w: f32[4, 2]
          t.1: f32[8, 2] = .contract(x, w, contracted=[[1, 0]])
          t.2: f32[8, 2] = map(t.1) |a| select(a > 0.0, a, 0.0)
          t.3: f32[8] = .max(t.2, axes=[1])
          t.4: f32[4, 8] = .permute(x, perm=[1, 0])
          t.5: f32[2, 8] = .slice(t.4, start=[3, 0], step=[-1, 1])
          t.6: f32[2, 10] = .pad(t.5, fill=0.0, high=[0, 1], low=[0, 1])
          step step: i32[]
          t.7: u32[4, 2] = .random(step, stream=2207768502)
          t.8: f32[4, 2] = .cast(t.7, dtype=f32)
          t.9: f32[4, 2] = .add(w, t.8)
          state w = t.9
          output norms = t.3
          output "framed x" = t.6
        }
    "#]]
    .assert_eq(&b.graph.to_string());
    assert_eq!(verify(&b.graph, Level::Bound), Ok(()));
    let problems = verify(&b.graph, Level::Primitive).unwrap_err();
    let line = "t.2: f32[8, 2] = map(t.1) |a| select(a > 0.0, a, 0.0)";
    assert_eq!(problems[0].to_string(), format!("in `step`: {line}: this is not lowered to primitives"));
    assert_eq!(problems.len(), 1);
}
