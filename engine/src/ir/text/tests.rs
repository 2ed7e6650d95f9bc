#![allow(clippy::unwrap_used)]
//! Graphs to text and back.

mod random;

use crate::ir::*;
use crate::op::Registry;
use crate::text::fuzz;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use random::{graph_of, registry};

#[test]
fn a_training_step_prints_one_node_per_line() {
    let registry = Registry::new();
    let mut b = Builder::new(Graph::new("step"), &registry);
    let x = b.input("x", InputKind::Data, Type::new(DType::F32, &[8, 4]));
    let w = b.input("w", InputKind::Param, Type::new(DType::F32, &[4, 2]));
    let h = b.mm(x, w);
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
          t.1: f32[8, 2] = .matmul(x, w, contracted=[[1, 0]])
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

/// Reads a text in the printer's style, so its printed form must equal it.
fn check_round_trip(text: &str) -> Graph {
    let graph = parse(text, &registry()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(graph.to_string(), text);
    graph
}

/// A line of each kind.
const ALL_KINDS: &str = r#"graph "all kinds" {
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
  nz: i32[3] = .nonzero(m)
  ca: i32[3] = .capacity(m, room=9)
  di: i32[3] = .distance(m)
  o: f32[3] = .gather(g, n, axis=0)
  p: f32[4] = .scatter_add(g, n, o, axis=0)
  q: f32[4] = .scatter_set(g, n, o, axis=0)
  r: u32[8] = .random(step, stream=4294967295)
  s: f32[2, 2] = .reshape(g)
  t: f32[2, 2] = .permute(s, perm=[1, 0])
  u: f32[5, 2, 2] = .broadcast(t, axes=[1, 2])
  v: f32[2, 1] = .slice(t, start=[1, 0], step=[-1, 1])
  in: f32[2, 3] = .pad(v, fill=0.0, high=[0, 1], low=[0, 1])
  y: f32[2, 3] = .matmul(t, in, contracted=[[1, 0]])
  z: f32[2] = .matmul(y, y, batch=[[0, 0]], contracted=[[1, 1]], precision=tf32)
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
"#;

#[test]
fn every_kind_of_line_reads_back() {
    let graph = check_round_trip(ALL_KINDS);
    assert_eq!(graph.nodes.len(), 36);
}

fn check_faults(texts: &[&str], expected: Expect) {
    let fault = |text: &&str| match parse(text, &registry()) {
        Ok(graph) => panic!("this reads well:\n{graph}"),
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&texts.iter().map(fault).collect::<String>());
}

#[test]
fn errors_of_a_malformed_graph_have_a_place_and_a_reason() {
    check_faults(
        &[
            "",
            "graph {",
            "graph g {",
            "graph g {\n}\n}",
            "graph g {\n  hello\n}",
            "graph g {\n  input x\n}",
            "graph g {\n  input x y: f32[]\n}",
            "graph g {\n  input x: f33[]\n}",
            "graph g {\n  input x: f32[-1]\n}",
            "graph g {\n  input x: f32[]\n  param x: f32[]\n}",
            "graph g {\n  input x: f32[]\n  y: f32[] = .exp(z)\n}",
            "graph g {\n  y: f32[] = .exp(y)\n}",
            "graph g {\n  () = .const(1.0)\n}",
            "graph g {\n  output y = x\n}",
            "graph g {\n  output y\n}",
        ],
        expect![[r#"
            1:1: expected `graph NAME {`, found the end
            1:7: expected a name
            1:10: expected `}`, found the end
            3:1: expected the end of the text behind the graph
            2:3: expected `NAME: TYPE = OP(…)`
            2:9: expected `NAME: TYPE`
            2:9: expected a name
            2:12: `f33` is no element type
            2:16: expected an extent, found `-`; an extent is a number, a name such as `B`, or arithmetic of them
            3:9: `x` is defined twice
            3:19: `z` is not defined above
            2:19: `y` is not defined above
            2:3: a node has at least one result
            2:14: `x` is not defined above
            2:10: expected `output NAME = VALUE`
        "#]],
    );
}

/// Faults in one line of a graph with `x: f32[2]`.
fn check_line_faults(lines: &[&str], expected: Expect) {
    let texts: Vec<String> =
        lines.iter().map(|line| format!("graph g {{\n  input x: f32[2]\n{line}\n}}\n")).collect();
    check_faults(&texts.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn faulty_calls_say_where_and_why() {
    check_line_faults(
        &[
            "y: f32[2] = x",
            "y: f32[2] = reluu(x)",
            "y: f32[2] = .relu(x)",
            "y: f32[2] = dense(x, x, bias=1)",
            "y: f32[2] = dense(x, bias=true, x)",
            "y: f32[2] = dense(x, x, bias=true, bias=true)",
            "y: f32[2] = dense(x, x, bais=true)",
            "y: f32[2] = tuned(x)",
            "y: f32[2] = tuned(x, shape=[2], reduction=\"max\")",
            "y: f32[2] = tuned(x, shape=[2], dtype=f33)",
            "y: f32[2] = tuned(x, shape=none)",
            "y: f32[2] = tuned(x, shape=[2], axes=[1.0])",
            "y: f32[2] = .const(x)",
            "y: f32[2] = .const()",
            "y: f32[2] = .sum(x)",
            "y: f32[2] = .cast(x)",
            "y: f32[2] = .cast(x, dtype=1)",
            "y: f32[2] = .iota(axis=-1)",
            "y: f32[2] = .random(x, stream=4294967296)",
            "y: f32[2] = .matmul(x, x, contracted=[0, 0])",
            "y: f32[2] = .slice(x, start=0)",
            "y: f32[2] = .foreign(x, key=\"test.unknown\")",
            "y: f32[2] = .foreign(x, key=1)",
            "y: f32[2] = .exp(\"x)",
        ],
        expect![[r#"
            3:13: expected `OP(…)`
            3:13: there is no op `reluu`; did you mean `relu`?
            3:14: there is no primitive `relu`
            3:30: `bias` cannot be 1
            3:33: operands come before settings
            3:36: `bias` is set twice
            3:25: there is no setting `bais` here
            3:20: `shape` is not set
            3:43: `reduction` cannot be "max"
            3:39: expected an element type such as `f32`
            3:28: `shape` cannot be none
            3:39: expected an integer
            3:20: expected a number or truth value
            3:20: expected one number or truth value
            3:19: `axes` is not set
            3:20: `dtype` is not set
            3:28: expected an element type such as `f32`
            3:24: this integer is out of range
            3:31: this integer is out of range
            3:39: expected a list such as `[0, 1]`
            3:29: expected a list such as `[0, 1]`
            3:29: no op brings a function `test.unknown`
            3:29: expected a text in quotes
            3:18: this string is not closed; add the closing `"`
        "#]],
    );
}

#[test]
fn faulty_bodies_and_regions_say_where_and_why() {
    check_line_faults(
        &[
            "y: f32[2] = map(x)",
            "y: f32[2] = map(x) |a",
            "y: f32[2] = map(x) |a| b",
            "y: f32[2] = map(x) |a| a @ a",
            "y: f32[2] = map(x) |a| relu(a)",
            "y: f32[2] = map(x) |a| exp(a, a)",
            "y: f32[2] = map(x) |a| exp(a, axis=1)",
            "y: f32[2] = map(x) |a| [a]",
            "y: f32[2] = map(x) |a| a +",
            "y: f32[2] = map(x) |a| a, ",
            "y: f32[2] = map(x) |a, | a",
            "y: f32[2] = relu(x) |a| a",
            "y: f32[2] = .loop(x, trips=2) {\ny: f32[] = .const(1.0)\n}",
            "y: f32[2] = .loop(x, trips=2) {\ngraph body {\n}",
        ],
        expect![[r#"
            3:18: a scalar body such as `|a| -a` follows `map(…)`
            3:20: expected `|a, b| …`
            3:24: the body has no parameter `b`
            3:26: `@` is no scalar operator
            3:24: there is no scalar primitive `relu`
            3:24: `exp` is given 2 operands, not 1
            3:31: there is no setting `axis` here
            3:24: expected a number or truth value
            3:27: expected a value, found the end
            3:26: expected a value, found the end
            3:23: expected a name
            3:21: a scalar body belongs to `map`
            4:1: expected `graph NAME {`
            7:1: expected `}`, found the end
        "#]],
    );
}

#[test]
fn a_number_that_is_none_has_no_sign() {
    let text = "graph g {\n  input x: f32[]\n  y: f32[] = map(x) |a| a + mul_add(-nan, nan, -inf)\n  output y = y\n}\n";
    let graph = parse(text, &registry()).unwrap();
    assert!(graph.to_string().contains("mul_add(nan, nan, -inf)"), "{graph}");
    assert_eq!(parse(&graph.to_string(), &registry()), Ok(graph));
}

/// The verifier refuses these graphs. Their text shows them as they are.
#[test]
fn steps_of_no_axis_are_written_as_they_are() {
    let line = "  y: f32[2, 3] = .slice(x, start=[1, 2], step=[])\n";
    check_round_trip(&format!("graph g {{\n  input x: f32[3, 5]\n{line}  output y = y\n}}\n"));
}

#[test]
fn regions_do_not_nest_without_end() {
    let text = "graph g {\ny: f32[] = .cond() {\n".repeat(100_000);
    let error = parse(&text, &registry()).unwrap_err();
    assert_eq!(error.to_string(), "67:1: more than 32 levels of regions");
}

#[test]
fn remarks_and_spaces_are_skipped() {
    let text = "# A remark.\n\n graph  g{ # another\r\n\tinput x : f32 [ 2 ]\n  y:f32[2]=relu( x )# more\n output   y=y\n}  \n";
    expect![[r#"
        graph g {
          input x: f32[2]
          y: f32[2] = relu(x)
          output y = y
        }
    "#]]
    .assert_eq(&parse(text, &registry()).unwrap().to_string());
}

// ---- Random graphs.

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_printed_graph_reads_back_the_same(steps in prop::collection::vec(any::<(u8, u64)>(), 1..40)) {
        let graph = graph_of(&steps);
        prop_assert_eq!(verify(&graph, Level::Typed), Ok(()));
        let read = parse(&graph.to_string(), &registry()).map_err(|e| TestCaseError::fail(format!("{e}\n{graph}")))?;
        prop_assert_eq!(read, graph);
    }
}

#[test]
fn random_graphs_are_of_every_kind() {
    let steps: Vec<(u8, u64)> = (0..2000u64).map(|i| (i as u8, i * i)).collect();
    let text = graph_of(&steps).to_string();
    for line in [
        "input ",
        "param ",
        "state ",
        "step ",
        "output ",
        ".const(",
        "relu(",
        "tuned(",
        "map(",
        ".foreign(",
        ".exp(",
        ".add(",
        ".select(",
        ".mul_add(",
        ".cast(",
        ".iota(",
        ".check(",
        ".nonzero(",
        ".capacity(",
        ".distance(",
        ".reshape(",
        ".permute(",
        ".broadcast(",
        ".slice(",
        ".pad(",
        ".max(",
        ".argmin(",
        ".scan_",
        ".gather(",
        ".scatter_add(",
        ".scatter_set(",
        ".matmul(",
        ".random(",
        ".loop(",
        ".cond(",
        "key=",
        "B",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}

/// Printed graphs with changed bytes, moved lines, and inserted pieces of other lines. Each one reads or fails without
/// a panic. A text that reads also prints and reads back.
#[test]
fn damaged_texts_never_panic() {
    let registry = registry();
    let mut random = random::Random(0x2545_f491_4f6c_dd1d ^ fuzz::seed());
    let (mut n_read, mut n_refused) = (0, 0);
    for _ in 0..150 * fuzz::seconds() {
        let steps: Vec<(u8, u64)> = (0..12).map(|_| (random.next() as u8, random.next())).collect();
        let text = graph_of(&steps).to_string();
        for _ in 0..20 {
            let damaged = damage(&text, &mut random);
            match parse(&damaged, &registry) {
                Ok(graph) => {
                    n_read += 1;
                    let _ = verify(&graph, Level::Primitive);
                    assert_eq!(parse(&graph.to_string(), &registry).as_ref(), Ok(&graph), "{damaged}");
                }
                Err(_) => n_refused += 1,
            }
        }
    }
    assert!(n_read > 100 && n_refused > 100, "{n_read} read, {n_refused} refused");
}

fn damage(text: &str, random: &mut random::Random) -> String {
    const TOKENS: [&str; 16] =
        ["(", ")", "[", "]", "{", "}", "|", ",", "=", ":", ".", "\"", "\\", "-", "\n", "é"];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(3) {
        let (from, to) = (random.below(chars.len()), random.below(chars.len()));
        let end = (from + random.below(8)).min(chars.len());
        match random.below(4) {
            0 => drop(chars.drain(from..end)),
            1 => {
                let piece = chars[from..end].to_vec();
                chars.splice(to..to, piece);
            }
            2 => {
                let token = TOKENS[random.below(TOKENS.len())].chars();
                chars.splice(to..to, token);
            }
            _ => chars.swap(from, to),
        }
        if chars.is_empty() {
            break;
        }
    }
    chars.into_iter().collect()
}
