#![allow(clippy::unwrap_used)]

mod beside;
mod by_hand;
mod groups;
mod scaled;
mod schedules;
mod slots;

use super::*;
use crate::ir::{Attrs, InputKind, Node, NodeOp, parse};
use crate::numerics::{Numerics, Precision};
use crate::op::{AttrSpec, Grad, GradCheck, InputSpec, Lower, OpForm, Registry, Role, Rounding, TypeRule};
use crate::oracle::{Oracle, OracleRun, OracleTensor};
use crate::pipeline::{
    DataDecl, Evaluation, Init, InputDecl, LastBatch, OptimizerDecl, ParamDecl, RunStage, Schedule, SplitRef,
    StageKind, TrainStage,
};
use std::collections::{HashMap, HashSet};

/// Momentum: v' = v + g, w' = w - lr·v'.
fn momentum() -> Registry {
    let mut registry = Registry::new();
    registry.add(OpForm {
        name: "momentum".into(),
        family: "test".into(),
        summary: "Takes a step.".into(),
        inputs: ["param", "grad", "lr", "v"].map(|name| InputSpec::required(name, "an operand")).into(),
        outputs: vec!["param".into(), "v".into()],
        attrs: vec![],
        types: TypeRule::custom(|types, _| Ok(vec![types[0].clone(), types[0].clone()])),
        lower: Lower::expand(|b, call| {
            let v = b.add(call.inputs[3], call.inputs[1]);
            let change = b.mul(v, call.inputs[2]);
            vec![b.sub(call.inputs[0], change), v]
        }),
        grad: Grad::None { why: "it is an optimizer" },
        check: GradCheck::None { why: "there is no gradient" },
        examples: vec![],
        role: Role::Optimizer { slots: vec!["v".into()] },
        rounding: Rounding::Never,
    });
    registry
}

/// Fits `x · w` to `t` by least squares: loss = mean (x·w - t)².
fn pipeline(registry: &Registry) -> Pipeline {
    let text = "
        graph fit {
          input x: f32[B]
          input t: f32[B]
          param w: f32[]
          wide: f32[B] = .broadcast(w, axes=[])
          error: f32[B] = map(x, wide, t) |a, b, c| a * b - c
          square: f32[B] = map(error) |a| a * a
          loss: f32[] = .sum(square, axes=[0])
        }";
    let input =
        |name: &str| InputDecl { name: name.into(), from: Some(("points".into(), name.into())), span: None };
    let ty = Type::scalar(DType::F32);
    let w = ParamDecl { name: "w".into(), kind: InputKind::Param, ty, init: Init::Zeros, span: None };
    Pipeline {
        name: "fit".into(),
        seed: 0,
        matmul: Precision::default(),
        numerics: Numerics::default(),
        precision: MixedPrecision::F32,
        full_precision: HashSet::new(),
        recomputed: vec![],
        deterministic: false,
        data: vec![DataDecl { name: "points".into(), source: "test".into(), options: vec![], span: None }],
        inputs: vec![input("x"), input("t")],
        params: vec![w],
        graph: parse(text, registry).unwrap(),
        first_results: vec![],
        updates: vec![],
        calls: vec![],
        stages: vec![],
    }
}

fn rehearse(pipeline: &Pipeline, train: &TrainStage, registry: &Registry) -> Result<(), StageIssue> {
    train.rehearse("train", pipeline, registry)
}

fn schedule(name: &str, values: [f64; 3]) -> Schedule {
    Schedule::new(Registry::new().form(name).unwrap(), values)
}

fn stage(lr: Schedule, clip_norm: Option<f64>) -> TrainStage {
    TrainStage {
        name: "train".into(),
        data: SplitRef { data: "points".into(), split: "train".into() },
        batch: 2,
        accumulate: 1,
        epochs: 2,
        max_steps: None,
        loss: "loss".into(),
        mode: Mode::Train,
        precision: MixedPrecision::F32,
        metrics: vec![],
        optimizer: Some(OptimizerDecl {
            op: "momentum".into(),
            attrs: Attrs::default(),
            lr,
            decay_bias: true,
            groups: vec![],
        }),
        state: vec![],
        clip_norm,
        clip_value: None,
        last_batch: LastBatch::Short,
        evaluate: None,
        monitor: None,
        early_stop: None,
        checkpoint: None,
    }
}

