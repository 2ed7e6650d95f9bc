//! Loops that stay loops have the gradients of their copies in a row.

use super::*;
use crate::bind::unroll_most;
use crate::compile::{Options, compile};

/// A recurrence over a sequence, whose loss reads all states and the last one. Each trip draws random numbers, and
/// adds up products of rows in a loop of its own.
const TEXT: &str = "
    graph g {
      input h: f32[2, 3]
      input xs: f32[130, 2, 3]
      input u: f32[3, 3]
      input k: i32[]
      zeros: f32[130, 2, 3] = .const(0.0)
      (last: f32[2, 3], count: i32[], all: f32[130, 2, 3]) = .loop(h, k, zeros, xs, u, given=2, trips=130) {
        graph body {
          input c: f32[2, 3]
          input n: i32[]
          input ys: f32[130, 2, 3]
          input i: i32[]
          input xs: f32[130, 2, 3]
          input u: f32[3, 3]
          x: f32[2, 3] = .gather(xs, i, axis=0)
          z: f32[2, 3] = noisy(x)
          (p: f32[2, 3]) = .loop(c, u, given=1, trips=129) {
            graph inner {
              input d: f32[2, 3]
              input j: i32[]
              input v: f32[3, 3]
              q: f32[2, 3] = .matmul(d, v, contracted=[[1, 0]])
              e: f32[2, 3] = map(d, q) |a, b| a * 0.9 + tanh(b) * 0.05
              output e = e
            }
          }
          s: f32[2, 3] = map(p, x, z) |a, b, c| tanh(a * 0.5 + b) + c
          next: f32[130, 2, 3] = .scatter_set(ys, i, s, axis=0)
          one: i32[] = .const(1)
          m: i32[] = .add(n, one)
          output c = s
          output n = m
          output ys = next
        }
      }
      squares: f32[130, 2, 3] = map(all) |a| a * a
      sum: f32[] = .sum(squares, axes=[0, 1, 2])
      rest: f32[] = .sum(last, axes=[0, 1])
      loss: f32[] = map(sum, rest) |a, b| a + 3.0 * b
      output loss = loss
      output count = count
    }";

fn values(graph: &Graph) -> HashMap<String, OracleTensor> {
    let of = |(id, kind): (usize, InputKind)| {
        let ty = graph.ty(Value::of(id));
        let number = |i: usize| if ty.dtype.is_float() { ((i * 37 % 19) as f64 - 9.0) / 12.0 } else { 4.0 };
        let numbers: Vec<f64> = (0..ty.numel()).map(number).collect();
        let name = graph.node(id).name().to_string();
        (kind != InputKind::Step).then(|| (name, OracleTensor::new(ty.dtype, &ty.extents(), &numbers)))
    };
    graph.inputs().filter_map(of).collect()
}

/// The loss, the count, and the gradients of h, xs and u.
fn results(graph: &Graph, registry: &Registry) -> Vec<Vec<f64>> {
    let wrt = ["h", "xs", "u"].map(|name| graph.find(name).unwrap());
    let found = differentiate(graph, registry, graph.find("loss").unwrap(), &wrt).unwrap();
    let mut graph = found.graph;
    let grads = ["d.h", "d.xs", "d.u"].iter().zip(found.grads);
    graph.outputs.extend(grads.map(|(name, grad)| ((*name).into(), grad)));
    assert_eq!(verify(&graph, Level::Bound), Ok(()));
    let inputs = values(&graph);
    let run = Oracle::new(registry).run(&graph, &inputs, 5, 3).unwrap();
    let n_loops = graph.nodes.iter().filter(|node| matches!(node.op, NodeOp::Loop { .. })).count();
    if n_loops > 0 {
        assert_eq!(compile(&graph, registry, &Options::default()).plan.loops.len(), n_loops);
    }
    run.outputs.values().map(OracleTensor::to_f64).collect()
}

#[test]
fn the_gradient_of_a_loop_is_that_of_its_copies() {
    let registry = registry();
    // Without random numbers: copies draw from streams of their own. All inner loops of the copies are written out, too.
    let text = TEXT.replace("noisy(x)", "softmax(x)").replace("trips=129", "trips=3");
    let graph = parse(&text, &registry).unwrap();
    let (looped, copied) = (results(&graph, &registry), results(&unroll_most(&graph, 130), &registry));
    assert_eq!(looped[1], [134.0]);
    assert!(are_close(&looped, &copied), "{looped:?}\n{copied:?}");
}

