//! What must hold of shipped graphs: figures of other implementations, laws, and tasks that are learned.

use super::*;
use engine::core::ir::Literal;
use engine::core::pipeline::Given;
use engine::runtime::device::Device;
use std::sync::Arc;

/// A shipped graph with some texts replaced, each of which it has.
fn edited(text: &str, edits: &[(&str, &str)]) -> String {
    edits.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

fn values(report: &Report, output: &str) -> Vec<f64> {
    report.outputs[output].values.to_f64()
}

const SWEEP: &str = include_str!("../../graphs/ops_sweep.ron");

#[test]
fn nodes_of_the_sweep_have_the_figures_of_numpy() {
    let figures: serde_json::Value =
        serde_json::from_str(include_str!("../examples/ops_sweep.json")).unwrap();
    let figures = figures.as_object().unwrap();
    for fuse in [true, false] {
        let report =
            session(SWEEP, Options { fuse, ..Options::default() }).run_stages(None, &mut |_| {}).unwrap();
        assert_eq!(report.outputs.len(), figures.len());
        for (name, expected) in figures {
            let expected: Vec<f64> = serde_json::from_value(expected.clone()).unwrap();
            // Five deviations of the means of 262144 random numbers, and of their squares.
            let noise = match &**name {
                "uniform" => 3e-3,
                "normal" => 1.4e-2,
                _ => 0.0,
            };
            let found = values(&report, name);
            assert_eq!(found.len(), expected.len(), "{name}");
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() <= noise + 2e-6 * (1.0 + b.abs()), "{name}: {a} is not {b}");
            }
        }
    }
}

/// Rows 1 to 78 of the coverage are elementwise ops, activations, reductions, and ops of shapes.
#[test]
fn the_sweep_has_every_op_of_the_first_78_rows() {
    let figures: serde_json::Value =
        serde_json::from_str(include_str!("../examples/ops_sweep.json")).unwrap();
    let table = include_str!("../coverage.txt");
    let rows = table.lines().skip_while(|line| *line != "# Ops").skip(2).take(78);
    let mut n_ops = 0;
    for (number, row) in (1..).zip(rows) {
        assert!(row.starts_with(&format!("{number} | ")), "{row}");
        let evidence = row.rsplit(" | ").next().unwrap().split("; ");
        for op in evidence.filter_map(|evidence| evidence.strip_prefix("op ")) {
            assert!(figures.get(op).is_some(), "row {number}: no node `{op}`");
            n_ops += 1;
        }
    }
    assert!(n_ops >= 78, "{n_ops}");
}

#[test]
fn rows_are_read_and_added_at_the_sizes_of_the_benchmark() {
    let report = run(include_str!("../../graphs/indexing_bench.ron")).unwrap();
    for check in ["gathers", "scatters", "equals"] {
        assert_eq!(values(&report, check), [1.0], "{check}");
    }
}

const REPEATED: &str = r#"(
    deterministic: true,
    params: {"table": "f32[10, 24]"},
    nodes: {
        "i": "arange(stop=1000)",
        "token": "i * i * 31 % 10",
        "weight": "reshape(cast(arange(stop=24000) * 7919 % 23, dtype=f32), shape=[1000, 24]) / PARTS",
        "row": "embedding(table, token, padding_idx=6)",
        "loss": "sum(row * weight)",
    },
    stages: {"go": Run(loss: "loss", outputs: ["d.table"])},
)"#;

/// The gradient of the table, added up in double precision in the order of the tokens. The padding row has none.
fn sums_by_token(parts: f32) -> Vec<f64> {
    let mut sums = vec![0.0; 10 * 24];
    for i in 0..1000 {
        let token = i * i * 31 % 10;
        for column in (0..24).filter(|_| token != 6) {
            let weight = ((i * 24 + column) * 7919 % 23) as f32 / parts;
            sums[token * 24 + column] += f64::from(weight);
        }
    }
    sums
}

/// Tokens occur up to 200 times. Sums of whole numbers are exact, and rounded sums have the same bits in each run.
#[test]
fn gradients_of_repeated_tokens_are_sums_in_order() {
    let gpus = present::gpus().iter().map(Arc::clone);
    for device in [present::cpu(1), present::cpu(2)].into_iter().chain(gpus) {
        for fuse in [true, false] {
            let place = format!("{}, fuse: {fuse}", device.info().name);
            let gradient = |parts: &str| {
                let text = REPEATED.replace("PARTS", parts);
                let options = Options { fuse, ..Options::default() };
                let mut session = offline::session(&text, Arc::clone(&device), options);
                values(&session.run_stages(None, &mut |_| {}).unwrap(), "d.table")
            };
            assert_eq!(gradient("1.0"), sums_by_token(1.0), "{place}");
            let rounded = gradient("7.0");
            assert_eq!(rounded, gradient("7.0"), "{place}: another run");
            for (a, b) in rounded.iter().zip(sums_by_token(7.0)) {
                assert!((a - b).abs() <= 2e-5 * b, "{place}: {a} is not {b}");
            }
        }
    }
}

