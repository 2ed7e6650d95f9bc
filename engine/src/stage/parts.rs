//! Stages that are parts of others.

use crate::diag::{Code, nearest};
use crate::pipeline::{PartDecl, Pipeline, Stage, StageIssue};
use std::collections::HashSet;

/// Looks for parts of stages that do not exist, that several stages have, that contain themselves, or that restore the
/// state of different steps.
///
/// # Errors
/// If there is one.
pub fn expect_parts(pipeline: &Pipeline) -> Result<(), StageIssue> {
    let mut taken = HashSet::new();
    for stage in &pipeline.stages {
        for part in stage.kind.parts() {
            expect_part(pipeline, part)?;
            if !taken.insert(&part.stage) {
                let message = format!("stage `{}` is a part twice", part.stage);
                let help = "a stage is the part of one `Repeat`, once: declare another one like it";
                return Err(StageIssue {
                    code: Code::E0302,
                    ..StageIssue::new(message, part.span).help(help)
                });
            }
        }
        // A stage is a part once, so a circle leads back to where it was entered.
        expect_no_circle(pipeline, stage)?;
        expect_one_end(pipeline, stage)?;
    }
    Ok(())
}

fn expect_part(pipeline: &Pipeline, part: &PartDecl) -> Result<(), StageIssue> {
    let Some(found) = pipeline.stage(&part.stage) else {
        let known = pipeline.stages.iter().map(|stage| &*stage.name);
        let help = match nearest(&part.stage, known.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", known.collect::<Vec<_>>().join(", ")),
        };
        let message = format!("there is no stage `{}`", part.stage);
        return Err(StageIssue { code: Code::E0212, ..StageIssue::new(message, part.span).help(help) });
    };
    if part.steps.is_some() && !found.kind.goes_on() {
        let message =
            format!("`steps` belongs to trainings, and `{}` is a `{}`", part.stage, found.kind.keyword());
        let help = "leave `steps` out";
        return Err(StageIssue { code: Code::E0212, ..StageIssue::new(message, part.span).help(help) });
    }
    Ok(())
}

fn expect_no_circle(pipeline: &Pipeline, start: &Stage) -> Result<(), StageIssue> {
    let back = |stage: &&Stage| stage.kind.parts().iter().any(|part| part.stage == start.name);
    let Some(last) = pipeline.with_parts(start).into_iter().find(back) else { return Ok(()) };
    let span = last.kind.parts().iter().find(|part| part.stage == start.name).and_then(|part| part.span);
    let message = match last.name == start.name {
        true => format!("stage `{}` is a part of itself", start.name),
        false => format!("stage `{}` is a part of `{}`, which is a part of it", start.name, last.name),
    };
    let help = "name other stages, or leave this one out";
    Err(StageIssue { code: Code::E0212, ..StageIssue::new(message, span).help(help) })
}

/// Looks for several parts that restore state. Each restores that of all parts, so the last one would win.
fn expect_one_end(pipeline: &Pipeline, stage: &Stage) -> Result<(), StageIssue> {
    let parts = pipeline.with_parts(stage);
    let mut restoring = parts.iter().filter(|part| part.kind.restores());
    let (Some(first), Some(second)) = (restoring.next(), restoring.next()) else { return Ok(()) };
    let message = format!(
        "`{}` and `{}` both restore the state of their best epoch, and a `Repeat` ends in one",
        first.name, second.name
    );
    let help = "leave out one `restore_best`, or keep both states with `checkpoint: (best: …)`";
    Err(StageIssue { code: Code::E0212, ..StageIssue::new(message, second.span).help(help) })
}
