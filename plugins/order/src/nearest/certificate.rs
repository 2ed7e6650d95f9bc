//! Certificates: what proves that no row outside the candidates is among the nearest.
//!
//! Let `u` be the relative error of a factor and `s` that of the sums of a product of length d. The product of q and x then
//! has an error of at most `((1 + u)² (1 + s) - 1)·|q|·|x|`, by Cauchy-Schwarz. The scores of a first pass are lower bounds:
//! this error is taken off each of them. `|q|·|x|` is at most `(|q|² + |x|²) / 2`, so for squared distances a factor of the
//! norms does it. Every row outside the candidates has at least the least score of the other blocks. If that lies behind the
//! k-th value of the candidates, no such row is nearer.

use super::metric::Metric;
use engine_core::ir::{Builder, DType, E, MatmulSpec, Monoid, Value};
use engine_core::numerics::Precision;

/// Errors of a first pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Of a product of two vectors, relative to both lengths: a scalar.
    product: Value,
    /// The precision that the product asks for.
    pub precision: Option<Precision>,
    /// Of a sum of d products, rounded to the nearest, relative to the sum of their magnitudes.
    sum: f64,
}

/// The factors of the products of a first pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor {
    pub dtype: DType,
    /// The precision that products of `f32` ask for.
    pub precision: Option<Precision>,
}

/// The relative error of a number that is rounded to bf16, at most.
pub const BF16: f64 = 1.0 / 256.0;
/// The relative error of a number whose mantissa is cut off behind 10 bits, at most.
const TF32: f64 = 1.0 / 1024.0;

impl Errors {
    /// The errors of products of d numbers of the type `factor`, for values of the type `exact`. `rounded` are the relative
    /// errors of the factors, `[]` each, if these are copies.
    ///
    /// TF32 keeps 10 bits of mantissa and cuts the rest off. Tensor cores may cut the sums off, too, and align them with the
    /// largest product.
    pub fn of(
        b: &mut Builder,
        exact: DType,
        factor: Factor,
        d: usize,
        rounded: Option<[Value; 2]>,
    ) -> Errors {
        let sum = (d + 16) as f64 * unit(exact);
        let Factor { dtype, precision } = factor;
        let is_tf32 = dtype == DType::F32 && b.target.precision(precision) == Precision::Tf32;
        let is_cut = is_tf32 || dtype.accumulator() != dtype;
        let sums = 1.0 + if is_cut { 2.0 * sum } else { sum };
        let product = match rounded {
            Some(factors) => b.map(&factors, |v| (1.0 + v[0]) * (1.0 + v[1]) * sums - 1.0),
            None => {
                let cut = if is_tf32 { TF32 } else { 0.0 };
                b.constant((1.0 + cut).powi(2) * sums - 1.0, exact)
            }
        };
        Errors { product, precision, sum }
    }

    /// The errors of products of coordinates that stand for vectors of length d. `moved` is how far they may be from exact
    /// ones, relative to the length of their vector.
    pub fn of_coordinates(self, b: &mut Builder, exact: DType, moved: Value, d: usize) -> Errors {
        let product = b.map(&[self.product, moved], |v| (1.0 + v[0]) * (1.0 + v[1]) * (1.0 + v[1]) - 1.0);
        Errors { product, sum: (d + 16) as f64 * unit(exact), ..self }
    }
}

fn unit(dtype: DType) -> f64 {
    if dtype == DType::F64 { 2f64.powi(-52) } else { 2f64.powi(-23) }
}

/// A copy of vectors in a type of halves, and the largest error of a vector relative to its length, `[]`. `norms` are the
/// squared norms. Lengths of errors are about half of what their numbers may be wrong by.
pub fn rounded(b: &mut Builder, x: Value, norms: Value, halves: DType) -> (Value, Value) {
    let copy = b.cast(x, halves);
    let dtype = b.dtype(x);
    let back = b.cast(copy, dtype);
    let errors = b.map(&[x, back], |v| (v[0] - v[1]) * (v[0] - v[1]));
    let errors = b.sum(errors, &[1]);
    let relative = b.map(&[errors, norms], |v| {
        let is_large = v[1].gt(TINY) & v[1].lt(f64::INFINITY);
        let of_small = E::select(v[1].gt(0.0) & v[1].le(TINY), BF16, 0.0);
        E::select(is_large, (v[0] / v[1]).sqrt() * 1.001, of_small)
    });
    (copy, b.reduce(Monoid::Max, relative, &[0]))
}

/// Squares of such numbers may vanish.
const TINY: f64 = 1e-30;
/// Of vectors with lesser squared norms, products may lose digits: their errors are not relative to lengths.
const SHORT: f64 = 1e-24;
/// Squared norms of `f32` from about 3e38 on overflow. A row of such a norm is farther than `FAR` from a shorter vector than
/// `LONG`, both squared.
const LONG: f64 = 1e36;
const FAR: f64 = 1e38;

