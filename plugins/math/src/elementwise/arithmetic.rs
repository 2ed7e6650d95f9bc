//! Arithmetic: sums, products, powers and signs.

use crate::takes;
use engine_core::ir::DType;
use engine_core::op::OpForm;

/// `a + b`. Integers wrap around. Truth values have no 2: their sum holds where one of them does.
pub fn add() -> OpForm {
    OpForm::binary("add", "Adds two tensors.", takes::anything, |a, b| a + b).example(
        "a row is added to every row",
        "add(a, b)",
        &[("f32[2, 3]", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), ("f32[3]", &[10.0, 20.0, 30.0])],
        &[("f32[2, 3]", &[11.0, 22.0, 33.0, 14.0, 25.0, 36.0])],
    )
}

/// `a - b`. Integers wrap around.
pub fn sub() -> OpForm {
    OpForm::binary("sub", "Subtracts the second tensor from the first.", takes::numbers, |a, b| a - b)
        .example(
            "element by element",
            "sub(a, b)",
            &[("f32[3]", &[1.5, -2.0, 0.25]), ("f32[3]", &[4.0, 0.5, -1.0])],
            &[("f32[3]", &[-2.5, -2.5, 1.25])],
        )
}

/// `a · b`. Integers wrap around. The product of truth values holds where both do.
pub fn mul() -> OpForm {
    OpForm::binary("mul", "Multiplies two tensors element by element.", takes::anything, |a, b| a * b)
        .example(
            "element by element",
            "mul(a, b)",
            &[("f32[3]", &[1.5, -2.0, 0.25]), ("f32[3]", &[4.0, 0.5, -1.0])],
            &[("f32[3]", &[6.0, -1.0, -0.25])],
        )
}

/// `a / b`. Floats follow IEEE: `x / 0` is infinite, `0 / 0` is NaN. Integers divide towards zero, and a divisor
/// of 0 is an error while running (E0605).
pub fn div() -> OpForm {
    OpForm::binary("div", "Divides the first tensor by the second.", takes::numbers, |a, b| a / b)
        .tested_on(0.5, 2.0)
        .example(
            "a zero divides into infinities and NaN",
            "div(a, b)",
            &[("f32[4]", &[6.0, 1.0, -1.0, 0.0]), ("f32[4]", &[4.0, 0.0, 0.0, 0.0])],
            &[("f32[4]", &[1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN])],
        )
        .example(
            "integers divide towards zero",
            "div(a, b)",
            &[("i32[4]", &[7.0, -7.0, 7.0, -7.0]), ("i32[4]", &[2.0, 2.0, -2.0, -2.0])],
            &[("i32[4]", &[3.0, -3.0, -3.0, 3.0])],
        )
}

/// The remainder of a division towards zero: it has the sign of `a`, as C's `fmod`. By zero it is NaN for floats and an
/// error while running (E0605) for integers. The gradient treats the quotient as constant.
pub fn rem() -> OpForm {
    OpForm::binary(
        "rem",
        "Takes the remainder of a division, with the sign of the dividend.",
        takes::numbers,
        |a, b| a % b,
    )
    .tested_on(0.5, 0.9)
    .example(
        "the sign is that of the dividend",
        "rem(a, b)",
        &[("f32[4]", &[7.0, -7.0, 7.0, -7.0]), ("f32[4]", &[4.0, 4.0, -4.0, -4.0])],
        &[("f32[4]", &[3.0, -3.0, 3.0, -3.0])],
    )
}

