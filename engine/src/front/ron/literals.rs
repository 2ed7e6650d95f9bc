//! Numbers, strings and characters.

use super::number::{number_len, read_number};
use super::scan::Reader;
use super::token::raw_string_body;
use super::tree::RonKind;
use crate::diag::Code;
use crate::text::Text;
use crate::text::lex::{self, prefix_len, shorten};

impl Reader<'_> {
    pub(super) fn number(&mut self) -> RonKind {
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

    pub(super) fn string(&mut self) -> RonKind {
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

    pub(super) fn raw_string(&mut self) -> RonKind {
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

    pub(super) fn character(&mut self) -> RonKind {
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
}