/// Sums of gradients are added up in another order.
fn are_close(found: &[Vec<f64>], wanted: &[Vec<f64>]) -> bool {
    let is_close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
    found.iter().zip(wanted).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(is_close))
}

/// The central difference of the loss along one element of u. The loss is that of the graph with its gradients, since
/// the trips behind the last chunk draw from streams of their own.
#[test]
fn the_gradient_of_a_loop_that_draws_is_its_slope() {
    let registry = registry();
    for keep in ["", ", keep=sqrt", ", reverse=true", ", reverse=true, keep=sqrt"] {
        let graph = parse(&TEXT.replace("trips=130", &format!("trips=130{keep}")), &registry).unwrap();
        let gradient = results(&graph, &registry)[4][4];
        let wrt = graph.find("u").unwrap();
        let graph = differentiate(&graph, &registry, graph.find("loss").unwrap(), &[wrt]).unwrap().graph;
        let loss = |step: f64| {
            let mut inputs = values(&graph);
            let mut u = inputs["u"].to_f64();
            u[4] += step;
            inputs.insert("u".into(), OracleTensor::new(DType::F32, &[3, 3], &u));
            Oracle::new(&registry).run(&graph, &inputs, 5, 3).unwrap().outputs["loss"].to_f64()[0]
        };
        let slope = (loss(1e-3) - loss(-1e-3)) / 2e-3;
        assert!((slope - gradient).abs() <= 1e-4 * (1.0 + slope.abs()), "{keep}: {slope} {gradient}");
    }
}

/// Chunks of 12 trips and a rest of 10, whose inner loops are in chunks, too. Without random numbers, all is equal.
#[test]
fn a_loop_that_keeps_chunks_has_the_same_gradient() {
    let registry = registry();
    for reverse in ["", ", reverse=true"] {
        let text =
            TEXT.replace("noisy(x)", "softmax(x)").replace("trips=130", &format!("trips=130{reverse}"));
        let plain = results(&parse(&text, &registry).unwrap(), &registry);
        let copies = unroll_most(&parse(&text.replace("129", "3"), &registry).unwrap(), 130);
        let few = results(&parse(&text.replace("129", "3"), &registry).unwrap(), &registry);
        assert!(are_close(&few, &results(&copies, &registry)), "{reverse}");
        let chunks = text.replace("trips=1", "keep=sqrt, trips=1");
        let graph = parse(&chunks, &registry).unwrap();
        assert!(are_close(&results(&graph, &registry), &plain), "{reverse}");
    }
}

/// A loop that hands a square matrix on, of which each trip needs the products. Only the last is read.
const SQUARES: &str = "
    graph g {
      input h: f32[64, 64]
      input u: f32[64, 64]
      last: f32[64, 64] = .loop(h, u, given=1, trips=TRIPS) {
        graph body {
          input c: f32[64, 64]
          input i: i32[]
          input u: f32[64, 64]
          p: f32[64, 64] = .matmul(c, u, contracted=[[1, 0]])
          s: f32[64, 64] = map(p) |a| tanh(a)
          output s = s
        }
      }
      loss: f32[] = .sum(last, axes=[0, 1])
      output loss = loss
    }";

#[test]
fn the_memory_of_a_loop_that_keeps_chunks_grows_with_the_root_of_its_length() {
    let registry = registry();
    let bytes = |keep: &str, trips: usize| {
        let text = SQUARES.replace("TRIPS", &format!("{trips}, keep={keep}"));
        let graph = parse(&text, &registry).unwrap();
        let wrt = graph.find("u").unwrap();
        let found = differentiate(&graph, &registry, graph.find("loss").unwrap(), &[wrt]).unwrap();
        let outputs = vec![("d.u".into(), found.grads[0])];
        let graph = Graph { outputs, ..found.graph }.pruned();
        compile(&graph, &registry, &Options::default()).plan.arena_bytes as f64 / f64::from(64 * 64 * 4)
    };
    let (plain, chunks) = ([256, 4096].map(|n| bytes("all", n)), [256, 4096].map(|n| bytes("sqrt", n)));
    assert!(plain[1] > 15.0 * plain[0] && plain[0] > 256.0, "{plain:?}");
    assert!(chunks[1] < 4.5 * chunks[0] && chunks[0] < 100.0, "{chunks:?}");
}

