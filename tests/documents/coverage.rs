//! `docs/coverage.md`: for each op, graph, fusion, test and benchmark that the engine should have, what shows it.
//!
//! `tests/coverage.txt` is the source. A line is `NUMBER | DESCRIPTION | EVIDENCE; EVIDENCE; …`. Evidence is one of
//!
//! - `op NAME`: an op, another name of one, or a layer of the registry,
//! - `graph FILE`: a file in `graphs/`,
//! - `test FILE NAME`: a function of that name in a file of tests,
//! - `bench FIGURE: NAME`: a line in `benches/` with that name and, behind it, that figure,
//! - `line FILE: TEXT`: a line of a file with that text,
//! - `retrieval`: a part of search and retrieval, which is built later.
//!
//! A line without such evidence is a gap, and fails a test.

use super::root;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

/// A line of the table.
struct Item<'t> {
    number: &'t str,
    what: &'t str,
    evidence: Vec<&'t str>,
}

/// The sections of the table, with the numbers that each must have.
const SECTIONS: [(&str, &str, u32); 5] =
    [("Ops", "", 158), ("Graphs", "", 21), ("Fusions", "", 22), ("Tests", "T", 28), ("Benchmarks", "B", 14)];

fn table() -> String {
    fs::read_to_string(root().join("tests/coverage.txt")).unwrap()
}

fn sections(table: &str) -> BTreeMap<&str, Vec<Item<'_>>> {
    let mut sections: BTreeMap<&str, Vec<Item>> = BTreeMap::new();
    let mut title = "";
    for line in table.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(next) => title = next,
            None => sections.entry(title).or_default().push(item(line)),
        }
    }
    sections
}

fn item(line: &str) -> Item<'_> {
    let parts: Vec<&str> = line.splitn(3, " | ").collect();
    let [number, what, evidence] = parts[..] else { panic!("`{line}` has no three parts") };
    Item { number, what, evidence: evidence.split("; ").collect() }
}

#[test]
fn the_coverage_has_all_numbers_in_order() {
    let table = table();
    let mut sections = sections(&table);
    for (title, letter, count) in SECTIONS {
        let mut numbers: Vec<&str> = sections[title].iter().map(|item| item.number).collect();
        numbers.dedup();
        let expected: Vec<String> = (1..=count).map(|number| format!("{letter}{number}")).collect();
        assert_eq!(numbers, expected, "{title}");
        sections.remove(title);
    }
    assert!(sections.is_empty(), "unknown sections");
}

#[test]
fn what_the_coverage_names_exists() {
    let table = table();
    let registry = engine::Engine::new().registry;
    let layers = engine_core::front::layers(&registry);
    let is_op = |name: &str| registry.op(name).is_some() || layers.iter().any(|layer| layer.name == name);
    let benches = benches();
    let mut missing = String::new();
    for item in sections(&table).values().flatten() {
        for &evidence in &item.evidence {
            let exists = match evidence.split_once(' ').unwrap_or((evidence, "")) {
                ("op", name) => is_op(name),
                ("graph", file) => root().join("graphs").join(file).is_file(),
                ("test", place) => has_test(place),
                ("bench", figure) => has_figure(&benches, figure),
                ("line", place) => has_line(place),
                ("retrieval", "") => true,
                _ => false,
            };
            if !exists {
                writeln!(missing, "{} {}: {evidence}", item.number, item.what).unwrap();
            }
        }
    }
    assert!(missing.is_empty(), "tests/coverage.txt names what does not exist:\n{missing}");
}

/// Whether a file has a test function, for `FILE NAME`.
fn has_test(place: &str) -> bool {
    let Some((file, name)) = place.split_once(' ') else { return false };
    let text = fs::read_to_string(root().join(file)).unwrap_or_default();
    let head = format!("fn {name}(");
    text.match_indices(&head).any(|(at, _)| {
        let mut before = text[..at].lines().rev().skip_while(|line| line.trim().is_empty());
        before.find(|line| !line.trim().starts_with("//")).is_some_and(|line| line.trim().starts_with("#["))
    })
}

