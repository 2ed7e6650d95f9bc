//! Extents of operands, which have names inside a function.

use engine::Engine;
use expect_test::expect;

/// Arithmetic over the extents of operands, and a free extent, in functions that call each other.
fn text(u: &str, shape: &str) -> String {
    format!(
        r#"(
    dims: {{"V": 6}},
    functions: {{
        "halves": (inputs: {{"x": "[B, H]"}}, output: "reshape(x, shape=[B, 2, H / 2])"),
        "rows": (inputs: {{"x": "[B, T, V]"}}, output: "reshape(x, shape={shape})"),
        "back": (inputs: {{"x": "[B, T, V]"}}, nodes: {{"flat": "rows(x)"}}, output: "reshape(flat, shape=[B, _, V])"),
        "both": (inputs: {{"x": "[B, T, V]"}}, output: "halves(rows(x))"),
    }},
    inputs: {{"x": "f32[B, 3, V]", "u": "{u}"}},
    nodes: {{"a": "back(x)", "b": "both(x)", "c": "halves(u)", "all": "sum(a) + sum(b) + sum(c)"}},
)"#
    )
}

#[test]
fn shapes_in_functions_follow_from_operands() {
    let program = Engine::new().read("shapes.ron", &text("f32[B, 10]", "[_, V]")).unwrap();
    expect![[r#"
        graph shapes {
          input x: f32[B, 3, 6]
          input u: f32[B, 10]
          a.flat: f32[3 * B, 6] = reshape(x, shape=[_, 6])
          a: f32[B, 3, 6] = reshape(a.flat, shape=[B, _, 6])
          b.1: f32[3 * B, 6] = reshape(x, shape=[_, 6])
          b: f32[3 * B, 2, 3] = reshape(b.1, shape=[3 * B, 2, 3])
          c: f32[B, 2, 5] = reshape(u, shape=[B, 2, 5])
          all.1: f32[] = sum(a)
          all.2: f32[] = sum(b)
          all.3: f32[] = add(all.1, all.2)
          all.4: f32[] = sum(c)
          all: f32[] = add(all.3, all.4)
        }
    "#]]
    .assert_eq(&program.graph.to_string());
}

#[test]
fn extents_that_cannot_be_are_refused_at_their_places() {
    for (u, shape, expected) in [
        (
            "f32[B, 9]",
            "[_, V]",
            expect![[r#"
            error[E0117]: the extent `9` cannot be divided by `2` without a remainder
               ┌─ shapes.ron:4:78
               │
             4 │         "halves": (inputs: {"x": "[B, H]"}, output: "reshape(x, shape=[B, 2, H / 2])"),
               │                                                                              ^^^^^
               ·
            10 │     nodes: {"a": "back(x)", "b": "both(x)", "c": "halves(u)", "all": "sum(a) + sum(b) + sum(c)"},
               │                                                   --------- in this call of `halves` on f32[B, 9]
               │
               = help: an extent is a number, a name such as `B`, or arithmetic of them
        "#]],
        ),
        (
            "f32[B, K]",
            "[_, V]",
            expect![[r#"
            error[E0117]: the extent `K` cannot be divided by `2` without a remainder
               ┌─ shapes.ron:4:78
               │
             4 │         "halves": (inputs: {"x": "[B, H]"}, output: "reshape(x, shape=[B, 2, H / 2])"),
               │                                                                              ^^^^^
               ·
            10 │     nodes: {"a": "back(x)", "b": "both(x)", "c": "halves(u)", "all": "sum(a) + sum(b) + sum(c)"},
               │                                                   --------- in this call of `halves` on f32[B, K]
               │
               = help: an extent is a number, a name such as `B`, or arithmetic of them
        "#]],
        ),
        (
            "f32[B, 10]",
            "[T, _, _]",
            expect![[r#"
            error[E0104]: f32[B, 3, 6] cannot be reshaped to [3, _, _]
               ┌─ shapes.ron:5:63
               │
             5 │         "rows": (inputs: {"x": "[B, T, V]"}, output: "reshape(x, shape=[T, _, _])"),
               │                                                               ^ this is f32[B, 3, 6]
             6 │         "back": (inputs: {"x": "[B, T, V]"}, nodes: {"flat": "rows(x)"}, output: "reshape(flat, shape=[B, _, V])"),
               │                                                               ------- in this call of `rows` on f32[B, 3, 6]
               ·
            10 │     nodes: {"a": "back(x)", "b": "both(x)", "c": "halves(u)", "all": "sum(a) + sum(b) + sum(c)"},
               │                   ------- in this call of `back` on f32[B, 3, 6]
               │
               = help: the number of elements must stay, and only one extent can be `_`"#]],
        ),
        (
            "f32[B, 10]",
            "[_, 4]",
            expect![[r#"
            error[E0104]: f32[B, 3, 6] cannot be reshaped to [_, 4]
               ┌─ shapes.ron:5:63
               │
             5 │         "rows": (inputs: {"x": "[B, T, V]"}, output: "reshape(x, shape=[_, 4])"),
               │                                                               ^ this is f32[B, 3, 6]
             6 │         "back": (inputs: {"x": "[B, T, V]"}, nodes: {"flat": "rows(x)"}, output: "reshape(flat, shape=[B, _, V])"),
               │                                                               ------- in this call of `rows` on f32[B, 3, 6]
               ·
            10 │     nodes: {"a": "back(x)", "b": "both(x)", "c": "halves(u)", "all": "sum(a) + sum(b) + sum(c)"},
               │                   ------- in this call of `back` on f32[B, 3, 6]
               │
               = help: the number of elements must stay, and only one extent can be `_`"#]],
        ),
    ] {
        let faults = Engine::new().read("shapes.ron", &text(u, shape)).unwrap_err().to_string();
        // The others are the same fault in further calls.
        expected.assert_eq(faults.split("\n\n").next().unwrap());
    }
}
