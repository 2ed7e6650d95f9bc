//! `xor`.

use crate::takes;
use engine_core::op::{Binary, Example, Grad, GradCheck, OpForm, TypeRule};

/// Exclusive or of truth values, bitwise exclusive or of integers.
pub fn xor() -> OpForm {
    Binary {
        name: "xor",
        summary: "Holds where exactly one operand holds.",
        types: TypeRule::Broadcast { allowed: takes::bits },
        formula: |a, b| a ^ b,
        grad: Grad::None { why: "truth values and integers have no derivative" },
        check: GradCheck::None { why: "the result has no derivative" },
        examples: vec![
            Example {
                title: "of truth values",
                call: "xor(a, b)",
                inputs: vec![("bool[4]", vec![0.0, 0.0, 1.0, 1.0]), ("bool[4]", vec![0.0, 1.0, 0.0, 1.0])],
                outputs: vec![("bool[4]", vec![0.0, 1.0, 1.0, 0.0])],
            },
            Example {
                title: "of the bits of integers",
                call: "xor(a, b)",
                inputs: vec![("i32[1]", vec![12.0]), ("i32[1]", vec![10.0])],
                outputs: vec![("i32[1]", vec![6.0])],
            },
        ],
    }
    .form("elementwise")
}
