//! Text that is safe to show on a terminal. Names, cells and paths come from files. A file can hold terminal commands,
//! changes of the writing direction, or a megabyte in one cell. This module escapes and cuts them when a message
//! becomes text.

use std::borrow::Cow;
use std::fmt::Write;

/// The maximum length of a message in bytes.
pub const MOST_BYTES: usize = 4096;
/// The maximum length of a quotation in bytes, and the number of bytes kept from its end.
const MOST_QUOTED: usize = 200;
const QUOTED_END: usize = 40;
const CUT: &str = "…";

/// Whether a character is a terminal command, changes the writing direction, or ends a line in the middle of a message.
fn is_hidden(c: char) -> bool {
    let is_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A text with hidden characters spelled out: `\u{1b}[31m`. Ends of lines and tabs stay.
pub fn legible(text: &str) -> Cow<'_, str> {
    spelled(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

fn spelled(text: &str, is_spelled: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_spelled) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_spelled(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A legible message of at most `most` bytes. Quotations in backticks stay on one line, and long ones lose their
/// middle.
pub fn message(text: &str, most: usize) -> String {
    let mut shown = String::new();
    let mut rest = text;
    // Parts beyond the limit are skipped unread.
    while shown.len() <= most && !rest.is_empty() {
        let Some((before, after)) = rest.split_once('`') else {
            push(&mut shown, rest, most);
            break;
        };
        push(&mut shown, before, most);
        match after.split_once('`') {
            Some((quoted, after)) => {
                let _ = write!(shown, "`{}`", quotation(quoted, QUOTED_END));
                rest = after;
            }
            None => {
                shown.push('`');
                rest = after;
            }
        }
    }
    cut(&shown, most).into_owned()
}

/// Adds unquoted text up to the limit.
fn push(shown: &mut String, text: &str, most: usize) {
    // Copies past the limit, so that the final cut notices the surplus and marks it.
    let end = text.floor_char_boundary(most.saturating_add(4));
    shown.push_str(&legible(&text[..end]));
}

/// A quotation on one line. A long quotation loses its middle.
fn quotation(text: &str, end: usize) -> String {
    let shown = spelled(&middle_cut(text, MOST_QUOTED, end), is_hidden).into_owned();
    middle_cut(&shown, MOST_QUOTED, end).into_owned()
}

/// A text without its middle if it is longer than `most`.
fn middle_cut(text: &str, most: usize, end: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(most - end - CUT.len())];
    let tail = &text[text.ceil_char_boundary(text.len() - end)..];
    Cow::Owned(format!("{head}{CUT}{tail}"))
}

/// A text of at most `most` bytes, with an ellipsis where it is cut.
pub fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{}{CUT}", &text[..text.floor_char_boundary(most.saturating_sub(CUT.len()))]))
}

/// The name of a file. The end of a path is the most informative part, so more of it is kept.
pub(super) fn file_name(name: &str) -> String {
    quotation(name, 3 * QUOTED_END)
}

/// A source text with each hidden character replaced by a visible one of equal length, so that places stay valid.
pub(super) fn source_text(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| is_hidden(c) && c != '\n' && c != '\t') {
        return Cow::Borrowed(text);
    }
    let shown = |(at, c): (usize, char)| match c {
        '\n' | '\t' => c,
        '\r' if text[at..].starts_with("\r\n") => c,
        c if !is_hidden(c) => c,
        c if c.len_utf8() == 1 => '?',
        c if c.len_utf8() == 2 => '¿',
        _ => '\u{fffd}',
    };
    text.char_indices().map(shown).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands_to_the_terminal_are_spelled_out() {
        assert_eq!(
            legible("a\u{1b}[31mb\tc\nd\r\u{7f}\u{9b}\u{202e}é"),
            "a\\u{1b}[31mb\tc\nd\\r\\u{7f}\\u{9b}\\u{202e}é"
        );
        assert_eq!(message("no `a\nb\u{1b}`\n  `c` is missing", 100), "no `a\\nb\\u{1b}`\n  `c` is missing");
        assert_eq!(message("an odd ` is\nno quotation", 100), "an odd ` is\nno quotation");
        assert_eq!(source_text("\u{1b}é\u{85}\u{202e}\r\n\t\r."), "?é¿\u{fffd}\r\n\t?.");
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "x".repeat(300);
        let quoted = message(&format!("there is no `{long}`; there are others"), 1000);
        assert_eq!(quoted, format!("there is no `{}…{}`; there are others", &long[..157], &long[..40]));
        assert_eq!(message(&long, 10), "xxxxxxx…");
        assert_eq!(message(&"é".repeat(300), 10), "ééé…");
        assert_eq!(file_name(&long).len(), 200);
    }

    /// Letters, hidden characters, backticks and line ends.
    fn any_text() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            "[a-z`é\u{1b}\u{9b}\u{202e}\r\n\t ]{0,12}",
            any::<String>(),
            Just("`".to_string()),
            ("[a-z\u{1b}]{0,4}", 0..400usize).prop_map(|(piece, n)| piece.repeat(n)),
        ];
        proptest::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_message_holds_a_command_or_is_too_long(text in any_text(), most in 8..3000usize) {
            let shown = message(&text, most);
            prop_assert!(shown.len() <= most, "{} > {most}", shown.len());
            prop_assert!(legible(&shown) == shown, "{shown:?}");
            prop_assert_eq!(message(&shown, most).len() <= most, true);
        }

        #[test]
        fn places_stay_where_they_are(text in any_text()) {
            let shown = source_text(&text);
            prop_assert_eq!(shown.len(), text.len());
            prop_assert!(text.char_indices().map(|(at, _)| at).eq(shown.char_indices().map(|(at, _)| at)));
            prop_assert!(source_text(&shown) == shown, "{shown:?}");
        }
    }
}
