//! Faults in expressions, and names that lead nowhere or in circles.

use super::*;

#[test]
fn faults_in_expressions() {
    check_faults(
        &with_nodes(
            r#"{
    "a": "rleu(x)",
    "b": "x @ xx",
    "c": "x @ x",
    "d": "x + i",
    "e": "i * 0.5",
    "f": "softmax(x, axes=1, axis=\"one\", axis=2)",
    "g": "argmax(x)",
    "h": "maximum(x)",
    "j": "topk(x, k=2).index + a",
    "k": "x + cast(u, dtype=float)",
    "l": "uniform(shape=[1000000, 1000000, 1000000])",
    "m": "u + 256",
    "n": "relu(u)",
    "o": "topk(x, k=2)",
    "p": "o.indexes & true",
    "q": "x + [1, 2]",
    "y": "mean(a",
}"#,
        ),
        expect![[r#"
            error[E0105]: there is no op `rleu`
              ┌─ mnist.ron:2:11
              │
            2 │     "a": "rleu(x)",
              │           ^^^^
              │
              = help: did you mean `relu`?

            error[E0101]: nothing is called `xx`
              ┌─ mnist.ron:3:15
              │
            3 │     "b": "x @ xx",
              │               ^^
              │
              = help: did you mean `x`?

            error[E0104]: cannot multiply f32[B, 4] by f32[B, 4]
              ┌─ mnist.ron:4:15
              │
            4 │     "c": "x @ x",
              │           -   ^ this is f32[B, 4]
              │           │
              │           this is f32[B, 4]
              │
              = help: the inner extents must agree

            error[E0103]: `add` of f32 and i32
              ┌─ mnist.ron:5:15
              │
            5 │     "d": "x + i",
              │           -   ^ this is i32[B]
              │           │
              │           this is f32[B, 4]
              │
              = help: convert one of them, for example with `cast(x, dtype=f32)`

            error[E0114]: `0.5` is no element of i32
              ┌─ mnist.ron:6:15
              │
            6 │     "e": "i * 0.5",
              │           -   ^^^
              │           │
              │           this is i32[B]
              │
              = help: convert the tensor first, for example with `cast(x, dtype=f32)`

            error[E0107]: `softmax` has no setting `axes`
              ┌─ mnist.ron:7:22
              │
            7 │     "f": "softmax(x, axes=1, axis=\"one\", axis=2)",
              │                      ^^^^
              │
              = help: did you mean `axis`?

            error[E0108]: `axis` must be a whole number
              ┌─ mnist.ron:7:35
              │
            7 │     "f": "softmax(x, axes=1, axis=\"one\", axis=2)",
              │                                   ^^^^^^^
              │
              = help: `axis`: what `axis` decides

            error[E0013]: `axis` is given twice
              ┌─ mnist.ron:7:44
              │
            7 │     "f": "softmax(x, axes=1, axis=\"one\", axis=2)",
              │                              ----          ^^^^
              │                              │
              │                              first here

            error[E0109]: `argmax` needs the setting `axis`
              ┌─ mnist.ron:8:11
              │
            8 │     "g": "argmax(x)",
              │           ^^^^^^
              │
              = help: add `axis=…`: what `axis` decides

            error[E0106]: `maximum` takes 2 operands, 1 given
              ┌─ mnist.ron:9:11
              │
            9 │     "h": "maximum(x)",
              │           ^^^^^^^^^^
              │
              = help: it is called as `maximum(a, b)`

            error[E0113]: `topk` has no result `index`
               ┌─ mnist.ron:10:24
               │
            10 │     "j": "topk(x, k=2).index + a",
               │                        ^^^^^
               │
               = help: its results are `values`, `indices`

            error[E0108]: `dtype` must be an element type such as `f32`
               ┌─ mnist.ron:11:29
               │
            11 │     "k": "x + cast(u, dtype=float)",
               │                             ^^^^^
               │
               = help: `dtype`: what `dtype` decides

            error[E0116]: f32[1000000, 1000000, 1000000] has more elements than a machine can hold
               ┌─ mnist.ron:12:11
               │
            12 │     "l": "uniform(shape=[1000000, 1000000, 1000000])",
               │           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               │
               = help: the limit is 2^40

            error[E0114]: `256` is no element of u8
               ┌─ mnist.ron:13:15
               │
            13 │     "m": "u + 256",
               │           -   ^^^
               │           │
               │           this is u8[B]
               │
               = help: convert the tensor first, for example with `cast(x, dtype=f32)`

            error[E0104]: `relu` does not take u8
               ┌─ mnist.ron:14:16
               │
            14 │     "n": "relu(u)",
               │                ^ this is u8[B]
               │
               = help: convert it with `cast(x, dtype=f32)`

            error[E0113]: `topk` has no result `indexes`
               ┌─ mnist.ron:16:11
               │
            16 │     "p": "o.indexes & true",
               │           ^^^^^^^^^
               │
               = help: its results are `values`, `indices`

            error[E0104]: a list is no tensor
               ┌─ mnist.ron:17:15
               │
            17 │     "q": "x + [1, 2]",
               │               ^^^^^^
               │
               = help: settings of an op have names: `f(x, mode="row")`

            error[E0008]: expected `,` or `)`, found the end
               ┌─ mnist.ron:18:17
               │
            18 │     "y": "mean(a",
               │               - ^
               │               │
               │               opened here
        "#]],
    );
}

#[test]
fn circles_and_names() {
    check_faults(
        &with_nodes(
            r#"{
    "a": "b + 1", "b": "exp(c)", "c": "a * x", "d": "d + 1", "use": "a + 1",
    "x": "exp(x)", "step": "x", "2b": "x", "y": "relu(x)", "y": "relu(x)",
}"#,
        ),
        expect![[r#"
            error[E0301]: nodes depend on each other in a circle: a ← b ← c ← a
              ┌─ mnist.ron:2:6
              │
            2 │     "a": "b + 1", "b": "exp(c)", "c": "a * x", "d": "d + 1", "use": "a + 1",
              │      ^    -                 -          - `c` needs `a`
              │           │                 │
              │           │                 `b` needs `c`
              │           `a` needs `b`
              │
              = help: what one step hands to the next is state: declare it as a parameter with `state: true`

            error[E0301]: nodes depend on each other in a circle: d ← d
              ┌─ mnist.ron:2:49
              │
            2 │     "a": "b + 1", "b": "exp(c)", "c": "a * x", "d": "d + 1", "use": "a + 1",
              │                                                 ^    - `d` needs `d`
              │
              = help: what one step hands to the next is state: declare it as a parameter with `state: true`

            error[E0302]: `x` is defined twice
              ┌─ mnist.ron:3:6
              │
            1 │ (inputs: {"x": "f32[B, 4]", "i": "i32[B]", "u": "u8[B]"}, nodes: {
              │            - first here
            2 │     "a": "b + 1", "b": "exp(c)", "c": "a * x", "d": "d + 1", "use": "a + 1",
            3 │     "x": "exp(x)", "step": "x", "2b": "x", "y": "relu(x)", "y": "relu(x)",
              │      ^
              │
              = help: give one of them another name

            error[E0016]: `step` cannot be a name
              ┌─ mnist.ron:3:21
              │
            3 │     "x": "exp(x)", "step": "x", "2b": "x", "y": "relu(x)", "y": "relu(x)",
              │                     ^^^^
              │
              = help: it has a meaning of its own

            error[E0016]: `2b` cannot be a name
              ┌─ mnist.ron:3:34
              │
            3 │     "x": "exp(x)", "step": "x", "2b": "x", "y": "relu(x)", "y": "relu(x)",
              │                                  ^^
              │
              = help: names are letters, digits and `_`, a letter first; dots may join several

            error[E0302]: `y` is defined twice
              ┌─ mnist.ron:3:61
              │
            3 │     "x": "exp(x)", "step": "x", "2b": "x", "y": "relu(x)", "y": "relu(x)",
              │                                             -               ^
              │                                             │
              │                                             first here
              │
              = help: give one of them another name
        "#]],
    );
}

#[test]
fn numbers_behind_the_operands_are_settings() {
    let nodes = r#"{"a": "softmax(x, 1)", "b": "mean(x, 0)", "y": "mean(x, x)"}"#;
    let (_, diags, sources) = read(&with_nodes(nodes), &[]);
    let said = diags.render(&sources, Look::Plain);
    for help in ["have names: `axis=1`", "have names: `axis=0`", "it is called as `mean(x)`"] {
        assert!(said.contains(help), "{said}");
    }
}
