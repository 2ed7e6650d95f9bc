//! Diagnostics: errors and warnings with places in source files.
//!
//! A [`Diagnostic`] is plain data. [`Diagnostics::render`] turns it into text: it escapes terminal commands and cuts
//! long texts. Messages are lower case without a full stop, use the file's own names, and give one concrete fix as
//! help.

pub mod legible;

use crate::work::steps;
use codespan_reporting::diagnostic as codespan;
use codespan_reporting::files::{self, Files};
use codespan_reporting::term::{self, DisplayStyle, termcolor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A file of the [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(u32);

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
}

#[derive(Clone, Debug)]
struct SourceFile {
    name: String,
    text: String,
    /// Name and text as they are shown. The shown text is `None` if the text is shown unchanged.
    shown_name: String,
    shown_text: Option<String>,
    line_starts: Vec<usize>,
}

impl Sources {
    /// No files yet.
    pub fn new() -> Sources {
        Sources::default()
    }

    /// Adds a text; `name` is what errors call it, usually its path.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileId {
        let (name, text) = (name.into(), text.into());
        let line_starts = files::line_starts(&text).collect();
        let shown_text = match legible::source_text(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(shown) => Some(shown),
        };
        self.files.push(SourceFile {
            shown_name: legible::file_name(&name),
            name,
            text,
            shown_text,
            line_starts,
        });
        FileId((self.files.len() - 1) as u32)
    }

    /// Adds the bytes of a file. Bytes that are not UTF-8 are reported ([`Code::E0001`]) and replaced.
    pub fn add_bytes(&mut self, name: impl Into<String>, bytes: Vec<u8>, diags: &mut Diagnostics) -> FileId {
        let fault = match String::from_utf8(bytes) {
            Ok(text) => return self.add(name, text),
            Err(fault) => fault,
        };
        let at = fault.utf8_error().valid_up_to();
        let file = self.add(name, String::from_utf8_lossy(fault.as_bytes()));
        diags
            .error(Code::E0001, Span::new(file, at, at), "the file is not UTF-8 text")
            .here(format!("byte {at} starts no character"))
            .help("save the file in UTF-8");
        file
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
        &self.files[file.0 as usize]
    }

    /// The span as offsets that are valid for slicing the text, even if the span lies outside it.
    fn range(&self, span: Span) -> Range<usize> {
        let text = self.text(span.file);
        let start = text.floor_char_boundary(span.start as usize);
        let end = text.floor_char_boundary(span.end as usize);
        start..end.max(start)
    }

    /// The part of a span that lies on its first line, since carets under a whole block hide it.
    fn first_line(&self, span: Span) -> Range<usize> {
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

/// Whether a diagnostic keeps the pipeline from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The pipeline cannot run.
    Error,
    /// The pipeline runs, but probably not as meant.
    Warning,
}

macro_rules! codes {
    ($($code:ident $title:literal)*) => {
        /// A stable number for a kind of error. The page `docs/errors/E….md` explains each with an example.
        ///
        /// `E00xx` syntax, `E01xx` names, types and shapes, `E02xx` structure of the pipeline, `E03xx` structure of
        /// the graph, `E04xx` functions and plugins, `E05xx` data and checkpoints, `E06xx` while running.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $title] $code,)*
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &[Code] = &[$(Code::$code),*];

            /// One line that describes the error.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$code => $title,)* }
            }

            /// `E0102`
            pub const fn name(self) -> &'static str {
                match self { $(Code::$code => stringify!($code),)* }
            }
        }
    };
}

