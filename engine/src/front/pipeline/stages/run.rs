//! `Run` stages.

use super::feeds::{Feeds, open_extents};
use super::form::StageForm;
use super::given::read_given;
use super::reader::{MANY, StageReader};
use crate::diag::{Code, Spanned};
use crate::front::Ron;
use crate::front::fields::report_unknown;
use crate::ir::Symbol;
use crate::pipeline::{Given, Mode, RunStage};
use std::collections::BTreeSet;

pub(super) const RUN: StageForm = StageForm {
    keyword: "Run",
    summary: "Runs the graph on its inputs and reports outputs.",
    read: |reader, value| Some(reader.run(value)?.into()),
};

impl StageReader<'_> {
    fn run(&mut self, value: &Ron) -> Option<RunStage> {
        let mut fields = self.fields(value, "a `Run` stage")?;
        let steps = fields.or("steps", 1, StageReader::count);
        let until = fields.optional("until", StageReader::node);
        let loss = fields.optional("loss", StageReader::loss);
        let has_loss = loss != Some(None);
        let read = |reader: &mut StageReader, value: &Ron, _: &str| reader.run_outputs(value, has_loss);
        let outputs = fields.or("outputs", (vec![], vec![]), read);
        let state = fields.or("state", vec![], StageReader::state);
        let dims = fields.or("dims", vec![], StageReader::dims);
        let inputs = fields.or("inputs", vec![], StageReader::inputs);
        let mode = fields.or("mode", Mode::Eval, StageReader::mode);
        let precision = fields.precision();
        fields.finish();
        let (outputs, gradients) = outputs?;
        let (steps, until, mode, precision, loss) = (steps?, until?, mode?, precision?, loss?);
        let (state, dims, inputs) = (state?, dims?, inputs?);
        let run = RunStage { steps, until, mode, precision, outputs, gradients, loss, state, dims, inputs };
        let used = run.outputs.iter().chain(&run.gradients).chain(&run.state).map(|(_, node)| node);
        let used = used.chain(&run.loss).chain(&run.until);
        self.check_feeds(used, &Feeds { stage: value.span, split: None, in_batches: false, dims: &run.dims });
        Some(run)
    }

    /// `{"B": 32}`: extents that the graph leaves open.
    fn dims(&mut self, value: &Ron, what: &str) -> Option<Vec<(Symbol, usize)>> {
        let open = open_extents(&self.pipeline.graph);
        let is_complete = self.is_complete();
        self.each(value, what, |reader, name, value| {
            let extent = value.integer("an extent", 0..=MANY, reader.diags)?;
            if is_complete && !open.contains(name.value) {
                reader.no_open_extent(name, &open);
                return None;
            }
            Some((name.value.into(), extent))
        })
    }

    fn no_open_extent(&mut self, name: Spanned<&str>, open: &BTreeSet<Symbol>) {
        const FACT: &str = "the graph has no open extent";
        if self.dims.contains_key(name.value) {
            let message = format!("{FACT} `{}`", name.value);
            self.error(Code::E0101, name.span, message, "the pipeline's `dims` settle it: leave it out here");
            return;
        }
        report_unknown(Code::E0101, name, FACT, open.iter().map(|extent| &**extent), self.diags);
    }

    /// `{"x": "values.npy", "y": [1, 2, 3]}`
    fn inputs(&mut self, value: &Ron, what: &str) -> Option<Vec<(Symbol, Given)>> {
        let known: Vec<&str> = self.pipeline.inputs.iter().map(|input| &*input.name).collect();
        self.each(value, what, |reader, input, value| {
            if !known.contains(&input.value) {
                report_unknown(Code::E0101, input, "there is no input", known.iter().copied(), reader.diags);
                return None;
            }
            Some((input.value.into(), read_given(value, reader.diags)?))
        })
    }
}
