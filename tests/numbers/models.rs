//! Recurrent networks, a GPT and a network with batch norm, trained and compared with PyTorch
//! (`tests/examples/models.py`).

use engine::core::compile::Options;
use engine::devices::{self, Choice};
use engine::runtime::data::source::LoadContext;
use engine::runtime::session::{self, CompilingPlanner, Event, Inspection, Session};
use engine::{Engine, Program};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

const RECORDED: &str = include_str!("../examples/models.json");

/// Single precision reaches 1e-7.
const RELATIVE: f64 = 1e-6;

fn session(model: &str, optimizer: &str, kept: &[&str]) -> Session {
    let written = std::fs::read_to_string(format!("tests/models/{model}.ron")).unwrap();
    let text = written.replace("Momentum(lr: 0.1, momentum: 0.9)", optimizer);
    assert!(text.contains(optimizer), "{model} trains by another optimizer");
    let engine = Engine::new();
    let Program { pipeline, registry } = engine.read(model, &text).unwrap();
    let pipeline = Arc::new(pipeline);
    let data = LoadContext::offline_in(Path::new("tests/examples"));
    let sets = session::load_data(&pipeline, &engine.sources, &data, &mut |_| {}).unwrap();
    let kept = kept.iter().map(|&name| name.into()).collect();
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, Options::default());
    let device = devices::open(Choice::Cpu, Some(2)).unwrap().device;
    Session::new(pipeline, Arc::new(planner.keeping(kept)), device, sets).unwrap()
}

fn expect_near(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= RELATIVE * b.abs();
    assert!(found.iter().zip(expected).all(is_near), "{what}: {found:?} instead of {expected:?}");
}

/// A recorded case with each file that writes its model: with parameters by name, and with layers.
fn written(case: &Json) -> Vec<(&Json, &str)> {
    match case["model"].as_str().unwrap() {
        "gpt" => vec![(case, "gpt"), (case, "gpt_layers")],
        "normed" => vec![(case, "normed"), (case, "normed_layers")],
        "gru" => vec![(case, "gru"), (case, "gru_layers")],
        "lstm" => vec![(case, "lstm"), (case, "lstm_layers")],
        model => vec![(case, model)],
    }
}

#[test]
fn networks_train_as_in_pytorch() {
    let recorded: Json = serde_json::from_str(RECORDED).unwrap();
    for (case, model) in recorded.as_array().unwrap().iter().flat_map(written) {
        let optimizer = case["optimizer"].as_str().unwrap();
        let expected = super::numbers(&case["losses"]);
        let what = format!("{model} by {optimizer}");

        let mut every_step = session(model, optimizer, &["loss"]);
        every_step.inspect(Inspection { every: Some(1), ..Inspection::default() });
        let mut losses = vec![];
        every_step
            .run_stages(None, &mut |event| {
                if let Event::Kept { value, .. } = event {
                    losses.push(f64::from(value.as_slice::<f32>().unwrap()[0]));
                }
            })
            .unwrap();
        expect_near(&what, &losses, &expected);

        // No values are dumped here, so other kernels run.
        let report = session(model, optimizer, &[]).run_stages(None, &mut |_| {}).unwrap();
        let epochs: Vec<f64> = report.stages[1].epochs.iter().map(|epoch| epoch.train_loss).collect();
        let means: Vec<f64> = expected.chunks(4).map(|steps| steps.iter().sum::<f64>() / 4.0).collect();
        expect_near(&format!("{what}, means of epochs"), &epochs, &means);
        let evaluated: Vec<f64> = report.stages[1].epochs.iter().map(|epoch| epoch.metrics["loss"]).collect();
        expect_near(&format!("{what}, evaluated"), &evaluated, &super::numbers(&case["evaluated"]));
    }
}
