//! Division that rounds down, and its remainder.

use crate::takes;
use engine_core::ir::E;
use engine_core::op::OpForm;

/// The largest integer not above `a / b`, as Python's `//`. Floats divide by 0 as `div` does; integers by 0 are an error
/// while running (E0605). The least integer by -1 is the least integer.
pub fn floor_divide() -> OpForm {
    OpForm::binary("floor_divide", "Divides and rounds the quotient down.", takes::numbers, |a, b| {
        let rest = a % b;
        // Without its remainder, a division is exact.
        let whole = ((a - rest) / b).round();
        let below = E::select(has_other_sign(rest, b), whole - 1.0, whole);
        E::select(b.eq(0.0), a / b, below)
    })
    .no_grad("a rounded quotient is piecewise constant")
    .example(
        "of all signs",
        "floor_divide(a, b)",
        &[("f32[5]", &[7.0, -7.0, 7.0, -7.0, 1.0]), ("f32[5]", &[4.0, 4.0, -4.0, -4.0, 0.0])],
        &[("f32[5]", &[1.0, -2.0, -2.0, 1.0, f64::INFINITY])],
    )
    .example(
        "of integers",
        "floor_divide(a, b)",
        &[("i32[4]", &[7.0, -7.0, 7.0, -8.0]), ("i32[4]", &[4.0, 4.0, -4.0, -4.0])],
        &[("i32[4]", &[1.0, -2.0, -2.0, 2.0])],
    )
}

/// The remainder of a division that rounds down: it has the sign of `b`, as Python's `%`. By zero it is NaN for floats and
/// an error while running (E0605) for integers. The gradients are g and -g·⌊a/b⌋.
pub fn remainder() -> OpForm {
    OpForm::binary(
        "remainder",
        "Takes the remainder of a division, with the sign of the divisor.",
        takes::numbers,
        |a, b| {
            let rest = a % b;
            E::select(has_other_sign(rest, b), rest + b, rest)
        },
    )
    .tested_on(0.5, 0.9)
    .example(
        "the sign is that of the divisor",
        "remainder(a, b)",
        &[("f32[4]", &[7.0, -7.0, 7.0, -7.0]), ("f32[4]", &[4.0, 4.0, -4.0, -4.0])],
        &[("f32[4]", &[3.0, 1.0, -1.0, -3.0])],
    )
}

/// Whether a remainder is not 0 and has another sign than the divisor.
fn has_other_sign(rest: E, divisor: E) -> E {
    rest.ne(0.0) & (rest.lt(0.0) ^ divisor.lt(0.0))
}
