//! Differences between numbers.

use engine_core::ir::DType;
use engine_core::oracle::OracleTensor;
use engine_runtime::tensor::HostTensor;

/// The tolerance of each element of a tensor.
pub(super) struct Near {
    dtype: DType,
    allowed: f64,
    /// The largest magnitude among the elements.
    pub(super) largest: f64,
}

impl Near {
    /// Numbers within `allowed` of the element and of the largest element.
    pub(super) fn to(expected: &[f64], dtype: DType, allowed: f64) -> Near {
        let finite = expected.iter().filter(|x| x.is_finite());
        Near { dtype, allowed, largest: finite.fold(0.0f64, |largest, x| largest.max(x.abs())) }
    }

    /// The error of a number for the element `b`, in multiples of the tolerance. 0 if it is within the tolerance.
    pub(super) fn excess(&self, a: f64, b: f64) -> f64 {
        let error = (a - b).abs();
        // Near the end of the range, the order of operations decides about overflow. But a NaN must not become another
        // number.
        let end = if self.dtype == DType::F16 { 6e4 } else { 1e30 };
        let is_at_end = |x: f64| !x.is_finite() || x.abs() > end;
        let overflows = is_at_end(b) && (is_at_end(a) || !b.is_nan());
        // Below the normal numbers, roundings are as large as the numbers. The smallest normal number may be rounded to
        // a subnormal one.
        let vanishes = error <= smallest_normal(self.dtype);
        let bound = self.allowed * (b.abs() + self.largest);
        match is_equal(a, b) || (self.dtype.is_float() && (overflows || vanishes || error <= bound)) {
            true => 0.0,
            false if self.dtype.is_float() && error.is_finite() => error / bound,
            false => f64::INFINITY,
        }
    }
}