codes! {
    E0001 "the file is not text"
    E0002 "something else was expected here"
    E0003 "a bracket, string or comment is not closed"
    E0004 "malformed string or character"
    E0005 "malformed number"
    E0006 "nested too deeply"
    E0007 "unknown extension of the file format"
    E0008 "malformed expression"
    E0009 "malformed type"
    E0010 "a value of the wrong kind"
    E0011 "a field is missing"
    E0012 "unknown field"
    E0013 "a field or key is given twice"
    E0014 "unknown choice"
    E0015 "a number out of range"
    E0016 "this cannot be a name"

    E0101 "unknown name"
    E0102 "shapes do not broadcast"
    E0103 "element types do not agree"
    E0104 "an operand of the wrong type or shape"
    E0105 "unknown op"
    E0106 "wrong number of operands"
    E0107 "unknown attribute"
    E0108 "an attribute of the wrong kind"
    E0109 "an attribute is missing"
    E0110 "the declared type is not the type of the value"
    E0111 "unknown element type"
    E0112 "an extent cannot be determined"
    E0113 "the op has no such result"
    E0114 "a number does not fit its element type"
    E0115 "no gradient passes through"
    E0116 "a tensor is too large"

    E0201 "unknown kind of stage"
    E0202 "unknown data source"
    E0203 "unknown field or split of a data source"
    E0204 "malformed parameter"
    E0205 "a stage needs a scalar"
    E0206 "malformed update of state"
    E0207 "unknown optimizer"
    E0208 "no such setting"
    E0209 "the better direction of a metric is not known"
    E0210 "two results go to one file"
    E0211 "a stage and the graph do not fit"

    E0301 "nodes depend on each other in a circle"
    E0302 "a name is defined twice"
    E0303 "a node is never used"

    E0401 "malformed function"
    E0402 "a function calls itself"
    E0403 "a plugin file may define functions only"

    E0501 "data cannot be found"
    E0502 "a data file is broken"
    E0503 "a checkpoint cannot be read"
    E0504 "a checkpoint does not match the graph"
    E0505 "a file cannot be written"
    E0506 "rows do not fit the graph"

    E0601 "an index is out of range"
    E0603 "the device is not available"
    E0604 "out of memory"
    E0605 "an integer is divided by zero"
    E0606 "the loss is not finite"
    E0607 "a node makes a NaN or an infinity"
    E0608 "a kernel does not compile"
    E0609 "the device was lost"
    E0610 "the device cannot run a kernel"
    E0611 "a metric is not finite"
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One error or warning with its places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of fault.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The fact: lower case, no full stop.
    pub message: String,
    /// Places with a remark each. The first is the main place.
    pub labels: Vec<(Span, String)>,
    /// One concrete fix.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place yet.
    pub fn error(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, severity: Severity::Error, message: message.into(), labels: vec![], help: None }
    }

    /// A warning without a place yet.
    pub fn warning(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message) }
    }

    /// Adds a place with a remark. The first place is the main place.
    pub fn at(mut self, span: Span, remark: impl Into<String>) -> Diagnostic {
        self.also(span, remark);
        self
    }

    /// Sets the remark at the main place.
    pub fn here(&mut self, remark: impl Into<String>) -> &mut Diagnostic {
        if let Some((_, text)) = self.labels.first_mut() {
            *text = remark.into();
        }
        self
    }

    /// Adds one more place with a remark.
    pub fn also(&mut self, span: Span, remark: impl Into<String>) -> &mut Diagnostic {
        self.labels.push((span, remark.into()));
        self
    }

    /// Sets the help: one concrete fix.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// The main place, by which diagnostics are sorted. Diagnostics without a place come first.
    fn place(&self) -> Option<Span> {
        self.labels.first().map(|(span, _)| *span)
    }
}

/// The maximum number of errors, and of warnings, that are kept. Further ones are only counted.
pub const MAX_SHOWN: usize = 50;

/// Whether rendered text has ANSI colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// No colours: for files, pipes and golden tests.
    Plain,
    /// With ANSI colours.
    Coloured,
}

/// A list of diagnostics. Front-end passes add to it and continue.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    n_errors: usize,
    n_warnings: usize,
    /// The latest diagnostic beyond the limit, so that its caller can still add remarks to it.
    spilled: Option<Box<Diagnostic>>,
}

impl Diagnostics {
    /// An empty list.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds an error. The caller can add remarks and help to the result.
    pub fn error(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::error(code, message).at(span, ""))
    }

    /// Adds a warning. The caller can add remarks and help to the result.
    pub fn warning(&mut self, code: Code, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.push(Diagnostic::warning(code, message).at(span, ""))
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.n_errors,
            Severity::Warning => &mut self.n_warnings,
        };
        *count += 1;
        if *count > MAX_SHOWN {
            return self.spilled.insert(Box::new(diagnostic));
        }
        let last = self.kept.len();
        self.kept.push(diagnostic);
        &mut self.kept[last]
    }

    /// Whether the list has an error, so that the pipeline cannot run.
    pub fn has_errors(&self) -> bool {
        self.n_errors > 0
    }

    /// Number of errors, shown or not.
    pub fn n_errors(&self) -> usize {
        self.n_errors
    }

    /// Number of warnings, shown or not.
    pub fn n_warnings(&self) -> usize {
        self.n_warnings
    }

    /// Whether further errors are only counted. Callers then skip the search for a good hint.
    pub fn is_full(&self) -> bool {
        self.n_errors >= MAX_SHOWN
    }

    /// The kept diagnostics, sorted by place.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<_> = self.kept.iter().collect();
        sorted.sort_by_key(|diagnostic| diagnostic.place());
        sorted
    }

    /// The text for the user: each diagnostic with its source lines, sorted by place, then the number of further ones.
    pub fn render(&self, sources: &Sources, look: Look) -> String {
        let shown: Vec<_> =
            self.sorted().into_iter().map(|diagnostic| render(sources, diagnostic, look)).collect();
        let mut text = shown.join("\n");
        for (n, noun) in [(self.n_errors, "error"), (self.n_warnings, "warning")] {
            if let Some(more @ 1..) = n.checked_sub(MAX_SHOWN) {
                let plural = if more == 1 { "" } else { "s" };
                text += &format!("\n… and {more} more {noun}{plural}\n");
            }
        }
        text
    }
}

