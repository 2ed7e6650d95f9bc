#![allow(clippy::unwrap_used, missing_docs)]
//! Loops on every device that is present, from their text to their results: sequences longer than what is unrolled, and
//! calls until a condition holds.

use engine::Engine;
use engine::core::bind::MOST_UNROLLED;
use engine::core::compile::{Options, compile};
use engine::core::ir::{Keep, Node, NodeOp};
use engine::core::pipeline::RunStage;
use engine::core::stage;
use engine::runtime::device::Device;
use engine::runtime::session::{Report, SessionError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[path = "loops/edges.rs"]
mod edges;
#[path = "common/few.rs"]
mod few;
#[path = "loops/gradients.rs"]
mod gradients;
#[path = "common/offline.rs"]
mod offline;
#[path = "common/present.rs"]
mod present;

/// The devices, and whether they fuse.
fn devices() -> Vec<(Arc<dyn Device>, bool)> {
    let gpus = present::gpus().iter().map(|gpu| (Arc::clone(gpu), true));
    [(present::cpu(1), true), (present::cpu(2), false)].into_iter().chain(gpus).collect()
}

fn run_on(text: &str, (device, fuse): (Arc<dyn Device>, bool)) -> Result<Report, SessionError> {
    let options = Options { fuse, ..Options::default() };
    offline::session(text, device, options).run_stages(None, &mut |_| {})
}

/// The outputs of a pipeline on a device.
fn outputs(text: &str, device: (Arc<dyn Device>, bool)) -> impl Fn(&str) -> Vec<f64> + use<> {
    let outputs = run_on(text, device).unwrap().outputs;
    move |name| outputs[name].values.to_f64()
}

/// The first error of the reader.
fn refused(text: &str) -> String {
    Engine::new().read("loop.ron", text).expect_err(text).to_string()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{a} for {b}");
    }
}

const T: usize = MOST_UNROLLED + 22;

/// Two recurrences over one sequence, the second one over the states of the first.
fn recurrence() -> String {
    let text = r#"(
        dims: {"T": LENGTH, "H": 3},
        params: {"u": (type: "f32[H, H]", init: 0.1), "h0": (type: "f32[2, H]", init: 0.5)},
        functions: {
            "cell": (inputs: ["h", "x", "u"], output: "tanh(x + h @ u)"),
            "pair": (inputs: ["a", "b", "x"], outputs: {"a": "a * 0.9 + x", "b": "b + a"}),
        },
        nodes: {
            "x": "sin(reshape(cast(arange(stop=T * 2 * H), dtype=f32), shape=[2, T, H]))",
            "h": "cell(h0, x, u, over=1)",
            "p": "pair(h0, h0 * 0, h, over=1)",
            "q": "p.b * 1.0",
            "last": "select(h, axis=1, index=-1)",
        },
        stages: {"go": Run(outputs: ["h", "p", "q", "last"])},
    )"#;
    text.replace("LENGTH", &T.to_string())
}

#[test]
fn a_long_sequence_is_a_loop_with_the_results_of_its_formula() {
    let x = |row: usize, t: usize, i: usize| (((row * T + t) * 3 + i) as f64).sin();
    let (mut h_all, mut a_all, mut b_all) = (vec![], vec![], vec![]);
    for row in 0..2 {
        let (mut h, mut a, mut b) = ([0.5; 3], [0.5; 3], [0.0; 3]);
        for t in 0..T {
            let sum: f64 = h.iter().map(|h| 0.1 * h).sum();
            h = std::array::from_fn(|i| (x(row, t, i) + sum).tanh());
            b = std::array::from_fn(|i| b[i] + a[i]);
            a = std::array::from_fn(|i| a[i] * 0.9 + h[i]);
            h_all.extend(h);
            a_all.extend(a);
            b_all.extend(b);
        }
    }
    for device in devices() {
        let of = outputs(&recurrence(), device);
        assert_close(&of("h"), &h_all);
        assert_close(&of("p"), &a_all);
        assert_close(&of("q"), &b_all);
        let last = [0, 1].map(|row| &h_all[(row + 1) * T * 3 - 3..][..3]).concat();
        assert_close(&of("last"), &last);
    }
}

