//! A string literal's value that remembers where each of its characters is written.

use crate::diag::{FileId, Span};

/// The value of a string in a source file. Offsets into it lead back to the file, past escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The characters, escapes resolved.
    pub value: String,
    file: FileId,
    /// Offset in the file of the first character.
    start: u32,
    /// Where the distance between offsets here and in the file changes, in order.
    jumps: Vec<Jump>,
}

/// From `value` on, characters stand at `source` and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Jump {
    value: u32,
    source: u32,
    /// Whether the file holds characters here that stand for nothing (a line continuation), rather than an escape
    /// that stands for the character before.
    skips: bool,
}

impl Text {
    /// A text without characters yet; they will stand from `start` on.
    pub(crate) fn empty(file: FileId, start: usize) -> Text {
        Text { value: String::new(), file, start: Span::new(file, start, start).start, jumps: vec![] }
    }

    /// A whole file, or the part of a file from `start` on, taken as it stands.
    pub fn verbatim(file: FileId, start: usize, value: impl Into<String>) -> Text {
        Text { value: value.into(), ..Text::empty(file, start) }
    }

    /// Appends characters that stand in the file as they are.
    pub(crate) fn push_str(&mut self, plain: &str) {
        self.value.push_str(plain);
    }

    /// Appends the character of an escape; what follows stands at `source`.
    pub(crate) fn push_escape(&mut self, c: char, source: usize) {
        self.value.push(c);
        self.jump(source, false);
    }

    /// What follows stands at `source`, because the file goes on there.
    pub(crate) fn skip_to(&mut self, source: usize) {
        self.jump(source, true);
    }

    fn jump(&mut self, source: usize, skips: bool) {
        let here = Span::new(self.file, self.value.len(), source);
        self.jumps.push(Jump { value: here.start, source: here.end, skips });
    }

    /// Where the characters `start..end` of the value are written.
    pub fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: self.source_of_start(start), end: self.source_of_end(end.max(start)) }
    }

    /// Where all of it is written, quotes left out.
    pub fn whole(&self) -> Span {
        self.span(0, self.value.len())
    }

    fn source_of_start(&self, at: usize) -> u32 {
        let passed = self.jumps.partition_point(|jump| jump.value as usize <= at);
        self.source_after(passed, at)
    }

    /// The end of a span lies behind the escape of its last character, but before any continuation that follows it.
    fn source_of_end(&self, at: usize) -> u32 {
        let before = self.jumps.partition_point(|jump| (jump.value as usize) < at);
        let escapes = self.jumps[before..].iter().take_while(|j| j.value as usize == at && !j.skips).count();
        self.source_after(before + escapes, at)
    }

    fn source_after(&self, n_jumps: usize, at: usize) -> u32 {
        let (value, source) = match self.jumps[..n_jumps].last() {
            Some(jump) => (jump.value, jump.source),
            None => (0, self.start),
        };
        source.saturating_add((at as u32).saturating_sub(value))
    }
}

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.value
    }
}
