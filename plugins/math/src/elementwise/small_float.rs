//! `small_float`: numbers of floats that have 4 or 8 bits.

use engine_core::ir::{Attrs, DType, E};
use engine_core::op::{AttrSpec, Grad, GradCheck, OpForm};

/// A format of small floats.
struct Format {
    /// Bits behind the leading one.
    mantissa: i32,
    /// The exponent of the smallest normal number.
    least: i32,
    /// The largest finite number.
    max: f64,
    /// The magnitude of larger numbers, if they do not saturate.
    beyond: f64,
    /// Whether there is a NaN.
    has_nan: bool,
}

const FORMATS: [&str; 5] = ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e2m1"];

fn format(name: &str) -> Format {
    let (mantissa, least, max) = match name {
        "e4m3fn" => (3, -6, 448.0),
        "e4m3fnuz" => (3, -7, 240.0),
        "e5m2" => (2, -14, 57344.0),
        "e5m2fnuz" => (2, -15, 57344.0),
        _ => (1, 0, 6.0),
    };
    let beyond = match name {
        "e5m2" => f64::INFINITY,
        "e2m1" => max,
        _ => f64::NAN,
    };
    Format { mantissa, least, max, beyond, has_nan: name != "e2m1" }
}

/// The nearest number of a small format, halves to the even one. Larger numbers become the largest one; without `saturate`,
/// they become infinite in `e5m2` and NaN in the other formats of 8 bits. NaN stays, and becomes 0 in `e2m1`. The gradient
/// is g, as that of a cast.
pub fn small_float() -> OpForm {
    OpForm::new("small_float", "Rounds each element to a number of a float with 4 or 8 bits.")
        .input("x", "any shape")
        .attr(AttrSpec::choice("format", "the bits of exponent and mantissa, as ONNX names them", &FORMATS))
        .attr(AttrSpec::flag("saturate", "whether larger numbers become the largest one", true))
        .takes(|dtype| matches!(dtype, DType::F32 | DType::F64))
        .map(|x, attrs| rounded(x[0], attrs))
        .grad(Grad::rule(|_, call| vec![call.grads[0]]))
        .check(GradCheck::Convention {
            why: "the gradient passes straight through, as that of a cast",
            grads: vec![
                vec![vec![1., 2., 3., 4., 5., 6., 7.]],
                vec![vec![1., 2., 3.]],
                vec![vec![1., 2., 3., 4.]],
            ],
        })
        .example(
            "halves, a subnormal number, and numbers beyond the largest",
            "small_float(a)",
            &[("f32[7]", &[1.0625, 1.1875, -0.3, 0.0029296875, 465.0, -1e9, f64::NAN])],
            &[("f32[7]", &[1.0, 1.25, -0.3125, 0.00390625, 448.0, -448.0, f64::NAN])],
        )
        .example(
            "without saturation",
            "small_float(a, format=\"e5m2\", saturate=false)",
            &[("f32[3]", &[61439.0, 61441.0, -1e30])],
            &[("f32[3]", &[57344.0, f64::INFINITY, f64::NEG_INFINITY])],
        )
        .example(
            "of 4 bits",
            "small_float(a, format=\"e2m1\")",
            &[("f32[4]", &[0.25, -2.5, 3.5, 100.0])],
            &[("f32[4]", &[0.0, -2.0, 4.0, 6.0])],
        )
}

fn rounded(x: E, attrs: &Attrs) -> E {
    let format = format(attrs.str("format"));
    let size = x.abs();
    // The largest power of two that is not above the magnitude, and not below the smallest normal number.
    let smallest = 2f64.powi(format.least);
    let mut power = size.max(smallest).min(smallest);
    for exponent in [16, 8, 4, 2, 1] {
        let larger = power * 2f64.powi(exponent);
        power = E::select(size.ge(larger), larger, power);
    }
    let unit = power * 2f64.powi(-format.mantissa);
    let near = (x / unit).round() * unit;
    let beyond = if attrs.bool("saturate") { format.max } else { format.beyond };
    let limited = E::select(near.gt(format.max), beyond, E::select(near.lt(-format.max), -beyond, near));
    if format.has_nan { limited } else { E::select(x.is_nan(), 0.0, limited) }
}