/// The texts of measurements.
fn benches() -> String {
    let files = fs::read_dir(root().join("benches")).unwrap().map(|entry| entry.unwrap().path());
    let is_text = |extension: &std::ffi::OsStr| extension == "md" || extension == "jsonl";
    let texts = files.filter(|path| path.extension().is_some_and(is_text));
    texts.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// Whether a line has a name and, behind it, a figure, for `FIGURE UNIT: NAME`.
fn has_figure(benches: &str, place: &str) -> bool {
    let Some((figure, name)) = place.split_once(": ") else { return false };
    let number = figure.split(' ').next().unwrap_or_default();
    let is_number = |word: &str| word.trim_matches([',', '.', ';', '|']) == number;
    let mut rests = benches.lines().filter_map(|line| line.split_once(name));
    rests.any(|(_, rest)| rest.split(' ').any(is_number))
}

/// Whether a file has a line with a text, for `FILE: TEXT`.
fn has_line(place: &str) -> bool {
    let Some((file, text)) = place.split_once(": ") else { return false };
    let lines = fs::read_to_string(root().join(file)).unwrap_or_default();
    lines.lines().any(|line| line.contains(text))
}

#[test]
fn names_that_do_not_exist_are_noticed() {
    assert!(has_test("tests/documents/coverage.rs names_that_do_not_exist_are_noticed"));
    // A function that is no test, none at all, and no file.
    for place in
        ["tests/documents/coverage.rs has_test", "tests/plans.rs no", "tests/no.rs no", "tests/plans.rs"]
    {
        assert!(!has_test(place), "{place}");
    }
    let benches = "| softmax f32 8192x32768 | 0.5170 | 0.7651 compile |\n| sort | 29.501 |\n";
    assert!(has_figure(benches, "0.5170 ms: softmax f32 8192x32768"));
    for figure in ["0.517 ms: softmax f32", "29.501 ms: softmax f32", "0.5170 ms: softmin", "0.5170 ms"] {
        assert!(!has_figure(benches, figure), "{figure}");
    }
    assert!(!has_line("tests/no.rs: text") && !has_line("README.md: no such line at all"));
}

#[test]
fn the_page_of_the_coverage_is_up_to_date() {
    let table = table();
    expect_test::expect_file!["../../docs/coverage.md"].assert_eq(&page(&sections(&table)));
}

fn page(sections: &BTreeMap<&str, Vec<Item>>) -> String {
    let mut page = String::from(
        "# Coverage\n\n\
         Ops, graphs, fusions, tests and benchmarks that the engine should have, and what shows each of them. A test \
         checks that all of it exists. It generates this page from `tests/coverage.txt`.\n",
    );
    let (mut n_items, mut n_later) = (0, 0);
    for (title, ..) in SECTIONS {
        let last = if title == "Benchmarks" { "measured" } else { "shown by" };
        write!(page, "\n## {title}\n\n| | | {last} |\n|---|---|---|\n").unwrap();
        for item in &sections[title] {
            let shown: Vec<String> = item.evidence.iter().map(|evidence| shown(evidence)).collect();
            writeln!(page, "| {} | {} | {} |", item.number, item.what, shown.join(", ")).unwrap();
            n_items += 1;
            n_later += usize::from(item.evidence == ["retrieval"]);
        }
    }
    let n_shown = n_items - n_later;
    write!(page, "\n{n_items} lines: {n_shown} shown, {n_later} of retrieval.\n").unwrap();
    page
}

fn shown(evidence: &str) -> String {
    let (kind, rest) = evidence.split_once(' ').unwrap_or((evidence, ""));
    match kind {
        "op" => format!("`{rest}`"),
        "graph" => format!("[{rest}](../graphs/{rest})"),
        "test" => {
            let (file, name) = rest.split_once(' ').unwrap_or((rest, ""));
            format!("[{}](../{file})", name.replace('_', " "))
        }
        "bench" => {
            let (figure, name) = rest.split_once(": ").unwrap_or((rest, ""));
            format!("{figure} ([{name}](../benches/README.md))")
        }
        "line" => {
            let (file, text) = rest.split_once(": ").unwrap_or((rest, ""));
            format!("[{text} …](../{file})")
        }
        _ => evidence.to_owned(),
    }
}
