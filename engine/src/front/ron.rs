//! A reader of RON (Rusty Object Notation) that keeps the place of every value and goes on after an error.
//!
//! The `ron` crate gives places for syntax errors only. Its raw values are slices of the source, so places can be
//! computed. But every nested value is read again at each level, into types that are fixed beforehand, and a node list
//! is a tree of open shape. This reader takes one linear pass and reports all errors of a file. A test compares it with
//! the `ron` crate. Byte strings and ranges, which a pipeline does not need, are left out.

mod literals;
mod number;
mod scan;
mod token;
mod tree;

pub use tree::{Ron, RonKind};

use crate::diag::{Code, Diagnostics, FileId, Spanned};
use crate::text::lex::prefix_len;
use crate::work::steps;
use number::special_float;
use scan::Reader;
use token::{char_len, raw_string_body};

/// How deep values may be nested.
pub const MAX_DEPTH: usize = 128;

/// Reads the text of a file. An unreadable value is reported and left out, or becomes [`RonKind::Error`].
pub fn parse_ron(file: FileId, text: &str, diags: &mut Diagnostics) -> Ron {
    let mut reader = Reader { file, text, at: 0, open: vec![], ended_at: None, diags };
    reader.eat('\u{feff}');
    reader.attributes();
    let value = reader.value();
    reader.skip_space();
    if reader.peek().is_some() && reader.ended_at.is_none() && !value.is_error() {
        let (start, end) = (reader.at, reader.token_end());
        reader
            .error(Code::E0002, start, end, "the file goes on after its value")
            .help("a file holds one value; put all of it into one `( … )`");
    }
    value
}

