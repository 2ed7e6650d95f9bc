//! Parts of a text with their places, and faults at a place.

use super::error::TextError;
use crate::diag::{Diagnostics, Span};

/// A part of the text with its place.
#[derive(Clone, Copy)]
pub(super) struct Piece<'t> {
    pub(super) start: usize,
    pub(super) text: &'t str,
}

/// All non-empty lines, without comments and surrounding space.
pub(super) fn lines(text: &str) -> Vec<Piece<'_>> {
    let mut start = 0;
    let mut lines = vec![];
    for line in text.split_inclusive('\n') {
        let piece = Piece { start, text: line };
        let piece = piece.find('#').map_or(piece, |comment| piece.split(comment).0).trim();
        lines.extend((!piece.text.is_empty()).then_some(piece));
        start += line.len();
    }
    lines
}

impl<'t> Piece<'t> {
    pub(super) fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::new(self.start, message))
    }

    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn trim(self) -> Piece<'t> {
        let text = self.text.trim_start();
        Piece { start: self.end() - text.len(), text: text.trim_end() }
    }

    /// The parts before and from byte `at`.
    pub(super) fn split(self, at: usize) -> (Piece<'t>, Piece<'t>) {
        let (left, right) = self.text.split_at(at);
        (Piece { text: left, ..self }, Piece { start: self.start + at, text: right })
    }

    pub(super) fn strip_prefix(self, prefix: &str) -> Option<Piece<'t>> {
        let text = self.text.strip_prefix(prefix)?;
        Some(Piece { start: self.end() - text.len(), text }.trim())
    }

    pub(super) fn strip_suffix(self, suffix: &str) -> Option<Piece<'t>> {
        Some(Piece { text: self.text.strip_suffix(suffix)?, ..self }.trim())
    }

    /// The text after a word and a space.
    pub(super) fn strip_word(self, word: &str) -> Option<Piece<'t>> {
        let rest = Piece { text: self.text.strip_prefix(word)?, start: self.start + word.len() };
        rest.text.starts_with([' ', '\t']).then(|| rest.trim())
    }

    /// The parts before and after the first such character outside strings.
    pub(super) fn cut(self, at: char) -> Option<(Piece<'t>, Piece<'t>)> {
        let (left, right) = self.split(self.find(at)?);
        let text = &right.text[at.len_utf8()..];
        Some((left.trim(), Piece { start: right.end() - text.len(), text }.trim()))
    }

    /// The first such character outside strings.
    pub(super) fn find(&self, wanted: char) -> Option<usize> {
        self.plain_chars().find(|&(_, c)| c == wanted).map(|(at, _)| at)
    }

    /// The characters that are not part of a string.
    fn plain_chars(&self) -> impl Iterator<Item = (usize, char)> + use<'t> {
        let (mut open, mut escaped) = (None, false);
        self.text.char_indices().filter(move |&(_, c)| {
            let is_quote = matches!(c, '"' | '\'') && !escaped;
            let is_plain = open.is_none() && !is_quote;
            escaped = open.is_some() && c == '\\' && !escaped;
            open = match open {
                None if is_quote => Some(c),
                Some(quote) if is_quote && quote == c => None,
                unchanged => unchanged,
            };
            is_plain
        })
    }

    /// Items between commas outside brackets and strings. Empty if there is no item.
    pub(super) fn items(self) -> Vec<Piece<'t>> {
        let (mut items, mut start, mut depth) = (vec![], 0, 0i64);
        for (at, c) in self.plain_chars() {
            depth += i64::from(matches!(c, '(' | '[')) - i64::from(matches!(c, ')' | ']'));
            if c == ',' && depth == 0 {
                items.push(self.split(at).0.split(start).1.trim());
                start = at + 1;
            }
        }
        let last = self.split(start).1.trim();
        if !(items.is_empty() && last.text.is_empty()) {
            items.push(last);
        }
        items
    }
}

/// A fault at a byte of the text.
pub(super) struct Fault {
    at: usize,
    message: String,
}

impl Fault {
    pub(super) fn new(at: usize, message: impl Into<String>) -> Fault {
        Fault { at, message: message.into() }
    }

    pub(super) fn locate(self, text: &str) -> TextError {
        let before = text.get(..self.at.min(text.len())).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() + 1;
        TextError { line: before.matches('\n').count() + 1, column, message: self.message }
    }
}

pub(super) fn at(span: Span, message: impl Into<String>) -> Fault {
    Fault::new(span.start as usize, message)
}

pub(super) fn first_fault(diags: &Diagnostics, piece: Piece) -> Fault {
    let Some(first) = diags.sorted().first().copied().cloned() else {
        return Fault::new(piece.start, "this cannot be read");
    };
    let start = first.labels.first().map_or(piece.start, |(span, _)| span.start as usize);
    let help = first.help.map(|help| format!("; {help}")).unwrap_or_default();
    Fault::new(start, first.message + &help)
}
