#![allow(clippy::unwrap_used, missing_docs)]
//! Stages from their text to their results, on the CPU: modes, moments, names and ends.
//!
//! `PROPTEST_CASES=2000 cargo test --test stages random` runs many random stages, which takes some minutes.

use engine::Engine;
use engine::core::compile::Options;
use engine::core::pipeline::Mode;
use engine::devices::{self, Choice};
use engine::runtime::session::{Report, Session, SessionError};
use engine::runtime::tensor::HostTensor;
use indexmap::IndexMap;

#[path = "stages/energy.rs"]
mod energy;
#[path = "stages/generate.rs"]
mod generate;
#[path = "stages/hoisting.rs"]
mod hoisting;
#[path = "stages/interrupts.rs"]
mod interrupts;
#[path = "stages/laws.rs"]
mod laws;
#[path = "stages/linalg.rs"]
mod linalg;
#[path = "stages/linear_loss.rs"]
mod linear_loss;
#[path = "stages/long_columns.rs"]
mod long_columns;
#[path = "common/offline.rs"]
mod offline;
#[path = "stages/optimizers.rs"]
mod optimizers;
#[path = "stages/own_states.rs"]
mod own_states;
#[path = "stages/predictor.rs"]
mod predictor;
#[path = "common/present.rs"]
mod present;
#[path = "stages/random.rs"]
mod random;
#[path = "stages/repeat.rs"]
mod repeat;
#[path = "stages/requirements.rs"]
mod requirements;
#[path = "stages/residuals.rs"]
mod residuals;
#[path = "stages/shipped.rs"]
mod shipped;
#[path = "stages/slopes.rs"]
mod slopes;
#[path = "stages/state.rs"]
mod state;
#[path = "stages/until.rs"]
mod until;

fn session(text: &str, options: Options) -> Session {
    offline::session(text, devices::open(Choice::Cpu, Some(2)).unwrap().device, options)
}

fn run(text: &str) -> Result<Report, SessionError> {
    session(text, Options::default()).run_stages(None, &mut |_| {})
}

/// The reader's errors for a text.
fn refused(text: &str) -> String {
    Engine::new().read("stages.ron", text).expect_err(text).to_string()
}

/// A weight w that learns to be 2 from rows 0 to 31, with dropout, once directly and once in functions.
fn dropout(stages: &str) -> String {
    let text = r#"(
        name: "dropout", seed: 1,
        data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
        inputs: {"row": (type: "i32[B]", from: "rows.number")},
        params: {"w": (type: "f32[]", init: 1.5)},
        functions: {
            "inner": (inputs: ["x"], nodes: {"d": "dropout(x, p=0.5)"}, output: "d + 0.0"),
            "outer": (inputs: ["x"], nodes: {"i": "inner(x)"}, output: "i * 1.0"),
        },
        nodes: {
            "x": "cast(row, dtype=f32) / 32.0 + 1.0",
            "ones": "x * 0.0 + 1.0",
            "direct": "dropout(ones * w, p=0.5)",
            "nested": "outer(ones * w)",
            "always": "dropout(ones * w, p=0.5, train=true)",
            "error": "mean((direct + nested - 2.0 * ones) ** 2.0)",
            "mean_direct": "mean(direct)",
        },
        stages: {STAGES},
    )"#;
    text.replace("STAGES", stages)
}

