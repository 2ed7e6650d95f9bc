//! Loops at their limits: no positions, three levels, conditions that never hold, and numbers that are none.

use super::{assert_close, devices, offline, outputs, present, refused, run_on};
use engine::core::compile::Options;
use engine::runtime::session::Inspection;

/// A function has no result of no calls, and the refusal names the sequence. It holds for loops in loops, too.
#[test]
fn a_sequence_of_no_positions_is_refused() {
    let text = r#"(
        functions: {
            "grow": (inputs: ["a", "x"], output: "a * 1.5 + x"),
            "outer": (inputs: ["a", "x", "empty"], nodes: {"s": "grow(a, empty, over=0)"}, output: "a + sum(s) + x"),
        },
        nodes: {"a": "ones(shape=[4])", "empty": "zeros(shape=[0, 4])", "y": "CALL"},
        stages: {"go": Run(outputs: ["y"])},
    )"#;
    for call in ["grow(a, empty, over=0)", "outer(a, ones(shape=[200, 4]), empty, over=0)"] {
        let said = refused(&text.replace("CALL", call));
        assert!(said.contains("error[E0104]: `over` visits axis 0 of f32[0, 4]"), "{call}: {said}");
        assert!(said.contains("the extent of the axis is a number from 1 on"), "{call}: {said}");
    }
}

/// Three levels: the innermost one halves, the next one counts halvings, the outermost one goes on until a sum is large.
#[test]
fn loops_stand_within_loops_within_loops() {
    let text = r#"(
        functions: {
            "halve": (inputs: ["h"], nodes: {"y": "h * 0.5"}, outputs: {"h": "y", "done": "y < 1.0"}),
            "count": (
                inputs: ["n", "x"],
                nodes: {"fit": "halve(x, until=done, most=9)"},
                outputs: {"n": "n + cast(fit.trips, dtype=f32)", "x": "x * 3.0", "done": "x > 100.0"},
            ),
            "total": (
                inputs: ["s", "x"],
                nodes: {"inner": "count(zeros(shape=[]), x, until=done, most=12)", "next": "s + inner"},
                outputs: {"s": "next", "x": "x + 1.0", "done": "next >= 100.0"},
            ),
        },
        nodes: {
            "all": "total(zeros(shape=[]), ones(shape=[]), until=done, most=50)",
            "s": "all * 1.0", "x": "all.x", "trips": "all.trips", "done": "all.done",
        },
        stages: {"go": Run(steps: 2, outputs: ["s", "x", "trips", "done"])},
    )"#;
    let halvings = |x: f64| (1..=9).find(|&n| x * 0.5f64.powi(n) < 1.0).unwrap_or(9);
    let count = |start: f64| {
        let (mut n, mut x) = (0.0, start);
        for _ in 0..12 {
            n += f64::from(halvings(x));
            x *= 3.0;
            if x / 3.0 > 100.0 {
                break;
            }
        }
        n
    };
    let (mut s, mut x, mut trips) = (0.0, 1.0, 0.0);
    while s < 100.0 {
        s += count(x);
        (x, trips) = (x + 1.0, trips + 1.0);
    }
    assert!(trips > 2.0 && trips < 50.0);
    for device in devices() {
        let of = outputs(text, device);
        assert_eq!([of("s"), of("x"), of("trips"), of("done")].concat(), [s, x, trips, 1.0]);
    }
}

/// A comparison with NaN is false, so the condition never holds, and the loop ends after the most calls.
#[test]
fn a_condition_of_nan_does_not_hold() {
    let text = r#"(
        functions: {"f": (
            inputs: ["h"],
            nodes: {"y": "log(h) * 0.5"},
            outputs: {"h": "y", "done": "CONDITION"},
        )},
        nodes: {"fit": "f(full(shape=[2], value=2.0), until=done, most=40)", "y": "fit * 1.0", "done": "fit.done", "trips": "fit.trips"},
        stages: {"go": Run(outputs: ["y", "done", "trips"])},
    )"#;
    for device in devices() {
        // The logarithm of 2 is positive, that of its half negative, and that of a negative number NaN.
        let of = |condition: &str| outputs(&text.replace("CONDITION", condition), device.clone());
        let never = of("sum(y) < -100.0");
        assert!(never("y").iter().all(|y| y.is_nan()));
        assert_eq!((never("done"), never("trips")), (vec![0.0], vec![40.0]));
        let found = of("any(isnan(y))");
        assert_eq!((found("done"), found("trips")), (vec![1.0], vec![3.0]));
    }
}

/// The node in the region of a loop, and the number of the trip.
#[test]
fn the_trip_that_makes_a_nan_is_found() {
    let text = r#"(
        functions: {
            "down": (inputs: ["h", "x"], nodes: {"y": "log(h - 1.0 + x)"}, output: "h - 0.5 + 1e-12 * y"),
            "outer": (inputs: ["h", "x", "z"], nodes: {"s": "down(h, z, over=0)"}, output: "h - 1.0 + 1e-12 * sum(s)"),
        },
        nodes: {
            "h": "full(shape=[2], value=50.0)",
            "y": "down(h, zeros(shape=[200, 2]), over=0)",
            "z": "outer(h + 100.0, zeros(shape=[150, 2]), zeros(shape=[180, 2]), over=0)",
        },
        stages: {"go": Run(outputs: ["OUTPUT"])},
    )"#;
    let traced = |output: &str| {
        let options = Options::default();
        let mut session = offline::session(&text.replace("OUTPUT", output), present::cpu(2), options);
        session.inspect(Inspection { trace_nan: true, ..Inspection::default() });
        session.run_stages(None, &mut |_| {}).unwrap_err().to_string()
    };
    // 50 - 0.5 n - 1 is 0 for n = 98, and negative for the next.
    let said = traced("y");
    assert!(said.contains("step 0, iteration 98: ") && said.contains("log("), "{said}");
    assert!(said.contains("is the first to make -inf, at [0]"), "{said}");
    // 150 - n - 0.5 m - 1 is 0 for n = 60 and m = 178, which is the last but one.
    let said = traced("z");
    assert!(said.contains("step 0, iteration 60, iteration 178: "), "{said}");
}

/// The results are those of a loop that ends by itself, whether it does so early or with its last call.
#[test]
fn the_last_call_may_be_the_one_that_ends_a_loop() {
    let text = r#"(
        functions: {"f": (inputs: ["h"], nodes: {"y": "h + 1.0"}, outputs: {"h": "y", "done": "sum(y) >= 10.0"})},
        nodes: {"fit": "f(zeros(shape=[]), until=done, most=MOST)", "y": "fit * 1.0", "done": "fit.done", "trips": "fit.trips"},
        stages: {"go": Run(outputs: ["y", "done", "trips"])},
    )"#;
    for device in devices() {
        for (most, done) in [("9", 0.0), ("10", 1.0), ("11", 1.0)] {
            let report = run_on(&text.replace("MOST", most), device.clone()).unwrap();
            let of = |name: &str| report.outputs[name].values.to_f64();
            let trips = 9.0 + done;
            assert_close(&of("y"), &[trips]);
            assert_eq!((of("done"), of("trips")), (vec![done], vec![trips]), "most={most}");
        }
    }
}
