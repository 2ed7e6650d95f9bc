//! Faults in declarations, stages and functions.

use super::*;

#[test]
fn faulty_declarations() {
    check_faults(
        r#"(
    nam: "mnist", seed: -1,
    dims: {"H": "many"},
    data: {"digits": (path: 1)},
    inputs: {
        "image": (type: "f23[B, 784]", from: "digit.images"),
        "label": (typ: "u8[B]", from: "digits"),
        "big": "f32[1000000000, 1000000000]",
        "odd": "f32[B",
    },
    params: {
        "w": (type: "f32[784, K]"), "i": "i32[3]", "k": (type: "f32[3]", init: Kaiming),
        "n": (type: "f32[3]", init: Norml(0, 1)), "o": (type: "f32[3]", init: Uniform(0, 1, 2)),
        "s": (type: "i32[3]", state: true), "label": "f32[1]",
    },
    nodes: {"h": "image + label + w"},
)"#,
        expect![[r#"
            error[E0012]: a pipeline has no field `nam`
              ┌─ mnist.ron:2:5
              │
            2 │     nam: "mnist", seed: -1,
              │     ^^^
              │
              = help: did you mean `name`?

            error[E0015]: `seed` cannot be -1
              ┌─ mnist.ron:2:25
              │
            2 │     nam: "mnist", seed: -1,
              │                         ^^
              │
              = help: it lies between 0 and 18446744073709551615

            error[E0010]: an extent must be a whole number, not a string
              ┌─ mnist.ron:3:17
              │
            3 │     dims: {"H": "many"},
              │                 ^^^^^^

            error[E0011]: a data source needs the field `source`
              ┌─ mnist.ron:4:22
              │
            4 │     data: {"digits": (path: 1)},
              │                      ^^^^^^^^^
              │
              = help: add `source: "mnist"`, or another source that the engine knows

            error[E0111]: there is no element type `f23`
              ┌─ mnist.ron:6:26
              │
            6 │         "image": (type: "f23[B, 784]", from: "digit.images"),
              │                          ^^^
              │
              = help: did you mean `f32`?

            error[E0202]: there is no data source `digit`
              ┌─ mnist.ron:6:47
              │
            6 │         "image": (type: "f23[B, 784]", from: "digit.images"),
              │                                               ^^^^^
              │
              = help: did you mean `digits`?

            error[E0012]: an input has no field `typ`
              ┌─ mnist.ron:7:19
              │
            7 │         "label": (typ: "u8[B]", from: "digits"),
              │                   ^^^
              │
              = help: did you mean `type`?

            error[E0203]: `digits` names no part of a data source
              ┌─ mnist.ron:7:40
              │
            7 │         "label": (typ: "u8[B]", from: "digits"),
              │                                        ^^^^^^
              │
              = help: it looks like `digits.images`

            error[E0116]: f32[1000000000, 1000000000] has more elements than a machine can hold
              ┌─ mnist.ron:8:17
              │
            8 │         "big": "f32[1000000000, 1000000000]",
              │                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^
              │
              = help: the limit is 2^40

            error[E0008]: expected `,` or `]`, found the end
              ┌─ mnist.ron:9:22
              │
            9 │         "odd": "f32[B",
              │                    - ^
              │                    │
              │                    opened here

            error[E0204]: the extent `K` of a parameter is not known
               ┌─ mnist.ron:12:21
               │
            12 │         "w": (type: "f32[784, K]"), "i": "i32[3]", "k": (type: "f32[3]", init: Kaiming),
               │                     ^^^^^^^^^^^^^
               │
               = help: write a number, or `dims: {"K": …}`

            error[E0204]: i32[3] cannot be trained
               ┌─ mnist.ron:12:42
               │
            12 │         "w": (type: "f32[784, K]"), "i": "i32[3]", "k": (type: "f32[3]", init: Kaiming),
               │                                          ^^^^^^^^
               │
               = help: use a float type, or `state: true`

            error[E0204]: f32[3] has no axis of inputs and axis of outputs, by which Kaiming scales
               ┌─ mnist.ron:12:64
               │
            12 │         "w": (type: "f32[784, K]"), "i": "i32[3]", "k": (type: "f32[3]", init: Kaiming),
               │                                                                ^^^^^^^^
               │
               = help: use `Zeros` or `Normal(mean: 0, std: …)`

            error[E0012]: an initialiser takes 0 values at most
               ┌─ mnist.ron:13:43
               │
            13 │         "n": (type: "f32[3]", init: Norml(0, 1)), "o": (type: "f32[3]", init: Uniform(0, 1, 2)),
               │                                           ^
               │
               = help: leave out the parentheses

            error[E0012]: an initialiser takes 2 values at most
               ┌─ mnist.ron:13:93
               │
            13 │         "n": (type: "f32[3]", init: Norml(0, 1)), "o": (type: "f32[3]", init: Uniform(0, 1, 2)),
               │                                                                                             ^
               │
               = help: it takes `(low, high)`

            error[E0302]: `label` is defined twice
               ┌─ mnist.ron:14:46
               │
             7 │         "label": (typ: "u8[B]", from: "digits"),
               │          ----- first here
               ·
            14 │         "s": (type: "i32[3]", state: true), "label": "f32[1]",
               │                                              ^^^^^
               │
               = help: give one of them another name
        "#]],
    );
}

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
        "i": Save("a", "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),"#,
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

            error[E0206]: `w` is f32[4], its next value is f32[B, 4]
               ┌─ mnist.ron:11:103
               │
            11 │         "e": Train(data: "digits.train", batch: 8, loss: "loss", optimizer: Adam(lr: 1), state: {"w": "h", "v": "next"}, early_stop: 2),
               │                                                                                                       ^^^
               │
               = help: state keeps its type

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

            error[E0012]: a `Save` stage takes 1 values at most
               ┌─ mnist.ron:15:24
               │
            15 │         "i": Save("a", "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),
               │                        ^^^
               │
               = help: it takes `(path)`

            error[E0201]: a stage says what it does by its first word
               ┌─ mnist.ron:15:35
               │
            15 │         "i": Save("a", "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),
               │                                   ^^^^^^^
               │
               = help: known are `Train`, `Evaluate`, `Predict`, `Run`, `Search`, `Save`, `Load`

            error[E0010]: `steps` must be a whole number, not a number
               ┌─ mnist.ron:15:77
               │
            15 │         "i": Save("a", "b"), "j": "train", "k": Run(outputs: [loss], steps: 1.5),
               │                                                                             ^^^
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
              = help: numbers, truth values, strings, element types and lists of extents are settings

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

            error[E0104]: in `v`: cannot multiply f32[B, 4] by f32[B, 4]
               ┌─ mnist.ron:11:39
               │
             8 │         "v": (inputs: ["x"], nodes: {"a": "relu(x)"}, output: "a @ a"),
               │                                                                    - it arises here
               ·
            11 │     nodes: {"a": "f(x) + h(x)", "b": "v(x)", "c": "v(i)", "d": "v(x, x)"},
               │                                       ^^^^
               │                                         │
               │                                         this is f32[B, 4]
               │
               = help: the inner extents must agree

            error[E0104]: in `v`: `relu` does not take i32
               ┌─ mnist.ron:11:52
               │
             8 │         "v": (inputs: ["x"], nodes: {"a": "relu(x)"}, output: "a @ a"),
               │                                                 - it arises here
               ·
            11 │     nodes: {"a": "f(x) + h(x)", "b": "v(x)", "c": "v(i)", "d": "v(x, x)"},
               │                                                    ^^^^
               │                                                      │
               │                                                      this is i32[3]
               │
               = help: convert it with `cast(x, dtype=f32)`

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

#[test]
fn brackets_that_do_not_match_end_the_reading() {
    check_faults(
        "(nodes: {\"a\": \"b\", stages: 3)",
        expect![[r#"
        error[E0003]: `{` is not closed
          ┌─ mnist.ron:1:9
          │
        1 │ (nodes: {"a": "b", stages: 3)
          │         ^                   - found `)` instead of `}`
          │         │
          │         opened here
    "#]],
    );
    check_faults(
        "[1]",
        expect![[r#"
        error[E0010]: a pipeline must be written as fields, `(name: value, …)`, not a list
          ┌─ mnist.ron:1:1
          │
        1 │ [1]
          │ ^^^
    "#]],
    );
    check_faults(
        "(seed: %, nodse: {})",
        expect![[r#"
        error[E0002]: expected a value, found `%`
          ┌─ mnist.ron:1:8
          │
        1 │ (seed: %, nodse: {})
          │        ^

        error[E0012]: a pipeline has no field `nodse`
          ┌─ mnist.ron:1:11
          │
        1 │ (seed: %, nodse: {})
          │           ^^^^^
          │
          = help: did you mean `nodes`?
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
