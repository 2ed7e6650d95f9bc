#![allow(clippy::unwrap_used, missing_docs)]
//! Tidiness: the size of files and functions, the imports between modules, and the words of comments and documents.
//!
//! The exceptions are lists in `tests/tidy/exceptions.rs`. An exception that no longer applies fails the test, so the
//! lists only shrink.

#[path = "tidy/exceptions.rs"]
mod exceptions;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/lexer.rs"]
mod lexer;
#[path = "tidy/own_tests.rs"]
mod own_tests;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/words.rs"]
mod words;

use exceptions::{CIRCLES, LONG_FILES, LONG_FUNCTIONS, OLD_WORDS};
use expect_test::expect_file;
use imports::{Crate, circles};
use source::{documents, functions, root, sources};
use std::collections::BTreeSet;
use std::fmt::Write;
use words::{hits, hits_of_source};

const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 60;

#[test]
fn files_have_at_most_500_lines() {
    let long = sources().into_iter().filter(|source| source.n_lines > MAX_FILE_LINES);
    let found = long.map(|source| Offence { key: source.path, fact: format!("{} lines", source.n_lines) });
    check("LONG_FILES", &found.collect::<Vec<_>>(), LONG_FILES);
}

#[test]
fn functions_have_at_most_60_lines() {
    let mut found = Vec::new();
    for source in sources() {
        let long = functions(&source).into_iter().filter(|function| function.n_lines > MAX_FUNCTION_LINES);
        found.extend(long.map(|function| Offence {
            key: format!("{}: {}", source.path, function.name),
            fact: format!("{} lines from line {}", function.n_lines, function.line),
        }));
    }
    check("LONG_FUNCTIONS", &found, LONG_FUNCTIONS);
}

/// The files whose public functions a program calls first.
const ENTRY_POINTS: &[&str] = &[
    "src/lib.rs",
    "src/program.rs",
    "src/import.rs",
    "src/devices.rs",
    "src/cli/mod.rs",
    "src/build/pipeline.rs",
    "src/build/text.rs",
    "runtime/src/session/mod.rs",
    "runtime/src/session/base.rs",
    "runtime/src/session/inference.rs",
    "runtime/src/session/measure.rs",
];

/// Getters need no example, and `Session::new` is what `Engine::session` calls.
#[test]
fn entry_points_have_examples() {
    let mut missing = vec![];
    for path in ENTRY_POINTS {
        let text = std::fs::read_to_string(path).unwrap();
        let mut has_example = false;
        for line in text.lines().map(str::trim) {
            match line {
                _ if line.starts_with("///") => has_example |= line.contains("```"),
                _ if line.starts_with("#[") => {}
                _ => {
                    let is_getter = line.contains("(&self)");
                    if line.starts_with("pub fn ") && !is_getter {
                        missing.extend((!has_example).then(|| format!("{path}: {line}")));
                    }
                    has_example = false;
                }
            }
        }
    }
    assert_eq!(missing, ["runtime/src/session/base.rs: pub fn new("]);
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let mut found = Vec::new();
    for of in crates() {
        for parent in of.parents() {
            let imports = of.imports(&parent);
            let folder = std::iter::once(&of.folder).chain(&parent).cloned().collect::<Vec<_>>().join("/");
            for group in circles(&imports) {
                let within = |name: &String| imports[name].iter().filter(|it| group.contains(it)).cloned();
                let edges = group
                    .iter()
                    .map(|name| format!("{name} -> {}", within(name).collect::<Vec<_>>().join(" ")));
                let fact = format!("imports {}", edges.collect::<Vec<_>>().join(", "));
                found.push(Offence { key: format!("{folder}: {}", group.join(" ")), fact });
            }
        }
    }
    check("CIRCLES", &found, CIRCLES);
}