/// `aᵇ`. A negative base with a fractional exponent is NaN, 0⁰ is 1. By `a` the gradient is g·b·aᵇ⁻¹ (0 where b = 0), by `b` it is
/// g·aᵇ·ln a (0 where a = 0 and b ≥ 0).
pub fn pow() -> OpForm {
    OpForm::binary("pow", "Raises the first tensor to the power of the second.", takes::numbers, |a, b| {
        a.pow(b)
    })
    .tested_on(0.5, 2.0)
    .example(
        "also of zero and of negative bases",
        "pow(a, b)",
        &[("f32[5]", &[2.0, 0.0, -2.0, -2.0, 4.0]), ("f32[5]", &[3.0, 0.0, 2.0, 0.5, -0.5])],
        &[("f32[5]", &[8.0, 1.0, 4.0, f64::NAN, 0.5])],
    )
}

/// The larger element; NaN if either is NaN. Where both are equal the gradient goes to `a`.
pub fn maximum() -> OpForm {
    OpForm::binary("maximum", "Takes the larger of two elements; NaN wins.", takes::anything, |a, b| a.max(b))
        .example(
            "NaN wins over numbers",
            "maximum(a, b)",
            &[("f32[4]", &[1.0, f64::NAN, 3.0, -1.0]), ("f32[4]", &[2.0, 0.0, f64::NAN, -2.0])],
            &[("f32[4]", &[2.0, f64::NAN, f64::NAN, -1.0])],
        )
}

/// The smaller element; NaN if either is NaN. Where both are equal the gradient goes to `a`.
pub fn minimum() -> OpForm {
    OpForm::binary("minimum", "Takes the smaller of two elements; NaN wins.", takes::anything, |a, b| {
        a.min(b)
    })
    .example(
        "NaN wins over numbers",
        "minimum(a, b)",
        &[("f32[4]", &[1.0, f64::NAN, 3.0, -1.0]), ("f32[4]", &[2.0, 0.0, f64::NAN, -2.0])],
        &[("f32[4]", &[1.0, f64::NAN, f64::NAN, -2.0])],
    )
}

/// `-x`.
pub fn neg() -> OpForm {
    OpForm::unary("neg", "Changes the sign of each element.", takes::signed, |x| -x).example(
        "of both signs",
        "neg(a)",
        &[("f32[3]", &[1.5, -2.0, 0.25])],
        &[("f32[3]", &[-1.5, 2.0, -0.25])],
    )
}

/// `|x|`. The gradient is g·sign x, 0 at 0.
pub fn abs() -> OpForm {
    OpForm::unary("abs", "Takes the absolute value of each element.", takes::numbers, |x| x.abs())
        .avoiding(&[0.0])
        .example(
            "of both signs",
            "abs(a)",
            &[("f32[3]", &[1.5, -2.0, 0.25])],
            &[("f32[3]", &[1.5, 2.0, 0.25])],
        )
}

/// -1, 0 or 1; NaN stays NaN. The gradient is 0.
pub fn sign() -> OpForm {
    OpForm::unary("sign", "Takes the sign of each element.", takes::numbers, |x| x.sign())
        .avoiding(&[0.0])
        .example(
            "NaN stays",
            "sign(a)",
            &[("f32[4]", &[2.5, 0.0, -3.0, f64::NAN])],
            &[("f32[4]", &[1.0, 0.0, -1.0, f64::NAN])],
        )
}

/// x². Integers wrap around.
pub fn square() -> OpForm {
    OpForm::unary("square", "Squares each element.", takes::numbers, |x| x * x).example(
        "of both signs",
        "square(a)",
        &[("f32[3]", &[1.5, -2.0, 0.25])],
        &[("f32[3]", &[2.25, 4.0, 0.0625])],
    )
}

/// 1/x; infinite at 0, with the sign of the zero. The gradient is -g·y².
pub fn reciprocal() -> OpForm {
    OpForm::unary("reciprocal", "Takes one over each element.", DType::is_float, |x| x.recip())
        .tested_on(0.5, 3.0)
        .example(
            "infinite at zero",
            "reciprocal(a)",
            &[("f32[3]", &[4.0, -0.5, 0.0])],
            &[("f32[3]", &[0.25, -2.0, f64::INFINITY])],
        )
}
