//! Errors in units in the last place.

use engine::core::ir::DType;

/// The largest error of a result, in units in the last place (ULP).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    pub error: f64,
    /// The number of the element.
    pub at: usize,
}

/// The largest error among the elements of a result, in units in the last place of its type. Integers and truth
/// values are equal or infinitely wrong, as are NaN beside numbers and infinities beside others.
///
/// With `is_whole`, the unit is that of the largest finite element.
pub fn largest(found: &[f64], expected: &[f64], dtype: DType, is_whole: bool) -> Worst {
    if found.len() != expected.len() {
        return Worst { error: f64::INFINITY, at: 0 };
    }
    let finite = expected.iter().filter(|x| x.is_finite());
    let scale = if is_whole { finite.fold(0.0f64, |most, x| most.max(x.abs())) } else { 0.0 };
    let errors = found.iter().zip(expected).map(|(&x, &y)| error(x, y, dtype, scale));
    let errors = errors.enumerate().map(|(at, error)| Worst { error, at });
    errors.fold(
        Worst { error: 0.0, at: 0 },
        |worst, other| if other.error > worst.error { other } else { worst },
    )
}

/// The error of one element, beside elements up to `scale`.
pub fn error(found: f64, expected: f64, dtype: DType, scale: f64) -> f64 {
    let is_same = found == expected || (found.is_nan() && expected.is_nan());
    if is_same {
        return 0.0;
    }
    let Some(format) = Format::of(dtype) else { return f64::INFINITY };
    if found.is_nan() || expected.is_nan() || expected.is_infinite() {
        return f64::INFINITY;
    }
    // An infinite result is the next number after the largest one.
    let beyond = 2f64.powi(format.most).clamp(-f64::MAX, f64::MAX);
    let [found, expected] = [found, expected].map(|x| x.clamp(-beyond, beyond));
    (found - expected).abs() / format.unit(expected.abs().max(scale))
}

/// A binary floating-point format.
struct Format {
    /// Binary digits of the significand, the hidden one included.
    digits: i32,
    /// The exponent of the least normal number.
    least: i32,
    /// The exponent of the first number that is too large.
    most: i32,
}

impl Format {
    fn of(dtype: DType) -> Option<Format> {
        let (digits, least, most) = match dtype {
            DType::F16 => (11, -14, 16),
            DType::BF16 => (8, -126, 128),
            DType::F32 => (24, -126, 128),
            DType::F64 => (53, -1022, 1024),
            _ => return None,
        };
        Some(Format { digits, least, most })
    }

    /// The distance of neighbours at a magnitude.
    fn unit(&self, magnitude: f64) -> f64 {
        let exponent = match magnitude < f64::MIN_POSITIVE {
            true => self.least,
            false => ((magnitude.to_bits() >> 52) as i32 - 1023).clamp(self.least, self.most - 1),
        };
        // In two factors, since the least unit of f64 is no normal number.
        2f64.powi(exponent) * 2f64.powi(1 - self.digits)
    }
}

#[test]
fn errors_are_counted_in_units_of_the_type() {
    let of = |found, expected, dtype| error(found, expected, dtype, 0.0);
    assert_eq!(of(1.0 + 2f64.powi(-23), 1.0, DType::F32), 1.0);
    assert_eq!(of(1.0 - 2f64.powi(-24), 1.0, DType::F32), 0.5);
    assert_eq!(of(2.0 + 2f64.powi(-9), 2.0, DType::F16), 1.0);
    assert_eq!(of(2f64.powi(-149), 0.0, DType::F32), 1.0);
    assert_eq!(of(f64::INFINITY, 1e300, DType::F32), 0.0);
    assert_eq!(of(f64::from(f32::MAX), 1e300, DType::F32), 1.0);
    assert_eq!(of(f64::from_bits(1), 0.0, DType::F64), 1.0);
    for (found, expected) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::from(f32::MAX), f64::INFINITY)] {
        assert_eq!(of(found, expected, DType::F32), f64::INFINITY);
    }
    assert_eq!(of(1.0, 2.0, DType::I32), f64::INFINITY);
    assert_eq!(error(1.0, 0.0, DType::BF16, 256.0), 0.5);
    assert_eq!(largest(&[1.0], &[1.0, 2.0], DType::F32, false).error, f64::INFINITY);
}
