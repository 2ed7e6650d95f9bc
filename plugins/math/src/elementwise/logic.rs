//! Logic of truth values and of the bits of integers.

use crate::takes;
use engine_core::ir::{DType, E};
use engine_core::op::OpForm;

const NO_DERIVATIVE: &str = "truth values and integers have no derivative";

/// Logical and of truth values, bitwise and of integers.
pub fn and() -> OpForm {
    of_two("and", "and(a, b)", "Holds where both operands hold.", |a, b| a & b, [0., 0., 0., 1.], 8.)
}

/// Logical or of truth values, bitwise or of integers.
pub fn or() -> OpForm {
    of_two("or", "or(a, b)", "Holds where at least one operand holds.", |a, b| a | b, [0., 1., 1., 1.], 14.)
}

/// Exclusive or of truth values, bitwise exclusive or of integers.
pub fn xor() -> OpForm {
    of_two("xor", "xor(a, b)", "Holds where exactly one operand holds.", |a, b| a ^ b, [0., 1., 1., 0.], 6.)
}

/// Logical not of truth values, bitwise not of integers.
pub fn not() -> OpForm {
    OpForm::unary("not", "Holds where the operand does not.", takes::bits, |x| !x)
        .no_grad(NO_DERIVATIVE)
        .example("of truth values", "not(a)", &[("bool[2]", &[0., 1.])], &[("bool[2]", &[1., 0.])])
        .example("of the bits of integers", "not(a)", &[("i32[2]", &[0., 12.])], &[("i32[2]", &[-1., -13.])])
}

/// The number of bits that are 1, those of two's complement for negative numbers: -1 has all bits of its type.
pub fn popcount() -> OpForm {
    OpForm::unary("popcount", "Counts the bits of integers that are 1.", DType::is_int, E::popcount)
        .no_grad(NO_DERIVATIVE)
        .example(
            "of signed integers",
            "popcount(a)",
            &[("i32[5]", &[0., 12., -1., 2147483647., -2147483648.])],
            &[("i32[5]", &[0., 2., 32., 31., 1.])],
        )
        .example(
            "of bytes",
            "popcount(a)",
            &[("u8[4]", &[0., 1., 200., 255.])],
            &[("u8[4]", &[0., 1., 3., 8.])],
        )
}

/// `truth` holds the results for all four pairs of truth values, and `bits` the result for 12 and 10.
fn of_two(
    name: &str,
    call: &'static str,
    summary: &str,
    formula: fn(E, E) -> E,
    truth: [f64; 4],
    bits: f64,
) -> OpForm {
    OpForm::binary(name, summary, takes::bits, formula)
        .no_grad(NO_DERIVATIVE)
        .example(
            "of truth values",
            call,
            &[("bool[4]", &[0., 0., 1., 1.]), ("bool[4]", &[0., 1., 0., 1.])],
            &[("bool[4]", &truth)],
        )
        .example(
            "of the bits of integers",
            call,
            &[("i32[1]", &[12.]), ("i32[1]", &[10.])],
            &[("i32[1]", &[bits])],
        )
}
