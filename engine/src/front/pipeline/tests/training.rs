//! Faults in the optimizers of training stages.

use super::*;

fn file(settings: &str) -> String {
    format!(
        r#"(
    data: {{"digits": (source: "mnist")}},
    inputs: {{"x": (type: "f32[B, 4]", from: "digits.images")}},
    params: {{"fc.w": "f32[4]", "fc.bias": "f32[]", "n": (type: "f32[]", state: true)}},
    nodes: {{"loss": "mean(x * fc.w + fc.bias + n)", "next": "n + 1.0"}},
    stages: {{
        "a": Train(data: "digits.train", batch: 8, loss: "loss",
{settings}
        ),
    }},
)"#
    )
}

#[test]
fn groups_match_parameters() {
    check_faults(
        &file(
            r#"            optimizer: Adam(lr: 1e-3, groups: [
                (params: "*.bais", weight_decay: 0), (params: ["fc.*", "n"]), (params: 3), (lr: 1),
            ])"#,
        ),
        expect![[r#"
            error[E0101]: `*.bais` matches no trained parameter
              ┌─ mnist.ron:9:26
              │
            9 │                 (params: "*.bais", weight_decay: 0), (params: ["fc.*", "n"]), (params: 3), (lr: 1),
              │                          ^^^^^^^^
              │
              = help: the nearest parameter is `fc.bias`; `*` stands for any run of characters

            error[E0101]: `n` matches no trained parameter
              ┌─ mnist.ron:9:72
              │
            9 │                 (params: "*.bais", weight_decay: 0), (params: ["fc.*", "n"]), (params: 3), (lr: 1),
              │                                                                        ^^^
              │
              = help: the nearest parameter is `fc.w`; `*` stands for any run of characters

            error[E0010]: a pattern of names must be a string, not a whole number
              ┌─ mnist.ron:9:88
              │
            9 │                 (params: "*.bais", weight_decay: 0), (params: ["fc.*", "n"]), (params: 3), (lr: 1),
              │                                                                                        ^

            error[E0011]: a group of parameters needs the field `params`
              ┌─ mnist.ron:9:92
              │
            9 │                 (params: "*.bais", weight_decay: 0), (params: ["fc.*", "n"]), (params: 3), (lr: 1),
              │                                                                                            ^^^^^^^
              │
              = help: add `params: …`
        "#]],
    );
}