#[test]
fn a_long_sequence_may_be_written_out() {
    let unrolled = recurrence().replace("over=1)", "over=1, unroll=true)");
    let (of, copies) = (outputs(&recurrence(), devices().remove(0)), outputs(&unrolled, devices().remove(0)));
    for name in ["h", "p", "q"] {
        assert_close(&copies(name), &of(name));
    }
    let program = Engine::new().read("loop.ron", &unrolled).unwrap();
    let is_loop = |node: &Node| matches!(node.op, NodeOp::Loop { .. });
    assert!(!program.graph.nodes.iter().any(is_loop), "nothing is a loop");
}

/// The kernels of a plan are those of one trip, for every number of trips.
#[test]
fn a_longer_loop_has_no_more_kernels() {
    let compiled = |length: usize| {
        let text = recurrence().replace(&T.to_string(), &length.to_string());
        let program = Engine::new().read("loop.ron", &text).unwrap();
        let registry = &program.registry;
        let stage: &RunStage = program.pipeline.stages.iter().find_map(|stage| stage.get()).unwrap();
        let graph = stage::running(&program.pipeline, stage, registry).unwrap();
        compile(&graph, registry, &Options::default())
    };
    let (short, long) = (compiled(MOST_UNROLLED + 1), compiled(100_000));
    assert_eq!(short.all_kernels().len(), long.all_kernels().len());
    assert_eq!(short.plan.loops.len(), 2);
    let kernels = short.all_kernels();
    assert!(kernels.iter().all(|(kernel, _)| kernel.kind() != "scatter"), "no row has a kernel of its own");
    let rows = kernels.iter().filter(|(kernel, _)| kernel.writes_rows()).count();
    assert_eq!(rows, 2, "the kernel that computes the states of a trip writes its rows");
    assert!(
        long.kernels_text().contains("\n  100000 trips, 2 values carried, 2 given\n"),
        "{}",
        long.kernels_text()
    );
}

/// A loop of which only the last row is read writes no stack.
#[test]
fn the_last_row_needs_no_stack() {
    let text = recurrence().replace(r#"["h", "p", "q", "last"]"#, r#"["last"]"#);
    let program = Engine::new().read("loop.ron", &text).unwrap();
    let stage: &RunStage = program.pipeline.stages.iter().find_map(|stage| stage.get()).unwrap();
    let graph = stage::running(&program.pipeline, stage, &program.registry).unwrap();
    let kernels = compile(&graph, &program.registry, &Options::default()).kernels_text();
    assert!(kernels.contains("trips, 1 values carried") && !kernels.contains("scatter"), "{kernels}");
    let whole = outputs(&recurrence(), devices().remove(0));
    for device in devices() {
        assert_close(&outputs(&text, device)("last"), &whole("last"));
    }
}

/// Lloyd's algorithm in one dimension: two clusters of known means.
const FIT: &str = r#"(
    functions: {
        "lloyd": (
            inputs: {"c": "[2]", "x": "[N]"},
            nodes: {
                "near": "abs(reshape(x, shape=[N, 1]) - reshape(c, shape=[1, 2]))",
                "first": "cast(select(near, axis=1, index=0) <= select(near, axis=1, index=1), dtype=f32)",
                "a": "sum(first * x) / sum(first)",
                "b": "sum((1.0 - first) * x) / sum(1.0 - first)",
                "next": "concat(reshape(a, shape=[1]), reshape(b, shape=[1]), axis=0)",
            },
            outputs: {"c": "next", "done": "amax(abs(next - c)) == 0.0"},
        ),
    },
    nodes: {
        "i": "cast(arange(stop=10), dtype=f32)",
        "x": "where(i < 5.0, i * 0.1, 3.0 + i * 0.1)",
        "c0": "slice(x, start=0, stop=2, axis=0)",
        "fit": "lloyd(c0, x, until=done, most=MOST)",
        "c": "fit * 1.0",
        "done": "fit.done",
        "trips": "fit.trips",
    },
    stages: {"go": Run(steps: 3, outputs: ["c", "done", "trips"])},
)"#;

