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

            warning[E0303]: nothing uses the extent `H`
              ┌─ mnist.ron:3:13
              │
            3 │     dims: {"H": "many"},
              │             ^
              │
              = help: types and expressions name it, or it is left out

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
               ┌─ mnist.ron:12:22
               │
            12 │         "w": (type: "f32[784, K]"), "i": "i32[3]", "k": (type: "f32[3]", init: Kaiming),
               │                      ^^^^^^^^^^^
               │
               = help: write a number, or `dims: {"K": …}`

            error[E0204]: i32[3] cannot be trained
               ┌─ mnist.ron:12:43
               │
            12 │         "w": (type: "f32[784, K]"), "i": "i32[3]", "k": (type: "f32[3]", init: Kaiming),
               │                                           ^^^^^^
               │
               = help: use a float type, or `state: true`

            error[E0204]: f32[3] has no axis of inputs and axis of outputs, by which Kaiming scales
               ┌─ mnist.ron:12:65
               │
            12 │         "w": (type: "f32[784, K]"), "i": "i32[3]", "k": (type: "f32[3]", init: Kaiming),
               │                                                                 ^^^^^^
               │
               = help: use `Zeros` or `Normal(mean: 0, std: …)`

            error[E0014]: there is no initialiser `Norml`
               ┌─ mnist.ron:13:37
               │
            13 │         "n": (type: "f32[3]", init: Norml(0, 1)), "o": (type: "f32[3]", init: Uniform(0, 1, 2)),
               │                                     ^^^^^
               │
               = help: did you mean `Normal`?

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
