#![allow(clippy::unwrap_used, missing_docs)]
//! `explain --stage programs`, on a machine without a GPU. The programs come from a device model with the choices of a
//! run on an H200, from that model alone, and from the presets.
//!
//! `tests/golden/h200.ron` is what `engine devices --models` printed there, and `tests/golden/h200_choices.json` the
//! `tuning` of reports of `engine run`. `UPDATE_EXPECT=1` records the texts anew.

use expect_test::expect_file;
use std::process::Command;

/// The last stage of a graph that trains or searches, or all stages.
#[path = "common/command.rs"]
mod command;

fn explain(arguments: &[&str]) -> String {
    command::printed(&[&["explain"], arguments, &["--stage", "programs"]].concat())
}

const RECORDED: [&str; 4] =
    ["--model", "tests/golden/h200.ron", "--choices", "tests/golden/h200_choices.json"];

#[test]
fn mnist_calls_the_library_by_recorded_algorithms() {
    let text = explain(&[&["graphs/mnist.ron"], &RECORDED[..]].concat());
    assert!(text.contains("matmul f32 1000x784 @ 784x256 + bias, relu"), "{text}");
    assert!(text.contains("variant sliced (of library | sliced)"), "{text}");
    assert!(text.contains("algorithm: id ") && !text.contains("algorithm: tuned on device"), "{text}");
    expect_file!["golden/programs_mnist.txt"].assert_eq(&text);
}

/// The graphs of `benches/catalogue`, which no other test reads.
#[test]
fn benchmarks_of_the_catalogue_have_programs() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/catalogue");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let graphs: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "ron")).collect();
    assert_eq!(graphs.len(), 12);
    for graph in graphs {
        let text = explain(&[graph.to_str().unwrap(), "--device", "cuda"]);
        assert!(text.contains(" launches, "), "{}: {text}", graph.display());
    }
}

#[test]
fn a_search_goes_panel_by_panel() {
    let text = explain(&[&["graphs/search.ron"], &RECORDED[..]].concat());
    expect_file!["golden/programs_search.txt"].assert_eq(&text);
    // A million vectors: panels of the same shape are counted.
    let exact = "nodes.near=nearest(queries, base, k=10, coarse=\"f32\")";
    let text =
        explain(&["benches/ops/search.ron", "--device", "cuda", "--set", "matmul=F32", "--set", exact]);
    assert!(text.contains("325 times\n         matmul f32 2048x128 @ 128x3072"), "{text}");
    expect_file!["golden/programs_panels.txt"].assert_eq(&text);
}

/// The state of a row is larger than its part of a panel would be, so each panel has whole rows. It has a sixteenth of them.
#[test]
fn a_large_selection_goes_by_panels_of_whole_rows() {
    let text = explain(&["benches/ops/large_selection.ron", "--device", "cuda"]);
    assert!(text.contains("variant: tuned on device (whole rows | in turn | overlapped)"), "{text}");
    assert!(text.contains("16 times\n         matmul f32 256x128 @ 128x131072"), "{text}");
    assert!(text.contains("workspace 134217728 B at"), "{text}");
}

/// Without recorded choices, the text names the variants and the workspace that is reserved.
#[test]
fn without_choices_the_device_has_to_tune() {
    let text = explain(&["graphs/mnist.ron", "--device", "cuda"]);
    assert!(text.contains("algorithm: tuned on device, workspace at most 33554432 B"), "{text}");
    assert!(text.contains("variant: tuned on device (library | own kernel)"), "{text}");
    expect_file!["golden/programs_mnist_open.txt"].assert_eq(&text);
    expect_file!["golden/programs_mnist_wgpu.txt"].assert_eq(&explain(&[
        "graphs/mnist.ron",
        "--device",
        "wgpu",
    ]));
    let text = explain(&["graphs/mnist.ron", "--device", "cpu"]);
    assert!(text.contains("the CPU runs the kernels of its plan as they are"), "{text}");
}

/// Products in `f32` may go to tensor cores by terms, in a workspace of three halves of each factor; strict ones may not.
#[test]
fn products_in_f32_may_be_in_terms() {
    let graph = ["benches/ops/f32_products.ron", "--device", "cuda"];
    let text = explain(&graph);
    assert!(text.contains("tuned on device (library | terms on tensor cores 128x128)"), "{text}");
    let strict = explain(&[&graph[..], &["--set", "numerics=Strict"]].concat());
    assert!(!strict.contains("terms on tensor cores"), "{strict}");
    let rounded = explain(&[&graph[..], &["--set", "matmul=Tf32"]].concat());
    assert!(!rounded.contains("terms on tensor cores"), "{rounded}");
}

/// A trip of a loop has choices as a step has, and a library adds a product to a carried value.
#[test]
fn a_loop_shows_the_choices_of_its_trips() {
    let text = explain(&["benches/ops/linear_loss.ron", "--device", "cuda"]);
    let of_trip = text.split("loop 16 times {").nth(1).unwrap();
    assert!(of_trip.contains(": variant: tuned on device (library | tensor cores 128x256"), "{text}");
    assert!(of_trip.contains("matmul bf16 8192x2000 @ 2000x4096 + added ("), "{text}");
}

#[test]
fn files_that_are_no_model_and_no_choices_are_refused() {
    for (flag, file, expected) in [
        ("--model", "Cargo.toml", "is no device model, as `engine devices --models` prints it: 1:"),
        ("--model", "no-such-file", "cannot be read"),
        (
            "--model",
            "tests/golden/h200_choices.json",
            "is no device model, as `engine devices --models` prints it",
        ),
        ("--choices", "tests/golden/h200.ron", "holds no autotuned choices, as reports do"),
        ("--choices", "no-such-file", "cannot be read"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = command
            .args(["explain", "graphs/mnist.ron", "--stage", "programs", flag, file])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{flag} {file}: {said}");
    }
}