fn points() -> SplitShape {
    let row = Type::scalar(DType::F32);
    SplitShape {
        data: "points".into(),
        n_rows: 5,
        n_held: 5,
        fields: vec![("x".into(), row.clone()), ("t".into(), row)],
    }
}

const X: [f64; 5] = [1.0, 2.0, 3.0, 4.0, 5.0];
const T: [f64; 5] = [2.0, 1.0, -1.0, 0.5, 3.0];
const ORDER: [f64; 5] = [4.0, 0.0, 3.0, 1.0, 2.0];
const PER_EPOCH: usize = 3;

fn run(graph: &Graph, registry: &Registry, w: f64, v: f64, step: i64) -> OracleRun {
    run_from(graph, registry, (w, v), step, HashMap::new())
}

/// As [`run`], from further states.
fn run_from(
    graph: &Graph,
    registry: &Registry,
    (w, v): (f64, f64),
    step: i64,
    states: HashMap<String, OracleTensor>,
) -> OracleRun {
    let floats = |x: &[f64]| OracleTensor::new(DType::F32, &[x.len()], x);
    let scalar = |x| OracleTensor::new(DType::F32, &[], &[x]);
    let mut inputs: HashMap<String, OracleTensor> = HashMap::from([
        ("points.x".into(), floats(&X)),
        ("points.t".into(), floats(&T)),
        ("order".into(), OracleTensor::new(DType::I32, &[5], &ORDER)),
        ("w".into(), scalar(w)),
        ("fit.slope".into(), scalar(w)),
        ("fit.offset".into(), scalar(w)),
        ("w.v".into(), scalar(v)),
    ]);
    inputs.extend(states);
    Oracle::new(registry).run(graph, &inputs, 0, step).unwrap()
}

/// Loss and slope of the rows at these places of the order.
fn by_hand(places: &[usize], w: f64) -> (f64, f64) {
    let rows = places.iter().map(|&place| ORDER[place] as usize);
    rows.fold((0.0, 0.0), |(loss, slope), row| {
        let error = X[row] * w - T[row];
        (loss + error * error, slope + 2.0 * error * X[row])
    })
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{found} instead of {expected}");
}

fn train(stage: &TrainStage, rows: Rows, w: f64, v: f64, step: i64) -> OracleRun {
    let registry = momentum();
    let graph = training(&pipeline(&registry), stage, &points(), rows, &registry).unwrap();
    run(&graph.graph, &registry, w, v, step)
}

const BATCHES: Rows = Rows::Batches { batch: 2, per_epoch: PER_EPOCH };

#[test]
fn a_training_step_takes_its_rows_in_the_order_of_the_epoch() {
    // Step 4 of three steps an epoch is the second of the second epoch.
    for (step, places) in [(0, [0, 1]), (1, [2, 3]), (4, [2, 3])] {
        let next = train(&stage(Schedule::constant(0.1), None), BATCHES, 0.5, 2.0, step);
        let (loss, slope) = by_hand(&places, 0.5);
        assert_close(next.outputs["loss"].float(0), loss);
        assert_close(next.state["w.v"].float(0), 2.0 + slope);
        assert_close(next.state["w"].float(0), 0.5 - 0.1 * (2.0 + slope));
        // Sums weigh by rows, so that a short batch counts for less.
        assert_close(next.state["sum.loss"].float(0), 2.0 * loss);
    }
}

#[test]
fn the_short_last_batch_starts_where_the_others_end() {
    let next = train(&stage(Schedule::constant(0.1), None), Rows::Last { first: 4, rows: 1 }, 0.5, 0.0, 5);
    let (loss, slope) = by_hand(&[4], 0.5);
    assert_close(next.outputs["loss"].float(0), loss);
    assert_close(next.state["w"].float(0), 0.5 - 0.1 * slope);
}

#[test]
fn gradients_are_clipped_by_their_norm() {
    let (_, slope) = by_hand(&[0, 1], 0.5);
    for most in [1.0, 1e6] {
        let next = train(&stage(Schedule::constant(0.1), Some(most)), BATCHES, 0.5, 0.0, 0);
        let expected = slope * (most / (slope.abs() + 1e-6)).min(1.0);
        assert_close(next.state["w.v"].float(0), expected);
    }
}

