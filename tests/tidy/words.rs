//! Words that riddle, and the words to write instead.

use crate::lexer::Text;
use crate::source::Source;

/// Words that no comment, message or document may contain, and better words.
pub const BANNED: &[(&str, &str)] = &[
    ("nobody", "name the thing: no kernel, no node, no thread"),
    ("somebody", "name the thing: a kernel, a reader, a user"),
    ("whoever", "name the thing: the caller, the kernel that …"),
    ("whatever", "\"any\", or \"for every …\""),
    ("looked at", "read, examined, considered"),
    ("told of", "reported, passed"),
    ("tells of", "reports, describes"),
    ("handed in", "passed, given"),
    ("hands in", "passes, gives"),
    ("at hand", "present, given"),
    ("but for", "except"),
    ("taken for", "treated as, mistaken for"),
    ("comes of", "follows from, results from"),
    ("arithmetic bounds", "compute-bound"),
    ("beside each other", "adjacent, side by side"),
    ("amounts to", "is, equals"),
    ("next to nothing", "give the figure"),
    ("alarm", "assertion, error flag"),
    ("alarms", "assertions, error flags"),
    ("come to", "reach, result in, yield; a row is copied to a device"),
    ("comes to", "reaches, results in, yields; a row is copied to a device"),
];

/// A banned word in a text.
pub struct Hit {
    pub line: usize,
    pub word: &'static str,
    pub better: &'static str,
}

/// The banned words in the comments of a source, and in the strings of its code.
pub fn hits_of_source(source: &Source) -> Vec<Hit> {
    let paragraphs = paragraphs(&source.lexed.comments);
    let strings = source.lexed.strings.iter().filter(|_| !source.is_test);
    paragraphs.iter().chain(strings).flat_map(|text| hits(&text.text, text.line)).collect()
}

/// Comments on successive lines as one text, so that a line break does not hide a word.
fn paragraphs(comments: &[Text]) -> Vec<Text> {
    let mut paragraphs: Vec<Text> = Vec::new();
    for comment in comments {
        match paragraphs.last_mut() {
            Some(last) if last.end + 1 == comment.line => {
                last.text = format!("{}\n{}", last.text, comment.text);
                last.end = comment.end;
            }
            _ => paragraphs.push(comment.clone()),
        }
    }
    paragraphs
}

/// The banned words in a text whose first line has this number. Code in backticks does not count.
pub fn hits(text: &str, first_line: usize) -> Vec<Hit> {
    let words = words(text, first_line);
    let mut hits = Vec::new();
    for &(word, better) in BANNED {
        let parts: Vec<&str> = word.split(' ').collect();
        for window in words.windows(parts.len()) {
            if window.iter().zip(&parts).all(|((have, _), want)| have == want) {
                hits.push(Hit { line: window[0].1, word, better });
            }
        }
    }
    hits
}

/// The words of a text in lower case with their lines. Code in backticks, which may span lines, is one word.
fn words(text: &str, first_line: usize) -> Vec<(String, usize)> {
    let mut words = Vec::new();
    let mut is_code = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim_start().trim_start_matches(['/', '!', '*']);
        // An empty line ends a paragraph, and with it code that a stray backtick has opened.
        is_code &= !line.trim().is_empty();
        for (nth, part) in line.split('`').enumerate() {
            if nth > 0 {
                is_code = !is_code;
                words.push(("`".to_string(), first_line + i));
            }
            if !is_code {
                words.extend(words_of(part).map(|word| (word, first_line + i)));
            }
        }
    }
    words
}

fn words_of(text: &str) -> impl Iterator<Item = String> {
    // Punctuation ends a phrase: it stays as a word of its own.
    let spaced = text.to_lowercase().replace(['.', ',', ';', ':', '(', ')'], " . ");
    let split = spaced.split(|c: char| !c.is_alphanumeric() && c != '.' && c != '_');
    split.filter(|word| !word.is_empty()).map(String::from).collect::<Vec<_>>().into_iter()
}
