//! Recurrent layers, averages of weights and mixed precision, compared with PyTorch (`tests/examples/networks.py`), and
//! recomputed layers, compared with themselves.

use super::numbers;
use engine::core::compile::Options;
use engine::core::pipeline::TrainStage;
use engine::devices::{self, Choice};
use engine::runtime::data::source::LoadContext;
use engine::runtime::session::{self, CompilingPlanner, Event, Inspection, Report, Session};
use engine::{Engine, Program};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

const RECORDED: &str = include_str!("../examples/networks.json");

fn recorded(case: &str) -> Json {
    serde_json::from_str::<Json>(RECORDED).unwrap()[case].clone()
}

fn read(model: &str) -> String {
    std::fs::read_to_string(format!("tests/models/{model}.ron")).unwrap()
}

/// Every edit replaces a part of a text, which must be there.
fn edited(text: &str, edits: &[(&str, &str)]) -> String {
    edits.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "there is no {from} in {text}");
        text.replace(from, to)
    })
}

fn session(text: &str, device: Choice, options: Options) -> Session {
    let engine = Engine::new();
    let Program { pipeline, registry } = engine.read("model.ron", text).unwrap();
    let pipeline = Arc::new(pipeline);
    let data = LoadContext::offline_in(Path::new("tests/examples"));
    let sets = session::load_data(&pipeline, &engine.sources, &data, &mut |_| {}).unwrap();
    let device = devices::open(device, Some(2)).unwrap().device;
    let options = Options { device: device.model(), ..options };
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, options);
    Session::new(pipeline, Arc::new(planner.keeping(vec!["loss".into()])), device, sets).unwrap()
}

/// The loss of every step, and the report.
fn train_on(text: &str, device: Choice, options: Options) -> (Vec<f64>, Report) {
    let mut session = session(text, device, options);
    session.inspect(Inspection { every: Some(1), ..Inspection::default() });
    let mut losses = vec![];
    let report = session.run_stages(None, &mut |event| {
        if let Event::Kept { value, .. } = event {
            losses.extend(value.to_f64());
        }
    });
    (losses, report.unwrap())
}

fn train(text: &str) -> (Vec<f64>, Report) {
    train_on(text, Choice::Cpu, Options::default())
}

#[track_caller]
fn expect_near(what: &str, found: &[f64], expected: &[f64], relative: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= relative * b.abs();
    assert!(found.iter().zip(expected).all(is_near), "{what}: {found:?} instead of {expected:?}");
}

// ---- Recurrent layers.

#[test]
fn stacked_recurrent_layers_train_as_in_pytorch() {
    for model in ["gru", "lstm"] {
        let (losses, _) = train(&read(&format!("{model}_stacked")));
        expect_near(model, &losses, &numbers(&recorded("recurrent")[model]), 1e-5);
    }
}

// ---- Averages of weights.

#[test]
fn averages_of_weights_follow_groups_as_in_pytorch() {
    let (expected, (losses, report)) = (recorded("averaged"), train(&read("averaged")));
    expect_near("losses", &losses, &numbers(&expected["losses"]), 1e-5);
    let error = report.stages[2].metrics["error"];
    expect_near("evaluated", &[error], &[expected["evaluated"].as_f64().unwrap()], 1e-5);
    let weight = report.outputs["v_mean"].values.to_f64();
    super::near("weight", &weight, &numbers(&expected["weight"]), 1e-5).unwrap();
}

// ---- Mixed precision.

fn in_precision(model: &str, precision: &str) -> String {
    edited(&read(model), &[("    seed: 5,", &format!("    seed: 5,\n    precision: {precision},"))])
}

#[test]
fn halves_train_as_under_autocast() {
    for (model, losses) in recorded("mixed").as_object().unwrap() {
        let expected = numbers(losses);
        let (plain, _) = train(&read(model));
        // A gradient of a weight is a sum over rows, which the default factor makes infinite here.
        for precision in ["Bf16", "F16(loss_scale: 1024)"] {
            let text = in_precision(model, precision);
            let (found, report) = train(&text);
            expect_near(&format!("{model} in {precision}"), &found, &expected, 2e-2);
            assert_ne!(found, plain, "{model} in {precision} is rounded");
            let scale = report.stages[1].loss_scale.as_ref().map(|scale| (scale.factor, scale.skipped));
            assert_eq!(scale, (precision != "Bf16").then_some((1024.0, 0)));
            let (unfused, _) = train_on(&text, Choice::Cpu, Options { fuse: false, ..Options::default() });
            expect_near(&format!("{model} in {precision}, unfused"), &unfused, &found, 5e-3);
        }
    }
}

