#![allow(clippy::unwrap_used, missing_docs)]
//! Replay: hashes of all kernels and plans of all shipped graphs, for each device. A refactoring changes none of them.
//!
//! `tests/golden/replay.txt` has one line per plan and one per kernel. After a wanted change,
//! `UPDATE_EXPECT=1 cargo test --test replay` records it anew. With `REPLAY_TEXTS=DIR` the test also writes the texts
//! themselves to a folder, so that two versions can be compared by `diff -r`.

use expect_test::expect_file;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "common/command.rs"]
mod command;

/// The recording for a device: its name, and the stages of `engine explain` with a section per kernel.
struct Recorded {
    device: &'static str,
    forms: [&'static str; 2],
}

const RECORDED: [Recorded; 3] = [
    Recorded { device: "cpu", forms: ["kernels", "wgsl"] },
    Recorded { device: "cuda", forms: ["kernels", "source"] },
    Recorded { device: "wgpu", forms: ["kernels", "wgsl"] },
];

#[test]
fn kernels_and_plans_are_those_recorded() {
    let graphs = graphs();
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let records: Vec<String> = std::thread::scope(|scope| {
        let chunks = graphs.chunks(graphs.len().div_ceil(n_threads));
        let threads: Vec<_> = chunks
            .map(|chunk| scope.spawn(|| chunk.iter().map(|graph| record_of(graph)).collect()))
            .collect();
        threads.into_iter().flat_map(|thread| -> Vec<String> { thread.join().unwrap() }).collect()
    });
    expect_file!["golden/replay.txt"].assert_eq(&records.concat());
}

fn record_of(graph: &Path) -> String {
    let mut record = String::new();
    RECORDED.iter().for_each(|recorded| record_graph(&mut record, graph, recorded));
    record
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The shipped graphs and those of the benchmarks, as paths from the root.
fn graphs() -> Vec<PathBuf> {
    let folders = ["graphs", "benches/ops"].into_iter();
    let entries = folders.flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let graphs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "ron"));
    let mut graphs: Vec<PathBuf> =
        graphs.map(|path| path.strip_prefix(root()).unwrap().to_path_buf()).collect();
    graphs.sort();
    assert!(graphs.len() > 20, "{graphs:?}");
    graphs
}

fn record_graph(record: &mut String, graph: &Path, recorded: &Recorded) {
    let [first, second] = recorded.forms;
    let texts = stages(&explain(graph, recorded.device, &["plan", first, second].join(",")));
    assert!(texts.len().is_multiple_of(3));
    let n_stages = texts.len() / 3;
    let [plans, first, second] = [0, 1, 2].map(|form| &texts[form * n_stages..][..n_stages]);
    let name = graph.file_stem().unwrap().to_string_lossy();
    for ((plan, first), second) in plans.iter().zip(first).zip(second) {
        let (stage, device) = (&plan.name, recorded.device);
        writeln!(record, "{name}.{stage} {device} plan {}", hash(&plan.text)).unwrap();
        let [first, second] = [first, second].map(|stage| kernels(&stage.text));
        assert_eq!(first.len(), second.len(), "{name}.{stage}");
        for (first, second) in first.iter().zip(&second) {
            assert_eq!(first.name, second.name);
            let hashes = [first, second].map(|kernel| hash(&kernel.text));
            writeln!(record, "  {} {} {}", first.name, hashes[0], hashes[1]).unwrap();
        }
    }
}

/// All stages of a graph in each of these forms.
fn explain(graph: &Path, device: &str, forms: &str) -> String {
    let text = command::printed(&["explain", graph.to_str().unwrap(), "--device", device, "--stage", forms]);
    if let Some(folder) = std::env::var_os("REPLAY_TEXTS") {
        let name = format!("{}.{device}", graph.file_stem().unwrap().to_string_lossy());
        fs::create_dir_all(&folder).unwrap();
        fs::write(Path::new(&folder).join(name), &text).unwrap();
    }
    text
}

/// A part of a text with the name in its first line.
struct Section {
    name: String,
    text: String,
}

/// A text cut before each line in which `name` finds one.
fn sections(text: &str, name: impl Fn(&str) -> Option<String>) -> Vec<Section> {
    let mut sections: Vec<Section> = vec![];
    for line in text.lines() {
        match (name(line), sections.last_mut()) {
            (Some(name), _) => sections.push(Section { name, text: String::new() }),
            (None, Some(section)) => section.text.extend([line, "\n"]),
            (None, None) => panic!("`{line}` comes before the first section"),
        }
    }
    sections
}

fn stages(text: &str) -> Vec<Section> {
    sections(text, |line| Some(line.strip_prefix("# stage ")?.to_string()))
}

/// The kernels of a stage: `row loss  # exp sub` or, before a source text, `// row loss`.
fn kernels(text: &str) -> Vec<Section> {
    sections(text, |line| {
        let title = line.strip_prefix("// ").unwrap_or(line);
        let title = title.split("  # ").next().unwrap_or(title);
        let is_title = KINDS.iter().any(|kind| title.strip_prefix(kind).is_some_and(is_name));
        is_title.then(|| title.to_string())
    })
}

const KINDS: [&str; 8] = ["map", "row", "segmented map", "matmul", "scatter", "scan", "attention", "kernel"];

/// A space and one word.
fn is_name(rest: &str) -> bool {
    rest.strip_prefix(' ').is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}

/// Sixteen hexadecimal digits.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
