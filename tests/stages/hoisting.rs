//! Values that no step changes: they are computed before the first step, and again when a parameter has changed.

use crate::offline;
use crate::present;
use engine::core::compile::Options;
use engine::runtime::device::Device;
use engine::runtime::session::Session;
use engine::runtime::tensor::HostTensor;
use indexmap::IndexMap;
use std::sync::Arc;

/// A network in half precision: training that accumulates gradients, evaluations between its epochs, and predictions.
const TEXT: &str = r#"(
    seed: 3,
    precision: Bf16,
    data: {"digits": (source: "synthetic-digits", n_train: 240, n_test: 100)},
    inputs: {
        "image": (type: "u8[B, 28, 28]", from: "digits.images"),
        "label": (type: "u8[B]", from: "digits.labels"),
        "x": (type: "f32[R, 16]"),
    },
    params: {"w": (type: "f32[16, 8]", init: Normal(0, 1))},
    nodes: {
        "rows": "reshape(cast(image, dtype=f32) / 255.0, shape=[B, 784])",
        "logits": "Linear(relu(Linear(rows, width=32)), width=10)",
        "loss": "cross_entropy(logits, cast(label, dtype=i32))",
        "y": "x @ w",
    },
    stages: {
        "train": Train(
            data: "digits.train", batch: 24, accumulate: 2, epochs: 2, loss: "loss", optimizer: Sgd(lr: 0.1),
            evaluate: (data: "digits.test", batch: 40, metrics: {"loss": "loss"}),
        ),
    },
)"#;

fn sessions(device: &Arc<dyn Device>) -> [Session; 2] {
    [vec![], vec!["hoist-from-steps".to_string()]]
        .map(|without| offline::session(TEXT, Arc::clone(device), Options { without, ..Options::default() }))
}

fn predicted(session: &Session, rows: usize) -> Vec<f64> {
    let x: Vec<f32> = (0..rows * 16).map(|i| (i % 7) as f32 - 3.0).collect();
    let x = HostTensor::from_slice(&[rows, 16], &x).unwrap();
    let inputs: IndexMap<String, HostTensor> = [("x".to_string(), x)].into_iter().collect();
    session.run(&["y".into()], &inputs).unwrap()["y"].to_f64()
}

#[test]
fn predictions_follow_new_parameters() {
    for device in [present::cpu(2)].iter().chain(present::gpus()) {
        let mut sessions = sessions(device);
        for scale in [1.0, -2.0, 0.5] {
            let w: Vec<f32> = (0..128).map(|i| scale * ((i * 37 % 19) as f32 - 9.0)).collect();
            let w = HostTensor::from_slice(&[16, 8], &w).unwrap();
            let found = sessions.each_mut().map(|session| {
                session.set_parameters([("w".to_string(), w.clone())].into_iter().collect()).unwrap();
                [3, 5, 3].map(|rows| predicted(session, rows))
            });
            assert_eq!(found[0], found[1]);
            assert!(found[0][0].iter().any(|y| *y != 0.0));
        }
    }
}

/// The batches of a step share the rounded parameters, which the optimizer then changes.
#[test]
fn training_and_its_evaluations_are_the_same() {
    for device in [present::cpu(2)].iter().chain(present::gpus()) {
        let reports = sessions(device).map(|mut session| {
            let report = session.run_stages(None, &mut |_| {}).unwrap();
            (session.parameters().unwrap(), report.stages[0].metrics.clone())
        });
        let [(with, metrics), (without, others)] = reports;
        for (name, value) in &with {
            assert_eq!(value.to_f64(), without[name].to_f64(), "{name}");
        }
        assert_eq!(metrics, others);
    }
}