/// Whether two numbers are equal. All NaN are equal.
pub(super) fn is_equal(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

/// The distance of `a` from `b`, in units in the last place of `b`.
pub(super) fn units_between(a: f64, b: f64, dtype: DType) -> f64 {
    if is_equal(a, b) { 0.0 } else { (a - b).abs() / unit_in_last_place(b, dtype) }
}

/// The elements of two tensors that are nearer to the found ones.
pub(super) fn nearer(found: &HostTensor, one: &OracleTensor, other: &OracleTensor) -> OracleTensor {
    let (found, one_of, other_of) = (found.to_f64(), one.to_f64(), other.to_f64());
    let is_nearer = |x: f64, a: f64, b: f64| {
        !is_equal(x, a) && (is_equal(x, b) || a.is_nan() || (x - b).abs() < (x - a).abs())
    };
    let triples = found.into_iter().zip(one_of.into_iter().zip(other_of));
    let nearest: Vec<f64> = triples.map(|(x, (a, b))| if is_nearer(x, a, b) { b } else { a }).collect();
    OracleTensor::new(one.dtype, &one.extents, &nearest)
}

/// The elements of a tensor, or those of another where it has NaN and a number was found.
pub(super) fn instead_of_nan(found: &HostTensor, one: &OracleTensor, other: &OracleTensor) -> OracleTensor {
    let pairs = one.to_f64().into_iter().zip(other.to_f64());
    let chosen = found.to_f64().into_iter().zip(pairs);
    let chosen: Vec<f64> = chosen.map(|(x, (a, b))| if a.is_nan() && !x.is_nan() { b } else { a }).collect();
    OracleTensor::new(one.dtype, &one.extents, &chosen)
}

/// A histogram of errors in units in the last place.
#[derive(Clone, Default)]
pub(super) struct Histogram {
    pub(super) counts: [usize; 6],
}

impl Histogram {
    const LIMITS: [f64; 5] = [0.0, 1.0, 4.0, 16.0, 256.0];

    pub(super) fn head() -> String {
        let limits = Histogram::LIMITS.iter().skip(1).map(|limit| format!("≤ {limit}"));
        let heads: Vec<String> =
            ["0".to_string()].into_iter().chain(limits).chain(["more".to_string()]).collect();
        heads.iter().map(|head| format!("{head:>9}")).collect::<Vec<String>>().join(" ")
    }

    pub(super) fn text(&self) -> String {
        let counts: Vec<String> = self.counts.iter().map(|count| format!("{count:>9}")).collect();
        counts.join(" ")
    }

    /// Counts all elements. Fails with the first whose error exceeds `allowed` of itself and of the largest element. If
    /// the sensitivity `spread` is known, the error must also exceed some multiple of it.
    pub(super) fn count(
        &mut self,
        found: &HostTensor,
        expected: &OracleTensor,
        allowed: f64,
        spread: &[f64],
    ) -> Result<(), String> {
        let (dtype, expected) = (expected.dtype, expected.to_f64());
        let near = Near::to(&expected, dtype, allowed);
        for (i, (a, &b)) in found.to_f64().into_iter().zip(&expected).enumerate() {
            let is_rounding =
                spread.get(i).is_some_and(|&most| (a - b).abs() <= 8.0 * most || most.is_infinite());
            if near.excess(a, b) > 0.0 && !is_rounding {
                return Err(format!("[{i}] is {a} instead of {b}"));
            }
            self.put(units_between(a, b, dtype));
        }
        Ok(())
    }

    /// Counts positions in rows of `from`. The error of a position is the distance of the elements at the two
    /// positions, since near elements may change places.
    pub(super) fn count_places(
        &mut self,
        found: &HostTensor,
        expected: &OracleTensor,
        from: &OracleTensor,
        allowed: f64,
    ) -> Result<(), String> {
        let (dtype, length) = (from.dtype, from.extents.last().copied().unwrap_or(1).max(1));
        let (expected, from) = (expected.to_f64(), from.to_f64());
        let near = Near::to(&from, dtype, allowed);
        let per_row = (expected.len() * length / from.len().max(1)).max(1);
        for (i, (a, &b)) in found.to_f64().into_iter().zip(&expected).enumerate() {
            let row = &from[i / per_row * length..][..length];
            let element = |place: f64| (place >= 0.0).then(|| row.get(place as usize).copied()).flatten();
            match (element(a), element(b)) {
                _ if a == b => self.put(0.0),
                (Some(x), Some(y)) if near.excess(x, y) == 0.0 => self.put(units_between(x, y, dtype)),
                _ => return Err(format!("[{i}] is {a} instead of {b}")),
            }
        }
        Ok(())
    }

    fn put(&mut self, units: f64) {
        let bucket = Histogram::LIMITS.iter().position(|&limit| units <= limit);
        self.counts[bucket.unwrap_or(Histogram::LIMITS.len())] += 1;
    }
}

pub(super) fn smallest_normal(dtype: DType) -> f64 {
    let exponent = match dtype {
        DType::F16 => -14,
        DType::F64 => -1022,
        _ => -126,
    };
    f64::powi(2.0, exponent)
}

pub(super) fn unit_in_last_place(x: f64, dtype: DType) -> f64 {
    let (bits, smallest) = match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        _ => (52, -1022),
    };
    let exponent = if x == 0.0 { smallest } else { (x.abs().log2().floor() as i32).max(smallest) };
    f64::powi(2.0, exponent - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_nan_is_no_overflow() {
        let near = Near::to(&[1.0, 2.0], DType::F32, 1e-5);
        let is_near = |a: f64, b: f64| near.excess(a, b) == 0.0;
        assert!(
            is_near(f64::NAN, f64::NAN)
                && is_near(f64::INFINITY, f64::NAN)
                && is_near(f64::NAN, f64::INFINITY)
        );
        assert!(is_near(f64::INFINITY, 2e30) && is_near(1e38, f64::INFINITY));
        assert!(!is_near(1.0, f64::NAN) && !is_near(f64::NAN, 1.0) && !is_near(f64::INFINITY, 1.0));
        assert!(!is_near(f64::INFINITY, 65504.0));
        let near = Near::to(&[1.0, 2.0], DType::F16, 1e-2);
        assert_eq!(
            (near.excess(f64::INFINITY, 65504.0), near.excess(-65504.0, f64::NEG_INFINITY)),
            (0.0, 0.0)
        );
        assert!(near.excess(f64::INFINITY, 5e4) > 0.0);
    }
}