#[test]
fn groups_have_settings_of_the_optimizer() {
    check_faults(
        &file(
            r#"            optimizer: Adam(lr: 1e-3, groups: [
                (params: "*.w", frozen: true, lr: 1), (params: "*.w", lr: -1), (params: "*", beta: 2),
            ])"#,
        ),
        expect![[r#"
            error[E0206]: frozen parameters have no settings
              ┌─ mnist.ron:9:17
              │
            9 │                 (params: "*.w", frozen: true, lr: 1), (params: "*.w", lr: -1), (params: "*", beta: 2),
              │                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              │
              = help: leave out its settings, or `frozen`

            error[E0015]: `lr` cannot be -1
              ┌─ mnist.ron:9:75
              │
            9 │                 (params: "*.w", frozen: true, lr: 1), (params: "*.w", lr: -1), (params: "*", beta: 2),
              │                                                                           ^^
              │
              = help: it is a finite number of at least 0

            error[E0107]: `adam` has no setting `beta`
              ┌─ mnist.ron:9:94
              │
            9 │                 (params: "*.w", frozen: true, lr: 1), (params: "*.w", lr: -1), (params: "*", beta: 2),
              │                                                                                              ^^^^
              │
              = help: did you mean `beta1`?
        "#]],
    );
    // A common setting is reported once.
    check_faults(
        &file(r#"            optimizer: Adam(lr: 1e-3, beta: 2, groups: [(params: "*")])"#),
        expect![[r#"
            error[E0107]: `adam` has no setting `beta`
              ┌─ mnist.ron:8:39
              │
            8 │             optimizer: Adam(lr: 1e-3, beta: 2, groups: [(params: "*")])
              │                                       ^^^^
              │
              = help: did you mean `beta1`?
        "#]],
    );
    check_faults(
        &file(
            r#"            optimizer: Adam(lr: 1e-3, beta1: 0.5, groups: [
                (params: "*.w", weight_decay: 0.25, lr: Exp(start: 1, rate: 0.5)), (params: "*", frozen: true),
            ]),
            state: {"n": "next"}"#,
        ),
        expect![[""]],
    );
}

#[test]
fn the_optimizer_of_a_group_has_all_its_settings() {
    check_faults(
        &file(
            r#"            optimizer: Adam(lr: 1e-3, groups: [
                (params: "*.w", optimizer: Adam(lr: 1), lr: 2), (params: "fc.bias", optimizer: Sgt(lr: 1)),
                (params: "*", optimizer: Adam(lr: 1, groups: [(params: "*.w", frozen: true)])),
            ])"#,
        ),
        expect![[r#"
            error[E0206]: a group with an optimizer has no further fields
              ┌─ mnist.ron:9:17
              │
            9 │                 (params: "*.w", optimizer: Adam(lr: 1), lr: 2), (params: "fc.bias", optimizer: Sgt(lr: 1)),
              │                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
              │
              = help: its settings belong inside the optimizer, which has no groups

            error[E0207]: there is no optimizer `Sgt`
              ┌─ mnist.ron:9:96
              │
            9 │                 (params: "*.w", optimizer: Adam(lr: 1), lr: 2), (params: "fc.bias", optimizer: Sgt(lr: 1)),
              │                                                                                                ^^^
              │
              = help: known are `Adam`

            error[E0206]: a group with an optimizer has no further fields
               ┌─ mnist.ron:10:17
               │
            10 │                 (params: "*", optimizer: Adam(lr: 1, groups: [(params: "*.w", frozen: true)])),
               │                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
               │
               = help: its settings belong inside the optimizer, which has no groups
        "#]],
    );
    check_faults(
        &file(
            r#"            optimizer: Adam(lr: 1e-3, groups: [
                (params: "*.w", optimizer: Adam(lr: 1, beta1: 0.5)), (params: "*", frozen: true),
            ])"#,
        ),
        expect![[r#"
            warning[E0303]: no stage uses `next`
              ┌─ mnist.ron:5:54
              │
            5 │     nodes: {"loss": "mean(x * fc.w + fc.bias + n)", "next": "n + 1.0"},
              │                                                      ^^^^
              │
              = help: leave it out, or name it in a stage
        "#]],
    );
}

#[test]
fn gradients_are_clipped_in_one_way() {
    check_faults(
        &file(r#"            optimizer: Adam(lr: 1e-3), clip_norm: 1, clip_value: 0.5"#),
        expect![[r#"
            error[E0206]: gradients are clipped by value and by norm
              ┌─ mnist.ron:8:66
              │
            8 │             optimizer: Adam(lr: 1e-3), clip_norm: 1, clip_value: 0.5
              │                                                   -              ^^^
              │                                                   │
              │                                                   the norm is given here
              │
              = help: leave one of them out
        "#]],
    );
    check_faults(
        &file(r#"            optimizer: Adam(lr: 1e-3), clip_value: 0"#),
        expect![[r#"
        error[E0015]: `clip_value` cannot be 0
          ┌─ mnist.ron:8:52
          │
        8 │             optimizer: Adam(lr: 1e-3), clip_value: 0
          │                                                    ^
          │
          = help: it must be more than 0
    "#]],
    );
}

#[test]
fn schedules_are_read_with_their_ranges() {
    check_faults(
        &file(
            r#"            optimizer: Adam(lr: OneCycle(max: 1, pct_start: 1.5, div_factor: 0), groups: [
                (params: "fc.w", lr: Plateau(start: 1, factor: 2)), (params: "*", lr: OneCylce(1)),
            ]), state: {"n": "next"}"#,
        ),
        expect![[r#"
            error[E0015]: `pct_start` cannot be 1.5
              ┌─ mnist.ron:8:61
              │
            8 │             optimizer: Adam(lr: OneCycle(max: 1, pct_start: 1.5, div_factor: 0), groups: [
              │                                                             ^^^
              │
              = help: it lies between 0 and 1

            error[E0015]: `div_factor` cannot be 0
              ┌─ mnist.ron:8:78
              │
            8 │             optimizer: Adam(lr: OneCycle(max: 1, pct_start: 1.5, div_factor: 0), groups: [
              │                                                                              ^
              │
              = help: it must be more than 0

            error[E0015]: `factor` cannot be 2
              ┌─ mnist.ron:9:64
              │
            9 │                 (params: "fc.w", lr: Plateau(start: 1, factor: 2)), (params: "*", lr: OneCylce(1)),
              │                                                                ^
              │
              = help: it lies between 0 and 1

            error[E0014]: there is no schedule `OneCylce`
              ┌─ mnist.ron:9:87
              │
            9 │                 (params: "fc.w", lr: Plateau(start: 1, factor: 2)), (params: "*", lr: OneCylce(1)),
              │                                                                                       ^^^^^^^^
              │
              = help: did you mean `OneCycle`?
        "#]],
    );
}

#[test]
fn a_rate_may_be_an_expression_of_the_step() {
    check_faults(
        &file(
            r#"            optimizer: Adam(lr: "1e-3 / (step + 1)", groups: [
                (params: "fc.w", lr: "stp * 0.1"), (params: "*", lr: "1"), (params: "*", lr: "step * x"),
                (params: "*", lr: "relu(step"), (params: "*", lr: "step > 3"),
            ]), state: {"n": "next"}"#,
        ),
        expect![[r#"
            error[E0101]: nothing is called `stp`
              ┌─ mnist.ron:9:39
              │
            9 │                 (params: "fc.w", lr: "stp * 0.1"), (params: "*", lr: "1"), (params: "*", lr: "step * x"),
              │                                       ^^^
              │
              = help: did you mean `step`?

            error[E0205]: `lr` is one number of type f32, this expression is i32[]
              ┌─ mnist.ron:9:70
              │
            9 │                 (params: "fc.w", lr: "stp * 0.1"), (params: "*", lr: "1"), (params: "*", lr: "step * x"),
              │                                                                      ^^^
              │
              = help: `step` is f32[] here; write numbers with a point, as in `1.0`

            error[E0101]: nothing is called `x`
              ┌─ mnist.ron:9:102
              │
            9 │                 (params: "fc.w", lr: "stp * 0.1"), (params: "*", lr: "1"), (params: "*", lr: "step * x"),
              │                                                                                                      ^
              │
              = help: only `step` and the extents of `dims` are known here

            error[E0008]: expected `,` or `)`, found the end
               ┌─ mnist.ron:10:45
               │
            10 │                 (params: "*", lr: "relu(step"), (params: "*", lr: "step > 3"),
               │                                        -    ^
               │                                        │
               │                                        opened here

            error[E0205]: `lr` is one number of type f32, this expression is bool[]
               ┌─ mnist.ron:10:67
               │
            10 │                 (params: "*", lr: "relu(step"), (params: "*", lr: "step > 3"),
               │                                                                   ^^^^^^^^^^
               │
               = help: `step` is f32[] here; write numbers with a point, as in `1.0`
        "#]],
    );
}

#[test]
fn a_plateau_needs_a_metric() {
    let plateau = r#"            optimizer: Adam(lr: Plateau(start: 1e-3)), state: {"n": "next"}"#;
    check_faults(
        &file(plateau),
        expect![[r#"
        error[E0011]: this needs the field `evaluate`
          ┌─ mnist.ron:8:24
          │
        8 │             optimizer: Adam(lr: Plateau(start: 1e-3)), state: {"n": "next"}
          │                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          │
          = help: add `evaluate: Evaluate(data: …, batch: …, metrics: ["loss"])`: a metric of it tells the best epoch
    "#]],
    );
    let evaluated = r#", evaluate: Evaluate(data: "digits.test", batch: 8, metrics: ["next"])"#;
    check_faults(
        &file(&format!("{plateau}{evaluated}")),
        expect![[r#"
        error[E0209]: nothing says whether higher or lower values of `next` are better
          ┌─ mnist.ron:8:24
          │
        8 │             optimizer: Adam(lr: Plateau(start: 1e-3)), state: {"n": "next"}, evaluate: Evaluate(data: "digits.test", batch: 8, metrics: ["next"])
          │                        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          │
          = help: add `monitor: Max("next")` or `monitor: Min("next")` to the `Train` stage
    "#]],
    );
    let monitored = r#", monitor: Max("next")"#;
    check_faults(&file(&format!("{plateau}{evaluated}{monitored}")), expect![[""]]);
}
