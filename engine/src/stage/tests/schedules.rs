//! Schedules beside those of PyTorch, recorded by `tests/examples/schedules.py`.

use super::*;
use crate::pipeline::{Goal, ScheduleForm};
use serde_json::Value as Json;

fn recorded(name: &str) -> Vec<Json> {
    let recorded = include_str!("../../../../tests/examples/schedules.json");
    serde_json::from_str::<Json>(recorded).unwrap()[name].as_array().unwrap().clone()
}

/// Numbers, of which null is NaN.
fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|number| number.as_f64().unwrap_or(f64::NAN)).collect()
}

fn made(name: &str, case: &Json) -> Schedule {
    let registry = Registry::new();
    let form: &ScheduleForm = registry.form(name).unwrap();
    let settings = numbers(&case["settings"]);
    assert_eq!(settings.len(), form.settings.len());
    Schedule::new(form, settings)
}

#[test]
fn one_cycle_is_that_of_pytorch() {
    let registry = Registry::new();
    for case in recorded("one_cycle") {
        let (schedule, expected) = (made("OneCycle", &case), numbers(&case["rates"]));
        let mut b = Builder::new(Graph::new("rate"), &registry);
        let rate = rates::rate(&mut b, ("lr", &schedule), expected.len(), Mode::Train).unwrap();
        b.graph.outputs.push(("rate".into(), rate));
        for (step, expected) in expected.iter().enumerate() {
            let run = Oracle::new(&registry).run(&b.graph, &HashMap::new(), 0, step as i64);
            assert_close(run.unwrap().outputs["rate"].float(0), *expected);
        }
    }
}

#[test]
fn plateaus_are_those_of_pytorch() {
    for case in recorded("plateau") {
        let schedule = made("Plateau", &case);
        let rule = schedule.metric_rate().unwrap();
        let goal = if case["mode"] == "min" { Goal::Min } else { Goal::Max };
        let mut kept = (rule.begin)(&schedule);
        assert_eq!(kept[0], numbers(&case["settings"])[0]);
        for (metric, expected) in numbers(&case["metrics"]).iter().zip(numbers(&case["rates"])) {
            (rule.next)(&schedule, &mut kept, *metric, goal);
            assert!((kept[0] - expected).abs() <= 1e-12 * expected, "{} instead of {expected}", kept[0]);
        }
    }
}

/// The rate of a metric is a state that the session writes; the graph reads it alone.
#[test]
fn a_plateau_is_a_state_of_the_step() {
    let registry = momentum();
    let plateau = schedule("Plateau", [1.0, 0.1, 0.0]);
    let stage = TrainStage { accumulate: 1, ..stage(plateau, None) };
    let graph = training(&pipeline(&registry), &stage, &points(), BATCHES, &registry).unwrap().graph;
    let lr = graph.find("lr").unwrap();
    assert_eq!(graph.node(lr.node).op, NodeOp::Input(InputKind::State));
    assert!(graph.state.iter().all(|link| link.input != lr.node));
    let graph = applying(&pipeline(&registry), &stage, &points(), &registry).unwrap().graph;
    assert!(graph.find("lr").is_some());
}

/// The rate of a step alone is the rate that a step of training takes.
#[test]
fn a_rate_is_known_without_a_step() {
    let registry = momentum();
    let cosine = schedule("Cosine", [1.0, 0.1, 2.0]);
    let graph = rate_of_step(&cosine, 6, Mode::Train, &registry).unwrap();
    let rate = |step| {
        let outputs = Oracle::new(&registry).run(&graph, &HashMap::new(), 0, step).unwrap().outputs;
        outputs["lr"].float(0)
    };
    let stage = stage(cosine, None);
    let training = training(&pipeline(&registry), &stage, &points(), BATCHES, &registry).unwrap().graph;
    // The whole batches of two epochs.
    for step in [0, 1, 3, 4] {
        // From w = 0 and v = 0, a step takes the rate times the gradient away.
        let next = run(&training, &registry, 0.0, 0.0, step).state;
        assert_close(next["w"].float(0), -rate(step) * next["w.v"].float(0));
    }
    let plateau = schedule("Plateau", [1.0, 0.1, 0.0]);
    assert!(rate_of_step(&plateau, 6, Mode::Train, &registry).is_none());
}