#[test]
fn a_loop_ends_when_its_condition_holds() {
    let mut trips = vec![];
    for device in devices() {
        let of = outputs(&FIT.replace("MOST", "300"), device);
        assert_close(&of("c"), &[0.2, 3.7]);
        assert_eq!(of("done"), [1.0]);
        trips.push(of("trips")[0]);
    }
    assert!(trips.iter().all(|n| *n == trips[0] && (2.0..10.0).contains(n)), "{trips:?}");
}

#[test]
fn a_loop_ends_after_the_most_trips() {
    for device in devices() {
        let of = outputs(&FIT.replace("MOST", "1"), device);
        assert_eq!((of("done"), of("trips")), (vec![0.0], vec![1.0]));
    }
}

/// Trips draw numbers of their own, also in a loop within a loop.
#[test]
fn trips_draw_anew() {
    let text = r#"(
        functions: {
            "draw": (inputs: ["a", "x"], nodes: {"u": "uniform(shape=[4])"}, output: "a * 0.0 + u + x * 0.0"),
            "outer": (
                inputs: ["a", "x", "y"],
                nodes: {"d": "draw(a, y, over=0)"},
                output: "select(d, axis=0, index=7) + x * 0.0",
            ),
        },
        nodes: {
            "x": "zeros(shape=[200, 4])",
            "a": "zeros(shape=[4])",
            "u": "draw(a, x, over=0)",
            "v": "outer(a, x, x, over=0)",
        },
        stages: {"go": Run(outputs: ["u", "v"])},
    )"#;
    let mut known: Option<Vec<f64>> = None;
    for device in devices() {
        let of = outputs(text, device);
        let mut all = [of("u"), of("v")].concat();
        assert_eq!(*known.get_or_insert(all.clone()), all, "equal on all devices");
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean - 0.5).abs() < 0.04, "{mean}");
        all.sort_by(f64::total_cmp);
        all.dedup();
        // Of 1,600 numbers with 23 random bits, fewer than three pairs are equal but once in 10,000 times.
        assert!(all.len() > 1595, "{}", all.len());
    }
}

#[test]
fn a_failed_check_in_a_loop_is_named_and_no_state_is_written() {
    let text = r#"(
        params: {"table": (type: "f32[140]", init: 1.0), "n": (type: "f32[]", init: 3.0, state: true)},
        functions: {"look": (inputs: ["s", "i", "table"], output: "s + sum(index_select(table, reshape(i, shape=[1]), axis=0))")},
        nodes: {"i": "cast(arange(stop=160), dtype=i32)", "s": "look(n, i, table, over=0)", "last": "select(s, axis=0, index=159)"},
        stages: {"go": Run(state: {"n": "last"}, outputs: ["last"])},
    )"#;
    for (device, fuse) in devices() {
        let options = Options { fuse, ..Options::default() };
        let mut session = offline::session(text, device, options);
        let error = session.run_stages(None, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("140") && error.contains('s'), "{error}");
        assert_eq!(session.parameters().unwrap()["n"].to_f64(), [3.0]);
    }
}

