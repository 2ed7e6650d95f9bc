//! A reader of RON (Rusty Object Notation) that keeps the place of every value and goes on after an error.
//!
//! The `ron` crate gives places for syntax errors alone. Its raw values are slices of the source, from which places
//! follow, but only by reading every nested value again at each level, and only into types fixed beforehand; a node
//! list is a tree of open shape. Hence a reader of its own: one pass, linear, and all errors of a file at once. A test
//! compares it with the `ron` crate. What that crate takes and this one does not is what a pipeline has no use for:
//! byte strings and ranges.

mod number;
mod token;

use super::Text;
use super::lex::{self, is_name_char, is_name_start, is_space, prefix_len, shorten};
use crate::diag::{Code, Diagnostic, Diagnostics, FileId, Span, Spanned};
use crate::work::steps;
use number::{number_len, read_number, special_float};
use token::{block_comment_len, char_len, is_raw_name_char, raw_string_body, string_len};

/// How deep values may be nested.
pub const MAX_DEPTH: usize = 128;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ron {
    /// From its first to its last character.
    pub span: Span,
    /// What it is.
    pub kind: RonKind,
}

/// What a value is. Fields, items and entries keep the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub enum RonKind {
    /// `true`
    Bool(bool),
    /// `-3`, `0xff`, `1_000`
    Int(i128),
    /// `0.5`, `1e-3`, `inf`, `NaN`
    Float(f64),
    /// `'x'`
    Char(char),
    /// `"text"`, `r"text"`
    Str(Text),
    /// `[1, 2]`
    List(Vec<Ron>),
    /// `{"a": 1}`
    Map(Vec<(Ron, Ron)>),
    /// `(a: 1)`, `Point(x: 1, y: 2)`
    Struct {
        /// The word before the parenthesis.
        name: Option<Spanned<String>>,
        /// Names and values; a name may occur twice.
        fields: Vec<(Spanned<String>, Ron)>,
    },
    /// `(1, 2)`, `Constant(0.1)`; also `()`
    Tuple {
        /// The word before the parenthesis.
        name: Option<Spanned<String>>,
        /// The items.
        items: Vec<Ron>,
    },
    /// A word alone: `Auto`
    Name(String),
    /// `None`, `Some(1)`
    Option(Option<Box<Ron>>),
    /// Something unreadable; reported already.
    Error,
}

impl Ron {
    /// What a message calls this kind of value, with its article.
    pub fn describe(&self) -> &'static str {
        match &self.kind {
            RonKind::Bool(_) => "a truth value",
            RonKind::Int(_) => "a whole number",
            RonKind::Float(_) => "a number",
            RonKind::Char(_) => "a character",
            RonKind::Str(_) => "a string",
            RonKind::List(_) => "a list",
            RonKind::Map(_) => "a map",
            RonKind::Struct { .. } => "a group of fields",
            RonKind::Tuple { .. } => "a group of values",
            RonKind::Name(_) => "a word",
            RonKind::Option(_) => "an optional value",
            RonKind::Error => "something unreadable",
        }
    }

    /// Whether it could not be read, which has been reported.
    pub fn is_error(&self) -> bool {
        matches!(self.kind, RonKind::Error)
    }
}

/// Reads the text of a file. What cannot be read is reported and left out, or stands as [`RonKind::Error`].
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

struct Reader<'a> {
    file: FileId,
    text: &'a str,
    at: usize,
    /// The brackets around the current place: where each opens, and what closes it.
    open: Vec<(usize, char)>,
    /// Where it has been reported that something ends too early; what else is unclosed there is so for that reason.
    ended_at: Option<usize>,
    diags: &'a mut Diagnostics,
}

impl<'a> Reader<'a> {
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

    /// Reads what is between the bracket here and the one that closes it.
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

    fn number(&mut self) -> RonKind {
        let start = self.at;
        self.at += number_len(self.rest());
        match read_number(&self.text[start..self.at]) {
            Ok(kind) => kind,
            Err(reason) => {
                let (end, written) = (self.at, shorten(&self.text[start..self.at]));
                self.error(Code::E0005, start, end, format!("`{written}` is not a number")).here(reason);
                RonKind::Error
            }
        }
    }

    // ---- Strings.

    fn string(&mut self) -> RonKind {
        let start = self.at;
        self.at += 1;
        let mut text = Text::empty(self.file, self.at);
        loop {
            let plain = prefix_len(self.rest(), |c| c != '"' && c != '\\');
            text.push_str(&self.rest()[..plain]);
            self.at += plain;
            if self.eat('"') {
                return RonKind::Str(text);
            }
            if !self.eat('\\') {
                return self.unclosed(start, "this string is not closed", "add the closing `\"`");
            }
            self.escape(&mut text);
        }
    }

    /// An escape within a string, or a line break to be left out with the space that follows it.
    fn escape(&mut self, text: &mut Text) {
        if self.rest().starts_with('\n') || self.rest().starts_with("\r\n") {
            self.at += prefix_len(self.rest(), |c| matches!(c, ' ' | '\t' | '\n' | '\r'));
            text.skip_to(self.at);
        } else if let Some((c, len)) = self.escaped_char() {
            self.at += len;
            text.push_escape(c, self.at);
        }
    }

