//! The loss of a linear layer without its logits, beside the loss of its logits.

use super::*;
use engine::core::compile::compile;
use engine::core::grad::differentiate;
use engine::core::ir::{Graph, Value, parse};
use engine::runtime::device::Device;
use std::sync::Arc;

/// Losses and gradients of 7 rows and 101 classes, in the numbers of a seed.
fn found(loss: &str, device: &Arc<dyn Device>, fuse: bool) -> [Vec<f64>; 3] {
    let loss = loss.replace('"', "\\\"");
    let text = format!(
        r#"(
            seed: 5,
            params: {{
                "x": (type: "f32[7, 3]", init: Normal(0, 1)), "w": (type: "f32[101, 3]", init: Normal(0, 2)),
                "g": (type: "f32[7]", init: Normal(0, 1)),
            }},
            nodes: {{
                "t": "remainder(arange(stop=7) * 45, 101)",
                "hidden": "where(t == 34, -1, t)",
                "rows": "{loss}",
                "loss": "sum(rows * 1.0)",
            }},
            stages: {{"go": Run(outputs: ["rows", "d.x", "d.w"], loss: "loss")}},
        )"#
    );
    let mut session = offline::session(&text, Arc::clone(device), Options { fuse, ..Options::default() });
    let report = session.run_stages(None, &mut |_| {}).unwrap();
    ["rows", "d.x", "d.w"].map(|name| report.outputs[name].values.to_f64())
}

/// Whole parts and a part that is not, a single part, ignored rows, a weight for each row, and rows of higher rank.
#[test]
fn losses_and_gradients_are_those_of_stored_logits() {
    let cases = [
        ("linear_cross_entropy(x, w, t)", "cross_entropy(x @ transpose(w), t)"),
        (
            "linear_cross_entropy(x, w, t, reduction=\"sum\", parts=3)",
            "cross_entropy(x @ transpose(w), t, reduction=\"sum\")",
        ),
        (
            "linear_cross_entropy(x, w, hidden, ignore_index=-1, parts=5)",
            "cross_entropy(x @ transpose(w), hidden, ignore_index=-1)",
        ),
        (
            "linear_cross_entropy(x, w, hidden, ignore_index=-1, reduction=\"none\", parts=7) * g",
            "cross_entropy(x @ transpose(w), hidden, ignore_index=-1, reduction=\"none\") * g",
        ),
        (
            "linear_cross_entropy(reshape(x, shape=[1, 7, 3]), w, reshape(t, shape=[1, 7]), parts=1)",
            "cross_entropy(x @ transpose(w), t)",
        ),
        (
            "select(linear_cross_entropy_rows(x, w, t).log_sum_exp * g, axis=0, index=2)",
            "select(log_sum_exp(x @ transpose(w), axis=1) * g, axis=0, index=2)",
        ),
    ];
    let cpu = present::cpu(2);
    let ways = [(&cpu, true), (&cpu, false)].into_iter().chain(present::gpus().iter().map(|gpu| (gpu, true)));
    for (device, fuse) in ways {
        for (own, stored) in cases {
            let [a, b] = [own, stored].map(|loss| found(loss, device, fuse));
            for (which, (a, b)) in a.iter().zip(&b).enumerate() {
                let largest = b.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                assert!(a.len() == b.len() && largest > 0.0, "{own}");
                let near = a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * largest);
                assert!(near, "{own}, result {which} on {}: {a:?} instead of {b:?}", device.info().name);
            }
        }
    }
}

/// Neither the loss nor its gradients have all logits in memory.
#[test]
fn no_memory_holds_the_logits() {
    let (m, n) = (512, 4000);
    let registry = Engine::new().registry;
    let text = format!(
        "graph loss {{\ninput x: f32[{m}, 8]\ninput w: f32[{n}, 8]\ninput t: i32[{m}]\n\
         loss: f32[] = linear_cross_entropy(x, w, t)\noutput loss = loss\n}}\n"
    );
    let graph = parse(&text, &registry).unwrap();
    let (loss, inputs) = (graph.outputs[0].1, [Value::of(0), Value::of(1)]);
    let found = differentiate(&graph, &registry, loss, &inputs).unwrap();
    let named = found.grads.iter().zip(["dx", "dw"]).map(|(&grad, name)| (name.into(), grad));
    let gradients = Graph { outputs: named.collect(), ..found.graph.clone() };
    let bytes = |graph: &Graph| compile(graph, &registry, &Options::default()).plan.arena_bytes;
    let (logits, factors) = (4 * m * n, 4 * 8 * (m + n));
    assert!(bytes(&graph) < 2 * factors, "{} bytes", bytes(&graph));
    // The logits of a part, and three copies of the gradients.
    assert!(bytes(&gradients) < logits / 16 + 3 * factors, "{} bytes", bytes(&gradients));
}

/// Finite features whose logits are infinite, in an ignored row: it contributes nothing, as with stored logits.
#[test]
fn an_ignored_row_may_have_infinite_logits() {
    let text = |loss: &str| {
        format!(
            r#"(
            seed: 3,
            params: {{
                "x": (type: "f32[3, 2]", init: Normal(0, 1)), "w": (type: "f32[5, 2]", init: Normal(0, 1000)),
            }},
            nodes: {{
                "t": "where(arange(stop=3) == 1, -1, 2)",
                "rows": "x * reshape(where(t == -1, 1e37, 1.0), shape=[3, 1])",
                "loss": "{loss}",
            }},
            stages: {{"go": Run(outputs: ["loss", "d.x", "d.w"], loss: "loss")}},
        )"#
        )
    };
    let own = "linear_cross_entropy(rows, w, t, ignore_index=-1, parts=2)";
    let stored = "cross_entropy(rows @ transpose(w), t, ignore_index=-1)";
    let [own, stored] = [own, stored].map(|loss| {
        let mut session = offline::session(&text(loss), present::cpu(2), Options::default());
        let report = session.run_stages(None, &mut |_| {}).unwrap();
        ["loss", "d.x", "d.w"].map(|name| report.outputs[name].values.to_f64())
    });
    assert!(own.iter().flatten().all(|x| x.is_finite()), "{own:?}");
    for (own, stored) in own.iter().flatten().zip(stored.iter().flatten()) {
        assert!((own - stored).abs() <= 1e-5 * stored.abs().max(1.0), "{own} instead of {stored}");
    }
}
