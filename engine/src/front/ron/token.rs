//! How far strings, comments and characters of RON reach.

use crate::text::lex::is_name_char;
use crate::work::steps;

pub(super) fn is_raw_name_char(c: char) -> bool {
    is_name_char(c) || matches!(c, '.' | '+' | '-')
}

/// Length of a block comment, in which others may be nested; nothing if it does not end.
pub(super) fn block_comment_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at + 1 < bytes.len() {
        steps(1);
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Length of a string literal with its escapes; all of the text if it does not end.
pub(super) fn string_len(text: &str) -> usize {
    let mut escaped = true;
    let end = text.bytes().position(|b| {
        let ends = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        ends
    });
    let len = end.map_or(text.len(), |at| at + 1);
    steps(len);
    len
}

/// Start and end of a raw string's content, and the length of the whole literal.
pub(super) fn raw_string_body(text: &str, hashes: usize) -> Option<(usize, usize, usize)> {
    let from = 1 + hashes + 1;
    let end = format!("\"{}", "#".repeat(hashes));
    let found = text[from..].find(&end);
    steps(found.unwrap_or(text.len()));
    let to = from + found?;
    Some((from, to, to + end.len()))
}

/// Length of a character literal if this is one, else of the quote alone.
pub(super) fn char_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let escaped = matches!(chars.next(), Some((_, '\\')));
    let mut rest = chars.skip(escaped as usize);
    rest.next().filter(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 1)
}
