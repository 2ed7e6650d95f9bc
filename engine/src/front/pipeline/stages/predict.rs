//! `Predict` stages.

use super::super::declarations::read_path;
use super::feeds::Feeds;
use super::form::StageForm;
use super::reader::{Named, StageReader};
use crate::diag::Code;
use crate::front::fields::suggestion;
use crate::front::{Ron, entries};
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
        fields.finish();
        let (batch, mode, classes) = (batch?, mode?, classes?);
        let predict = PredictStage { batch, mode, outputs: outputs?, classes };
        let used = predict.outputs.iter().map(|(_, node)| node);
        self.check_feeds(used, &Feeds::batches(value.span, None));
        Some(predict)
    }

    /// `{"kind": "flowers.label"}`: outputs and the fields whose classes they tell.
    fn classes(&mut self, value: &Ron, outputs: Option<&[Named]>) -> Option<Vec<(Symbol, (Symbol, Symbol))>> {
        let entries = entries(value, "`classes`", self.diags)?;
        let read: Vec<_> = entries
            .into_iter()
            .map(|(output, field)| {
                let known: Vec<&str> = outputs?.iter().map(|(name, _)| &**name).collect();
                if !known.contains(&output.value) {
                    let help = suggestion(output.value, &known, self.diags);
                    let message = format!("there is no output `{}`", output.value);
                    self.diags.error(Code::E0101, output.span, message).help(help);
                    return None;
                }
                let field = read_path(field, "flowers.label", &self.pipeline.data, self.diags)?;
                Some((Symbol::from(output.value), field))
            })
            .collect();
        read.into_iter().collect()
    }
}
