//! `Load` stages.

use std::collections::HashSet;

use super::form::StageForm;
use super::reader::StageReader;
use crate::diag::{Code, Spanned};
use crate::front::{Ron, RonKind};
use crate::ir::Symbol;
use crate::pipeline::{LoadName, LoadStage, has_braces};

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
    /// `{"w": Transposed("fc.weight"), "blocks.{i}.b": "h.{i}.bias"}`, or a list of parameters whose tensors have the
    /// same names: `["w", "memory.*"]`.
    fn load_names(&mut self, value: &Ron, what: &str) -> Option<Vec<LoadName>> {
        if matches!(value.kind, RonKind::List(_)) {
            let of_its_name =
                |param: Symbol| LoadName { tensor: param.to_string(), param, is_transposed: false };
            return Some(self.selection(value, what)?.into_iter().map(of_its_name).collect());
        }
        let names = self.each(value, what, StageReader::load_name)?.into_iter().flatten();
        let (mut known, mut names) = (HashSet::new(), names.collect::<Vec<_>>());
        names.retain(|name| {
            let is_new = known.insert(name.param.clone());
            if !is_new {
                let message = format!("two entries name `{}`", name.param);
                self.error(Code::E0013, value.span, message, "name each parameter once");
            }
            is_new
        });
        Some(names)
    }

    /// The tensors of one entry: of one parameter, or of all parameters that a pattern fits.
    fn load_name(&mut self, param: Spanned<&str>, value: &Ron) -> Option<Vec<LoadName>> {
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
        if !has_braces(param.value) && !tensor.as_deref().is_some_and(has_braces) {
            let param = self.param(param);
            return Some(vec![LoadName { param: param?, tensor: tensor?, is_transposed }]);
        }
        self.load_pattern(param, &tensor?, is_transposed)
    }

    fn load_pattern(
        &mut self,
        written: Spanned<&str>,
        tensor: &str,
        is_transposed: bool,
    ) -> Option<Vec<LoadName>> {
        let pattern = self.pattern(written)?;
        let mut names = vec![];
        for decl in &self.pipeline.params {
            let Some(parts) = pattern.parts_of(&decl.name) else { continue };
            let Some(tensor) = filled(tensor, &parts) else {
                let message = format!("`{tensor}` does not follow the pattern `{}`", written.value);
                self.error(Code::E0101, written.span, message, "both have the same names in braces");
                return None;
            };
            names.push(LoadName { param: decl.name.clone(), tensor, is_transposed });
        }
        if names.is_empty() {
            return self.nothing_selected(written);
        }
        Some(names)
    }

    fn tensor(&mut self, value: &Ron) -> Option<String> {
        self.text(value, "the name of a tensor")
    }
}

/// A name with its variables replaced, if they are those of the parts.
fn filled(name: &str, parts: &[(&str, &str)]) -> Option<String> {
    let mut filled = name.to_owned();
    for (variable, part) in parts {
        let variable = format!("{{{variable}}}");
        if !filled.contains(&variable) {
            return None;
        }
        filled = filled.replace(&variable, part);
    }
    (!has_braces(&filled)).then_some(filled)
}
