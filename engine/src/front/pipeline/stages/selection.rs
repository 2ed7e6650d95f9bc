//! Lists of names and patterns that select parameters and states.

use std::collections::HashSet;

use super::reader::StageReader;
use crate::diag::{Code, Spanned};
use crate::front::Ron;
use crate::ir::Symbol;
use crate::pipeline::{has_braces, matches_stars, nearest_to};

impl StageReader<'_> {
    /// `["w", "memory.*", "blocks.{i}.b"]`: the selected parameters and states, in the order of the pipeline.
    pub(super) fn selection(&mut self, value: &Ron, what: &str) -> Option<Vec<Symbol>> {
        let items = value.items(what, self.diags)?;
        if items.is_empty() {
            let message = format!("{what} must be a list of at least one name, not an empty list");
            self.error(Code::E0010, value.span, message, "leave it out to name all parameters and states");
            return None;
        }
        let read: Vec<Option<Vec<Symbol>>> = items.iter().map(|item| self.selected(item)).collect();
        let read = read.into_iter().collect::<Option<Vec<_>>>()?;
        let selected: HashSet<Symbol> = read.into_iter().flatten().collect();
        let names = self.pipeline.params.iter().map(|param| &param.name);
        Some(names.filter(|name| selected.contains(*name)).cloned().collect())
    }

    /// The parameters and states that one name or pattern selects.
    fn selected(&mut self, value: &Ron) -> Option<Vec<Symbol>> {
        let written = value.word("the name of a parameter", self.diags)?;
        let pattern = match has_braces(written.value) {
            true => Some(self.pattern(written)?),
            false => None,
        };
        let is_selected = |name: &str| match &pattern {
            Some(pattern) => pattern.parts_of(name).is_some(),
            None => matches_stars(written.value, name),
        };
        let names = self.pipeline.params.iter().map(|param| &param.name);
        let selected: Vec<Symbol> = names.filter(|name| is_selected(name)).cloned().collect();
        if !selected.is_empty() {
            return Some(selected);
        }
        self.nothing_selected(written)
    }

    /// Reports a name or pattern that selects no parameter, with the nearest one. Next to faulty nodes and parameters, which
    /// have been reported, it may be sound.
    pub(super) fn nothing_selected<T>(&mut self, written: Spanned<&str>) -> Option<T> {
        if !self.is_complete() {
            return None;
        }
        if !written.value.contains(['*', '{']) {
            self.param(written);
            return None;
        }
        let pipeline = self.pipeline;
        let known = pipeline.params.iter().map(|param| &*param.name);
        let stands = "`*` stands for any run of characters, `{i}` for one part between dots";
        match nearest_to(written.value, known) {
            Some(near) => self.no_match(written, &format!("the nearest parameter is `{near}`; {stands}")),
            None => self.no_match(written, "the pipeline has no parameters"),
        }
    }
}