#[test]
fn a_loop_that_may_end_early_has_no_gradient() {
    let registry = registry();
    let graph = parse(
        "graph g {
          input x: f32[]
          (y: f32[], n: i32[]) = .loop(x, trips=9, until=true) {
            graph body {
              input a: f32[]
              input i: i32[]
              b: f32[] = map(a) |a| a * 0.5
              one: f32[] = .const(1.0)
              small: bool[] = .lt(b, one)
              output b = b
              output small = small
            }
          }
          output y = y
        }",
        &registry,
    )
    .unwrap();
    let (x, y) = (graph.find("x").unwrap(), graph.find("y").unwrap());
    let issue = differentiate(&graph, &registry, y, &[x]).unwrap_err();
    assert_eq!((&*issue.node, issue.why.contains("only a run knows")), ("y", true));
}

/// The gradient needs what is carried and two products, all small and of one type.
#[test]
fn small_values_share_a_stack() {
    let registry = registry();
    let text = SQUARES.replace("TRIPS", "200").replace(
        "s: f32[64, 64] = map(p) |a| tanh(a)",
        "q: f32[64, 64] = .matmul(u, c, contracted=[[1, 0]])
         s: f32[64, 64] = map(p, q) |a, b| tanh(a) * b",
    );
    let n_results = |text: &str| {
        let graph = parse(text, &registry).unwrap();
        let wrt = graph.find("u").unwrap();
        let found = differentiate(&graph, &registry, graph.find("loss").unwrap(), &[wrt]).unwrap();
        let is_loop = |node: &&crate::ir::Node| matches!(node.op, NodeOp::Loop { .. });
        found.graph.nodes.iter().find(is_loop).unwrap().outputs.len()
    };
    assert_eq!(n_results(&text), 2, "what is carried, and a stack of three values a trip");
    assert_eq!(n_results(&text.replace("64", "640")), 4, "large values have stacks of their own");
}

/// A recurrence over a sequence of halves. Each trip reads a row, or ROWS.
const HALVES: &str = "
    graph g {
      input h: f32[2, 3]
      input xs: bf16[140, 2, 3]
      last: f32[2, 3] = .loop(h, xs, given=1, trips=140) {
        graph body {
          input c: f32[2, 3]
          input i: i32[]
          input xs: bf16[140, 2, 3]
          ROWS
          s: f32[2, 3] = map(c, x) |a, b| tanh(a * 0.5 + b)
          output s = s
        }
      }
      loss: f32[] = .sum(last, axes=[0, 1])
      output loss = loss
    }";

/// Whether a trip of the gradient adds its rows to the gradient of the sequence itself.
fn adds_rows_of_halves(rows: &str) -> bool {
    let registry = registry();
    let looped = parse(&HALVES.replace("ROWS", rows), &registry).unwrap();
    let gradient = |graph: &Graph| {
        let (loss, xs) = (graph.find("loss").unwrap(), graph.find("xs").unwrap());
        let found = differentiate(graph, &registry, loss, &[xs]).unwrap();
        let graph = Graph { outputs: vec![("d.xs".into(), found.grads[0])], ..found.graph }.pruned();
        let run = Oracle::new(&registry).run(&graph, &values(&graph), 5, 3).unwrap();
        (graph, vec![run.outputs["d.xs"].to_f64()])
    };
    let ((graph, found), (_, wanted)) = (gradient(&looped), gradient(&unroll_most(&looped, 140)));
    assert!(are_close(&found, &wanted), "{found:?}\n{wanted:?}");
    let is_loop = |node: &&crate::ir::Node| matches!(node.op, NodeOp::Loop { .. });
    let trip = &graph.nodes.iter().rfind(is_loop).unwrap().regions[0];
    let is_of_halves = |value: Value| trip.ty(value).dtype == DType::BF16;
    let adds =
        |value: Value| matches!(trip.nodes[value.node].op, NodeOp::Scatter { combine: Combine::Add, .. });
    trip.outputs.iter().any(|&(_, value)| is_of_halves(value) && adds(value))
}

/// Gradients of rows are sums in `f32`, rounded at the end. A sum of one row needs none. Two may be of the same row.
#[test]
fn a_trip_adds_a_row_of_halves_to_their_gradient() {
    assert!(adds_rows_of_halves(
        "row: bf16[2, 3] = .gather(xs, i, axis=0)
         x: f32[2, 3] = .cast(row, dtype=f32)"
    ));
    assert!(!adds_rows_of_halves(
        "both: i32[2] = .broadcast(i, axes=[])
         rows: bf16[2, 2, 3] = .gather(xs, both, axis=0)
         wide: f32[2, 2, 3] = .cast(rows, dtype=f32)
         x: f32[2, 3] = .sum(wide, axes=[0])"
    ));
}
