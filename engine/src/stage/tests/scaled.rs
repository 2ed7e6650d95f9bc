//! Losses that are scaled for `f16`.

use super::*;
use crate::pipeline::LossScale;

const INTERVAL: usize = 3;

fn scaled(precision: MixedPrecision) -> (StageGraph, Registry) {
    let registry = momentum();
    let stage = TrainStage { precision, ..beside::beside(1) };
    assert_eq!(rehearse(&beside::averaging(&registry), &stage, &registry), Ok(()));
    let graph = training(&beside::averaging(&registry), &stage, &points(), BATCHES, &registry).unwrap();
    (graph, registry)
}

fn f16() -> MixedPrecision {
    MixedPrecision::F16(LossScale { start: 1 << 10, growth_interval: INTERVAL })
}

/// One step from the states of scaling: the factor, finite steps since its change, steps taken.
fn step(stage: &(StageGraph, Registry), w: f64, [factor, finite, taken]: [f64; 3]) -> OracleRun {
    let (graph, registry) = stage;
    let word = |x| OracleTensor::new(DType::I32, &[], &[x]);
    let states = HashMap::from([
        ("loss_scale".to_owned(), OracleTensor::new(DType::F32, &[], &[factor])),
        ("loss_scale.finite".to_owned(), word(finite)),
        ("loss_scale.taken".to_owned(), word(taken)),
    ]);
    run_from(&graph.graph, registry, (w, 2.0), 0, states)
}

fn scaling(run: &OracleRun) -> (f64, i64, i64) {
    let word = |name: &str| run.state[name].int(0);
    (run.state["loss_scale"].float(0), word("loss_scale.finite"), word("loss_scale.taken"))
}

#[test]
fn a_finite_step_is_that_of_a_plain_loss() {
    let stage = scaled(f16());
    let (plain, next) = (
        train(&super::stage(Schedule::constant(0.1), None), BATCHES, 0.5, 2.0, 0),
        step(&stage, 0.5, [0.0; 3]),
    );
    for state in ["w", "w.v"] {
        assert_close(next.state[state].float(0), plain.state[state].float(0));
    }
    assert_close(next.outputs["loss"].float(0), plain.outputs["loss"].float(0));
    assert_eq!(scaling(&next), (1024.0, 1, 1));
    assert_eq!(next.state["count"].int(0), 1);
    let names = stage.0.loss_scale.as_ref().unwrap();
    assert!(names.all().iter().all(|name| next.state.contains_key(&***name)));
}

#[test]
fn the_factor_doubles_after_finite_steps_in_a_row() {
    let stage = scaled(f16());
    assert_eq!(scaling(&step(&stage, 0.5, [512.0, 1.0, 7.0])), (512.0, 2, 8));
    assert_eq!(scaling(&step(&stage, 0.5, [512.0, 2.0, 7.0])), (1024.0, 0, 8));
}

/// What is updated once in a step stays, as parameters do. What follows from rows is updated with every batch.
#[test]
fn a_step_with_infinite_gradients_is_skipped() {
    let stage = scaled(f16());
    let next = step(&stage, 1e60, [512.0, 2.0, 7.0]);
    assert_eq!(scaling(&next), (256.0, 0, 7));
    let of = |name: &str| next.state[name].float(0);
    assert_eq!((of("w"), of("w.v"), of("average")), (1e60, 2.0, 0.0));
    assert_eq!((next.state["count"].int(0), next.state["seen"].int(0)), (0, 1));
    assert_close(of("mean"), X[ORDER[0] as usize] + X[ORDER[1] as usize]);
}

#[test]
fn other_precisions_keep_no_factor() {
    for precision in [MixedPrecision::F32, MixedPrecision::Bf16] {
        let (graph, _) = scaled(precision);
        assert_eq!(graph.loss_scale, None);
        assert!(graph.graph.find("loss_scale").is_none());
    }
}

/// The batches of a step read the factor, its end adapts it.
#[test]
fn several_batches_share_a_factor() {
    let registry = momentum();
    let (pipeline, stage) =
        (beside::averaging(&registry), TrainStage { precision: f16(), ..beside::beside(2) });
    let updates = |graph: &Graph| -> Vec<String> {
        graph.state.iter().map(|link| graph.nodes[link.input].name().to_string()).collect()
    };
    let batch = training(&pipeline, &stage, &points(), BATCHES, &registry).unwrap();
    assert!(batch.graph.find("loss_scale").is_some());
    assert!(!updates(&batch.graph).contains(&"loss_scale".to_owned()));
    let end = applying(&pipeline, &stage, &points(), &registry).unwrap();
    for name in ["loss_scale", "loss_scale.finite", "loss_scale.taken", "w.grad", "w"] {
        assert!(updates(&end.graph).contains(&name.to_owned()), "{name}");
    }
}
