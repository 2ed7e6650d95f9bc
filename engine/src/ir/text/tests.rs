#![allow(clippy::unwrap_used)]
//! Graphs to text and back.

use crate::ir::*;
use crate::op::{AttrKind, AttrSpec, Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role, TypeRule};
use expect_test::expect;
use std::sync::Arc;

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

// ---- Reading.

fn op(name: &str, n_inputs: usize, attrs: &[(&str, AttrKind, Option<Attr>)]) -> OpForm {
    let input = |i: usize| InputSpec { name: format!("x{i}"), doc: "an operand".into(), optional: false };
    let attr = |(name, kind, default): &(&str, AttrKind, Option<Attr>)| AttrSpec {
        name: name.to_string(),
        doc: "a setting".into(),
        kind: kind.clone(),
        default: default.clone(),
    };
    OpForm {
        name: name.into(),
        family: "test".into(),
        summary: "Passes its first operand through.".into(),
        inputs: (0..n_inputs).map(input).collect(),
        outputs: vec!["y".into()],
        attrs: attrs.iter().map(attr).collect(),
        types: TypeRule::custom(|inputs, _| Ok(vec![inputs[0].clone()])),
        lower: Lower::expand(|_, call| vec![call.inputs[0]]),
        grad: Grad::Derive,
        check: GradCheck::None { why: "there is nothing to compute" },
        examples: vec![],
        role: Role::Plain,
    }
}

/// `relu` and `dense` are plain; `tuned` has an attribute of every kind; `twist` has a foreign scalar function.
fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(op("relu", 1, &[]));
    registry.add(op("dense", 2, &[("bias", AttrKind::Bool, Some(Attr::Lit(Literal::Bool(false))))]));
    let choices = AttrKind::Choice(vec!["mean".into(), "sum".into()]);
    registry.add(op(
        "tuned",
        1,
        &[
            ("alpha", AttrKind::Float, Some(Attr::Lit(Literal::Float(0.5)))),
            ("axes", AttrKind::Ints, Some(Attr::Ints(vec![]))),
            ("axis", AttrKind::Int, Some(Attr::None)),
            ("dtype", AttrKind::DType, Some(Attr::DType(DType::F32))),
            ("fill", AttrKind::Literal, Some(Attr::Lit(Literal::Int(0)))),
            ("label", AttrKind::Str, Some(Attr::Str("".into()))),
            ("reduction", choices, Some(Attr::Str("mean".into()))),
            ("shape", AttrKind::Shape, None),
        ],
    ));
    let mut twist = op("twist", 1, &[]);
    twist.lower = Lower::map(1, |x| E::apply(Scalar::Foreign(twisted()), &[x[0]]));
    registry.add(twist);
    registry
}

fn twisted() -> Arc<Foreign> {
    Arc::new(Foreign {
        key: "test.twist@1".into(),
        arity: 1,
        f64: |x| -x[0],
        f32_slice: |x, y| y.copy_from_slice(x[0]),
        partials: |_| vec![E::lit(Literal::Float(-1.0))],
        cube: |_, x| x[0].clone(),
    })
}

/// Reads a text that is already in the printer's style, so it must come back letter by letter.
fn check_round_trip(text: &str) -> Graph {
    let graph = parse(text, &registry()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(graph.to_string(), text);
    graph
}

#[test]
fn every_kind_of_line_reads_back() {
    let graph = check_round_trip(
        r#"graph "all kinds" {
  input x: f32[B, 4]
  param w: f32[4]
  state w.m: f32[4]
  step step: i32[]
  c: f32[] = .const(-0.0)
  on: bool[] = .const(true)
  huge: f64[2] = .const(-inf)
  a: f32[B, 4] = relu(x)
  b: f32[B, 4] = dense(a, x, bias=true)
  t.1: f32[B, 4] = tuned(b, alpha=2, axes=[0, -1], axis=-2, dtype=bf16, fill=1.5, label="a, \"b\" = (|", reduction="sum", shape=[B, 4])
  t.2: f32[B, 4] = tuned(b, shape=[])
  (d: f32[B, 4], e: bool[B, 4]) = map(a, w) |a, b| select(a > b, -a, neg(2.0)) * -1e-7, not((a > b) == (a != 0.0))
  f: f32[B, 4] = map(a) |a| foreign(cast(cast(a, dtype=i32), dtype=f32), key="test.twist@1") - (a - pow(a, 2.0)) % a
  g: f32[4] = .foreign(w, key="test.twist@1")
  h/sub.1: f32[4] = .max(g, w)
  i: f32[] = .max(h/sub.1, axes=[0])
  j: i32[] = .argmin(h/sub.1, axes=[0])
  k: f32[4] = .scan_prod(g, axis=0)
  l: i64[4] = .cast(g, dtype=i64)
  m: i32[3] = .iota(axis=0)
  n: i32[3] = .check(m, bound=10)
  o: f32[3] = .gather(g, n, axis=0)
  p: f32[4] = .scatter_add(g, n, o, axis=0)
  q: f32[4] = .scatter_set(g, n, o, axis=0)
  r: u32[8] = .random(step, stream=4294967295)
  s: f32[2, 2] = .reshape(g)
  t: f32[2, 2] = .permute(s, perm=[1, 0])
  u: f32[5, 2, 2] = .broadcast(t, axes=[1, 2])
  v: f32[2, 1] = .slice(t, start=[1, 0], step=[-1, 1])
  in: f32[2, 3] = .pad(v, fill=0.0, high=[0, 1], low=[0, 1])
  y: f32[2, 3] = .contract(t, in, contracted=[[1, 0]])
  z: f32[2] = .contract(y, y, batch=[[0, 0]], contracted=[[1, 1]])
  (carried: f32[2], n.1: i32[]) = .loop(z, j, trips=3) {
    graph body {
      input acc: f32[2]
      input n: i32[]
      input i: i32[]
      on: bool[] = .const(false)
      next: f32[2] = .cond(on, acc) {
        graph then {
          input x: f32[2]
          output x = x
        }
        graph else {
          input x: f32[2]
          output x = x
        }
      }
      output acc = next
      output n = i
    }
  }
  state w = g
  state w.m = k
  output out = carried
  output "an odd name" = n.1
}
"#,
    );
    assert_eq!(graph.nodes.len(), 33);
}
