//! Groups of parameters, from their text to their kernels.

use super::*;

/// Parameters of a group are updated in one kernel, however many they are. Without decay, its body is another.
#[test]
fn each_group_is_one_kernel() {
    let n_kernels = |groups: &str| {
        let text = r#"(
            data: {"rows": (source: "numbers", n_train: 32, n_test: 8)},
            inputs: {"row": (type: "i32[B]", from: "rows.number")},
            params: {
                "a.w": (type: "f32[3, 5]", init: 1), "a.bias": (type: "f32[5]", init: 1),
                "b.w": (type: "f32[5, 2]", init: 1), "b.bias": (type: "f32[2]", init: 1),
            },
            nodes: {
                "x": "broadcast_to(reshape(cast(row, dtype=f32), shape=[B, 1]), shape=[B, 3])",
                "loss": "mean(square(tanh(x @ a.w + a.bias) @ b.w + b.bias))",
            },
            stages: {
                "train": Train(
                    data: "rows.train", batch: 8, loss: "loss", optimizer: AdamW(lr: 1e-3, groups: [GROUPS]),
                ),
            },
        )"#;
        run(&text.replace("GROUPS", groups)).unwrap().stages[0].kernels_per_step
    };
    let plain = n_kernels("");
    assert_eq!(n_kernels(r#"(params: "*.bias")"#), plain);
    assert_eq!(n_kernels(r#"(params: "*.bias", weight_decay: 0)"#), plain + 1);
    // Groups that differ in a number alone share a kernel, too.
    assert_eq!(n_kernels(r#"(params: "*.bias", weight_decay: 0), (params: "b.w", lr: 1e-4)"#), plain + 1);
    // The gradient by `a.w` is a kernel of its own, and so is that by the hidden layer.
    assert!(n_kernels(r#"(params: "a.*", frozen: true)"#) < plain);
}
