//! Reductions of segments.

use super::limits::bounds;
use engine_core::ir::{Binary, Builder, DType, E, Literal, Monoid, Type, Value};

/// Elements of a block, whose reduction is shared by all segments that hold it.
const BLOCK: usize = 32;

/// A reduction of segments of `[n, …]`.
pub fn reduced(b: &mut Builder, x: Value, lims: Value, monoid: Monoid) -> Value {
    let extents = b.extents(x);
    let (n, width) = (extents[0], extents[1..].iter().product());
    let lims = b.cast(lims, DType::I32);
    let lims = b.check_index(lims, n + 1);
    let [starts, ends] = bounds(b, lims);
    let mut shape = extents;
    shape[0] = b.extents(starts)[0];
    let dtype = b.dtype(x);
    let neutral = neutral(monoid, dtype);
    if n == 0 || width == 0 {
        return b.full(neutral, Type::new(dtype, &shape));
    }
    let x = b.reshape(x, &[n, width]);
    let y = Reduction { monoid, neutral }.of_segments(b, x, [starts, ends]);
    b.reshape(y, &shape)
}

/// What a reduction of no elements yields.
fn neutral(monoid: Monoid, dtype: DType) -> Literal {
    let is_float = dtype.is_float();
    match monoid {
        Monoid::Max if is_float => Literal::Float(f64::NEG_INFINITY),
        Monoid::Min if is_float => Literal::Float(f64::INFINITY),
        Monoid::Max => Literal::Int(dtype.int_range().map_or(0, |range| range.0)),
        Monoid::Min => Literal::Int(dtype.int_range().map_or(0, |range| range.1)),
        _ => Literal::Int(0).cast(dtype),
    }
}

/// A reduction and its neutral element.
struct Reduction {
    monoid: Monoid,
    neutral: Literal,
}

impl Reduction {
    /// Segments of `x`, `[n, width]`, between starts and ends: elements at both ends, and whole blocks between them.
    fn of_segments(&self, b: &mut Builder, x: Value, [starts, ends]: [Value; 2]) -> Value {
        let [n, width] = [b.extents(x)[0], b.extents(x)[1]];
        if n <= 2 * BLOCK {
            return self.of_few(b, x, [starts, ends]);
        }
        let size = BLOCK as f64;
        let first = b.map(&[starts], |v| (v[0] + (size - 1.0)) / size);
        let last = b.map(&[ends], |v| v[0] / size);
        let rest = self.at_both_ends(b, x, [starts, ends], [first, last]);
        let n_blocks = n.div_ceil(BLOCK);
        let padded = b.pad(x, &[0, 0], &[n_blocks * BLOCK - n, 0], self.neutral);
        let blocks = b.reshape(padded, &[n_blocks, BLOCK, width]);
        let blocks = b.reduce(self.monoid, blocks, &[1]);
        let between = self.of_segments(b, blocks, [first, last]);
        let combine = match self.monoid {
            Monoid::Max => Binary::Max,
            Monoid::Min => Binary::Min,
            _ => Binary::Add,
        };
        b.binary(combine, rest, between)
    }

    /// Segments of few elements: each looks at all of them.
    fn of_few(&self, b: &mut Builder, x: Value, bounds: [Value; 2]) -> Value {
        let [n, width] = [b.extents(x)[0], b.extents(x)[1]];
        let shape = [b.extents(bounds[0])[0], n, width];
        let place = b.iota(1, Type::new(DType::I32, &shape));
        let all = Type::new(b.dtype(x), &shape);
        let [starts, ends] = bounds.map(|limit| b.broadcast_axes(limit, &[0], &all.shape));
        let elements = b.broadcast_axes(x, &[1, 2], &all.shape);
        let neutral = self.neutral;
        let masked = b.map(&[place, starts, ends, elements], |v| {
            E::select(v[0].ge(v[1]) & v[0].lt(v[2]), v[3], neutral)
        });
        b.reduce(self.monoid, masked, &[1])
    }

    /// The elements of segments before block `first` and from block `last` on.
    fn at_both_ends(&self, b: &mut Builder, x: Value, bounds: [Value; 2], blocks: [Value; 2]) -> Value {
        let [n, width] = [b.extents(x)[0], b.extents(x)[1]];
        let n_rows = b.extents(bounds[0])[0];
        let shape = Type::new(DType::I32, &[n_rows, 2 * BLOCK]);
        let place = b.iota(1, shape.clone());
        let [starts, ends, first, last] =
            [bounds[0], bounds[1], blocks[0], blocks[1]].map(|x| b.broadcast_axes(x, &[0], &shape.shape));
        let size = BLOCK as f64;
        let at = b.map(&[place, starts, last], |v| {
            E::select(v[0].lt(size), v[1] + v[0], v[2] * size + (v[0] - size))
        });
        let counts = b.map(&[place, at, ends, first, last], |v| {
            let [place, at, end, first, last] = [v[0], v[1], v[2], v[3], v[4]];
            let is_before = place.lt(size) & at.lt(first * size);
            let is_behind = place.ge(size) & last.ge(first);
            at.lt(end) & (is_before | is_behind)
        });
        let inside = b.map(&[at], |v| v[0].min((n - 1) as f64));
        let elements = b.gather(x, inside, 0, 0);
        let all = Type::new(b.dtype(x), &[n_rows, 2 * BLOCK, width]);
        let counts = b.broadcast_axes(counts, &[0, 1], &all.shape);
        let neutral = self.neutral;
        let masked = b.map(&[counts, elements], |v| E::select(v[0], v[1], neutral));
        b.reduce(self.monoid, masked, &[1])
    }
}