    /// The escape behind the backslash that has just been read; a wrong one is reported and passed.
    fn escaped_char(&mut self) -> Option<(char, usize)> {
        lex::escape(self.rest())
            .map_err(|(len, reason)| {
                let start = self.at - 1;
                self.at += len;
                let end = self.at;
                self.error(Code::E0004, start, end, "unknown escape in a string").help(reason);
            })
            .ok()
    }

    fn raw_string(&mut self) -> RonKind {
        let start = self.at;
        let hashes = self.raw_string_hashes().unwrap_or(0);
        let Some((from, to, len)) = raw_string_body(self.rest(), hashes) else {
            return self.unclosed(
                start,
                "this raw string is not closed",
                "it ends with `\"` and as many `#` as it starts with",
            );
        };
        self.at += len;
        RonKind::Str(Text::verbatim(self.file, start + from, &self.text[start + from..start + to]))
    }

    fn character(&mut self) -> RonKind {
        let start = self.at;
        self.at += 1;
        let read = if self.eat('\\') { self.escaped_char() } else { self.peek().map(|c| (c, c.len_utf8())) };
        self.at += read.map_or(0, |(_, len)| len);
        match read {
            Some((c, _)) if self.eat('\'') => RonKind::Char(c),
            _ => {
                let end = self.at;
                self.error(Code::E0004, start, end, "this is not one character")
                    .help("strings stand in double quotes: `\"…\"`");
                RonKind::Error
            }
        }
    }

    /// A string without an end swallows the rest of the file.
    fn unclosed(&mut self, start: usize, message: &str, help: &str) -> RonKind {
        self.at = self.text.len();
        self.ended_at = Some(self.at);
        let end = self.at;
        self.error(Code::E0003, start, end, message).here("opened here").help(help);
        RonKind::Error
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

    fn require(&mut self, c: char) -> Option<()> {
        self.skip_space();
        self.eat(c).then_some(())
    }

    // ---- Characters.

    fn rest(&self) -> &'a str {
        steps(1);
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn at_name(&self) -> bool {
        self.peek().is_some_and(is_name_start)
    }

    /// A name, also a raw one (`r#a-b`), of which the marker is left out.
    fn name(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let raw = rest.strip_prefix("r#").map(|raw| &raw[..prefix_len(raw, is_raw_name_char)]);
        if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
            self.at += 2 + raw.len();
            return Some(raw);
        }
        if !self.at_name() || raw.is_some() {
            return None;
        }
        let name = &rest[..prefix_len(rest, is_name_char)];
        self.at += name.len();
        Some(name)
    }

    /// The number of `#` if a raw string starts here.
    fn raw_string_hashes(&self) -> Option<usize> {
        let rest = self.rest().strip_prefix('r')?;
        let hashes = prefix_len(rest, |c| c == '#');
        rest[hashes..].starts_with('"').then_some(hashes)
    }

    fn skip_space(&mut self) {
        if let Some(start) = self.skip_space_quietly() {
            self.unclosed(start, "this comment is not closed", "add the closing `*/`");
        }
    }

    /// Skips space and comments; yields the place of a comment that does not end.
    fn skip_space_quietly(&mut self) -> Option<usize> {
        loop {
            let rest = self.rest();
            let spaces = prefix_len(rest, is_space);
            self.at += spaces;
            let rest = &rest[spaces..];
            if rest.starts_with("//") {
                self.at += prefix_len(rest, |c| c != '\n');
            } else if rest.starts_with("/*") {
                match block_comment_len(rest) {
                    Some(len) => self.at += len,
                    None => return Some(self.at),
                }
            } else {
                return None;
            }
        }
    }

    // ---- Reports.

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start, end)
    }

    fn error(&mut self, code: Code, start: usize, end: usize, message: impl Into<String>) -> &mut Diagnostic {
        self.diags.error(code, Span::new(self.file, start, end), message)
    }

    fn unexpected(&mut self, wanted: &str) -> RonKind {
        if self.ended_at != Some(self.at) {
            let (start, end, found) = (self.at, self.token_end(), self.found());
            self.ended_at = (start == self.text.len()).then_some(start);
            self.error(Code::E0002, start, end, format!("expected {wanted}, found {found}"));
        }
        RonKind::Error
    }

    /// The end of the string, word or character here.
    fn token_end(&self) -> usize {
        let rest = self.rest();
        let word = prefix_len(rest, is_name_char);
        let len = match self.peek() {
            Some('"') => string_len(rest),
            _ if word > 0 => word,
            c => c.map_or(0, char::len_utf8),
        };
        self.at + len
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the file".into(),
            Some('"') => "a string".into(),
            Some(_) => format!("`{}`", shorten(&self.text[self.at..self.token_end()])),
        }
    }
}

#[cfg(test)]
mod tests;
