//! `Generate` stages.

use super::form::StageForm;
use super::reader::{MANY, StageReader};
use crate::diag::Code;
use crate::front::fields::report_unknown;
use crate::front::{Ron, RonKind};
use crate::ir::Symbol;
use crate::pipeline::{GenerateStage, Mode, Sampling};

pub(super) const GENERATE: StageForm = StageForm {
    keyword: "Generate",
    summary: "Continues a text, a token at a time, by the logits of a language model.",
    read: |reader, value| Some(reader.generate(value)?.into()),
};

impl StageReader<'_> {
    fn generate(&mut self, value: &Ron) -> Option<GenerateStage> {
        let mut fields = self.fields(value, "a `Generate` stage")?;
        let tokens = fields.required("tokens", |reader, value, _| reader.input(value));
        let logits = fields.required("logits", StageReader::node);
        let prompts = fields.or("prompt", vec!["\n".to_owned()], StageReader::texts);
        let length = fields.or("length", 256, StageReader::count);
        let temperature = fields.or("temperature", 1.0, StageReader::not_negative);
        let top_k = fields.optional("top_k", StageReader::count);
        let top_p = fields.or("top_p", 1.0, StageReader::positive_share);
        let stop = fields.optional("stop", StageReader::text);
        let context =
            fields.or("context", 1024, |reader, value, what| value.integer(what, 1..=MANY, reader.diags));
        let cache = fields.or("cache", true, StageReader::boolean);
        let slide = fields.or("slide", true, StageReader::boolean);
        let tokenizer = fields.optional("tokenizer", StageReader::file);
        let write = fields.optional("write", StageReader::file);
        let mode = fields.or("mode", Mode::Eval, StageReader::mode);
        let precision = fields.precision();
        fields.finish();
        let sampling = Sampling { temperature: temperature?, top_k: top_k?, top_p: top_p? };
        let (prompts, length, stop, context) = (prompts?, length?, stop?, context?);
        let (cache, slide, tokenizer, write) = (cache?, slide?, tokenizer?, write?);
        Some(GenerateStage {
            tokens: tokens?,
            logits: logits?,
            prompts,
            length,
            sampling,
            stop,
            context,
            cache,
            slide,
            tokenizer,
            write,
            mode: mode?,
            precision: precision?,
        })
    }

    /// A text, or a list of texts.
    fn texts(&mut self, value: &Ron, what: &str) -> Option<Vec<String>> {
        match &value.kind {
            RonKind::List(items) => items.iter().map(|item| self.text(item, what)).collect(),
            _ => Some(vec![self.text(value, what)?]),
        }
    }

    /// An input of the pipeline.
    fn input(&mut self, value: &Ron) -> Option<Symbol> {
        let word = value.word("the name of an input", self.diags)?;
        let known: Vec<&str> = self.pipeline.inputs.iter().map(|input| &*input.name).collect();
        if known.contains(&word.value) {
            return Some(word.value.into());
        }
        report_unknown(Code::E0101, word, "there is no input", known, self.diags);
        None
    }

    /// A number above 0 and at most 1.
    fn positive_share(&mut self, value: &Ron, what: &str) -> Option<f64> {
        let share = value.number(what, self.diags)?;
        if !(share > 0.0 && share <= 1.0) {
            self.error(
                Code::E0015,
                value.span,
                format!("{what} cannot be {share}"),
                "it is above 0 and at most 1",
            );
            return None;
        }
        Some(share)
    }
}