#[test]
fn dropout_is_off_outside_training() {
    for fuse in [true, false] {
        let outputs = |mode: &str| {
            let stages =
                format!(r#""go": Run(outputs: ["direct", "nested", "always"], dims: {{"B": 32}}{mode}),"#);
            let options = Options { fuse, ..Options::default() };
            session(&dropout(&stages), options).run_stages(None, &mut |_| {}).unwrap().outputs
        };
        let n_dropped = |outputs: &IndexMap<String, engine::runtime::session::OutputReport>, name: &str| {
            assert!(outputs[name].values.to_f64().iter().all(|x| [0.0, 1.5, 3.0].contains(x)), "{outputs:?}");
            outputs[name].values.to_f64().into_iter().filter(|x| *x != 1.5).count()
        };
        for (mode, expected) in
            [("", [0, 0, 32]), (", mode: Eval", [0, 0, 32]), (", mode: Train", [32, 32, 32])]
        {
            let outputs = outputs(mode);
            assert_eq!(
                ["direct", "nested", "always"].map(|name| n_dropped(&outputs, name)),
                expected,
                "{mode}"
            );
        }
    }
}

#[test]
fn the_mode_of_evaluations_and_predictions_is_their_own() {
    let stages = r#"
        "train": Train(
            data: "rows.train", batch: 32, epochs: 2, loss: "error", metrics: ["mean_direct"],
            optimizer: Sgd(lr: 0.0),
            evaluate: Evaluate(data: "rows.train", batch: 32, metrics: ["mean_direct"]),
        ),
        "steady": Train(
            data: "rows.train", batch: 32, epochs: 1, loss: "error", metrics: ["mean_direct"],
            optimizer: Sgd(lr: 0.0), mode: Eval,
        ),
        "test": Evaluate(data: "rows.test", batch: 4, metrics: ["mean_direct"]),
        "noisy": Evaluate(data: "rows.test", batch: 4, metrics: ["mean_direct"], mode: Train),
        "predict": Predict(batch: 8, outputs: {"y": "direct"}),"#;
    let mut session = session(&dropout(stages), Options::default());
    let report = session.run_stages(None, &mut |_| {}).unwrap();
    let train = &report.stages[0].epochs[0];
    assert_ne!(train.train_metrics["mean_direct"], 1.5);
    assert_eq!(train.metrics["mean_direct"], 1.5);
    assert_eq!(report.stages[1].epochs[0].train_metrics["mean_direct"], 1.5);
    assert_eq!(report.stages[2].metrics["mean_direct"], 1.5);
    assert_ne!(report.stages[3].metrics["mean_direct"], 1.5);

    let rows = IndexMap::from([("row".to_string(), HostTensor::from_slice(&[8], &[0i32; 8]).unwrap())]);
    let direct = |mode| session.run_in(mode, &["direct".into()], &rows).unwrap()["direct"].to_f64();
    assert_eq!(direct(Mode::Eval), [1.5; 8]);
    assert_ne!(direct(Mode::Train), [1.5; 8]);
}

/// In `Eval`, dropout leaves no trace: no random numbers are drawn, and no kernel has a mask.
#[test]
fn dropout_that_is_off_costs_nothing() {
    use engine::core::stage;
    let text = dropout(r#""go": Run(outputs: ["direct", "nested"], dims: {"B": 32}),"#);
    let engine = Engine::new();
    let pipeline = engine.read("stages.ron", &text).unwrap();
    let outputs = ["direct", "nested"].map(|name| (name.into(), name.into()));
    let n_random = |mode| {
        let graph = stage::inference(&pipeline, &outputs, &[("B".into(), 32)], mode).unwrap();
        let compiled = engine::core::compile::compile(&graph, &engine.registry, &Options::default());
        compiled.simplified.to_string().matches(".random").count()
    };
    assert_eq!((n_random(Mode::Eval), n_random(Mode::Train)), (0, 2));
}

#[test]
fn run_shows_the_moment_before_its_last_step() {
    let text = r#"(
        params: {"n": (type: "f32[]", init: 10), "k": (type: "i32[]", state: true)},
        nodes: {
            "next": "n * 2.0", "same": "copy(n)", "shifted": "n + 0.0", "view": "reshape(n, shape=[1])",
            "more": "k + 1", "triple": "n * 3.0",
        },
        stages: {
            "go": Run(
                steps: 3, state: {"n": "next", "k": "more"},
                outputs: ["n", "same", "shifted", "view", "triple", "next", "k", "more"],
            ),
            "after": Run(outputs: {"now": "n", "count": "k"}),
        },
    )"#;
    let outputs = run(text).unwrap().outputs;
    let of = |name: &str| outputs[name].values.to_f64()[0];
    // The steps store 20, 40 and 80. The last one starts at 40.
    assert_eq!(["n", "same", "shifted", "view"].map(of), [40.0; 4]);
    assert_eq!(["triple", "next", "k", "more"].map(of), [120.0, 80.0, 2.0, 3.0]);
    assert_eq!(["now", "count"].map(of), [80.0, 3.0]);
}

#[test]
fn random_negatives_are_all_items_but_the_positive_one() {
    let text = r#"(
        nodes: {
            "item": "cast(arange(stop=5), dtype=i32)",
            "drawn": "random_negatives(item, count=400, items=5)",
        },
        stages: {
            "one": Run(outputs: {"first": "drawn"}),
            "two": Run(steps: 2, outputs: {"second": "drawn"}),
        },
    )"#;
    let outputs = run(text).unwrap().outputs;
    let [first, second] = ["first", "second"].map(|name| outputs[name].values.to_f64());
    assert_ne!(first, second, "a step draws anew");
    for (item, row) in first.chunks_exact(400).enumerate() {
        let count = |wanted: usize| row.iter().filter(|&&drawn| drawn == wanted as f64).count();
        let counts: Vec<usize> = (0..5).map(count).collect();
        // The deviation of a count is 8.7.
        let is_fair =
            |(other, &n): (usize, &usize)| if other == item { n == 0 } else { (50..150).contains(&n) };
        assert!(counts.iter().sum::<usize>() == 400 && counts.iter().enumerate().all(is_fair), "{counts:?}");
    }
}

