//! `Repeat` stages.

use super::form::StageForm;
use super::reader::StageReader;
use crate::front::{Ron, RonKind};
use crate::ir::Symbol;
use crate::pipeline::{PartDecl, RepeatStage};

pub(super) const REPEAT: StageForm = StageForm {
    keyword: "Repeat",
    summary: "Runs stages in turn, again and again.",
    read: |reader, value| {
        let mut fields = reader.fields(value, "a `Repeat` stage")?;
        let parts = fields.required("stages", StageReader::parts);
        let times = fields.required("times", StageReader::count);
        let until = fields.optional("until", StageReader::node);
        fields.finish();
        Some(RepeatStage { parts: parts?, times: times?, until: until? }.into())
    },
};

impl StageReader<'_> {
    /// `["full", (stage: "predict", when: "is_sure")]`
    fn parts(&mut self, value: &Ron, what: &str) -> Option<Vec<PartDecl>> {
        let items = value.items(what, self.diags)?;
        let parts: Vec<Option<PartDecl>> = items.iter().map(|item| self.part(item)).collect();
        parts.into_iter().collect()
    }

    fn part(&mut self, value: &Ron) -> Option<PartDecl> {
        if let RonKind::Str(_) = value.kind {
            let name = value.word("the name of a stage", self.diags)?;
            return Some(PartDecl {
                stage: name.value.into(),
                span: Some(name.span),
                steps: None,
                when: None,
            });
        }
        let mut fields = self.fields(value, "a part")?;
        let name = |reader: &mut Self, value: &Ron, _: &str| -> Option<Symbol> {
            Some(value.word("the name of a stage", reader.diags)?.value.into())
        };
        let span = fields.place("stage");
        let stage = fields.required("stage", name);
        let steps = fields.optional("steps", StageReader::count);
        let when = fields.optional("when", StageReader::node);
        fields.finish();
        Some(PartDecl { stage: stage?, span, steps: steps?, when: when? })
    }
}
