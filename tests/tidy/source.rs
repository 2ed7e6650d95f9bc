//! The sources and documents of the project, parsed as far as the rules need.

use crate::lexer::{Lexed, Token, end_of_item, lex};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A Rust source.
pub struct Source {
    /// Relative to the root of the project.
    pub path: String,
    pub n_lines: usize,
    pub lexed: Lexed,
    /// Whether it belongs to tests alone.
    pub is_test: bool,
}

/// A function and its length in lines, from `fn` to the closing brace.
pub struct Function {
    pub name: String,
    pub line: usize,
    pub n_lines: usize,
}

const FOLDERS: &[&str] = &["engine", "examples", "numerics", "onnx", "plugins", "runtime", "src", "tests"];

/// All Rust sources of the project, by path.
pub fn sources() -> Vec<Source> {
    let mut paths = FOLDERS.iter().flat_map(|folder| files(folder, "rs")).collect::<Vec<_>>();
    paths.sort();
    let mut sources: Vec<Source> = paths.into_iter().map(read_source).collect();
    let tests: BTreeSet<String> = sources.iter().flat_map(test_modules).collect();
    for source in &mut sources {
        let module = module_path(&source.path);
        source.is_test |= tests.iter().any(|test| module == *test || module.starts_with(&format!("{test}/")));
    }
    sources
}

/// Markdown documents of the project: path and text.
pub fn documents() -> Vec<(String, String)> {
    let at_root = files_of(".").into_iter().filter(|path| path.ends_with(".md"));
    let mut paths: Vec<String> = at_root.map(|path| path.trim_start_matches("./").to_string()).collect();
    for folder in FOLDERS.iter().chain(&["benches", "docs", "graphs"]) {
        paths.extend(files(folder, "md"));
    }
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a folder with an extension.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_string()];
    while let Some(folder) = folders.pop() {
        for path in files_of(&folder) {
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if Path::new(&path).extension().is_some_and(|it| it == extension) {
                found.push(path);
            }
        }
    }
    found
}

/// Files and folders in a folder, build outputs and hidden ones left out.
fn files_of(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name != "target" && !name.starts_with('.'))
        .map(|name| format!("{folder}/{name}"))
        .collect()
}

fn read_source(path: String) -> Source {
    let text = read(&path);
    let is_test = path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "benches");
    Source { n_lines: text.lines().count(), lexed: lex(&text), path, is_test }
}

/// The path of a module without `.rs` and `/mod.rs`.
pub fn module_path(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let stem = path.strip_suffix("/mod").or_else(|| path.strip_suffix("/lib")).unwrap_or(path);
    stem.to_string()
}

/// Modules that a source declares for tests alone.
fn test_modules(source: &Source) -> Vec<String> {
    let parent = module_path(&source.path);
    let tokens = &source.lexed.tokens;
    let declared = test_items(tokens).into_iter().filter_map(|(start, end)| {
        let item = &tokens[start..end];
        let at = item.iter().position(|token| token.text == "mod")?;
        (item.last()?.text == ";").then(|| item[at + 1].text.clone())
    });
    declared.map(|name| format!("{parent}/{name}")).collect()
}

/// The items under `#[cfg(test)]`, as ranges of tokens.
fn test_items(tokens: &[Token]) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(end) = end_of_attribute(tokens, at) else {
            at += 1;
            continue;
        };
        if !is_cfg_test(&tokens[at..end]) {
            at = end;
            continue;
        }
        let mut item = end;
        while let Some(next) = end_of_attribute(tokens, item) {
            item = next;
        }
        let end = end_of_item(tokens, item);
        items.push((item, end));
        at = end;
    }
    items
}

/// The token after the attribute that starts here.
fn end_of_attribute(tokens: &[Token], at: usize) -> Option<usize> {
    let is = |i: usize, text: &str| tokens.get(i).is_some_and(|token| token.text == text);
    if !is(at, "#") || !is(at + 1, "[") {
        return None;
    }
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at + 1) {
        match token.text.as_str() {
            "[" => depth += 1,
            "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(i + 1);
        }
    }
    None
}

fn is_cfg_test(attribute: &[Token]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.text == word);
    attribute[2].text == "cfg" && has("test") && !has("not") && !has("any")
}

/// The tokens of a source without its tests.
pub fn product_tokens(source: &Source) -> Vec<Token> {
    let tokens = &source.lexed.tokens;
    let mut kept = Vec::new();
    let mut at = 0;
    for (start, end) in test_items(tokens) {
        kept.extend_from_slice(&tokens[at..start]);
        at = end;
    }
    kept.extend_from_slice(&tokens[at..]);
    kept
}

/// The functions of a source.
pub fn functions(source: &Source) -> Vec<Function> {
    let tokens = &source.lexed.tokens;
    let starts = (1..tokens.len()).filter(|&i| tokens[i - 1].text == "fn" && is_name(&tokens[i].text));
    starts.filter_map(|i| function(tokens, i)).collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The function with this name token; none if it has no body.
fn function(tokens: &[Token], name: usize) -> Option<Function> {
    let mut depth = 0_i32;
    let mut braces = 0;
    for token in &tokens[name + 1..] {
        match token.text.as_str() {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            ";" if depth == 0 && braces == 0 => return None,
            "{" => braces += 1,
            "}" => {
                braces -= 1;
                if braces == 0 && depth == 0 {
                    let line = tokens[name - 1].line;
                    let n_lines = token.line - line + 1;
                    return Some(Function { name: tokens[name].text.clone(), line, n_lines });
                }
            }
            _ => {}
        }
    }
    None
}
