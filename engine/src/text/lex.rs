//! Characters and escapes, the same in RON and in expressions.

use crate::work::steps;

/// Whether a name may start with this character.
pub(crate) fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

/// Whether a name may go on with this character.
pub(crate) fn is_name_char(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Whether a character only separates others.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
}

/// Length of the longest prefix whose characters all satisfy `holds`.
pub(crate) fn prefix_len(text: &str, holds: impl Fn(char) -> bool) -> usize {
    let len = text.find(|c| !holds(c)).unwrap_or(text.len());
    steps(len + 1);
    len
}

/// A piece of source in a message: one line, not too long.
pub(crate) fn shorten(text: &str) -> String {
    const LONGEST: usize = 40;
    let line = text.lines().next().unwrap_or("");
    steps(line.len());
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}

/// The character that an escape stands for and the length of the escape; `rest` starts behind the backslash. An error
/// comes with the length of what is wrong and what would be right.
pub(crate) fn escape(rest: &str) -> Result<(char, usize), (usize, &'static str)> {
    let Some(c) = rest.chars().next() else {
        return Err((0, "the text ends within an escape"));
    };
    let plain = match c {
        '\'' | '"' | '\\' => c,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        'x' => return hex_escape(rest),
        'u' => return unicode_escape(rest),
        _ => {
            return Err((c.len_utf8(), "escapes are \\n, \\r, \\t, \\0, \\\\, \\\", \\', \\x41 and \\u{e9}"));
        }
    };
    Ok((plain, c.len_utf8()))
}

fn hex_escape(rest: &str) -> Result<(char, usize), (usize, &'static str)> {
    let digits = 1 + prefix_len(&rest[1..], |c| c.is_ascii_hexdigit()).min(2);
    match u8::from_str_radix(&rest[1..digits], 16) {
        Ok(byte @ 0..=0x7f) if digits == 3 => Ok((byte as char, 3)),
        _ => Err((digits, "\\x takes two hexadecimal digits up to 7f; use \\u{…} beyond")),
    }
}

fn unicode_escape(rest: &str) -> Result<(char, usize), (usize, &'static str)> {
    const WRONG: &str = "\\u{…} takes one to six hexadecimal digits that name a character";
    let Some(digits) = rest[1..].strip_prefix('{') else {
        return Err((1, WRONG));
    };
    let len = prefix_len(digits, |c| c.is_ascii_hexdigit());
    let c =
        (len <= 6).then(|| u32::from_str_radix(&digits[..len], 16).ok().and_then(char::from_u32)).flatten();
    match c {
        Some(c) if digits[len..].starts_with('}') => Ok((c, len + 3)),
        _ => Err((2 + len, WRONG)),
    }
}
