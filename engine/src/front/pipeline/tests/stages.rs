//! Faults in stages.

use super::*;
use crate::pipeline::{LoadStage, SaveStage};

#[test]
fn faulty_stages() {
    let file = |stages: &str| {
        format!(
            r#"(
    data: {{"digits": (source: "mnist")}},
    inputs: {{"x": (type: "f32[B, 4]", from: "digits.images"), "z": "f32[B, K]"}},
    params: {{"w": "f32[4]"}},
    nodes: {{"h": "x * w", "loss": "mean(h)", "count": "argmax(loss, axis=0)", "next": "w * 2", "zz": "mean(z)"}},
    stages: {{{stages}
    }},
)"#
        )
    };
    check_faults(
        &file(
            r#"
        "a": Trian(data: "digits.train"),
        "b": Train(data: "digit.train", batch: 0, loss: "h", optimizer: Adm(lr: 1)),
        "c": Train(data: "digits.train", batch: 8, loss: "los", optimizer: Adam(lr: Cosin(1), beta: 2)),
        "d": Train(data: "digits.train", batch: 8, loss: "count"),
        "e": Train(data: "digits.train", batch: 8, loss: "loss", optimizer: Adam(lr: 1), state: {"w": "h", "v": "next"}, early_stop: 2),
        "f": Train(data: "digits.train", batch: 8, loss: "zz", optimizer: Adam(0.1)),
        "g": Run(outputs: ["z", "h"]),
        "h": Evaluate(data: "digits.test", batch: 1, metrics: {"m": "mean(h)"}),
        "i": Save("a", ["w"], "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),
        "l": Train(data: "digits.train", batch: 8, loss: "loss", state: {"w": "h"}),"#,
        ),
        expect![[r#"
            error[E0201]: there is no stage `Trian`
              ┌─ mnist.ron:7:14
              │
            7 │         "a": Trian(data: "digits.train"),
              │              ^^^^^
              │
              = help: did you mean `Train`?

            error[E0202]: there is no data source `digit`
              ┌─ mnist.ron:8:27
              │
            8 │         "b": Train(data: "digit.train", batch: 0, loss: "h", optimizer: Adm(lr: 1)),
              │                           ^^^^^
              │
              = help: did you mean `digits`?

            error[E0015]: `batch` cannot be 0
              ┌─ mnist.ron:8:48
              │
            8 │         "b": Train(data: "digit.train", batch: 0, loss: "h", optimizer: Adm(lr: 1)),
              │                                                ^
              │
              = help: it lies between 1 and 1099511627776

            error[E0205]: a loss is one number, `h` is f32[B, 4]
              ┌─ mnist.ron:8:57
              │
            8 │         "b": Train(data: "digit.train", batch: 0, loss: "h", optimizer: Adm(lr: 1)),
              │                                                         ^^^
              │
              = help: average it: `mean(h)`

            error[E0207]: there is no optimizer `Adm`
              ┌─ mnist.ron:8:73
              │
            8 │         "b": Train(data: "digit.train", batch: 0, loss: "h", optimizer: Adm(lr: 1)),
              │                                                                         ^^^
              │
              = help: did you mean `Adam`?

            error[E0101]: no node is called `los`
              ┌─ mnist.ron:9:59
              │
            9 │         "c": Train(data: "digits.train", batch: 8, loss: "los", optimizer: Adam(lr: Cosin(1), beta: 2)),
              │                                                           ^^^
              │
              = help: did you mean `loss`?

            error[E0014]: there is no schedule `Cosin`
              ┌─ mnist.ron:9:85
              │
            9 │         "c": Train(data: "digits.train", batch: 8, loss: "los", optimizer: Adam(lr: Cosin(1), beta: 2)),
              │                                                                                     ^^^^^
              │
              = help: did you mean `Cosine`?

            error[E0107]: `adam` has no setting `beta`
              ┌─ mnist.ron:9:95
              │
            9 │         "c": Train(data: "digits.train", batch: 8, loss: "los", optimizer: Adam(lr: Cosin(1), beta: 2)),
              │                                                                                               ^^^^
              │
              = help: did you mean `beta1`?

            error[E0206]: the stage says nothing about how parameters change
               ┌─ mnist.ron:10:14
               │
            10 │         "d": Train(data: "digits.train", batch: 8, loss: "count"),
               │              ^^^^^
               │
               = help: add `optimizer: Adam(lr: 1e-3)`

            error[E0205]: a loss is a float, this is i32[]
               ┌─ mnist.ron:10:58
               │
            10 │         "d": Train(data: "digits.train", batch: 8, loss: "count"),
               │                                                          ^^^^^^^
               │
               = help: only floats have gradients

            error[E0206]: `w` is no state, so it cannot be updated beside an optimizer
               ┌─ mnist.ron:11:99
               │
            11 │         "e": Train(data: "digits.train", batch: 8, loss: "loss", optimizer: Adam(lr: 1), state: {"w": "h", "v": "next"}, early_stop: 2),
               │                                                                                                   ^
               │
               = help: declare it with `state: true`, or leave it out of `state`

            error[E0206]: `v` is no parameter
               ┌─ mnist.ron:11:109
               │
            11 │         "e": Train(data: "digits.train", batch: 8, loss: "loss", optimizer: Adam(lr: 1), state: {"w": "h", "v": "next"}, early_stop: 2),
               │                                                                                                             ^
               │
               = help: did you mean `w`?

            error[E0011]: this needs the field `evaluate`
               ┌─ mnist.ron:11:134
               │
            11 │         "e": Train(data: "digits.train", batch: 8, loss: "loss", optimizer: Adam(lr: 1), state: {"w": "h", "v": "next"}, early_stop: 2),
               │                                                                                                                                      ^
               │
               = help: add `evaluate: Evaluate(data: …, batch: …, metrics: ["loss"])`: a metric of it tells the best epoch

            error[E0203]: `z` comes from the caller, but this stage reads `digits.train`
               ┌─ mnist.ron:12:14
               │
             3 │     inputs: {"x": (type: "f32[B, 4]", from: "digits.images"), "z": "f32[B, K]"},
               │                                                                - declared here
               ·
            12 │         "f": Train(data: "digits.train", batch: 8, loss: "zz", optimizer: Adam(0.1)),
               │              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               │
               = help: declare the input with `from: "digits.…"`

            error[E0112]: this stage does not say how large `B` is
               ┌─ mnist.ron:13:14
               │
             3 │     inputs: {"x": (type: "f32[B, 4]", from: "digits.images"), "z": "f32[B, K]"},
               │               - `x` is f32[B, 4]
               ·
            13 │         "g": Run(outputs: ["z", "h"]),
               │              ^^^^^^^^^^^^^^^^^^^^^^^^
               │
               = help: add `dims: {"B": …}`

            error[E0112]: this stage does not say how large `K` is
               ┌─ mnist.ron:13:14
               │
             3 │     inputs: {"x": (type: "f32[B, 4]", from: "digits.images"), "z": "f32[B, K]"},
               │                                                                - `z` is f32[B, K]
               ·
            13 │         "g": Run(outputs: ["z", "h"]),
               │              ^^^^^^^^^^^^^^^^^^^^^^^^
               │
               = help: add `dims: {"K": …}`

            error[E0101]: no node is called `mean(h)`
               ┌─ mnist.ron:14:70
               │
            14 │         "h": Evaluate(data: "digits.test", batch: 1, metrics: {"m": "mean(h)"}),
               │                                                                      ^^^^^^^
               │
               = help: give the expression a name under `nodes`, and name it here

            error[E0012]: a `Save` stage takes 2 values at most
               ┌─ mnist.ron:15:31
               │
            15 │         "i": Save("a", ["w"], "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),
               │                               ^^^
               │
               = help: it takes `(path, names)`

            error[E0201]: a stage says what it does by its first word
               ┌─ mnist.ron:15:42
               │
            15 │         "i": Save("a", ["w"], "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),
               │                                          ^^^^^^^
               │
               = help: known are `Train`, `Evaluate`, `Predict`, `Run`, `Search`, `Generate`, `Save`, `Load`, `Repeat`

            error[E0010]: `steps` must be a whole number, not a number
               ┌─ mnist.ron:15:84
               │
            15 │         "i": Save("a", ["w"], "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),
               │                                                                                    ^^^

            error[E0206]: `w` is f32[4], its next value is f32[B, 4]
               ┌─ mnist.ron:16:80
               │
            16 │         "l": Train(data: "digits.train", batch: 8, loss: "loss", state: {"w": "h"}),
               │                                                                                ^
               │
               = help: state keeps its type
        "#]],
    );
    check_faults(
        &file(r#""a": Run(outputs: ["next"])"#),
        expect![[r#"
        warning[E0303]: no stage uses `count`
          ┌─ mnist.ron:5:47
          │
        5 │     nodes: {"h": "x * w", "loss": "mean(h)", "count": "argmax(loss, axis=0)", "next": "w * 2", "zz": "mean(z)"},
          │                                               ^^^^^
          │
          = help: leave it out, or name it in a stage

        warning[E0303]: no stage uses `zz`
          ┌─ mnist.ron:5:97
          │
        5 │     nodes: {"h": "x * w", "loss": "mean(h)", "count": "argmax(loss, axis=0)", "next": "w * 2", "zz": "mean(z)"},
          │                                                                                                 ^^
          │
          = help: leave it out, or name it in a stage
    "#]],
    );
}

/// An extent that the graph does not have would otherwise be passed over.
#[test]
fn a_run_settles_open_extents_alone() {
    let file = |dims: &str| {
        format!(
            r#"(
    dims: {{"D": 4}},
    inputs: {{"x": "f32[Rows, D]"}},
    nodes: {{"y": "relu(x)"}},
    stages: {{"go": Run(outputs: ["y"], dims: {{{dims}}})}},
)"#
        )
    };
    check_faults(&file(r#""Rows": 2"#), expect![""]);
    check_faults(
        &file(r#""Rows": 2, "rwos": 3, "D": 4"#),
        expect![[r#"
        error[E0101]: the graph has no open extent `rwos`
          ┌─ mnist.ron:5:59
          │
        5 │     stages: {"go": Run(outputs: ["y"], dims: {"Rows": 2, "rwos": 3, "D": 4})},
          │                                                           ^^^^
          │
          = help: did you mean `Rows`?

        error[E0101]: the graph has no open extent `D`
          ┌─ mnist.ron:5:70
          │
        5 │     stages: {"go": Run(outputs: ["y"], dims: {"Rows": 2, "rwos": 3, "D": 4})},
          │                                                                      ^
          │
          = help: the pipeline's `dims` settle it: leave it out here
    "#]],
    );
    // A node with an error may have it.
    let faulty = file(r#""Rows": 2, "C": 3"#).replace("relu(x)", "rleu(zeros(shape=[C]))");
    let (_, diags, sources) = read(&faulty, &[]);
    assert!(!diags.render(&sources, Look::Plain).contains("open extent"));
}

/// The parts of an expression have names in printed graphs alone. Calls of a repeated layer can be named.
#[test]
fn a_part_of_an_expression_is_no_output() {
    let file = |outputs: &str| {
        format!(
            r#"(
    functions: {{"Twice": (inputs: {{"x": "f32[N]"}}, output: "x + relu(x)")}},
    inputs: {{"x": "f32[4]"}},
    nodes: {{"h": "relu(x * 2.0)", "y": "Twice(h, repeat=3)"}},
    stages: {{"go": Run(outputs: ["y", {outputs}])}},
)"#
        )
    };
    check_faults(&file(r#""y.0", "y.1""#), expect![""]);
    check_faults(
        &file(r#""h.2", "y.1.1", "y.5""#),
        expect![[r#"
        error[E0101]: no node is called `h.2`
          ┌─ mnist.ron:5:40
          │
        5 │     stages: {"go": Run(outputs: ["y", "h.2", "y.1.1", "y.5"])},
          │                                        ^^^
          │
          = help: it is a part of `h`; give that part a name under `nodes`

        error[E0101]: no node is called `y.1.1`
          ┌─ mnist.ron:5:47
          │
        5 │     stages: {"go": Run(outputs: ["y", "h.2", "y.1.1", "y.5"])},
          │                                               ^^^^^
          │
          = help: it is a part of `y.1`; give that part a name under `nodes`

        error[E0101]: no node is called `y.5`
          ┌─ mnist.ron:5:56
          │
        5 │     stages: {"go": Run(outputs: ["y", "h.2", "y.1.1", "y.5"])},
          │                                                        ^^^
          │
          = help: a stage names nodes of the graph
    "#]],
    );
}

/// State that a stage writes and nothing reads is told as such; state that a node reads, or an output shows, is used.
#[test]
fn state_that_is_only_written_is_told_as_that() {
    let file = |nodes: &str, outputs: &str| {
        format!(
            r#"(
    params: {{"prev": (type: "f32[]", state: true), "x": (type: "f32[]", state: true)}},
    nodes: {{{nodes}}},
    stages: {{"go": Run(steps: 2, outputs: [{outputs}], state: {{"prev": "x", "x": "next"}})}},
)"#
        )
    };
    check_faults(
        &file(r#""next": "x + 1""#, r#""next""#),
        expect![[r#"
            warning[E0303]: a stage writes `prev`, and nothing reads it
              ┌─ mnist.ron:2:15
              │
            2 │     params: {"prev": (type: "f32[]", state: true), "x": (type: "f32[]", state: true)},
              │               ^^^^
              │
              = help: use it in a node, name it in `outputs`, or leave it out of `state`
        "#]],
    );
    check_faults(&file(r#""next": "x + prev""#, r#""next""#), expect![""]);
    check_faults(&file(r#""next": "x + 1""#, r#""next", "prev""#), expect![""]);
}

#[test]
fn faulty_patterns_of_weights() {
    let faults = |names: &str| {
        let text = format!(
            r#"(
    functions: {{"Scale": (inputs: ["x"], params: {{"w": "f32[2]"}}, output: "x * w")}},
    inputs: {{"x": "f32[2]"}},
    nodes: {{"l": "Scale(x, repeat=2)"}},
    stages: {{"a": Load(path: "w.npz", names: {{{names}}})}},
)"#
        );
        let (pipeline, diags, _) = read(&text, &[]);
        assert!(pipeline.is_none(), "{names}");
        let messages = diags.sorted().into_iter().map(|fault| format!("{} {}", fault.code, fault.message));
        messages.collect::<Vec<_>>().join("\n")
    };
    for (names, expected) in [
        (r#""l.{i}.w": "h.{j}.w""#, "E0101 `h.{j}.w` does not follow the pattern `l.{i}.w`"),
        (r#""l.{i}.w": "h.w""#, "E0101 `h.w` does not follow the pattern `l.{i}.w`"),
        (r#""l.0.w": "h.{i}.w""#, "E0101 `h.{i}.w` does not follow the pattern `l.0.w`"),
        (r#""l.{i}.q": "h.{i}.q""#, "E0101 no parameter fits `l.{i}.q`"),
        (r#""l.{}.w": "h.{}.w""#, "E0101 no parameter fits `l.{}.w`"),
        (r#""l.{i.w": "h.{i}.w""#, "E0101 no parameter fits `l.{i.w`"),
        (r#""l.{i}.w": "h.{i}.w", "l.1.w": "other""#, "E0013 two entries name `l.1.w`"),
        (r#""l.{i}.w": 5"#, "E0010 the name of a tensor must be a string, not a whole number"),
    ] {
        assert_eq!(faults(names), expected);
    }
}

/// A pipeline that saves the parameters and states with these names.
fn saving(names: &str) -> String {
    format!(
        r#"(
    functions: {{"Scale": (inputs: ["x"], params: {{"w": "f32[2]", "b": "f32[2]"}}, output: "x * w + b")}},
    inputs: {{"x": "f32[2]"}},
    params: {{"w1": "f32[2]", "w2": (type: "f32[2]", state: true)}},
    nodes: {{"l": "Scale(x, repeat=2)", "y": "l * w1 + w2"}},
    stages: {{"go": Run(outputs: ["y"]), "keep": Save(path: "w.npz", names: {names})}},
)"#
    )
}

/// They stand in the order of the pipeline, each once.
#[test]
fn names_select_what_is_saved_and_loaded() {
    for (names, expected) in [
        (r#"["w1"]"#, "w1"),
        (r#"["w2", w1]"#, "w1 w2"),
        (r#"["w*", "w1"]"#, "w1 w2"),
        (r#"["l.*"]"#, "l.0.w l.0.b l.1.w l.1.b"),
        (r#"["l.{i}.b", "*2"]"#, "w2 l.0.b l.1.b"),
        (r#"["{part}"]"#, "w1 w2"),
        ("None", ""),
    ] {
        let pipeline = read(&saving(names), &[]).0.unwrap();
        let stage = pipeline.stage("keep").unwrap().get::<SaveStage>().unwrap();
        assert_eq!(stage.names.join(" "), expected, "{names}");
        let pipeline = read(&saving(names).replace("Save(", "Load("), &[]).0.unwrap();
        let stage = pipeline.stage("keep").unwrap().get::<LoadStage>().unwrap();
        let tensors: Vec<&str> = stage.names.iter().map(|name| &*name.tensor).collect();
        assert_eq!(tensors.join(" "), expected, "{names}");
        assert!(stage.names.iter().all(|name| *name.param == *name.tensor && !name.is_transposed));
    }
}

#[test]
fn faulty_names_of_saved_and_loaded_parameters() {
    let faults = |text: &str| {
        let (pipeline, diags, _) = read(text, &[]);
        assert!(pipeline.is_none(), "{text}");
        let faults = diags.sorted().into_iter().map(|fault| {
            format!("{} {}; {}", fault.code, fault.message, fault.help.as_deref().unwrap_or_default())
        });
        faults.collect::<Vec<_>>().join("\n")
    };
    for (names, expected) in [
        (r#"["w1", "w3"]"#, "E0101 there is no parameter `w3`; did you mean `w1`?"),
        (
            r#"["l.1.q*"]"#,
            "E0101 no parameter fits `l.1.q*`; the nearest parameter is `l.1.w`; \
             `*` stands for any run of characters, `{i}` for one part between dots",
        ),
        (
            r#"["l.{i}.q"]"#,
            "E0101 no parameter fits `l.{i}.q`; the nearest parameter is `l.0.w`; \
             `*` stands for any run of characters, `{i}` for one part between dots",
        ),
        (r#"["w{1,2}"]"#, "E0101 no parameter fits `w{1,2}`; `{` and `}` enclose a name"),
        (r#"["l.{0,1}.w"]"#, "E0101 no parameter fits `l.{0,1}.w`; `{` and `}` enclose a name"),
        (
            "[]",
            "E0010 `names` must be a list of at least one name, not an empty list; \
             leave it out to name all parameters and states",
        ),
        ("[5]", "E0010 the name of a parameter must be a name, not a whole number; "),
    ] {
        assert_eq!(faults(&saving(names)), expected);
        assert_eq!(faults(&saving(names).replace("Save(", "Load(")), expected);
    }
    assert_eq!(faults(&saving(r#""w1""#)), "E0010 `names` must be a list, not a string; ");
    let mapped = saving(r#"{"l.{i}.q": "h.{i}"}"#).replace("Save(", "Load(");
    assert_eq!(
        faults(&mapped),
        "E0101 no parameter fits `l.{i}.q`; the nearest parameter is `l.0.w`; \
         `*` stands for any run of characters, `{i}` for one part between dots"
    );
    // A fault of a parameter is reported where the parameter is declared.
    let faulty = saving(r#"["w1", "w1*"]"#).replace(r#""w1": "f32[2]""#, r#""w1": "f33[2]""#);
    let said = faults(&faulty);
    assert!(said.starts_with("E0111 ") && said.lines().count() == 1, "{said}");
}

/// A layer whose operand is faulty has no parameters, so names of them are not told.
#[test]
fn names_of_weights_beside_faulty_nodes() {
    let entries = r#"{"l.{i}.w": "h.{i}.w", "l.0.w": "w"}"#;
    for names in [entries, r#"["l.*", "v"]"#, r#"["l.1.w"]"#, r#"["l.{i}.w"]"#] {
        let text = format!(
            r#"(
    functions: {{"Scale": (inputs: ["x"], params: {{"w": "f32[2]"}}, output: "x * w")}},
    inputs: {{"x": "f32[2]"}},
    params: {{"v": "f32[2]"}},
    nodes: {{"a": "x + nothing", "l": "Scale(a, repeat=2)", "y": "l * v"}},
    stages: {{"load": Load(path: "w.npz", names: {names}), "go": Run(outputs: ["y"])}},
)"#
        );
        let (_, diags, _) = read(&text, &[]);
        let told: Vec<&str> = diags.sorted().iter().map(|fault| fault.message.as_str()).collect();
        assert_eq!(told, ["nothing is called `nothing`"], "{names}");
    }
}