impl Errors {
    /// Scores `[m, n]` of queries and rows by their products, less the errors of these. Less is nearer; what does not
    /// depend on the row is left out. `norms` are the squared norms of the rows; for cosines, their inverse norms, infinite
    /// if nothing is known of their angles. Inner products are those of queries of length 1.
    pub fn scores(
        &self,
        b: &mut Builder,
        metric: Metric,
        [queries, base]: [Value; 2],
        norms: Value,
    ) -> Value {
        let spec = MatmulSpec::new(vec![], vec![(1, 1)]).with_precision(self.precision);
        let products = b.matmul_wide(queries, base, spec);
        match metric {
            Metric::Squared => {
                let kept = b.map(&[norms, self.product], |v| v[0] * (1.0 - (v[1] + 2.0 * self.sum)));
                b.map(&[products, kept], |v| v[1] - 2.0 * v[0])
            }
            Metric::Inner => {
                let errors =
                    b.map(&[norms, self.product], |v| (v[0] + SHORT).sqrt() * (v[1] + 3.0 * self.sum));
                b.map(&[products, errors], |v| -(v[0] + v[1]))
            }
            Metric::Cosine => b.map(&[products, norms], |v| {
                E::select(v[1].lt(f64::INFINITY), -(v[0] * v[1]), f64::NEG_INFINITY)
            }),
        }
    }

    /// The inverse of twice the error of `|x|² - 2·q·x` beside the exact squared distance, `[m]`, where what does not depend on
    /// x is left out. `norms` are the squared norms of the queries, and no row is longer than the root of `longest`.
    pub fn doubt(&self, b: &mut Builder, norms: Value, longest: Value) -> Value {
        let longest = b.unreduce(longest, &[0], norms);
        let product = b.unreduce(self.product, &[0], norms);
        b.map(&[norms, longest, product], |v| {
            let [q, x] = [v[0].sqrt(), v[1].sqrt()];
            let both = q + x;
            // Products, sums of squares, and the differences by which rows are compared.
            let error = v[2] * 2.0 * q * x + both * both * (4.0 * self.sum);
            1.0 / (error * 2.0 + TINY)
        })
    }

    /// Whether no row outside the candidates is nearer than the k-th of them, `bool[m]`: from the norms of the queries as
    /// in [`Errors::bound`], the least score outside, and the k-th value of the candidates, each `[m]`. A NaN proves nothing.
    ///
    /// A row whose squared norm overflows may have any score. It is farther from a query of moderate length than
    /// [`FAR`], so nothing is certain of other queries and of farther candidates.
    pub fn certified(&self, b: &mut Builder, metric: Metric, [norms, least, farthest]: [Value; 3]) -> Value {
        let [slope, offset] = self.bound(b, metric, norms);
        let certified = b.map(&[slope, least, offset, farthest], |v| (v[0] * v[1] + v[2]).gt(v[3]));
        match metric {
            Metric::Squared => b.map(&[certified, norms, farthest], |v| v[0] & v[1].lt(LONG) & v[2].lt(FAR)),
            _ => certified,
        }
    }

    /// [`Errors::bound`] for scores from [`Errors::moderate`]: long queries hide no row, as in [`Errors::certified`].
    pub fn moderate_bound(&self, b: &mut Builder, metric: Metric, norms: Value) -> [Value; 2] {
        let [slope, offset] = self.bound(b, metric, norms);
        if metric != Metric::Squared {
            return [slope, offset];
        }
        [slope, b.map(&[offset, norms], |v| E::select(v[1].lt(LONG), v[0], f64::NEG_INFINITY))]
    }

    /// Scores of which none is beyond [`FAR`]: a row whose squared norm overflows may be as near as that.
    pub fn moderate(&self, b: &mut Builder, metric: Metric, scores: Value) -> Value {
        match metric {
            Metric::Squared => b.map(&[scores], |v| E::select(v[0].gt(FAR), FAR, v[0])),
            _ => scores,
        }
    }

    /// Slope and offset of the bound of each query: the value of a row is at least `slope·score + offset`. `norms` are the
    /// squared norms of the queries; for cosines, their inverse norms, infinite if nothing is known of their angles.
    pub fn bound(&self, b: &mut Builder, metric: Metric, norms: Value) -> [Value; 2] {
        let sum = self.sum;
        // Values are rounded, and so are bounds.
        let slack = 1.0 - 2.0 * sum;
        match metric {
            Metric::Squared => {
                let offset = b.map(&[norms, self.product], |v| {
                    let kept = v[0] * (1.0 - (v[1] + 2.0 * sum));
                    (kept - TINY) * slack
                });
                [b.full_like(norms, slack), offset]
            }
            // Bounds of short queries prove nothing.
            Metric::Inner => {
                let offset = b.map(&[norms], |v| E::select(v[0].lt(SHORT), f64::NEG_INFINITY, -TINY));
                [b.map(&[norms], |v| v[0].sqrt()), offset]
            }
            Metric::Cosine => {
                let slope = b.map(&[norms], |v| E::select(v[0].lt(f64::INFINITY), v[0] * slack, 0.0));
                let offset = b.map(&[self.product, norms], |v| {
                    let kept = (1.0 - (v[0] + 4.0 * sum)) * slack;
                    E::select(v[1].lt(f64::INFINITY), kept, f64::NEG_INFINITY)
                });
                [slope, offset]
            }
        }
    }
}
