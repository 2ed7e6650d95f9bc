//! A pipeline that passes `check` runs: small pipelines, composed at random of parts that fit and parts that do not.

use engine::runtime::data::source::{InMemory, LoadContext, Split};
use engine::runtime::session::{CompilingPlanner, Fault, Session, check_stages, load_data};

use super::*;
use engine::core::pipeline::{Pipeline, PredictStage};
use engine::core::stage::prediction;
use std::sync::Arc;

/// Numbers that depend on the seed alone (splitmix64).
struct Dice(u64);

impl Dice {
    fn pick<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        choices[((z ^ (z >> 31)) % choices.len() as u64) as usize]
    }
}

/// Extents that runs settle. A run refuses those that the graph does not have, as `C` often is.
const DIMS: [&str; 7] = [
    "{}",
    "{\"B\": 4}",
    "{\"B\": 4}",
    "{\"B\": 4}",
    "{\"B\": 4, \"C\": 4}",
    "{\"B\": 9, \"C\": 3}",
    "{\"B\": 0}",
];

/// A pipeline on five rows of `x: f32[2]` and `t: f32[]`, with two stages.
fn text(dice: &mut Dice) -> String {
    let x =
        dice.pick(&["f32[B, 2]", "f32[B, 2]", "f32[B, 2]", "f32[4, 2]", "f32[B, 3]", "f64[B, 2]", "f32[B]"]);
    let t = dice.pick(&["f32[B]", "f32[B]", "f32[C]", "i32[B]"]);
    let h = dice.pick(&[
        "x * w",
        "x * w",
        "reshape(x * w, shape=[B, 2, 1])",
        "reshape(x * w, shape=[4, 2])",
        "f(x * w)",
        "sum(x * w)",
        "reshape(x * w, shape=[_])",
        "x * w + full(1.0, shape=[C, 2])",
    ]);
    let loss = dice.pick(&[
        "mean(h)",
        "mean(h)",
        "mean(h * h) + mean(t)",
        "mean(t)",
        "mean(argmax(x, axis=1) == 0)",
    ]);
    let output = || ["h", "loss", "p", "x"];
    let mut stages = vec![];
    for name in ["one", "two"] {
        let batch = dice.pick(&["1", "2", "4", "5", "7"]);
        let split = dice.pick(&["d.train", "d.train", "d.train", "d.test"]);
        let last = dice.pick(&["Short", "Drop"]);
        let output = dice.pick(&output());
        let dims = dice.pick(&DIMS);
        let value = dice.pick(&[
            "",
            "inputs: {\"x\": [[1, 2], [3, 4], [5, 6], [7, 8]]}, ",
            "inputs: {\"x\": [1, 2]}, ",
        ]);
        let state = dice.pick(&["", "state: {\"w\": \"w2\"}, ", "state: {\"w\": \"h\"}, "]);
        let more = dice.pick(&["accumulate: 1", "accumulate: 2"]);
        let stage = match dice.pick(&["train", "evaluate", "run", "run", "predict"]) {
            "train" => format!(
                "Train(data: \"{split}\", batch: {batch}, last_batch: {last}, {more}, loss: \"loss\", \
                 optimizer: Sgd(lr: 1e-3))"
            ),
            "evaluate" => format!("Evaluate(data: \"{split}\", batch: {batch}, metrics: [\"{output}\"])"),
            "run" => format!("Run({value}{state}outputs: [\"{output}\"], dims: {dims})"),
            _ => format!("Predict(batch: {batch}, outputs: {{\"o\": \"{output}\"}})"),
        };
        stages.push(format!("\"{name}\": {stage}"));
    }
    format!(
        r#"(
          data: {{"d": (source: "points")}},
          inputs: {{"x": (type: "{x}", from: "d.x"), "t": (type: "{t}", from: "d.t")}},
          functions: {{"f": (inputs: ["a"], nodes: {{"b": "a + 1"}}, output: "reshape(b, shape=[B, 1, 2])")}},
          params: {{"w": (type: "f32[]", init: 0.5)}},
          nodes: {{"h": "{h}", "loss": "{loss}", "p": "w * 2", "w2": "w + mean(h)"}},
          stages: {{{}}},
        )"#,
        stages.join(", ")
    )
}

fn engine() -> Engine {
    let rows = (0..5).map(|i| {
        let i = i as f32;
        [HostTensor::from_slice(&[2], &[i, 1.0 - i]).unwrap(), HostTensor::scalar(i)]
    });
    let rows = Split::from_rows(["x", "t"], rows).unwrap();
    Engine::new().source(InMemory::new("points").split("train", rows)).unwrap()
}

/// Whether the pipeline passes `check`. If so, it must run.
fn check(text: &str) -> bool {
    let engine = engine();
    let Ok(Program { pipeline, registry }) = engine.read("random.ron", text) else { return false };
    let pipeline = Arc::new(pipeline);
    let context = LoadContext::offline_in(Path::new("no/such/folder"));
    let sets = load_data(&pipeline, &engine.sources, &context, &mut |_| {}).unwrap();
    match check_stages(&pipeline, &sets, &IndexMap::new(), &registry) {
        Ok(open) => assert!(open.is_empty(), "{text}\n{open:?}"),
        Err(_) => return false,
    }
    let device = devices::open(Choice::Cpu, Some(1)).unwrap().device;
    let planner = CompilingPlanner::new(Arc::clone(&pipeline), registry, Options::default());
    let mut session = Session::new(Arc::clone(&pipeline), Arc::new(planner), device, sets).unwrap();
    if let Err(error) = session.run_stages(None, &mut |_| {}) {
        assert_ne!(error.fault(), Fault::Graph, "{text}\n{error}");
    }
    ask(&pipeline, &session, text);
    true
}

/// Asks a session like `engine predict`, for a whole batch and for a single row.
fn ask(pipeline: &Pipeline, session: &Session, text: &str) {
    for stage in &pipeline.stages {
        let Some(predict) = stage.get::<PredictStage>() else { continue };
        let fed = prediction(pipeline, predict).unwrap();
        let nodes: Vec<_> = predict.outputs.iter().map(|(_, node)| node.clone()).collect();
        for n_rows in [predict.batch, 1] {
            let rows = fed.inputs.iter().map(|(input, ty)| {
                let extents: Vec<usize> = ty.shape.iter().map(|dim| dim.fixed().unwrap_or(n_rows)).collect();
                (input.to_string(), HostTensor::zeros(ty.dtype, &extents).unwrap())
            });
            let asked = session.run(&nodes, &rows.collect::<IndexMap<_, _>>());
            let asked = asked.unwrap_or_else(|error| panic!("{text}\n{error}"));
            assert!(asked.values().all(|output| output.shape()[0] == n_rows), "{text}");
        }
    }
}

#[test]
fn pipelines_that_are_sound_run() {
    let n_sound = (0..1500).filter(|&seed| check(&text(&mut Dice(seed)))).count();
    assert!((40..1400).contains(&n_sound), "{n_sound}");
}