#[test]
fn schedules_follow_the_step() {
    let rate = |schedule: Schedule, step: i64| {
        let (_, slope) = by_hand(&[0, 1], 0.5);
        let (_, later) = by_hand(&[2, 3], 0.5);
        let slope = [slope, later][usize::from(step % 3 == 1)];
        (0.5 - train(&stage(schedule, None), BATCHES, 0.5, 0.0, step).state["w"].float(0)) / slope
    };
    // Two epochs of three steps: the last step is 5.
    let exp = schedule("Exp", [1.0, 0.2, 0.3]);
    assert_close(rate(exp.clone(), 1), (-0.3f64).exp());
    assert_close(rate(exp, 300), 0.2);
    let linear = schedule("Linear", [1.0, 0.0, 0.0]);
    assert_close(rate(linear, 4), 0.2);
    let cosine = schedule("Cosine", [1.0, 0.5, 2.0]);
    assert_close(rate(cosine.clone(), 0), 0.0);
    assert_close(rate(cosine, 3), 0.5 + 0.25 * (1.0 + (std::f64::consts::PI / 3.0).cos()));
    let steps = schedule("Steps", [1.0, 0.5, 2.0]);
    assert_close(rate(steps, 4), 0.25);
}

/// Learning rates of 12 steps of a schedule, as a graph computes them.
fn rates(lr: Schedule) -> [f64; 12] {
    let registry = momentum();
    std::array::from_fn(|step| {
        let mut b = Builder::new(Graph::new("rate"), &registry);
        let rate = rates::rate(&mut b, ("lr", &lr), 12, Mode::Train).unwrap();
        b.graph.outputs.push(("rate".into(), rate));
        let run = Oracle::new(&registry).run(&b.graph, &HashMap::new(), 0, step as i64);
        run.unwrap().outputs["rate"].float(0)
    })
}

/// Of 12 steps, 4 of them warm-up: the numbers of `optax` 0.2, `warmup_cosine_decay_schedule(0, 1e-3, 4, 11, 1e-5)`, and
/// of `linear_schedule(0, 1e-3, 4)` joined with `linear_schedule(1e-3, 1e-5, 7)` at step 4.
#[test]
fn schedules_are_those_of_optax() {
    let check = |rates: [f64; 12], expected: &[(usize, f64)]| {
        for &(step, expected) in expected {
            assert!(
                (rates[step] - expected).abs() < 1e-9,
                "step {step}: {} instead of {expected}",
                rates[step]
            );
        }
    };
    let (start, end, warmup) = (1e-3, 1e-5, 4.0);
    let warm = [(0, 0.0), (1, 2.5e-4), (3, 7.5e-4), (4, 1e-3), (11, 1e-5)];
    let cosine = rates(schedule("Cosine", [start, end, warmup]));
    check(cosine, &warm);
    check(cosine, &[(5, 0.000950979592744261), (10, 5.9020425396738574e-05)]);
    let linear = rates(schedule("Linear", [start, end, warmup]));
    check(linear, &warm);
    check(linear, &[(5, 0.0008585714385844767), (10, 0.00015142856864258647)]);
    let cold = rates(schedule("Cosine", [start, end, 0.0]));
    check(cold, &[(0, 1e-3), (1, 0.0009799490217119455), (10, 3.0050945497350767e-05), (11, 1e-5)]);
}

#[test]
fn the_gradient_of_a_parameter_has_a_name() {
    let registry = momentum();
    let stage = stage(Schedule::constant(0.1), None);
    let of_params = |graph: &Graph| {
        let is_step = |node: &&Node| matches!(&node.op, NodeOp::Call(call) if call.form().name == "momentum");
        let steps = graph.nodes.iter().filter(is_step);
        steps.map(|node| graph.name_of(node.inputs[1]).to_string()).collect::<Vec<_>>()
    };
    let graph = training(&pipeline(&registry), &stage, &points(), BATCHES, &registry).unwrap().graph;
    assert_eq!(of_params(&graph), ["d.w"]);

    // One value is the gradient of both, a name is taken, and nothing arrives at the last, which makes no step.
    let text = "
        graph several {
          param a: f32[]
          param b: f32[]
          param c: f32[]
          param e: f32[]
          d.c: f32[] = .mul(c, c)
          sum: f32[] = .add(a, b)
          loss: f32[] = .add(sum, d.c)
        }";
    let mut graph = parse(text, &registry).unwrap();
    graph.outputs.push(("loss".into(), graph.find("loss").unwrap()));
    let optimizer = stage.optimizer.as_ref().unwrap();
    let trained = ["a", "b", "c", "e"].map(Symbol::from);
    let steps = optimize::Steps {
        stage: &stage,
        optimizer,
        trained: &trained,
        once: &[],
        recomputed: &[],
        n_steps: 1,
        norm: NormShown::Never,
        slots: super::slots::Slots::default(),
    };
    let graph = optimize::optimize(&graph, &steps, &[], &registry).unwrap();
    let names = of_params(&graph);
    assert_eq!((names.len(), &names[0][..], &names[1][..]), (3, "d.a", "d.b"));
    assert_ne!(names[2], "d.c");
}

