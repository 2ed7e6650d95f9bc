//! A stage kind, a schedule, a loss and a metric of this plugin in pipelines.

use std::path::Path;

use engine::core::compile::Options;
use engine::devices::{self, Choice};
use engine::runtime::data::source::LoadContext;
use engine::runtime::session::Report;
use engine::{Engine, runtime::session::SessionError};

fn my_engine() -> Engine {
    my_plugin::with_ops(Engine::new()).unwrap_or_else(|faults| panic!("{faults}"))
}

fn run(text: &str) -> Result<Report, SessionError> {
    let engine = my_engine();
    let pipeline = engine.read("test.ron", text).unwrap_or_else(|faults| panic!("{faults}"));
    let device = devices::open(Choice::Cpu, Some(1)).unwrap_or_else(|error| panic!("{error}")).device;
    let data = LoadContext::offline_in(Path::new("no/such/folder"));
    let mut session = engine.session(pipeline, device, &data, Options::default(), &mut |_| {})?;
    session.run_stages(None, &mut |_| {})
}

/// Fits `w` to 3 with stages of this form.
fn fit(stages: &str) -> String {
    format!(
        r#"(
            data: {{"rows": (source: "numbers", n_train: 64, n_test: 8)}},
            inputs: {{"number": (type: "i32[B]", from: "rows.number")}},
            params: {{"w": (type: "f32[2]", init: Constant(1.0))}},
            nodes: {{"x": "cast(number, dtype=f32) * 0.0", "loss": "mean(log_cosh(w - 3.0)) + mean(x)"}},
            stages: {{{stages}}},
        )"#
    )
}

#[test]
fn the_stage_kind_the_schedule_and_the_loss_run() {
    let stages = r#"
        "before": Norms(["w"]),
        "fit": Train(data: "rows.train", batch: 8, epochs: 20, loss: "loss", metrics: {"cost": "loss"},
                     optimizer: Sgd(lr: InverseSqrt(start: 1.0, every: 50))),
        "after": Norms(of: {"size": "w"}),
    "#;
    let report = run(&fit(stages)).unwrap_or_else(|error| panic!("{error}"));
    let norm = |stage: usize, name: &str| report.stages[stage].metrics[name];
    assert!((norm(0, "w") - 2f64.sqrt()).abs() < 1e-6, "{}", norm(0, "w"));
    assert!((norm(2, "size") - 18f64.sqrt()).abs() < 1e-3, "{}", norm(2, "size"));
    assert_eq!(report.stages[2].kind, "norms");
    assert!(report.stages[1].epochs[19].train_metrics["cost"] < 1e-4);
}

#[test]
fn errors_list_the_forms_of_the_plugin() {
    let faults = |text: &str| my_engine().read("test.ron", text).unwrap_err().to_string();
    let unknown = faults(&fit(r#""go": Xyzzy()"#));
    assert!(unknown.contains("there is no stage `Xyzzy`"), "{unknown}");
    assert!(unknown.contains("`Load`, `Repeat`, `Norms`"), "{unknown}");
    let misspelt = faults(&fit(r#""go": Norm(["w"])"#));
    assert!(misspelt.contains("did you mean `Norms`?"), "{misspelt}");
    let node = faults(&fit(r#""go": Norms(["v"])"#));
    assert!(node.contains("no node is called `v`"), "{node}");
    let train = |lr: &str| {
        fit(&format!(r#""fit": Train(data: "rows.train", batch: 8, loss: "loss", optimizer: Sgd(lr: {lr}))"#))
    };
    let schedule = faults(&train("Xyzzy(1.0)"));
    assert!(schedule.contains("`Plateau`, `InverseSqrt`"), "{schedule}");
    let setting = faults(&train("InverseSqrt(start: 1.0, every: 0)"));
    assert!(setting.contains("`every` cannot be 0"), "{setting}");
}

#[test]
fn searches_are_measured_by_the_metric_of_the_plugin() {
    let report = run(r#"(
            data: {"rows": (source: "vectors", base: "none/base.fvecs", queries: "none/query.fvecs", dim: 8)},
            inputs: {
                "base": (type: "f32[N, 8]", from: "rows.base"),
                "query": (type: "f32[Q, 8]", from: "rows.query"),
            },
            nodes: {"found": "nearest(query, base, k=10)"},
            stages: {"search": Search(data: "rows", ids: "found.indices")},
        )"#);
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    let metrics: Vec<&str> = report.stages[0].metrics.keys().map(String::as_str).collect();
    assert_eq!(metrics, ["recall@1", "recall@10", "mrr"]);
    assert_eq!(report.stages[0].metrics["mrr"], 1.0);
}
