//! State that a stage updates beside the parameters of its optimizer.

use super::*;

/// The pipeline with an average of its parameter, a running mean of the inputs, and counters that may be read by it.
pub fn averaging(registry: &Registry) -> Pipeline {
    let text = "
        graph fit {
          input x: f32[B]
          input t: f32[B]
          param w: f32[]
          state average: f32[]
          state mean: f32[]
          state seen: i32[]
          state count: i32[]
          wide: f32[B] = .broadcast(w, axes=[])
          shift: f32[] = map(mean) |a| a * 0.0
          shifts: f32[B] = .broadcast(shift, axes=[])
          error: f32[B] = map(x, wide, t, shifts) |a, b, c, d| a * b - c + d
          square: f32[B] = map(error) |a| a * a
          loss: f32[] = .sum(square, axes=[0])
          average_next: f32[] = map(average, w) |a, b| a * 0.9 + b * 0.1
          total: f32[] = .sum(x, axes=[0])
          many: f32[] = .cast(seen, dtype=f32)
          mean_next: f32[] = map(mean, total, many) |a, b, n| a + (b - a) / (n + 1.0)
          seen_next: i32[] = map(seen) |a| a + 1
          count_next: i32[] = map(count) |a| a + 1
        }";
    let mut pipeline = Pipeline { graph: parse(text, registry).unwrap(), ..pipeline(registry) };
    for (name, dtype) in
        [("average", DType::F32), ("mean", DType::F32), ("seen", DType::I32), ("count", DType::I32)]
    {
        let (ty, init) = (Type::scalar(dtype), Init::Zeros);
        pipeline.params.push(ParamDecl { name: name.into(), kind: InputKind::State, ty, init, span: None });
    }
    pipeline
}

fn links(states: &[&str]) -> Vec<(Symbol, Symbol)> {
    states.iter().map(|state| (Symbol::from(*state), Symbol::from(format!("{state}_next")))).collect()
}

const STATES: [&str; 4] = ["average", "mean", "seen", "count"];

pub fn beside(accumulate: usize) -> TrainStage {
    TrainStage { accumulate, state: links(&STATES), ..stage(Schedule::constant(0.1), None) }
}

/// Names of the states that a graph updates, the stage's own left out.
fn updated(graph: &Graph) -> Vec<&str> {
    let names = graph.state.iter().map(|link| &**graph.nodes[link.input].name());
    names.filter(|name| STATES.contains(name)).collect()
}

#[test]
fn states_see_the_parameters_before_the_step() {
    let registry = momentum();
    let pipeline = averaging(&registry);
    assert_eq!(rehearse(&pipeline, &beside(1), &registry), Ok(()));
    let graph = training(&pipeline, &beside(1), &points(), BATCHES, &registry).unwrap().graph;
    let next = run(&graph, &registry, 0.5, 2.0, 0);
    let (_, slope) = by_hand(&[0, 1], 0.5);
    assert_close(next.state["w"].float(0), 0.5 - 0.1 * (2.0 + slope));
    assert_close(next.state["average"].float(0), 0.05);
    assert_close(next.state["mean"].float(0), X[ORDER[0] as usize] + X[ORDER[1] as usize]);
    assert_eq!((next.state["seen"].int(0), next.state["count"].int(0)), (1, 1));
}

