//! Heads and tails: few coordinates of long vectors, which bound their products.
//!
//! Let V have orthonormal columns, and let y be x less a mean. The head of x is `h = Vᵀ·y`, and its tail is `t = |y - V·h|`.
//! By Cauchy-Schwarz, the product of two vectors y is at most `h·h' + t·t'`. So a matrix of heads with the tail as one more
//! column takes the place of the vectors in a first pass. Squared norms stay those of y.
//!
//! V need not be orthonormal. Let ε be the Frobenius norm of `VᵀV - 1`. The nearest matrix of orthonormal columns is at
//! most ε away, since roots are nearer to 1 than their squares. So a product with V is wrong by ε·|y| at most.

use super::lengths::{Lengths, squared_norms, times};
use engine_core::ir::{Binary, Builder, DType, MatmulSpec, Type, Value};
use engine_core::numerics::Precision;

/// What heads are made with.
pub struct Head {
    /// Directions as columns, `[d, count]`.
    axes: Value,
    /// The vector that is taken off each other, `[d]`.
    mean: Option<Value>,
}

/// Heads and tails of queries and base.
pub struct Coordinates {
    /// The coordinates of both, `[m, count + 1]` and `[n, count + 1]`.
    pub factors: [Value; 2],
    /// The squared norms of the vectors less the mean, or of scaled ones.
    pub norms: [Value; 2],
    /// How far coordinates may be from exact ones, relative to the length of their vector: a scalar.
    pub error: Value,
}

impl Head {
    /// The head of axes and perhaps a mean, in the type `dtype`.
    pub fn of(b: &mut Builder, operands: &[Value], dtype: DType) -> Option<Head> {
        let axes = operands.first().map(|&axes| b.cast(axes, dtype))?;
        Some(Head { axes, mean: operands.get(1).map(|&mean| b.cast(mean, dtype)) })
    }

    /// The coordinates of queries `[m, d]` and base `[n, d]`, times the scales of their `lengths`, if these are given.
    pub fn coordinates(
        &self,
        b: &mut Builder,
        vectors: [Value; 2],
        lengths: Option<[Lengths; 2]>,
    ) -> Coordinates {
        let vectors = vectors.map(|x| match self.mean {
            Some(mean) => b.map(&[x, mean], |v| v[0] - v[1]),
            None => x,
        });
        let norms = match lengths {
            Some(lengths) => lengths.map(|lengths| lengths.squares),
            None => vectors.map(|x| squared_norms(b, x)),
        };
        let factors = [0, 1].map(|side| {
            let scales = lengths.map(|lengths| lengths[side].scales);
            self.head_and_tail(b, vectors[side], scales)
        });
        Coordinates { factors, norms, error: self.error(b) }
    }

    fn head_and_tail(&self, b: &mut Builder, x: Value, scales: Option<Value>) -> Value {
        let mut heads = product(b, x, self.axes, [1, 0]);
        let within = product(b, heads, self.axes, [1, 1]);
        let mut rest = b.map(&[x, within], |v| v[0] - v[1]);
        if let Some(scales) = scales {
            [heads, rest] = [heads, rest].map(|part| times(b, part, scales));
        }
        let squares = b.map(&[rest], |v| v[0] * v[0]);
        let tails = b.sum(squares, &[1]);
        let tails = b.map(&[tails], |v| v[0].sqrt());
        let n = b.extents(x)[0];
        let tails = b.reshape(tails, &[n, 1]);
        b.concat(&[heads, tails], 1)
    }

    /// The error of coordinates. A sum of n products is wrong by `(n + 16)·u` of the sum of their magnitudes at most, and
    /// the magnitudes of `Vᵀ·y` add up to `|V|·|y|`, with the Frobenius norm of V.
    fn error(&self, b: &mut Builder) -> Value {
        let dtype = b.dtype(self.axes);
        let [d, count] = [0, 1].map(|axis| b.extents(self.axes)[axis]);
        let unit = if dtype == DType::F64 { 2f64.powi(-52) } else { 2f64.powi(-23) };
        let [of_head, of_within] = [d, count].map(|n| (n + 16) as f64 * unit);
        let size = squared_norms(b, self.axes);
        let size = b.sum(size, &[0]);
        let skew = self.skew(b, dtype);
        b.map(&[size, skew], |v| {
            let size = v[0].sqrt() * 1.01;
            let head = size * of_head + v[1] * 1.01 + 4.0 * unit;
            let within = (size * of_within + v[1]) * (1.0 + head);
            let tail = (head + within) * (1.0 + of_head) + (of_head + 4.0 * unit);
            (head * head + tail * tail).sqrt() * 1.01
        })
    }

    /// The Frobenius norm of `VᵀV - 1`, at most. Its rounding counts, so it is computed in double precision if possible.
    fn skew(&self, b: &mut Builder, dtype: DType) -> Value {
        let [d, count] = [0, 1].map(|axis| b.extents(self.axes)[axis]);
        let (wide, rounding) = match b.target.has_f64 {
            true => (DType::F64, 2f64.powi(-52)),
            false => (dtype, 2f64.powi(-23)),
        };
        let axes = b.cast(self.axes, wide);
        let gram = product(b, axes, axes, [0, 0]);
        let [row, column] = [0, 1].map(|axis| b.iota(axis, Type::new(DType::I32, &[count, count])));
        let on = b.binary(Binary::Eq, row, column);
        let unit = b.cast(on, wide);
        let squares = b.map(&[gram, unit], |v| (v[0] - v[1]) * (v[0] - v[1]));
        let sum = b.sum(squares, &[0, 1]);
        // The squares of all columns add up to `count·(1 + ε)` at most.
        let rounding = count as f64 * (d + 16) as f64 * rounding;
        let rounding = if rounding < 0.5 { rounding } else { f64::INFINITY };
        let skew = b.map(&[sum], |v| (v[0].sqrt() * 1.01 + rounding) * (1.0 + 2.0 * rounding));
        b.cast(skew, dtype)
    }
}

/// The product of two matrices along these axes, in full precision.
fn product(b: &mut Builder, lhs: Value, rhs: Value, [left, right]: [usize; 2]) -> Value {
    let precision = (b.target.precision(None) != Precision::F32).then_some(Precision::F32);
    let spec = MatmulSpec::new(vec![], vec![(left, right)]).with_precision(precision);
    b.matmul(lhs, rhs, spec)
}