#[test]
fn imports_are_those_recorded() {
    let mut text = String::new();
    for of in crates() {
        writeln!(text, "{}", of.folder).unwrap();
        for (module, imports) in of.imports(&[]) {
            let imports: Vec<&str> = imports.iter().map(String::as_str).collect();
            let name = if module == "mod" { "lib" } else { &module };
            writeln!(text, "  {name} -> {}", imports.join(" ")).unwrap();
        }
    }
    expect_file!["golden/modules.txt"].assert_eq(&text);
}

#[test]
fn prose_has_no_banned_words() {
    let mut found = Vec::new();
    let mut add = |path: &str, hits: Vec<words::Hit>| {
        found.extend(hits.into_iter().map(|hit| Offence {
            key: path.to_string(),
            fact: format!("line {}: \"{}\"; write: {}", hit.line, hit.word, hit.better),
        }));
    };
    for source in sources() {
        add(&source.path, hits_of_source(&source));
    }
    for (path, text) in documents() {
        add(&path, hits(&text, 1));
    }
    check_prefixes("OLD_WORDS", &found, OLD_WORDS);
}

/// Documents name files of code between backquotes.
#[test]
fn files_that_documents_name_exist() {
    let folders = ["engine/", "numerics/", "onnx/", "runtime/", "plugins/", "src/", "tests/", "examples/"];
    let mut missing = Vec::new();
    for (path, text) in documents() {
        let quoted = text.split('`').skip(1).step_by(2).filter(|name| !name.contains([' ', '*', '\n']));
        let files = quoted
            .filter(|name| name.ends_with(".rs") && folders.iter().any(|folder| name.starts_with(folder)));
        missing
            .extend(files.filter(|file| !root().join(file).is_file()).map(|file| format!("{path}: {file}")));
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// The crates of the project, without their tests.
fn crates() -> Vec<Crate> {
    let sources = sources();
    let folders: BTreeSet<&str> = sources
        .iter()
        .filter_map(|source| source.path.strip_suffix("/lib.rs"))
        .filter(|folder| *folder == "src" || folder.ends_with("/src"))
        .collect();
    folders.into_iter().map(|folder| Crate::new(folder, &sources)).collect()
}

/// A place that breaks a rule.
struct Offence {
    /// What an exception names.
    key: String,
    fact: String,
}

/// Fails with the offences that have no exception, and the exceptions without an offence.
fn check(list: &str, found: &[Offence], exceptions: &[(&str, &str)]) {
    let is_excused = |offence: &&Offence| exceptions.iter().any(|(key, _)| *key == offence.key);
    let new: Vec<&Offence> = found.iter().filter(|offence| !is_excused(offence)).collect();
    let old = exceptions.iter().filter(|(key, _)| !found.iter().any(|offence| offence.key == *key));
    fail_if_any(list, &new, &old.map(|(key, _)| *key).collect::<Vec<_>>());
}

/// The same, where an exception is the beginning of a path.
fn check_prefixes(list: &str, found: &[Offence], exceptions: &[(&str, &str)]) {
    let is_excused =
        |offence: &&Offence| exceptions.iter().any(|(prefix, _)| offence.key.starts_with(prefix));
    let new: Vec<&Offence> = found.iter().filter(|offence| !is_excused(offence)).collect();
    let old =
        exceptions.iter().filter(|(prefix, _)| !found.iter().any(|offence| offence.key.starts_with(prefix)));
    fail_if_any(list, &new, &old.map(|(prefix, _)| *prefix).collect::<Vec<_>>());
}

fn fail_if_any(list: &str, new: &[&Offence], old: &[&str]) {
    let mut message = String::new();
    if !new.is_empty() {
        writeln!(message, "\nMend these (an exception would be a line of {list}, tests/tidy/exceptions.rs):")
            .unwrap();
        for Offence { key, fact } in new {
            writeln!(message, "    (\"{key}\", \"reason\"), // {fact}").unwrap();
        }
    }
    if !old.is_empty() {
        writeln!(message, "\nNo longer needed, remove from {list} in tests/tidy/exceptions.rs:").unwrap();
        old.iter().for_each(|key| writeln!(message, "    (\"{key}\", …),").unwrap());
    }
    assert!(message.is_empty(), "{message}");
}