/// The candidate that `name` was probably meant to be: equal except for case, or a few edits away.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 64;
    let name = name.to_lowercase();
    let allowed = (name.len() / 3).clamp(1, 4);
    let close = |candidate: &str| {
        let plausible = candidate.len() <= LONGEST && candidate.len().abs_diff(name.len()) <= allowed;
        plausible.then(|| strsim::osa_distance(&name, &candidate.to_lowercase()))
    };
    let known = candidates.into_iter().inspect(|_| steps(1)).filter(|_| name.len() <= LONGEST);
    let scored = known.filter_map(|candidate| close(candidate).map(|edits| (edits, candidate)));
    scored
        .filter(|(edits, _)| *edits <= allowed)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Longer source lines are not shown. A program wrote such a file, and its user cannot read the line.
const LONGEST_LINE: usize = 400;

/// Limits in bytes for the parts of a diagnostic. With file names, the parts stay below [`legible::MOST_BYTES`].
const LONGEST_MESSAGE: usize = 1200;
const LONGEST_HELP: usize = 600;
const LONGEST_REMARK: usize = 200;
const MOST_LABELS: usize = 5;

/// The diagnostic with each part cut to its limit.
fn bounded(diagnostic: &Diagnostic) -> Diagnostic {
    let remark = |(span, remark): &(Span, String)| (*span, legible::message(remark, LONGEST_REMARK));
    Diagnostic {
        message: legible::message(&diagnostic.message, LONGEST_MESSAGE),
        labels: diagnostic.labels.iter().take(MOST_LABELS).map(remark).collect(),
        help: diagnostic.help.as_ref().map(|help| legible::message(help, LONGEST_HELP)),
        ..*diagnostic
    }
}

fn render(sources: &Sources, diagnostic: &Diagnostic, look: Look) -> String {
    let diagnostic = bounded(diagnostic);
    let shows_lines = diagnostic.labels.iter().all(|(span, _)| line_len(sources, *span) <= LONGEST_LINE);
    let text = render_as(sources, &diagnostic, look, shows_lines);
    match text.len() <= legible::MOST_BYTES {
        true => text,
        false => cut_to_lines(render_as(sources, &diagnostic, look, false), look),
    }
}

/// As many whole lines as fit [`legible::MOST_BYTES`]. Each line of a note is indented, so a note of many short lines
/// grows.
fn cut_to_lines(text: String, look: Look) -> String {
    let rest = match look {
        Look::Plain => "\n…\n",
        Look::Coloured => "\u{1b}[0m\n…\n",
    };
    if text.len() <= legible::MOST_BYTES {
        return text;
    }
    let most = legible::MOST_BYTES - rest.len();
    let ends = text.match_indices('\n').map(|(end, _)| end);
    let end = ends.take_while(|&end| end <= most).last().unwrap_or(0);
    text[..end].to_owned() + rest
}

fn render_as(sources: &Sources, diagnostic: &Diagnostic, look: Look, shows_lines: bool) -> String {
    let config = term::Config {
        display_style: if shows_lines { DisplayStyle::Rich } else { DisplayStyle::Medium },
        ..term::Config::default()
    };
    let diagnostic = to_codespan(sources, diagnostic, shows_lines);
    let text = match look {
        Look::Plain => term::emit_into_string(&config, sources, &diagnostic),
        Look::Coloured => {
            let mut ansi = termcolor::Ansi::new(vec![]);
            term::emit_to_write_style(&mut ansi, &config, sources, &diagnostic)
                .map(|()| String::from_utf8_lossy(&ansi.into_inner()).into_owned())
        }
    };
    let text = text.unwrap_or_else(|e| crate::bug!("a diagnostic cannot be shown: {e}"));
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned() + "\n"
}

fn line_len(sources: &Sources, span: Span) -> usize {
    let line = sources.line_index(span.file, span.start as usize);
    line.and_then(|line| sources.line_range(span.file, line)).map_or(0, |range| range.len())
}

/// Converts a diagnostic. Remarks become notes if their source lines are not shown.
fn to_codespan(sources: &Sources, d: &Diagnostic, shows_lines: bool) -> codespan::Diagnostic<FileId> {
    let severity = match d.severity {
        Severity::Error => codespan::Severity::Error,
        Severity::Warning => codespan::Severity::Warning,
    };
    let label = |(i, (span, remark)): (usize, &(Span, String))| {
        let style = if i == 0 { codespan::LabelStyle::Primary } else { codespan::LabelStyle::Secondary };
        let text = if shows_lines { remark.as_str() } else { "" };
        codespan::Label::new(style, span.file, sources.first_line(*span)).with_message(text)
    };
    let remarks = d.labels.iter().filter(|(_, remark)| !shows_lines && !remark.is_empty());
    let remarks = remarks.map(|(span, remark)| format!("{}: {remark}", sources.place(*span)));
    let help = d.help.iter().map(|help| format!("help: {help}"));
    codespan::Diagnostic::new(severity)
        .with_code(d.code.name())
        .with_message(&d.message)
        .with_labels(d.labels.iter().enumerate().map(label).collect())
        .with_notes(remarks.chain(help).collect())
}

#[cfg(test)]
mod tests;
