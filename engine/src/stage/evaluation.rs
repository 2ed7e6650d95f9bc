//! `Evaluate` stages as graphs.

use super::declared::expect_data;
use super::{Rows, SplitShape, StageGraph, StageIssue, Wanted, add_sums, rows, select};
use crate::ir::{Builder, Level, Symbol};
use crate::op::Registry;
use crate::pass::sound;
use crate::pipeline::{Evaluation, Pipeline, StageKind};

impl StageKind for Evaluation {
    fn keyword(&self) -> &'static str {
        "Evaluate"
    }

    fn expect_declared(&self, _: &str, pipeline: &Pipeline) -> Result<(), StageIssue> {
        expect_data(pipeline, &self.data.data)
    }

    fn rehearse(&self, name: &str, pipeline: &Pipeline, registry: &Registry) -> Result<(), StageIssue> {
        let wanted =
            Wanted { outputs: &self.metrics, state: &[], mode: self.mode, precision: self.precision };
        let data = &self.data.data;
        let bound = select(pipeline, &wanted, &rows::extents(pipeline, data, self.batch)?)?;
        rows::expect_free_names(pipeline, &bound, data)?;
        add_sums(&mut Builder::new(bound, registry), name, &self.metrics, self.batch).map(drop)
    }

    fn measured(&self, metric: &str) -> Option<&Symbol> {
        self.metrics.iter().find(|(name, _)| **name == *metric).map(|(_, node)| node)
    }
}

/// One step of evaluation on some rows of a split, as they lie. `scope` tells the sums of several evaluations apart.
///
/// # Errors
/// As for [`super::training()`].
pub fn evaluation(
    pipeline: &Pipeline,
    scope: &str,
    evaluation: &Evaluation,
    data: &SplitShape,
    rows: Rows,
    registry: &Registry,
) -> Result<StageGraph, StageIssue> {
    let wanted = Wanted {
        outputs: &evaluation.metrics,
        state: &[],
        mode: evaluation.mode,
        precision: evaluation.precision,
    };
    let bound = select(pipeline, &wanted, &rows::extents(pipeline, &data.data, rows.per_step())?)?;
    let fed = sound("feed", Level::Bound, rows::feed(pipeline, &bound, data, rows, (false, 1), registry)?);
    let mut builder = Builder::new(fed, registry);
    let sums = add_sums(&mut builder, scope, &evaluation.metrics, rows.per_step())?;
    let graph = sound("measure", Level::Bound, builder.graph.pruned());
    Ok(StageGraph { graph, sums, nan_step: None, loss_scale: None })
}
