//! Gradients of loops of random cells, against those of the same calls written out.
//!
//! `PROPTEST_CASES=200 cargo test --test loops random_cells` runs many cells.

use super::few::few;
use super::{outputs, present};
use engine::Engine;
use engine::core::bind::MOST_UNROLLED;
use engine::core::ir::{InputKind, Value};
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::pipeline::{RunStage, Stage};
use engine::core::stage;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use std::collections::HashMap;

const NAMES: [&str; 4] = ["h0", "x", "u", "v"];

const OF_ALL: &str = "sum(h * weight) + sum(select(h, axis=1, index=-1))";
const OF_LAST: &str = "sum(sin(select(h, axis=1, index=-1) * 2.0))";

/// Calls of a cell. The manner says how they are made.
fn text((cell, loss): (&str, &str), manner: &str) -> String {
    let text = r#"(
        seed: 7,
        numerics: Strict,
        dims: {"T": LENGTH},
        params: {
            "h0": (type: "f32[2, 3]", init: Normal(0, 0.5)), "x": (type: "f32[2, T, 3]", init: Normal(0, 1)),
            "u": (type: "f32[3, 3]", init: Normal(0, 0.4)), "v": (type: "f32[3]", init: Normal(0, 0.2)),
        },
        functions: {"cell": (inputs: ["h", "x", "u", "v"], output: "CELL")},
        nodes: {
            "h": "cell(h0, x, u, v, over=1MANNER)",
            "weight": "cos(reshape(cast(arange(stop=T * 6), dtype=f32), shape=[2, T, 3]))",
            "loss": "LOSS",
        },
        stages: {"go": Run(outputs: ["loss", "h0", "x", "u", "v", "d.h0", "d.x", "d.u", "d.v"], loss: "loss")},
    )"#;
    let length = (MOST_UNROLLED + 3).to_string();
    text.replace("LENGTH", &length).replace("CELL", cell).replace("LOSS", loss).replace("MANNER", manner)
}

/// Results and gradients of the calls written out, in double precision.
fn exact(cell: (&str, &str), given: &dyn Fn(&str) -> Vec<f64>) -> impl Fn(&str) -> Vec<f64> + use<> {
    let program = Engine::new().read("cell.ron", &text(cell, ", unroll=true")).unwrap();
    let stage: &RunStage = program.pipeline.stages.iter().find_map(Stage::get).unwrap();
    let graph = stage::running(&program.pipeline, stage, &program.registry).unwrap();
    let of = |(id, kind): (usize, InputKind)| {
        let (name, ty) = (graph.node(id).name().to_string(), graph.ty(Value::of(id)));
        (kind != InputKind::Step).then(|| {
            let tensor = OracleTensor::new(ty.dtype, &ty.extents(), &given(&name));
            (name, tensor)
        })
    };
    let inputs: HashMap<String, OracleTensor> = graph.inputs().filter_map(of).collect();
    let run = Oracle::new(&program.registry).run(&graph, &inputs, 7, 0).unwrap();
    move |name| run.outputs[name].to_f64()
}

fn on_cpu(cell: (&str, &str), manner: &str) -> impl Fn(&str) -> Vec<f64> + use<> {
    outputs(&text(cell, manner), (present::cpu(2), true))
}

/// Gradients of a loop are near those in double precision. Those of the state and of the sequence have the bits of those
/// of the calls written out, if the loss reads the last state alone. Sums of more than two gradients have another order
/// otherwise: a loop adds those of one call to each other first.
fn check(cell: &str) -> TestCaseResult {
    let cell = &*format!("0.97 * h + 0.05 * tanh(x * v + ({cell})) + 0.02 * (h @ u)");
    let looped = on_cpu((cell, OF_ALL), "");
    let exact = exact((cell, OF_ALL), &looped);
    let (last, copied) = (on_cpu((cell, OF_LAST), ""), on_cpu((cell, OF_LAST), ", unroll=true"));
    for name in NAMES.map(|name| format!("d.{name}")) {
        let (found, wanted) = (looped(&name), exact(&name));
        let size = wanted.iter().fold(1e-3f64, |most, x| most.max(x.abs()));
        prop_assert_eq!(found.len(), wanted.len());
        for (at, (a, b)) in found.iter().zip(&wanted).enumerate() {
            prop_assert!((a - b).abs() <= 1e-4 * size, "{}[{}] is {}, not {}", name, at, a, b);
        }
    }
    for name in ["loss", "d.h0", "d.x"] {
        prop_assert_eq!(last(name), copied(name), "{} of the calls written out", name);
    }
    Ok(())
}

/// Each call reads the state and each weight once, so all sums have one order.
#[test]
fn strict_gradients_have_the_bits_of_the_calls_written_out() {
    let cells = [
        ("tanh(x * v + h @ u)", OF_ALL),
        ("tanh(x * v + h @ u)", OF_LAST),
        ("sin(x @ u) + h * cos(v)", OF_ALL),
        ("(h + x) * sigmoid(v + 6.0) + 0.0 * sum(u)", OF_LAST),
    ];
    for (cell, (threads, fuse)) in cells.into_iter().flat_map(|cell| [(cell, (1, true)), (cell, (2, false))])
    {
        let of = |manner| outputs(&text(cell, manner), (present::cpu(threads), fuse));
        let (looped, copied) = (of(""), of(", unroll=true"));
        for name in ["loss", "d.h0", "d.x", "d.u", "d.v"] {
            assert_eq!(looped(name), copied(name), "{name} of {cell:?}, fuse: {fuse}");
        }
    }
}

/// Texts of smooth expressions of h, x, u and v.
fn cells() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![4 => Just("h"), 2 => Just("x"), 1 => Just("v"), 1 => Just("0.75")]
        .prop_map(str::to_string);
    leaf.prop_recursive(4, 12, 2, |inner| {
        let unary = |text: &'static str| inner.clone().prop_map(move |a| text.replace('A', &a));
        let binary = |text: &'static str| {
            (inner.clone(), inner.clone()).prop_map(move |(a, b)| text.replace('A', &a).replace('B', &b))
        };
        prop_oneof![
            2 => unary("tanh(A)"),
            2 => unary("sigmoid(A)"),
            1 => unary("sin(A * 2.0)"),
            1 => unary("sqrt(square(A) + 0.5)"),
            2 => unary("((A + 0.0 * h) @ u)"),
            1 => unary("softmax(A + 0.5 * h)"),
            1 => unary("(A - mean(A + h, axis=-1, keepdim=true))"),
            2 => binary("(A + B) * 0.5"),
            1 => binary("(A - B) * 0.5"),
            2 => binary("(A) * (B)"),
            1 => binary("(A) / (1.5 + square(B))"),
        ]
    })
}

proptest! {
    #![proptest_config(few(5))]

    #[test]
    fn random_cells_have_the_gradients_of_their_copies(cell in cells()) {
        check(&cell)?;
    }
}
