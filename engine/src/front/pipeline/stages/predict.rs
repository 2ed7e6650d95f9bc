//! `Predict` stages.

use super::super::declarations::read_path;
use super::feeds::Feeds;
use super::form::StageForm;
use super::reader::{Named, StageReader};
use crate::diag::Code;
use crate::front::Ron;
use crate::front::fields::report_unknown;
use crate::ir::Symbol;
use crate::pipeline::{Mode, PredictStage};

pub(super) const PREDICT: StageForm = StageForm {
    keyword: "Predict",
    summary: "Writes outputs for every row of the user's data (`engine predict`).",
    read: |reader, value| Some(reader.predict(value)?.into()),
};

impl StageReader<'_> {
    fn predict(&mut self, value: &Ron) -> Option<PredictStage> {
        let mut fields = self.fields(value, "a `Predict` stage")?;
        let batch = fields.required("batch", StageReader::count);
        let outputs = fields.required("outputs", StageReader::outputs);
        let known = outputs.as_deref();
        let classes = fields.or("classes", vec![], |reader, value, _| reader.classes(value, known));
        let mode = fields.or("mode", Mode::Eval, StageReader::mode);
        let precision = fields.precision();
        fields.finish();
        let (batch, mode, precision, classes) = (batch?, mode?, precision?, classes?);
        let predict = PredictStage { batch, mode, precision, outputs: outputs?, classes };
        let used = predict.outputs.iter().map(|(_, node)| node);
        self.check_feeds(used, &Feeds::batches(value.span, None));
        Some(predict)
    }

    /// `{"kind": "flowers.label"}`: outputs and the fields whose classes they tell.
    fn classes(&mut self, value: &Ron, outputs: Option<&[Named]>) -> Option<Vec<(Symbol, (Symbol, Symbol))>> {
        self.each(value, "`classes`", |reader, output, field| {
            let known: Vec<&str> = outputs?.iter().map(|(name, _)| &**name).collect();
            if !known.contains(&output.value) {
                report_unknown(Code::E0101, output, "there is no output", known, reader.diags);
                return None;
            }
            let field = read_path(field, "flowers.label", &reader.pipeline.data, reader.diags)?;
            Some((output.value.into(), field))
        })
    }
}
