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

/// A sound library with a function that has a fault, whose text is read only if it is asked for.
fn with_sound_library() -> Registry {
    let mut registry = ops();
    let library = r#"(
      functions: {
        "twice": (inputs: ["x"], output: "x + x"),
        "Scale": (inputs: {"x": "[B, D]"}, params: {"w": "f32[D]"}, output: "twice(x) * w"),
        "Scales": (inputs: ["x"], layers: {"a": "Scale"}, output: "a(x)"),
        "faulty": (inputs: ["x"], output: "later(x)"),
        "later": (inputs: ["x"], output: "x"),
      },
    )"#;
    add_sound_library(&mut registry, ("sound.ron", library));
    registry
}

#[test]
fn functions_of_a_sound_library_are_read_when_they_are_called() {
    let mut registry = with_sound_library();
    assert_eq!(registry.op("twice").unwrap().family, "layer");
    let owns_params = |name: &str| registry.op(name).is_none();
    assert!(owns_params("Scale") && owns_params("Scales"));
    assert!(library_text(&registry, "faulty").is_some());
    let (mut sources, mut diags) = (Sources::new(), Diagnostics::new());
    // A pipeline may define a layer of the same name, which then takes its place.
    let text = r#"(
      inputs: {"x": "f32[B, 4]"},
      functions: {"Scale": (inputs: {"x": "[B, D]"}, params: {"own": "f32[D]"}, output: "x + own")},
      nodes: {"y": "Scale(Scales(x))"},
    )"#;
    let file = sources.add("own.ron", text);
    let pipeline = load(&mut sources, file, &mut registry, &[], &[], &mut diags).unwrap();
    let params: Vec<&str> = pipeline.params.iter().map(|param| &*param.name).collect();
    assert_eq!(params, ["y.1.a.w", "y.own"]);
}

#[test]
#[should_panic(expected = "there is no op `later`")]
fn a_fault_of_a_sound_library_is_a_bug() {
    with_sound_library().ops().for_each(drop);
}

#[test]
#[should_panic(expected = "the library `sound.ron`")]
fn a_sound_library_is_ron() {
    add_sound_library(&mut ops(), ("sound.ron", "(functions: {"));
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
