//! Faults within functions, and the calls that lead to them.

use super::*;

/// A fault deep in functions has its own place, and names every call that leads to it.
#[test]
fn faults_in_functions_name_the_calls() {
    let text = r#"(
    functions: {
        "inner": (inputs: ["x"], nodes: {"s": "x @ x"}, output: "s"),
        "outer": (inputs: ["x", "y"], output: "inner(x) + y"),
        "Layer": (inputs: ["x"], params: {"w": "f32[4]"}, nodes: {"h": "outer(x, w)"}, output: "h"),
    },
    inputs: {"x": "f32[B, 4]"},
    nodes: {"a": "Layer(x)", "b": "exp(inner(x))"},
)"#;
    check_faults(
        text,
        expect![[r#"
        error[E0104]: cannot multiply f32[B, 4] by f32[B, 4]
          ┌─ mnist.ron:3:52
          │
        3 │         "inner": (inputs: ["x"], nodes: {"s": "x @ x"}, output: "s"),
          │                                                -   ^ this is f32[B, 4]
          │                                                │
          │                                                this is f32[B, 4]
        4 │         "outer": (inputs: ["x", "y"], output: "inner(x) + y"),
          │                                                -------- in this call of `inner` on f32[B, 4]
        5 │         "Layer": (inputs: ["x"], params: {"w": "f32[4]"}, nodes: {"h": "outer(x, w)"}, output: "h"),
          │                                                                         ----------- in this call of `outer` on f32[B, 4], f32[4]
          ·
        8 │     nodes: {"a": "Layer(x)", "b": "exp(inner(x))"},
          │                   -------- in this call of `Layer` on f32[B, 4]
          │
          = help: the inner extents must agree

        error[E0104]: cannot multiply f32[B, 4] by f32[B, 4]
          ┌─ mnist.ron:3:52
          │
        3 │         "inner": (inputs: ["x"], nodes: {"s": "x @ x"}, output: "s"),
          │                                                -   ^ this is f32[B, 4]
          │                                                │
          │                                                this is f32[B, 4]
          ·
        8 │     nodes: {"a": "Layer(x)", "b": "exp(inner(x))"},
          │                                        -------- in this call of `inner` on f32[B, 4]
          │
          = help: the inner extents must agree
    "#]],
    );
}

/// The file and the line of a layer that comes with the program.
#[test]
fn faults_in_libraries_have_places() {
    let mut registry = ops();
    let library = "(\n  functions: {\n    \"Square\": (inputs: [\"x\"], output: \"x @ x\"),\n  },\n)";
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    add_library(&mut sources, &mut registry, ("layers/square.ron", library), &mut diags);
    assert!(!diags.has_errors());
    assert_eq!(
        library_text(&registry, "Square"),
        Some(LibraryText {
            place: "layers/square.ron:3".into(),
            text: r#""Square": (inputs: ["x"], output: "x @ x")"#.into()
        })
    );
    assert_eq!(library_text(&registry, "Cube"), None);
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    let file = sources.add("own.ron", r#"(inputs: {"x": "f32[B, 4]"}, nodes: {"y": "Square(x)"})"#);
    assert!(load(&mut sources, file, &mut registry, &[], &[], &mut diags).is_none());
    expect![[r#"
        error[E0104]: cannot multiply f32[B, 4] by f32[B, 4]
          ┌─ layers/square.ron:3:44
          │
        3 │     "Square": (inputs: ["x"], output: "x @ x"),
          │                                        -   ^ this is f32[B, 4]
          │                                        │
          │                                        this is f32[B, 4]
          │
          ┌─ own.ron:1:44
          │
        1 │ (inputs: {"x": "f32[B, 4]"}, nodes: {"y": "Square(x)"})
          │                                            --------- in this call of `Square` on f32[B, 4]
          │
          = help: the inner extents must agree
    "#]]
    .assert_eq(&diags.render(&sources, Look::Plain));
}