#[test]
fn halves_train_on_an_emulated_gpu_as_on_the_cpu() {
    if devices::open(Choice::Software, None).is_err() {
        let required = std::env::var("ENGINE_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|one| one == "wgpu"), "there is no software adapter");
        return eprintln!("skipped: there is no software adapter");
    }
    for precision in ["Bf16", "F16(loss_scale: 1024)"] {
        let text = in_precision("normed_layers", precision);
        let (found, _) = train_on(&text, Choice::Software, Options::default());
        expect_near(precision, &found, &train(&text).0, 1e-2);
    }
}

/// Nodes of a network, all of which are left out: bits are those of plain training.
#[test]
fn nodes_that_are_left_out_are_plain() {
    let nodes = [
        (
            r#""first": "Linear(flatten(x), width=H, bias=false)","#,
            r#"(name: "first", expr: "Linear(flatten(x), width=H, bias=false)", precision: F32),"#,
        ),
        (r#""norm": "BatchNorm(first)","#, r#"(name: "norm", expr: "BatchNorm(first)"),"#),
        (
            r#""head": "Linear(relu(norm), width=2)","#,
            r#"(name: "head", expr: "Linear(relu(norm), width=2)", precision: F32),"#,
        ),
        (r#""loss": "mse_loss(head, y)","#, r#"(name: "loss", expr: "mse_loss(head, y)"),"#),
        ("nodes: {", "nodes: ["),
        ("    },\n    stages", "    ],\n    stages"),
    ];
    let (plain, _) = train(&read("normed_layers"));
    let left_out = edited(&in_precision("normed_layers", "Bf16"), &nodes);
    assert_eq!(train(&left_out).0, plain);
    let one = left_out.replace("width=2)\", precision: F32", "width=2)\"");
    assert_ne!(train(&one).0, plain);
}

#[test]
fn a_scale_that_overflows_skips_steps_until_it_fits() {
    let scale = "F16(loss_scale: 1073741824, growth_interval: 4)";
    let text = in_precision("normed_layers", scale);
    let (losses, report) = train(&text);
    let scale = report.stages[1].loss_scale.as_ref().unwrap();
    assert!(scale.skipped > 0 && scale.skipped < 20, "{scale}");
    assert!(scale.factor < 1073741824.0, "{scale}");
    // Without a step, each batch has the loss of the first weights.
    assert!(losses.iter().all(|loss| loss.is_finite()) && losses[19] < losses[0], "{losses:?}");

    // Two batches a step: the states of scaling outlive the step.
    let several = edited(&text, &[("batch: 8,", "batch: 8, accumulate: 2,"), ("1073741824", "4194304")]);
    let (_, report) = train(&several);
    let scale = report.stages[1].loss_scale.as_ref().unwrap();
    assert!(scale.skipped > 0 && scale.skipped < 10 && scale.factor < 4194304.0, "{scale}");
}

/// Gradients are clipped and applied to groups after the factor is taken out of them.
#[test]
fn a_scaled_loss_takes_the_steps_of_a_plain_one() {
    let optimizers = [
        "AdamW(lr: 0.01, weight_decay: 0.1, groups: [(params: \"*.b\", lr: 0.02, weight_decay: 0)])",
        "Momentum(lr: Exp(start: 0.1, rate: 0.1), momentum: 0.9), clip_norm: 0.5",
    ];
    for optimizer in optimizers {
        let change = [("Momentum(lr: 0.1, momentum: 0.9)", optimizer)];
        let (halves, _) = train(&edited(&in_precision("normed_layers", "F16(loss_scale: 1024)"), &change));
        let (plain, _) = train(&edited(&read("normed_layers"), &change));
        expect_near(optimizer, &halves, &plain, 1e-2);
    }
}

#[test]
fn a_run_in_f16_resumes_with_its_scale() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last.safetensors");
    let scale = "F16(loss_scale: 1073741824, growth_interval: 4)";
    let checkpoint = format!("loss: \"loss\", checkpoint: (path: {:?}),", path.to_str().unwrap());
    let text = edited(&in_precision("normed_layers", scale), &[("loss: \"loss\",", &checkpoint)]);
    let (whole, report) = train(&text);
    let (_, _) = train(&edited(&text, &[("epochs: 5,", "epochs: 5, max_steps: 12,")]));
    let mut resumed = session(&text, Choice::Cpu, Options::default());
    let ended = resumed.run_stages(Some(&path), &mut |_| {}).unwrap();
    let last = |report: &Report| report.stages.last().unwrap().epochs.last().unwrap().train_loss;
    assert_eq!(last(&ended), last(&report), "{whole:?}");
    let factor = |report: &Report| report.stages.last().unwrap().loss_scale.clone();
    assert_eq!(factor(&ended), factor(&report));
}

#[test]
fn evaluations_have_a_precision_of_their_own() {
    let text = read("normed_layers");
    let of = |text: &str| train(text).1.stages[1].epochs[4].metrics["loss"];
    let plain = of(&text);
    let own = edited(&text, &[("metrics: [\"loss\"]", "metrics: [\"loss\"], precision: Bf16")]);
    assert_ne!(of(&own), plain);
    assert!((of(&own) - plain).abs() < 2e-2 * plain);
    let inherited = edited(&text, &[("loss: \"loss\", opt", "loss: \"loss\", precision: Bf16, opt")]);
    let not_inherited = edited(&inherited, &[("metrics: [\"loss\"]", "metrics: [\"loss\"], precision: F32")]);
    assert_ne!(of(&inherited), of(&not_inherited));
}

// ---- Recomputed layers.

/// The bytes of a training plan's activations.
fn arena(text: &str) -> usize {
    let engine = Engine::new();
    let pipeline = engine.read("model.ron", text).unwrap();
    let train = pipeline.stages.iter().find_map(|stage| stage.get::<TrainStage>()).unwrap();
    let data = LoadContext::offline_in(Path::new("tests/examples"));
    let sets = session::load_data(&pipeline, &engine.sources, &data, &mut |_| {}).unwrap();
    let shape =
        session::split_shape(&train.data.data, sets[&train.data.data].split(&train.data.split).unwrap());
    let rows = engine::core::stage::Rows::Batches { batch: train.batch, per_epoch: 4 };
    let step = engine::core::stage::training(&pipeline, train, &shape, rows, &engine.registry).unwrap();
    engine::core::compile::compile(&step.graph, &engine.registry, &Options::default()).plan.arena_bytes
}

#[test]
fn recomputed_layers_train_alike_in_less_memory() {
    let deep = edited(&read("gpt_layers"), &[("\"N\": 2", "\"N\": 6")]);
    let start = deep.find("        \"weights\": Load(").unwrap();
    let end = deep.find("        \"train\": Train(").unwrap();
    let kept = format!("{}{}", &deep[..start], &deep[end..]);
    let kept = edited(&kept, &[("causal=true, repeat=N", "causal=true, dropout=0.1, repeat=N")]);
    let again = edited(&kept, &[("repeat=N)", "repeat=N, recompute=true)")]);
    let ((plain, _), (recomputed, _)) = (train(&kept), train(&again));
    expect_near("losses", &recomputed, &plain, 1e-5);
    let (most, less) = (arena(&kept), arena(&again));
    assert!((less as f64) < 0.6 * most as f64, "{less} of {most} bytes");

    let one = edited(
        &kept,
        &[(
            "\"norm\": \"LayerNorm(blocks)\",",
            "\"deep\": \"MLP(blocks, width=64, recompute=true)\", \"norm\": \"LayerNorm(deep)\",",
        )],
    );
    let other = edited(&one, &[(", recompute=true", ", recompute=false")]);
    expect_near("one layer", &train(&one).0, &train(&other).0, 1e-5);
}

#[test]
fn sequences_may_be_recomputed() {
    let kept = read("gru_stacked");
    let again = edited(&kept, &[("repeat=2)", "repeat=2, recompute=true)")]);
    expect_near("losses", &train(&again).0, &train(&kept).0, 1e-5);
    let less = edited(&kept, &[("repeat=2)", "repeat=2, keep=sqrt)")]);
    expect_near("losses", &train(&less).0, &train(&kept).0, 1e-5);
}

// ---- Faults.

/// The reader's errors for the recurrent network with a part replaced.
#[track_caller]
fn refused(edits: &[(&str, &str)], expected: &str) {
    let said = Engine::new().read("model.ron", &edited(&read("gru_layers"), edits)).unwrap_err().to_string();
    assert!(said.contains(expected), "{said}");
}

#[test]
fn calls_over_sequences_and_precisions_are_checked() {
    let call = r#""rnn": "GRU(x, width=8)""#;
    let replaced = |by: &'static str| [(call, by)];
    refused(
        &replaced(r#""rnn": "GRU(x, width=8, repeat=2, over=1)""#),
        "a call has either `repeat`, `over` or `until`",
    );
    refused(&replaced(r#""rnn": "GRU(x, width=8, over=time)""#), "`over` must be a whole number");
    refused(&replaced(r#""rnn": "GRU(x, width=8, recompute=3)""#), "`recompute` must be `true` or `false`");
    refused(&replaced(r#""rnn": "GRU(x, width=8, keep=some)""#), "`keep` must be `all` or `sqrt`");
    refused(&replaced(r#""rnn": "GRU(x, width=8, over=1)""#), "`over` needs a sequence as operand 2");
    refused(
        &replaced(
            r#""rnn": "gru_step(zeros(shape=[5, 8]), x, zeros(shape=[8, 24]), zeros(shape=[24]), over=0)""#,
        ),
        "the extent of the axis is a number",
    );
    refused(&replaced(r#""rnn": "GRU(x, x, width=8)""#), "`h` has 2 axes, not 3");
    let optional = r#"functions: {"f": (inputs: {"a": (type: "[D]", default: "zeros(shape=[2])"), "b": "[D]"}, output: "a + b")},
        nodes: {"#;
    refused(&[("nodes: {", optional)], "`b` follows an operand that may be left out");
    refused(&[("seed: 5,", "seed: 5, precision: F8,")], "`precision` cannot be `F8`");
    refused(&[("seed: 5,", "seed: 5, precision: F16(loss_scale: 1000),")], "`loss_scale` cannot be 1000");
    refused(&[("seed: 5,", "seed: 5, precision: Bf16(loss_scale: 1024),")], "has no field `loss_scale`");
}

/// A bidirectional sum by a function of the pipeline, beside a sum by hand.
#[test]
fn functions_of_a_pipeline_run_over_sequences() {
    let text = r#"(
        functions: {
            "decay": (inputs: ["s", "x", "k"], output: "s * k + x"),
            "both": (inputs: ["a", "b", "x"], outputs: {"a": "a + x", "b": "b * x"}),
        },
        inputs: {"x": "f32[2, 18]"},
        nodes: {
            "start": "zeros(shape=[2])",
            "sums": "decay(start, x, 0.5, over=1)",
            "pair": "both(start, start + 1.0, x, over=-1)",
            "counts": "decay(start, x, 1.0, over=1)",
        },
        stages: {"go": Run(outputs: ["sums", "counts", "pair", "pair.b"], inputs: {"x": INPUT})},
    )"#;
    let row: Vec<f64> = (0..18).map(|i| f64::from(i % 4) - 1.0).collect();
    let text = text.replace("INPUT", &format!("[{row:?}, {row:?}]"));
    let outputs =
        session(&text, Choice::Cpu, Options::default()).run_stages(None, &mut |_| {}).unwrap().outputs;
    let scan = |start: f64, step: fn(f64, f64) -> f64| -> Vec<f64> {
        let along = row.iter().scan(start, |s, x| {
            *s = step(*s, *x);
            Some(*s)
        });
        let along: Vec<f64> = along.collect();
        [along.clone(), along].concat()
    };
    let of = |name: &str| outputs[name].values.to_f64();
    super::near("sums", &of("sums"), &scan(0.0, |s, x| s * 0.5 + x), 1e-6).unwrap();
    assert_eq!(of("counts"), scan(0.0, |s, x| s + x));
    assert_eq!((of("pair"), of("pair.b")), (scan(0.0, |s, x| s + x), scan(1.0, |s, x| s * x)));
}