#[test]
fn an_evaluation_takes_rows_as_they_lie() {
    let registry = momentum();
    let evaluated = Evaluation {
        data: SplitRef { data: "points".into(), split: "test".into() },
        batch: 2,
        mode: Mode::Eval,
        precision: MixedPrecision::F32,
        metrics: vec![("mse".into(), "loss".into())],
    };
    let graph = evaluation(&pipeline(&registry), "test", &evaluated, &points(), BATCHES, &registry).unwrap();
    assert!(graph.graph.find("order").is_none());
    let next = run(&graph.graph, &registry, 0.5, 0.0, 1);
    let loss = [2, 3].map(|row: usize| (X[row] * 0.5 - T[row]).powi(2)).iter().sum::<f64>();
    assert_close(next.outputs["mse"].float(0), loss);
    assert_close(next.state["sum.test.mse"].float(0), 2.0 * loss);
}

#[test]
fn inference_takes_plain_inputs() {
    let registry = momentum();
    let outputs = [("error".into(), "error".into())];
    let graph = inference(&pipeline(&registry), &outputs, &[("B".into(), 3)], Mode::Eval).unwrap();
    let inputs: Vec<&str> = graph.inputs().map(|(id, _)| &**graph.node(id).name()).collect();
    assert_eq!(inputs, ["x", "t", "w"]);
    assert!(graph.nodes.iter().all(|node| !matches!(node.op, NodeOp::Gather { .. })));
    let issue = inference(&pipeline(&registry), &outputs, &[], Mode::Eval).unwrap_err();
    assert!(issue.message.contains("extent `B` has no value"), "{}", issue.message);
}

/// x doubled in training, x else; also within the regions of a condition.
#[test]
fn the_stage_decides_what_calls_leave_open() {
    let mut registry = momentum();
    let form = registry.op("momentum").unwrap();
    registry.add(OpForm {
        name: "twice".into(),
        inputs: vec![InputSpec::required("x", "an operand")],
        outputs: vec!["y".into()],
        attrs: vec![AttrSpec::mode("train", "whether to double")],
        types: TypeRule::custom(|types, _| Ok(vec![types[0].clone()])),
        lower: Lower::expand(|b, call| match call.attrs.trains("train") {
            true => vec![b.scale(call.inputs[0], 2.0)],
            false => vec![call.inputs[0]],
        }),
        role: Role::Plain,
        ..OpForm::clone(&form)
    });
    let text = "
        graph modes {
          param w: f32[]
          open: f32[] = twice(w, train=none)
          on: f32[] = twice(w, train=true)
          off: f32[] = twice(w, train=false)
          yes: bool[] = .const(true)
          side: f32[] = .cond(yes, w) {
            graph doubled {
              input a: f32[]
              b: f32[] = twice(a, train=none)
              output b = b
            }
            graph plain {
              input c: f32[]
              output c = c
            }
          }
        }";
    let pipeline = Pipeline { graph: parse(text, &registry).unwrap(), ..pipeline(&registry) };
    let outputs = ["open", "on", "off", "side"].map(|name| (name.into(), name.into()));
    for (mode, expected) in [(Mode::Train, [6.0, 6.0, 3.0, 6.0]), (Mode::Eval, [3.0, 6.0, 3.0, 3.0])] {
        let graph = inference(&pipeline, &outputs, &[], mode).unwrap();
        let w = HashMap::from([("w".to_owned(), OracleTensor::new(DType::F32, &[], &[3.0]))]);
        let run = Oracle::new(&registry).run(&graph, &w, 0, 0).unwrap();
        assert_eq!(["open", "on", "off", "side"].map(|name| run.outputs[name].float(0)), expected);
        let printed = graph.to_string();
        assert_eq!(parse(&printed, &registry).unwrap().to_string(), printed);
    }
}

