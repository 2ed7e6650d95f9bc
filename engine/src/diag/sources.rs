//! Source texts and places in them.

use super::legible;
use crate::work::steps;
use codespan_reporting::files::{self, Files};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A file of the [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

impl FileId {
    /// Library number `index`, which has one number in all [`Sources`].
    fn of_library(index: usize) -> FileId {
        FileId(u32::MAX - index as u32)
    }

    fn library(self) -> usize {
        (u32::MAX - self.0) as usize
    }

    /// Whether the text is a library's.
    pub(crate) fn is_library(self) -> bool {
        self.0 > u32::MAX / 2
    }
}

/// A range of bytes in a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end` of a file. Offsets that no file can have are clamped.
    pub fn new(file: FileId, start: usize, end: usize) -> Span {
        let clamp = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        Span { file, start: clamp(start), end: clamp(end) }
    }

    /// From the start of this span to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { file: self.file, start: self.start, end: last.end.max(self.start) }
    }

    /// The empty span just behind this one.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// A value and where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spanned<T> {
    /// The place.
    pub span: Span,
    /// The value.
    pub value: T,
}

impl<T> Spanned<T> {
    /// A value at a place.
    pub fn new(span: Span, value: T) -> Spanned<T> {
        Spanned { span, value }
    }
}

impl<T> std::ops::Deref for Spanned<T> {
    type Target = T;
    fn deref(&self) -> &T {
        steps(1);
        &self.value
    }
}

/// All source texts of a run, by name.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    /// Texts that a registry brings along, such as the standard layers.
    libraries: Vec<Arc<SourceFile>>,
}

/// A text with its name, and what errors show of it.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    name: String,
    text: String,
    /// Name and text as they are shown. The shown text is `None` if the text is shown unchanged.
    shown_name: String,
    shown_text: Option<String>,
    line_starts: Vec<usize>,
}

impl SourceFile {
    pub(crate) fn new(name: String, text: String) -> SourceFile {
        let shown_text = match legible::source_text(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(shown) => Some(shown),
        };
        let line_starts = files::line_starts(&text).collect();
        SourceFile { shown_name: legible::file_name(&name), name, text, shown_text, line_starts }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Sources {
    /// No files yet.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Adds a text; `name` is what errors call it, usually its path.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        self.files.push(SourceFile::new(name.into(), text.into()));
        FileId((self.files.len() - 1) as u32)
    }

    /// Adds the next library. Libraries are added in one order everywhere, so their spans are valid in all sources.
    pub(crate) fn add_library(&mut self, library: Arc<SourceFile>) -> FileId {
        self.libraries.push(library);
        FileId::of_library(self.libraries.len() - 1)
    }

    /// The number of libraries.
    pub(crate) fn n_libraries(&self) -> usize {
        self.libraries.len()
    }

    /// The libraries, in order.
    pub(crate) fn library_ids(&self) -> impl Iterator<Item = FileId> {
        (0..self.libraries.len()).map(FileId::of_library)
    }

    /// The spaces before a place, as far as the line has nothing else there.
    pub(crate) fn indentation(&self, span: Span) -> &str {
        let before = &self.text(span.file)[..self.range(span).start];
        let line = &before[before.rfind('\n').map_or(0, |end| end + 1)..];
        if line.trim().is_empty() { line } else { "" }
    }

    /// The name of a file.
    pub fn name(&self, file: FileId) -> &str {
        &self.file(file).name
    }

    /// The text of a file.
    pub fn text(&self, file: FileId) -> &str {
        &self.file(file).text
    }

    /// The text at a place. A span that leaves the file is shortened.
    pub fn slice(&self, span: Span) -> &str {
        &self.text(span.file)[self.range(span)]
    }

    /// `graphs/mnist.ron:9:50`: file, line and column, counted from 1, of the first character of a span.
    pub fn place(&self, span: Span) -> String {
        let location = self.location(span.file, self.range(span).start);
        let (line, column) = location.map_or((1, 1), |l| (l.line_number, l.column_number));
        format!("{}:{line}:{column}", self.file(span.file).shown_name)
    }

    fn file(&self, file: FileId) -> &SourceFile {
        if file.is_library() { &self.libraries[file.library()] } else { &self.files[file.0 as usize] }
    }

    /// The span as offsets that are valid for slicing the text, even if the span lies outside it.
    fn range(&self, span: Span) -> Range<usize> {
        let text = self.text(span.file);
        let start = text.floor_char_boundary(span.start as usize);
        let end = text.floor_char_boundary(span.end as usize);
        start..end.max(start)
    }

    /// The part of a span that lies on its first line, since carets under a whole block hide it.
    pub(super) fn first_line(&self, span: Span) -> Range<usize> {
        let range = self.range(span);
        let line = &self.text(span.file)[range.clone()];
        let len = line.find(['\n', '\r']).unwrap_or(line.len());
        range.start..range.start + len
    }
}

impl<'a> Files<'a> for Sources {
    type FileId = FileId;
    type Name = &'a str;
    type Source = &'a str;

    fn name(&'a self, file: FileId) -> Result<&'a str, files::Error> {
        Ok(&self.file(file).shown_name)
    }

    fn source(&'a self, file: FileId) -> Result<&'a str, files::Error> {
        let SourceFile { text, shown_text, .. } = self.file(file);
        Ok(shown_text.as_ref().unwrap_or(text))
    }

    fn line_index(&'a self, file: FileId, byte: usize) -> Result<usize, files::Error> {
        Ok(self.file(file).line_starts.partition_point(|&start| start <= byte).saturating_sub(1))
    }

    fn line_range(&'a self, file: FileId, line: usize) -> Result<Range<usize>, files::Error> {
        let SourceFile { text, line_starts, .. } = self.file(file);
        let max = line_starts.len().saturating_sub(1);
        let start = *line_starts.get(line).ok_or(files::Error::LineTooLarge { given: line, max })?;
        Ok(start..line_starts.get(line + 1).copied().unwrap_or(text.len()))
    }
}
