//! The gamma function's logarithm and its derivatives, and the inverse of the error function.

use super::trigonometric::polynomial;
use engine_core::ir::{DType, E};
use engine_core::op::{Grad, OpForm};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The x whose error function is the element: infinite at ±1, NaN beyond. The gradient is g·√π/2·exp y².
pub fn erfinv() -> OpForm {
    OpForm::unary("erfinv", "Takes the inverse error function of each element.", DType::is_float, quantile)
        .grad(Grad::by_result(|y, g| g * (y * y).exp() * (PI.sqrt() / 2.0)))
        .tested_on(-0.95, 0.95)
        .example(
            "infinite at 1, NaN beyond",
            "erfinv(a)",
            &[("f32[5]", &[0.5, -0.25, 0.99, 1.0, 1.5])],
            &[(
                "f32[5]",
                &[0.4769362762044699, -0.22531205501217808, 1.8213863677184496, f64::INFINITY, f64::NAN],
            )],
        )
}

/// ln |Γ(x)|: infinite at 0 and at negative integers. The gradient is g·ψ(x) with the digamma function ψ.
pub fn lgamma() -> OpForm {
    OpForm::unary(
        "lgamma",
        "Takes the logarithm of the gamma function's magnitude.",
        DType::is_float,
        log_gamma,
    )
    .grad(Grad::by_operand(|x, g| g * psi(x)))
    .avoiding(&[-2.0, -1.0, 0.0])
    .example(
        "infinite at zero",
        "lgamma(a)",
        &[("f32[5]", &[5.0, 0.5, -1.5, 100.0, 0.0])],
        &[(
            "f32[5]",
            &[3.178053830347946, 0.5723649429247001, 0.860047015376481, 359.13420536957534, f64::INFINITY],
        )],
    )
}

/// ψ(x), the derivative of ln Γ: -∞ at 0, NaN at negative integers. The gradient is g·ψ′(x).
pub fn digamma() -> OpForm {
    OpForm::unary("digamma", "Takes the derivative of the gamma function's logarithm.", DType::is_float, psi)
        .grad(Grad::by_operand(|x, g| g * trigamma(x)))
        .tested_on(-1.9, 2.0)
        .avoiding(&[-1.0, 0.0])
        .example(
            "NaN at negative integers",
            "digamma(a)",
            &[("f32[5]", &[5.0, 0.5, -1.5, 100.0, -1.0])],
            &[(
                "f32[5]",
                &[1.5061176684318003, -1.9635100260214235, 0.7031566406452432, 4.600161852738087, f64::NAN],
            )],
        )
}

/// Rational functions of Wichura's algorithm AS 241 for quantiles of the normal distribution: one of x² near 0, one of
/// √-ln((1 - |x|)/2) near ±1.
fn quantile(x: E) -> E {
    const P: [f64; 8] = [
        2509.0809287301227,
        33430.57558358813,
        67265.7709270087,
        45921.95393154987,
        13731.69376550946,
        1971.5909503065513,
        133.14166789178438,
        3.3871328727963665,
    ];
    const Q: [f64; 8] = [
        5226.495278852854,
        28729.085735721943,
        39307.89580009271,
        21213.794301586597,
        5394.196021424751,
        687.1870074920579,
        42.31333070160091,
        1.0,
    ];
    const R: [f64; 8] = [
        0.0007745450142783414,
        0.022723844989269184,
        0.2417807251774506,
        1.2704582524523684,
        3.6478483247632045,
        5.769497221460691,
        4.630337846156546,
        1.4234371107496835,
    ];
    const S: [f64; 8] = [
        1.0507500716444169e-09,
        0.0005475938084995345,
        0.015198666563616457,
        0.14810397642748008,
        0.6897673349851,
        1.6763848301838038,
        2.053191626637759,
        1.0,
    ];
    let half = x * 0.5;
    let inner = 0.180625 - half * half;
    let near = half * (polynomial(inner, &P) / polynomial(inner, &Q));
    let distance = 0.5 - half.abs();
    let outer = (-distance.log()).sqrt() - 1.6;
    // The rational function has no limit at infinity, so the ends are apart.
    let far = E::select(distance.eq(0.0), f64::INFINITY, polynomial(outer, &R) / polynomial(outer, &S));
    E::select(half.abs().le(0.425), near, x.sign() * far) * FRAC_1_SQRT_2
}

/// A rational function beside the roots 1 and 2, Lanczos's approximation from 3 on, and Euler's reflection below ½.
/// Errors are below 10⁻⁹. `tests/examples/rationals.py` fits the rational function.
fn log_gamma(x: E) -> E {
    const P: [f64; 5] =
        [1.1418608406765816, 18.549904500175046, 47.841504045455046, 25.60426460762692, 2.239079458573432];
    const Q: [f64; 6] = [
        0.28981524383390606,
        10.34668705455601,
        56.9048138673104,
        74.41005738213325,
        22.284290179710386,
        1.0,
    ];
    let (is_left, right) = reflected(x);
    let near = (right - 1.0) * (right - 2.0) * (polynomial(right, &P) / polynomial(right, &Q));
    let log = E::select(right.lt(3.0), near, lanczos(right));
    let mirrored = PI.ln() - turn(x).sin().abs().log() - log;
    E::select(is_pole(x), f64::INFINITY, E::select(is_left, mirrored, log))
}

/// (x - ½)·(ln(x + 4½) - 1) - 5 + ln(√2π·(c + Σ cₖ/(x + k))), with the coefficients of Numerical Recipes.
fn lanczos(x: E) -> E {
    const C: [f64; 6] = [
        76.18009172947146,
        -86.50532032941677,
        24.01409824083091,
        -1.231739572450155,
        0.001208650973866179,
        -5.395239384953e-06,
    ];
    let sum = C.iter().enumerate().fold(E::from(1.000000000190015), |sum, (k, &c)| sum + c / (x + k as f64));
    (x - 0.5) * ((x + 4.5).log() - 1.0) + ((sum * (2.0 * PI).sqrt()).log() - 5.0)
}

/// The asymptotic series at x + 4 for x ≥ ½, and the reflection below.
fn psi(x: E) -> E {
    let (is_left, right) = reflected(x);
    let far = right + 4.0;
    let square = (far * far).recip();
    let series = polynomial(square, &[-1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0]);
    let shift = (1..4).fold(right.recip(), |sum, k| sum + (right + k as f64).recip());
    let value = far.log() - 0.5 / far - square * series - shift;
    E::select(
        is_left,
        E::select(is_pole(x) & x.lt(0.0), f64::NAN, value - turn(x).cos() / turn(x).sin() * PI),
        value,
    )
}

/// ψ′(x), as [`psi`].
fn trigamma(x: E) -> E {
    let (is_left, right) = reflected(x);
    let far = right + 6.0;
    let square = (far * far).recip();
    let series = polynomial(square, &[-1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0]);
    let of = |x: E| (x * x).recip();
    let shift = (1..6).fold(of(right), |sum, k| sum + of(right + k as f64));
    let value = far.recip() + square * 0.5 + square / far * series + shift;
    E::select(is_left, of(turn(x).sin() / PI) - value, value)
}

/// Whether x < ½, and 1 - x there, or else x.
fn reflected(x: E) -> (E, E) {
    let is_left = x.lt(0.5);
    (is_left, E::select(is_left, 1.0 - x, x))
}

/// Whether x is 0, a negative integer or -∞.
fn is_pole(x: E) -> E {
    x.le(0.0) & x.eq(x.round())
}

/// πx less whole multiples of π.
fn turn(x: E) -> E {
    (x - x.round()) * PI
}