#[test]
fn one_node_may_be_reported_under_several_names() {
    let stages = r#"
        "train": Train(
            data: "rows.train", batch: 32, loss: "error", optimizer: Sgd(lr: 0.0), mode: Eval,
            metrics: {"loss": "error", "again": "error", "m": "mean_direct", "n": "mean_direct"},
            evaluate: Evaluate(data: "rows.test", batch: 8, metrics: {"a": "error", "b": "error"}),
        ),
        "go": Run(outputs: {"u": "w", "v": "w", "x": "direct", "y": "direct"}, dims: {"B": 4}),"#;
    let report = run(&dropout(stages)).unwrap();
    let epoch = &report.stages[0].epochs[0];
    assert_eq!(epoch.train_metrics.keys().collect::<Vec<_>>(), ["again", "m", "n"]);
    assert_eq!((epoch.train_loss, epoch.train_metrics["m"]), (epoch.train_metrics["again"], 1.5));
    assert_eq!(epoch.metrics["a"], epoch.metrics["b"]);
    assert_eq!(report.outputs["u"], report.outputs["v"]);
    assert_eq!(report.outputs["x"], report.outputs["y"]);
}

#[test]
fn names_given_twice_are_reported_before_the_run() {
    let said = refused(&dropout(r#""go": Run(outputs: ["w", "direct", "w"], dims: {"B": 4}),"#));
    assert!(said.contains("error[E0013]: `w` is given twice"), "{said}");
    let stages = r#""train": Train(data: "rows.train", batch: 8, loss: "error", optimizer: Sgd(lr: 0.1),
        metrics: {"loss": "mean_direct"}),"#;
    let said = refused(&dropout(stages));
    assert!(said.contains("error[E0302]: a metric is called `loss`"), "{said}");
}

/// Copies of the loss determine the best epoch by themselves, other metrics do not.
#[test]
fn copies_of_the_loss_are_lower_when_better() {
    let stages = |metric: &str| {
        let train = r#""train": Train(data: "rows.train", batch: 8, loss: "error", optimizer: Sgd(lr: 0.1),
            early_stop: 2, evaluate: Evaluate(data: "rows.test", batch: 8, metrics: METRIC)),"#;
        dropout(&train.replace("METRIC", metric)).replace(
            r#""mean_direct": "mean(direct)","#,
            r#""mean_direct": "mean(direct)", "alias": "error", "copied": "copy(alias)", "half": "error * 0.5","#,
        )
    };
    for metric in [r#"["error"]"#, r#"["alias"]"#, r#"["copied"]"#, r#"{"mse": "copied"}"#] {
        let read = Engine::new().read("stages.ron", &stages(metric));
        assert!(read.is_ok(), "{metric}: {:?}", read.err());
    }
    for metric in [r#"["half"]"#, r#"["mean_direct"]"#] {
        assert!(refused(&stages(metric)).contains("error[E0209]"), "{metric}");
    }
}

