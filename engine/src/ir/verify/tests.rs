#![allow(clippy::unwrap_used)]
//! One graph per fault.

mod primitives;

use super::*;
use crate::ir::{Attr, Attrs, Body, E, Inst, Literal, NodeId, Scalar, Unary, parse};
use crate::op::{
    AttrKind, AttrSpec, Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role, Rounding, TypeRule,
};
use expect_test::{Expect, expect};
use std::sync::Arc;

/// `scale(x, by=…)`, for floats.
fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.add(OpForm {
        name: "scale".into(),
        family: "test".into(),
        summary: "Multiplies by a number.".into(),
        inputs: vec![InputSpec::required("x", "what is scaled")],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec {
            name: "by".into(),
            doc: "the factor".into(),
            kind: AttrKind::Float,
            default: Some(Attr::Lit(Literal::Float(2.0))),
            range: None,
        }],
        types: TypeRule::Broadcast { allowed: DType::is_float },
        lower: Lower::map_with(1, |x, attrs| x[0] * attrs.float("by")),
        grad: Grad::Derive,
        check: GradCheck::None { why: "it is linear" },
        examples: vec![],
        role: Role::Plain,
        rounding: Rounding::Never,
    });
    registry
}

const INPUTS: &str = "
  input x: f32[2, 3]
  input i: i32[2]
  input on: bool[]
  input named: f32[B, 3]
  param w: f32[3]
";

fn graph(lines: &str) -> Graph {
    parse(&format!("graph g {{{INPUTS}{lines}\n}}"), &registry()).unwrap()
}

