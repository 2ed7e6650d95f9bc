//! Gradients of functions that no other program has, against central differences, both in double precision.

use engine::Engine;
use engine::core::ir::{Graph, InputKind, Value};
use engine::core::op::Registry;
use engine::core::oracle::{Oracle, OracleTensor};
use engine::core::pipeline::{RunStage, Stage};
use engine::core::stage;
use std::collections::HashMap;

type Operands = HashMap<String, OracleTensor>;

/// Operands with their shapes, nodes, and the loss.
struct Case {
    operands: &'static [(&'static str, &'static str)],
    nodes: &'static str,
    loss: &'static str,
}

const CASES: &[Case] = &[
    Case {
        operands: &[("cosine", "2, 3"), ("radius", "2, 3"), ("of_query", "2, 1"), ("entropy", "2, 3")],
        nodes: r#""y": "navigator_energy(cosine, radius, broadcast_to(of_query, shape=[2, 3]), entropy)","#,
        loss: "sum(sin(y))",
    },
    Case {
        // The soft weights by which candidates are chosen.
        operands: &[("query", "2, 1, 4"), ("others", "2, 3, 4"), ("radius", "2, 3")],
        nodes: r#"
            "of_query": "broadcast_to(sum(query, axis=2), shape=[2, 3])",
            "energy": "navigator_energy(cosine_similarity(query, others), radius, of_query, sum(square(others), axis=2))",
            "noise": "0.1 + 0.7 * square(cos(1.0 + reshape(cast(arange(stop=6), dtype=f32), shape=[2, 3])))",
            "y": "gumbel_select_targets(energy, noise, tau=0.5)","#,
        loss: "sum(sin(weighted_sum(y, others)))",
    },
    Case {
        operands: &[
            ("predicted", "2, 3"),
            ("residuals", "2, 4, 3"),
            ("weights", "2, 4"),
            ("features", "2, 5"),
            ("model", "5, 3"),
            ("bias", "3"),
        ],
        nodes: r#"
            "y": "weighted_correction(predicted * 4.0, residuals, weights, features, model, bias)",
            "free": "weighted_correction(predicted, residuals, weights, features, model, bias, limit=100.0)","#,
        loss: "sum(sin(y)) + sum(sin(free))",
    },
    Case {
        operands: &[("query", "2, 4"), ("store", "5, 4")],
        nodes: r#""y": "find_similar(query, store, full(shape=[], value=4, dtype=i32), n=3)","#,
        loss: "sum(sin(y * 2.0))",
    },
    Case {
        operands: &[("h", "2, 3"), ("z", "2, 9"), ("u", "3, 9")],
        nodes: r#""y": "gru_held_step(h, zeros(shape=[2]), z, u)","#,
        loss: "sum(sin(y))",
    },
    Case {
        operands: &[("h", "2, 3"), ("c", "2, 9"), ("v", "3, 9"), ("u", "3, 9")],
        nodes: r#""y": "gru_closed_step(h, zeros(shape=[2]), c, v, u)","#,
        loss: "sum(sin(y))",
    },
    Case {
        // Steps that are written out, and a loop.
        operands: &[("x", "2, 4"), ("h", "3, 2, 2"), ("w", "3, 4, 6"), ("b", "3, 1, 6"), ("u", "3, 2, 6")],
        nodes: r#"
            "few": "ensemble_rollout(x, h, w, b, u, steps=3)",
            "many": "select(ensemble_rollout(x, h, w, b, u, steps=130), axis=1, index=-1)","#,
        loss: "sum(sin(few)) + sum(sin(many))",
    },
    Case {
        operands: &[("losses", "2, 5, 3"), ("states", "2, 5, 3, 4")],
        nodes: r#""y": "rollout_metrics(losses, states)","#,
        loss: "sum(sin(y.deltas)) + sum(sin(y.norms)) + sum(sin(y.variance)) + sum(sin(y.smoothness * 3.0))",
    },
    Case {
        // As many errors as count, and too few.
        operands: &[("agreement", "3"), ("errors", "20, 3")],
        nodes: r#"
            "y": "combined_confidence(agreement, 2.0 + errors, full(shape=[], value=15, dtype=i32))",
            "early": "combined_confidence(agreement, 2.0 + errors, full(shape=[], value=9, dtype=i32))","#,
        loss: "sum(sin(3.0 * y)) + sum(sin(early))",
    },
    Case {
        operands: &[("x", "5, 4")],
        nodes: r#""y": "randomized_svd(x, rank=2, oversample=1)","#,
        loss: "sum(sin(y.u)) + sum(sin(y.s)) + sum(sin(y.v))",
    },
    Case {
        operands: &[("x", "5, 4")],
        nodes: r#"
            "y": "compress_residuals(x, rank=3)",
            "drawn": "compress_residuals(x, rank=2, by=randomized_svd)","#,
        loss: "sum(sin(y.u)) + sum(sin(y.s)) + sum(sin(y.v)) + sum(sin(drawn.s)) + y.ratio",
    },
    Case {
        operands: &[("x", "7, 3")],
        nodes: r#""y": "principal_axes(x, count=2, sample=7)","#,
        loss: "sum(sin(y)) + sum(sin(y.mean))",
    },
];

