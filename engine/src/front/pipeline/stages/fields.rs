//! The fields of a stage, each read by a method of the reader.

use super::reader::StageReader;
use crate::diag::{Span, Spanned};
use crate::front::{Fields, Ron};
use crate::pipeline::MixedPrecision;

/// The fields of a group, to be read one by one. [`StageFields::finish`] must come last.
///
/// A field is read by a function that gets the value, and the field's name in backticks for messages.
pub struct StageFields<'f, 'a> {
    fields: Fields<'f>,
    /// For values that depend on other fields.
    pub reader: &'f mut StageReader<'a>,
}

impl<'a> StageReader<'a> {
    /// The fields of a group: `Train(epochs: 5)`. `what` is the group in messages, with its article.
    pub fn fields<'r>(&'r mut self, value: &'r Ron, what: &'r str) -> Option<StageFields<'r, 'a>> {
        Some(StageFields { fields: Fields::of(value, what, self.diags)?, reader: self })
    }

    /// The arguments of a choice: `Save("model.ckpt")`. `order` names arguments that stand without names.
    pub fn choice<'r>(
        &'r mut self,
        value: &'r Ron,
        what: &'r str,
        order: &[&'static str],
    ) -> Option<StageFields<'r, 'a>> {
        Some(StageFields { fields: Fields::of_choice(value, what, order, self.diags)?, reader: self })
    }
}

impl<'f, 'a> StageFields<'f, 'a> {
    /// The value of a field that must be there.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut StageReader<'a>, &'f Ron, &str) -> Option<T>,
    ) -> Option<T> {
        let value = self.fields.required(name)?;
        read(self.reader, value, &format!("`{name}`"))
    }

    /// The value of a field, or `default` if it is left out.
    pub fn or<T>(
        &mut self,
        name: &'static str,
        default: T,
        read: impl FnOnce(&mut StageReader<'a>, &'f Ron, &str) -> Option<T>,
    ) -> Option<T> {
        self.optional(name, read).map(|given| given.unwrap_or(default))
    }

    /// The value of a field, if it is given: `Some(None)` if it is left out, `None` if it does not fit.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut StageReader<'a>, &'f Ron, &str) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.fields.optional(name) {
            Some(value) => read(self.reader, value, &format!("`{name}`")).map(Some),
            None => Some(None),
        }
    }

    /// The field `precision`, by default that of the pipeline.
    pub fn precision(&mut self) -> Option<MixedPrecision> {
        let default = self.reader.pipeline().precision;
        self.or("precision", default, StageReader::precision)
    }

    /// The place of a field's value, if it is given.
    pub fn place(&mut self, name: &'static str) -> Option<Span> {
        self.fields.optional(name).map(|value| value.span)
    }

    /// The fields that have not been read.
    pub(super) fn rest(&mut self) -> Vec<(Spanned<&'f str>, &'f Ron)> {
        self.fields.rest()
    }

    /// Reports unknown fields, and required ones that are missing.
    pub fn finish(self) {
        self.fields.finish(self.reader.diags);
    }
}
