//! Layers, and extents with arithmetic.

use super::*;

const DENSE: &str = r#"
    "Dense": (
        inputs: {"x": "[..., I]"},
        attrs: {"width": Int, "bias": true, "act": "relu", "std": 0.0},
        params: {
            "w": (type: "f32[I, width]", init: When("std > 0", Normal(0, "std / I"), Xavier)),
            "b": (type: "f32[width]", when: "bias"),
        },
        output: "act(when(bias, x @ w + b, x @ w))",
    ),"#;

fn loaded(text: &str) -> Pipeline {
    let (mut sources, mut diags, mut registry) = (Sources::new(), Diagnostics::new(), ops());
    let file = sources.add("layers.ron", text);
    let pipeline = load(&mut sources, file, &mut registry, &[], &[], &mut diags);
    assert_eq!(diags.render(&sources, Look::Plain), "");
    pipeline.unwrap()
}

fn params(pipeline: &Pipeline) -> String {
    let line =
        |param: &crate::pipeline::ParamDecl| format!("{}: {} {:?}\n", param.name, param.ty, param.init);
    pipeline.params.iter().map(line).collect()
}

/// Layers in layers, repeated and declared.
fn tower() -> String {
    format!(
        r#"(
        functions: {{{DENSE}
            "Pair": (
                inputs: {{"x": "[..., D]"}},
                layers: {{"first": "Dense(width=2 * D, act=\"exp\")", "second": "Dense(width=D, bias=false)"}},
                nodes: {{"h": "first(x)"}},
                output: "x + second(h)",
            ),
            "Tower": (inputs: ["x"], attrs: {{"n": Int}}, nodes: {{"pairs": "Pair(x, repeat=n)"}}, output: "pairs"),
        }},
        dims: {{"N": 2}},
        inputs: {{"x": "f32[B, 4]"}},
        layers: {{"in": "Dense(width=3, std=0.5)"}},
        nodes: {{"a": "in(x)", "y": "Tower(a, n=N)", "tied": "y + in.b", "top": "y.pairs.1.first.b"}},
        stages: {{"go": Run(outputs: ["tied", "top", "y.pairs.1.h"], dims: {{"B": 2}})}},
    )"#
    )
}

