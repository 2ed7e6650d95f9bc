//! Mistakes of a program that builds graphs and pipelines are reported as errors with a code, never by a panic.

use engine::core::diag::Code;
use engine::core::ir::{Attr, Attrs, Builder, DType, Graph, InputKind, Literal, Type};
use engine::core::pipeline::{Pipeline, SplitRef, TrainStage};
use engine::core::stage::{SplitShape, StageIssue};
use engine::runtime::device::Device;
use engine::runtime::diagnostic::Coded;
use engine::runtime::session::{CompilingPlanner, Request, SessionError};
use std::sync::Arc;

use super::*;

/// The issue of a call of `name` on a `f32[2, 3]`.
fn called(name: &str, attrs: Attrs) -> (String, Option<String>) {
    let registry = Engine::new().registry;
    let mut builder = Builder::new(Graph::new("code"), &registry);
    let x = builder.input("x", InputKind::Data, Type::new(DType::F32, &[2, 3]));
    let issue = builder.call(name, &[x], attrs).unwrap_err();
    (issue.message, issue.help)
}

#[test]
fn a_call_that_fits_no_op_is_an_error() {
    let number = |n| Attr::Lit(Literal::Int(n));
    let cases = [
        (called("sofmax", Attrs::default()), "there is no op `sofmax`", "did you mean `softmax`?"),
        (
            called("softmax", Attrs::default().with("axes", number(1))),
            "`softmax` has no setting `axes`",
            "did you mean `axis`?",
        ),
        (
            called("softmax", Attrs::default().with("axis", Attr::Str("last".into()))),
            "`axis` of `softmax` cannot be \"last\"",
            "it is a whole number",
        ),
        (
            called("cast", Attrs::default()),
            "`cast` needs the setting `dtype`",
            "add `dtype=…`: the element type of the result",
        ),
    ];
    for ((message, help), expected, expected_help) in cases {
        assert_eq!((&*message, help.as_deref()), (expected, Some(expected_help)));
    }
}

fn device() -> Arc<dyn Device> {
    devices::open(Choice::Cpu, Some(1)).unwrap().device
}

/// The error of a session of a changed pipeline, at any time.
fn told(change: impl Fn(&mut Pipeline)) -> (Option<Code>, String) {
    let engine = Engine::new();
    let mut pipeline = engine.read("tiny.ron", GRAPH).unwrap();
    change(&mut pipeline);
    let data = LoadContext::offline_in(Path::new("no/such/folder"));
    let made = engine.session(pipeline, device(), &data, Options::default(), &mut |_| {});
    let error = made.and_then(|mut session| session.run_stages(None, &mut |_| {})).unwrap_err();
    (error.code(), error.to_string())
}

fn train(pipeline: &mut Pipeline) -> &mut TrainStage {
    pipeline.stages[0].get_mut().expect("the first stage trains")
}

#[test]
fn inconsistent_declarations_are_errors() {
    let says = |change: fn(&mut Pipeline), code: Code, message: &str| {
        assert_eq!(told(change), (Some(code), message.to_string()));
    };
    says(
        |pipeline| pipeline.params.push(pipeline.params[0].clone()),
        Code::E0302,
        "there are two parameters called `w`",
    );
    says(
        |pipeline| train(pipeline).optimizer = None,
        Code::E0206,
        "stage `train` says nothing about how parameters change",
    );
    says(|pipeline| pipeline.data.clear(), Code::E0202, "there is no data source `digits`");
    says(
        |pipeline| train(pipeline).data = SplitRef { data: "digit".into(), split: "train".into() },
        Code::E0202,
        "there is no data source `digit`",
    );
    says(
        |pipeline| pipeline.params[1].ty = Type::new(DType::F32, &[11]),
        Code::E0211,
        "the graph's `b` is f32[10], the parameter is f32[11]",
    );
    says(
        |pipeline| drop(pipeline.params.pop()),
        Code::E0211,
        "the parameter `b` of the graph is not declared",
    );
    says(
        |pipeline| {
            train(pipeline).optimizer = None;
            train(pipeline).state = vec![("w".into(), "loss".into())];
        },
        Code::E0206,
        "`w` is f32[784, 10], its next value is f32[]",
    );
}

#[test]
fn unknown_names_of_a_stage_are_errors() {
    let (_, message) = told(|pipeline| train(pipeline).loss = "los".into());
    assert_eq!(message, "stage `train`: there is no node `los`; did you mean `loss`?");
    let (_, message) = told(|pipeline| {
        if let Some(optimizer) = &mut train(pipeline).optimizer {
            optimizer.op = "adan".into();
        }
    });
    assert_eq!(message, "stage `train`: there is no op `adan`; did you mean `adam`?");
    let (_, message) = told(|pipeline| {
        if let Some(optimizer) = &mut train(pipeline).optimizer {
            optimizer.attrs = Attrs::default().with("beta", Attr::Lit(Literal::Float(0.5)));
        }
    });
    assert_eq!(message, "stage `train`: `adam` of `w`: `adam` has no setting `beta`; did you mean `beta1`?");
}

/// The compiler checks by itself, since not every program has a session.
#[test]
fn the_compiler_refuses_what_a_session_would() {
    let engine = Engine::new();
    let Program { mut pipeline, registry } = engine.read("tiny.ron", GRAPH).unwrap();
    train(&mut pipeline).optimizer = None;
    let stage = train(&mut pipeline).clone();
    let planner = CompilingPlanner::new(Arc::new(pipeline), registry, Options::default());
    let data = SplitShape { data: "digits".into(), n_rows: 100, n_held: 100, fields: vec![] };
    let rows = engine::core::stage::Rows::Batches { batch: 25, per_epoch: 4 };
    let StageIssue { code, .. } =
        planner.compile(&Request::Training { stage: &stage, data: &data, rows }).unwrap_err().0;
    assert_eq!(code, Code::E0206);
}

/// A session may be made of data sets of which one is missing.
#[test]
fn missing_data_of_a_session_is_an_error() {
    let engine = Engine::new();
    let Program { pipeline, registry } = engine.read("tiny.ron", GRAPH).unwrap();
    let pipeline = Arc::new(pipeline);
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, Options::default());
    let mut session = Session::new(pipeline, Arc::new(planner), device(), IndexMap::new()).unwrap();
    let error: SessionError = session.run_stages(None, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "data `digits`: the session was given no such data");
    assert_eq!(error.code(), Some(Code::E0202));
}

/// Faults of calls of layers and functions name the setting or the result.
#[test]
fn faults_of_layers_say_what_is_wrong() {
    let says = |nodes: &str, message: &str| {
        let cell = r#""cell": (inputs: ["h", "n", "x"], outputs: {"h": "tanh(h + x)", "n": "n + 1"})"#;
        let text = format!("(functions: {{{cell}}}, nodes: {{{nodes}}})");
        let faults = Engine::new().read("mine.ron", &text).unwrap_err().to_string();
        assert!(faults.contains(message), "{nodes}: {faults}");
    };
    says(r#""y": "Dropout(ones(shape=[3]), p=-0.5)""#, "`dropout` with probability -0.5");
    says(r#""y": "GRU(ones(shape=[2, 4, 3]), width=0)""#, "low is no finite number that is known here");
    for n in [6, 200] {
        let over = format!(r#""y": "cell(zeros(shape=[2, 4]), 0, ones(shape=[2, 4, {n}]), over=-1)""#);
        says(&over, "cannot be stacked along axis 2");
    }
}
