//! Functions, and the paths of their nodes.

use super::*;

#[test]
fn functions_are_ops() {
    let text = r#"(
        functions: {
            "double_swish": (inputs: ["x"], output: "swish(swish(x, beta=2.0))"),
            "swish": (inputs: ["x"], attrs: {"beta": 1.0, "axis": 0}, nodes: {"s": "sigmoid(x * beta)"}, output: "x * s"),
            "both": (inputs: ["a", "b"], outputs: {"low": "a - b", "high": "a + b"}),
        },
        inputs: {"x": "f32[B, 4]"},
        nodes: {"y": "double_swish(x)", "z": "both(x, 1.0).high"},
        stages: {"go": Run(outputs: ["y", "z"], dims: {"B": 2})},
    )"#;
    let (mut sources, mut diags, mut registry) = (Sources::new(), Diagnostics::new(), ops());
    let file = sources.add("f.ron", text);
    let pipeline = load(&mut sources, file, &mut registry, &[], &[], &mut diags);
    assert_eq!(diags.render(&sources, Look::Plain), "");
    let typed = pipeline.unwrap().graph;
    expect![[r#"
        graph f {
          input x: f32[B, 4]
          y.1.s.1: f32[] = .const(2.0)
          y.1.s.2: f32[B, 4] = mul(x, y.1.s.1)
          y.1.s: f32[B, 4] = sigmoid(y.1.s.2)
          y.1: f32[B, 4] = mul(x, y.1.s)
          y.2.s.1: f32[] = .const(1.0)
          y.2.s.2: f32[B, 4] = mul(y.1, y.2.s.1)
          y.2.s: f32[B, 4] = sigmoid(y.2.s.2)
          y: f32[B, 4] = mul(y.1, y.2.s)
          z.1: f32[] = .const(1.0)
          z.low: f32[B, 4] = sub(x, z.1)
          z: f32[B, 4] = add(x, z.1)
        }
    "#]]
    .assert_eq(&typed.to_string());
}

#[test]
fn plugins_hold_functions_alone() {
    let (mut sources, mut diags, mut registry) = (Sources::new(), Diagnostics::new(), ops());
    let plugin =
        sources.add("swish.ron", r#"(functions: {"swish": (inputs: ["x"], output: "x * sigmoid(x)")})"#);
    let faulty = sources.add("more.ron", r#"(functions: {"relu": (inputs: ["x"], output: "x")}, seed: 3)"#);
    let file = sources.add("p.ron", with_nodes(r#"{"y": "swish(x)"}"#));
    load(&mut sources, file, &mut registry, &[], &[plugin], &mut diags).unwrap();
    load(&mut sources, file, &mut ops(), &[], &[plugin, faulty], &mut diags);
    expect![[r#"
        error[E0302]: there is an op `relu` already
          ┌─ more.ron:1:15
          │
        1 │ (functions: {"relu": (inputs: ["x"], output: "x")}, seed: 3)
          │               ^^^^
          │
          = help: choose another name

        error[E0403]: a plugin file cannot define `seed`
          ┌─ more.ron:1:53
          │
        1 │ (functions: {"relu": (inputs: ["x"], output: "x")}, seed: 3)
          │                                                     ^^^^
          │
          = help: it holds `functions: {…}` alone; the rest belongs into the pipeline

        warning[E0303]: no stage uses `i`
          ┌─ p.ron:1:30
          │
        1 │ (inputs: {"x": "f32[B, 4]", "i": "i32[B]", "u": "u8[B]"}, nodes: {"y": "swish(x)"},
          │                              ^
          │
          = help: leave it out, or name it in a stage

        warning[E0303]: no stage uses `u`
          ┌─ p.ron:1:45
          │
        1 │ (inputs: {"x": "f32[B, 4]", "i": "i32[B]", "u": "u8[B]"}, nodes: {"y": "swish(x)"},
          │                                             ^
          │
          = help: leave it out, or name it in a stage
    "#]]
    .assert_eq(&diags.render(&sources, Look::Plain));
}

#[test]
fn nodes_of_functions_have_paths() {
    let text = r#"(
        functions: {
            "inner": (inputs: ["x"], nodes: {"a": "x * 2.0", "b": "a"}, output: "a + b"),
            "outer": (inputs: ["x"], nodes: {"p": "inner(x)", "q": "inner(p) * inner(x)"}, outputs: {"q": "q", "r": "x"}),
        },
        inputs: {"x": "f32[B]"},
        nodes: {"y": "outer(x)", "z": "y.r + 1.0"},
        stages: {
            "go": Run(outputs: ["y", "y.r", "y.p.a", "z"], dims: {"B": 2}),
            "by_result": Run(outputs: {"first": "y.q", "second": "y.r"}, dims: {"B": 2}),
        },
    )"#;
    let (mut sources, mut diags, mut registry) = (Sources::new(), Diagnostics::new(), ops());
    let file = sources.add("f.ron", text);
    let pipeline = load(&mut sources, file, &mut registry, &[], &[], &mut diags);
    assert_eq!(diags.render(&sources, Look::Plain), "");
    expect![[r#"
        graph f {
          input x: f32[B]
          y.p.a.1: f32[] = .const(2.0)
          y.p.a: f32[B] = mul(x, y.p.a.1)
          y.p.b: f32[B] = map(y.p.a) |a| a
          y.p: f32[B] = add(y.p.a, y.p.b)
          y.q.1.a.1: f32[] = .const(2.0)
          y.q.1.a: f32[B] = mul(y.p, y.q.1.a.1)
          y.q.1.b: f32[B] = map(y.q.1.a) |a| a
          y.q.1: f32[B] = add(y.q.1.a, y.q.1.b)
          y.q.2.a.1: f32[] = .const(2.0)
          y.q.2.a: f32[B] = mul(x, y.q.2.a.1)
          y.q.2.b: f32[B] = map(y.q.2.a) |a| a
          y.q.2: f32[B] = add(y.q.2.a, y.q.2.b)
          y: f32[B] = mul(y.q.1, y.q.2)
          y.r: f32[B] = map(x) |a| a
          z.1: f32[] = .const(1.0)
          z: f32[B] = add(y.r, z.1)
        }
    "#]]
    .assert_eq(&pipeline.unwrap().graph.to_string());
}

#[test]
fn a_path_into_a_function_cannot_be_declared_as_well() {
    let nodes = r#"{"y": "f(x)", "y.a": "x"}"#;
    let text = format!(
        r#"(
    functions: {{"f": (inputs: ["x"], nodes: {{"a": "x * 2.0"}}, output: "a")}},
    inputs: {{"x": "f32[2]"}},
    nodes: {nodes},
)"#
    );
    let (mut sources, mut diags, mut registry) = (Sources::new(), Diagnostics::new(), ops());
    let file = sources.add("f.ron", text);
    load(&mut sources, file, &mut registry, &[], &[], &mut diags);
    expect![[r#"
        error[E0302]: `y.a` is defined twice
          ┌─ f.ron:4:27
          │
        2 │     functions: {"f": (inputs: ["x"], nodes: {"a": "x * 2.0"}, output: "a")},
          │                                                    ------- a call of this function defines it, too
        3 │     inputs: {"x": "f32[2]"},
        4 │     nodes: {"y": "f(x)", "y.a": "x"},
          │                           ^^^
          │
          = help: give one of them another name
    "#]]
    .assert_eq(&diags.render(&sources, Look::Plain));
}

#[test]
fn an_operand_that_is_left_out_names_extents_as_others_do() {
    let text = |call: &str| {
        format!(
            r#"(
                functions: {{
                    "f": (inputs: {{"x": "[B, D]", "h": (type: "[B, K]", default: "x")}}, output: "x * K"),
                    "g": (inputs: {{"x": "[B, D]", "h": (type: "[D]", default: "x")}}, output: "h"),
                }},
                inputs: {{"x": "f32[B, 4]", "h": "f32[B, 7]"}},
                nodes: {{"y": "{call}"}},
                stages: {{"go": Run(outputs: ["y"], dims: {{"B": 2}})}},
            )"#
        )
    };
    let read = |call: &str| {
        let (mut sources, mut diags, mut registry) = (Sources::new(), Diagnostics::new(), ops());
        let file = sources.add("f.ron", text(call));
        let pipeline = load(&mut sources, file, &mut registry, &[], &[], &mut diags);
        pipeline.map_or_else(|| diags.render(&sources, Look::Plain), |pipeline| pipeline.graph.to_string())
    };
    assert!(read("f(x)").contains("y.1: f32[] = .const(4.0)"));
    assert!(read("f(x, h)").contains("y.1: f32[] = .const(7.0)"));
    assert!(read("g(x)").contains("error[E0104]: `h` has 1 axis, not 2"));
}

#[test]
fn faulty_functions() {
    check_faults(
        r#"(
    functions: {
        "f": (inputs: ["x"], output: "g(x)"), "g": (inputs: ["x"], output: "f(x) + 1"),
        "relu": (inputs: ["x"], output: "x"),
        "h": (inputs: ["x", "2"], attrs: {"k": None}, nodes: {"a": "x + y"}, output: "a + b"),
        "u": (inputs: ["x"], output: "x + y + tahn(x)"),
        "t": (inputs: ["x"], nodes: {"a": "relu(x)"}, output: "a @ a", sumary: ""),
        "v": (inputs: ["x"], nodes: {"a": "relu(x)"}, output: "a @ a"),
    },
    inputs: {"x": "f32[B, 4]", "i": "i32[3]"},
    nodes: {"a": "f(x) + h(x)", "b": "v(x)", "c": "v(i)", "d": "v(x, x)"},
)"#,
        expect![[r#"
            error[E0402]: functions call each other in a circle: f → g → f
              ┌─ mnist.ron:3:10
              │
            3 │         "f": (inputs: ["x"], output: "g(x)"), "g": (inputs: ["x"], output: "f(x) + 1"),
              │          ^
              │
              = help: a function is written out where it is called, which would not end

            error[E0302]: there is an op `relu` already
              ┌─ mnist.ron:4:10
              │
            4 │         "relu": (inputs: ["x"], output: "x"),
              │          ^^^^
              │
              = help: choose another name

            error[E0016]: `2` cannot be a name
              ┌─ mnist.ron:5:30
              │
            5 │         "h": (inputs: ["x", "2"], attrs: {"k": None}, nodes: {"a": "x + y"}, output: "a + b"),
              │                              ^
              │
              = help: names are letters, digits and `_`, a letter first; dots may join several

            error[E0401]: `k` needs a default value
              ┌─ mnist.ron:5:48
              │
            5 │         "h": (inputs: ["x", "2"], attrs: {"k": None}, nodes: {"a": "x + y"}, output: "a + b"),
              │                                                ^^^^
              │
              = help: numbers, truth values, strings, element types, lists of extents and `Choice("a", "b")` are settings; `Int`, `Float`, `Bool` and `Str` have no default

            error[E0101]: nothing is called `y` in this function
              ┌─ mnist.ron:6:43
              │
            6 │         "u": (inputs: ["x"], output: "x + y + tahn(x)"),
              │                                           ^
              │
              = help: did you mean `x`?

            error[E0105]: there is no op `tahn`
              ┌─ mnist.ron:6:47
              │
            6 │         "u": (inputs: ["x"], output: "x + y + tahn(x)"),
              │                                               ^^^^
              │
              = help: `engine ops` lists all ops

            error[E0012]: a function has no field `sumary`
              ┌─ mnist.ron:7:72
              │
            7 │         "t": (inputs: ["x"], nodes: {"a": "relu(x)"}, output: "a @ a", sumary: ""),
              │                                                                        ^^^^^^
              │
              = help: did you mean `summary`?

            error[E0104]: `relu` does not take i32
               ┌─ mnist.ron:8:49
               │
             8 │         "v": (inputs: ["x"], nodes: {"a": "relu(x)"}, output: "a @ a"),
               │                                                 ^ this is i32[3]
               ·
            11 │     nodes: {"a": "f(x) + h(x)", "b": "v(x)", "c": "v(i)", "d": "v(x, x)"},
               │                                                    ---- in this call of `v` on i32[3]
               │
               = help: convert it with `cast(x, dtype=f32)`

            error[E0104]: cannot multiply f32[B, 4] by f32[B, 4]
               ┌─ mnist.ron:8:68
               │
             8 │         "v": (inputs: ["x"], nodes: {"a": "relu(x)"}, output: "a @ a"),
               │                                                                -   ^ this is f32[B, 4]
               │                                                                │
               │                                                                this is f32[B, 4]
               ·
            11 │     nodes: {"a": "f(x) + h(x)", "b": "v(x)", "c": "v(i)", "d": "v(x, x)"},
               │                                       ---- in this call of `v` on f32[B, 4]
               │
               = help: the inner extents must agree

            error[E0106]: `v` takes 1 operands, 2 given
               ┌─ mnist.ron:11:65
               │
            11 │     nodes: {"a": "f(x) + h(x)", "b": "v(x)", "c": "v(i)", "d": "v(x, x)"},
               │                                                                 ^^^^^^^
               │
               = help: it is called as `v(x)`
        "#]],
    );
}

#[test]
fn functions_that_explode_are_refused() {
    let mut functions = String::from(r#""f0": (inputs: ["x"], output: "exp(x)"),"#);
    for i in 1..40 {
        functions += &format!(r#""f{i}": (inputs: ["x"], output: "f{0}(x) + f{0}(x)"),"#, i - 1);
    }
    let text = format!(
        r#"(functions: {{{functions}}}, inputs: {{"x": "f32[4]"}}, nodes: {{"y": "f8(x)", "z": "f39(x)"}})"#
    );
    // Far below the 2^39 nodes that the last function stands for.
    let work = work_of(|| _ = read(&text, &[]));
    assert!(work.steps < 200_000 && work.bytes < 20_000_000, "{work:?}");
    check_faults(
        &text,
        expect![[r#"
        mnist.ron:1:576: error[E0401]: `f12` stands for 16382 nodes, 13 functions deep
         = help: the limits are 10000 nodes and 16 functions
    "#]],
    );
}

/// Patterns see the extents of the pipeline, so a name that both have is no new one.
#[test]
fn patterns_that_dims_of_the_pipeline_settle() {
    check_faults(
        r#"(
    dims: {"C": 6},
    functions: {"double": (inputs: {"x": "[N, C]"}, output: "x + x")},
    inputs: {"a": "f32[4, 12]"},
    nodes: {"y": "double(a)"},
)"#,
        expect![[r#"
            error[E0104]: axis 1 of `x` is 12, not 6
              ┌─ mnist.ron:5:26
              │
            5 │     nodes: {"y": "double(a)"},
              │                          ^ this is f32[4, 12]
              │
              = help: `dims` of the pipeline make `C` 6; a name that is not among them takes any extent
        "#]],
    );
}

/// Further axes may come last, too. Extents are then counted from the first axis on.
#[test]
fn patterns_with_further_axes_at_the_end() {
    let faults = |pattern: &str, input: &str| {
        let text = format!(
            r#"(
    functions: {{"f": (inputs: {{"x": "{pattern}", "z": "[N]"}}, output: "z * 1.0")}},
    inputs: {{"a": "{input}", "b": "f32[5]"}},
    nodes: {{"y": "f(a, b)"}},
)"#
        );
        let (_, diags, sources) = read(&text, &[]);
        diags.render(&sources, Look::Plain)
    };
    for input in ["f32[5, 2]", "f32[5, 2, 3]", "f32[5, 2, 3, 4, 1]"] {
        assert_eq!(faults("[N, 2, ...]", input), "", "{input}");
    }
    for (pattern, input, fault) in [
        ("[N, 2, ...]", "f32[5]", "`x` has at least 2 axes, not 1"),
        ("[N, 2, ...]", "f32[5, 3, 2]", "axis 1 of `x` is 3, not 2"),
        ("[N, 2, ...]", "f32[4, 2, 5]", "axis 0 of `z` is 5, not 4"),
        ("[N, ..., C]", "f32[5, 3]", "`...` comes first or last in a pattern"),
        ("[..., N, ...]", "f32[5, 3]", "`...` comes first or last in a pattern"),
    ] {
        let found = faults(pattern, input);
        assert!(found.contains(fault), "{pattern} of {input}: {found}");
    }
}