impl Reader<'_> {
    fn value(&mut self) -> Ron {
        self.skip_space();
        let start = self.at;
        let kind = match self.peek() {
            Some('(') => self.group(None),
            Some('[') => self.list(),
            Some('{') => self.map(),
            Some('"') => self.string(),
            Some('\'') => self.character(),
            Some('r') if self.raw_string_hashes().is_some() => self.raw_string(),
            Some('0'..='9' | '+' | '-' | '.') => self.number(),
            Some(_) if self.at_name() => self.word(),
            _ => self.unexpected("a value"),
        };
        Ron { span: self.span(start, self.at), kind }
    }

    // ---- Brackets.

    fn list(&mut self) -> RonKind {
        self.inside(']', |reader| RonKind::List(reader.values()))
    }

    fn map(&mut self) -> RonKind {
        self.inside('}', |reader| {
            let mut entries = vec![];
            reader.items(|reader| {
                let key = reader.value();
                if key.is_error() {
                    return false;
                }
                let value = reader.value_after_colon();
                let readable = !value.is_error();
                entries.push((key, value));
                readable
            });
            RonKind::Map(entries)
        })
    }

    /// `( … )`: fields if the first item has a name, values otherwise.
    fn group(&mut self, name: Option<Spanned<String>>) -> RonKind {
        let has_fields = self.starts_with_field();
        self.inside(')', |reader| match has_fields {
            true => RonKind::Struct { name, fields: reader.fields() },
            false => RonKind::Tuple { name, items: reader.values() },
        })
    }

    /// Whether the parenthesis here is followed by a name and a colon.
    fn starts_with_field(&mut self) -> bool {
        let start = self.at;
        self.eat('(');
        self.skip_space_quietly();
        let named = self.name().is_some();
        self.skip_space_quietly();
        let has_field = named && self.peek() == Some(':');
        self.at = start;
        has_field
    }

    fn fields(&mut self) -> Vec<(Spanned<String>, Ron)> {
        let mut fields = vec![];
        self.items(|reader| {
            let Some(name) = reader.field_name() else {
                return false;
            };
            let value = reader.value_after_colon();
            let readable = !value.is_error();
            fields.push((name, value));
            readable
        });
        fields
    }

    fn field_name(&mut self) -> Option<Spanned<String>> {
        let start = self.at;
        if let Some(name) = self.name() {
            return Some(Spanned::new(self.span(start, self.at), name.to_owned()));
        }
        let found = self.found();
        let end = self.token_end();
        self.error(Code::E0002, start, end, format!("expected the name of a field, found {found}"))
            .help("a field is `name: value`, without quotes; a map stands in braces: `{\"name\": value}`");
        None
    }

    fn value_after_colon(&mut self) -> Ron {
        self.skip_space();
        if self.eat(':') {
            return self.value();
        }
        let kind = self.unexpected("`:` and a value");
        Ron { span: self.span(self.at, self.at), kind }
    }

    fn values(&mut self) -> Vec<Ron> {
        let mut values = vec![];
        self.items(|reader| {
            let value = reader.value();
            let readable = !value.is_error();
            values.push(value);
            readable
        });
        values
    }

    /// Reads the content between the bracket here and the one that closes it.
    fn inside(&mut self, close: char, read: impl FnOnce(&mut Self) -> RonKind) -> RonKind {
        let start = self.at;
        if self.open.len() == MAX_DEPTH {
            self.error(
                Code::E0006,
                start,
                start + 1,
                format!("more than {MAX_DEPTH} brackets in each other"),
            )
            .help("give inner parts names of their own");
            self.skip_brackets();
            return RonKind::Error;
        }
        self.at += 1;
        self.open.push((start, close));
        let kind = read(self);
        self.open.pop();
        kind
    }

    /// Reads items up to the end of the innermost bracket. `item` says whether it could read one; if not, the rest up
    /// to the next comma is skipped.
    fn items(&mut self, mut item: impl FnMut(&mut Self) -> bool) {
        self.skip_space();
        while !self.closes() {
            let readable = item(self);
            if !self.comma(readable) {
                return;
            }
        }
    }

    /// Whether the innermost bracket ends here; a closing bracket of its own is consumed.
    fn closes(&mut self) -> bool {
        let Some(&(start, close)) = self.open.last() else {
            return true;
        };
        match self.peek() {
            Some(c) if c == close => {
                self.at += 1;
                return true;
            }
            Some(c) if !self.closes_some_bracket(c) => return false,
            _ => (),
        }
        if self.ended_at != Some(self.at) {
            let (found, at) = (self.found(), self.at);
            let opened = &self.text[start..start + 1];
            self.ended_at = Some(at);
            let message = format!("`{opened}` is not closed");
            let span = self.span(at, self.token_end());
            self.error(Code::E0003, start, start + 1, message)
                .here("opened here")
                .also(span, format!("found {found} instead of `{close}`"));
        }
        true
    }

    fn closes_some_bracket(&self, c: char) -> bool {
        steps(self.open.len());
        matches!(c, ')' | ']' | '}') && self.open.iter().any(|(_, close)| *close == c)
    }

    /// Passes the comma after an item, and the space after it. `false` means that the bracket ended instead.
    fn comma(&mut self, mut readable: bool) -> bool {
        loop {
            let before = self.at;
            self.skip_space();
            if self.eat(',') {
                self.skip_space();
                return true;
            }
            if self.closes() {
                return false;
            }
            if readable {
                self.missing_comma(before);
                if self.starts_value() {
                    return true;
                }
            }
            readable = false;
            self.skip_to_comma();
        }
    }

    fn missing_comma(&mut self, before: usize) {
        let close = self.open.last().map_or(')', |(_, close)| *close);
        let found = self.found();
        let (at, end, last) = (self.at, self.token_end(), self.span(before, before));
        let error = self.error(Code::E0002, at, end, format!("expected `,` or `{close}`, found {found}"));
        if before < at {
            error.also(last, "a comma belongs here");
        }
    }

    fn starts_value(&self) -> bool {
        matches!(self.peek(), Some('(' | '[' | '{' | '"' | '0'..='9' | '-')) || self.at_name()
    }

    /// Skips to the comma or the closing bracket that ends an unreadable item.
    fn skip_to_comma(&mut self) {
        loop {
            self.skip_space();
            match self.peek() {
                None | Some(',') => return,
                Some(c) if self.closes_some_bracket(c) => return,
                Some('(' | '[' | '{') => self.skip_brackets(),
                Some(_) => self.skip_token(),
            }
        }
    }

    /// Skips from an opening bracket to the one that closes it; which kind they are of does not matter.
    fn skip_brackets(&mut self) {
        let mut depth = 0usize;
        while let Some(c) = self.peek() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => (),
            }
            self.skip_token();
            if depth == 0 {
                return;
            }
            self.skip_space();
        }
    }

    /// Skips one character, or a whole string or word.
    fn skip_token(&mut self) {
        let rest = self.rest();
        self.at = match (self.raw_string_hashes(), self.peek()) {
            (Some(hashes), _) => {
                self.at + raw_string_body(rest, hashes).map_or(rest.len(), |(_, _, len)| len)
            }
            (_, Some('\'')) => self.at + char_len(rest),
            _ => self.token_end(),
        };
    }

    // ---- Words and numbers.

    fn word(&mut self) -> RonKind {
        let start = self.at;
        let raw = self.rest().starts_with("r#");
        let Some(word) = self.name() else {
            return self.unexpected("a value");
        };
        match word {
            _ if raw => self.named(start, word),
            "true" => RonKind::Bool(true),
            "false" => RonKind::Bool(false),
            "None" => RonKind::Option(None),
            "Some" => self.some(start),
            _ => special_float(word).map_or_else(|| self.named(start, word), RonKind::Float),
        }
    }

    /// A word, and the group that may follow it.
    fn named(&mut self, start: usize, word: &str) -> RonKind {
        let end = self.at;
        self.skip_space_quietly();
        if self.peek() == Some('(') {
            return self.group(Some(Spanned::new(self.span(start, end), word.to_owned())));
        }
        self.at = end;
        RonKind::Name(word.to_owned())
    }

    fn some(&mut self, start: usize) -> RonKind {
        self.skip_space();
        if self.peek() != Some('(') {
            return self.unexpected("`(` after `Some`");
        }
        match self.group(None) {
            RonKind::Tuple { mut items, .. } if items.len() == 1 => {
                RonKind::Option(items.pop().map(Box::new))
            }
            RonKind::Error => RonKind::Error,
            _ => {
                let end = self.at;
                self.error(Code::E0002, start, end, "`Some` takes one value")
                    .help("write a group of fields as `Some((a: 1, b: 2))`");
                RonKind::Error
            }
        }
    }

    // ---- Attributes of the file.

    /// `#![enable(implicit_some)]` and the like. They say how Rust types are filled, which is no matter here: a group
    /// may always stand with or without its name and `Some`.
    fn attributes(&mut self) {
        self.skip_space();
        while self.peek() == Some('#') {
            let start = self.at;
            if self.attribute().is_none() {
                self.at += prefix_len(self.rest(), |c| c != ']' && c != '\n');
                self.eat(']');
                let end = self.at;
                self.error(Code::E0007, start, end, "unknown attribute of the file")
                    .help("`#![enable(implicit_some)]` is known, and can be left out");
            }
            self.skip_space();
        }
    }

    fn attribute(&mut self) -> Option<()> {
        ['#', '!', '['].into_iter().try_for_each(|c| self.require(c))?;
        self.skip_space();
        match self.name()? {
            "enable" => {
                self.require('(')?;
                self.extensions()?;
            }
            "type" | "schema" => {
                self.require('=')?;
                self.skip_space();
                matches!(self.value().kind, RonKind::Str(_)).then_some(())?;
            }
            _ => return None,
        }
        self.require(']')
    }

    /// The names in `enable(…)`, and the closing parenthesis.
    fn extensions(&mut self) -> Option<()> {
        loop {
            self.skip_space();
            let known =
                ["implicit_some", "unwrap_newtypes", "unwrap_variant_newtypes", "explicit_struct_names"];
            known.contains(&self.name()?).then_some(())?;
            self.skip_space();
            let more = self.eat(',');
            self.skip_space();
            if !more || self.peek() == Some(')') {
                return self.require(')');
            }
        }
    }
}

#[cfg(test)]
mod tests;
