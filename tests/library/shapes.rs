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
    let halves = "`2` without a remainder\n   ┌─ shapes.ron:4:78";
    let rows = "\n   ┌─ shapes.ron:5:63";
    for (u, shape, expected) in [
        ("f32[B, 9]", "[_, V]", format!("error[E0117]: the extent `9` cannot be divided by {halves}")),
        ("f32[B, K]", "[_, V]", format!("error[E0117]: the extent `K` cannot be divided by {halves}")),
        (
            "f32[B, 10]",
            "[T, _, _]",
            format!("error[E0104]: f32[B, 3, 6] cannot be reshaped to [3, _, _]{rows}"),
        ),
        ("f32[B, 10]", "[_, 4]", format!("error[E0104]: f32[B, 3, 6] cannot be reshaped to [_, 4]{rows}")),
    ] {
        let faults = Engine::new().read("shapes.ron", &text(u, shape)).unwrap_err().to_string();
        assert!(faults.starts_with(&expected), "{faults}");
        assert!(faults.contains("in this call of `"), "{faults}");
    }
}
