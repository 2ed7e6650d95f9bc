//! `Save` stages.

use super::form::StageForm;
use super::reader::StageReader;
use crate::pipeline::SaveStage;

pub(super) const SAVE: StageForm = StageForm {
    keyword: "Save",
    summary: "Writes parameters and state to a checkpoint file.",
    read: |reader, value| {
        let mut fields = reader.choice(value, "a `Save` stage", &["path", "names"])?;
        let path = fields.required("path", StageReader::file);
        let names = fields.or("names", vec![], StageReader::selection);
        fields.finish();
        Some(SaveStage { path: path?, names: names? }.into())
    },
};