#[test]
fn names_given_twice_are_refused() {
    let registry = momentum();
    let twice = [("a".into(), "loss".into()), ("a".into(), "square".into())];
    let issue = inference(&pipeline(&registry), &twice, &[("B".into(), 2)], Mode::Eval).unwrap_err();
    assert_eq!((issue.code, &*issue.message), (Code::E0302, "two results are called `a`"));
    // The loss among the metrics is the loss.
    let with_loss =
        TrainStage { metrics: vec![("loss".into(), "loss".into())], ..stage(Schedule::constant(0.1), None) };
    assert_eq!(rehearse(&pipeline(&registry), &with_loss, &registry), Ok(()));
    let graph = training(&pipeline(&registry), &with_loss, &points(), BATCHES, &registry).unwrap();
    assert_eq!(graph.sums.len(), 1);
}

#[test]
fn the_first_step_without_a_loss_is_remembered() {
    let next = train(&stage(Schedule::constant(0.1), None), BATCHES, f64::NAN, 0.0, 4);
    assert_eq!(next.state["nan_step"].int(0), 5);
    for weight in [f64::INFINITY, 1e200] {
        let next = train(&stage(Schedule::constant(0.1), None), BATCHES, weight, 0.0, 4);
        assert_eq!(next.state["nan_step"].int(0), 5, "{weight}");
    }
    let next = train(&stage(Schedule::constant(0.1), None), BATCHES, 0.5, 0.0, 4);
    assert_eq!(next.state["nan_step"].int(0), 0);
}

#[test]
fn a_loss_that_is_no_scalar_is_refused() {
    let registry = momentum();
    let stage = TrainStage { loss: "error".into(), ..stage(Schedule::constant(0.1), None) };
    let issue = training(&pipeline(&registry), &stage, &points(), BATCHES, &registry).unwrap_err();
    assert_eq!(issue.message, "the loss `error` must be a float scalar, it is f32[2]");
}

#[test]
fn a_loss_without_gradient_says_where_and_why() {
    let mut registry = momentum();
    let form = registry.op("momentum").unwrap();
    let hard = OpForm {
        name: "hard".into(),
        inputs: vec![InputSpec::required("x", "an operand")],
        outputs: vec!["y".into()],
        types: TypeRule::custom(|types, _| Ok(vec![types[0].clone()])),
        lower: Lower::map(1, |x| x[0].floor()),
        grad: Grad::None { why: "steps are flat" },
        role: Role::Plain,
        ..OpForm::clone(&form)
    };
    registry.add(hard);
    let mut pipeline = pipeline(&registry);
    let text = pipeline.graph.to_string();
    let text = text.replace("= .broadcast(w, axes=[])", "= .broadcast(v, axes=[])");
    let text = text.replace("  wide:", "  v: f32[] = hard(w)\n  wide:");
    pipeline.graph = parse(&text, &registry).unwrap();
    let stage = stage(Schedule::constant(0.1), None);
    let issue = rehearse(&pipeline, &stage, &registry).unwrap_err();
    assert_eq!(issue.code, crate::diag::Code::E0115);
    assert_eq!(issue.message, "the loss has no gradient through `v`: steps are flat");
    assert_eq!(training(&pipeline, &stage, &points(), BATCHES, &registry).unwrap_err(), issue);
}

#[test]
fn names_that_a_stage_needs_for_itself_are_refused() {
    let registry = momentum();
    let stage = stage(Schedule::constant(0.1), None);
    let issue_of = |name: &str| {
        let mut pipeline = pipeline(&registry);
        let text = pipeline.graph.to_string().replace("error", name);
        pipeline.graph = parse(&text, &registry).unwrap();
        let found = rehearse(&pipeline, &stage, &registry);
        assert_eq!(training(&pipeline, &stage, &points(), BATCHES, &registry).err(), found.clone().err());
        found.map_err(|issue| (issue.code, issue.message))
    };
    for name in ["order", "points.x", "w.v"] {
        let message = format!("the stage keeps a value of its own under the name `{name}`");
        assert_eq!(issue_of(name), Err((crate::diag::Code::E0302, message)));
    }
    // The next value of a parameter is called by its parameter where that is free.
    assert_eq!(issue_of("w.next"), Ok(()));
}