#[test]
fn faulty_loops_are_refused() {
    let calls = |functions: &str, call: &str| {
        format!(
            r#"(functions: {{{functions}}}, nodes: {{"x": "zeros(shape=[500, 4])", "a": "zeros(shape=[4])", "y": "{call}"}},
               stages: {{"go": Run(outputs: ["y"])}})"#
        )
    };
    let grow = r#""f": (inputs: ["h", "x"], output: "concat(h, x, axis=0)")"#;
    let halve = r#""f": (inputs: ["h"], outputs: {"h": "h * 0.5", "done": "h < 1.0"})"#;
    let one = r#""f": (inputs: ["h"], outputs: {"h": "h * 0.5", "done": "amax(h) < 1.0"})"#;
    let more = r#""f": (inputs: ["h"], outputs: {"h": "h", "g": "h", "done": "amax(h) < 1.0"})"#;
    let cases = [
        (grow, "f(a, x, over=0)", "the result `out` is f32[8], and the operand that it becomes is f32[4]"),
        (halve, "f(a, until=done, most=9)", "the result `done` ends the loop, and it is bool[4]"),
        (one, "f(a, until=done)", "`until` needs `most`"),
        (one, "f(a, until=done, most=0)", "`most` must be a whole number from 1 on"),
        (one, "f(a, until=gone, most=9)", "`until` names no result of `f`"),
        (one, "f(a, most=9)", "`most` stands beside `until` only"),
        (one, "f(a, until=done, most=9, repeat=2)", "a call has either `repeat`, `over` or `until`"),
        (more, "f(a, until=done, most=9)", "it has more results than operands"),
        (one, "f(a, keep=sqrt)", "`keep` stands beside `over` only"),
        (grow, "f(a, x, over=0, keep=some)", "`keep` must be `all` or `sqrt`"),
    ];
    for (functions, call, why) in cases {
        let errors = refused(&calls(functions, call));
        assert!(errors.contains(why), "{call}: {errors}");
    }
}

#[test]
fn a_loop_of_unknown_length_has_no_gradient() {
    let text = r#"(
        data: {"r": (source: "numbers", n_train: 8)},
        inputs: {"n": (type: "i32[B]", from: "r.number")},
        params: {"w": (type: "f32[]", init: 3.0)},
        functions: {"f": (inputs: ["h"], outputs: {"h": "h * 0.5", "done": "h < 1.0"})},
        nodes: {"y": "f(w, until=done, most=9)", "loss": "mean(cast(n, dtype=f32)) * y"},
        stages: {"fit": Train(data: "r.train", batch: 4, epochs: 1, loss: "loss", optimizer: Adam(lr: 0.1))},
    )"#;
    let refused = refused(text);
    assert!(refused.contains("only a run knows how often it is called"), "{refused}");
    assert!(refused.contains("use `over`, or `detach` its result"), "{refused}");
    assert!(Engine::new().read("detached.ron", &text.replace("* y\"", "* (w + detach(y))\"")).is_ok());
}

/// A recurrent network over a sequence of 150 positions, with a layer NET.
const LAYERED: &str = r#"(
    seed: 3,
    data: {"r": (source: "numbers", n_train: 64)},
    inputs: {"n": (type: "i32[B]", from: "r.number")},
    layers: {"net": "NET", "head": "Linear(width=1)"},
    nodes: {
        "t": "cast(arange(stop=300), dtype=f32)",
        "x": "reshape(sin(reshape(cast(n, dtype=f32), shape=[B, 1]) * 0.1 + t * 0.3), shape=[B, 150, 2])",
        "p": "head(select(net(x), axis=1, index=-1))",
        "loss": "mean((reshape(p, shape=[B]) - sin(cast(n, dtype=f32) * 0.1)) ** 2.0)",
    },
    stages: {"fit": Train(data: "r.train", batch: 16, epochs: EPOCHS, loss: "loss", optimizer: Adam(lr: 2e-2))},
)"#;

fn layered_losses((net, epochs): (&str, &str), device: (Arc<dyn Device>, bool)) -> Vec<f64> {
    let text = LAYERED.replace("NET", net).replace("EPOCHS", epochs);
    let report = run_on(&text, device).unwrap();
    report.stages[0].epochs.iter().map(|epoch| epoch.train_loss).collect()
}

/// A recurrent network over a sequence that is a loop learns, with equal losses on all devices.
#[test]
fn a_network_with_a_loop_learns() {
    let long = layered_losses(("GRU(width=6)", "12"), (present::cpu(2), true));
    assert!(long[11] < 0.1 * long[0], "{long:?}");
    for device in devices() {
        assert_close(&layered_losses(("GRU(width=6)", "1"), device), &long[..1]);
    }
}

