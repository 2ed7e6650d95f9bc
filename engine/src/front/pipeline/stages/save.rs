//! `Save` stages.

use super::form::StageForm;
use super::reader::StageReader;
use crate::pipeline::SaveStage;

pub(super) const SAVE: StageForm = StageForm {
    keyword: "Save",
    summary: "Writes parameters and state to a checkpoint file.",
    read: |reader, value| {
        let mut fields = reader.choice(value, "a `Save` stage", &["path"])?;
        let path = fields.required("path", StageReader::file);
        fields.finish();
        Some(SaveStage { path: path? }.into())
    },
};
