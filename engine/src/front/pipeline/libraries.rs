//! Libraries: texts of functions and layers that a registry brings along.

use super::dims::Dims;
use super::functions::{Functions, register_later};
use crate::diag::{Code, Diagnostics, SourceFile, Sources, Span, Spanned};
use crate::front::{Ron, RonKind, entries, parse_ron};
use crate::op::{Form, Registry};
use std::sync::Arc;

/// A text `(functions: {…})` whose functions and layers every pipeline can call. A pipeline may define a layer of the same
/// name, which then takes its place.
struct Library(Arc<SourceFile>);

impl Form for Library {
    const SET: &'static str = "library";

    fn name(&self) -> &str {
        self.0.name()
    }
}

/// Adds the functions and layers of a text `(functions: {…})` to the registry. `name` is what errors call the text.
///
/// Its errors go to `diags`. A text with an error is not added.
pub fn add_library(
    sources: &mut Sources,
    registry: &mut Registry,
    (name, text): (&str, &str),
    diags: &mut Diagnostics,
) {
    add_libraries(registry, sources);
    let library = Arc::new(SourceFile::new(name.to_owned(), text.to_owned()));
    let file = sources.add_library(library.clone());
    let root = parse_ron(file, text, diags);
    let mut extended = registry.clone();
    if !root.is_error() {
        read_plugin(&root, &mut Functions::default(), &mut extended, diags);
    }
    if !diags.has_errors() {
        *registry = extended;
        registry.register(Library(library));
    }
}

/// Adds the functions and layers of a text that is known to be sound, such as the standard layers. Each follows those that it
/// calls, and is read when it is first asked for.
///
/// # Panics
/// If the text is no RON. A fault of a function panics when the function is asked for.
pub fn add_sound_library(registry: &mut Registry, (name, text): (&str, &str)) {
    let mut sources = Sources::new();
    add_libraries(registry, &mut sources);
    let library = Arc::new(SourceFile::new(name.to_owned(), text.to_owned()));
    let mut diags = Diagnostics::new();
    let root = parse_ron(sources.add_library(library.clone()), text, &mut diags);
    if diags.has_errors() {
        crate::bug!("the library `{name}`: {diags:?}");
    }
    for (name, value) in functions_of(root) {
        register_later(name, value, registry);
    }
    registry.register(Library(library));
}

/// The functions of a text `(functions: {…})`.
fn functions_of(root: Ron) -> Vec<(Spanned<String>, Ron)> {
    let RonKind::Struct { fields, .. } = root.kind else { return vec![] };
    let maps = fields.into_iter().filter_map(|(_, value)| match value.kind {
        RonKind::Map(entries) => Some(entries),
        _ => None,
    });
    let named = maps.flatten().filter_map(|(key, value)| match key.kind {
        RonKind::Str(text) => Some((Spanned::new(key.span, text.value), value)),
        _ => None,
    });
    named.collect()
}

/// Adds the texts of libraries, so that errors can show them.
pub(super) fn add_libraries(registry: &Registry, sources: &mut Sources) {
    for library in registry.forms::<Library>().skip(sources.n_libraries()) {
        sources.add_library(library.0.clone());
    }
}

/// A file given with `--plugin`: `(functions: {…})`.
pub(super) fn read_plugin(
    root: &Ron,
    functions: &mut Functions,
    registry: &mut Registry,
    diags: &mut Diagnostics,
) {
    let written = entries(root, "a plugin file", diags).unwrap_or_default();
    for (name, value) in written {
        if name.value == "functions" {
            functions.define(value, &Dims::new(), registry, diags);
        } else {
            diags
                .error(Code::E0403, name.span, format!("a plugin file cannot define `{}`", name.value))
                .help("it holds `functions: {…}` alone; the rest belongs into the pipeline");
        }
    }
}

/// The definition of a function or layer of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryText {
    /// The name of the library, and the line of the definition, counted from 1.
    pub place: String,
    /// The definition as written: name, colon and value, without the indentation of its first line.
    pub text: String,
}

/// The definition of the function of that name in the last library that has one.
pub fn library_text(registry: &Registry, name: &str) -> Option<LibraryText> {
    let mut sources = Sources::new();
    add_libraries(registry, &mut sources);
    let defined = sources.library_ids().filter_map(|file| {
        let root = parse_ron(file, sources.text(file), &mut Diagnostics::new());
        let (key, value) = entry(entry(&root, "functions")?.1, name)?;
        Some(LibraryText {
            place: sources.place(key).rsplit_once(':')?.0.to_owned(),
            text: outdented(sources.slice(key.to(value.span)), sources.indentation(key)),
        })
    });
    defined.last()
}

fn entry<'r>(value: &'r Ron, name: &str) -> Option<(Span, &'r Ron)> {
    match &value.kind {
        RonKind::Struct { fields, .. } => {
            fields.iter().find(|(key, _)| key.value == name).map(|(key, value)| (key.span, value))
        }
        RonKind::Map(entries) => entries
            .iter()
            .find(|(key, _)| matches!(&key.kind, RonKind::Str(text) if text.value == name))
            .map(|(key, value)| (key.span, value)),
        _ => None,
    }
}

/// The lines of a text without the indentation that its first line has.
fn outdented(text: &str, indentation: &str) -> String {
    let lines = text.lines().map(|line| line.strip_prefix(indentation).unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}