/// The layers hand `keep` on, which changes no loss.
#[test]
fn layers_keep_less() {
    for layer in ["GRU", "LSTM"] {
        let kept = layered_losses((&format!("{layer}(width=6)"), "1"), devices().remove(0));
        for device in devices() {
            let less = layered_losses((&format!("{layer}(width=6, keep=sqrt)"), "1"), device);
            assert_close(&less, &kept);
        }
        for (word, keep) in [("all", Keep::All), ("sqrt", Keep::Sqrt)] {
            let text =
                LAYERED.replace("NET", &format!("{layer}(width=6, keep={word})")).replace("EPOCHS", "1");
            let program = Engine::new().read("loop.ron", &text).unwrap();
            let is_it =
                |node: &Node| matches!(node.op, NodeOp::Loop { trips: 150, keep: kept, .. } if kept == keep);
            assert!(program.graph.nodes.iter().any(is_it), "{layer} keeps {word}");
        }
    }
}

/// Halvings until a number is below 1, for each number of a sequence, added up.
#[test]
fn a_loop_that_ends_early_may_stand_within_another() {
    let text = r#"(
        functions: {
            "halve": (inputs: ["h"], nodes: {"y": "h * 0.5"}, outputs: {"h": "y", "done": "y < 1.0"}),
            "count": (
                inputs: ["n", "x"],
                nodes: {"fit": "halve(x, until=done, most=6)"},
                output: "n + cast(fit.trips, dtype=f32)",
            ),
        },
        nodes: {
            "x": "exp(cast(arange(stop=140), dtype=f32) * 0.037)",
            "n": "count(zeros(shape=[]), x, over=0)",
        },
        stages: {"go": Run(steps: 2, outputs: ["n"])},
    )"#;
    let trips = |x: f64| (1..=6).find(|&n| x * 0.5f64.powi(n) < 1.0).unwrap_or(6);
    let sums = (0..140).scan(0, |sum, i| {
        *sum += trips((f64::from(i) * 0.037).exp());
        Some(f64::from(*sum))
    });
    let expected: Vec<f64> = sums.collect();
    for device in devices() {
        assert_close(&outputs(text, device)("n"), &expected);
    }
}

/// Training of a network over a sequence of LENGTH positions, called in the MANNER.
const NETWORK: &str = r#"(
    seed: 5,
    PRECISION
    data: {"r": (source: "numbers", n_train: 32)},
    inputs: {"n": (type: "i32[B]", from: "r.number")},
    dims: {"T": LENGTH},
    params: {
        "w": (type: "f32[2, 18]", init: Normal(0, 0.3)),
        "u": (type: "f32[6, 18]", init: Normal(0, 0.3)),
        "b": (type: "f32[18]", init: Normal(0, 0.3)),
        "c": (type: "f32[18]", init: Normal(0, 0.3)),
    },
    nodes: {
        "t": "cast(arange(stop=2 * T), dtype=f32)",
        "x": "reshape(sin(reshape(cast(n, dtype=f32), shape=[B, 1]) * 0.1 + t * 0.3), shape=[B, T, 2])",
        "h": "gru_step(zeros(shape=[B, 6]), x @ w + b, u, c, over=1MANNER)",
        "loss": "mean((mean(h, axis=2) - reshape(sin(cast(n, dtype=f32) * 0.1), shape=[B, 1])) ** 2.0)",
    },
    stages: {"fit": Train(data: "r.train", batch: 16, epochs: 2, loss: "loss", optimizer: Adam(lr: 2e-2))},
)"#;