/// A falling error does not stop training early.
#[test]
fn training_goes_on_while_an_error_falls() {
    let stages = |monitor: &str| {
        let train = r#""train": Train(data: "rows.train", batch: 8, epochs: 6, loss: "error", mode: Eval,
            optimizer: Sgd(lr: 1e-3), monitor: MONITOR, early_stop: 1,
            evaluate: Evaluate(data: "rows.test", batch: 8, metrics: {"mse": "half"})),"#;
        dropout(&train.replace("MONITOR", monitor))
            .replace(r#""mean_direct": "mean(direct)","#, r#""half": "error * 0.5","#)
    };
    let n_epochs = |monitor| run(&stages(monitor)).unwrap().stages[0].epochs.len();
    assert_eq!((n_epochs(r#"Min("mse")"#), n_epochs(r#"Max("mse")"#)), (6, 2));
}

#[test]
fn an_infinite_loss_ends_the_training() {
    let stages =
        r#""train": Train(data: "rows.train", batch: 8, loss: "overflow", optimizer: Sgd(lr: 0.0)),"#;
    let text = dropout(stages)
        .replace(r#""mean_direct": "mean(direct)","#, r#""overflow": "mean(exp(x * w * 1000.0))","#);
    let error = run(&text).unwrap_err();
    assert_eq!(error.to_string(), "stage `train`: the loss is not finite from step 0 on");
}

// ---- Numbers out of range.

/// The reader's errors for a graph with one field replaced by `--set`.
fn refused_by(path: &str, value: &str) -> String {
    use engine::core::diag::{Diagnostics, Look, Sources};
    let stages = r#""train": Train(data: "rows.train", batch: 8, loss: "error", optimizer: AdamW(lr: 0.1)),"#;
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let file = sources.add("stages.ron", dropout(stages));
    let overrides = [(path.to_owned(), value.to_owned())];
    let mut registry = Engine::new().registry;
    let read = engine::core::front::load(&mut sources, file, &mut registry, &overrides, &[], &mut diags);
    assert!(read.is_none(), "{path}={value}");
    diags.render(&sources, Look::Plain)
}

#[test]
fn settings_of_optimizers_have_ranges() {
    let optimizers = [
        "Sgd(lr: -1)",
        "Sgd(lr: inf)",
        "Sgd(lr: Constant(-1))",
        "Sgd(lr: Cosine(start: -1e-3))",
        "Sgd(lr: Linear(start: 1e-3, end: -1))",
        "Sgd(lr: Exp(start: 1, rate: -1))",
        "Sgd(lr: Steps(start: 1, every: 2, factor: -0.5))",
        "Adam(lr: 0.1, beta1: 2)",
        "Adam(lr: 0.1, beta2: 1)",
        "AdamW(lr: 0.1, beta1: -0.1)",
        "AdamW(lr: 0.1, eps: -1e-8)",
        "AdamW(lr: 0.1, weight_decay: -0.01)",
        "Sgd(lr: 0.1, weight_decay: inf)",
        "Momentum(lr: 0.1, momentum: 1.5)",
        "Momentum(lr: 0.1, dampening: 2)",
        "Muon(lr: 0.1, momentum: -0.5)",
        "Muon(lr: 0.1, weight_decay: -1)",
    ];
    for optimizer in optimizers {
        let said = refused_by("train.optimizer", optimizer);
        assert!(said.starts_with("error[E0015]: `"), "{optimizer}: {said}");
        // The place is the number, which is written last.
        let number = optimizer.trim_end_matches(')').rsplit([' ', '(']).next().unwrap();
        let carets = said.lines().find(|line| line.contains('^')).unwrap();
        assert_eq!(carets.matches('^').count(), number.len(), "{said}");
    }
    for (path, value) in [("train.optimizer.lr", "-1"), ("train.optimizer.beta1", "2")] {
        let said = refused_by(path, value);
        assert!(said.contains(&format!("cannot be {value}")), "{said}");
        assert!(said.contains(&format!("--set {path}")), "{said}");
    }
}

#[test]
fn distributions_and_constants_make_sense() {
    let inits =
        ["Normal(0, -1)", "Normal(mean: inf, std: 1)", "Uniform(1, -1)", "Uniform(low: 0, high: inf)"];
    for init in inits {
        let said = refused_by("params.w.init", init);
        assert!(said.starts_with("error[E0015]: ") && said.contains("--set params.w.init"), "{init}: {said}");
    }
    for init in ["1e39", "Normal(1e39, 1)", "Uniform(0, 1e39)"] {
        let said = refused_by("params.w.init", init);
        assert!(
            said.starts_with("error[E0114]: ") && said.contains("is no element of f32"),
            "{init}: {said}"
        );
    }
    for constant in ["1 / 0", "x + 1 / 0", "0.0 / 0.0", "x * 10.0 ** 400", "clamp(x, max=1 / (2 - 2))"] {
        let said = refused_by("nodes.mean_direct", constant);
        let is_setting = constant.starts_with("clamp");
        let message = if is_setting { "error[E0108]" } else { "error[E0015]: this constant is " };
        assert!(said.contains(message), "{constant}: {said}");
    }
}

/// A written infinity is intended, and the ends of ranges belong to them.
#[test]
fn numbers_in_range_are_taken() {
    let stages = r#""train": Train(data: "rows.train", batch: 8, loss: "error", optimizer: OPTIMIZER),"#;
    let optimizers = [
        "Sgd(lr: 0)",
        "Adam(lr: 1e-3, beta1: 0, beta2: 0.9999, eps: 0)",
        "Momentum(lr: 0.1, momentum: 0, dampening: 1)",
        "AdamW(lr: Linear(start: 0, end: 1e-3), weight_decay: 0)",
    ];
    for optimizer in optimizers {
        let text = dropout(&stages.replace("OPTIMIZER", optimizer))
            .replace(r#""mean_direct": "mean(direct)""#, r#""endless": "x * (1.0 + inf)""#);
        let read = Engine::new().read("stages.ron", &text);
        assert!(read.is_ok(), "{optimizer}: {:?}", read.err());
    }
}

#[test]
fn a_loss_depends_on_a_trained_parameter() {
    let stages = r#""train": Train(data: "rows.train", batch: 8, loss: "LOSS", optimizer: Sgd(lr: 0.1)),"#;
    for loss in ["of_data", "of_state"] {
        let text = dropout(&stages.replace("LOSS", loss))
            .replace(
                r#""mean_direct": "mean(direct)","#,
                r#""of_data": "mean(x)", "of_state": "mean(x * s)","#,
            )
            .replace("params: {", r#"params: {"s": (type: "f32[]", state: true), "#);
        let said = refused(&text);
        let message =
            format!("error[E0115]: stage `train`: no parameter has a gradient of the loss `{loss}`");
        assert!(said.contains(&message), "{said}");
    }
}
