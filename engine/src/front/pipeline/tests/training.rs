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