/// A running mean is that of all batches, and so is the number of batches that it reads. An average of parameters and a
/// counter of its own change with the parameters.
#[test]
fn several_batches_update_what_depends_on_rows() {
    let registry = momentum();
    let pipeline = averaging(&registry);
    assert_eq!(rehearse(&pipeline, &beside(2), &registry), Ok(()));
    let graph = training(&pipeline, &beside(2), &points(), BATCHES, &registry).unwrap().graph;
    assert_eq!(updated(&graph), ["mean", "seen"]);
    let graph = applying(&pipeline, &beside(2), &points(), &registry).unwrap().graph;
    assert_eq!(updated(&graph), ["average", "count"]);
    let grad = OracleTensor::new(DType::F32, &[], &[3.0]);
    let values = HashMap::from([
        ("w".to_owned(), OracleTensor::new(DType::F32, &[], &[0.5])),
        ("w.grad".to_owned(), grad),
    ]);
    let next = Oracle::new(&registry).run(&graph, &values, 0, 0).unwrap();
    assert_close(next.state["w"].float(0), 0.5 - 0.1 * 3.0);
    assert_close(next.state["average"].float(0), 0.05);
    assert_eq!((next.state["count"].int(0), next.state["w.grad"].float(0)), (1, 0.0));
}

/// The average reads the mean of all batches, so it changes with every batch, too.
#[test]
fn several_batches_update_what_reads_a_state_of_theirs() {
    let registry = momentum();
    let pipeline = averaging(&registry);
    let state = [links(&["mean", "seen", "count"]), vec![("average".into(), "shift".into())]].concat();
    let train = TrainStage { state, ..beside(2) };
    assert_eq!(rehearse(&pipeline, &train, &registry), Ok(()));
    let graph = training(&pipeline, &train, &points(), BATCHES, &registry).unwrap().graph;
    assert_eq!(updated(&graph), ["mean", "seen", "average"]);
    let graph = applying(&pipeline, &train, &points(), &registry).unwrap().graph;
    assert_eq!(updated(&graph), ["count"]);
}

#[test]
fn a_pipeline_brings_updates_along() {
    let registry = momentum();
    let pipeline = Pipeline { updates: links(&["mean", "count"]), ..averaging(&registry) };
    assert_eq!(expect_declared(&pipeline), Ok(()));
    let of = |stage: &TrainStage| {
        let graph = training(&pipeline, stage, &points(), BATCHES, &registry).unwrap().graph;
        updated(&graph).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = stage(Schedule::constant(0.1), None);
    // The loss reads `mean`, and no `count`.
    assert_eq!(of(&plain), ["mean"]);
    assert_eq!(of(&TrainStage { mode: Mode::Eval, ..plain.clone() }), [""; 0]);
    assert_eq!(of(&TrainStage { state: links(&["average"]), ..plain.clone() }), ["average", "mean"]);
    let by_hand = TrainStage { optimizer: None, state: links(&["count"]), ..plain.clone() };
    assert_eq!(of(&by_hand), ["count", "mean"]);

    // A stage's own update takes precedence.
    let own = TrainStage { state: vec![("mean".into(), "total".into())], ..plain };
    let graph = training(&pipeline, &own, &points(), BATCHES, &registry).unwrap().graph;
    let mean = run(&graph, &registry, 0.5, 0.0, 0).state["mean"].float(0);
    assert_close(mean, X[ORDER[0] as usize] + X[ORDER[1] as usize]);
    assert_eq!(updated(&graph), ["mean"]);
}

#[test]
fn parameters_are_not_updated_beside_an_optimizer() {
    let registry = momentum();
    let message = "`w` is no state, so it cannot be updated beside an optimizer";
    let expected = Err((Code::E0206, message.to_owned()));
    let said = |pipeline: &Pipeline| expect_declared(pipeline).map_err(|issue| (issue.code, issue.message));
    let update = vec![("w".into(), "average_next".into())];
    let updates = Pipeline { updates: update.clone(), ..averaging(&registry) };
    assert_eq!(said(&updates), expected);
    let train = TrainStage { state: update, ..stage(Schedule::constant(0.1), None) };
    let train = crate::pipeline::Stage { name: "train".into(), kind: train.into(), span: None };
    assert_eq!(said(&Pipeline { stages: vec![train], ..averaging(&registry) }), expected);
    let unknown = Pipeline { updates: vec![("avrage".into(), "loss".into())], ..averaging(&registry) };
    assert_eq!(said(&unknown), Err((Code::E0206, "`avrage` is no parameter".to_owned())));
}