fn faults(graph: &Graph, level: Level) -> String {
    let problems = verify(graph, level).err().unwrap_or_default();
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// The problem of each line, each in a graph of its own.
fn check_lines(lines: &[&str], expected: Expect) {
    let mut found = String::new();
    for line in lines {
        let problems = verify(&graph(line), Level::Typed).expect_err(line);
        assert_eq!(problems.len(), 1, "{line}: {problems:?}");
        let line = line.split_once(" {").map_or(*line, |(line, _regions)| line);
        found += &format!("{line}\n    {}\n", problems[0].message);
    }
    expected.assert_eq(&found);
}

#[test]
fn calls_and_maps_agree_with_their_rules() {
    check_lines(
        &[
            "y: f32[3, 2] = scale(x)",
            "y: i32[2] = scale(i)",
            "y: f32[2, 3] = scale(x, x)",
            "(y: f32[2, 3], z: f32[]) = scale(x)",
            "y: f32[3] = map(x, w) |a, b| a + b",
            "y: f32[2, 3] = map(x) |a, b| a + b",
            "y: f32[2, 3] = map(x, i) |a, b| a",
            "y: f32[2, 3] = map(x, on) |a, b| a + b",
            "y: f32[2, 3] = map(x) |a| a > 0.0",
            "y: f32[2] = map(i) |a| exp(a)",
            "(y: f32[2, 3], z: f32[2, 3]) = map(x) |a| -a",
        ],
        expect![[r#"
            y: f32[3, 2] = scale(x)
                the result is f32[2, 3], not f32[3, 2]
            y: i32[2] = scale(i)
                `scale` does not take i32
            y: f32[2, 3] = scale(x, x)
                `scale` takes 1 operands, 2 given
            (y: f32[2, 3], z: f32[]) = scale(x)
                the result is f32[2, 3], not f32[2, 3], f32[]
            y: f32[3] = map(x, w) |a, b| a + b
                the result is f32[2, 3], not f32[3]
            y: f32[2, 3] = map(x) |a, b| a + b
                the number of operands is 1, not 2
            y: f32[2, 3] = map(x, i) |a, b| a
                the operands do not broadcast
            y: f32[2, 3] = map(x, on) |a, b| a + b
                `add` does not take f32, bool
            y: f32[2, 3] = map(x) |a| a > 0.0
                the result is bool[2, 3], not f32[2, 3]
            y: f32[2] = map(i) |a| exp(a)
                `exp` does not take i32
            (y: f32[2, 3], z: f32[2, 3]) = map(x) |a| -a
                the result is f32[2, 3], not f32[2, 3], f32[2, 3]
        "#]],
    );
}

#[test]
fn regions_fit_their_node() {
    let same = "{\ngraph r {\n  input a: f32[3]\n  output a = a\n}\n}";
    let twice = "{\ngraph r {\n  input a: f32[3]\n  output a = a\n}\ngraph s {\n  param a: f32[3]\n  output a = a\n}\n}";
    check_lines(
        &[
            "y: f32[3] = .loop(w, trips=2)",
            &format!("y: f32[3] = .loop(w, trips=2) {same}"),
            &format!("y: f32[3] = .loop(trips=2) {same}"),
            &format!("y: f32[3] = .cond(on, w) {same}"),
            &format!("y: f32[3] = .cond(on, w) {twice}"),
            &format!("y: f32[3] = .cond(w, w) {}", twice.replace("param", "input")),
            &format!("y: f32[3] = .cond() {}", twice.replace("param", "input")),
            &format!("y: f32[2] = .cond(on, w) {}", twice.replace("param", "input")),
            &format!("y: f32[3] = .neg(w) {same}"),
        ],
        expect![[r#"
            y: f32[3] = .loop(w, trips=2)
                the number of regions is 0, not 1
            y: f32[3] = .loop(w, trips=2)
                region `r` is given f32[3], i32[], but takes f32[3]
            y: f32[3] = .loop(trips=2)
                the number of operands is 0, not 1
            y: f32[3] = .cond(on, w)
                the number of regions is 1, not 2
            y: f32[3] = .cond(on, w)
                region `s` has a param input
            y: f32[3] = .cond(w, w)
                the condition is f32[3]
            y: f32[3] = .cond()
                there is no condition
            y: f32[2] = .cond(on, w)
                region `r` yields f32[3], not f32[2]
            y: f32[3] = .neg(w)
                the number of regions is 1, not 0
        "#]],
    );
}

#[test]
fn faults_within_a_region_are_found() {
    let lines = "y: f32[3] = .loop(w, trips=2) {\ngraph body {\n  input a: f32[3]\n  input i: i32[]\n  b: f32[3] = .exp(i)\n  output a = b\n}\n}";
    expect![[r#"
        in `body`: b: f32[3] = .exp(i): `exp` does not take i32
    "#]]
    .assert_eq(&faults(&graph(lines), Level::Typed));
}

#[test]
fn state_is_carried_once_and_keeps_its_type() {
    check_lines(
        &[
            "state x = x",
            "state w = x",
            "state w = w\n  state w = w",
            "output y = x\n  output y = w",
            "step s: i32[]\n  step t: i32[]",
        ],
        expect![[r#"
            state x = x
                `x` is carried on but is neither a param nor a state
            state w = x
                `w` is f32[3] but its next value is f32[2, 3]
            state w = w
              state w = w
                `w` has two next values
            output y = x
              output y = w
                there are two outputs `y`
            step s: i32[]
              step t: i32[]
                there are 2 step inputs
        "#]],
    );
}

#[test]
fn names_are_bound_and_ops_lowered_where_they_must_be() {
    let typed = graph("y: f32[B, 3] = scale(named)\n  z: f32[2, 3] = map(x) |a| -a");
    expect![[r#""#]].assert_eq(&faults(&typed, Level::Typed));
    expect![[r#"
        in `g`: input named: f32[B, 3]: `named` is f32[B, 3], with an extent that is not bound
        in `g`: y: f32[B, 3] = scale(named): `y` is f32[B, 3], with an extent that is not bound
    "#]]
    .assert_eq(&faults(&typed, Level::Bound));
    let bound = parse(
        "graph g {\n  input x: f32[3]\n  y: f32[3] = scale(x)\n  z: f32[3] = map(x) |a| -a\n}",
        &registry(),
    )
    .unwrap();
    expect![[r#""#]].assert_eq(&faults(&bound, Level::Bound));
    expect![[r#"
        in `g`: y: f32[3] = scale(x): this is not lowered to primitives
        in `g`: z: f32[3] = map(x) |a| -a: this is not lowered to primitives
    "#]]
    .assert_eq(&faults(&bound, Level::Primitive));
}

/// Broken references, which the text form cannot express.
#[test]
fn broken_references_are_found() {
    let check = |damage: fn(&mut Graph, NodeId), expected: Expect| {
        let mut graph = graph("y: f32[3] = map(w) |a| exp(a)");
        let last = graph.nodes.len() - 1;
        damage(&mut graph, last);
        expected.assert_eq(&faults(&graph, Level::Typed));
    };
    check(
        |graph, y| graph.nodes[y].inputs[0].node = y,
        expect![[r#"
        in `g`: y: f32[3] = map(y) |a| exp(a): operand 0 is not defined before its use
    "#]],
    );
    check(
        |graph, y| graph.nodes[y].inputs[0].node = 99,
        expect![[r#"
        in `g`: y: f32[3] = map(?99.0) |a| exp(a): operand 0 is not defined before its use
    "#]],
    );
    check(
        |graph, y| graph.nodes[y].inputs[0].port = 1,
        expect![[r#"
        in `g`: y: f32[3] = map(?4.1) |a| exp(a): operand 0 is not defined before its use
    "#]],
    );
    check(
        |graph, y| graph.nodes[y].outputs[0].name = "x".into(),
        expect![[r#"
        in `g`: there are two values `x`
    "#]],
    );
    check(
        |graph, y| graph.nodes[y].outputs.clear(),
        expect![[r#"
        in `g`: () = map(w) |a| exp(a): a node without results
    "#]],
    );
    check(
        |graph, _| graph.outputs.push(("out".into(), Value::of(99))),
        expect![[r#"
        in `g`: output `out` is nowhere defined
    "#]],
    );
    check(
        |graph, _| graph.state.push(StateLink { input: 99, next: Value::of(0) }),
        expect![[r#"
        in `g`: the state link of node 99 refers to a value that is nowhere defined
    "#]],
    );
    check(
        |graph, y| {
            let mut body = Body::new(1, |x| vec![x[0].exp()]);
            body.insts[1] = Inst::Apply(Scalar::Unary(Unary::Exp), vec![1]);
            graph.nodes[y].op = NodeOp::Map(Arc::new(body));
        },
        expect![[r#"
            in `g`: y: f32[3] = map(w) |a| exp(?1): step 1 of the scalar body is malformed
        "#]],
    );
    check(
        |graph, y| {
            let mut body = Body::new(1, |_| vec![E::lit(Literal::Float(1.0))]);
            body.outputs[0] = 2;
            graph.nodes[y].op = NodeOp::Map(Arc::new(body));
        },
        expect![[r#"
            in `g`: y: f32[3] = map(w) |a| ?2: the scalar body lacks a parameter or a result
        "#]],
    );
    check(
        |graph, y| {
            let form = registry().op("scale").unwrap();
            graph.nodes[y].op = NodeOp::Call(Call { op: form, attrs: Attrs::default() });
        },
        expect![[r#"
            in `g`: y: f32[3] = scale(w): `scale` needs the setting `by`
        "#]],
    );
    check(
        |graph, y| {
            let form = registry().op("scale").unwrap();
            let attrs = form.fill_attrs(Attrs::default()).with("to", Attr::None);
            graph.nodes[y].op = NodeOp::Call(Call { op: form, attrs });
        },
        expect![[r#"
            in `g`: y: f32[3] = scale(w, to=none): `scale` has no setting `to`
        "#]],
    );
}

/// A constant shared by operands of two types is of the type of each.
#[test]
fn a_shared_constant_takes_the_type_of_each_use() {
    let graph = graph("y: f64[2, 3] = map(x) |a| select(a > 0.5, cast(a, dtype=f64), 0.5)");
    assert_eq!(verify(&graph, Level::Typed), Ok(()));
}
