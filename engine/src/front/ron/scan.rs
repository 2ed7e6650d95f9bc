//! The place in a text of RON: characters, names, spaces and reports.

use super::token::{block_comment_len, is_raw_name_char, string_len};
use super::tree::RonKind;
use crate::diag::{Code, Diagnostic, Diagnostics, FileId, Span};
use crate::text::lex::{is_name_char, is_name_start, is_space, prefix_len, shorten};
use crate::work::steps;

pub(super) struct Reader<'a> {
    pub(super) file: FileId,
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// The open brackets around the current place: the start of each, and its closing character.
    pub(super) open: Vec<(usize, char)>,
    /// The place of the last report of an early end. Other brackets that are open there need no report.
    pub(super) ended_at: Option<usize>,
    pub(super) diags: &'a mut Diagnostics,
}

impl<'a> Reader<'a> {
    pub(super) fn require(&mut self, c: char) -> Option<()> {
        self.skip_space();
        self.eat(c).then_some(())
    }

    // ---- Characters.

    pub(super) fn rest(&self) -> &'a str {
        steps(1);
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    pub(super) fn at_name(&self) -> bool {
        self.peek().is_some_and(is_name_start)
    }

    /// A name, also a raw one (`r#a-b`), of which the marker is left out.
    pub(super) fn name(&mut self) -> Option<&'a str> {
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
    pub(super) fn raw_string_hashes(&self) -> Option<usize> {
        let rest = self.rest().strip_prefix('r')?;
        let hashes = prefix_len(rest, |c| c == '#');
        rest[hashes..].starts_with('"').then_some(hashes)
    }

    pub(super) fn skip_space(&mut self) {
        if let Some(start) = self.skip_space_quietly() {
            self.unclosed(start, "this comment is not closed", "add the closing `*/`");
        }
    }

    /// Skips space and comments; yields the place of a comment that does not end.
    pub(super) fn skip_space_quietly(&mut self) -> Option<usize> {
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

    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.file, start, end)
    }

    pub(super) fn error(
        &mut self,
        code: Code,
        start: usize,
        end: usize,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.diags.error(code, Span::new(self.file, start, end), message)
    }

    pub(super) fn unexpected(&mut self, wanted: &str) -> RonKind {
        if self.ended_at != Some(self.at) {
            let (start, end, found) = (self.at, self.token_end(), self.found());
            self.ended_at = (start == self.text.len()).then_some(start);
            self.error(Code::E0002, start, end, format!("expected {wanted}, found {found}"));
        }
        RonKind::Error
    }

    /// The end of the string, word or character here.
    pub(super) fn token_end(&self) -> usize {
        let rest = self.rest();
        let word = prefix_len(rest, is_name_char);
        let len = match self.peek() {
            Some('"') => string_len(rest),
            _ if word > 0 => word,
            c => c.map_or(0, char::len_utf8),
        };
        self.at + len
    }

    pub(super) fn found(&self) -> String {
        match self.peek() {
            None => "the end of the file".into(),
            Some('"') => "a string".into(),
            Some(_) => format!("`{}`", shorten(&self.text[self.at..self.token_end()])),
        }
    }

    /// A string without an end swallows the rest of the file.
    pub(super) fn unclosed(&mut self, start: usize, message: &str, help: &str) -> RonKind {
        self.at = self.text.len();
        self.ended_at = Some(self.at);
        let end = self.at;
        self.error(Code::E0003, start, end, message).here("opened here").help(help);
        RonKind::Error
    }
}
