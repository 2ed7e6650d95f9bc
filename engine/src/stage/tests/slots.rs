//! Names of the states of optimizers, where several stages train the same parameter.

use super::*;
use crate::pipeline::Stage;

fn named(name: &str) -> TrainStage {
    TrainStage { name: name.into(), ..stage(Schedule::constant(0.1), None) }
}

/// The pipeline with these trainings, in this order.
fn with_stages(pipeline: Pipeline, names: &[&str]) -> Pipeline {
    let stages =
        names.iter().map(|name| Stage { name: (*name).into(), kind: named(name).into(), span: None });
    Pipeline { stages: stages.collect(), ..pipeline }
}

/// The states that a training updates beside its parameter, without its own sums.
fn states(pipeline: &Pipeline, stage: &TrainStage, registry: &Registry) -> Vec<String> {
    let mut graph = training(pipeline, stage, &points(), BATCHES, registry).unwrap().graph;
    if stage.accumulate > 1 {
        graph = applying(pipeline, stage, &points(), registry).unwrap().graph;
    }
    let names = graph.state.iter().map(|link| graph.nodes[link.input].name().to_string());
    names.filter(|name| name.ends_with(".v")).collect()
}

#[test]
fn a_later_stage_puts_its_name_first() {
    let registry = momentum();
    let pipeline = with_stages(pipeline(&registry), &["one", "two", "three"]);
    assert_eq!(expect_declared(&pipeline), Ok(()));
    for accumulate in [1, 2] {
        let found = |name: &str| states(&pipeline, &TrainStage { accumulate, ..named(name) }, &registry);
        assert_eq!(found("one"), ["w.v"]);
        assert_eq!(found("two"), ["two.w.v"]);
        assert_eq!(found("three"), ["three.w.v"]);
    }
}

/// A node of the graph and a declared state have names that a stage would give.
#[test]
fn names_of_states_are_free() {
    let registry = momentum();
    let mut taken = pipeline(&registry);
    let text = taken.graph.to_string().replace("error", "two.w.v");
    let text = text.replace("  param w: f32[]\n", "  param w: f32[]\n  state w.v: f32[]\n");
    taken.graph = parse(&text, &registry).unwrap();
    let state = ParamDecl { name: "w.v".into(), kind: InputKind::State, ..taken.params[0].clone() };
    taken.params.push(state);
    let taken = with_stages(taken, &["one", "two"]);
    assert_eq!(expect_declared(&taken), Ok(()));
    assert_eq!(states(&taken, &named("one"), &registry), ["one.w.v"]);
    assert_eq!(states(&taken, &named("two"), &registry), ["two.two.w.v"]);
}

/// The name of a stage may begin the path of a parameter, so that two states would have one name.
#[test]
fn a_stage_may_be_called_like_a_layer() {
    let registry = momentum();
    let text = "
        graph fit {
          input x: f32[B]
          input t: f32[B]
          param w: f32[]
          param two.w: f32[]
          slopes: f32[B] = .broadcast(w, axes=[])
          offsets: f32[B] = .broadcast(two.w, axes=[])
          error: f32[B] = map(x, slopes, offsets, t) |a, b, c, d| a * b + c - d
          square: f32[B] = map(error) |a| a * a
          loss: f32[] = .sum(square, axes=[0])
        }";
    let mut layered = Pipeline { graph: parse(text, &registry).unwrap(), ..pipeline(&registry) };
    layered.params.push(ParamDecl { name: "two.w".into(), ..layered.params[0].clone() });
    let layered = with_stages(layered, &["one", "two"]);
    assert_eq!(expect_declared(&layered), Ok(()));
    assert_eq!(states(&layered, &named("one"), &registry), ["w.v", "two.w.v"]);
    assert_eq!(states(&layered, &named("two"), &registry), ["two.two.w.v", "two.two.two.w.v"]);
}

#[test]
fn a_training_has_the_name_of_its_stage() {
    let registry = momentum();
    let mut pipeline = with_stages(pipeline(&registry), &["one"]);
    pipeline.stages[0].name = "two".into();
    let issue = expect_declared(&pipeline).unwrap_err();
    assert_eq!(issue.message, "the `TrainStage` of stage `two` is called `one`");
}