/// A step of the case with the loss and its gradients, and one with the loss alone.
struct Step {
    whole: Graph,
    loss: Graph,
    registry: Registry,
}

impl Step {
    fn new(case: &Case) -> Step {
        let params: Vec<String> =
            case.operands.iter().map(|(name, shape)| format!("\"{name}\": \"f32[{shape}]\"")).collect();
        let grads: Vec<String> = case.operands.iter().map(|(name, _)| format!("\"d.{name}\"")).collect();
        let text = format!(
            "(seed: 5, params: {{{}}}, nodes: {{{} \"loss\": \"{}\"}}, stages: {{\"go\": Run(outputs: [\"loss\", {}], loss: \"loss\")}})",
            params.join(", "),
            case.nodes,
            case.loss,
            grads.join(", ")
        );
        let program = Engine::new().read("slopes.ron", &text).unwrap_or_else(|faults| panic!("{faults}"));
        let stage: &RunStage = program.pipeline.stages.iter().find_map(Stage::get).unwrap();
        let graph = stage::running(&program.pipeline, stage, &program.registry).unwrap();
        let outputs = graph.outputs.iter().filter(|(name, _)| &**name == "loss").cloned().collect();
        let loss = Graph { outputs, ..graph.clone() }.pruned();
        Step { whole: graph, loss, registry: program.registry.clone() }
    }

    fn run(&self, graph: &Graph, operands: &Operands) -> impl Fn(&str) -> Vec<f64> + use<> {
        let run = Oracle::new(&self.registry).run(graph, operands, 5, 0).unwrap();
        move |name| run.outputs[name].to_f64()
    }

    /// Numbers between -1 and 1 without a pattern, so that no absolute value or order is at its edge.
    fn operands(&self) -> Operands {
        let of = |(at, (id, kind)): (usize, (usize, InputKind))| {
            let ty = self.whole.ty(Value::of(id));
            let number = |i: usize| ((i * 37 + at * 11) as f64).sin().mul_add(43_758.545, 0.5).fract();
            let numbers: Vec<f64> = (0..ty.numel()).map(number).collect();
            let tensor = OracleTensor::new(ty.dtype, &ty.extents(), &numbers);
            (kind == InputKind::Param).then(|| (self.whole.node(id).name().to_string(), tensor))
        };
        self.whole.inputs().enumerate().filter_map(of).collect()
    }
}

#[test]
fn gradients_of_functions_are_central_differences() {
    for case in CASES {
        let step = Step::new(case);
        let operands = step.operands();
        let found = step.run(&step.whole, &operands);
        for (name, _) in case.operands {
            let (tensor, gradient) = (&operands[*name], found(&format!("d.{name}")));
            let largest = gradient.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            assert!(largest > 1e-6, "{}: all of d.{name} is 0", case.nodes);
            for at in 0..tensor.len() {
                let loss = |by: f64| {
                    let mut numbers = tensor.to_f64();
                    numbers[at] += by;
                    let mut moved = operands.clone();
                    moved.insert((*name).into(), OracleTensor::new(tensor.dtype, &tensor.extents, &numbers));
                    step.run(&step.loss, &moved)("loss")[0]
                };
                let slope = (loss(1e-5) - loss(-1e-5)) / 2e-5;
                let error = (slope - gradient[at]).abs();
                assert!(
                    error <= 1e-5 * (1.0 + largest),
                    "{}: d.{name}[{at}] is {}, the slope {slope}",
                    case.nodes,
                    gradient[at]
                );
            }
        }
    }
}
