//! `Load` stages.

use std::collections::HashSet;

use super::form::StageForm;
use super::reader::StageReader;
use crate::diag::{Code, Spanned};
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
    /// `{"w": Transposed("fc.weight"), "blocks.{i}.b": "h.{i}.bias"}`
    fn load_names(&mut self, value: &Ron, what: &str) -> Option<Vec<LoadName>> {
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
        let has_braces = |name: &str| name.contains(['{', '}']);
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
        let pattern =
            Pattern::read(written.value).or_else(|| self.refuse(written, "`{` and `}` enclose a name"))?;
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
            return self
                .refuse(written, "a name in braces stands for one part between dots: `blocks.{i}.ln.g`");
        }
        Some(names)
    }

    fn refuse<T>(&mut self, written: Spanned<&str>, help: &str) -> Option<T> {
        let message = format!("no parameter fits `{}`", written.value);
        self.error(Code::E0101, written.span, message, help);
        None
    }

    fn tensor(&mut self, value: &Ron) -> Option<String> {
        self.text(value, "the name of a tensor")
    }
}

/// A path with variables: `blocks.{i}.ln.g`.
struct Pattern<'p>(Vec<Part<'p>>);

/// One part of a pattern between dots.
enum Part<'p> {
    Word(&'p str),
    Variable(&'p str),
}

impl<'p> Pattern<'p> {
    fn read(text: &'p str) -> Option<Pattern<'p>> {
        let part = |part: &'p str| match part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => (!name.is_empty() && !name.contains(['{', '}'])).then_some(Part::Variable(name)),
            None => (!part.contains(['{', '}'])).then_some(Part::Word(part)),
        };
        text.split('.').map(part).collect::<Option<_>>().map(Pattern)
    }

    /// The parts of a path that the variables stand for, if the path fits. A variable stands for one part everywhere.
    fn parts_of<'n>(&self, path: &'n str) -> Option<Vec<(&'p str, &'n str)>> {
        let mut parts: Vec<(&str, &str)> = vec![];
        let mut path = path.split('.');
        for part in &self.0 {
            let found = path.next()?;
            match part {
                Part::Word(word) if *word == found => (),
                Part::Word(_) => return None,
                Part::Variable(name) => match parts.iter().find(|(known, _)| known == name) {
                    Some((_, earlier)) if *earlier != found => return None,
                    Some(_) => (),
                    None => parts.push((name, found)),
                },
            }
        }
        path.next().is_none().then_some(parts)
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
    (!filled.contains(['{', '}'])).then_some(filled)
}
