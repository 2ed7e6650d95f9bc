//! `Load` stages.

use super::form::StageForm;
use super::reader::StageReader;
use crate::diag::Spanned;
use crate::front::Ron;
use crate::pipeline::{LoadName, LoadStage};

pub(super) const LOAD: StageForm = StageForm {
    keyword: "Load",
    summary: "Reads parameters and state from a file.",
    read: |reader, value| {
        let mut fields = reader.choice(value, "a `Load` stage", &["path", "names"])?;
        let path = fields.required("path", StageReader::file);
        let names = fields.or("names", vec![], StageReader::load_names);
        fields.finish();
        Some(LoadStage { path: path?, names: names? }.into())
    },
};

impl StageReader<'_> {
    /// `{"w": Transposed("fc.weight"), "b": "fc.bias"}`
    fn load_names(&mut self, value: &Ron, what: &str) -> Option<Vec<LoadName>> {
        self.each(value, what, StageReader::load_name)
    }

    fn load_name(&mut self, param: Spanned<&str>, value: &Ron) -> Option<LoadName> {
        let param = self.param(param);
        let is_transposed = value.head().is_some_and(|head| head.value == "Transposed");
        let tensor = match is_transposed {
            true => {
                let mut fields = self.choice(value, "`Transposed`", &["tensor"])?;
                let tensor = fields.required("tensor", |reader, value, _| reader.tensor(value));
                fields.finish();
                tensor
            }
            false => self.tensor(value),
        };
        Some(LoadName { param: param?, tensor: tensor?, is_transposed })
    }

    fn tensor(&mut self, value: &Ron) -> Option<String> {
        self.text(value, "the name of a tensor")
    }
}