fn losses(
    (length, manner, precision): (usize, &str, &str),
    (device, fuse): (Arc<dyn Device>, bool),
    without: &[&str],
) -> Vec<f64> {
    let text = NETWORK.replace("LENGTH", &length.to_string()).replace("MANNER", manner);
    let text = text.replace("PRECISION", precision);
    let without = without.iter().map(ToString::to_string).collect();
    let options = Options { fuse, without, ..Options::default() };
    let report = offline::session(&text, device, options).run_stages(None, &mut |_| {}).unwrap();
    report.stages[0].epochs.iter().map(|epoch| epoch.train_loss).collect()
}

/// A loop of 131 positions has ten chunks of 12 and a rest of 11; 20 positions are written out.
#[test]
fn a_loop_that_keeps_less_learns_the_same() {
    for length in [131, 20] {
        let plain = losses((length, "", ""), devices().remove(0), &[]);
        for device in devices() {
            assert_close(&losses((length, ", keep=sqrt", ""), device, &[]), &plain);
        }
    }
}

#[test]
fn hoisting_and_written_rows_change_no_loss() {
    for device in devices() {
        let [with, hoisted, scattered] = [&[][..], &["hoist-from-loops"], &["row-writes"]]
            .map(|off| losses((131, "", ""), device.clone(), off));
        assert_close(&with, &hoisted);
        assert_close(&with, &scattered);
    }
}

/// In a half type, a loop is as far from its unrolled copies as rounding explains.
#[test]
fn mixed_precision_enters_loops() {
    let exact = losses((131, "", ""), devices().remove(0), &[]);
    for device in devices() {
        let of = |manner| losses((131, manner, "precision: Bf16,"), device.clone(), &[]);
        let (looped, copies) = (of(""), of(", unroll=true"));
        for ((a, b), exact) in looped.iter().zip(&copies).zip(&exact) {
            assert!((a - b).abs() < 0.02 * b && (a - exact).abs() < 0.02 * exact, "{a} {b} {exact}");
            assert!(a != exact, "nothing was rounded");
        }
    }
}

/// A loop of minutes stops soon after the session is cancelled, in the second step too, which CUDA replays as a graph.
#[test]
fn a_long_loop_can_be_cancelled() {
    let text = r#"(
        params: {"late": (type: "f32[]", init: FIRST, state: true)},
        functions: {"f": (
            inputs: ["h", "limit"],
            nodes: {"y": "sin(h) + 1e-3"},
            outputs: {"h": "y", "done": "amax(y) > limit"},
        )},
        nodes: {"y": "f(zeros(shape=[1000]), late * 9.0, until=done, most=2000000000)", "next": "late * 0.0 + 1.0"},
        stages: {"go": Run(state: {"late": "next"}, steps: 2, outputs: ["y"])},
    )"#;
    for ((device, fuse), first) in
        devices().into_iter().flat_map(|device| [(device.clone(), "1"), (device, "0")])
    {
        let text = text.replace("FIRST", first);
        let mut session = offline::session(&text, device, Options { fuse, ..Options::default() });
        let flag = session.cancel_flag();
        let start = Instant::now();
        let waiting = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            flag.store(true, Ordering::Relaxed);
        });
        let error = session.run_stages(None, &mut |_| {}).unwrap_err();
        waiting.join().unwrap();
        assert!(matches!(error, SessionError::Interrupted { checkpoint: None }), "{error}");
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
}

/// A failed check ends a loop that has no other end.
#[test]
fn a_failed_check_ends_a_loop() {
    let text = r#"(
        params: {"table": (type: "f32[140]", init: 1.0)},
        functions: {"f": (
            inputs: ["i", "table"],
            nodes: {"row": "index_select(table, reshape(i, shape=[1]), axis=0)"},
            outputs: {"i": "i + 1", "done": "sum(row) < 0.0"},
        )},
        nodes: {"y": "f(zeros(shape=[], dtype=i32), table, until=done, most=2000000000)"},
        stages: {"go": Run(outputs: ["y"])},
    )"#;
    for device in devices() {
        let error = run_on(text, device).err().unwrap().to_string();
        assert!(error.contains("140"), "{error}");
    }
}
