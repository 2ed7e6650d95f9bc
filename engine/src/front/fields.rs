//! Typed reading of RON values: fields by name, numbers and strings.
//!
//! A function that finds a value of another kind reports it and returns `None`. It does not report a value that the
//! parser has reported already.

use super::{Ron, RonKind};
use crate::diag::{Code, Diagnostics, Span, Spanned, nearest};
use crate::ir::Literal;
use crate::text::Text;
use std::collections::HashMap;

/// Floats below this one hold all whole numbers.
const MOST_EXACT: f64 = 9_007_199_254_740_992.0;

/// The fields of a group or map, to be taken one by one. [`Fields::finish`] must come last.
#[derive(Debug)]
pub struct Fields<'a> {
    /// Place of the whole.
    pub span: Span,
    what: &'a str,
    entries: Vec<(Spanned<&'a str>, &'a Ron)>,
    /// The known fields: those that were asked for.
    asked: Vec<&'static str>,
    /// Required fields that the file lacks.
    missing: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The fields of `(a: 1)`, `Word(a: 1)`, `{"a": 1}` or `()`. `what` is the whole in messages, with its article:
    /// `a node`.
    pub fn of(value: &'a Ron, what: &'a str, diags: &mut Diagnostics) -> Option<Fields<'a>> {
        let entries = entries(value, what, diags)?;
        Some(Fields { span: value.span, what, entries, asked: vec![], missing: vec![] })
    }

    /// The arguments of a choice such as `Uniform(-1, 1)` or `Uniform(low: -1, high: 1)`; `order` names them where
    /// they stand without names. A word alone has none.
    pub fn of_choice(
        value: &'a Ron,
        what: &'a str,
        order: &[&'static str],
        diags: &mut Diagnostics,
    ) -> Option<Fields<'a>> {
        let fields =
            |entries| Some(Fields { span: value.span, what, entries, asked: vec![], missing: vec![] });
        match &value.kind {
            RonKind::Name(_) => fields(vec![]),
            RonKind::Tuple { items, .. } if items.len() <= order.len() => fields(
                order.iter().zip(items).map(|(&name, item)| (Spanned::new(item.span, name), item)).collect(),
            ),
            RonKind::Tuple { items, .. } => {
                let too_many = items[order.len()].span;
                let message = format!("{what} takes {} values at most", order.len());
                diags.error(Code::E0012, too_many, message).help(match order {
                    [] => "leave out the parentheses".to_owned(),
                    _ => format!("it takes `({})`", order.join(", ")),
                });
                None
            }
            _ => Fields::of(value, what, diags),
        }
    }

    /// The value of a field that must be there; of `Some(x)`, the x. [`Fields::finish`] reports its absence.
    pub fn required(&mut self, name: &'static str) -> Option<&'a Ron> {
        let found = self.get(name);
        if found.is_none() {
            self.missing.push(name);
        }
        found.map(|value| value.inner().unwrap_or(value))
    }

    /// The value of a field, if it is given and not `None`; of `Some(x)`, the x.
    pub fn optional(&mut self, name: &'static str) -> Option<&'a Ron> {
        self.get(name)?.inner()
    }

    fn get(&mut self, name: &'static str) -> Option<&'a Ron> {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
        self.entries.iter().find(|(written, _)| written.value == name).map(|(_, value)| *value)
    }

    /// All fields that were not read yet. The caller reports unknown ones.
    pub fn rest(&mut self) -> Vec<(Spanned<&'a str>, &'a Ron)> {
        let (known, rest) = std::mem::take(&mut self.entries)
            .into_iter()
            .partition(|(written, _)| self.asked.contains(&written.value));
        self.entries = known;
        rest
    }

    /// Reports the fields that were not read, and the required ones that are missing.
    pub fn finish(self, diags: &mut Diagnostics) {
        let unknown = || self.entries.iter().filter(|(written, _)| !self.asked.contains(&written.value));
        for name in &self.missing {
            // A misspelling of it is reported below, and once is enough.
            if !unknown().any(|(written, _)| nearest(written, [*name]).is_some()) {
                diags
                    .error(Code::E0011, self.span, format!("{} needs the field `{name}`", self.what))
                    .help(format!("add `{name}: …`"));
            }
        }
        for (written, _) in unknown() {
            let what = format!("{} has no field", self.what);
            report_unknown(Code::E0012, *written, &what, self.asked.iter().copied(), diags);
        }
    }
}

/// Names and values of a group of fields or of a map with names as keys, in order. `what` is the whole in messages,
/// with its article. A name given twice is reported; the first counts.
pub fn entries<'a>(
    value: &'a Ron,
    what: &str,
    diags: &mut Diagnostics,
) -> Option<Vec<(Spanned<&'a str>, &'a Ron)>> {
    let all: Vec<_> = match &value.kind {
        RonKind::Struct { fields, .. } => {
            fields.iter().map(|(name, v)| (name.span, name.as_str(), v)).collect()
        }
        RonKind::Map(entries) => entries.iter().filter_map(|(key, v)| named_entry(key, v, diags)).collect(),
        RonKind::Tuple { items, .. } if items.is_empty() => vec![],
        _ => return wrong_kind(value, what, "written as fields, `(name: value, …)`", diags),
    };
    let mut first: HashMap<&str, Span> = HashMap::with_capacity(all.len());
    let mut unique = Vec::with_capacity(all.len());
    for (span, name, value) in all {
        match first.get(name) {
            None => {
                first.insert(name, span);
                unique.push((Spanned::new(span, name), value));
            }
            Some(&earlier) => {
                diags
                    .error(Code::E0013, span, format!("`{name}` is given twice"))
                    .also(earlier, "first here");
            }
        }
    }
    Some(unique)
}

fn named_entry<'a>(
    key: &'a Ron,
    value: &'a Ron,
    diags: &mut Diagnostics,
) -> Option<(Span, &'a str, &'a Ron)> {
    key.word("the key", diags).map(|word| (word.span, word.value, value))
}

