//! Groups of parameters, and clipped elements of gradients.

use super::*;
use crate::pipeline::{GroupRule, ParamGroup};

/// A line through points: loss = Σ (x·slope + offset - t)².
fn line(registry: &Registry) -> Pipeline {
    let text = "
        graph line {
          input x: f32[B]
          input t: f32[B]
          param fit.slope: f32[]
          param fit.offset: f32[]
          param other: f32[]
          slopes: f32[B] = .broadcast(fit.slope, axes=[])
          offsets: f32[B] = .broadcast(fit.offset, axes=[])
          error: f32[B] = map(x, slopes, offsets, t) |a, b, c, d| a * b + c - d
          square: f32[B] = map(error) |a| a * a
          loss: f32[] = .sum(square, axes=[0])
        }";
    let base = pipeline(registry);
    let param = |name: &str| ParamDecl { name: name.into(), ..base.params[0].clone() };
    let params = ["fit.slope", "fit.offset", "other"].map(param).into();
    Pipeline { graph: parse(text, registry).unwrap(), params, ..base }
}

fn with_groups(groups: Vec<(&str, GroupRule)>) -> TrainStage {
    let groups = groups.into_iter().map(|(pattern, rule)| ParamGroup { params: vec![pattern.into()], rule });
    let mut stage = stage(Schedule::constant(0.1), None);
    stage.optimizer.as_mut().unwrap().groups = groups.collect();
    stage
}

fn rate(lr: f64) -> GroupRule {
    GroupRule::Trained { attrs: Attrs::default(), lr: Some(Schedule::constant(lr)) }
}

/// The first step from zero: the parameters that change, and by how much per unit of their gradients.
fn changes(stage: &TrainStage) -> Vec<(String, f64)> {
    let registry = momentum();
    let graph = training(&line(&registry), stage, &points(), BATCHES, &registry).unwrap().graph;
    let next = run(&graph, &registry, 0.0, 0.0, 0);
    let rows = [0, 1].map(|place| ORDER[place] as usize);
    let slopes = [
        ("fit.slope", rows.iter().map(|&row| -2.0 * T[row] * X[row]).sum::<f64>()),
        ("fit.offset", rows.iter().map(|&row| -2.0 * T[row]).sum::<f64>()),
    ];
    let changed = slopes.iter().filter(|(name, _)| next.state.contains_key(*name));
    changed.map(|(name, slope)| ((*name).to_owned(), -next.state[*name].float(0) / slope)).collect()
}

#[test]
fn the_first_matching_group_decides() {
    let check = |groups: Vec<(&str, GroupRule)>, expected: &[(&str, f64)]| {
        let found = changes(&with_groups(groups));
        let names = |found: &[(String, f64)]| found.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found), expected.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        found.iter().zip(expected).for_each(|(found, expected)| assert_close(found.1, expected.1));
    };
    check(vec![("*.slope", rate(0.5))], &[("fit.slope", 0.5), ("fit.offset", 0.1)]);
    check(vec![("*.slope", rate(0.5)), ("fit.*", rate(0.2))], &[("fit.slope", 0.5), ("fit.offset", 0.2)]);
    check(vec![("fit.*", rate(0.2)), ("*.slope", rate(0.5))], &[("fit.slope", 0.2), ("fit.offset", 0.2)]);
    check(vec![("*offset", GroupRule::Frozen)], &[("fit.slope", 0.1)]);
}

#[test]
fn frozen_parameters_have_neither_gradient_nor_state() {
    let registry = momentum();
    for accumulate in [1, 2] {
        let stage = TrainStage { accumulate, ..with_groups(vec![("*offset", GroupRule::Frozen)]) };
        assert_eq!(rehearse(&line(&registry), &stage, &registry), Ok(()));
        let mut graphs = vec![training(&line(&registry), &stage, &points(), BATCHES, &registry).unwrap()];
        if accumulate > 1 {
            graphs.push(applying(&line(&registry), &stage, &points(), &registry).unwrap());
        }
        for StageGraph { graph, .. } in graphs {
            for name in ["d.fit.offset", "fit.offset.v", "fit.offset.grad", "fit.offset.next"] {
                assert!(graph.find(name).is_none(), "{name}");
            }
        }
    }
    let stage = with_groups(vec![("fit.*", GroupRule::Frozen)]);
    let issue = rehearse(&line(&registry), &stage, &registry).unwrap_err();
    assert_eq!(
        (issue.code, &*issue.message),
        (Code::E0115, "no parameter has a gradient of the loss `loss`")
    );
    assert_eq!(issue.help.unwrap(), "leave a parameter of the loss out of the frozen groups");
}