/// The gradient of the shipped table, from 1,000 labels of which 91 are padding: means of distances by digit. Sums in
/// order have the same bits in each run, and on the CPU for any number of threads.
#[test]
fn the_gradient_of_the_shipped_table_is_in_order_and_leaves_padding_out() {
    let stage = r#"stages: {"slopes": Run(loss: "loss", dims: {"B": 1000}, outputs: ["table", "d.table"])},
)"#;
    // A report has the first 1,024 numbers of a result.
    let nodes = include_str!("../../graphs/embedding.ron").replace("784", "64");
    let nodes = nodes.split_once("stages: {").unwrap().0;
    assert!(nodes.contains("deterministic: true") && nodes.contains("padding_idx=10"));
    let text = format!("{nodes}{stage}");
    let label = |i: usize| i * 31 % 11;
    let pixel = |i: usize, column: usize| (i * 7 + column * column) % 256;
    let elements =
        |n: usize, of: &dyn Fn(usize) -> usize| (0..n).map(|i| Literal::Int(of(i) as i64)).collect();
    let run = |device: &Arc<dyn Device>, fuse: bool| {
        let options = Options { fuse, ..Options::default() };
        let mut session = offline::session(&text, Arc::clone(device), options);
        let images = elements(1000 * 64, &|at| pixel(at / 64, at % 64));
        session.give("image", Given::Elements { shape: vec![1000, 64], elements: images }).unwrap();
        let labels = elements(1000, &label);
        session.give("label", Given::Elements { shape: vec![1000], elements: labels }).unwrap();
        let report = session.run_stages(None, &mut |_| {}).unwrap();
        ["table", "d.table"].map(|name| values(&report, name))
    };
    let one_thread = run(&present::cpu(1), true);
    let mut expected = vec![0.0; 11 * 64];
    for digit in 0..10 {
        let rows: Vec<usize> = (0..1000).filter(|&i| label(i) == digit).collect();
        for column in 0..64 {
            let sum: f64 = rows.iter().map(|&i| pixel(i, column) as f64 / 255.0).sum();
            let at = digit * 64 + column;
            expected[at] = 2.0 / 64.0 * (one_thread[0][at] - sum / rows.len().max(1) as f64);
            expected[at] *= f64::from(u8::from(!rows.is_empty()));
        }
    }
    assert!((0..1000).any(|i| label(i) == 10) && expected.iter().any(|x| x.abs() > 1e-4));
    for device in [present::cpu(2)].iter().chain(present::gpus()) {
        for fuse in [true, false] {
            let place = format!("{}, fuse: {fuse}", device.info().name);
            let [_, found] = run(device, fuse);
            assert_eq!(found, run(device, fuse)[1], "{place}: another run");
            assert_eq!(found[10 * 64..], [0.0; 64], "{place}: padding");
            for (a, b) in found.iter().zip(&expected) {
                assert!((a - b).abs() <= 1e-7, "{place}: {a} is not {b}");
            }
        }
    }
    assert_eq!(one_thread[1], run(&present::cpu(2), true)[1], "one thread and two");
}

/// Moments of 16384 chains, within five deviations of means of signs.
#[test]
fn moments_of_the_twin_are_those_of_its_law() {
    let graph = include_str!("../../graphs/ising.ron");
    let report = run(&edited(graph, &[("epochs: 4", "epochs: 1, max_steps: 1")])).unwrap();
    assert!(values(&report, "off")[0] < 5.0 / 128.0, "{}", values(&report, "off")[0]);
}

/// Draws follow the law, a temperature of 0 is greedy, and the cache changes nothing, at every length of the text.
#[test]
fn a_gpt_writes_with_a_cache_and_by_the_law() {
    let graph = include_str!("../../graphs/gpt_sample.ron");
    let texts = [1, 7, 40].map(|steps| {
        let report = run(&edited(graph, &[("steps: 40", &format!("steps: {steps}"))])).unwrap();
        assert!(values(&report, "error")[0] < 1e-5, "{steps} steps: {:?}", values(&report, "error"));
        assert_eq!(values(&report, "is_greedy"), [1.0]);
        // Half the distance of counts and law is 0.012 on average for 4096 draws from 8 tokens, or less.
        assert!(values(&report, "distance")[0] < 0.025, "{steps} steps: {:?}", values(&report, "distance"));
        assert!((values(&report, "law").iter().sum::<f64>() - 1.0).abs() < 1e-6);
        values(&report, "longer")
    });
    // A longer text begins with the shorter one.
    assert_eq!((&texts[0][..2], &texts[1][..8]), (&texts[2][..2], &texts[2][..8]));
    assert!(texts[2][1..41].iter().filter(|&&token| token == texts[2][1]).count() < 20, "{:?}", texts[2]);
}

const TINY_GPT: &str = include_str!("../../graphs/tiny_gpt.ron");

#[test]
fn a_small_gpt_says_the_next_token_after_100_steps() {
    let report =
        run(&edited(TINY_GPT, &[("max_steps: 200", "max_steps: 100"), ("max_steps: 1000", "max_steps: 1")]))
            .unwrap();
    assert!(report.stages[1].metrics["loss"] < 0.05, "{:?}", report.stages[1].metrics);
}

/// Rows of eight letters, and half the width.
#[test]
fn a_small_gpt_learns_to_reverse_letters() {
    let small = [
        ("\"T\": 32", "\"T\": 16"),
        ("\"D\": 128", "\"D\": 64"),
        ("\"LETTERS\": 35", "\"LETTERS\": 15"),
        ("max_steps: 200", "max_steps: 1"),
        ("max_steps: 1000", "max_steps: 400"),
        ("batch: 32", "batch: 16"),
    ];
    let report = run(&edited(TINY_GPT, &small)).unwrap();
    // By chance, one letter of 15 is right.
    assert!(report.stages[3].metrics["accuracy"] > 0.95, "{:?}", report.stages[3].metrics);
}
