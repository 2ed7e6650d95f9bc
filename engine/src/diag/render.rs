//! Diagnostics as text.

use super::diagnostic::{Diagnostic, Severity};
use super::legible;
use super::sources::{FileId, Sources, Span};
use codespan_reporting::diagnostic as codespan;
use codespan_reporting::files::Files;
use codespan_reporting::term::{self, DisplayStyle, termcolor};

/// Whether rendered text has ANSI colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// No colours: for files, pipes and golden tests.
    Plain,
    /// With ANSI colours.
    Coloured,
}

/// Longer source lines are not shown. A program wrote such a file, and its user cannot read the line.
const LONGEST_LINE: usize = 400;

/// Limits in bytes for the parts of a diagnostic. With file names, the parts stay below [`legible::MOST_BYTES`].
const LONGEST_MESSAGE: usize = 1200;

const LONGEST_HELP: usize = 600;

const LONGEST_REMARK: usize = 200;

const MOST_LABELS: usize = 8;

/// The diagnostic with each part cut to its limit. Of many places, the first ones and the last one remain: the fault, and
/// the outermost call that leads to it.
fn bounded(diagnostic: &Diagnostic) -> Diagnostic {
    let remark = |(span, remark): &(Span, String)| (*span, legible::message(remark, LONGEST_REMARK));
    let (first, rest) = diagnostic.labels.split_at(diagnostic.labels.len().min(MOST_LABELS - 1));
    Diagnostic {
        message: legible::message(&diagnostic.message, LONGEST_MESSAGE),
        labels: first.iter().chain(rest.last()).map(remark).collect(),
        help: diagnostic.help.as_ref().map(|help| legible::message(help, LONGEST_HELP)),
        ..*diagnostic
    }
}

/// The text of a diagnostic.
pub fn render(sources: &Sources, diagnostic: &Diagnostic, look: Look) -> String {
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