#[test]
fn the_gradient_of_a_frozen_parameter_may_be_asked_for() {
    let registry = momentum();
    let stage = with_groups(vec![("*offset", GroupRule::Frozen)]);
    let asked = Watched { gradients: vec![("slope".into(), "fit.offset".into())], norm: NormShown::Never };
    let graph = training_with(&line(&registry), &stage, &points(), BATCHES, &asked, &registry).unwrap();
    let next = run(&graph.graph, &registry, 0.0, 0.0, 0);
    let expected: f64 = [0, 1].map(|place| -2.0 * T[ORDER[place] as usize]).iter().sum();
    assert_close(next.outputs["slope"].float(0), expected);
}

#[test]
fn patterns_match_parameters_that_are_trained() {
    let registry = momentum();
    let mut pipeline = line(&registry);
    let train = with_groups(vec![("fit.ofset", GroupRule::Frozen)]);
    pipeline.stages.push(crate::pipeline::Stage { name: "train".into(), kind: train.into(), span: None });
    let issue = expect_declared(&pipeline).unwrap_err();
    assert_eq!((issue.code, &*issue.message), (Code::E0101, "`fit.ofset` matches no trained parameter"));
    assert!(issue.help.unwrap().starts_with("the nearest parameter is `fit.offset`"));
}

#[test]
fn saved_names_are_those_of_parameters() {
    let registry = momentum();
    let mut pipeline = line(&registry);
    let save = crate::pipeline::SaveStage { path: "w.ckpt".into(), names: vec!["fit.ofset".into()] };
    pipeline.stages.push(crate::pipeline::Stage { name: "keep".into(), kind: save.into(), span: None });
    let issue = expect_declared(&pipeline).unwrap_err();
    let message = "stage `keep` saves `fit.ofset`, which is no parameter";
    assert_eq!((issue.code, &*issue.message), (Code::E0101, message));
    assert_eq!(issue.help.unwrap(), "did you mean `fit.offset`?");
}

#[test]
fn elements_of_gradients_are_clamped() {
    let (_, slope) = by_hand(&[0, 1], 0.5);
    for most in [1.0, 1e6] {
        let clipped = TrainStage { clip_value: Some(most), ..stage(Schedule::constant(0.1), None) };
        let next = train(&clipped, BATCHES, 0.5, 0.0, 0);
        assert_close(next.state["w.v"].float(0), slope.clamp(-most, most));
        let next = train(&clipped, BATCHES, f64::NAN, 0.0, 0);
        assert!(next.state["w.v"].float(0).is_nan());
    }
    let both = TrainStage { clip_value: Some(1.0), ..stage(Schedule::constant(0.1), Some(1.0)) };
    let registry = momentum();
    let mut pipeline = pipeline(&registry);
    pipeline.stages.push(crate::pipeline::Stage { name: "train".into(), kind: both.into(), span: None });
    let issue = expect_declared(&pipeline).unwrap_err();
    assert_eq!(issue.code, Code::E0206);
    assert!(issue.message.starts_with("stage `train` clips gradients by value and by norm"));
}

/// The norm before clipping, of one batch and of several.
#[test]
fn the_norm_of_the_gradients_may_be_asked_for() {
    let registry = momentum();
    let watched = Watched { gradients: vec![], norm: NormShown::IfClipped };
    // At zero, the gradient of a row is -2·t·x by the slope and -2·t by the offset.
    let rows = ORDER[..2].iter().map(|&row| row as usize);
    let [slope, offset] = rows.fold([0.0, 0.0], |[s, o], row| [s - 2.0 * T[row] * X[row], o - 2.0 * T[row]]);
    let expected = slope.hypot(offset);
    for most in [1e-3, f64::INFINITY] {
        let stage = TrainStage { clip_norm: Some(most), ..with_groups(vec![]) };
        let graph = training_with(&line(&registry), &stage, &points(), BATCHES, &watched, &registry).unwrap();
        assert_close(run(&graph.graph, &registry, 0.0, 0.0, 0).outputs[GRAD_NORM].float(0), expected);

        let stage = TrainStage { accumulate: 2, ..stage };
        let graph = applying_with(&line(&registry), &stage, &points(), &watched, &registry).unwrap().graph;
        assert!(graph.outputs.iter().any(|(name, _)| &**name == GRAD_NORM));
    }
    let stage = with_groups(vec![]);
    let graph = training_with(&line(&registry), &stage, &points(), BATCHES, &watched, &registry).unwrap();
    assert!(graph.graph.outputs.iter().all(|(name, _)| &**name != GRAD_NORM));
}