impl Ron {
    /// The value itself, or the content of `Some`; nothing for `None`.
    fn inner(&self) -> Option<&Ron> {
        match &self.kind {
            RonKind::Option(inner) => inner.as_deref(),
            _ => Some(self),
        }
    }

    /// The word alone or before the parenthesis: `Auto`, `Adam(…)`.
    pub fn head(&self) -> Option<Spanned<&str>> {
        match &self.kind {
            RonKind::Name(name) => Some(Spanned::new(self.span, name)),
            RonKind::Struct { name: Some(name), .. } | RonKind::Tuple { name: Some(name), .. } => {
                Some(Spanned::new(name.span, name.as_str()))
            }
            _ => None,
        }
    }

    /// A string. Here and below, `what` is the value in messages: `` `path` ``.
    pub fn string(&self, what: &str, diags: &mut Diagnostics) -> Option<&Text> {
        match &self.kind {
            RonKind::Str(text) => Some(text),
            RonKind::Name(word) => {
                let message = format!("{what} must be a string, not a word");
                diags.error(Code::E0010, self.span, message).help(format!("put it in quotes: \"{word}\""));
                None
            }
            _ => wrong_kind(self, what, "a string", diags),
        }
    }

    /// A name, with or without quotes.
    pub fn word(&self, what: &str, diags: &mut Diagnostics) -> Option<Spanned<&str>> {
        match &self.kind {
            RonKind::Str(text) => Some(Spanned::new(text.whole(), &**text)),
            RonKind::Name(name) => Some(Spanned::new(self.span, name)),
            _ => wrong_kind(self, what, "a name", diags),
        }
    }

    /// One of several words.
    pub fn choice<T: Copy>(&self, what: &str, choices: &[(&str, T)], diags: &mut Diagnostics) -> Option<T> {
        let word = self.word(what, diags)?;
        let found = choices.iter().find(|(name, _)| *name == word.value);
        if found.is_none() {
            let names = choices.iter().map(|(name, _)| *name);
            report_unknown(Code::E0014, word, &format!("{what} cannot be"), names, diags);
        }
        found.map(|(_, choice)| *choice)
    }

    /// A truth value.
    pub fn boolean(&self, what: &str, diags: &mut Diagnostics) -> Option<bool> {
        match self.kind {
            RonKind::Bool(value) => Some(value),
            _ => wrong_kind(self, what, "`true` or `false`", diags),
        }
    }

    /// A number, whole or not.
    pub fn number(&self, what: &str, diags: &mut Diagnostics) -> Option<f64> {
        match self.kind {
            RonKind::Float(value) => Some(value),
            RonKind::Int(value) => Some(value as f64),
            _ => wrong_kind(self, what, "a number", diags),
        }
    }

    /// A number that stays whole if it is written so and has at most 64 bits.
    pub fn literal(&self, what: &str, diags: &mut Diagnostics) -> Option<Literal> {
        match self.kind {
            RonKind::Int(value) if i64::try_from(value).is_ok() => Some(Literal::Int(value as i64)),
            _ => self.number(what, diags).map(Literal::Float),
        }
    }

    /// A whole number in `range`, such as `1000` or `1e3`.
    pub fn integer<T>(
        &self,
        what: &str,
        range: std::ops::RangeInclusive<T>,
        diags: &mut Diagnostics,
    ) -> Option<T>
    where
        T: TryFrom<i128> + PartialOrd + std::fmt::Display,
    {
        let value = match self.kind {
            RonKind::Int(value) => value,
            RonKind::Float(value) if value.fract() == 0.0 && value.abs() < MOST_EXACT => value as i128,
            _ => return wrong_kind(self, what, "a whole number", diags),
        };
        let fitting = T::try_from(value).ok().filter(|value| range.contains(value));
        if fitting.is_none() {
            diags.error(Code::E0015, self.span, format!("{what} cannot be {value}")).help(format!(
                "it lies between {} and {}",
                range.start(),
                range.end()
            ));
        }
        fitting
    }

    /// The items of a list, or of a group without a name.
    pub fn items(&self, what: &str, diags: &mut Diagnostics) -> Option<&[Ron]> {
        match &self.kind {
            RonKind::List(items) | RonKind::Tuple { name: None, items } => Some(items),
            _ => wrong_kind(self, what, "a list", diags),
        }
    }
}

/// Reports a value of the wrong kind.
fn wrong_kind<T>(value: &Ron, what: &str, wanted: &str, diags: &mut Diagnostics) -> Option<T> {
    if !value.is_error() {
        let message = format!("{what} must be {wanted}, not {}", value.describe());
        diags.error(Code::E0010, value.span, message);
    }
    None
}

/// Reports a name that is none of the known ones, and suggests the nearest of them. The message is the text
/// `what` and the name, as in ``there is no input `x` ``.
pub(super) fn report_unknown<'k>(
    code: Code,
    written: Spanned<&str>,
    what: &str,
    known: impl IntoIterator<Item = &'k str>,
    diags: &mut Diagnostics,
) {
    let help = suggestion(written.value, &Vec::from_iter(known), diags);
    diags.error(code, written.span, format!("{what} `{}`", written.value)).help(help);
}

/// A hint at the known name nearest to the written one, or at all known names.
pub(super) fn suggestion(written: &str, known: &[&str], diags: &Diagnostics) -> String {
    let meant = if diags.is_full() { None } else { nearest(written, known.iter().copied()) };
    match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => "there is none yet".to_string(),
        None => format!(
            "known are {}",
            known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests;
