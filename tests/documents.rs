#![allow(clippy::unwrap_used, missing_docs)]
//! The documents match the program.

#[path = "documents/coverage.rs"]
mod coverage;

use engine_core::diag::{Code, Diagnostics, Look, Sources};
use engine_core::front::load;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Codes that neither a pipeline file nor a run of it can show.
const WITHOUT_EXAMPLE: &[Code] = &[Code::E0115, Code::E0608, Code::E0609, Code::E0610];

#[test]
fn every_code_has_a_page_that_shows_its_message() {
    for &code in Code::ALL {
        let path = root().join(format!("docs/errors/{code}.md"));
        let page = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let title = format!("# {code}: {}\n", code.title());
        assert!(page.starts_with(&title), "{} must start with {title}", path.display());
        let sections = page.split("\n## ");
        let n_shown = sections.filter(|section| check_example(&path, section, code)).count();
        assert!(n_shown > 0 || WITHOUT_EXAMPLE.contains(&code), "{} shows nothing", path.display());
    }
}

/// Checks the example of a page's section, if there is one: its message must be the one on the page.
fn check_example(path: &Path, section: &str, code: Code) -> bool {
    match (block(section, "ron"), block(section, "sh")) {
        (file, Some(script)) => compare(path, section, code, &said(file, script)),
        (Some(file), None) => compare(path, section, code, &shown(file, section)),
        (None, None) => return false,
    }
    true
}

#[test]
fn no_page_is_about_a_code_that_is_not_there() {
    let known: Vec<String> = Code::ALL.iter().map(|code| format!("{code}.md")).collect();
    for page in fs::read_dir(root().join("docs/errors")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "docs/errors/{name}");
    }
}

#[test]
fn examples_of_the_format_are_sound() {
    let pages = ["docs/graph-format.md", "docs/retrieval.md"];
    let pages = pages.map(|page| fs::read_to_string(root().join(page)).unwrap());
    let examples: Vec<&str> = pages
        .iter()
        .flat_map(|page| page.split("```ron\n").skip(1).map(|rest| rest.split("```").next().unwrap()))
        .collect();
    assert!(examples.len() >= 6);
    for example in examples {
        assert_eq!(load_text(example, None, &[]).0, "", "{example}");
    }
}

#[test]
fn shipped_graphs_are_sound() {
    for entry in fs::read_dir(root().join("graphs")).unwrap() {
        let path = entry.unwrap().path();
        let (faults, has_errors) = load_text(&fs::read_to_string(&path).unwrap(), None, &[]);
        assert!(!has_errors, "{}:\n{faults}", path.display());
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The content of the first fenced block of that kind.
fn block<'p>(page: &'p str, kind: &str) -> Option<&'p str> {
    let (_, rest) = page.split_once(&format!("```{kind}\n"))?;
    rest.split_once("```").map(|(content, _)| content)
}

/// The messages for the faulty file of a page, with the plugin file and the overrides of the page.
fn shown(file: &str, page: &str) -> String {
    let overrides: Vec<(String, String)> = block(page, "set")
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.trim_start_matches("--set ").split_once('='))
        .map(|(path, value)| (path.to_owned(), value.to_owned()))
        .collect();
    load_text(file, block(page, "ron plugin"), &overrides).0
}

/// The standard error of a page's commands, run next to its file `graph.ron`. They end in a failure.
fn said(file: Option<&str>, script: &str) -> String {
    let desk = tempfile::tempdir().unwrap();
    if let Some(file) = file {
        fs::write(desk.path().join("graph.ron"), file).unwrap();
    }
    let engine = Path::new(env!("CARGO_BIN_EXE_engine")).parent().unwrap();
    let path = format!("{}:{}", engine.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(desk.path()).env("PATH", path);
    let ended = command.env("ENGINE_OFFLINE", "1").env_remove("ENGINE_DATA_DIR").output().unwrap();
    assert!(!ended.status.success(), "{script} succeeds");
    String::from_utf8(ended.stderr).unwrap()
}

/// The messages for a file, and whether it is refused.
fn load_text(text: &str, plugin: Option<&str>, overrides: &[(String, String)]) -> (String, bool) {
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let mut registry = engine::Engine::new().registry;
    let plugins: Vec<_> = plugin.into_iter().map(|text| sources.add("plugin.ron", text)).collect();
    let file = sources.add("graph.ron", text);
    let pipeline = load(&mut sources, file, &mut registry, overrides, &plugins, &mut diags);
    assert_eq!(pipeline.is_none(), diags.has_errors());
    (diags.render(&sources, Look::Plain), pipeline.is_none())
}

/// Whether a message is that of the page, where `…` stands for parts that depend on the machine.
fn is_like(page: &str, message: &str) -> bool {
    let mut parts = page.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = message.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Compares the message of a section; `UPDATE_EXPECT=1` writes it there instead.
fn compare(path: &Path, section: &str, code: Code, message: &str) {
    assert!(message.contains(&format!("[{code}]")), "the file of {} gives:\n{message}", path.display());
    let on_page = block(section, "text").unwrap_or_else(|| panic!("{} shows no message", path.display()));
    if is_like(on_page, message) {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let updated =
            section.replacen(&format!("```text\n{on_page}```"), &format!("```text\n{message}```"), 1);
        let page = fs::read_to_string(path).unwrap();
        fs::write(path, page.replacen(section, &updated, 1)).unwrap();
        return;
    }
    panic!("{} shows\n{on_page}\ninstead of\n{message}\nUPDATE_EXPECT=1 corrects it", path.display());
}

/// The text of a whole language model, its data and its stages.
#[test]
fn the_graph_of_a_gpt_is_short() {
    let text = fs::read_to_string(root().join("graphs/gpt.ron")).unwrap();
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(text.lines().count() <= 60 && longest <= Some(100), "{longest:?}");
}
