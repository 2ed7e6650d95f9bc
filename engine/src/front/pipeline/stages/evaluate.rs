//! `Evaluate` stages.

use super::feeds::Feeds;
use super::form::StageForm;
use super::reader::StageReader;
use crate::front::Ron;
use crate::pipeline::{Evaluation, MixedPrecision, Mode};

pub(super) const EVALUATE: StageForm = StageForm {
    keyword: "Evaluate",
    summary: "Averages metrics over a split.",
    read: |reader, value| Some(reader.evaluation(value)?.into()),
};

impl StageReader<'_> {
    fn evaluation(&mut self, value: &Ron) -> Option<Evaluation> {
        self.evaluation_in(value, Some(self.pipeline.precision))
    }

    /// An evaluation, by default in this precision.
    pub(super) fn evaluation_in(
        &mut self,
        value: &Ron,
        default: Option<MixedPrecision>,
    ) -> Option<Evaluation> {
        let mut fields = self.fields(value, "an evaluation")?;
        let data = fields.required("data", StageReader::split);
        let batch = fields.required("batch", StageReader::count);
        let metrics = fields.required("metrics", StageReader::metrics);
        let mode = fields.or("mode", Mode::Eval, StageReader::mode);
        let precision = fields.or("precision", default.unwrap_or_default(), StageReader::precision);
        fields.finish();
        let evaluation =
            Evaluation { data: data?, batch: batch?, mode: mode?, precision: precision?, metrics: metrics? };
        let used = evaluation.metrics.iter().map(|(_, node)| node);
        self.check_feeds(used, &Feeds::batches(value.span, Some(&evaluation.data)));
        Some(evaluation)
    }
}
