//! State that stages update by hand, and `Run` stages.

use super::*;

/// The pipeline with the updates of its parameter and of a state written as nodes: w' = w - error₀, n' = n + 1, and the
/// loss kept for later stages.
fn by_hand_pipeline(registry: &Registry) -> Pipeline {
    let text = "
        graph fit {
          input x: f32[B]
          input t: f32[B]
          param w: f32[]
          state n: i32[]
          state last: f32[]
          wide: f32[B] = .broadcast(w, axes=[])
          error: f32[B] = map(x, wide, t) |a, b, c| a * b - c
          square: f32[B] = map(error) |a| a * a
          loss: f32[] = .sum(square, axes=[0])
          mistake: f32[] = .sum(error, axes=[0])
          w_next: f32[] = map(w, mistake) |a, b| a - b * 0.1
          n_next: i32[] = map(n) |a| a + 1
        }";
    let mut pipeline = Pipeline { graph: parse(text, registry).unwrap(), ..pipeline(registry) };
    for (name, dtype) in [("n", DType::I32), ("last", DType::F32)] {
        let (ty, init) = (Type::scalar(dtype), Init::Zeros);
        let kind = InputKind::State;
        pipeline.params.push(ParamDecl { name: name.into(), kind, ty, init, span: None });
    }
    pipeline
}

fn links() -> Vec<(Symbol, Symbol)> {
    [("w", "w_next"), ("n", "n_next"), ("last", "loss")].map(|(a, b)| (a.into(), b.into())).into()
}

#[test]
fn updates_by_hand_take_the_place_of_an_optimizer() {
    let registry = momentum();
    let stage = TrainStage { optimizer: None, state: links(), ..stage(Schedule::constant(0.1), None) };
    let pipeline = by_hand_pipeline(&registry);
    assert_eq!(rehearse(&pipeline, &stage, &registry), Ok(()));
    let graph = training(&pipeline, &stage, &points(), BATCHES, &registry).unwrap().graph;
    let next = run(&graph, &registry, 0.5, 0.0, 1);
    let rows = [2, 3].map(|place| ORDER[place] as usize);
    let mistake: f64 = rows.iter().map(|&row| X[row] * 0.5 - T[row]).sum();
    assert_close(next.state["w"].float(0), 0.5 - 0.1 * mistake);
    assert_eq!(next.state["n"].int(0), 1);
    // This stage does not read `last`, but another stage may.
    assert_close(next.state["last"].float(0), by_hand(&[2, 3], 0.5).0);
}

#[test]
fn a_run_stage_carries_state_and_binds_its_extents() {
    let registry = momentum();
    let stage = RunStage {
        steps: 3,
        until: None,
        mode: Mode::Eval,
        precision: MixedPrecision::F32,
        outputs: vec![("mistake".into(), "mistake".into())],
        gradients: vec![],
        loss: None,
        state: links(),
        dims: vec![("B".into(), 2)],
        inputs: vec![],
    };
    let graph = running(&by_hand_pipeline(&registry), &stage, &registry).unwrap();
    let pair = |x: [f64; 2]| OracleTensor::new(DType::F32, &[2], &x);
    let scalar = |x: f64| OracleTensor::new(DType::F32, &[], &[x]);
    let mut inputs = HashMap::from([
        ("x".to_owned(), pair([1.0, 2.0])),
        ("t".to_owned(), pair([2.0, 1.0])),
        ("w".to_owned(), scalar(0.5)),
    ]);
    let mut w = 0.5;
    for step in 0..3 {
        let run = Oracle::new(&registry).run(&graph, &inputs, 0, step).unwrap();
        let errors = [w - 2.0, 2.0 * w - 1.0];
        assert_close(run.outputs["mistake"].float(0), errors[0] + errors[1]);
        assert_close(run.state["last"].float(0), errors[0] * errors[0] + errors[1] * errors[1]);
        assert_eq!(run.state["n"].int(0), step + 1);
        w -= 0.1 * (errors[0] + errors[1]);
        assert_close(run.state["w"].float(0), w);
        inputs.extend(run.state.into_iter().map(|(name, value)| (name.to_string(), value)));
    }
    let open = RunStage { dims: vec![], ..stage };
    let issue = running(&by_hand_pipeline(&registry), &open, &registry).unwrap_err();
    assert!(issue.message.contains("extent `B` has no value"), "{}", issue.message);
}

#[test]
fn a_run_stage_gives_gradients_by_parameters_inputs_and_nodes() {
    let registry = momentum();
    let by = |node: &str| (format!("slope of {node}").into(), node.into());
    let stage = RunStage {
        steps: 1,
        until: None,
        mode: Mode::Eval,
        precision: MixedPrecision::F32,
        outputs: vec![("mistake".into(), "mistake".into())],
        gradients: ["w", "x", "error"].map(by).to_vec(),
        loss: Some("loss".into()),
        state: links(),
        dims: vec![("B".into(), 2)],
        inputs: vec![],
    };
    let graph = running(&by_hand_pipeline(&registry), &stage, &registry).unwrap();
    let pair = |x: [f64; 2]| OracleTensor::new(DType::F32, &[2], &x);
    let inputs = HashMap::from([
        ("x".to_owned(), pair([1.0, 2.0])),
        ("t".to_owned(), pair([2.0, 1.0])),
        ("w".to_owned(), OracleTensor::new(DType::F32, &[], &[0.5])),
    ]);
    let run = Oracle::new(&registry).run(&graph, &inputs, 0, 0).unwrap();
    // The loss is the sum of (w x - t)².
    assert_eq!(run.outputs["slope of w"].to_f64(), [-3.0]);
    assert_eq!(run.outputs["slope of x"].to_f64(), [-1.5, 0.0]);
    assert_eq!(run.outputs["slope of error"].to_f64(), [-3.0, 0.0]);
    assert_eq!(graph.outputs.len(), 4);
    assert!(graph.find("d.x").is_some());
    let unrelated = RunStage { gradients: vec![by("n")], ..stage };
    let issue = running(&by_hand_pipeline(&registry), &unrelated, &registry).unwrap_err();
    assert_eq!((issue.code, &*issue.message), (Code::E0115, "`n` is i32[], only floats have gradients"));
}