#[test]
fn parameters_of_layers_have_paths() {
    let pipeline = loaded(&tower());
    expect![[r#"
        in.w: f32[4, 3] Normal { mean: 0.0, std: 0.125 }
        in.b: f32[3] Zeros
        y.pairs.0.first.w: f32[3, 6] Xavier
        y.pairs.0.first.b: f32[6] Zeros
        y.pairs.0.second.w: f32[6, 3] Xavier
        y.pairs.1.first.w: f32[3, 6] Xavier
        y.pairs.1.first.b: f32[6] Zeros
        y.pairs.1.second.w: f32[6, 3] Xavier
    "#]]
    .assert_eq(&params(&pipeline));
    expect![[r#"
        graph layers {
          input x: f32[B, 4]
          param in.w: f32[4, 3]
          param in.b: f32[3]
          in.1: f32[B, 3] = matmul(x, in.w)
          in.2: f32[B, 3] = add(in.1, in.b)
          a: f32[B, 3] = relu(in.2)
          param y.pairs.0.first.w: f32[3, 6]
          param y.pairs.0.first.b: f32[6]
          y.pairs.0.first.1: f32[B, 6] = matmul(a, y.pairs.0.first.w)
          y.pairs.0.first.2: f32[B, 6] = add(y.pairs.0.first.1, y.pairs.0.first.b)
          y.pairs.0.h: f32[B, 6] = exp(y.pairs.0.first.2)
          param y.pairs.0.second.w: f32[6, 3]
          y.pairs.0.second.1: f32[B, 3] = matmul(y.pairs.0.h, y.pairs.0.second.w)
          y.pairs.0.1: f32[B, 3] = relu(y.pairs.0.second.1)
          y.pairs.0: f32[B, 3] = add(a, y.pairs.0.1)
          param y.pairs.1.first.w: f32[3, 6]
          param y.pairs.1.first.b: f32[6]
          y.pairs.1.first.1: f32[B, 6] = matmul(y.pairs.0, y.pairs.1.first.w)
          y.pairs.1.first.2: f32[B, 6] = add(y.pairs.1.first.1, y.pairs.1.first.b)
          y.pairs.1.h: f32[B, 6] = exp(y.pairs.1.first.2)
          param y.pairs.1.second.w: f32[6, 3]
          y.pairs.1.second.1: f32[B, 3] = matmul(y.pairs.1.h, y.pairs.1.second.w)
          y.pairs.1.1: f32[B, 3] = relu(y.pairs.1.second.1)
          y.pairs: f32[B, 3] = add(y.pairs.0, y.pairs.1.1)
          y: f32[B, 3] = map(y.pairs) |a| a
          tied: f32[B, 3] = add(y, in.b)
          top: f32[6] = map(y.pairs.1.first.b) |a| a
        }
    "#]]
    .assert_eq(&pipeline.graph.to_string());
}

#[test]
fn calls_are_known_by_their_paths() {
    let call = |call: &crate::pipeline::WrittenCall| {
        let copies = call.repeat.map_or(String::new(), |n| format!(" ×{n}"));
        format!("{}: {}{copies} -> {}\n", call.path, call.function, call.results.join(", "))
    };
    let calls: String = loaded(&tower()).calls.iter().map(call).collect();
    expect![[r#"
        in: Dense -> a
        y: Tower -> y
        y.pairs: Pair ×2 -> y.pairs
        y.pairs.0.first: Dense -> y.pairs.0.h
        y.pairs.0.second: Dense -> y.pairs.0.1
        y.pairs.1.first: Dense -> y.pairs.1.h
        y.pairs.1.second: Dense -> y.pairs.1.1
    "#]]
    .assert_eq(&calls);
}

#[test]
fn calls_of_one_layer_share_its_parameters() {
    let text = format!(
        r#"(
        functions: {{{DENSE}
            "Twice": (inputs: ["x"], nodes: {{"h": "Dense(x, width=4)"}}, output: "h"),
        }},
        inputs: {{"x": "f32[B, 4]"}},
        layers: {{"shared": "Twice"}},
        nodes: {{"a": "shared(x)", "b": "shared(a) + Dense(x, width=4)", "c": "shared(b)"}},
        stages: {{"go": Run(outputs: ["a", "b", "c", "shared.h"], dims: {{"B": 2}})}},
    )"#
    );
    let pipeline = loaded(&text);
    expect![[r#"
        shared.h.w: f32[4, 4] Xavier
        shared.h.b: f32[4] Zeros
        b.2.w: f32[4, 4] Xavier
        b.2.b: f32[4] Zeros
    "#]]
    .assert_eq(&params(&pipeline));
}

#[test]
fn states_of_layers_are_updated_in_the_order_of_calls() {
    let text = r#"(
        functions: {
            "Mean": (
                inputs: ["x"],
                params: {"m": (type: "f32[]", state: true)},
                nodes: {"next": "m * 0.5 + mean(x) * 0.5"},
                state: {"m": "next"},
                output: "x - next",
            ),
        },
        inputs: {"x": "f32[B, 4]"},
        layers: {"centre": "Mean"},
        nodes: {"y": "centre(x)", "z": "centre(y)"},
        stages: {"go": Run(outputs: ["z"], dims: {"B": 2})},
    )"#;
    let pipeline = loaded(text);
    expect![[r#"
        graph layers {
          input x: f32[B, 4]
          state centre.m: f32[]
          centre.next.1: f32[] = .const(0.5)
          centre.next.2: f32[] = mul(centre.m, centre.next.1)
          centre.next.3: f32[] = mean(x)
          centre.next.4: f32[] = .const(0.5)
          centre.next.5: f32[] = mul(centre.next.3, centre.next.4)
          centre.next: f32[] = add(centre.next.2, centre.next.5)
          centre.m.next: f32[] = map(centre.next) |a| a
          y: f32[B, 4] = sub(x, centre.next)
          z.next.1: f32[] = .const(0.5)
          z.next.2: f32[] = mul(centre.m.next, z.next.1)
          z.next.3: f32[] = mean(y)
          z.next.4: f32[] = .const(0.5)
          z.next.5: f32[] = mul(z.next.3, z.next.4)
          z.next: f32[] = add(z.next.2, z.next.5)
          z.m.next: f32[] = map(z.next) |a| a
          z: f32[B, 4] = sub(y, z.next)
        }
    "#]]
    .assert_eq(&pipeline.graph.to_string());
}

#[test]
fn extents_of_operands_have_names_in_a_function() {
    let text = r#"(
        functions: {
            "split": (
                inputs: {"x": "f32[B, T, heads * W]"},
                attrs: {"heads": 2},
                dims: {"H": "W / 2"},
                output: "reshape(x, shape=[B * T, heads, 2 * H])",
            ),
        },
        inputs: {"x": "f32[N, M, 12]"},
        nodes: {"y": "split(x, heads=3)", "z": "reshape(y, shape=[N, M * 12])", "n": "reshape(z, shape=[M * N * 6, 2])"},
        stages: {"go": Run(outputs: ["n"], dims: {"N": 2, "M": 3})},
    )"#;
    expect![[r#"
        graph layers {
          input x: f32[N, M, 12]
          y: f32[M * N, 3, 4] = reshape(x, shape=[M * N, 3, 4])
          z: f32[N, 12 * M] = reshape(y, shape=[N, 12 * M])
          n: f32[6 * M * N, 2] = reshape(z, shape=[6 * M * N, 2])
        }
    "#]]
    .assert_eq(&loaded(text).graph.to_string());
}

#[test]
fn faulty_layers() {
    let text = format!(
        r#"(
    functions: {{{DENSE}
        "Odd": (inputs: {{"x": "[B, 2 * W]"}}, output: "relu(x)"),
        "State": (inputs: ["x"], state: {{"m": "x"}}, output: "x"),
        "Part": (inputs: {{"x": "[B, D]"}}, output: "x * D.e"),
        "Open": (inputs: ["x"], params: {{"w": "f32[B]"}}, output: "x"),
    }},
    inputs: {{"x": "f32[B, 4]", "i": "i32[3]", "o": "f32[B, 5]"}},
    layers: {{"dense": "Dense(width=2)", "none": "Dens(width=2)", "op": "relu", "few": "Dense", "call": "relu(x)", "many": "Dense(width=2, repeat=0)", "twice": "Dense(width=2, repeat=2, repeat=3)"}},
    nodes: {{
        "a": "dense(x)", "b": "dense(o)", "c": "dense(x, width=3)", "d": "dense.v", "e": "dense + 1.0", "f": "Dense(i, width=2)",
        "g": "Odd(x)", "h": "Odd(o)", "j": "Odd(a @ x)", "k": "State(x)", "s": "Part(x)", "l": "Open(x)", "m": "dense(x, x)",
        "n": "reshape(x, shape=[B * 4 / 3])", "p": "when(x, x, x)", "q": "Dense(x, width=2, repeat=B)", "r": "Dense(x, width=2, act=\"rel\")",
    }},
)"#
    );
    check_faults(
        &text,
        expect![[r#"
            error[E0404]: `dense.w` is f32[4, 2] in one call and f32[5, 2] in another
               ┌─ mnist.ron:7:14
               │
             7 │             "w": (type: "f32[I, width]", init: When("std > 0", Normal(0, "std / I"), Xavier)),
               │              ^
               ·
            20 │         "a": "dense(x)", "b": "dense(o)", "c": "dense(x, width=3)", "d": "dense.v", "e": "dense + 1.0", "f": "Dense(i, width=2)",
               │                                -------- in this call of `Dense` on f32[B, 5]
               │
               = help: calls of one layer share its parameters, so their operands have equal widths

            error[E0105]: there is no op `rel`
               ┌─ mnist.ron:10:18
               │
            10 │         output: "act(when(bias, x @ w + b, x @ w))",
               │                  ^^^
               ·
            22 │         "n": "reshape(x, shape=[B * 4 / 3])", "p": "when(x, x, x)", "q": "Dense(x, width=2, repeat=B)", "r": "Dense(x, width=2, act=\"rel\")",
               │                                                                                                               ------------------------------ in this call of `Dense` on f32[B, 4]
               │
               = help: did you mean `relu`?

            error[E0104]: cannot multiply i32[3] by f32[3, 2]
               ┌─ mnist.ron:10:37
               │
            10 │         output: "act(when(bias, x @ w + b, x @ w))",
               │                                 -   ^ this is f32[3, 2]
               │                                 │
               │                                 this is i32[3]
               ·
            20 │         "a": "dense(x)", "b": "dense(o)", "c": "dense(x, width=3)", "d": "dense.v", "e": "dense + 1.0", "f": "Dense(i, width=2)",
               │                                                                                                               ----------------- in this call of `Dense` on i32[3]
               │
               = help: the inner extents must agree

            error[E0404]: `m` is no state of this layer
               ┌─ mnist.ron:13:43
               │
            13 │         "State": (inputs: ["x"], state: {"m": "x"}, output: "x"),
               │                                           ^
               ·
            21 │         "g": "Odd(x)", "h": "Odd(o)", "j": "Odd(a @ x)", "k": "State(x)", "s": "Part(x)", "l": "Open(x)", "m": "dense(x, x)",
               │                                                                -------- in this call of `State` on f32[B, 4]
               │
               = help: declare it under `params` with `state: true`

            error[E0104]: `e` of the extent `D` is no tensor
               ┌─ mnist.ron:14:56
               │
            14 │         "Part": (inputs: {"x": "[B, D]"}, output: "x * D.e"),
               │                                                        ^^^
               ·
            21 │         "g": "Odd(x)", "h": "Odd(o)", "j": "Odd(a @ x)", "k": "State(x)", "s": "Part(x)", "l": "Open(x)", "m": "dense(x, x)",
               │                                                                                 ------- in this call of `Part` on f32[B, 4]
               │
               = help: settings of an op have names: `f(x, mode="row")`

            error[E0204]: the extent `B` of a parameter is not known
               ┌─ mnist.ron:15:48
               │
            15 │         "Open": (inputs: ["x"], params: {"w": "f32[B]"}, output: "x"),
               │                                                ^^^^^^
               ·
            21 │         "g": "Odd(x)", "h": "Odd(o)", "j": "Odd(a @ x)", "k": "State(x)", "s": "Part(x)", "l": "Open(x)", "m": "dense(x, x)",
               │                                                                                                 ------- in this call of `Open` on f32[B, 4]
               │
               = help: write a number, or `dims: {"B": …}`

            error[E0016]: `none` cannot be a name
               ┌─ mnist.ron:18:42
               │
            18 │     layers: {"dense": "Dense(width=2)", "none": "Dens(width=2)", "op": "relu", "few": "Dense", "call": "relu(x)", "many": "Dense(width=2, repeat=0)", "twice": "Dense(width=2, repeat=2, repeat=3)"},
               │                                          ^^^^
               │
               = help: it has a meaning of its own

            error[E0404]: the op `relu` owns no parameters
               ┌─ mnist.ron:18:73
               │
            18 │     layers: {"dense": "Dense(width=2)", "none": "Dens(width=2)", "op": "relu", "few": "Dense", "call": "relu(x)", "many": "Dense(width=2, repeat=0)", "twice": "Dense(width=2, repeat=2, repeat=3)"},
               │                                                                         ^^^^
               │
               = help: a layer is a function with `params`; call the op in a node

            error[E0109]: `Dense` needs the setting `width`
               ┌─ mnist.ron:18:88
               │
            18 │     layers: {"dense": "Dense(width=2)", "none": "Dens(width=2)", "op": "relu", "few": "Dense", "call": "relu(x)", "many": "Dense(width=2, repeat=0)", "twice": "Dense(width=2, repeat=2, repeat=3)"},
               │                                                                                        ^^^^^
               │
               = help: add `width=…`: a whole number

            error[E0404]: a layer is a function with settings
               ┌─ mnist.ron:18:105
               │
            18 │     layers: {"dense": "Dense(width=2)", "none": "Dens(width=2)", "op": "relu", "few": "Dense", "call": "relu(x)", "many": "Dense(width=2, repeat=0)", "twice": "Dense(width=2, repeat=2, repeat=3)"},
               │                                                                                                         ^^^^^^^
               │
               = help: write `Linear(width=64)`; operands follow where the layer is called

            error[E0015]: `repeat` cannot be 0
               ┌─ mnist.ron:18:146
               │
            18 │     layers: {"dense": "Dense(width=2)", "none": "Dens(width=2)", "op": "relu", "few": "Dense", "call": "relu(x)", "many": "Dense(width=2, repeat=0)", "twice": "Dense(width=2, repeat=2, repeat=3)"},
               │                                                                                                                                                  ^
               │
               = help: it is 1 to 65536

            error[E0013]: `repeat` is given twice
               ┌─ mnist.ron:18:186
               │
            18 │     layers: {"dense": "Dense(width=2)", "none": "Dens(width=2)", "op": "relu", "few": "Dense", "call": "relu(x)", "many": "Dense(width=2, repeat=0)", "twice": "Dense(width=2, repeat=2, repeat=3)"},
               │                                                                                                                                                                                ------    ^^^^^^
               │                                                                                                                                                                                │
               │                                                                                                                                                                                first here

            error[E0404]: a call of a layer has no settings
               ┌─ mnist.ron:20:58
               │
            20 │         "a": "dense(x)", "b": "dense(o)", "c": "dense(x, width=3)", "d": "dense.v", "e": "dense + 1.0", "f": "Dense(i, width=2)",
               │                                                          ^^^^^
               │
               = help: settings are given where the layer is declared

            error[E0101]: `dense` has no parameter `v`
               ┌─ mnist.ron:20:75
               │
            20 │         "a": "dense(x)", "b": "dense(o)", "c": "dense(x, width=3)", "d": "dense.v", "e": "dense + 1.0", "f": "Dense(i, width=2)",
               │                                                                           ^^^^^^^
               │
               = help: its parameters are `w`, `b`

            error[E0404]: the layer `dense` is no tensor
               ┌─ mnist.ron:20:91
               │
            20 │         "a": "dense(x)", "b": "dense(o)", "c": "dense(x, width=3)", "d": "dense.v", "e": "dense + 1.0", "f": "Dense(i, width=2)",
               │                                                                                           ^^^^^
               │
               = help: call it: `dense(x)`, or name a parameter: `dense.w`

            error[E0104]: axis 1 of `x` is 5, not a multiple of 2
               ┌─ mnist.ron:21:34
               │
            21 │         "g": "Odd(x)", "h": "Odd(o)", "j": "Odd(a @ x)", "k": "State(x)", "s": "Part(x)", "l": "Open(x)", "m": "dense(x, x)",
               │                                  ^ this is f32[B, 5]

            error[E0104]: cannot multiply f32[B, 2] by f32[B, 4]
               ┌─ mnist.ron:21:53
               │
            21 │         "g": "Odd(x)", "h": "Odd(o)", "j": "Odd(a @ x)", "k": "State(x)", "s": "Part(x)", "l": "Open(x)", "m": "dense(x, x)",
               │                                                 -   ^ this is f32[B, 4]
               │                                                 │
               │                                                 this is f32[B, 2]
               │
               = help: the inner extents must agree

            error[E0106]: `Dense` takes 1 operands, 2 given
               ┌─ mnist.ron:21:113
               │
            21 │         "g": "Odd(x)", "h": "Odd(o)", "j": "Odd(a @ x)", "k": "State(x)", "s": "Part(x)", "l": "Open(x)", "m": "dense(x, x)",
               │                                                                                                                 ^^^^^^^^^^^
               │
               = help: it is called as `Dense(x)`

            error[E0117]: the extent `4 * B` cannot be divided by `3` without a remainder
               ┌─ mnist.ron:22:33
               │
            22 │         "n": "reshape(x, shape=[B * 4 / 3])", "p": "when(x, x, x)", "q": "Dense(x, width=2, repeat=B)", "r": "Dense(x, width=2, act=\"rel\")",
               │                                 ^^^^^^^^^
               │
               = help: an extent is a number, a name such as `B`, or arithmetic of them

            error[E0104]: the condition of `when` is not known before a run
               ┌─ mnist.ron:22:58
               │
            22 │         "n": "reshape(x, shape=[B * 4 / 3])", "p": "when(x, x, x)", "q": "Dense(x, width=2, repeat=B)", "r": "Dense(x, width=2, act=\"rel\")",
               │                                                          ^
               │
               = help: `where(condition, a, b)` takes tensors

            error[E0108]: `repeat` must be a whole number
               ┌─ mnist.ron:22:100
               │
            22 │         "n": "reshape(x, shape=[B * 4 / 3])", "p": "when(x, x, x)", "q": "Dense(x, width=2, repeat=B)", "r": "Dense(x, width=2, act=\"rel\")",
               │                                                                                                    ^
               │
               = help: write a number, an extent or a setting
        "#]],
    );
}
