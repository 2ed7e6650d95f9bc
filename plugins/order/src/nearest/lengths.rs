//! Lengths of rows for cosines. The squares of a row's numbers may be beyond the range of their type.
//!
//! Each row is multiplied by a power of two near the inverse of its largest magnitude, before squares are added up. Such a
//! product is not rounded, so ordinary rows keep the bits of their cosines, and relative errors stay the same. Small numbers
//! of a row may vanish: they are less than 2⁻¹⁰⁰ of its largest one.

use engine_core::ir::{Builder, DType, E, Monoid, Value};

/// Powers of two by which rows are multiplied, and the squared lengths of these products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// A power of two for each row, `[n]`. Rows times these have a largest magnitude near 1.
    pub scales: Value,
    /// The squared norms of these products, `[n]`.
    pub squares: Value,
}

/// Scales are `2^(step·j)` for whole numbers j from minus this to this.
const MOST_STEPS: i32 = 7;

impl Lengths {
    /// The lengths of rows `[n, d]`, `f32` or `f64`.
    pub fn of(b: &mut Builder, x: Value) -> Lengths {
        let scales = scales(b, x);
        let scaled = times(b, x, scales);
        Lengths { scales, squares: squared_norms(b, scaled) }
    }

    /// The inverse norms of rows times their scales, `[n]`: 0 of a row of zeros and of an infinite row, NaN of a NaN.
    pub fn inverses(&self, b: &mut Builder) -> Value {
        inverses(b, self.squares)
    }

    /// The rows at length 1. Zeros stay.
    pub fn unit_rows(&self, b: &mut Builder, x: Value) -> Value {
        let scaled = times(b, x, self.scales);
        let inverses = self.inverses(b);
        times(b, scaled, inverses)
    }

    /// The inverse norms for a first pass, `[n]`: those of rows times their scales, or of the rows as they are. It is 0 of a
    /// row of zeros, and infinite where a product tells nothing of angles: its terms may vanish, overflow or be NaN.
    pub fn known_inverses(&self, b: &mut Builder, is_scaled: bool) -> Value {
        // Scaled vectors of such lengths are at least 2⁻⁸ long (2⁻⁶⁴ in `f64`). So terms of the product of a scaled vector
        // and a given one vanish only if they are less than 2⁻³⁰ of both lengths, and they do not overflow.
        let longest = 2f64.powi(if b.dtype(self.squares) == DType::F64 { 800 } else { 88 });
        b.map(&[self.squares, self.scales], |v| {
            let scaled = v[0].rsqrt();
            let given = scaled * v[1];
            let is_known = given.ge(1.0 / longest) & given.le(longest);
            let known = if is_scaled { scaled } else { given };
            E::select(v[0].eq(0.0), 0.0, E::select(is_known, known, f64::INFINITY))
        })
    }
}

/// Each row times a number of its own.
pub fn times(b: &mut Builder, x: Value, of_rows: Value) -> Value {
    let of_rows = b.unreduce(of_rows, &[1], x);
    b.map(&[x, of_rows], |v| v[0] * v[1])
}

/// A power of two for each row, 1 if its largest magnitude is near 1. It is constant for gradients.
fn scales(b: &mut Builder, x: Value) -> Value {
    if b.extents(x)[1] == 0 {
        let sums = b.sum(x, &[1]);
        return b.full_like(sums, 1.0);
    }
    let dtype = b.dtype(x);
    let step = if dtype == DType::F64 { 128 } else { 16 };
    let sizes = b.map(&[x], |v| v[0].abs());
    let largest = b.reduce(Monoid::Max, sizes, &[1]);
    let scale = |steps: i32| 2f64.powi(-step * steps);
    let end = |steps: i32| 2f64.powi(step * steps + step / 2);
    // An operand, since formulas of constants alone are `f32`.
    let of_longest = b.constant(scale(MOST_STEPS), dtype);
    b.map(&[largest, of_longest], |v| {
        let steps = (-MOST_STEPS..MOST_STEPS).rev();
        steps.fold(v[1], |longer, steps| E::select(v[0].lt(end(steps)), scale(steps), longer))
    })
}

/// `|x|²` of each row, along the last axis.
pub fn squared_norms(b: &mut Builder, x: Value) -> Value {
    let squares = b.map(&[x], |v| v[0] * v[0]);
    let last = b.ty(x).rank() - 1;
    b.sum(squares, &[last])
}

/// `1 / √x`, 0 of 0, NaN of NaN.
pub fn inverses(b: &mut Builder, squares: Value) -> Value {
    b.map(&[squares], |v| {
        let others = E::select(v[0].is_nan(), v[0], 0.0);
        E::select(v[0].gt(0.0), v[0].rsqrt(), others)
    })
}
