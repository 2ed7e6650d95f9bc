//! `not`.

use crate::takes;
use engine_core::op::{Example, Grad, GradCheck, OpForm, Unary};

/// Logical not of truth values, bitwise not of integers.
pub fn not() -> OpForm {
    Unary {
        name: "not",
        summary: "Holds where the operand does not.",
        takes: takes::bits,
        formula: |x| !x,
        grad: Grad::None { why: "truth values and integers have no derivative" },
        check: GradCheck::None { why: "the result has no derivative" },
        examples: vec![
            Example {
                title: "of truth values",
                call: "not(a)",
                inputs: vec![("bool[2]", vec![0.0, 1.0])],
                outputs: vec![("bool[2]", vec![1.0, 0.0])],
            },
            Example {
                title: "of the bits of integers",
                call: "not(a)",
                inputs: vec![("i32[2]", vec![0.0, 12.0])],
                outputs: vec![("i32[2]", vec![-1.0, -13.0])],
            },
        ],
    }
    .form("elementwise")
}
